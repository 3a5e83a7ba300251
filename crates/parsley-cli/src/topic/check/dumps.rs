//! Dumps judged by themselves: the sequences of senders, and what their successive records claim (`docs/protocol.md`, The stamp).

use std::collections::HashMap;

use super::finding::{Finding, Findings, Kind};
use super::world::{ChannelNo, Claims, Logs, Place, Record, RecordNo, SenderNo, World, count};

/// How many records were judged.
#[derive(Debug, Default)]
pub struct Judged {
    /// Stamped records whose sequence was held against the others.
    pub sequences: u64,
    /// Pairs of successive records of a sender whose clocks were compared.
    pub clocks: u64,
    /// Channels whose sequences were not judged, for being dumped with what is not committed.
    pub uncommitted: u64,
    /// Gaps between the records of two files, which may be what nobody dumped.
    pub between_files: u64,
}

/// A sender's latest record on a channel.
struct Latest<'a> {
    number: RecordNo,
    record: &'a Record,
    place: Place,
    sequence: i64,
}

/// Judges every channel that was dumped. Compacted topics have lost records that nobody misses.
pub fn judge(world: &World, logs: &Logs, compacted: &[String], findings: &mut Findings) -> Judged {
    let mut judged = Judged::default();
    for (channel, log) in logs.records.iter().enumerate() {
        let number = count(channel);
        if world.uncommitted.contains(&number) {
            judged.uncommitted += 1;
            continue;
        }
        let topic = world.topics[channel].as_deref();
        let is_compacted = compacted.iter().any(|name| topic == Some(name));
        judge_channel(world, logs, log, is_compacted, &mut judged, findings);
    }
    judged
}

fn judge_channel(
    world: &World,
    logs: &Logs,
    log: &[RecordNo],
    is_compacted: bool,
    judged: &mut Judged,
    findings: &mut Findings,
) {
    let dumped = log.iter().filter_map(|number| {
        let record = &world.records[*number as usize];
        Some((*number, record, record.dumped?.0))
    });
    let mut latest: HashMap<SenderNo, Latest<'_>> = HashMap::new();
    let mut given: HashMap<(SenderNo, i64), (RecordNo, Place)> = HashMap::new();
    // The file of the channel's last record, and whether the channel's first record is there: then retention has taken nothing.
    let mut last_file = None;
    let mut is_whole = false;
    for (at, (number, record, place)) in dumped.enumerate() {
        if at == 0 {
            is_whole = record.offset == 0;
        }
        let is_same_file = last_file.is_none_or(|file| file == place.file);
        last_file = Some(place.file);
        let Some(Some((sender, sequence))) = record.sender else {
            continue;
        };
        judged.sequences += 1;
        let mut wrong = |kind, found: String, other| {
            findings.add(Finding {
                record: Some(number),
                other,
                ..Finding::new(kind, place, found)
            });
        };
        let before = latest.insert(
            sender,
            Latest {
                number,
                record,
                place,
                sequence,
            },
        );
        if let Some((other, at)) = given.insert((sender, sequence), (number, place)) {
            let found = format!("its sender has given sequence {sequence} to another record");
            wrong(Kind::RepeatedSequence, found, Some((Some(other), at)));
            continue;
        }
        let other = before
            .as_ref()
            .map(|before| (Some(before.number), before.place));
        let last = before.as_ref().map_or(-1, |before| before.sequence);
        if sequence < last {
            let found = format!("sequence {sequence} of its sender stands behind {last}");
            wrong(Kind::SequenceOrder, found, other);
        } else if sequence > last.saturating_add(1)
            && !is_compacted
            && (before.is_some() || is_whole)
        {
            if is_same_file && before.as_ref().is_none_or(|b| b.place.file == place.file) {
                let found = match before {
                    Some(_) => {
                        format!("its sender's sequences go from {last} to {sequence}")
                    }
                    None => format!(
                        "its sender's sequences begin with {sequence}, on a channel that is there from offset 0 on"
                    ),
                };
                wrong(Kind::SequenceGap, found, other);
            } else {
                judged.between_files += 1;
            }
        }
        if let Some(before) = before
            && let (Some(earlier), Some(later)) = (&before.record.claims, &record.claims)
        {
            judged.clocks += 1;
            if let Some(found) = shrank(world, logs, earlier, later) {
                wrong(Kind::ClockShrank, found, other);
            }
        }
    }
}

/// What a later record of a sender claims less than an earlier one did. A claim that is gone may have been truncated, unless the dump still has
/// what it was below; a sequence claim that is gone has become one by offset.
fn shrank(world: &World, logs: &Logs, earlier: &Claims, later: &Claims) -> Option<String> {
    let name = |channel: ChannelNo| world.channels.thing(channel);
    for (channel, offset) in &earlier.offsets {
        match later.offset(*channel) {
            Some(claimed) if claimed < *offset => {
                let name = name(*channel);
                return Some(format!(
                    "its sender claimed {name} up to {offset} before, and now up to {claimed}"
                ));
            }
            None if logs.reaches_back_to(*channel, *offset) == Some(true) => {
                let name = name(*channel);
                return Some(format!(
                    "its sender claimed {name} up to {offset} before, which retention has not reached, and now nothing of it"
                ));
            }
            _ => {}
        }
    }
    for (channel, sender, sequence) in &earlier.sequences {
        let claimed = later.sequence(*channel, *sender);
        if let Some(claimed) = claimed.filter(|claimed| claimed < sequence) {
            let (name, sender) = (name(*channel), world.senders.thing(*sender));
            return Some(format!(
                "its sender claimed {name} of {sender} up to sequence {sequence} before, and now up to {claimed}"
            ));
        }
    }
    None
}
