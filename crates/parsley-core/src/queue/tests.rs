//! The buffer against a plain list of records, at windows that spill at once and windows that never do.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::channel::{Id, TopicId};
use crate::clock::{Clock, SequenceClaim};
use crate::layout::{pair_from_bytes, pair_to_bytes};
use crate::record::Header;
use crate::store::MemoryStore;
use crate::strategies::cases;
use crate::wire;

fn channel(number: i64) -> Channel {
    TopicId(Id {
        msb: 0,
        lsb: number,
    })
    .partition(0)
}

fn on() -> Channel {
    channel(1)
}

fn sender(number: i64) -> SenderId {
    SenderId(Id {
        msb: number,
        lsb: 0,
    })
}

fn record(offset: Offset) -> HeldRecord {
    HeldRecord {
        offset,
        timestamp_ms: -offset,
        sender: None,
        clock: Bytes::from_static(&wire::EMPTY_CLOCK),
        key: None,
        value: Some(Bytes::copy_from_slice(&offset.to_be_bytes())),
        headers: vec![],
    }
}

fn sent(offset: Offset, from: i64, sequence: i64) -> HeldRecord {
    HeldRecord {
        sender: Some((sender(from), sequence)),
        ..record(offset)
    }
}

fn claiming(offset: Offset, claims: &[(i64, i64, i64)]) -> HeldRecord {
    let claims = claims.iter().map(|&(on, from, sequence)| SequenceClaim {
        channel: channel(on),
        sender: sender(from),
        sequence,
    });
    HeldRecord {
        clock: wire::encode(&Clock::from_claims([], claims)).into(),
        ..record(offset)
    }
}

fn meta_key() -> Vec<u8> {
    StateKey::QueueMeta(on()).to_bytes()
}

fn entry_key(index: u64) -> Vec<u8> {
    StateKey::QueueEntry(on(), index).to_bytes()
}

fn restored(store: &MemoryStore, window: usize) -> Result<Queue, String> {
    let mut queue = Queue::new(on(), window);
    for (key, value) in store.iter() {
        match StateKey::parse(key) {
            Some(StateKey::QueueEntry(_, index)) => {
                let held = HeldRef::read(value).expect("a record");
                queue.restore_entry(index, &held, value)?;
            }
            Some(StateKey::QueueMeta(_)) => {
                let (head, tail) = pair_from_bytes(value).expect("a pair");
                queue.restore_meta(head, tail)?;
            }
            other => panic!("not a key of a queue: {other:?}"),
        }
    }
    Ok(queue)
}

fn written(records: impl IntoIterator<Item = HeldRecord>, window: usize) -> (Queue, MemoryStore) {
    let (mut queue, mut store) = (Queue::new(on(), window), MemoryStore::new());
    for record in records {
        queue.push(record);
    }
    queue.write(&mut store).expect("memory does not fail");
    (queue, store)
}

fn pop(queue: &mut Queue, store: &MemoryStore) -> Option<(HeldRecord, bool)> {
    let taken = queue.pop(store).expect("the store is sound")?;
    Some((taken.record, taken.was_held))
}

type Claims = BTreeMap<(Channel, SenderId), i64>;

fn claims(queue: &Queue) -> Claims {
    let mut highest = Claims::new();
    queue.visit_claims(|channel, sender, sequence| {
        let known = highest.entry((channel, sender)).or_insert(sequence);
        *known = sequence.max(*known);
    });
    highest
}

/// The buffer as a list: each record with its index, once it has one.
#[derive(Clone, Debug, Default)]
struct Model {
    held: VecDeque<(Option<u64>, HeldRecord)>,
    next_index: u64,
}

impl Model {
    fn settle_indices(&mut self) {
        for (index, _) in self.held.iter_mut().filter(|(index, _)| index.is_none()) {
            *index = Some(self.next_index);
            self.next_index += 1;
        }
    }

