//! The deliveries of tasks judged: against the order of channels, the claims of what was delivered, and what really happened before.

use std::collections::{BTreeMap, HashMap};

use super::causes::Causes;
use super::finding::{Finding, Findings, Kind};
use super::world::{ChannelNo, DeliveryNo, Logs, Record, RecordNo, SenderNo, TaskNo, World, count};

/// How much was judged.
#[derive(Debug, Default)]
pub struct Judged {
    /// Deliveries.
    pub deliveries: u64,
    /// Deliveries of records whose real past is known.
    pub causes: u64,
    /// Deliveries of records whose place a dump covers.
    pub in_log: u64,
    /// Records whose clock was held against what their sender had been delivered.
    pub stamps: u64,
}

/// How far something has to have been delivered, and the delivery from which on.
#[derive(Clone, Copy)]
struct Bound {
    upto: i64,
    by: DeliveryNo,
}

fn raise<K: std::hash::Hash + Eq>(
    bounds: &mut HashMap<K, Bound>,
    key: K,
    upto: i64,
    by: DeliveryNo,
) {
    let bound = bounds.entry(key).or_insert(Bound { upto, by });
    if bound.upto < upto {
        *bound = Bound { upto, by };
    }
}

/// What the deliveries so far ask for.
#[derive(Default)]
struct Asked {
    claims: HashMap<ChannelNo, Bound>,
    sequences: HashMap<(ChannelNo, SenderNo), Bound>,
    causes: HashMap<ChannelNo, Bound>,
}

/// A channel as a task was delivered it.
struct Consumed {
    lowest: i64,
    /// The highest offset, and its delivery.
    highest: (i64, DeliveryNo),
}

/// Judges every task.
pub fn judge(
    world: &World,
    logs: &Logs,
    causes: &Causes,
    compacted: &[String],
    findings: &mut Findings,
) -> Judged {
    let mut judged = Judged::default();
    for task in 0..count(world.histories.len()) {
        let mut history = History {
            world,
            task,
            findings,
            asked: Asked::default(),
            consumed: BTreeMap::new(),
        };
        history.numbers();
        history.sends();
        for delivery in &world.histories[task as usize] {
            history.deliver(*delivery, causes);
            judged.in_log += u64::from(history.in_log(*delivery, compacted));
            judged.deliveries += 1;
            let record = world.deliveries[*delivery as usize].record;
            judged.causes += u64::from(causes.of(record).is_some());
        }
        history.missing(logs);
    }
    judged.stamps = stamps(world, logs, causes, findings);
    judged
}

struct History<'a> {
    world: &'a World,
    task: TaskNo,
    findings: &'a mut Findings,
    asked: Asked,
    consumed: BTreeMap<ChannelNo, Consumed>,
}

