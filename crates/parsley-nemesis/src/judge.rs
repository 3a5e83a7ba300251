//! Judges a run by what was recorded of it: twice over the order of deliveries, by `parsley topic check` and by the oracle, and once over the effects.

use std::path::{Path, PathBuf};

use crate::Trouble;
use crate::evidence;
use crate::history::History;

mod checked;
mod effects;
mod oracle;
mod tampered;
mod trace;

/// What the judges say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Deliveries that were judged.
    pub deliveries: u64,
    /// What `parsley topic check` found.
    pub by_check: u64,
    /// What the oracle found, which goes on after the first only for a while.
    pub by_oracle: u64,
    /// What is wrong with effects and their counts.
    pub by_effects: u64,
    /// What `parsley topic check` found in the account of the spare application.
    pub of_spare: u64,
    /// The first of all these, in words.
    pub shown: Vec<String>,
    /// The copies that were tampered with, and what `parsley topic check` and the oracle found in each.
    pub tampered: Vec<(&'static str, u64, u64)>,
}

impl Verdict {
    /// Whether nothing is wrong, and each judge has seen what was tampered with.
    pub fn is_right(&self) -> bool {
        self.violations() == 0 && self.unseen().is_empty()
    }

    /// What was tampered with and a judge has not seen, and what the history had not what it takes for.
    pub fn unseen(&self) -> Vec<String> {
        let unseen = |way: &str| {
            let Some((_, check, oracle)) = self.tampered.iter().find(|one| one.0 == way) else {
                return Some(format!("{way}: the history is too small for it"));
            };
            let by = match (check, oracle) {
                (0, 0) => "either judge",
                (0, _) => "`parsley topic check`",
                (_, 0) => "the oracle",
                _ => return None,
            };
            Some(format!("{way}, and not seen by {by}"))
        };
        let ways = tampered::WAYS.iter();
        ways.filter_map(|(way, _)| unseen(way)).collect()
    }

    /// All that was found.
    pub fn violations(&self) -> u64 {
        self.by_check + self.by_oracle + self.by_effects + self.of_spare
    }
}

/// The evidence and the program to judge it with.
#[derive(Clone, Debug)]
pub struct Court {
    /// The folder of the evidence.
    pub folder: PathBuf,
    /// The program `parsley`.
    pub parsley: PathBuf,
}

impl Court {
    /// Judges.
    ///
    /// # Errors
    ///
    /// When the evidence cannot be read or written, or `parsley` does not run.
    pub fn judge(&self, history: &History) -> Result<Verdict, Trouble> {
        let mut verdict = Verdict {
            deliveries: history.delivered(),
            ..Verdict::default()
        };
        let effects = effects::judge(history);
        verdict.by_effects = effects.len() as u64;
        verdict.shown.extend(effects.into_iter().take(20));
        let trace = self.folder.join("trace.jsonl");
        let (by_check, shown) = self.check(history, &trace)?;
        verdict.by_check = by_check;
        verdict.shown.extend(shown);
        let (by_oracle, shown) = oracle::judge(history, checked::SHOWN)?;
        verdict.by_oracle = by_oracle;
        verdict.shown.extend(shown);
        let (of_spare, shown) = checked::of_spare(self)?;
        verdict.of_spare = of_spare;
        verdict.shown.extend(shown);
        for (name, tamper) in tampered::WAYS {
            let mut copy = history.clone();
            if !tamper(&mut copy) {
                continue;
            }
            let trace = self.folder.join("tampered.jsonl");
            let (by_check, _) = self.check(&copy, &trace)?;
            let (by_oracle, _) = oracle::judge(&copy, 1)?;
            remove(&trace)?;
            verdict.tampered.push((name, by_check, by_oracle));
        }
        Ok(verdict)
    }

    /// Judges a run that was made before, by its evidence alone.
    ///
    /// # Errors
    ///
    /// As [`Court::judge`].
    pub fn judge_again(&self) -> Result<Verdict, Trouble> {
        self.judge(&evidence::read_back(&self.folder)?)
    }

    fn check(&self, history: &History, path: &Path) -> Result<(u64, Vec<String>), Trouble> {
        trace::write(history, path)?;
        checked::of_trace(self, path)
    }
}

fn remove(path: &Path) -> Result<(), Trouble> {
    std::fs::remove_file(path).map_err(Trouble::io("removing a file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_judge_has_not_seen_is_named() {
        let ways = tampered::WAYS.map(|(way, _)| way);
        let mut verdict = Verdict {
            tampered: ways.map(|way| (way, 1, 1)).to_vec(),
            ..Verdict::default()
        };
        assert!(verdict.is_right());
        verdict.tampered = vec![(ways[0], 0, 3), (ways[1], 2, 0)];
        let [check, oracle, missing] = &verdict.unseen()[..] else {
            panic!("{verdict:?}");
        };
        assert!(check.starts_with(ways[0]) && check.ends_with("by `parsley topic check`"));
        assert!(oracle.starts_with(ways[1]) && oracle.ends_with("by the oracle"));
        assert!(missing.starts_with(ways[2]), "{missing}");
        assert!(!verdict.is_right());
    }
}
