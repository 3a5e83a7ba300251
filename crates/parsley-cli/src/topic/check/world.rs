//! What the lines tell: records, and the histories of tasks. Each thing has a number, so that millions of them fit.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use parsley_core::{Channel, Clock, SenderId};

use super::finding::{Finding, Findings, Kind};
use super::line::{Delivered, Dumped, Line, Told};

pub type ChannelNo = u32;
pub type SenderNo = u32;
pub type RecordNo = u32;
pub type TaskNo = u32;
/// A delivery, counted over all tasks.
pub type DeliveryNo = u32;

/// Where a line stood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub file: u32,
    pub line: u64,
}

/// Gives each thing a number.
#[derive(Debug)]
pub struct Numbers<T> {
    numbers: HashMap<T, u32>,
    things: Vec<T>,
}

impl<T> Default for Numbers<T> {
    fn default() -> Self {
        Self {
            numbers: HashMap::new(),
            things: Vec::new(),
        }
    }
}

impl<T: Clone + Eq + Hash> Numbers<T> {
    pub fn of(&mut self, thing: T) -> u32 {
        if let Some(number) = self.numbers.get(&thing) {
            return *number;
        }
        let number = count(self.things.len());
        self.things.push(thing.clone());
        self.numbers.insert(thing, number);
        number
    }

    pub fn thing(&self, number: u32) -> &T {
        &self.things[number as usize]
    }

    pub fn len(&self) -> usize {
        self.things.len()
    }
}

/// A count as a number: 2^32 things do not fit into memory.
pub fn count(length: usize) -> u32 {
    u32::try_from(length).expect("fewer than 2^32 things are in memory")
}

/// A clock, by numbers.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// By channel number.
    pub offsets: Box<[(ChannelNo, i64)]>,
    /// By channel and sender number.
    pub sequences: Box<[(ChannelNo, SenderNo, i64)]>,
}

impl Claims {
    pub fn offset(&self, channel: ChannelNo) -> Option<i64> {
        let at = self.offsets.binary_search_by_key(&channel, |claim| claim.0);
        at.ok().map(|at| self.offsets[at].1)
    }

    pub fn sequence(&self, channel: ChannelNo, sender: SenderNo) -> Option<i64> {
        let key = |claim: &(ChannelNo, SenderNo, i64)| (claim.0, claim.1);
        let at = self.sequences.binary_search_by_key(&(channel, sender), key);
        at.ok().map(|at| self.sequences[at].2)
    }
}

/// A record that some line tells of.
#[derive(Debug)]
pub struct Record {
    pub channel: ChannelNo,
    pub offset: i64,
    /// Its sender and its sequence; `None` while no line told.
    pub sender: Option<Option<(SenderNo, i64)>>,
    /// What it claims; `None` while no line told.
    pub claims: Option<Claims>,
    /// The dump that has it: the place, and a digest of what it is.
    pub dumped: Option<(Place, u64)>,
    /// Whether a dump of what is committed has it.
    pub is_in_log: bool,
    /// What was told of its key and value.
    pub content: Told,
    /// Whether it is known to be committed: by a read-committed dump, or because it was delivered or sent in a step that stands.
    pub is_committed: bool,
    /// The delivery that it was sent for, and the sequence that was told with it.
    pub sent_for: Option<DeliveryNo>,
    sent_sequence: Option<i64>,
    /// Where it was first told of.
    pub told: Place,
}

impl Record {
    /// The sequence that it was sent under, as its sender's trace tells it.
    pub fn sent_sequence(&self) -> Option<i64> {
        self.sent_sequence
    }
}

/// A delivery.
#[derive(Debug)]
pub struct Delivery {
    pub task: TaskNo,
    pub record: RecordNo,
    pub place: Place,
    pub number: Option<u64>,
    /// Its place in the account, when an account tells of it.
    account_offset: i64,
    /// What was sent for it, within [`World::sent`].
    sent: (u32, u32),
}

/// The range that a dump covers.
#[derive(Clone, Copy, Debug)]
struct Range {
    file: u32,
    first: i64,
    last: i64,
}

/// Who tells of a task. The same task in a trace and in an account has two histories.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskKey {
    pub stage: Box<str>,
    pub partition: i32,
    /// The channel of the account; `None` for a trace.
    pub account: Option<ChannelNo>,
}

