//! What a person reads about a run that violated something, and the command that runs it again.

use std::collections::BTreeMap;
use std::fmt;

use crate::host::AppendMode;
use crate::run::{Outcome, Request};
use crate::scenario::Scenario;
use crate::shrink::Part;
use crate::task_host::Sabotage;
use crate::trace::{At, Kind, OnPurpose, Trace};
use crate::world::Violation;

/// Which run: enough to run it again.
#[derive(Clone, Copy, Debug)]
pub struct RunId<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// The seed.
    pub seed: u64,
    /// What is wrong on purpose.
    pub sabotage: Sabotage,
    /// Which part of the run.
    pub part: &'a Part,
}

impl RunId<'_> {
    /// The arguments of `parsley sim replay` and its like that mean this run.
    pub fn arguments(&self) -> String {
        let mut arguments = format!("--scenario {} --seed {}", self.scenario.name, self.seed);
        match self.sabotage {
            Sabotage::None => {}
            Sabotage::Protocol(broken) => arguments += &format!(" --sabotage {broken}"),
            Sabotage::Host(fault) => arguments += &format!(" --fault {}", fault.as_str()),
            Sabotage::Model => arguments += " --model",
        }
        if !self.part.idle.is_empty() {
            arguments += &format!(" --idle {}", self.part.idle.join(","));
        }
        if let Some(keep) = &self.part.keep {
            arguments += &format!(" --keep {keep}");
        }
        arguments
    }

    /// The command that runs it again, from the root of the work tree.
    pub fn replay_command(&self) -> String {
        format!(
            "cargo run --release -p parsley-cli -- sim replay {}",
            self.arguments()
        )
    }
}

impl Sabotage {
    /// What is wrong on purpose. The naive model in the place of the node is not.
    pub fn on_purpose(self) -> Option<OnPurpose> {
        let (kind, name, about) = match self {
            Self::None | Self::Model => return None,
            Self::Protocol(broken) => ("sabotage", broken.as_str(), broken.about()),
            Self::Host(fault) => ("fault", fault.as_str(), fault.about()),
        };
        Some(OnPurpose {
            kind: kind.to_owned(),
            name: name.to_owned(),
            about: about.to_owned(),
        })
    }
}

/// How many lines a report has for what is held.
const HOLDS_SHOWN: usize = 10;

/// A violation as a person reads it: where, who, which two records and how one came of the other, what was waited for, and the command
/// that replays it.
#[derive(Clone, Copy, Debug)]
pub struct FailureReport<'a> {
    run: RunId<'a>,
    violation: &'a Violation,
    trace: Option<&'a Trace>,
}

impl<'a> FailureReport<'a> {
    /// The report of how a run ended, if it violated something. Without a trace, it has no records and no holds.
    pub fn of(run: RunId<'a>, outcome: &'a Outcome) -> Option<Self> {
        Some(Self {
            run,
            violation: outcome.violation.as_ref()?,
            trace: outcome.trace.as_ref(),
        })
    }

    /// How the log and its acknowledgements are in this run.
    fn setting(&self) -> String {
        let mut chance = crate::Chance::of_seed(self.run.seed);
        let plan = (self.run.scenario.plan)(&mut chance);
        let setting = Request::setting(self.run.seed, &plan);
        let append = match setting.append {
            AppendMode::Atomic => "the records of a step are appended at once",
            AppendMode::Interleaved => "records are appended one by one",
        };
        let offsets = if setting.offsets_known {
            "acknowledgements tell offsets"
        } else {
            "acknowledgements tell no offsets"
        };
        format!("{append}, {offsets}")
    }
}

/// Where a record came from: who sent it, in which step, with which clock. A record's place is used once, in any run.
fn origin(trace: &Trace, at: At) -> String {
    let sent = trace.events.iter().find_map(|event| match &event.kind {
        Kind::Sent { at: sent, clock } if *sent == at => Some((event, clock)),
        _ => None,
    });
    let place = trace.place(at);
    match sent {
        None => format!("{place}, which nobody sent"),
        Some((event, clock)) => {
            let claims = if clock.is_empty() { "nothing" } else { clock };
            let actor = trace.actor(event.actor);
            format!(
                "{place}, sent by {actor} in step {}, claims {claims}",
                event.step
            )
        }
    }
}

/// What an actor, or everybody, waits for at the end of a trace: the actor, the record, and the claim.
fn waiting(trace: &Trace, who: Option<usize>) -> Vec<(Option<usize>, At, &str)> {
    let mut waiting: BTreeMap<(Option<usize>, At), &str> = BTreeMap::new();
    for event in &trace.events {
        if who.is_some() && event.actor != who {
            continue;
        }
        match &event.kind {
            Kind::Held { at, blocked_by } => {
                waiting.insert((event.actor, *at), blocked_by);
            }
            Kind::Delivered { at, .. } => {
                waiting.remove(&(event.actor, *at));
            }
            // An execution that begins tells what it restored and holds.
            Kind::Crashed { .. } | Kind::Refused { .. } | Kind::Started { .. } => {
                waiting.retain(|(actor, _), _| *actor != event.actor);
            }
            _ => {}
        }
    }
    let flat = |((actor, at), claim)| (actor, at, claim);
    waiting.into_iter().map(flat).collect()
}

