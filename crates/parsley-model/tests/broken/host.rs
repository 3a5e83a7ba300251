//! A host that writes down what it sees, in words short enough to compare.

use std::collections::BTreeMap;

use parsley_model::{
    Broken, Channel, Clock, Fetched, Mark, Model, OpenLine, Refused, Sender, Topic, channel, named,
    topic_of,
};

const ME: &str = "me";
const SENDERS: [&str; 3] = [ME, "alice", "bob"];

/// Topics are letters, and channel order is their order.
fn topic(letter: char) -> Topic {
    (0, i64::from(u32::from(letter)))
}

pub fn on(letter: &str) -> Channel {
    let letter = letter.chars().next().expect("a letter");
    channel(topic(letter), 0)
}

fn letter(on: Channel) -> char {
    u32::try_from(on.1)
        .ok()
        .and_then(char::from_u32)
        .expect("a letter")
}

fn sender_name(sender: Sender) -> &'static str {
    let mut known = SENDERS.into_iter();
    known
        .find(|name| named(name) == sender)
        .expect("a known sender")
}

/// Claims in words: `a<=3 b/alice<=0`.
fn clock(claims: &str) -> Clock {
    let mut clock = Clock::default();
    for claim in claims.split_whitespace() {
        let (what, limit) = claim.split_once("<=").expect("a claim");
        let limit = limit.parse().expect("a number");
        match what.split_once('/') {
            Some((named_channel, sender)) => {
                assert!(SENDERS.contains(&sender), "{sender}");
                clock.claim_sequence(on(named_channel), named(sender), limit);
            }
            None => clock.claim_offset(on(what), limit),
        }
    }
    clock
}

fn claims(clock: &Clock) -> String {
    let offsets = clock.offsets.iter();
    let offsets = offsets.map(|(&on, limit)| format!("{}<={limit}", letter(on)));
    let sequences = clock.sequences.iter().map(|(&(on, sender), limit)| {
        let sender = sender_name(sender);
        format!("{}/{sender}<={limit}", letter(on))
    });
    offsets.chain(sequences).collect::<Vec<_>>().join(" ")
}

fn offsets(pairs: &[(&str, i64)]) -> BTreeMap<Channel, i64> {
    pairs.iter().map(|&(letter, at)| (on(letter), at)).collect()
}

pub struct Host {
    model: Model,
    line: OpenLine,
    positions: BTreeMap<Channel, i64>,
    mark: Option<Mark>,
    said: Vec<String>,
}

impl Host {
    pub fn breaking(broken: Option<Broken>) -> Host {
        Host {
            model: Model::default().breaking(broken),
            line: OpenLine::default(),
            positions: BTreeMap::new(),
            mark: None,
            said: Vec::new(),
        }
    }

    pub fn said(&self) -> String {
        self.said.join(" ")
    }

    /// Whether nothing was refused.
    pub fn runs(&self) -> bool {
        self.model.running()
    }

    fn say(&mut self, word: impl Into<String>) {
        self.said.push(word.into());
    }

    fn heed<T>(&mut self, outcome: Result<T, Refused>) -> Option<T> {
        outcome
            .map_err(|refused| self.say(format!("refused {}", refused.code)))
            .ok()
    }

    fn drain(&mut self) {
        if self.runs() {
            for delivery in self.model.drain() {
                self.say(format!("{}{}", letter(delivery.on), delivery.record.offset));
            }
        }
    }

    /// Opens with the declaration; says where joined channels are read from.
    pub fn open(&mut self, inputs: &str, sinks: &str) {
        let letters = |text: &str| text.chars().collect::<Vec<_>>();
        self.line.name = ME.to_owned();
        self.line.inputs = letters(inputs)
            .iter()
            .map(|&letter| channel(topic(letter), 0))
            .collect();
        self.line.sinks = letters(sinks)
            .iter()
            .map(|&letter| (topic(letter), 1))
            .collect();
        self.reopen();
    }

