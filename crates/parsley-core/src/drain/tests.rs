//! The order of deliveries: the plain scan written out, and the indexed drain held against it in synthetic worlds.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;

use super::*;
use crate::channel::{Channel, Id, ReceivedChannels, TopicId};
use crate::clock::{Clock, OffsetClaim, SequenceClaim};
use crate::decide::{Causes, Met, SettledView, Verdict, decide, decide_from};
use crate::strategies::cases;

fn channel(index: usize) -> Channel {
    TopicId(Id {
        msb: 0,
        lsb: index as i64,
    })
    .partition(0)
}

fn sender(number: i64) -> SenderId {
    SenderId(Id {
        msb: number,
        lsb: 0,
    })
}

#[derive(Clone, Debug)]
struct Record {
    offset: Offset,
    sender: Option<(SenderId, i64)>,
    clock: Clock,
}

/// One received channel of a synthetic world.
#[derive(Clone, Debug, Default)]
struct Received {
    queue: VecDeque<Record>,
    fed_up_to: Option<Offset>,
    gone: bool,
    delivered: BTreeMap<SenderId, i64>,
    /// Every high watermark ever handed in, with what each channel had been fed when it was asked for.
    watermarks: Vec<(Vec<Option<Offset>>, Offset)>,
}

impl Received {
    fn settled(&self) -> Settled {
        if self.gone {
            return Settled::ToItsEnd;
        }
        match self.queue.front() {
            Some(head) => Settled::At(head.offset - 1),
            None => self.fed_up_to.map_or(Settled::Undefined, Settled::At),
        }
    }
}

#[derive(Clone, Debug)]
struct World(Vec<Received>);

/// What the record at `offset` of the channel `on` sees.
struct View<'a> {
    world: &'a World,
    on: usize,
    offset: Offset,
}

impl SettledView for View<'_> {
    fn settled(&self, channel: usize) -> Settled {
        self.world.0[channel].settled()
    }
    fn delivered_sequence(&self, channel: usize, sender: SenderId) -> Option<i64> {
        self.world.0[channel].delivered.get(&sender).copied()
    }
    fn fed_up_to(&self, channel: usize) -> Option<Offset> {
        self.world.0[channel].fed_up_to
    }
    fn watermark(&self, channel: usize) -> Option<Offset> {
        let asked_after_receipt = self.world.0[channel]
            .watermarks
            .iter()
            .filter(|(fed, _)| fed[self.on].is_some_and(|fed| self.offset <= fed));
        asked_after_receipt.map(|&(_, watermark)| watermark).min()
    }
    fn lowest_held_sequence(&self, channel: usize, sender: SenderId) -> Option<i64> {
        let held = self.world.0[channel].queue.iter();
        held.filter_map(|record| record.sender)
            .filter(|&(from, _)| from == sender)
            .map(|(_, sequence)| sequence)
            .min()
    }
}

/// Something that is handed in.
#[derive(Clone, Debug)]
enum Input {
    Record(usize, Record),
    Position(usize, Offset),
    Watermark(usize, Offset),
    Gone(usize),
}

impl World {
    fn of(channels: usize) -> Self {
        Self(vec![Received::default(); channels])
    }

    fn received(&self) -> ReceivedChannels {
        ReceivedChannels::new((0..self.0.len()).map(channel))
    }

    /// Takes an input in; the channel that it is about.
    fn take(&mut self, input: &Input) -> usize {
        match *input {
            Input::Record(on, ref record) => {
                let received = &mut self.0[on];
                received.fed_up_to = received.fed_up_to.max(Some(record.offset));
                received.queue.push_back(record.clone());
                on
            }
            Input::Position(on, next) => {
                if next > 0 {
                    self.0[on].fed_up_to = self.0[on].fed_up_to.max(Some(next - 1));
                }
                on
            }
            Input::Watermark(on, watermark) => {
                let fed = self.0.iter().map(|received| received.fed_up_to).collect();
                self.0[on].watermarks.push((fed, watermark));
                on
            }
            Input::Gone(on) => {
                self.0[on].gone = true;
                on
            }
        }
    }

    fn deliver(&mut self, on: usize) -> Record {
        let received = &mut self.0[on];
        let record = received.queue.pop_front().expect("a head");
        if let Some((sender, sequence)) = record.sender {
            let highest = received.delivered.entry(sender).or_insert(sequence);
            *highest = sequence.max(*highest);
        }
        record
    }