impl fmt::Display for FailureReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let violation = self.violation;
        writeln!(
            f,
            "VIOLATION of \"{}\" in {}, seed {}, step {}",
            violation.rule, self.run.scenario.name, self.run.seed, violation.step
        )?;
        writeln!(f, "  about     {}", self.run.scenario.about)?;
        if let Some(OnPurpose { kind, name, about }) = self.run.sabotage.on_purpose() {
            writeln!(f, "  {kind:<9} {name}, {about}")?;
        }
        if self.run.sabotage == Sabotage::Model {
            writeln!(f, "  model     orders the records in the place of the node")?;
        }
        writeln!(f, "  log       {}", self.setting())?;
        // The text may have lines of its own, the causal path among them, and begin with the rule.
        let rule = format!("{}: ", violation.rule);
        let text = violation
            .text
            .strip_prefix(&rule)
            .unwrap_or(&violation.text);
        for (number, line) in text.lines().enumerate() {
            let label = if number == 0 { "found" } else { "" };
            writeln!(f, "  {label:<9} {}", line.trim_start())?;
        }
        if let Some(trace) = self.trace {
            if violation.actor.is_some() {
                writeln!(f, "  actor     {}", trace.actor(violation.actor))?;
            }
            if let Some(record) = violation.record {
                writeln!(f, "  record    {}", origin(trace, record))?;
            }
            if let Some(other) = violation.other {
                writeln!(f, "  other     {}", origin(trace, other))?;
            }
            let waiting = waiting(trace, violation.actor);
            for (actor, at, claim) in waiting.iter().take(HOLDS_SHOWN) {
                let (actor, place) = (trace.actor(*actor), trace.place(*at));
                writeln!(f, "  held      {place} by {actor}, waits for {claim}")?;
            }
            if waiting.len() > HOLDS_SHOWN {
                writeln!(f, "  held      and {} more", waiting.len() - HOLDS_SHOWN)?;
            }
        }
        writeln!(f, "  REPLAY: {}", self.run.replay_command())
    }
}

#[cfg(test)]
mod tests {
    use parsley_model::Broken;

    use super::*;
    use crate::scenarios;
    use crate::trace::Event;

    fn report_of(sabotage: Sabotage, seeds: std::ops::Range<u64>) -> (u64, String) {
        let scenario = scenarios::named("shared-input-race").unwrap();
        let caught = seeds.into_iter().find_map(|seed| {
            let request = Request {
                scenario,
                seed,
                trace: true,
            };
            let outcome = request.run(sabotage);
            let part = Part::default();
            let run = RunId {
                scenario,
                seed,
                sabotage,
                part: &part,
            };
            Some((seed, FailureReport::of(run, &outcome)?.to_string()))
        });
        caught.expect("one of the seeds")
    }

    #[test]
    fn a_report_has_who_what_why_and_the_command() {
        let (seed, report) = report_of(Sabotage::Protocol(Broken::Eager), 0..50);
        let (place, text) = report.split_once('\n').unwrap();
        let head =
            format!("VIOLATION of \"causal order\" in shared-input-race, seed {seed}, step ");
        assert!(place.starts_with(&head), "{report}");
        for part in [
            "\n  sabotage  eager, every claim counts as met\n",
            "\n  actor     ship/0\n",
            "\n  found     ship/0 was handed invoices:0@",
            "before its cause orders:0@",
            "\n            path: orders:0@",
            "\n  record    invoices:0@",
            "sent by bill/0 in step ",
            "\n  other     orders:0@",
            "sent by shop in step ",
        ] {
            assert!(format!("\n{text}").contains(part), "{part:?} in {report}");
        }
        let command = format!(
            "  REPLAY: cargo run --release -p parsley-cli -- sim replay --scenario shared-input-race --seed {seed} --sabotage eager\n"
        );
        assert!(report.ends_with(&command), "{report}");
    }

    #[test]
    fn the_command_has_every_part_of_a_run() {
        let part = Part {
            keep: Some("1,4-6,9:2".parse().unwrap()),
            idle: vec!["bill".to_owned(), "ship".to_owned()],
        };
        let run = |sabotage| RunId {
            scenario: scenarios::named("shared-input-race").unwrap(),
            seed: 3,
            sabotage,
            part: &part,
        };
        let tail = "--idle bill,ship --keep 1,4-6,9:2";
        for (sabotage, flag) in [
            (Sabotage::None, ""),
            (Sabotage::Model, "--model "),
            (
                Sabotage::Host(crate::HostFault::SendsWithoutRounds),
                "--fault h7-sends-without-rounds ",
            ),
        ] {
            assert_eq!(
                run(sabotage).arguments(),
                format!("--scenario shared-input-race --seed 3 {flag}{tail}")
            );
        }
    }

    #[test]
    fn what_is_waited_for_is_what_was_told_last_and_not_delivered() {
        let at = |offset| At { channel: 0, offset };
        let held = |offset, claim: &str| Kind::Held {
            at: at(offset),
            blocked_by: claim.to_owned(),
        };
        let delivered = Kind::Delivered {
            at: at(1),
            was_held: true,
        };
        let crashed = Kind::Crashed { mid_step: false };
        let started = Kind::Started { restored: 1 };
        let kinds = [
            (0, held(1, "a")),
            (1, held(1, "b")),
            (0, held(1, "c")),
            (0, held(2, "d")),
            (0, delivered),
            (1, crashed),
            (1, started),
            (2, held(7, "e")),
        ];
        let events = kinds.into_iter().map(|(actor, kind)| Event {
            step: 0,
            actor: Some(actor),
            kind,
        });
        let trace = Trace {
            events: events.collect(),
            ..Trace::of("", 0)
        };
        let all = [(Some(0), at(2), "d"), (Some(2), at(7), "e")];
        assert_eq!(waiting(&trace, None), all);
        assert_eq!(waiting(&trace, Some(2)), all[1..]);
        assert_eq!(waiting(&trace, Some(1)), []);
    }
}