/// Everything that was read.
#[derive(Debug, Default)]
pub struct World {
    pub channels: Numbers<Channel>,
    /// The name of each channel's topic, if a line told.
    pub topics: Vec<Option<Box<str>>>,
    pub senders: Numbers<SenderId>,
    pub tasks: Numbers<TaskKey>,
    pub records: Vec<Record>,
    by_place: HashMap<(ChannelNo, i64), RecordNo>,
    pub deliveries: Vec<Delivery>,
    /// The deliveries of each task, in their order.
    pub histories: Vec<Vec<DeliveryNo>>,
    by_delivered: HashMap<(TaskNo, RecordNo), DeliveryNo>,
    sent: Vec<RecordNo>,
    /// Lines of another file that say what was said already.
    pub overlaps: u64,
    /// How many records dumps have.
    pub dumped: u64,
    /// The channels of which a dump may have more than what is committed.
    pub uncommitted: BTreeSet<ChannelNo>,
    /// Whether any line tells of sends.
    pub tells_sends: bool,
    /// The last offset of each channel in the file that is read.
    last_in_file: HashMap<ChannelNo, i64>,
    /// What each file has of a channel by a dump of what is committed: its first and last offset. That of the file that is read is the last one.
    ranges: HashMap<ChannelNo, Vec<Range>>,
}

impl World {
    /// Begins another file.
    pub fn begin_file(&mut self) {
        self.last_in_file.clear();
    }

    /// Takes what a line says.
    pub fn take(&mut self, line: Line<'_>, place: Place, findings: &mut Findings) {
        match line {
            Line::Dumped(dumped) => self.take_dumped(dumped, place, findings),
            Line::Delivered(delivered) => self.take_delivered(delivered, None, place, findings),
        }
    }

    fn take_dumped(&mut self, line: Dumped<'_>, place: Place, findings: &mut Findings) {
        let channel = self.channel(line.channel, &line.topic);
        let record = self.record(channel, line.offset, place);
        let before = self.records[record as usize].dumped;
        let finding = |kind, found: String, other| Finding {
            record: Some(record),
            other,
            ..Finding::new(kind, place, found)
        };
        if line.is_committed {
            self.cover(channel, line.offset, place.file);
            self.records[record as usize].is_in_log = true;
        } else {
            self.uncommitted.insert(channel);
        }
        let last = self.last_in_file.get(&channel).copied();
        if last.is_none_or(|last| last < line.offset) {
            self.last_in_file.insert(channel, line.offset);
        }
        match before {
            Some((other, _)) if other.file == place.file => {
                let found = "the record stands in one dump twice".to_owned();
                findings.add(finding(Kind::RepeatedRecord, found, Some((None, other))));
                return;
            }
            Some((other, content)) => {
                self.overlaps += 1;
                if content != line.content {
                    let found = "two dumps have different records at one offset".to_owned();
                    findings.add(finding(Kind::Contradiction, found, Some((None, other))));
                }
                self.records[record as usize].is_committed |= line.is_committed;
                if let Some(stamp) = line.stamp {
                    self.learn(record, stamp.clock, Some(stamp.sender), place, findings);
                }
                return;
            }
            None => {}
        }
        if let Some(last) = last.filter(|last| *last > line.offset) {
            let found = format!("offset {} stands behind offset {last}", line.offset);
            findings.add(finding(Kind::ChannelOrder, found, None));
        }
        self.dumped += 1;
        self.records[record as usize].dumped = Some((place, line.content));
        self.records[record as usize].is_committed |= line.is_committed;
        self.learn_content(record, line.told, place, findings);
        match line.stamp {
            Some(stamp) => {
                let sender = Some(stamp.sender);
                self.learn(record, stamp.clock, sender, place, findings);
            }
            None => {
                let found = "the record has protocol headers that cannot be read".to_owned();
                findings.add(finding(Kind::UnreadableHeader, found, None));
            }
        }
        if let Some(delivered) = line.account {
            let account = Some((channel, line.offset));
            self.take_delivered(delivered, account, place, findings);
        }
    }