    fn head_is_deliverable(&self, on: usize) -> bool {
        let Some(head) = self.0[on].queue.front() else {
            return false;
        };
        let view = View {
            world: self,
            on,
            offset: head.offset,
        };
        let causes = Causes::of(&head.clock, channel(on));
        decide(causes, &self.received(), &view) == Verdict::Deliverable
    }
}

type Delivered = Vec<(usize, Offset)>;

/// The drain of the page: passes over the channels in order, heads for as long as they are deliverable, until a pass delivers nothing.
/// Stops after `most` deliveries, where a step ends.
fn plain_scan(world: &mut World, most: usize) -> Delivered {
    let mut delivered = Vec::new();
    loop {
        let before = delivered.len();
        for on in 0..world.0.len() {
            while world.head_is_deliverable(on) {
                if delivered.len() == most {
                    return delivered;
                }
                delivered.push((on, world.deliver(on).offset));
            }
        }
        if delivered.len() == before {
            return delivered;
        }
    }
}

/// The same world behind the index, told what a node tells it.
struct Indexed {
    world: World,
    drain: Drain,
    /// What of each head is known to be met.
    met: Vec<Met>,
    decisions: usize,
}

impl Indexed {
    fn over(world: World) -> Self {
        Self {
            drain: Drain::new(world.0.len()),
            met: vec![Met::default(); world.0.len()],
            decisions: 0,
            world,
        }
    }

    fn take(&mut self, input: &Input) {
        let on = self.world.take(input);
        self.drain.restart();
        match input {
            Input::Record(..) if self.world.0[on].queue.len() == 1 => {
                self.met[on] = Met::default();
                self.drain.head_changed(on, true);
            }
            Input::Watermark(..) => self.drain.evidence_changed(on),
            _ => {}
        }
        self.settled_moved(on);
    }

    fn settled_moved(&mut self, on: usize) {
        if !self.world.0[on].watermarks.is_empty() {
            self.drain.evidence_changed(on);
        }
        self.drain.settled(on, self.world.0[on].settled());
    }

    fn run(&mut self, most: usize) -> Delivered {
        let received = self.world.received();
        let mut delivered = Vec::new();
        self.drain.restart();
        while let Some(on) = self.drain.next_candidate() {
            let head = self.world.0[on]
                .queue
                .front()
                .expect("candidates have heads");
            let view = View {
                world: &self.world,
                on,
                offset: head.offset,
            };
            let causes = Causes::of(&head.clock, channel(on));
            self.decisions += 1;
            assert!(self.decisions < 100_000, "the drain does not end");
            match decide_from(causes, &received, &view, self.met[on]) {
                Verdict::Blocked(blocked) => {
                    self.drain.blocked(on, &blocked);
                    self.met[on] = blocked.met();
                }
                Verdict::Deliverable => {
                    if delivered.len() == most {
                        return delivered;
                    }
                    let record = self.world.deliver(on);
                    delivered.push((on, record.offset));
                    self.met[on] = Met::default();
                    self.drain
                        .head_changed(on, !self.world.0[on].queue.is_empty());
                    if let Some((sender, sequence)) = record.sender {
                        self.drain.sequence_delivered(on, sender, sequence);
                    }
                    self.settled_moved(on);
                }
            }
        }
        delivered
    }
}

fn offset(on: usize, offset: Offset) -> OffsetClaim {
    OffsetClaim {
        channel: channel(on),
        offset,
    }
}

fn sequence(on: usize, from: i64, sequence: i64) -> SequenceClaim {
    SequenceClaim {
        channel: channel(on),
        sender: sender(from),
        sequence,
    }
}

fn record(on: usize, at: Offset, claims: &[(usize, Offset)]) -> Input {
    let claims = claims.iter().map(|&(on, at)| offset(on, at));
    let record = Record {
        offset: at,
        sender: None,
        clock: Clock::from_claims(claims, []),
    };
    Input::Record(on, record)
}

fn sent(on: usize, at: Offset, by: (i64, i64), claims: &[(usize, i64, i64)]) -> Input {
    let claims = claims.iter().map(|&(on, from, to)| sequence(on, from, to));
    let record = Record {
        offset: at,
        sender: Some((sender(by.0), by.1)),
        clock: Clock::from_claims([], claims),
    };
    Input::Record(on, record)
}

