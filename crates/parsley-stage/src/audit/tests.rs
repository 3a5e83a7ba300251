use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;

fn orders() -> Channel {
    TopicId::of_name("orders").partition(2)
}

fn delivered(key: Option<&'static [u8]>, arrival: Option<u64>) -> AuditRecord {
    AuditRecord {
        stage: "settle".into(),
        partition: 2,
        execution: 40,
        topic: "orders".into(),
        channel: orders(),
        offset: 7,
        audited: Audited::Delivered {
            arrival,
            key: key.map(Bytes::from_static),
            timestamp_ms: -1,
            clock: Bytes::from_static(&[1, 0, 0, 0, 0, 0, 0, 0, 0]),
        },
    }
}

fn text(record: &AuditRecord) -> String {
    String::from_utf8(record.encode().to_vec()).unwrap()
}

/// The form is read by programs beside the application, and by later builds.
#[test]
fn the_form_is_stable() {
    let channel = orders().to_string();
    assert_eq!(
        text(&delivered(Some(b"ann"), Some(3))),
        format!(
            r#"{{"delivered":{{"stage":"settle","partition":2,"execution":40,"topic":"orders","channel":"{channel}","offset":7,"arrival":3,"key":"ann","timestamp_ms":-1,"clock":"010000000000000000"}}}}"#
        )
    );
    assert_eq!(
        text(&delivered(Some(b"\xff\x00"), None)),
        format!(
            r#"{{"delivered":{{"stage":"settle","partition":2,"execution":40,"topic":"orders","channel":"{channel}","offset":7,"key_hex":"ff00","timestamp_ms":-1,"clock":"010000000000000000"}}}}"#
        )
    );
    let sender = SenderId::of_task("shop", "pay", 0);
    let held = AuditRecord {
        audited: Audited::Held {
            arrival: 4,
            head: 6,
            waits: vec![
                AuditedWait {
                    topic: "orders".into(),
                    wait: Wait::Offset {
                        claim: OffsetClaim {
                            channel: orders(),
                            offset: 9,
                        },
                        settled: None,
                        code: HoldCode::NotFetched,
                    },
                },
                AuditedWait {
                    topic: "orders".into(),
                    wait: Wait::Sequence {
                        claim: SequenceClaim {
                            channel: orders(),
                            sender,
                            sequence: 5,
                        },
                        delivered: Some(2),
                        code: HoldCode::SenderBehind,
                    },
                },
            ],
        },
        ..delivered(None, None)
    };
    assert_eq!(
        text(&held),
        format!(
            r#"{{"held":{{"stage":"settle","partition":2,"execution":40,"topic":"orders","channel":"{channel}","offset":7,"arrival":4,"head":6,"waits":[{{"topic":"orders","channel":"{channel}","offset":9,"code":"vc-hold-not-fetched"}},{{"topic":"orders","channel":"{channel}","sender":"{sender}","sequence":5,"delivered":2,"code":"vc-hold-sender-behind"}}]}}}}"#
        )
    );
    assert_eq!(held.key(), "settle/2");
    assert_eq!(AuditRecord::decode(Some(&held.encode())).unwrap(), held);
}

