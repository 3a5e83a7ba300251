//! Which sends of one step are causes of one another (`docs/protocol.md`, Send order).

use parsley_oracle::{Actor, Channel, Emission, Oracle, SendOrder};

const PER_KEY: SendOrder = SendOrder::PerKey { null_is_key: false };
const PER_KEY_WITH_NULL: SendOrder = SendOrder::PerKey { null_is_key: true };

/// What is before a send that none of the others comes before.
const ALONE: Vec<usize> = Vec::new();

/// One actor that is delivered records of given keys, all sent by unrelated clients.
struct Step {
    oracle: Oracle,
    task: Actor,
    input: Channel,
    next: i64,
}

impl Step {
    fn new(order: SendOrder) -> Self {
        let mut oracle = Oracle::new();
        let task = oracle.add_actor("task", order);
        let input = oracle.add_channel("input:0");
        oracle.consume(task, input, 0);
        Self {
            oracle,
            task,
            input,
            next: 0,
        }
    }

    fn deliver(&mut self, key: Option<u64>) -> Emission {
        let client = self.oracle.add_actor("client", SendOrder::Sequential);
        let record = self.oracle.emit(client, self.input, key);
        self.oracle
            .appended(record, self.next)
            .expect("the place is free");
        self.oracle.commit(client);
        self.next += 1;
        self.oracle
            .deliver(self.task, self.input, self.next - 1)
            .expect("clients are unrelated")
    }

    fn send(&mut self, to: Channel) -> Emission {
        self.oracle.emit(self.task, to, None)
    }

    /// Each of the sends with those of them that happened before it, by their places in `sends`.
    fn before(&self, sends: &[Emission]) -> Vec<Vec<usize>> {
        let earlier = |send: &Emission| {
            let all = sends.iter().enumerate();
            all.filter(|(_, earlier)| self.oracle.happened_before(**earlier, *send))
                .map(|(at, _)| at)
                .collect()
        };
        sends.iter().map(earlier).collect()
    }
}

/// The example of the rounds: delivery 1 (key k) sends to s, t and s again, delivery 2 (key m) to t, delivery 3 (key k) to u.
fn rounds_example(order: SendOrder) -> Vec<Vec<usize>> {
    let mut step = Step::new(order);
    let [s, t, u] = ["s:0", "t:0", "u:0"].map(|name| step.oracle.add_channel(name));
    step.deliver(Some(1));
    let mut sends = vec![step.send(s), step.send(t), step.send(s)];
    step.deliver(Some(2));
    sends.push(step.send(t));
    step.deliver(Some(1));
    sends.push(step.send(u));
    step.before(&sends)
}

#[test]
fn the_example_of_the_rounds_in_order_of_keys() {
    // The send of delivery 2 follows the one on its channel, and what came before that.
    assert_eq!(
        rounds_example(PER_KEY),
        [vec![], vec![0], vec![0, 1], vec![0, 1], vec![0, 1, 2]]
    );
    assert_eq!(rounds_example(PER_KEY_WITH_NULL), rounds_example(PER_KEY));
}

#[test]
fn the_example_of_the_rounds_in_order_of_deliveries() {
    assert_eq!(
        rounds_example(SendOrder::PerDelivery),
        [vec![], vec![0], vec![0, 1], vec![0, 1], vec![]]
    );
}

#[test]
fn the_example_of_the_rounds_in_sequence() {
    let sequential = [vec![], vec![0], vec![0, 1], vec![0, 1, 2], vec![0, 1, 2, 3]];
    assert_eq!(rounds_example(SendOrder::Sequential), sequential);
}

/// Two deliveries with null keys send to one channel each.
fn null_keys(order: SendOrder) -> Vec<Vec<usize>> {
    let mut step = Step::new(order);
    let [s, t] = ["s:0", "t:0"].map(|name| step.oracle.add_channel(name));
    step.deliver(None);
    let first = step.send(s);
    step.deliver(None);
    let second = step.send(t);
    step.before(&[first, second])
}