    fn lowest_sequence(&self, of: SenderId) -> Option<i64> {
        let sent = self.held.iter().filter_map(|(_, record)| record.sender);
        sent.filter(|&(from, _)| from == of)
            .map(|(_, sequence)| sequence)
            .min()
    }

    fn highest_sequence(&self, of: SenderId) -> Option<i64> {
        let sent = self.held.iter().filter_map(|(_, record)| record.sender);
        sent.filter(|&(from, _)| from == of)
            .map(|(_, sequence)| sequence)
            .max()
    }

    fn claims(&self) -> Claims {
        let mut highest = Claims::new();
        for (_, record) in &self.held {
            let clock = wire::decode(&record.clock).expect("a clock").into_clock();
            for claim in clock.sequences() {
                let known = highest
                    .entry((claim.channel, claim.sender))
                    .or_insert(claim.sequence);
                *known = claim.sequence.max(*known);
            }
        }
        highest
    }

    /// What the store holds when all this is written.
    fn stored(&self) -> BTreeMap<Vec<u8>, Bytes> {
        let mut stored = BTreeMap::new();
        for (index, record) in &self.held {
            stored.insert(entry_key(index.expect("settled")), record.to_bytes());
        }
        if self.next_index > 0 {
            let head = self.next_index - self.held.len() as u64;
            stored.insert(
                meta_key(),
                pair_to_bytes(head as i64, self.next_index as i64),
            );
        }
        stored
    }
}

fn agrees(queue: &Queue, model: &Model) -> Result<(), TestCaseError> {
    prop_assert_eq!(queue.len(), model.held.len() as u64);
    prop_assert_eq!(queue.is_empty(), model.held.is_empty());
    prop_assert_eq!(queue.head(), model.held.front().map(|(_, record)| record));
    prop_assert_eq!(
        queue.last_offset(),
        model.held.back().map(|(_, record)| record.offset)
    );
    for number in 0..4 {
        prop_assert_eq!(
            queue.lowest_sequence(sender(number)),
            model.lowest_sequence(sender(number))
        );
        prop_assert_eq!(
            queue.highest_sequence(sender(number)),
            model.highest_sequence(sender(number))
        );
    }
    prop_assert_eq!(claims(queue), model.claims());
    Ok(())
}

#[derive(Clone, Debug)]
enum Operation {
    Push(Vec<Drawn>),
    Pop(usize),
    SettleIndices,
    Write,
    /// Back to what was written last, as after an abort.
    Restore,
}

