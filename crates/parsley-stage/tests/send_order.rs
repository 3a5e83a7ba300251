//! Random steps against duty H7 (`docs/protocol.md`, Send order), with acknowledgements that carry no offset: a stamp then claims own sends
//! by sequence, which shows exactly what it waits for.

mod support;

use std::collections::BTreeMap;

use parsley_core::{Channel, wire};
use parsley_stage::{RawSend, SendOrder, Stage, Topic, codec};
use proptest::prelude::*;
use support::{Host, Log};

const SINKS: [&str; 3] = ["p", "q", "r"];

type Emissions = Topic<Option<String>, Vec<u8>>;

fn topic(name: &str) -> Emissions {
    Topic::new(name, codec::nullable(codec::string()), codec::byte_vec())
}

/// For each byte of the message's value, emits to the sink and the key that it names: which message it was for, and which emission of it.
fn scattering(order: SendOrder) -> Stage {
    let sinks = SINKS.map(topic);
    let mut stage =
        Stage::stateful("s", codec::nullable(codec::string()), codec::u64()).send_order(order);
    for sink in &sinks {
        stage = stage.sink(sink);
    }
    stage
        .on(&topic("in"), move |_, message, out| {
            for (nth, &target) in message.value.iter().enumerate() {
                let sink = &sinks[usize::from(target) % SINKS.len()];
                let key = format!("key{}", usize::from(target) / SINKS.len());
                out.send(sink, &Some(key), &vec![message.offset as u8, nth as u8])?;
            }
            Ok(())
        })
        .build()
        .unwrap()
}

/// A send as it was handed over.
struct Sent {
    channel: Channel,
    sequence: i64,
    /// What it claims of the task's own sends, by channel.
    claims: BTreeMap<Channel, i64>,
    delivery: u8,
    nth: u8,
    key: Option<String>,
}

fn sent(send: &RawSend, keys: &[Option<String>]) -> Sent {
    let header = |name: &str| {
        let header = send
            .headers
            .iter()
            .find(|header| header.name == name.as_bytes());
        header.unwrap().value.clone().unwrap()
    };
    let clock = wire::decode(&header(wire::CLOCK_HEADER))
        .unwrap()
        .into_clock();
    let value = send.value.as_ref().unwrap();
    Sent {
        channel: send.channel,
        sequence: i64::from_be_bytes(header(wire::SEQUENCE_HEADER).as_ref().try_into().unwrap()),
        claims: clock
            .sequences()
            .iter()
            .map(|claim| (claim.channel, claim.sequence))
            .collect(),
        delivery: value[0],
        nth: value[1],
        key: keys[usize::from(value[0])].clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn sends_wait_for_what_they_claim_and_claim_what_came_before_them(
        deliveries in prop::collection::vec((prop::option::of(0_u8..3), prop::collection::vec(0_u8..9, 0..5)), 1..12),
        per_key: bool,
        max_step_deliveries in 1_usize..6,
    ) {
        let order = if per_key { SendOrder::PerKey } else { SendOrder::PerDelivery };
        let mut log = Log::new(&[("in", 1), ("p", 3), ("q", 2), ("r", 1)]);
        let keys: Vec<Option<String>> = deliveries.iter().map(|(key, _)| key.map(|key| format!("k{key}"))).collect();
        for (key, (_, targets)) in keys.iter().zip(&deliveries) {
            log.produce(&topic("in"), key, targets, vec![]);
        }
        let mut host = Host::new(&scattering(order));
        host.open(&log).unwrap();
        host.feed(&log, &["in"]).unwrap();

        let mut all: Vec<(usize, Sent)> = Vec::new();
        let mut acknowledged: BTreeMap<Channel, i64> = BTreeMap::new();
        let mut step = 0;
        let mut delivered = 0;
        while delivered < deliveries.len() {
            let task = host.task();
            let mut in_step = 0;
            let mut round: Vec<Sent> = Vec::new();
            while in_step < max_step_deliveries && !task.step_is_full() && task.process_next().unwrap().is_some() {
                in_step += 1;
                round.extend(task.take_sends().iter().map(|send| sent(send, &keys)));
            }
            loop {
                for send in &round {
                    for (channel, claimed) in &send.claims {
                        prop_assert!(acknowledged.get(channel) >= Some(claimed), "claims what may not be there yet");
                    }
                }
                for send in round.drain(..) {
                    let before = all.iter().filter(|(_, earlier)| earlier.channel == send.channel).count();
                    prop_assert_eq!(send.sequence, before as i64, "one after the other on each channel");
                    all.push((step, send));
                }
                acknowledged.extend(all.iter().map(|(_, send)| (send.channel, send.sequence)));
                if !task.has_later_rounds() {
                    break;
                }
                task.fence(&[]).unwrap();
                round.extend(task.take_sends().iter().map(|send| sent(send, &keys)));
            }
            host.commit(&[]).unwrap();
            delivered += in_step;
            step += 1;
        }

        prop_assert_eq!(all.len(), deliveries.iter().map(|(_, targets)| targets.len()).sum::<usize>());
        for (earlier_step, earlier) in &all {
            for (later_step, later) in &all {
                let same_delivery = earlier.delivery == later.delivery && earlier.nth < later.nth;
                let same_key = per_key && earlier.key == later.key && earlier.delivery < later.delivery;
                if earlier.channel != later.channel && (same_delivery || same_key || earlier_step < later_step) {
                    let claimed = later.claims.get(&earlier.channel);
                    prop_assert!(claimed >= Some(&earlier.sequence), "claims what it came after");
                }
            }
        }
    }
}
