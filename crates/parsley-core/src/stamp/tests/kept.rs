//! The stamp that is kept from send to send against the one from scratch, after whatever may happen to a node in between.

use proptest::prelude::*;

use super::*;
use crate::layout::pair_to_bytes;
use crate::record::Record;
use crate::store::StateStore;
use crate::strategies::{cases, natural};
use crate::watermark::Mark;
use crate::{NodeConfig, NodeLimits, OpenFacts};

const INPUTS: [i64; 3] = [1, 2, 3];
const SINKS: [i64; 2] = [10, 20];

/// What happens to a node.
#[derive(Clone, Debug)]
enum Event {
    /// A record on an input, so far behind the last one, with a clock and perhaps a sender and a sequence.
    Receive(usize, i64, Clock, Option<(SenderId, i64)>),
    /// So many deliveries, or fewer.
    Deliver(usize),
    Advance(usize, i64),
    /// A send, whose stamp is looked at.
    Send(Channel),
    Fence(Vec<(Channel, Offset)>),
    Commit(Vec<(Channel, Offset)>),
    Mark,
    /// High watermarks asked for after the last mark.
    Watermarks(BTreeMap<Channel, Offset>),
    /// Topics are found gone.
    Gone(BTreeSet<TopicId>),
    Truncate(BTreeMap<Channel, Offset>, BTreeSet<TopicId>),
    Reopen(Declared),
}

/// How a node is opened again.
#[derive(Clone, Debug)]
struct Declared {
    inputs: Vec<i64>,
    sinks: Vec<i64>,
    ends: BTreeMap<Channel, Offset>,
    /// A delivered mark is put into the store, wherever the frontier may stand: no node writes one above it.
    mark: Option<(i64, SenderId, i64, Offset)>,
}

fn any_sender() -> impl Strategy<Value = SenderId> {
    prop_oneof![Just(SELF), Just(OTHER), Just(3)].prop_map(sender)
}

fn any_channel() -> impl Strategy<Value = Channel> {
    let topics = prop::sample::select(vec![1, 2, 3, 10, 20, 30, 31]);
    (topics, prop_oneof![3 => Just(0), 1 => Just(1)])
        .prop_map(|(number, partition)| topic(number).partition(partition))
}

fn any_sink() -> impl Strategy<Value = Channel> {
    prop::sample::select(vec![channel(10), topic(10).partition(1), channel(20)])
}

fn small() -> impl Strategy<Value = i64> {
    0..8_i64
}

/// Mostly few claims, so that now and then nothing else changes between two sends.
fn any_clock() -> impl Strategy<Value = Clock> {
    let offset = (any_channel(), small()).prop_map(|(on, at)| offset(on, at));
    let sequence =
        (any_channel(), any_sender(), small()).prop_map(|(channel, sender, sequence)| {
            SequenceClaim {
                channel,
                sender,
                sequence,
            }
        });
    (
        prop_oneof![
            1 => Just(Vec::new()),
            1 => prop::collection::vec(offset, 1..4),
        ],
        prop_oneof![
            2 => Just(Vec::new()),
            1 => prop::collection::vec(sequence, 1..4),
        ],
    )
        .prop_map(|(offsets, sequences)| Clock::from_claims(offsets, sequences))
}

fn acknowledged() -> impl Strategy<Value = Vec<(Channel, Offset)>> {
    prop::collection::vec((any_sink(), 0..20_i64), 0..3)
}

fn offsets_on_channels() -> impl Strategy<Value = BTreeMap<Channel, Offset>> {
    prop::collection::btree_map(any_channel(), 0..20_i64, 0..4)
}

fn any_topics() -> impl Strategy<Value = BTreeSet<TopicId>> {
    prop::collection::btree_set(any_channel().prop_map(|channel| channel.topic), 0..2)
}

fn some_of(all: &'static [i64]) -> impl Strategy<Value = Vec<i64>> {
    prop_oneof![3 => Just(all.to_vec()), 1 => prop::sample::subsequence(all, 1..=all.len())]
}

