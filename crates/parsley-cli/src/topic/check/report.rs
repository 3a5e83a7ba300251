//! What is printed: a line for each violation, and the summary.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use super::finding::{Finding, Findings, Kind};
use super::world::{Place, RecordNo, World};
use super::{deliveries, dumps};
use crate::input::Input;

#[derive(Serialize)]
struct ViolationLine<'a> {
    violation: ViolationJson<'a>,
}

#[derive(Serialize)]
struct ViolationJson<'a> {
    kind: Kind,
    at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<RecordJson<'a>>,
    found: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    contradicts: Option<OtherJson<'a>>,
}

#[derive(Serialize)]
struct RecordJson<'a> {
    topic: Option<&'a str>,
    channel: String,
    offset: i64,
}

#[derive(Serialize)]
struct OtherJson<'a> {
    at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<RecordJson<'a>>,
}

fn record(world: &World, number: RecordNo) -> RecordJson<'_> {
    let record = &world.records[number as usize];
    RecordJson {
        topic: world.topics[record.channel as usize].as_deref(),
        channel: world.channels.thing(record.channel).to_string(),
        offset: record.offset,
    }
}

/// Writes a violation.
pub fn write_violation(
    world: &World,
    inputs: &[Input],
    finding: &Finding,
    out: &mut impl Write,
) -> io::Result<()> {
    let at = |place: Place| format!("{}:{}", inputs[place.file as usize], place.line);
    let violation = ViolationJson {
        kind: finding.kind,
        at: at(finding.place),
        task: finding.task.map(|task| {
            let task = world.tasks.thing(task);
            format!("{}/{}", task.stage, task.partition)
        }),
        record: finding.record.map(|number| record(world, number)),
        found: &finding.found,
        contradicts: finding.other.map(|(number, place)| OtherJson {
            at: at(place),
            record: number.map(|number| record(world, number)),
        }),
    };
    serde_json::to_writer(&mut *out, &ViolationLine { violation })?;
    out.write_all(b"\n")
}

#[derive(Serialize)]
struct SummaryLine<'a> {
    summary: SummaryJson<'a>,
}

#[derive(Serialize)]
struct SummaryJson<'a> {
    lines: u64,
    malformed: u64,
    overlaps: u64,
    records: usize,
    dumped: u64,
    deliveries: u64,
    tasks: usize,
    channels: usize,
    senders: usize,
    violations: u64,
    by_kind: &'a BTreeMap<Kind, u64>,
    checks: Vec<CheckJson>,
}

#[derive(Serialize)]
struct CheckJson {
    check: &'static str,
    /// How much was judged; a check that was not made has judged nothing.
    judged: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_made: Option<String>,
}

/// Which checks the lines allow.
#[derive(Debug)]
pub struct Made {
    has_dumps: bool,
    has_deliveries: bool,
    tells_sends: bool,
}

impl Made {
    pub fn of(world: &World) -> Self {
        Self {
            has_dumps: world.dumped > 0,
            has_deliveries: !world.deliveries.is_empty(),
            tells_sends: world.tells_sends,
        }
    }
}

#[cfg(test)]
impl Made {
    pub fn tells_sends(&self) -> bool {
        self.tells_sends
    }
}

/// What was judged.
#[derive(Debug)]
pub struct Report {
    pub dumps: dumps::Judged,
    pub tasks: deliveries::Judged,
    pub made: Made,
}

impl Report {
    fn checks(&self, world: &World) -> Vec<CheckJson> {
        let Self { dumps, tasks, made } = self;
        let check = |name, judged, unless: Option<&str>| CheckJson {
            check: name,
            judged,
            not_made: unless.map(str::to_owned),
        };
        let no_dumps = (!made.has_dumps).then_some("no dumped record was given");
        let no_deliveries = (!made.has_deliveries)
            .then_some("no delivery was given: neither a trace nor a dump of an account");
        let no_log = no_deliveries.or(no_dumps).or((tasks.in_log == 0)
            .then_some("no dump covers what was delivered, or its topic is compacted"));
        let no_sends = no_deliveries.or((!made.tells_sends).then_some(
            "the deliveries do not tell what was sent for them: an account has no `sent`, and clocks alone do not tell who sent a record",
        ));
        let mut checks = vec![
            check(
                "channel order and duplicates of dumps",
                world.dumped,
                no_dumps,
            ),
            check("sequences of senders", dumps.sequences, no_dumps),
            check("clocks of a sender do not shrink", dumps.clocks, no_dumps),
            check(
                "channel order and duplicates of deliveries",
                tasks.deliveries,
                no_deliveries,
            ),
            check("what was delivered is in the log", tasks.in_log, no_log),
            check(
                "claims are delivered first",
                tasks.deliveries,
                no_deliveries,
            ),
            check("causes are delivered first", tasks.causes, no_sends),
            check(
                "stamps claim what their senders were delivered",
                tasks.stamps,
                no_sends,
            ),
        ];
        let mut partly = |name: &'static str, count: u64, why: String| {
            if count > 0 {
                checks.push(CheckJson {
                    check: name,
                    judged: 0,
                    not_made: Some(why),
                });
            }
        };
        let uncommitted = dumps.uncommitted;
        partly(
            "sequences and clocks of uncommitted dumps",
            uncommitted,
            format!("{uncommitted} channels were dumped with what is not committed"),
        );
        let between = dumps.between_files;
        partly(
            "sequences between files",
            between,
            format!("{between} gaps lie between the records of two dumps"),
        );
        checks
    }

    /// Writes the summary.
    pub fn write(
        &self,
        world: &World,
        findings: &Findings,
        lines: u64,
        malformed: u64,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let summary = SummaryJson {
            lines,
            malformed,
            overlaps: world.overlaps,
            records: world.records.len(),
            dumped: world.dumped,
            deliveries: self.tasks.deliveries,
            tasks: world.tasks.len(),
            channels: world.channels.len(),
            senders: world.senders.len(),
            violations: findings.total(),
            by_kind: &findings.by_kind,
            checks: self.checks(world),
        };
        serde_json::to_writer(&mut *out, &SummaryLine { summary })?;
        out.write_all(b"\n")
    }
}
