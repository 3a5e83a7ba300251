use bytes::Bytes;
use parsley_core::{HoldCode, OffsetClaim, Wait};

use super::*;

fn channel(topic: &str) -> Channel {
    TopicId::of_name(topic).partition(1)
}

fn delivery(topic: &str, offset: Offset) -> Processed {
    Processed {
        topic: topic.into(),
        channel: channel(topic),
        offset,
        key: None,
        timestamp_ms: 5,
        clock: Bytes::from_static(b"clock"),
        was_held: false,
        sends: 0,
    }
}

fn hold(topic: &str, offset: Offset, on: &str) -> Hold {
    Hold {
        channel: channel(topic),
        offset,
        behind: 1,
        waits: vec![Wait::Offset {
            claim: OffsetClaim {
                channel: channel(on),
                offset: 9,
            },
            settled: None,
            code: HoldCode::NotFetched,
        }],
    }
}

fn name_of(topic: TopicId) -> Arc<str> {
    let known = ["x", "y"].into_iter();
    let mut found = known.filter(|name| TopicId::of_name(name) == topic);
    found.next().expect("a topic of the stage").into()
}

/// `x@4 arrived 3`, `x@4` for the delivery of what was held, `y@0 arrived 2, head 0, waits x`.
fn told(entries: &[AuditRecord]) -> Vec<String> {
    let tell = |entry: &AuditRecord| {
        assert_eq!((&*entry.stage, entry.partition), ("s", 1));
        assert_eq!(entry.execution, 40);
        assert_eq!(entry.channel, channel(&entry.topic));
        let at = format!("{}@{}", entry.topic, entry.offset);
        match &entry.audited {
            Audited::Delivered { arrival, .. } => match arrival {
                Some(arrival) => format!("{at} arrived {arrival}"),
                None => at,
            },
            Audited::Held {
                arrival,
                head,
                waits,
            } => {
                let waits: Vec<&str> = waits.iter().map(|wait| &*wait.topic).collect();
                format!(
                    "{at} arrived {arrival}, head {head}, waits {}",
                    waits.join(" ")
                )
            }
        }
    };
    entries.iter().map(tell).collect()
}

#[test]
fn a_step_tells_its_deliveries_and_behind_them_what_arrived_and_is_held() {
    let mut account = Account::begin("s".into(), 1, 40);
    for (topic, offset) in [("x", 0), ("y", 3), ("y", 5), ("x", 1)] {
        account.arrived(channel(topic), offset);
    }
    let step = account.of_step(
        &[delivery("x", 0), delivery("x", 1)],
        || vec![hold("y", 3, "x")],
        name_of,
    );
    assert_eq!(
        told(&step),
        [
            "x@0 arrived 0",
            "x@1 arrived 3",
            "y@3 arrived 1, head 3, waits x",
            // What is behind the head waits for that alone.
            "y@5 arrived 2, head 3, waits ",
        ]
    );

    // The next step delivers one of them, and what it receives itself.
    account.arrived(channel("x"), 2);
    let holds = || panic!("nothing that arrived is held");
    let step = account.of_step(&[delivery("y", 3), delivery("x", 2)], holds, name_of);
    assert_eq!(told(&step), ["y@3", "x@2 arrived 4"]);
}

/// A full step did not reach it: nothing stands ahead of it, and it waits for nothing.
#[test]
fn what_a_full_step_did_not_reach_is_its_own_head() {
    let mut account = Account::begin("s".into(), 1, 40);
    account.arrived(channel("y"), 7);
    let step = account.of_step(&[], Vec::new, name_of);
    assert_eq!(told(&step), ["y@7 arrived 0, head 7, waits "]);
}

#[test]
fn a_step_without_anything_adds_nothing() {
    let mut account = Account::begin("s".into(), 1, 40);
    let holds = || panic!("nothing arrived");
    assert_eq!(account.of_step(&[], holds, name_of), []);
}
