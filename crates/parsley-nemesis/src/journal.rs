//! The journal of a run: which faults were injected, what was refused, and what went wrong, in the order in which it came.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use parsley_core::TopicId;
use serde_json::{Value, json};

use crate::Trouble;
use crate::instance::Refused;

/// What a fault justifies: refusals with these codes, of tasks of this generation of the spare application, about this topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Justifies {
    /// The generation that ran when it was injected.
    pub generation: u32,
    /// The codes.
    pub codes: &'static [&'static str],
    /// The topic as it was.
    pub topic: TopicId,
}

impl Justifies {
    /// Whether it justifies that. A refusal that is about a channel is about one of that topic.
    fn covers(&self, refused: &Refused) -> bool {
        let topic = self.topic.to_string();
        let is_about =
            |channel: &String| channel.split_once(':').is_some_and(|(of, _)| of == topic);
        refused.spare == Some(self.generation)
            && self.codes.contains(&refused.code.as_str())
            && refused.channel.as_ref().is_none_or(is_about)
    }
}

#[derive(Debug)]
struct Injected {
    kind: &'static str,
    justifies: Option<Justifies>,
}

/// A refusal, and the fault before it that justifies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// The refusal.
    pub refused: Refused,
    /// The kind of the fault.
    pub by: Option<&'static str>,
}

#[derive(Debug, Default)]
struct State {
    injected: Vec<Injected>,
    refused: Vec<Judged>,
    wrong: Vec<String>,
    file: Option<File>,
}

/// The journal. It is printed as it grows, and written to a file.
pub struct Journal {
    began: Instant,
    is_quiet: bool,
    state: Mutex<State>,
}

impl Journal {
    /// A journal that begins now, in a file.
    pub fn begin(path: &Path, is_quiet: bool) -> Result<Self, Trouble> {
        let file = File::create(path).map_err(Trouble::io("making the journal"))?;
        Ok(Self {
            began: Instant::now(),
            is_quiet,
            state: Mutex::new(State {
                file: Some(file),
                ..State::default()
            }),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long it is kept by now.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    fn write(&self, state: &mut State, kind: &str, text: &str, more: Value) {
        let at = self.elapsed();
        if !self.is_quiet || kind == "wrong" {
            eprintln!("{:8.2} {kind:8} {text}", at.as_secs_f64());
        }
        let at_ms = u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
        let line = json!({"at_ms": at_ms, "kind": kind, "text": text, "more": more});
        if let Some(file) = &mut state.file {
            // It helps to find out what was wrong; nothing is judged by the file.
            let _ = writeln!(file, "{line}");
        }
    }

    /// Notes something that helps to understand the rest.
    pub fn note(&self, text: impl Into<String>) {
        self.write(&mut self.state(), "note", &text.into(), Value::Null);
    }

    /// Something is wrong: the run has failed.
    pub fn wrong(&self, text: impl Into<String>) {
        let (mut state, text) = (self.state(), text.into());
        self.write(&mut state, "wrong", &text, Value::Null);
        state.wrong.push(text);
    }

    /// A fault is about to be injected.
    pub fn inject(&self, kind: &'static str, text: &str, justifies: Option<Justifies>) {
        let mut state = self.state();
        let more = justifies.as_ref().map(|one| format!("{one:?}"));
        self.write(&mut state, "fault", &format!("{kind} {text}"), json!(more));
        state.injected.push(Injected { kind, justifies });
    }

    /// A task has refused itself. What is not justified by what was injected before is wrong.
    pub fn refused(&self, instance: usize, refused: Refused) {
        let mut state = self.state();
        let text = format!("instance {instance}: {}", refused.text);
        self.write(&mut state, "refusal", &text, json!(refused));
        let mut injected = state.injected.iter().rev();
        let by = injected.find(|fault| {
            let justifies = fault.justifies.as_ref();
            justifies.is_some_and(|justifies| justifies.covers(&refused))
        });
        let by = by.map(|fault| fault.kind);
        if by.is_none() {
            let text = format!("no fault justifies this refusal: {refused:?}");
            self.write(&mut state, "wrong", &text, Value::Null);
            state.wrong.push(text);
        }
        state.refused.push(Judged { refused, by });
    }

    /// How many faults of each kind there were.
    pub fn faults(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        for fault in &self.state().injected {
            *counts.entry(fault.kind).or_default() += 1;
        }
        counts
    }

    /// The refusals so far, with what justifies them.
    pub fn refusals(&self) -> Vec<Judged> {
        self.state().refused.clone()
    }

    /// What has gone wrong so far.
    pub fn wrongs(&self) -> Vec<String> {
        self.state().wrong.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODES: &[&str] = &["vc-identity-changed"];

    fn refused(spare: Option<u32>, code: &str, topic: &str) -> Refused {
        Refused {
            spare,
            stage: "copy".to_owned(),
            partition: 0,
            code: code.to_owned(),
            channel: Some(TopicId::of_name(topic).partition(0).to_string()),
            text: "a refusal".to_owned(),
        }
    }

    #[test]
    fn a_refusal_has_to_be_of_the_fault_s_code_generation_and_topic_and_behind_it() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::begin(&folder.path().join("journal.jsonl"), true).unwrap();
        let right = refused(Some(2), CODES[0], "a");
        journal.refused(0, right.clone());
        assert_eq!(journal.wrongs().len(), 1, "nothing was injected yet");
        let justifies = Justifies {
            generation: 2,
            codes: CODES,
            topic: TopicId::of_name("a"),
        };
        journal.inject("recreate", "a", Some(justifies));
        journal.inject("kill", "1", None);
        journal.refused(0, right.clone());
        let whole = Refused {
            channel: None,
            ..right
        };
        journal.refused(0, whole);
        assert_eq!(journal.wrongs().len(), 1);
        for other in [
            refused(Some(3), CODES[0], "a"),
            refused(None, CODES[0], "a"),
            refused(Some(2), "vc-positions-lost", "a"),
            refused(Some(2), CODES[0], "b"),
        ] {
            journal.refused(1, other);
        }
        assert_eq!(journal.wrongs().len(), 5);
        let by: Vec<_> = journal.refusals().into_iter().map(|one| one.by).collect();
        let recreate = Some("recreate");
        assert_eq!(by, [None, recreate, recreate, None, None, None, None]);
        assert_eq!(journal.faults(), [("kill", 1), ("recreate", 1)].into());
    }
}