fn declared() -> impl Strategy<Value = Declared> {
    let mark = (
        prop::sample::select(INPUTS.to_vec()),
        any_sender(),
        natural(),
        0..60_i64,
    );
    (
        some_of(&INPUTS),
        some_of(&SINKS),
        prop::collection::btree_map(any_channel(), 1..20_i64, 0..4),
        prop_oneof![2 => Just(None), 1 => mark.prop_map(Some)],
    )
        .prop_map(|(inputs, sinks, ends, mark)| Declared {
            inputs,
            sinks,
            ends,
            mark,
        })
}

fn event() -> impl Strategy<Value = Event> {
    let tag = prop::option::weighted(0.7, (any_sender(), small()));
    prop_oneof![
        12 => (0..INPUTS.len(), 0..2_i64, any_clock(), tag)
            .prop_map(|(on, gap, clock, tag)| Event::Receive(on, gap, clock, tag)),
        8 => (1..4_usize).prop_map(Event::Deliver),
        2 => (0..INPUTS.len(), 0..12_i64).prop_map(|(on, ahead)| Event::Advance(on, ahead)),
        12 => any_sink().prop_map(Event::Send),
        3 => acknowledged().prop_map(Event::Fence),
        3 => acknowledged().prop_map(Event::Commit),
        2 => Just(Event::Mark),
        2 => offsets_on_channels().prop_map(Event::Watermarks),
        1 => any_topics().prop_map(Event::Gone),
        1 => (offsets_on_channels(), any_topics())
            .prop_map(|(below, gone)| Event::Truncate(below, gone)),
        1 => declared().prop_map(Event::Reopen),
    ]
}

struct World {
    node: Node,
    store: Staged<MemoryStore>,
    mark: Option<Mark>,
    fed: [i64; INPUTS.len()],
    /// Stamps that are still on their way share their bytes with the node, and must not change under it.
    sent: Vec<(Stamp, Vec<u8>)>,
    deliveries: usize,
}

impl World {
    fn new() -> Self {
        let mut store = Staged::over(MemoryStore::new());
        let declared = Declared {
            inputs: INPUTS.to_vec(),
            sinks: SINKS.to_vec(),
            ends: BTreeMap::new(),
            mark: None,
        };
        let (node, _) =
            Node::open(config(&declared), &OpenFacts::default(), &mut store).expect("opens");
        Self {
            node,
            store,
            mark: None,
            fed: [-1; INPUTS.len()],
            sent: Vec::new(),
            deliveries: 0,
        }
    }

    fn take(&mut self, event: Event) -> Result<(), NodeError> {
        match event {
            Event::Receive(on, gap, clock, tag) => {
                let on_channel = channel(INPUTS[on]);
                if self.node.received().index_of(on_channel).is_none() {
                    return Ok(());
                }
                self.fed[on] += 1 + gap;
                self.node
                    .receive(record(on_channel, self.fed[on], &clock, tag))?;
            }
            Event::Deliver(most) => {
                for _ in 0..most {
                    if self.node.next_delivery(&self.store)?.is_none() {
                        break;
                    }
                    self.deliveries += 1;
                }
            }
            Event::Advance(on, ahead) => {
                let on_channel = channel(INPUTS[on]);
                if self.node.received().index_of(on_channel).is_some() {
                    self.fed[on] += ahead;
                    self.node.advance(on_channel, self.fed[on] + 1)?;
                }
            }
            Event::Send(to) => {
                if !self.node.own.declares(to.topic) {
                    return Ok(());
                }
                let stamp = self.node.prepare_send(to)?;
                let expected = wire::encode(&reference::stamp(&self.node));
                assert_eq!(
                    stamp.clock,
                    expected,
                    "the kept stamp {:?}, from scratch {:?}",
                    wire::decode(&stamp.clock),
                    wire::decode(&expected)
                );
                if self.sent.len() == 3 {
                    self.sent.remove(0);
                }
                self.sent.push((stamp, expected));
            }
            Event::Fence(acknowledged) => self.node.fence(&self.to_sinks(acknowledged))?,
            Event::Commit(acknowledged) => {
                let acknowledged = self.to_sinks(acknowledged);
                self.node.commit(&acknowledged, &mut self.store)?;
                let changes = self.store.take_changes();
                self.store.base_mut().apply(changes);
            }
            Event::Mark => self.mark = Some(self.node.mark()),
            Event::Watermarks(watermarks) => {
                if let Some(mark) = &self.mark {
                    self.node.watermarks(mark, &watermarks)?;
                }
            }
            Event::Gone(gone) => self.node.check(&BTreeMap::new(), &gone)?,
            Event::Truncate(below, gone) => self.node.truncate(&below, &gone)?,
            Event::Reopen(declared) => self.reopen(&declared)?,
        }
        Ok(())
    }