#[test]
fn a_field_of_a_later_build_is_passed_over() {
    let record = delivered(Some(b"ann"), Some(3));
    let later = text(&record).replacen(r#"{"stage""#, r#"{"since":[1],"stage""#, 1);
    assert_eq!(AuditRecord::decode(Some(later.as_bytes())).unwrap(), record);
}

#[test]
fn what_is_no_entry_is_an_error_that_says_why() {
    let good = text(&delivered(Some(b"ann"), Some(3)));
    let channel = orders().to_string();
    let changed = |from: &str, to: &str| {
        let changed = good.replacen(from, to, 1);
        assert_ne!(changed, good, "{from}");
        changed
    };
    let fault = |value: &str| {
        AuditRecord::decode(Some(value.as_bytes()))
            .expect_err(value)
            .to_string()
    };
    assert_eq!(
        AuditRecord::decode(None).expect_err("null").to_string(),
        "found a null value, expected an entry of the account"
    );
    for (value, expected) in [
        (String::new(), "EOF"),
        ("[]".to_owned(), "found no entry of the account"),
        (
            r#"{"received":{}}"#.to_owned(),
            "unknown variant `received`",
        ),
        (changed(r#""offset":7,"#, ""), "missing field `offset`"),
        (
            changed(r#""arrival":3"#, r#""arrival":-3"#),
            "invalid value",
        ),
        (
            changed(&channel, "orders:0"),
            "found `orders` as channel, expected a UUID",
        ),
        (
            changed(&channel, "orders"),
            "found `orders` as channel, expected a topic's UUID, a colon",
        ),
        (
            changed(":2\"", ":-2\""),
            "expected a topic's UUID, a colon and a partition",
        ),
        (
            changed(r#""clock":"01"#, r#""clock":"0"#),
            "as clock, expected bytes in hexadecimal",
        ),
        (
            changed(r#""key":"#, r#""key_hex":"00","key":"#),
            "found `key` and `key_hex`",
        ),
        (
            changed(r#""key":"ann""#, r#""key_hex":"xy""#),
            "found `xy` as key_hex",
        ),
    ] {
        let found = fault(&value);
        assert!(found.contains(expected), "{value}: {found}");
    }
    let waiting = |wait: &str| {
        format!(
            r#"{{"held":{{"stage":"s","partition":0,"execution":0,"topic":"t","channel":"{channel}","offset":1,"arrival":0,"head":1,"waits":[{{"topic":"t","channel":"{channel}",{wait}}}]}}}}"#
        )
    };
    for (wait, expected) in [
        (r#""offset":1,"code":"vc-x""#, "found `vc-x` as code"),
        (r#""code":"vc-hold-not-fetched""#, "found neither `offset`"),
        (
            r#""sequence":1,"code":"vc-hold-sender-unseen""#,
            "found neither `offset`",
        ),
        (
            r#""offset":1,"sequence":1,"code":"vc-hold-not-fetched""#,
            "found neither `offset`",
        ),
        (
            r#""sender":"x","sequence":1,"code":"vc-hold-sender-unseen""#,
            "found `x` as sender",
        ),
    ] {
        let found = fault(&waiting(wait));
        assert!(found.contains(expected), "{wait}: {found}");
    }
}

fn channels() -> impl Strategy<Value = Channel> {
    (any::<u128>(), 0..i32::MAX).prop_map(|(topic, partition)| {
        TopicId::from_uuid(Uuid::from_u128(topic)).partition(partition)
    })
}

fn waits() -> impl Strategy<Value = AuditedWait> {
    let code = (0..HoldCode::ALL.len()).prop_map(|index| HoldCode::ALL[index]);
    let place = || any::<i64>();
    (
        ".*",
        channels(),
        any::<u128>(),
        place(),
        option::of(place()),
        code,
        any::<bool>(),
    )
        .prop_map(
            |(topic, channel, sender, place, met, code, by_offset)| AuditedWait {
                topic: topic.into(),
                wait: if by_offset {
                    Wait::Offset {
                        claim: OffsetClaim {
                            channel,
                            offset: place,
                        },
                        settled: met,
                        code,
                    }
                } else {
                    Wait::Sequence {
                        claim: SequenceClaim {
                            channel,
                            sender: SenderId::from_uuid(Uuid::from_u128(sender)),
                            sequence: place,
                        },
                        delivered: met,
                        code,
                    }
                },
            },
        )
}

fn audited() -> impl Strategy<Value = Audited> {
    let bytes = || vec(any::<u8>(), 0..40).prop_map(Bytes::from);
    let key = prop_oneof![
        Just(None),
        ".*".prop_map(|text| Some(Bytes::from(text))),
        bytes().prop_map(Some)
    ];
    prop_oneof![
        (any::<u64>(), any::<i64>(), vec(waits(), 0..3)).prop_map(|(arrival, head, waits)| {
            Audited::Held {
                arrival,
                head,
                waits,
            }
        }),
        (option::of(any::<u64>()), key, any::<i64>(), bytes()).prop_map(
            |(arrival, key, timestamp_ms, clock)| Audited::Delivered {
                arrival,
                key,
                timestamp_ms,
                clock
            }
        ),
    ]
}

proptest! {
    #[test]
    fn an_entry_reads_as_it_was_written(
        stage in ".*", partition in any::<i32>(), execution in any::<i64>(),
        topic in ".*", channel in channels(), offset in any::<i64>(), audited in audited(),
    ) {
        let record = AuditRecord {
            stage: stage.into(), partition, execution, topic: topic.into(), channel, offset, audited,
        };
        prop_assert_eq!(AuditRecord::decode(Some(&record.encode())).unwrap(), record);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in vec(any::<u8>(), 0..200)) {
        drop(AuditRecord::decode(Some(&bytes)));
    }
}