/// A record without its position.
#[derive(Clone, Debug)]
struct Drawn {
    gap: i64,
    sender: Option<(i64, i64)>,
    claims: Vec<(i64, i64, i64)>,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    // Sequences mostly go up one by one, as senders count; anything else is taken as it comes.
    (
        1..4_i64,
        prop::option::of((0..3_i64, 0..4_i64)),
        prop::collection::vec((0..3_i64, 0..2_i64, 0..6_i64), 0..3),
    )
        .prop_map(|(gap, sender, claims)| Drawn {
            gap,
            sender,
            claims,
        })
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        5 => prop::collection::vec(drawn(), 1..6).prop_map(Operation::Push),
        4 => (1..6_usize).prop_map(Operation::Pop),
        2 => Just(Operation::SettleIndices),
        3 => Just(Operation::Write),
        1 => Just(Operation::Restore),
    ]
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn the_queue_is_a_list_whatever_its_window(
        window in prop::sample::select(vec![1_usize, 2, 3, 100]),
        operations in prop::collection::vec(operation(), 1..40),
    ) {
        let (mut queue, mut model) = (Queue::new(on(), window), Model::default());
        let mut store = MemoryStore::new();
        let mut committed = model.clone();
        let mut next_offset = 0;
        let mut counters = BTreeMap::new();
        for operation in operations {
            match operation {
                Operation::Push(records) => {
                    for drawn in records {
                        next_offset += drawn.gap;
                        let mut record = claiming(next_offset, &drawn.claims);
                        if let Some((from, step)) = drawn.sender {
                            let sequence = counters.entry(from).or_insert(0);
                            // A step of 3 goes back, which a sender never does and a queue must survive.
                            *sequence += if step == 3 { -5 } else { step.max(1) };
                            record.sender = Some((sender(from), 100 + *sequence));
                        }
                        queue.push(record.clone());
                        model.held.push_back((None, record));
                    }
                }
                Operation::Pop(times) => {
                    for _ in 0..times {
                        let expected = model
                            .held
                            .pop_front()
                            .map(|(index, record)| (record, index.is_some()));
                        prop_assert_eq!(pop(&mut queue, &store), expected);
                        agrees(&queue, &model)?;
                    }
                }
                Operation::SettleIndices => {
                    queue.settle_indices();
                    model.settle_indices();
                }
                Operation::Write => {
                    queue.write(&mut store).expect("memory does not fail");
                    model.settle_indices();
                    committed = model.clone();
                    let stored: BTreeMap<_, _> =
                        store.iter().map(|(key, value)| (key.to_vec(), value.clone())).collect();
                    prop_assert_eq!(stored, model.stored());
                    prop_assert!(queue.front.len() <= window);
                    prop_assert!(queue.back.is_empty());
                }
                Operation::Restore => {
                    queue = restored(&store, window).expect("what was written");
                    model = committed.clone();
                    prop_assert!(queue.front.len() <= window);
                }
            }
            agrees(&queue, &model)?;
        }
        while let Some((index, record)) = model.held.pop_front() {
            prop_assert_eq!(pop(&mut queue, &store), Some((record, index.is_some())));
        }
        prop_assert_eq!(pop(&mut queue, &store), None);
    }
}

#[test]
fn memory_keeps_a_window_and_reads_the_rest_window_by_window() {
    for window in [1, 2, 3, 100] {
        let (mut queue, store) = written((0..50).map(record), window);
        assert_eq!(queue.len(), 50);
        assert_eq!(queue.front.len(), window.min(50));
        assert_eq!(queue.spilled, 50_u64.saturating_sub(window as u64));
        for offset in 0..50 {
            assert_eq!(pop(&mut queue, &store), Some((record(offset), true)));
            assert!(queue.front.len() + queue.back.len() <= window.min(49));
        }
        assert_eq!(pop(&mut queue, &store), None);
        assert!(queue.is_empty());
        assert_eq!(queue.last_offset(), None);
    }
    // No window at all is a window of one.
    let (queue, _) = written((0..5).map(record), 0);
    assert_eq!(queue.front.len(), 1);
    assert_eq!(queue.len(), 5);
}

#[test]
fn a_record_that_went_straight_through_never_had_an_index() {
    let (mut queue, mut store) = (Queue::new(on(), 2), MemoryStore::new());
    queue.push(record(0));
    assert_eq!(pop(&mut queue, &store), Some((record(0), false)));
    queue.write(&mut store).expect("memory");
    assert_eq!(store, MemoryStore::new());

    queue.push(record(1));
    queue.push(record(2));
    queue.settle_indices();
    assert_eq!(pop(&mut queue, &store), Some((record(1), true)));
    queue.push(record(3));
    assert_eq!(pop(&mut queue, &store), Some((record(2), true)));
    assert_eq!(pop(&mut queue, &store), Some((record(3), false)));
    queue.write(&mut store).expect("memory");
    // Two indices were given out; nothing is held.
    let stored: Vec<_> = store.iter().collect();
    let (key, meta) = (Bytes::from(meta_key()), pair_to_bytes(2, 2));
    assert_eq!(stored, [(&key, &meta)]);

    // Counting goes on from there, also after a restart.
    let mut queue = restored(&store, 2).expect("what was written");
    queue.push(record(4));
    queue.write(&mut store).expect("memory");
    assert_eq!(
        store.get(&entry_key(2)).expect("memory"),
        Some(record(4).to_bytes())
    );
    assert_eq!(
        store.get(&meta_key()).expect("memory"),
        Some(pair_to_bytes(2, 3))
    );
}