impl History<'_> {
    fn wrong(&mut self, kind: Kind, at: DeliveryNo, found: String, other: Option<DeliveryNo>) {
        let (delivery, other) = (
            &self.world.deliveries[at as usize],
            other.map(|other| &self.world.deliveries[other as usize]),
        );
        self.findings.add(Finding {
            task: Some(self.task),
            record: Some(delivery.record),
            other: other.map(|other| (Some(other.record), other.place)),
            ..Finding::new(kind, delivery.place, found)
        });
    }

    /// Numbered deliveries are 0, 1, 2 and so on.
    fn numbers(&mut self) {
        let mut expected = 0;
        for at in &self.world.histories[self.task as usize] {
            let Some(number) = self.world.deliveries[*at as usize].number else {
                continue;
            };
            if number != expected {
                let found = format!("it is delivery {number} of the task, expected {expected}");
                self.wrong(Kind::DeliveryNumber, *at, found, None);
            }
            expected = number.saturating_add(1);
        }
    }

    /// What a task sends to a channel stands there under the sequence that it was sent under, and those rise by one.
    fn sends(&mut self) {
        let world = self.world;
        let mut last: HashMap<ChannelNo, (i64, RecordNo)> = HashMap::new();
        for at in &world.histories[self.task as usize] {
            let place = world.deliveries[*at as usize].place;
            for number in world.sent_for(&world.deliveries[*at as usize]) {
                let record = &world.records[*number as usize];
                let mut wrong = |kind, found: String, other| {
                    self.findings.add(Finding {
                        task: Some(self.task),
                        record: Some(*number),
                        other,
                        ..Finding::new(kind, place, found)
                    });
                };
                let sent = record.sent_sequence();
                let name = |sequence: Option<i64>| {
                    sequence.map_or_else(|| "none".to_owned(), |sequence| sequence.to_string())
                };
                if let Some(stands) = record.sender.map(|sender| sender.map(|sender| sender.1))
                    && stands != sent
                {
                    let (sent, stands) = (name(sent), name(stands));
                    let found = format!("it was sent under sequence {sent}, and has {stands}");
                    wrong(Kind::Contradiction, found, Some((None, record.told)));
                }
                let Some(sequence) = sent else {
                    continue;
                };
                let before = last.insert(record.channel, (sequence, *number));
                let Some((before, other)) =
                    before.filter(|(before, _)| before.saturating_add(1) != sequence)
                else {
                    continue;
                };
                let kind = match sequence > before {
                    true => Kind::SequenceGap,
                    false => Kind::SequenceOrder,
                };
                let found = format!("the task's sequences go from {before} to {sequence}");
                let other = (Some(other), world.records[other as usize].told);
                wrong(kind, found, Some(other));
            }
        }
    }

    fn deliver(&mut self, at: DeliveryNo, causes: &Causes) {
        let world = self.world;
        let number = world.deliveries[at as usize].record;
        let record = &world.records[number as usize];
        let channel = record.channel;
        if let Some(Consumed { highest, .. }) = self.consumed.get(&channel)
            && highest.0 > record.offset
        {
            let found = format!("the task was delivered offset {} before", highest.0);
            let other = Some(highest.1);
            self.wrong(Kind::ChannelOrder, at, found, other);
        }
        let late = |bound: Option<&Bound>, position: i64| {
            bound.copied().filter(|bound| bound.upto >= position)
        };
        if let Some(bound) = late(self.asked.claims.get(&channel), record.offset) {
            let found = format!(
                "the task was delivered a record before that claims {} up to {}",
                world.channels.thing(channel),
                bound.upto
            );
            self.wrong(Kind::DeliveredAfterClaim, at, found, Some(bound.by));
        }
        if let Some(Some((sender, sequence))) = record.sender
            && let Some(bound) = late(self.asked.sequences.get(&(channel, sender)), sequence)
        {
            let found = format!(
                "the task was delivered a record before that claims {} of {} up to sequence {}",
                world.channels.thing(channel),
                world.senders.thing(sender),
                bound.upto
            );
            self.wrong(Kind::DeliveredAfterClaim, at, found, Some(bound.by));
        }
        if let Some(bound) = late(self.asked.causes.get(&channel), record.offset) {
            let found = format!(
                "the task was delivered a record before in whose past is {} up to {}",
                world.channels.thing(channel),
                bound.upto
            );
            self.wrong(Kind::DeliveredAfterEffect, at, found, Some(bound.by));
        }
        let consumed = self.consumed.entry(channel).or_insert(Consumed {
            lowest: record.offset,
            highest: (record.offset, at),
        });
        consumed.lowest = consumed.lowest.min(record.offset);
        consumed.highest = consumed.highest.max((record.offset, at));
        // Claims on the record's own channel are no causes: the order of the channel takes care of them.
        if let Some(claims) = &record.claims {
            for (claimed, offset) in claims.offsets.iter().filter(|claim| claim.0 != channel) {
                raise(&mut self.asked.claims, *claimed, *offset, at);
            }
            let sequences = claims.sequences.iter().filter(|claim| claim.0 != channel);
            for (claimed, sender, sequence) in sequences {
                raise(
                    &mut self.asked.sequences,
                    (*claimed, *sender),
                    *sequence,
                    at,
                );
            }
        }
        let past = causes.of(number).unwrap_or_default();
        for (cause, offset) in past.iter().filter(|cause| cause.0 != channel) {
            raise(&mut self.asked.causes, *cause, *offset, at);
        }
    }

    /// What a dump covers and does not have was not there to be delivered, unless compaction has taken it. Returns whether this was judged.
    fn in_log(&mut self, at: DeliveryNo, compacted: &[String]) -> bool {
        let world = self.world;
        let record = &world.records[world.deliveries[at as usize].record as usize];
        let topic = world.topics[record.channel as usize].as_deref();
        if compacted.iter().any(|name| topic == Some(name))
            || !world.is_covered(record.channel, record.offset)
        {
            return false;
        }
        if !record.is_in_log {
            let found = "a dump has records before and behind it, and not it".to_owned();
            self.wrong(Kind::NotInLog, at, found, None);
        }
        true
    }

    /// What is known of the channels that the task was delivered, from its first delivery there on, and was never delivered, although
    /// something behind it was.
    fn missing(&mut self, logs: &Logs) {
        let world = self.world;
        for (channel, consumed) in std::mem::take(&mut self.consumed) {
            let log = &logs.records[channel as usize];
            let offset = |number: &RecordNo| world.records[*number as usize].offset;
            let from = log.partition_point(|number| offset(number) < consumed.lowest);
            for number in &log[from..] {
                if world.is_delivered(self.task, *number) {
                    continue;
                }
                let record = &world.records[*number as usize];
                let Some((kind, found, by)) = self.why_missed(record, &consumed) else {
                    // What asks for an offset asks for all below; sequences may go on asking.
                    continue;
                };
                let by = &world.deliveries[by as usize];
                self.findings.add(Finding {
                    task: Some(self.task),
                    record: Some(*number),
                    other: Some((None, record.told)),
                    ..Finding::new(kind, by.place, found)
                });
            }
        }
    }

    fn why_missed(
        &self,
        record: &Record,
        consumed: &Consumed,
    ) -> Option<(Kind, String, DeliveryNo)> {
        let name = |by: DeliveryNo| {
            let by = &self.world.records[self.world.deliveries[by as usize].record as usize];
            format!("{}@{}", self.world.channels.thing(by.channel), by.offset)
        };
        let within = |bound: Option<&Bound>, position: i64| {
            let bound = bound.filter(|bound| bound.upto >= position)?;
            Some(bound.by)
        };
        if let Some(by) = within(self.asked.causes.get(&record.channel), record.offset) {
            let found = format!(
                "{} was delivered, which came of it, and it never was",
                name(by)
            );
            return Some((Kind::NotDelivered, found, by));
        }
        let sequence = record.sender.flatten().and_then(|(sender, sequence)| {
            let bound = self.asked.sequences.get(&(record.channel, sender));
            within(bound, sequence)
        });
        let claims = within(self.asked.claims.get(&record.channel), record.offset);
        if let Some(by) = claims.or(sequence) {
            let found = format!(
                "{} was delivered, which claims it, and it never was",
                name(by)
            );
            return Some((Kind::NotDelivered, found, by));
        }
        let (highest, by) = consumed.highest;
        (record.offset < highest).then(|| {
            let found = format!(
                "the channel was delivered up to offset {}, and it never was",
                highest
            );
            (Kind::Skipped, found, by)
        })
    }
}