    fn to_sinks(&self, acknowledged: Vec<(Channel, Offset)>) -> Vec<(Channel, Offset)> {
        let declared = |(channel, _): &(Channel, Offset)| self.node.own.declares(channel.topic);
        acknowledged.into_iter().filter(declared).collect()
    }

    /// Opens from the committed state; without what the declaration asks for where that is refused.
    fn reopen(&mut self, declared: &Declared) -> Result<(), NodeError> {
        self.store.rollback();
        let committed = self.store.base().clone();
        if let Some((on, sender, sequence, offset)) = declared.mark {
            let key = StateKey::DeliveredSequence(channel(on), sender).to_bytes();
            self.store.put(&key, pair_to_bytes(sequence, offset))?;
        }
        let mut ends = declared.ends.clone();
        for number in INPUTS {
            ends.entry(channel(number)).or_insert(5);
        }
        let facts = OpenFacts {
            ends,
            ..OpenFacts::default()
        };
        let opened = Node::open(config(declared), &facts, &mut self.store);
        let (node, _) = opened.or_else(|_| {
            self.store = Staged::over(committed);
            let recorded = crate::Scope::recorded(&self.store)?.unwrap_or_default();
            let number = |topic: &TopicId| topic.0.lsb;
            let as_it_was = Declared {
                inputs: recorded
                    .channels
                    .iter()
                    .map(|on| number(&on.topic))
                    .collect(),
                sinks: recorded.sinks.iter().map(number).collect(),
                ends: BTreeMap::new(),
                mark: None,
            };
            Node::open(config(&as_it_was), &OpenFacts::default(), &mut self.store)
        })?;
        let changes = self.store.take_changes();
        self.store.base_mut().apply(changes);
        for (on, fed) in self.fed.iter_mut().enumerate() {
            let index = node.received().index_of(channel(INPUTS[on]));
            let fed_up_to = index.and_then(|index| node.inputs[index].fed_up_to);
            *fed = fed_up_to.unwrap_or(-1);
        }
        self.node = node;
        Ok(())
    }
}

fn config(declared: &Declared) -> NodeConfig {
    let sink = |&number: &i64| Sink {
        topic: topic(number),
        partitions: if number == 10 { 2 } else { 1 },
    };
    NodeConfig {
        sender: sender(SELF),
        inputs: declared.inputs.iter().map(|&on| channel(on)).collect(),
        sinks: declared.sinks.iter().map(sink).collect(),
        limits: NodeLimits::default(),
    }
}

fn record(on: Channel, at: Offset, clock: &Clock, tag: Option<(SenderId, i64)>) -> Record {
    let mut headers = vec![Header::new(wire::CLOCK_HEADER, wire::encode(clock))];
    if let Some((sender, sequence)) = tag {
        let [_, who, which] = wire::stamp_headers(Bytes::new(), sender, sequence);
        headers.extend([who, which]);
    }
    Record {
        channel: on,
        offset: at,
        timestamp_ms: 0,
        key: None,
        value: None,
        headers,
    }
}

