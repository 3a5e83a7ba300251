//! The stored keys and values, rendered from an execution and parsed back.

use std::collections::{BTreeMap, BTreeSet};

use crate::clock::{Clock, Reader, put_i32, put_i64};
use crate::execution::{Execution, State};
use crate::id::{Channel, Sender, channel_text, parse_channel, parse_uuid, push_hex, uuid_text};
use crate::model::Store;
use crate::record::{Held, Record};

impl Execution {
    /// Ends a step: what is still held has its index, and the bytes are returned.
    pub(crate) fn leave(&mut self) -> Store {
        self.give_indices();
        self.cursor = None;
        render(self)
    }
}

/// Everything the execution would leave behind.
fn render(execution: &Execution) -> Store {
    let state = &execution.state;
    let mut store = Store::new();
    if let Some((inputs, sinks)) = &state.scope {
        let mut value = Vec::new();
        put_i32(&mut value, inputs.len() as i32);
        for &(msb, lsb, partition) in inputs {
            put_i64(&mut value, msb);
            put_i64(&mut value, lsb);
            put_i32(&mut value, partition);
        }
        put_i32(&mut value, sinks.len() as i32);
        for &(msb, lsb) in sinks {
            put_i64(&mut value, msb);
            put_i64(&mut value, lsb);
        }
        store.insert("scope".to_owned(), value);
    }
    for &on in &execution.inputs {
        if let Some(frontier) = execution.frontier(on) {
            store.insert(
                format!("f/{}", channel_text(on)),
                frontier.to_be_bytes().to_vec(),
            );
        }
    }
    for (&on, clock) in state
        .advertised
        .iter()
        .filter(|(_, clock)| !clock.is_empty())
    {
        store.insert(format!("cc/{}", channel_text(on)), clock.encode());
    }
    if !state.carried.is_empty() {
        store.insert("ca".to_owned(), state.carried.encode());
    }
    for (&on, &(head, tail)) in &state.indices {
        let mut value = Vec::new();
        put_i64(&mut value, head);
        put_i64(&mut value, tail);
        store.insert(format!("q/{}/m", channel_text(on)), value);
    }
    for (&on, queue) in &state.held {
        let entry = format!("q/{}/e/", channel_text(on));
        for held in queue {
            let index = held.index.expect("a committed record has its index");
            let mut key = entry.clone();
            push_hex(&mut key, index, 16);
            store.insert(key, envelope(&held.record));
        }
    }
    for (&on, &last) in &state.sent {
        store.insert(
            format!("sq/{}", channel_text(on)),
            last.to_be_bytes().to_vec(),
        );
    }
    for (&(on, sender), &(sequence, offset)) in &state.marks {
        let mut value = Vec::new();
        put_i64(&mut value, sequence);
        put_i64(&mut value, offset);
        store.insert(
            format!("ds/{}/{}", channel_text(on), uuid_text(sender)),
            value,
        );
    }
    store
}

/// A held record, verbatim.
pub fn envelope(record: &Record) -> Vec<u8> {
    let mut out = Vec::new();
    put_i64(&mut out, record.offset);
    put_i64(&mut out, record.timestamp);
    let ((msb, lsb), sequence) = record.tag.unwrap_or(((0, 0), -1));
    out.push(u8::from(record.tag.is_some()));
    put_i64(&mut out, msb);
    put_i64(&mut out, lsb);
    put_i64(&mut out, sequence);
    put_bytes(&mut out, Some(&record.clock.encode()));
    put_bytes(&mut out, record.key.as_deref());
    put_bytes(&mut out, record.value.as_deref());
    if !record.headers.is_empty() {
        put_i32(&mut out, record.headers.len() as i32);
        for (name, value) in &record.headers {
            put_bytes(&mut out, Some(name.as_bytes()));
            put_bytes(&mut out, value.as_deref());
        }
    }
    out
}

fn put_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        None => put_i32(out, -1),
        Some(bytes) => {
            put_i32(out, bytes.len() as i32);
            out.extend(bytes);
        }
    }
}

/// Reads a length and that many bytes; `Some(None)` for the null length.
fn take_bytes(input: &mut Reader<'_>) -> Option<Option<Vec<u8>>> {
    match input.i32()? {
        -1 => Some(None),
        length => Some(Some(input.bytes(usize::try_from(length).ok()?)?.to_vec())),
    }
}

fn open_envelope(bytes: &[u8]) -> Option<Record> {
    let mut input = Reader(bytes);
    let offset = input.i64().filter(|&offset| offset >= 0)?;
    let timestamp = input.i64()?;
    let tagged = input.bytes(1)?[0];
    let (sender, sequence) = ((input.i64()?, input.i64()?), input.i64()?);
    let tag = match tagged {
        0 if sender == (0, 0) => None,
        1 if sequence >= 0 => Some((sender, sequence)),
        _ => return None,
    };
    let clock = Clock::decode(&take_bytes(&mut input)??)?;
    let key = take_bytes(&mut input)?;
    let value = take_bytes(&mut input)?;
    let mut headers = Vec::new();
    if !input.ended() {
        let count = input.i32().filter(|&count| count > 0)?;
        for _ in 0..count {
            let name = String::from_utf8(take_bytes(&mut input)??).ok()?;
            headers.push((name, take_bytes(&mut input)?));
        }
    }
    input.ended().then_some(Record {
        offset,
        timestamp,
        tag,
        clock,
        key,
        value,
        headers,
    })
}

