//! Which sends of a step wait for which (`docs/protocol.md`, Send order; decision S12).
//!
//! Sends go out in rounds: a round is handed to the log when the one before is acknowledged, and the sends of one round are concurrent.
//! What must be ordered is what can have influenced each other within the step: the sends of one delivery, the sends of deliveries of one
//! key, those of ticks, and, since a log is a queue, the sends to one partition. Along such an order a send on another partition takes a later round,
//! and one on the same partition the same round or a later one.

use std::collections::BTreeMap;

use bytes::Bytes;
use parsley_core::Channel;

/// Which sends of one step are ordered among each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SendOrder {
    /// Those of deliveries with the same key bytes, in the order of delivery. A null key counts as a key in a stateful stage only, where
    /// such deliveries share a state.
    #[default]
    PerKey,
    /// Only those of one delivery. For a hot key whose deliveries send to several sinks, which would take a round each.
    PerDelivery,
}

/// The rounds that the sends of the current step have taken.
#[derive(Debug)]
pub(crate) struct Rounds {
    order: SendOrder,
    null_is_a_key: bool,
    /// The round of the last send on each channel.
    channels: BTreeMap<Channel, usize>,
    /// What the deliveries of each order have sent.
    orders: BTreeMap<Of, Sent>,
    /// The order that the current delivery belongs to, if to any.
    of: Option<Of>,
    /// What the current delivery comes after, and has sent itself.
    sent: Sent,
    count: usize,
}

/// Deliveries that are ordered among each other, as one may look at what another left.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Of {
    /// Those of a key; `None` is the null key.
    Key(Option<Bytes>),
    /// Ticks, which share the task's tick state.
    Ticks,
}

/// Sends that are ordered among each other, as far as a later one must know: each send on another channel than the one before it takes
/// a higher round, so the latest has the highest round, and the highest on the other channels is the latest there.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    latest: Option<(Channel, usize)>,
    latest_elsewhere: Option<usize>,
}

impl Sent {
    /// The highest round of these sends on channels other than `channel`.
    fn elsewhere(&self, channel: Channel) -> Option<usize> {
        match self.latest {
            Some((latest, round)) if latest != channel => Some(round),
            _ => self.latest_elsewhere,
        }
    }

    fn add(&mut self, channel: Channel, round: usize) {
        if let Some((latest, before)) = self.latest
            && latest != channel
        {
            self.latest_elsewhere = Some(before);
        }
        self.latest = Some((channel, round));
    }
}

impl Rounds {
    /// No sends yet. `null_is_a_key` says whether deliveries with a null key are ordered like those of any other key.
    pub(crate) fn new(order: SendOrder, null_is_a_key: bool) -> Self {
        Self {
            order,
            null_is_a_key,
            channels: BTreeMap::new(),
            orders: BTreeMap::new(),
            of: None,
            sent: Sent::default(),
            count: 0,
        }
    }

    /// The sends that follow are those of a delivery with this key.
    pub(crate) fn begin_delivery(&mut self, key: Option<&Bytes>) {
        let ordered = self.order == SendOrder::PerKey && (key.is_some() || self.null_is_a_key);
        self.begin(ordered.then(|| Of::Key(key.cloned())));
    }

    /// The sends that follow are those of a tick's delivery, whatever the order among keys.
    pub(crate) fn begin_tick_delivery(&mut self) {
        self.begin(Some(Of::Ticks));
    }

    fn begin(&mut self, of: Option<Of>) {
        self.of = of;
        self.sent = self
            .of
            .as_ref()
            .and_then(|of| self.orders.get(of))
            .copied()
            .unwrap_or_default();
    }

    /// The round of a record that follows nothing but what was sent to `channel`: that of a tick.
    pub(crate) fn place_tick(&mut self, channel: Channel) -> usize {
        let round = *self.channels.entry(channel).or_default();
        self.count = self.count.max(round + 1);
        round
    }

    /// The round of the delivery's next send, which goes to `channel`.
    pub(crate) fn place(&mut self, channel: Channel) -> usize {
        let behind_others = self.sent.elsewhere(channel).map_or(0, |round| round + 1);
        let on_channel = self.channels.entry(channel).or_default();
        let round = behind_others.max(*on_channel);
        *on_channel = round;
        self.sent.add(channel, round);
        if let Some(of) = &self.of {
            self.orders.insert(of.clone(), self.sent);
        }
        self.count = self.count.max(round + 1);
        round
    }