#[test]
fn nothing_is_written_when_nothing_changed() {
    let (mut queue, store) = written((0..3).map(record), 2);
    let mut staged = crate::store::Staged::over(store);
    queue.write(&mut staged).expect("memory");
    assert!(staged.changes().is_empty());
    assert_eq!(
        queue
            .pop(&staged)
            .expect("memory")
            .map(|taken| taken.record),
        Some(record(0))
    );
    queue.write(&mut staged).expect("memory");
    let changed: Vec<_> = staged.changes().0.iter().collect();
    let (entry, meta) = (Bytes::from(entry_key(0)), Bytes::from(meta_key()));
    assert_eq!(
        changed,
        [(&entry, &None), (&meta, &Some(pair_to_bytes(1, 3)))]
    );
}

/// B17: lossy persistence of held records.
#[test]
fn b17_held_records_come_back_byte_for_byte_and_in_numeric_order() {
    let odd = |offset: Offset| HeldRecord {
        offset,
        timestamp_ms: -offset,
        sender: (offset % 2 == 0).then(|| (sender(-1), offset)),
        clock: claiming(0, &[(2, 1, offset)]).clock,
        key: [None, Some(Bytes::new()), Some(Bytes::from_static(b"k"))][offset as usize % 3]
            .clone(),
        value: [Some(Bytes::new()), None, Some(Bytes::from_static(b"v"))][offset as usize % 3]
            .clone(),
        headers: vec![
            Header::new("trace", "1"),
            Header::null("trace"),
            Header::new("", ""),
        ],
    };
    // Indices 0 to 299: 9, 10, 11, 255 and 256 are among them.
    for window in [1, 3, 1000] {
        let (_, mut store) = written((0..300).map(odd), window);
        let mut queue = restored(&store, window).expect("what was written");
        for offset in 0..300 {
            assert_eq!(
                store.get(&entry_key(offset as u64)).expect("memory"),
                Some(odd(offset).to_bytes())
            );
            assert_eq!(pop(&mut queue, &store), Some((odd(offset), true)));
        }
        assert!(queue.is_empty());
        queue.write(&mut store).expect("memory");
        assert_eq!(store.iter().count(), 1);
    }
}

#[test]
fn the_lowest_sequence_is_found_wherever_it_is_held() {
    let (mut queue, mut store) = (Queue::new(on(), 1), MemoryStore::new());
    assert_eq!(queue.lowest_sequence(sender(1)), None);
    for record in [
        sent(0, 1, 5),
        sent(1, 2, 0),
        sent(2, 1, 6),
        sent(3, 1, 9),
        sent(4, 1, 2),
    ] {
        queue.push(record);
    }
    // Still without an index, then with one, then in the store alone.
    for _ in 0..3 {
        assert_eq!(queue.lowest_sequence(sender(1)), Some(2));
        assert_eq!(queue.lowest_sequence(sender(2)), Some(0));
        assert_eq!(queue.lowest_sequence(sender(3)), None);
        queue.settle_indices();
        queue.write(&mut store).expect("memory");
    }
    for (lowest, other) in [
        (Some(2), Some(0)),
        (Some(2), None),
        (Some(2), None),
        (Some(2), None),
        (None, None),
    ] {
        pop(&mut queue, &store).expect("a record");
        assert_eq!(queue.lowest_sequence(sender(1)), lowest);
        assert_eq!(queue.lowest_sequence(sender(2)), other);
    }
    queue.push(sent(5, 1, i64::MAX));
    queue.push(sent(6, 1, 7));
    assert_eq!(queue.lowest_sequence(sender(1)), Some(7));
    queue.settle_indices();
    assert_eq!(queue.lowest_sequence(sender(1)), Some(7));
}