/// Hands the inputs in one after the other, drains after each, and checks the index against the plain scan. Returns the deliveries of each.
fn both_ways(channels: usize, inputs: &[Input]) -> Vec<Delivered> {
    let mut plain = World::of(channels);
    let mut indexed = Indexed::over(plain.clone());
    let drained = inputs.iter().map(|input| {
        plain.take(input);
        indexed.take(input);
        let expected = plain_scan(&mut plain, usize::MAX);
        assert_eq!(indexed.run(usize::MAX), expected, "after {input:?}");
        expected
    });
    drained.collect()
}

/// The deliveries after the last input; none before it.
fn released(channels: usize, inputs: &[Input]) -> Delivered {
    let mut drained = both_ways(channels, inputs);
    let last = drained.pop().expect("an input");
    assert!(drained.iter().all(Vec::is_empty), "{drained:?}");
    last
}

#[test]
fn a_diamond_goes_in_one_pass_or_in_two_as_the_channels_stand() {
    let [a, b, c, d] = [0, 1, 2, 3];
    let diamond = |a, b, c, d| {
        [
            record(d, 0, &[(b, 0), (c, 0)]),
            record(b, 0, &[(a, 0)]),
            record(c, 0, &[(a, 0)]),
            record(a, 0, &[]),
        ]
    };
    assert_eq!(
        released(4, &diamond(a, b, c, d)),
        [(a, 0), (b, 0), (c, 0), (d, 0)]
    );
    // c stands before a: it is passed over in the first pass, and so is d.
    let [c, a, b, d] = [0, 1, 2, 3];
    assert_eq!(
        released(4, &diamond(a, b, c, d)),
        [(a, 0), (b, 0), (c, 0), (d, 0)]
    );
    let [d, c, b, a] = [0, 1, 2, 3];
    assert_eq!(
        released(4, &diamond(a, b, c, d)),
        [(a, 0), (c, 0), (b, 0), (d, 0)]
    );
}

#[test]
fn a_cascade_in_the_worst_order_takes_a_pass_for_each_link() {
    // Over 64 channels and over 128, where the index has several words.
    for channels in [3, 64, 65, 130] {
        let mut inputs: Vec<Input> = (0..channels - 1)
            .map(|on| record(on, 0, &[(on + 1, 0)]))
            .collect();
        inputs.push(record(channels - 1, 0, &[]));
        let expected: Delivered = (0..channels).rev().map(|on| (on, 0)).collect();
        assert_eq!(released(channels, &inputs), expected);

        // The best order, for comparison: one pass.
        let mut inputs: Vec<Input> = (1..channels)
            .rev()
            .map(|on| record(on, 0, &[(on - 1, 0)]))
            .collect();
        inputs.push(record(0, 0, &[]));
        let expected: Delivered = (0..channels).map(|on| (on, 0)).collect();
        assert_eq!(released(channels, &inputs), expected);
    }
}

#[test]
fn a_channel_is_emptied_before_the_next_one_has_its_turn() {
    let inputs = [
        record(1, 0, &[(0, 0)]),
        record(1, 1, &[]),
        record(2, 0, &[(1, 0)]),
        record(2, 1, &[(0, 1)]),
        record(1, 2, &[(0, 1)]),
        record(0, 0, &[]),
        record(0, 1, &[]),
    ];
    let drained = both_ways(3, &inputs);
    assert!(drained[..5].iter().all(Vec::is_empty));
    assert_eq!(drained[5], [(0, 0), (1, 0), (1, 1), (2, 0)]);
    assert_eq!(drained[6], [(0, 1), (1, 2), (2, 1)]);
}

#[test]
fn claims_by_sequence_wake_the_heads_that_wait_for_them() {
    let drained = both_ways(
        4,
        &[
            sent(1, 0, (7, 0), &[(0, 1, 1)]),
            sent(2, 0, (7, 0), &[(0, 1, 0)]),
            sent(3, 0, (7, 0), &[(0, 2, 0)]),
            sent(0, 0, (1, 0), &[]),
            sent(0, 1, (2, 0), &[]),
            sent(0, 2, (1, 1), &[]),
        ],
    );
    assert_eq!(
        drained,
        [
            vec![],
            vec![],
            vec![],
            vec![(0, 0), (2, 0)],
            vec![(0, 1), (3, 0)],
            vec![(0, 2), (1, 0)],
        ]
    );
}