/// Each record whose real past is known claims it: what its sender had been delivered, and the pasts of that (`docs/protocol.md`, The stamp).
fn stamps(world: &World, logs: &Logs, causes: &Causes, findings: &mut Findings) -> u64 {
    let mut judged = 0;
    for (number, record) in world.records.iter().enumerate() {
        let number = count(number);
        let (Some(past), Some(claims), Some(sent_for)) =
            (causes.of(number), &record.claims, record.sent_for)
        else {
            continue;
        };
        judged += 1;
        for (channel, offset) in past.iter().filter(|cause| cause.0 != record.channel) {
            let cause = world.at(*channel, *offset);
            let by_sequence = || {
                let (sender, sequence) = world.records[cause? as usize].sender.flatten()?;
                claims
                    .sequence(*channel, sender)
                    .filter(|claimed| *claimed >= sequence)
            };
            if claims.offset(*channel) >= Some(*offset) || by_sequence().is_some() {
                continue;
            }
            // Where retention has taken it, the claim may have been truncated.
            if logs.reaches_back_to(*channel, *offset) == Some(false) {
                continue;
            }
            let sender = &world.deliveries[sent_for as usize];
            let claimed = claims.offset(*channel).map_or_else(
                || "nothing of it".to_owned(),
                |claimed| format!("it up to {claimed}"),
            );
            let name = world.channels.thing(*channel);
            findings.add(Finding {
                task: Some(sender.task),
                record: Some(number),
                other: cause.map(|cause| (Some(cause), world.records[cause as usize].told)),
                ..Finding::new(
                    Kind::StampIncomplete,
                    sender.place,
                    format!(
                        "what it was sent for came behind {name}@{offset}, and it claims {claimed}"
                    ),
                )
            });
        }
    }
    judged
}