/// No node writes a delivered mark above the stored frontier. One that is there counts as long as it vouches for something.
#[test]
fn a_delivered_mark_above_the_frontier_is_not_kept_for_longer_than_it_vouches() {
    let mut world = World::new();
    let claim = clock([offset(channel(31), 1)], [sequence(channel(1), OTHER, 4)]);
    let receive = |on, clock: &Clock, tag| Event::Receive(on, 0, clock.clone(), tag);
    let sent = |world: &mut World| {
        world.take(Event::Send(sink())).expect("is sent");
        let (stamp, _) = world.sent.last().expect("a stamp");
        wire::decode(&stamp.clock).expect("a clock").into_clock()
    };
    for event in [
        // A claim on the record's own channel holds nothing up.
        receive(0, &claim, None),
        receive(1, &Clock::new(), None),
        Event::Deliver(2),
        Event::Commit(Vec::new()),
        Event::Reopen(Declared {
            inputs: INPUTS.to_vec(),
            sinks: SINKS.to_vec(),
            ends: BTreeMap::new(),
            mark: Some((1, sender(OTHER), 4, 50)),
        }),
    ] {
        world.take(event).expect("no guard");
    }
    let with = |on_one, on_two, up_to: Option<i64>| {
        clock(
            [
                offset(channel(1), on_one),
                offset(channel(2), on_two),
                offset(channel(31), 1),
            ],
            up_to.map(|up_to| sequence(channel(1), OTHER, up_to)),
        )
    };
    assert_eq!(sent(&mut world), with(50, 0, None));
    for event in [
        receive(0, &Clock::new(), None),
        receive(1, &Clock::new(), None),
        Event::Deliver(2),
    ] {
        world.take(event).expect("no guard");
    }
    assert_eq!(
        sent(&mut world),
        with(50, 1, None),
        "the mark still vouches"
    );
    let more = clock([], [sequence(channel(1), OTHER, 5)]);
    world.take(receive(0, &more, None)).expect("no guard");
    world.take(Event::Deliver(1)).expect("no guard");
    assert_eq!(sent(&mut world), with(2, 1, Some(5)), "it no longer does");
    let mark = Some((sender(OTHER), 6));
    world
        .take(receive(0, &Clock::new(), mark))
        .expect("no guard");
    world.take(Event::Deliver(1)).expect("no guard");
    assert_eq!(sent(&mut world), with(3, 1, None), "the next mark does");
}

/// Nothing but the sink's end has changed since the last stamp.
#[test]
fn an_own_echo_is_not_in_the_next_stamp_once_its_sink_is_gone() {
    let mut world = World::new();
    let echo = clock([], [sequence(channel(10), SELF, 4)]);
    let sent = |world: &mut World| {
        world.take(Event::Send(channel(20))).expect("is sent");
        let (stamp, _) = world.sent.last().expect("a stamp");
        wire::decode(&stamp.clock).expect("a clock").into_clock()
    };
    for event in [Event::Receive(0, 0, echo.clone(), None), Event::Deliver(1)] {
        world.take(event).expect("no guard");
    }
    let delivered = offset(channel(1), 0);
    let with_echo = clock([delivered], [sequence(channel(10), SELF, 4)]);
    assert_eq!(sent(&mut world), with_echo);
    world
        .take(Event::Gone(BTreeSet::from([topic(10)])))
        .expect("no guard");
    assert_eq!(sent(&mut world), clock([delivered], []));
}

#[test]
fn what_waits_for_the_next_send_takes_no_more_memory_than_the_stamp() {
    // How many claims of the first record no later one raises: each raises three.
    for first in [&[][..], &[32], &[32, 33]] {
        for sends_at in [&[0, 1, 3, 100, 499][..], &[]] {
            let mut world = World::new();
            let claims = first.iter().map(|&number| offset(channel(number), 0));
            let mut next = clock(claims, []);
            for at in 0..500 {
                world
                    .take(Event::Receive(0, 0, next, None))
                    .expect("no guard");
                world.take(Event::Deliver(1)).expect("no guard");
                let kept = &world.node.stamp;
                let width = kept.terms.offsets().len();
                assert!(width <= 3 + first.len());
                assert!(kept.raised.len() <= width && kept.added.len() <= width);
                if sends_at.contains(&at) {
                    world.take(Event::Send(sink())).expect("is sent");
                }
                next = clock([offset(channel(31), at), offset(channel(30), at)], []);
            }
            assert_eq!(
                (world.deliveries, world.sent.len()),
                (500, sends_at.len().min(3))
            );
        }
    }
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn the_kept_stamp_is_the_one_from_scratch_whatever_happens_between_two_sends(
        events in prop::collection::vec(event(), 1..80)
    ) {
        let mut world = World::new();
        for event in events {
            if world.take(event).is_err() {
                // A refusal: the execution is over.
                let declared = Declared {
                    inputs: INPUTS.to_vec(),
                    sinks: SINKS.to_vec(),
                    ends: BTreeMap::new(),
                    mark: None,
                };
                world.reopen(&declared).expect("what was committed opens");
            }
            for (stamp, bytes) in &world.sent {
                prop_assert_eq!(&stamp.clock, bytes, "a stamp changed after it was handed out");
            }
        }
    }
}