#[test]
fn positions_watermarks_and_deletions_release_heads() {
    let drained = both_ways(
        3,
        &[
            record(1, 0, &[(0, 4)]),
            Input::Position(0, 4),
            Input::Position(0, 5),
            record(1, 1, &[(0, 9)]),
            sent(2, 0, (1, 0), &[(0, 3, 8)]),
            Input::Watermark(0, 7),
            Input::Position(0, 6),
            Input::Position(0, 7),
            Input::Gone(0),
        ],
    );
    assert_eq!(drained[2], [(1, 0)]);
    // Fed up to 5: not yet all that lies below the watermark.
    assert_eq!(drained[6], []);
    assert_eq!(drained[7], [(2, 0)]);
    assert_eq!(drained[8], [(1, 1)]);
    assert_eq!(drained.iter().map(Vec::len).sum::<usize>(), 3);
}

#[test]
fn each_head_is_decided_again_only_when_its_claim_may_have_been_met() {
    let heads = 1000;
    let mut indexed = Indexed::over(World::of(heads + 1));
    for on in 1..=heads {
        indexed.take(&record(on, 0, &[(0, on as Offset % 2)]));
        assert_eq!(indexed.run(usize::MAX), []);
    }
    assert_eq!(indexed.decisions, heads);
    indexed.take(&record(0, 0, &[]));
    // The cause, and the half that waited for it.
    assert_eq!(indexed.run(usize::MAX).len(), 1 + heads / 2);
    assert_eq!(indexed.decisions, heads + 1 + heads / 2);
    indexed.take(&record(0, 1, &[]));
    assert_eq!(indexed.run(usize::MAX).len(), 1 + heads / 2);
    assert_eq!(indexed.decisions, 2 * heads + 2);
}

/// An input of a random world, still without its position.
#[derive(Clone, Debug)]
enum Draw {
    Record {
        on: usize,
        gap: i64,
        sender: Option<i64>,
        offsets: Vec<(usize, Offset)>,
        sequences: Vec<(usize, i64, i64)>,
    },
    Position {
        on: usize,
        gap: i64,
    },
    Watermark {
        on: usize,
        above: i64,
    },
    Gone {
        on: usize,
    },
}

/// `channels` received ones; claims may also name one that is not.
fn draw(channels: usize) -> impl Strategy<Value = Draw> {
    let offsets = prop::collection::vec((0..channels + 1, 0..6_i64), 0..4);
    let sequences = prop::collection::vec((0..channels + 1, 0..3_i64, 0..4_i64), 0..3);
    let sequences = prop_oneof![2 => Just(vec![]), 1 => sequences];
    prop_oneof![
        24 => (0..channels, 1..3_i64, prop::option::of(0..3_i64), offsets, sequences).prop_map(
            |(on, gap, sender, offsets, sequences)| Draw::Record { on, gap, sender, offsets, sequences }
        ),
        3 => (0..channels, 0..3_i64).prop_map(|(on, gap)| Draw::Position { on, gap }),
        3 => (0..channels, -1..3_i64).prop_map(|(on, above)| Draw::Watermark { on, above }),
        1 => (0..channels).prop_map(|on| Draw::Gone { on }),
    ]
}

/// Gives the drawn inputs positions and sequences that increase; a topic is found gone only while nothing of it is held.
struct Feed {
    next: Vec<Offset>,
    sequences: BTreeMap<(usize, i64), i64>,
}

impl Feed {
    fn of(channels: usize) -> Self {
        Self {
            next: vec![0; channels],
            sequences: BTreeMap::new(),
        }
    }