    /// How many rounds the step takes so far.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// A new step begins: sends of an earlier one come before all of it, and are acknowledged.
    pub(crate) fn begin_step(&mut self) {
        self.channels.clear();
        self.orders.clear();
        self.of = None;
        self.sent = Sent::default();
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use parsley_core::TopicId;
    use proptest::prelude::*;

    use super::*;

    fn channel(name: &str) -> Channel {
        TopicId::of_name(name).partition(0)
    }

    /// Places the sends of deliveries, each given as a key and the topics it sends to.
    fn placed(
        rounds: &mut Rounds,
        deliveries: &[(Option<&'static str>, &[&str])],
    ) -> Vec<Vec<usize>> {
        let place = |(key, topics): &(Option<&'static str>, &[&str])| {
            rounds.begin_delivery(key.map(|key| Bytes::from_static(key.as_bytes())).as_ref());
            topics
                .iter()
                .map(|topic| rounds.place(channel(topic)))
                .collect()
        };
        deliveries.iter().map(place).collect()
    }

    #[test]
    fn sends_of_one_delivery_to_one_partition_share_a_round() {
        let mut rounds = Rounds::new(SendOrder::PerKey, true);
        assert_eq!(
            placed(&mut rounds, &[(Some("k"), &["x", "x", "x"])]),
            [[0, 0, 0]]
        );
        assert_eq!(rounds.count(), 1);
    }

    #[test]
    fn p15_one_delivery_that_alternates_takes_a_round_for_each_change() {
        let mut rounds = Rounds::new(SendOrder::PerDelivery, false);
        let sends: Vec<&str> = ["x", "y"].into_iter().cycle().take(10).collect();
        assert_eq!(
            placed(&mut rounds, &[(None, &sends)]),
            [[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]]
        );
        assert_eq!(rounds.count(), 10);
    }

    #[test]
    fn deliveries_of_different_keys_do_not_wait_for_each_other() {
        let mut rounds = Rounds::new(SendOrder::PerKey, true);
        assert_eq!(
            placed(
                &mut rounds,
                &[
                    (Some("k"), &["x"]),
                    (Some("l"), &["y"]),
                    (Some("m"), &["x", "y"])
                ]
            ),
            [vec![0], vec![0], vec![0, 1]]
        );
    }

    #[test]
    fn deliveries_of_one_key_are_ordered_unless_the_stage_says_otherwise() {
        let deliveries: [(Option<&'static str>, &[&str]); 3] =
            [(Some("k"), &["x"]), (Some("l"), &[]), (Some("k"), &["y"])];
        let mut rounds = Rounds::new(SendOrder::PerKey, false);
        assert_eq!(placed(&mut rounds, &deliveries), [vec![0], vec![], vec![1]]);
        let mut rounds = Rounds::new(SendOrder::PerDelivery, false);
        assert_eq!(placed(&mut rounds, &deliveries), [vec![0], vec![], vec![0]]);
    }

    #[test]
    fn a_null_key_is_a_key_where_it_has_a_state() {
        let deliveries: [(Option<&'static str>, &[&str]); 2] = [(None, &["x"]), (None, &["y"])];
        assert_eq!(
            placed(&mut Rounds::new(SendOrder::PerKey, true), &deliveries),
            [[0], [1]]
        );
        assert_eq!(
            placed(&mut Rounds::new(SendOrder::PerKey, false), &deliveries),
            [[0], [0]]
        );
        assert_eq!(
            placed(&mut Rounds::new(SendOrder::PerDelivery, true), &deliveries),
            [[0], [0]]
        );
    }

    /// They share the task's tick state, and what is delivered between them does not.
    #[test]
    fn ticks_are_ordered_among_each_other_past_what_is_delivered_between_them() {
        for order in [SendOrder::PerKey, SendOrder::PerDelivery] {
            let mut rounds = Rounds::new(order, false);
            rounds.begin_tick_delivery();
            assert_eq!(rounds.place(channel("x")), 0);
            let sends_nothing: &[&str] = &[];
            let between = placed(&mut rounds, &[(Some("k"), sends_nothing)]);
            assert_eq!(between, [[0; 0]]);
            rounds.begin_tick_delivery();
            assert_eq!(rounds.place(channel("y")), 1);
            assert_eq!(placed(&mut rounds, &[(Some("l"), &["u"])]), [[0]]);
        }
    }

    #[test]
    fn a_tick_follows_what_was_sent_to_its_own_channel_alone() {
        let mut rounds = Rounds::new(SendOrder::PerKey, false);
        assert_eq!(rounds.place_tick(channel("ticks")), 0);
        assert_eq!(rounds.count(), 1);
        let sends: &[&str] = &["x", "ticks", "x"];
        assert_eq!(placed(&mut rounds, &[(Some("k"), sends)]), [[0, 1, 2]]);
        assert_eq!(rounds.place_tick(channel("ticks")), 1);
        assert_eq!(rounds.place_tick(channel("other-ticks")), 0);
        assert_eq!(rounds.count(), 3);
    }

    #[test]
    fn a_null_key_and_an_empty_one_are_two() {
        let mut rounds = Rounds::new(SendOrder::PerKey, true);
        assert_eq!(
            placed(&mut rounds, &[(None, &["x"]), (Some(""), &["y"])]),
            [[0], [0]]
        );
    }

    #[test]
    fn a_send_stays_behind_the_last_one_on_its_partition() {
        let mut rounds = Rounds::new(SendOrder::PerKey, true);
        assert_eq!(
            placed(
                &mut rounds,
                &[(Some("k"), &["x", "y"]), (Some("l"), &["y", "x"])]
            ),
            [[0, 1], [1, 2]]
        );
    }

    #[test]
    fn a_step_starts_at_round_0_again() {
        let mut rounds = Rounds::new(SendOrder::PerKey, true);
        placed(&mut rounds, &[(Some("k"), &["x", "y"])]);
        rounds.begin_step();
        assert_eq!(rounds.count(), 0);
        assert_eq!(placed(&mut rounds, &[(Some("k"), &["y", "x"])]), [[0, 1]]);
    }

    /// The example of `docs/protocol.md`, Send order.
    #[test]
    fn a_key_waits_for_all_it_sent_before_and_a_partition_for_its_last() {
        let deliveries: [(Option<&'static str>, &[&str]); 3] = [
            (Some("k"), &["s", "t", "s"]),
            (Some("m"), &["t"]),
            (Some("k"), &["u"]),
        ];
        let mut rounds = Rounds::new(SendOrder::PerKey, false);
        assert_eq!(
            placed(&mut rounds, &deliveries),
            [vec![0, 1, 2], vec![1], vec![3]]
        );
        let mut rounds = Rounds::new(SendOrder::PerDelivery, false);
        assert_eq!(
            placed(&mut rounds, &deliveries),
            [vec![0, 1, 2], vec![1], vec![0]]
        );
    }

    #[derive(Clone, Debug)]
    struct Send {
        delivery: usize,
        key: Option<u8>,
        channel: Channel,
        round: usize,
    }

    /// The rule as `docs/protocol.md` words it, over all pairs of sends.
    fn expected_round(
        earlier: &[Send],
        send: &Send,
        order: SendOrder,
        null_is_a_key: bool,
    ) -> usize {
        let follows = |before: &Send| {
            let same_key = order == SendOrder::PerKey
                && before.key == send.key
                && (send.key.is_some() || null_is_a_key);
            before.delivery == send.delivery || same_key || before.channel == send.channel
        };
        let predecessors: Vec<&Send> = earlier.iter().filter(|before| follows(before)).collect();
        let elsewhere = predecessors
            .iter()
            .filter(|before| before.channel != send.channel)
            .map(|before| before.round);
        let here = predecessors
            .iter()
            .filter(|before| before.channel == send.channel)
            .map(|before| before.round);
        let behind_others = elsewhere.max().map_or(0, |round| round + 1);
        behind_others.max(here.max().unwrap_or(0))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn rounds_are_those_of_the_rule_applied_to_all_pairs(
            deliveries in prop::collection::vec((prop::option::of(0_u8..4), prop::collection::vec(0_i32..5, 0..6)), 0..14),
            per_key: bool,
            null_is_a_key: bool,
        ) {
            let order = if per_key { SendOrder::PerKey } else { SendOrder::PerDelivery };
            let mut rounds = Rounds::new(order, null_is_a_key);
            let mut sends: Vec<Send> = Vec::new();
            for (delivery, (key, partitions)) in deliveries.into_iter().enumerate() {
                rounds.begin_delivery(key.map(|key| Bytes::copy_from_slice(&[key])).as_ref());
                for partition in partitions {
                    let channel = TopicId::of_name("t").partition(partition);
                    let round = rounds.place(channel);
                    let send = Send { delivery, key, channel, round };
                    prop_assert_eq!(round, expected_round(&sends, &send, order, null_is_a_key));
                    sends.push(send);
                }
            }
            let count = sends.iter().map(|send| send.round + 1).max().unwrap_or(0);
            prop_assert_eq!(rounds.count(), count);
            for round in 0..count {
                prop_assert!(sends.iter().any(|send| send.round == round), "round {} is empty", round);
            }
        }
    }
}