#[test]
fn a_senders_consecutive_records_take_one_entry_of_memory() {
    let (mut queue, store) = written((0..1000).map(|at| sent(at, 1, at)), 4);
    assert_eq!(queue.held.sizes(), (1, 0));
    pop(&mut queue, &store).expect("a record");
    assert_eq!(queue.held.sizes(), (1, 0));
    let (mut queue, store) = written([sent(0, 1, 4), sent(1, 1, 6), sent(2, 1, 7)], 4);
    for left in [2, 1, 1, 0] {
        assert_eq!(queue.held.sizes(), (left, 0));
        pop(&mut queue, &store);
    }
    let lowest = |queue: &Queue| queue.lowest_sequence(sender(1));
    let mixed = (0..).zip([4, 3, 9, 5]);
    let (mut queue, store) = written(mixed.map(|(at, number)| sent(at, 1, number)), 4);
    for expected in [Some(3), Some(3), Some(5), Some(5), None] {
        assert_eq!(lowest(&queue), expected);
        pop(&mut queue, &store);
    }
}

/// Held, committed step by step, and read again: in memory there is the window, and an entry for what each sender sends and claims.
#[test]
fn however_many_records_are_held_memory_keeps_the_window() {
    let (window, step, held) = (256, 1000, 50_000);
    let (mut queue, mut store) = (Queue::new(on(), window), MemoryStore::new());
    for first in (0..held).step_by(step) {
        for at in (first..).take(step) {
            queue.push(HeldRecord {
                sender: Some((sender(at % 3), at / 3)),
                ..claiming(at, &[(2, at % 3, at)])
            });
        }
        queue.settle_indices();
        queue.write(&mut store).expect("memory");
        assert!(queue.front.len() <= window && queue.front.capacity() <= 2 * window);
        assert!(queue.back.is_empty() && queue.back.capacity() <= 2 * window);
    }
    let again = restored(&store, window).expect("it is sound");
    for queue in [&queue, &again] {
        assert_eq!(queue.len(), held as u64);
        assert_eq!(queue.spilled, (held as usize - window) as u64);
        assert_eq!(queue.held.sizes(), (3, 3));
    }
    assert!(again.front.capacity() <= 2 * window);
}

/// What a sender claims of another rises from record to record.
#[test]
fn claims_that_rise_take_one_entry_of_memory_for_each_sender_that_makes_them() {
    let by_turns = |at: i64| claiming(at, &[(2, 1, at / 2 + 1000 * (at % 2)), (2, 2, 5)]);
    let (mut queue, store) = written((0..1000).map(by_turns), 4);
    assert_eq!(queue.held.sizes(), (0, 2));
    for _ in 0..1000 {
        pop(&mut queue, &store).expect("a record");
        assert!(queue.held.sizes().1 <= 3);
    }
    assert_eq!(queue.held.sizes(), (0, 0));
}

#[test]
fn the_highest_claims_of_what_is_left_are_known() {
    let records = [
        claiming(0, &[(2, 1, 7), (3, 1, 1)]),
        claiming(1, &[(2, 1, 5)]),
        claiming(2, &[(2, 1, 3), (2, 2, 0)]),
        claiming(3, &[(2, 1, 5)]),
        claiming(4, &[]),
    ];
    let key = |on, from| (channel(on), sender(from));
    let expected: [Claims; 6] = [
        [(key(2, 1), 7), (key(2, 2), 0), (key(3, 1), 1)].into(),
        [(key(2, 1), 5), (key(2, 2), 0)].into(),
        [(key(2, 1), 5), (key(2, 2), 0)].into(),
        [(key(2, 1), 5)].into(),
        [].into(),
        [].into(),
    ];
    // All indexed and mostly in the store, then all fresh.
    let (mut queue, store) = written(records.clone(), 1);
    for expected in &expected {
        assert_eq!(&claims(&queue), expected);
        pop(&mut queue, &store);
    }
    assert_eq!(queue.held.sizes(), (0, 0));
    let mut queue = Queue::new(on(), 1);
    for record in records {
        queue.push(record);
    }
    for expected in &expected {
        assert_eq!(&claims(&queue), expected);
        pop(&mut queue, &store);
    }
}