    fn input(&mut self, draw: &Draw, world: &World) -> Option<Input> {
        Some(match *draw {
            Draw::Record {
                on,
                gap,
                sender: from,
                ref offsets,
                ref sequences,
            } => {
                if world.0[on].gone {
                    return None;
                }
                let at = self.next[on] + gap - 1;
                self.next[on] = at + 1;
                let sender = from.map(|from| {
                    let next = self.sequences.entry((on, from)).or_insert(0);
                    *next += 1;
                    (sender(from), *next - 1)
                });
                let clock = Clock::from_claims(
                    offsets.iter().map(|&(on, at)| offset(on, at)),
                    sequences
                        .iter()
                        .map(|&(on, from, to)| sequence(on, from, to)),
                );
                let record = Record {
                    offset: at,
                    sender,
                    clock,
                };
                Input::Record(on, record)
            }
            Draw::Position { on, gap } => {
                if world.0[on].gone {
                    return None;
                }
                self.next[on] += gap;
                Input::Position(on, self.next[on])
            }
            Draw::Watermark { on, above } => Input::Watermark(on, (self.next[on] + above).max(1)),
            Draw::Gone { on } => {
                if !world.0[on].queue.is_empty() {
                    return None;
                }
                Input::Gone(on)
            }
        })
    }
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn the_indexed_drain_yields_what_the_plain_scan_yields(
        channels in 1..7_usize,
        draws in prop::collection::vec((draw(6), prop_oneof![4 => Just(usize::MAX), 1 => 0..3_usize]), 1..50),
    ) {
        let mut plain = World::of(channels);
        let mut indexed = Indexed::over(plain.clone());
        let mut feed = Feed::of(channels);
        for (draw, most) in &draws {
            let (Draw::Record { on, .. }
            | Draw::Position { on, .. }
            | Draw::Watermark { on, .. }
            | Draw::Gone { on }) = draw;
            if *on >= channels {
                continue;
            }
            let Some(input) = feed.input(draw, &plain) else { continue };
            plain.take(&input);
            indexed.take(&input);
            prop_assert_eq!(indexed.run(*most), plain_scan(&mut plain, *most), "after {:?}", input);
        }
        prop_assert_eq!(indexed.run(usize::MAX), plain_scan(&mut plain, usize::MAX));
    }
}

fn blocked(claim: Claim, channel: usize) -> Blocked {
    Blocked {
        claim,
        channel,
        met_offsets: 0,
    }
}

const NOBODY: [usize; 0] = [];

/// The candidates, in the order in which they come.
fn candidates(drain: &Drain) -> Vec<usize> {
    let mut drain = drain.clone();
    let mut found = Vec::new();
    while let Some(on) = drain.next_candidate() {
        assert!(found.len() < 1000, "a candidate cannot be taken away");
        found.push(on);
        drain.head_changed(on, false);
    }
    found
}

#[test]
fn the_set_of_candidates_finds_the_next_member_across_words() {
    let last = 64 * 64 * 64;
    for (bound, members) in [
        (0, vec![]),
        (1, vec![0]),
        (64, vec![0, 63]),
        (65, vec![64]),
        (200, vec![]),
        (200, vec![63]),
        (200, vec![64]),
        (200, vec![0, 1, 63, 64, 65, 127, 128, 199]),
        (200, vec![130]),
        (200, (0..200).collect()),
        (4096, vec![0, 4095]),
        (4097, vec![1, 63, 4032, 4096]),
        (last, vec![5, 4095, 4096, 4097, 8192, last - 1]),
        (last + 1, vec![last]),
    ] {
        let mut set = IndexSet::new(bound);
        for &member in &members {
            set.insert(member);
            set.insert(member);
        }
        let near = members.iter().flat_map(|&member| member..member + 2);
        let ends = [bound, bound + 1, 2 * bound + 64, usize::MAX];
        for from in (0..300).chain(near).chain(ends) {
            let expected = members.iter().copied().find(|&member| member >= from);
            assert_eq!(set.next(from), expected, "{members:?} from {from}");
        }
        for &member in &members {
            set.remove(member);
            set.remove(member);
            let expected = members.iter().copied().find(|&other| other > member);
            assert_eq!(set.next(0), expected, "{members:?} without {member}");
        }
    }
}