    fn take_delivered(
        &mut self,
        line: Delivered<'_>,
        account: Option<(ChannelNo, i64)>,
        place: Place,
        findings: &mut Findings,
    ) {
        let channel = self.channel(line.channel, &line.topic);
        let task = self.tasks.of(TaskKey {
            stage: line.stage.into(),
            partition: line.partition,
            account: account.map(|(channel, _)| channel),
        });
        if self.histories.len() <= task as usize {
            self.histories.push(Vec::new());
        }
        let record = self.record(channel, line.offset, place);
        self.records[record as usize].is_committed = true;
        self.learn(record, line.clock, line.sender, place, findings);
        self.learn_content(record, line.told, place, findings);
        if let Some(before) = self.by_delivered.get(&(task, record)) {
            let before = &self.deliveries[*before as usize];
            if before.place.file != place.file && before.number == line.number {
                self.overlaps += 1;
                return;
            }
            findings.add(Finding {
                task: Some(task),
                record: Some(record),
                other: Some((None, before.place)),
                ..Finding::new(
                    Kind::DeliveredTwice,
                    place,
                    "the task was delivered the record again".to_owned(),
                )
            });
            return;
        }
        let delivery = count(self.deliveries.len());
        let sent_from = count(self.sent.len());
        self.tells_sends |= line.sent.is_some();
        for sent in line.sent.into_iter().flatten() {
            let channel = self.channel(sent.channel, &sent.topic);
            let number = self.record(channel, sent.offset, place);
            self.sent.push(number);
            let record = &mut self.records[number as usize];
            record.is_committed = true;
            let before = record.sent_for.replace(delivery);
            record.sent_sequence = sent.sequence;
            if let Some(before) = before {
                // The same delivery is not there yet.
                let before = self.deliveries.get(before as usize);
                findings.add(Finding {
                    task: Some(task),
                    record: Some(number),
                    other: before.map(|before| (Some(before.record), before.place)),
                    ..Finding::new(
                        Kind::SentTwice,
                        place,
                        "the record was sent for two deliveries, or twice for one".to_owned(),
                    )
                });
            }
        }
        self.deliveries.push(Delivery {
            task,
            record,
            place,
            number: line.number,
            account_offset: account.map_or(0, |(_, offset)| offset),
            sent: (sent_from, count(self.sent.len())),
        });
        self.histories[task as usize].push(delivery);
        self.by_delivered.insert((task, record), delivery);
    }

    /// What a line says of a record's clock and sender, against what was said before.
    fn learn(
        &mut self,
        record: RecordNo,
        clock: Clock,
        sender: Option<Option<(SenderId, i64)>>,
        place: Place,
        findings: &mut Findings,
    ) {
        let claims = self.claims(&clock);
        let sender =
            sender.map(|sender| sender.map(|(id, sequence)| (self.senders.of(id), sequence)));
        let known = &mut self.records[record as usize];
        let told = known.told;
        let mut differs = |what: &str| {
            findings.add(Finding {
                record: Some(record),
                other: Some((None, told)),
                ..Finding::new(
                    Kind::Contradiction,
                    place,
                    format!("two lines tell the record with different {what}"),
                )
            });
        };
        match &known.claims {
            Some(before) if *before != claims => differs("clocks"),
            _ => known.claims = Some(claims),
        }
        match (known.sender, sender) {
            (Some(before), Some(sender)) if before != sender => {
                differs("senders or sequences");
            }
            (None, Some(sender)) => known.sender = Some(sender),
            _ => {}
        }
    }

    /// What a line says of a record's key and value, against what was said before.
    fn learn_content(
        &mut self,
        record: RecordNo,
        told: Told,
        place: Place,
        findings: &mut Findings,
    ) {
        let known = &mut self.records[record as usize];
        let other = Some((None, known.told));
        let parts = [
            ("keys", &mut known.content.key, told.key),
            ("values", &mut known.content.value, told.value),
        ];
        for (what, before, now) in parts {
            if before.is_some() && now.is_some() && *before != now {
                let found = format!("two lines tell the record with different {what}");
                findings.add(Finding {
                    record: Some(record),
                    other,
                    ..Finding::new(Kind::Contradiction, place, found)
                });
            }
            *before = before.or(now);
        }
    }