fn refusal(queue: &mut Queue, store: &MemoryStore) -> String {
    match queue.pop(store) {
        Err(NodeError::Refused(refusal)) => {
            assert_eq!(refusal.code, RefusalCode::CorruptState);
            refusal.found
        }
        other => panic!("not refused: {:?}", other.map(|taken| taken.is_some())),
    }
}

#[test]
fn a_held_entry_that_went_missing_or_bad_is_corrupt_state_with_its_key() {
    let key_text = |index| String::from_utf8(entry_key(index)).expect("text");
    let spoilt = |spoil: &dyn Fn(&mut MemoryStore)| {
        let (mut queue, mut store) = written((0..4).map(record), 2);
        spoil(&mut store);
        assert_eq!(pop(&mut queue, &store), Some((record(0), true)));
        refusal(&mut queue, &store)
    };
    let missing = |index| format!("state key {:?}: the held entry is missing", key_text(index));
    // The next in line, the one behind it, and both.
    let found = spoilt(&|store| store.delete(&entry_key(2)).expect("memory"));
    assert_eq!(found, missing(2));
    let found = spoilt(&|store| store.delete(&entry_key(3)).expect("memory"));
    assert_eq!(found, missing(3));
    let found = spoilt(&|store| {
        store.delete(&entry_key(2)).expect("memory");
        store.delete(&entry_key(3)).expect("memory");
    });
    assert_eq!(found, missing(2));
    let found = spoilt(&|store| {
        store
            .put(&entry_key(3), Bytes::from_static(b"bad"))
            .expect("memory");
    });
    assert!(
        found.starts_with(&format!("state key {:?}: wrong length 3", key_text(3))),
        "{found}"
    );
}

#[test]
fn a_stored_queue_that_contradicts_itself_is_refused() {
    let take = |entries: &[(u64, Offset)], meta: Option<(i64, i64)>| {
        let mut queue = Queue::new(on(), 2);
        for &(index, offset) in entries {
            let value = record(offset).to_bytes();
            let held = HeldRef::read(&value).expect("a record");
            queue.restore_entry(index, &held, &value)?;
        }
        if let Some((head, tail)) = meta {
            queue.restore_meta(head, tail)?;
        }
        Ok(queue)
    };
    let gap = "the held entries have a gap before this one";
    let order = "the held entries stand out of position order";
    let fill = "the held entries do not fill the range from head to tail index";
    let above = "the head index lies above the tail index";
    type Stored = (&'static [(u64, Offset)], Option<(i64, i64)>, &'static str);
    let refused: [Stored; 12] = [
        (&[(3, 1), (5, 2)], None, gap),
        (&[(3, 1), (3, 2)], None, gap),
        (&[(3, 1), (2, 2)], None, gap),
        (&[(3, 5), (4, 5)], None, order),
        (&[(3, 5), (4, 4)], None, order),
        (&[(u64::MAX, 5)], None, "the index is out of range"),
        (&[(3, 1), (4, 2)], Some((3, 4)), fill),
        (&[(3, 1), (4, 2)], Some((3, 6)), fill),
        (&[(3, 1), (4, 2)], Some((2, 5)), fill),
        (&[(3, 1), (4, 2)], Some((5, 3)), above),
        (&[], Some((1, 0)), above),
        (&[], Some((0, 1)), fill),
    ];
    for (entries, meta, expected) in refused {
        let found: Result<Queue, &str> = take(entries, meta);
        assert_eq!(found.err(), Some(expected), "{entries:?} {meta:?}");
    }
    let queue = take(&[(3, 1), (4, 2), (5, 4)], Some((3, 6))).expect("it fits");
    assert_eq!((queue.len(), queue.last_offset()), (3, Some(4)));
    assert_eq!((queue.front.len(), queue.spilled), (2, 1));
    let queue = take(&[], Some((7, 7))).expect("it fits");
    assert_eq!((queue.len(), queue.last_offset()), (0, None));
    assert_eq!((queue.head, queue.tail), (7, 7));
}