#[test]
fn candidates_come_from_the_cursor_on_and_then_from_the_first_channel() {
    let mut drain = Drain::new(5);
    assert_eq!(drain.next_candidate(), None);
    for on in [0, 2, 4] {
        drain.head_changed(on, true);
    }
    assert_eq!(drain.next_candidate(), Some(0));
    drain.head_changed(0, false);
    assert_eq!(drain.next_candidate(), Some(2));
    // It stays where it is while there is a head, and what wakes before it waits for the next pass.
    drain.head_changed(1, true);
    assert_eq!(drain.next_candidate(), Some(2));
    drain.head_changed(2, false);
    assert_eq!(drain.next_candidate(), Some(4));
    drain.head_changed(4, false);
    assert_eq!(drain.next_candidate(), Some(1));
    drain.head_changed(2, true);
    drain.head_changed(0, true);
    drain.restart();
    assert_eq!(drain.next_candidate(), Some(0));
    drain.head_changed(0, false);
    drain.head_changed(1, false);
    drain.head_changed(2, false);
    // At its end the drain is back at the first channel.
    assert_eq!(drain.next_candidate(), None);
    drain.head_changed(0, true);
    drain.head_changed(3, true);
    assert_eq!(drain.next_candidate(), Some(0));
}

#[test]
fn a_head_blocked_by_a_position_wakes_when_it_is_settled_and_not_before() {
    let mut drain = Drain::new(4);
    for (on, claimed) in [(1, 5), (2, 6), (3, 5)] {
        drain.head_changed(on, true);
        drain.blocked(on, &blocked(Claim::Offset(offset(0, claimed)), 0));
    }
    assert_eq!(candidates(&drain), NOBODY);
    drain.settled(0, Settled::Undefined);
    drain.settled(0, Settled::At(-1));
    drain.settled(0, Settled::At(4));
    // Another channel's positions say nothing.
    drain.settled(1, Settled::At(9));
    assert_eq!(candidates(&drain), NOBODY);
    drain.settled(0, Settled::At(5));
    assert_eq!(candidates(&drain), [1, 3]);
    drain.settled(0, Settled::At(7));
    assert_eq!(candidates(&drain), [1, 2, 3]);
    // Nobody waits any more.
    for on in [1, 2, 3] {
        drain.head_changed(on, false);
    }
    drain.settled(0, Settled::ToItsEnd);
    assert_eq!(candidates(&drain), NOBODY);
}

/// Channels 1 to 4 wait for sender 1 up to 5, sender 1 up to 6, sender 2 up to 5, and for a position; all on channel 0. Channel 5 waits
/// for sender 1 on channel 1.
fn waiting() -> Drain {
    let mut drain = Drain::new(6);
    for on in 1..6 {
        drain.head_changed(on, true);
    }
    for (on, from, to) in [(1, 1, 5), (2, 1, 6), (3, 2, 5)] {
        drain.blocked(on, &blocked(Claim::Sequence(sequence(0, from, to)), 0));
    }
    drain.blocked(4, &blocked(Claim::Offset(offset(0, 5)), 0));
    drain.blocked(5, &blocked(Claim::Sequence(sequence(1, 1, 0)), 1));
    assert_eq!(candidates(&drain), NOBODY);
    drain
}

#[test]
fn a_delivered_sequence_wakes_those_that_wait_for_it_or_for_less() {
    let mut drain = waiting();
    drain.sequence_delivered(0, sender(1), 4);
    drain.sequence_delivered(0, sender(3), 9);
    assert_eq!(candidates(&drain), NOBODY);
    drain.sequence_delivered(0, sender(1), 5);
    assert_eq!(candidates(&drain), [1]);
    drain.sequence_delivered(0, sender(1), 9);
    assert_eq!(candidates(&drain), [1, 2]);
    drain.sequence_delivered(0, sender(2), i64::MAX);
    assert_eq!(candidates(&drain), [1, 2, 3]);
    drain.sequence_delivered(1, sender(1), 0);
    assert_eq!(candidates(&drain), [1, 2, 3, 5]);
}

#[test]
fn evidence_wakes_all_that_wait_by_sequence() {
    let mut drain = waiting();
    drain.evidence_changed(0);
    assert_eq!(candidates(&drain), [1, 2, 3]);
    drain.evidence_changed(1);
    assert_eq!(candidates(&drain), [1, 2, 3, 5]);
}

#[test]
fn the_end_of_a_channel_wakes_all_that_wait_for_it() {
    let mut drain = waiting();
    drain.settled(0, Settled::ToItsEnd);
    assert_eq!(candidates(&drain), [1, 2, 3, 4]);
    drain.settled(1, Settled::ToItsEnd);
    assert_eq!(candidates(&drain), [1, 2, 3, 4, 5]);
}