#[test]
fn a_null_key_is_a_key_only_where_the_order_says_so() {
    assert_eq!(null_keys(PER_KEY), [ALONE, ALONE]);
    assert_eq!(null_keys(PER_KEY_WITH_NULL), [vec![], vec![0]]);
    assert_eq!(null_keys(SendOrder::PerDelivery), [ALONE, ALONE]);
    assert_eq!(null_keys(SendOrder::Sequential), [vec![], vec![0]]);
}

#[test]
fn a_delivery_with_a_null_key_orders_its_own_sends() {
    let mut step = Step::new(PER_KEY);
    let [s, t] = ["s:0", "t:0"].map(|name| step.oracle.add_channel(name));
    step.deliver(None);
    let sends = [step.send(s), step.send(t)];
    assert_eq!(step.before(&sends), [vec![], vec![0]]);
}

#[test]
fn what_counts_is_the_key_that_was_delivered_not_the_key_that_is_sent() {
    let mut step = Step::new(PER_KEY);
    let [s, t] = ["s:0", "t:0"].map(|name| step.oracle.add_channel(name));
    step.deliver(Some(1));
    let first = step.oracle.emit(step.task, s, Some(7));
    step.deliver(Some(2));
    let second = step.oracle.emit(step.task, t, Some(7));
    assert_eq!(step.before(&[first, second]), [ALONE, ALONE]);
}

#[test]
fn the_causes_of_a_cause_are_causes() {
    let mut step = Step::new(PER_KEY);
    let [s, t, u] = ["s:0", "t:0", "u:0"].map(|name| step.oracle.add_channel(name));
    step.deliver(Some(1));
    let first = step.send(s);
    step.deliver(Some(2));
    let second = step.send(s);
    let third = step.send(t);
    step.deliver(Some(3));
    let fourth = step.send(t);
    let fifth = step.send(u);
    let expected = [vec![], vec![0], vec![0, 1], vec![0, 1, 2], vec![0, 1, 2, 3]];
    assert_eq!(
        step.before(&[first, second, third, fourth, fifth]),
        expected
    );
}

#[test]
fn all_sends_of_a_step_come_before_all_of_the_next() {
    for order in [
        PER_KEY,
        PER_KEY_WITH_NULL,
        SendOrder::PerDelivery,
        SendOrder::Sequential,
    ] {
        let mut step = Step::new(order);
        let [s, t, u] = ["s:0", "t:0", "u:0"].map(|name| step.oracle.add_channel(name));
        let input = step.deliver(Some(1));
        let first = step.send(s);
        step.deliver(Some(2));
        let second = step.send(t);
        step.oracle.commit(step.task);
        step.deliver(Some(3));
        let next = step.send(u);
        let before = step.before(&[first, second, next]);
        assert_eq!(before[2], [0, 1], "{order:?}");
        assert!(step.oracle.happened_before(input, next));
    }
}

#[test]
fn sends_of_an_aborted_step_come_before_nothing() {
    let mut step = Step::new(SendOrder::Sequential);
    let s = step.oracle.add_channel("s:0");
    step.deliver(Some(1));
    let lost = step.send(s);
    step.oracle.abort(step.task);
    let next = step.send(s);
    assert_eq!(step.before(&[lost, next]), [ALONE, ALONE]);
    assert_eq!(
        step.oracle.past_of(next).count(),
        0,
        "nor does what was delivered in it"
    );
}

#[test]
fn the_past_is_what_was_handed_in_up_to_the_cause_of_the_send() {
    let mut step = Step::new(PER_KEY);
    let [s, t, u, v] = ["s:0", "t:0", "u:0", "v:0"].map(|name| step.oracle.add_channel(name));
    let before = step.deliver(Some(9));
    step.oracle.commit(step.task);
    let [first, second, third] = [Some(1), Some(2), Some(1)].map(|key| step.deliver(key));
    // Handed out late, in another order than the deliveries'.
    let task = step.task;
    let of_second = step
        .oracle
        .emit_for(task, Some(second), s, None)
        .expect("handed in");
    let of_first = step
        .oracle
        .emit_for(task, Some(first), t, None)
        .expect("handed in");
    let of_third = step
        .oracle
        .emit_for(task, Some(third), u, None)
        .expect("handed in");
    let timer = step
        .oracle
        .emit_for(task, None, v, None)
        .expect("no cause is named");
    let past = |emission| step.oracle.past_of(emission).collect::<Vec<_>>();
    assert_eq!(past(of_second), [before, first, second]);
    assert_eq!(past(of_first), [before, first]);
    assert_eq!(past(of_third), [before, first, second, third, of_first]);
    assert_eq!(past(timer), [before, first, second, third]);
}

