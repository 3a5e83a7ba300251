//! `parsley sim replay` and `parsley sim diagram`: one run, shown.

use std::io::Write;
use std::path::Path;

use parsley_sim::report::{FailureReport, RunId};
use parsley_sim::run::{Outcome, Request};
use parsley_sim::scenario::Scenario;
use parsley_sim::shrink::{Keep, Part};
use parsley_sim::trace::{OnPurpose, Trace};
use parsley_sim::{Sabotage, diagram, shiviz};

use super::args::{Format, Picture, Which};
use super::error::SimError;
use super::{names, seeds};
use crate::exit::Exit;
use crate::failure::Failure;

/// A run, done.
struct Replayed {
    scenario: &'static Scenario,
    seed: u64,
    sabotage: Sabotage,
    part: Part,
    outcome: Outcome,
}

impl Replayed {
    fn of(which: &Which) -> Result<Self, SimError> {
        let scenario = names::scenario(&which.scenario)?;
        let seed = seeds::seed(&which.seed)?;
        let sabotage = names::sabotage(&which.wrong)?;
        let keep = which.keep.as_deref().map(str::parse::<Keep>).transpose()?;
        let part = Part {
            keep,
            idle: which.idle.clone(),
        };
        let request = Request {
            scenario,
            seed,
            trace: true,
        };
        let outcome = request.run_part(sabotage, &part)?;
        Ok(Self {
            scenario,
            seed,
            sabotage,
            part,
            outcome,
        })
    }

    fn report(&self) -> Option<FailureReport<'_>> {
        let run = RunId {
            scenario: self.scenario,
            seed: self.seed,
            sabotage: self.sabotage,
            part: &self.part,
        };
        FailureReport::of(run, &self.outcome)
    }

    fn trace(&self) -> Result<&Trace, SimError> {
        let why = || match &self.outcome.violation {
            Some(violation) => violation.text.to_string(),
            None => String::new(),
        };
        let trace = self.outcome.trace.as_ref();
        trace.ok_or_else(|| SimError::NoWorld { why: why() })
    }

    fn text(&self) -> String {
        let mut text = String::new();
        if let Some(trace) = &self.outcome.trace {
            text += &trace.to_string();
        }
        text += "\n";
        match self.report() {
            Some(report) => text += &report.to_string(),
            None => {
                let counts = self.outcome.counts;
                let in_spite = match self.sabotage.on_purpose() {
                    Some(OnPurpose { kind, name, .. }) => format!(" in spite of {kind} {name}"),
                    None => String::new(),
                };
                text += &format!(
                    "right{in_spite}: {} steps, {} deliveries, {} of them held before, {} crashes\n",
                    counts.steps, counts.deliveries, counts.holds, counts.crashes
                );
            }
        }
        text
    }
}

/// Runs one seed again and shows it.
pub fn run(which: &Which, format: Format, out: &mut impl Write) -> Result<Exit, Failure> {
    let replayed = Replayed::of(which)?;
    let text = match format {
        Format::Text => replayed.text(),
        Format::Shiviz => shiviz::shiviz(replayed.trace()?),
        Format::Html => diagram::html(replayed.trace()?),
    };
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(Failure::Write)?;
    Ok(if replayed.outcome.violation.is_some() {
        Exit::Failed
    } else {
        Exit::Done
    })
}

/// Runs one seed again and draws it to a file.
pub fn draw(
    which: &Which,
    path: &Path,
    format: Picture,
    out: &mut impl Write,
) -> Result<Exit, Failure> {
    if path.as_os_str() == "-" {
        return Err(SimError::OutToStandardOutput.into());
    }
    let replayed = Replayed::of(which)?;
    let trace = replayed.trace()?;
    let text = match format {
        Picture::Html => diagram::html(trace),
        Picture::Shiviz => shiviz::shiviz(trace),
    };
    std::fs::write(path, text).map_err(|source| SimError::Out {
        path: path.to_owned(),
        source,
    })?;
    let ended = match &replayed.outcome.violation {
        Some(violation) => format!("violates \"{}\"", violation.rule),
        None => "holds".to_owned(),
    };
    let wrong = match &trace.on_purpose {
        Some(OnPurpose { kind, name, .. }) => format!(", wrong on purpose ({kind} {name}),"),
        None => String::new(),
    };
    let events = trace.events.len();
    writeln!(
        out,
        "{} seed {}{wrong} {ended}; {events} events drawn to {}",
        replayed.scenario.name,
        replayed.seed,
        path.display()
    )
    .and_then(|()| out.flush())
    .map_err(Failure::Write)?;
    Ok(Exit::Done)
}