    fn reopen(&mut self) {
        self.line.start = self.positions.clone();
        self.line
            .start
            .retain(|on, _| self.line.inputs.contains(on));
        self.line.group_has_positions = !self.positions.is_empty();
        let opened = self.model.open(&self.line);
        for (on, from) in self
            .heed(opened)
            .map(|opened| opened.resume)
            .into_iter()
            .flatten()
        {
            self.say(format!("{}@{from}", letter(on)));
        }
        self.drain();
    }

    fn stop(&mut self) {
        self.positions.extend(self.model.stop());
    }

    pub fn restart(&mut self) {
        self.say("restart");
        self.stop();
        self.reopen();
    }

    pub fn redeclare(&mut self, inputs: &str, sinks: &str) {
        self.say("redeclare");
        self.stop();
        self.open(inputs, sinks);
    }

    pub fn crash(&mut self) {
        self.say("crash");
        self.model.abort();
        self.reopen();
    }

    /// The group's position, moved behind the node's back.
    pub fn rewind(&mut self, letter: &str, position: i64) {
        self.say("rewind");
        self.stop();
        self.positions.insert(on(letter), position);
        self.reopen();
    }

    /// End offsets of the next initialisation.
    pub fn ends(&mut self, ends: &[(&str, i64)]) {
        self.line.ends = offsets(ends);
    }

    fn receive(&mut self, letter: &str, fetched: &Fetched) {
        let received = self.model.receive(on(letter), fetched);
        if self.heed(received) == Some(true) {
            self.say(format!("-{letter}{}", fetched.offset));
        }
    }

    pub fn feed(&mut self, letter: &str, offset: i64, claims: &str) {
        self.feed_undrained(letter, offset, claims);
        self.drain();
    }

    pub fn feed_undrained(&mut self, letter: &str, offset: i64, claims: &str) {
        self.receive(letter, &Fetched::claiming(offset, &clock(claims)));
    }

    pub fn feed_sent(&mut self, letter: &str, offset: i64, sent: (&str, i64), claims: &str) {
        let fetched = Fetched::claiming(offset, &clock(claims)).sent_by(named(sent.0), sent.1);
        self.receive(letter, &fetched);
        self.drain();
    }

    pub fn feed_corrupt(&mut self, letter: &str, offset: i64) {
        let fetched = Fetched {
            offset,
            headers: vec![("vc".to_owned(), Some(vec![9]))],
            ..Fetched::default()
        };
        self.receive(letter, &fetched);
        self.drain();
    }

    pub fn position(&mut self, letter: &str, next: i64) {
        let outcome = self.model.position(on(letter), next);
        self.heed(outcome);
        self.drain();
    }

    pub fn send(&mut self, letter: &str) {
        let stamp = self.model.send(on(letter));
        if let Some(stamp) = self.heed(stamp) {
            let claims = claims(&stamp.clock);
            self.say(format!("{letter}#{}[{claims}]", stamp.sequence));
        }
    }

    pub fn commit(&mut self, acknowledged: &[(&str, i64)]) {
        let positions = self.model.commit(&offsets(acknowledged));
        self.positions.extend(positions);
    }

    pub fn mark(&mut self) {
        self.mark = Some(self.model.mark());
    }

    /// A high watermark that was asked for at the mark.
    pub fn watermark(&mut self, letter: &str, watermark: i64) {
        let mark = self.mark.take().expect("a mark");
        self.model
            .watermarks(&mark, &offsets(&[(letter, watermark)]));
        self.drain();
    }

    pub fn log_start(&mut self, letter: &str, at: i64) {
        let outcome = self.model.check(&offsets(&[(letter, at)]), &[].into());
        self.heed(outcome);
        self.drain();
    }

    pub fn delete(&mut self, letter: &str) {
        let gone = [topic_of(on(letter))].into();
        let outcome = self.model.check(&BTreeMap::new(), &gone);
        self.heed(outcome);
        self.drain();
    }

    pub fn sweep(&mut self, bounds: &[(&str, i64)]) {
        self.model.sweep(&offsets(bounds), &[].into());
    }
}