#[test]
fn a_send_for_no_delivery_follows_only_what_went_to_its_own_channel() {
    for order in [PER_KEY_WITH_NULL, SendOrder::PerDelivery] {
        let mut step = Step::new(order);
        let [s, ticks] = ["s:0", "ticks:0"].map(|name| step.oracle.add_channel(name));
        let early = step.send(ticks);
        let also_early = step.send(s);
        step.deliver(None);
        let of_delivery = step.send(s);
        let tick = step
            .oracle
            .emit_for(step.task, None, ticks, None)
            .expect("no cause is named");
        let of_delivery_again = step.send(ticks);
        let before = step.before(&[early, also_early, of_delivery, tick, of_delivery_again]);
        assert_eq!(
            before,
            [vec![], vec![], vec![1], vec![0], vec![0, 1, 2, 3]],
            "{order:?}"
        );
    }
}

/// Two ticks, with a delivery of a null key between them, send to one channel each.
fn ticks(order: SendOrder) -> Vec<Vec<usize>> {
    let mut step = Step::new(order);
    let [ticks, s, t, u] =
        ["ticks:0", "s:0", "t:0", "u:0"].map(|name| step.oracle.add_channel(name));
    step.oracle.consume(step.task, ticks, 0);
    step.oracle.ticks_on(step.task, ticks);
    for offset in 0..2 {
        let tick = step.oracle.emit_for(step.task, None, ticks, None);
        let tick = tick.expect("no cause is named");
        let appended = step.oracle.appended(tick, offset);
        appended.expect("the place is free");
    }
    step.oracle.commit(step.task);
    let tick = |step: &mut Step, offset, to| {
        let delivered = step.oracle.deliver(step.task, ticks, offset);
        delivered.expect("ticks come in order");
        step.send(to)
    };
    let first = tick(&mut step, 0, s);
    step.deliver(None);
    let between = step.send(t);
    let second = tick(&mut step, 1, u);
    step.before(&[first, between, second])
}

#[test]
fn what_ticks_send_is_ordered_by_tick_and_ticks_are_of_no_key() {
    for order in [PER_KEY, PER_KEY_WITH_NULL, SendOrder::PerDelivery] {
        assert_eq!(ticks(order), [vec![], vec![], vec![0]], "{order:?}");
    }
    assert_eq!(ticks(SendOrder::WithinDelivery), [ALONE, ALONE, ALONE]);
    assert_eq!(ticks(SendOrder::Sequential), [vec![], vec![0], vec![0, 1]]);
}

#[test]
fn an_observation_counts_as_the_cause_of_what_follows() {
    let mut step = Step::new(SendOrder::PerDelivery);
    let [s, t] = ["s:0", "t:0"].map(|name| step.oracle.add_channel(name));
    let read = step.deliver(Some(1));
    step.oracle.abort(step.task);
    assert_eq!(step.oracle.observe(step.task, step.input, 0), Ok(read));
    let sends = [step.send(s), step.send(t)];
    assert_eq!(step.before(&sends), [vec![], vec![0]]);
    assert!(step.oracle.happened_before(read, sends[0]));
}

/// Who does not know which deliveries were one step commits each for itself, and asks for no order between the sends of two.
#[test]
fn what_different_deliveries_send_is_unrelated_within_a_delivery_whatever_was_committed() {
    let mut step = Step::new(SendOrder::WithinDelivery);
    let [s, t] = ["s:0", "t:0"].map(|name| step.oracle.add_channel(name));
    let first = step.deliver(Some(1));
    let sends = [step.send(s), step.send(t)];
    step.oracle.commit(step.task);
    step.deliver(Some(1));
    let later = [step.send(t), step.send(s)];
    let all = [sends, later].concat();
    assert_eq!(step.before(&all), [vec![], vec![0], vec![], vec![2]]);
    assert!(step.oracle.happened_before(first, later[0]));
}