    fn cover(&mut self, channel: ChannelNo, offset: i64, file: u32) {
        let ranges = self.ranges.entry(channel).or_default();
        match ranges.last_mut().filter(|range| range.file == file) {
            Some(range) => {
                range.first = range.first.min(offset);
                range.last = range.last.max(offset);
            }
            None => ranges.push(Range {
                file,
                first: offset,
                last: offset,
            }),
        }
    }

    /// Whether a dump of what is committed covers an offset: it stands between two that the dump has, or is one of them.
    pub fn is_covered(&self, channel: ChannelNo, offset: i64) -> bool {
        let ranges = self.ranges.get(&channel).into_iter().flatten();
        let mut ranges = ranges.filter(|range| (range.first..=range.last).contains(&offset));
        ranges.next().is_some()
    }

    fn claims(&mut self, clock: &Clock) -> Claims {
        let offsets = clock.offsets().iter();
        let mut offsets: Vec<_> = offsets
            .map(|claim| (self.number(claim.channel), claim.offset))
            .collect();
        let sequences = clock.sequences().iter();
        let mut sequences: Vec<_> = sequences
            .map(|claim| {
                let sender = self.senders.of(claim.sender);
                (self.number(claim.channel), sender, claim.sequence)
            })
            .collect();
        offsets.sort_unstable();
        sequences.sort_unstable();
        Claims {
            offsets: offsets.into(),
            sequences: sequences.into(),
        }
    }

    fn number(&mut self, channel: Channel) -> ChannelNo {
        let number = self.channels.of(channel);
        if self.topics.len() <= number as usize {
            self.topics.push(None);
        }
        number
    }

    fn channel(&mut self, channel: Channel, topic: &str) -> ChannelNo {
        let number = self.number(channel);
        self.topics[number as usize].get_or_insert_with(|| topic.into());
        number
    }

    fn record(&mut self, channel: ChannelNo, offset: i64, place: Place) -> RecordNo {
        let new = count(self.records.len());
        let number = *self.by_place.entry((channel, offset)).or_insert(new);
        if number == new {
            self.records.push(Record {
                channel,
                offset,
                sender: None,
                claims: None,
                dumped: None,
                is_in_log: false,
                content: Told::default(),
                is_committed: false,
                sent_for: None,
                sent_sequence: None,
                told: place,
            });
        }
        number
    }

    /// Puts the entries of accounts into the order of their offsets, whatever files they came from.
    pub fn end(&mut self) {
        for history in &mut self.histories {
            history.sort_by_key(|delivery| self.deliveries[*delivery as usize].account_offset);
        }
    }

    pub fn at(&self, channel: ChannelNo, offset: i64) -> Option<RecordNo> {
        self.by_place.get(&(channel, offset)).copied()
    }

    pub fn is_delivered(&self, task: TaskNo, record: RecordNo) -> bool {
        self.by_delivered.contains_key(&(task, record))
    }

    pub fn sent_for(&self, delivery: &Delivery) -> &[RecordNo] {
        &self.sent[delivery.sent.0 as usize..delivery.sent.1 as usize]
    }

    /// The records that are known to be committed, by channel and offset.
    pub fn logs(&self) -> Logs {
        let mut records = vec![Vec::new(); self.channels.len()];
        let mut first_dumped: Vec<Option<i64>> = vec![None; self.channels.len()];
        for (number, record) in self.records.iter().enumerate() {
            let channel = record.channel as usize;
            if record.is_committed {
                records[channel].push(count(number));
            }
            if record.dumped.is_some() {
                let first = first_dumped[channel].get_or_insert(record.offset);
                *first = record.offset.min(*first);
            }
        }
        for log in &mut records {
            log.sort_unstable_by_key(|number: &RecordNo| self.records[*number as usize].offset);
        }
        Logs {
            records,
            first_dumped,
        }
    }
}

/// What is known of each channel.
#[derive(Debug)]
pub struct Logs {
    /// The records that are known to be committed, by offset.
    pub records: Vec<Vec<RecordNo>>,
    first_dumped: Vec<Option<i64>>,
}

impl Logs {
    /// Whether a dump has a record of the channel at or below the offset: then the log start has not passed it. `None` without a dump.
    pub fn reaches_back_to(&self, channel: ChannelNo, offset: i64) -> Option<bool> {
        let first = self.first_dumped[channel as usize]?;
        Some(first <= offset)
    }
}