/// One value of one known key.
enum Entry {
    Frontier(Channel, i64),
    Advertised(Channel, Clock),
    Indices(Channel, (i64, i64)),
    Element(Channel, i64, Record),
    Mark(Channel, Sender, (i64, i64)),
    Sent(Channel, i64),
    Carried(Clock),
    Scope(BTreeSet<Channel>, BTreeSet<(i64, i64)>),
}

/// Parses a committed store, `None` for whatever G7 names.
pub fn parse(store: &Store) -> Option<State> {
    let mut state = State::default();
    let mut elements: BTreeMap<Channel, BTreeMap<i64, Record>> = BTreeMap::new();
    for (key, value) in store {
        match parse_entry(key, value)? {
            Entry::Frontier(on, frontier) => drop(state.frontiers.insert(on, frontier)),
            Entry::Advertised(on, clock) => drop(state.advertised.insert(on, clock)),
            Entry::Indices(on, indices) => drop(state.indices.insert(on, indices)),
            Entry::Element(on, index, record) => {
                drop(elements.entry(on).or_default().insert(index, record))
            }
            Entry::Mark(on, sender, mark) => drop(state.marks.insert((on, sender), mark)),
            Entry::Sent(on, last) => drop(state.sent.insert(on, last)),
            Entry::Carried(clock) => state.carried = clock,
            Entry::Scope(inputs, sinks) => state.scope = Some((inputs, sinks)),
        }
    }
    let Some((inputs, _)) = &state.scope else {
        return store.is_empty().then_some(state);
    };
    let named = state
        .frontiers
        .keys()
        .chain(state.advertised.keys())
        .chain(state.indices.keys());
    let marked = state.marks.keys().map(|(on, _)| on);
    if named
        .chain(elements.keys())
        .chain(marked)
        .any(|on| !inputs.contains(on))
    {
        return None;
    }
    for (on, queue) in elements {
        let &(head, tail) = state.indices.get(&on)?;
        if !queue.keys().copied().eq(head..tail) {
            return None;
        }
        let offsets: Vec<i64> = queue.values().map(|record| record.offset).collect();
        if !offsets.is_sorted_by(|earlier, later| earlier < later) {
            return None;
        }
        if state
            .frontiers
            .get(&on)
            .is_some_and(|&frontier| frontier >= offsets[0])
        {
            return None;
        }
        let held = queue.into_iter().map(|(index, record)| Held {
            record,
            index: Some(index),
            arrival: 0,
        });
        state.held.insert(on, held.collect());
    }
    let filled =
        |(on, &(head, tail)): (&Channel, &(i64, i64))| head == tail || state.held.contains_key(on);
    state.indices.iter().all(filled).then_some(state)
}

fn parse_entry(key: &str, value: &[u8]) -> Option<Entry> {
    match key {
        "scope" => return parse_scope(value),
        "ca" => return Some(Entry::Carried(Clock::decode(value)?)),
        _ => {}
    }
    let mut input = Reader(value);
    let (class, rest) = key.split_once('/')?;
    let entry = match class {
        "f" => Entry::Frontier(parse_channel(rest)?, not_negative(&mut input)?),
        "sq" => Entry::Sent(parse_channel(rest)?, not_negative(&mut input)?),
        "cc" => {
            return Some(Entry::Advertised(
                parse_channel(rest)?,
                Clock::decode(value)?,
            ));
        }
        "ds" => {
            let (on, sender) = rest.split_once('/')?;
            let mark = (not_negative(&mut input)?, not_negative(&mut input)?);
            Entry::Mark(parse_channel(on)?, parse_uuid(sender)?, mark)
        }
        "q" => {
            let (on, rest) = rest.split_once('/')?;
            let on = parse_channel(on)?;
            if rest == "m" {
                let (head, tail) = (not_negative(&mut input)?, not_negative(&mut input)?);
                if head > tail {
                    return None;
                }
                Entry::Indices(on, (head, tail))
            } else {
                let digits = rest.strip_prefix("e/")?;
                let index = i64::from_str_radix(digits, 16)
                    .ok()
                    .filter(|&index| index >= 0)?;
                if format!("{index:016x}") != digits {
                    return None;
                }
                return Some(Entry::Element(on, index, open_envelope(value)?));
            }
        }
        _ => return None,
    };
    input.ended().then_some(entry)
}

fn not_negative(input: &mut Reader<'_>) -> Option<i64> {
    input.i64().filter(|&value| value >= 0)
}

/// The lists stand in order, each entry once: that is how they are written.
fn parse_scope(value: &[u8]) -> Option<Entry> {
    let mut input = Reader(value);
    let (mut inputs, mut sinks) = (Vec::new(), Vec::new());
    for _ in 0..input.i32().filter(|&count| count >= 0)? {
        inputs.push(input.channel()?);
    }
    for _ in 0..input.i32().filter(|&count| count >= 0)? {
        sinks.push((input.i64()?, input.i64()?));
    }
    let in_order =
        inputs.is_sorted_by(|one, next| one < next) && sinks.is_sorted_by(|one, next| one < next);
    (in_order && input.ended())
        .then(|| Entry::Scope(inputs.into_iter().collect(), sinks.into_iter().collect()))
}
