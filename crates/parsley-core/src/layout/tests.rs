//! State keys and values: the golden ones, near misses of each, and the round trips.

use proptest::prelude::*;

use super::*;
use crate::channel::SenderId;
use crate::clock::OffsetClaim;
use crate::golden;
use crate::record::Header;
use crate::strategies::{self as any, cases};

const TOPIC: &str = "00112233-4455-6677-8899-aabbccddeeff";
const SENDER: &str = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";

fn channel() -> Channel {
    golden::topic(TOPIC).partition(7)
}

fn sender() -> SenderId {
    golden::sender(SENDER)
}

fn parse(text: &str) -> Option<StateKey> {
    StateKey::parse(text.as_bytes())
}

#[test]
fn golden_keys_are_written_and_parsed() {
    let keys = golden::read("state_keys");
    let expected = [
        ("frontier", StateKey::Frontier(channel())),
        ("advertised", StateKey::Advertised(channel())),
        ("queue_meta", StateKey::QueueMeta(channel())),
        ("queue_entry_10", StateKey::QueueEntry(channel(), 10)),
        ("send_sequence", StateKey::SendSequence(channel())),
        (
            "delivered_sequence",
            StateKey::DeliveredSequence(channel(), sender()),
        ),
    ];
    assert_eq!(
        keys.as_object().map(|keys| keys.len()),
        Some(expected.len())
    );
    for (name, key) in expected {
        let golden = golden::text(&keys, name);
        assert_eq!(String::from_utf8(key.to_bytes()).as_deref(), Ok(golden));
        assert_eq!(parse(golden), Some(key));
    }
    assert_eq!(StateKey::Scope.to_bytes(), b"scope");
    assert_eq!(parse("scope"), Some(StateKey::Scope));
    assert_eq!(StateKey::Carried.to_bytes(), b"ca");
    assert_eq!(parse("ca"), Some(StateKey::Carried));
    assert_eq!(
        StateKey::queue_entries(channel()),
        format!("q/{TOPIC}:7/e/").as_bytes()
    );
}

#[test]
fn a_key_that_only_looks_like_one_is_refused() {
    let upper_topic = TOPIC.to_uppercase();
    let bare_topic = TOPIC.replace('-', "");
    let short_topic = &TOPIC[1..];
    let near = [
        String::new(),
        "/".to_owned(),
        "scope/".to_owned(),
        "Scope".to_owned(),
        "scop".to_owned(),
        " scope".to_owned(),
        "ca/".to_owned(),
        "CA".to_owned(),
        "cc".to_owned(),
        "f".to_owned(),
        "f/".to_owned(),
        format!("f/{TOPIC}"),
        format!("f/{TOPIC}:"),
        format!("f/{TOPIC}:07"),
        format!("f/{TOPIC}:+7"),
        format!("f/{TOPIC}:-0"),
        format!("f/{TOPIC}:-7"),
        format!("f/{TOPIC}: 7"),
        format!("f/{TOPIC}:7 "),
        format!("f/{TOPIC}:7/"),
        format!("f//{TOPIC}:7"),
        format!("/f/{TOPIC}:7"),
        format!("F/{TOPIC}:7"),
        format!("x/{TOPIC}:7"),
        format!("f/{TOPIC}:2147483648"),
        format!("f/{TOPIC}:7:7"),
        format!("f/{upper_topic}:7"),
        format!("f/{bare_topic}:7"),
        format!("f/{{{TOPIC}}}:7"),
        format!("f/urn:uuid:{TOPIC}:7"),
        format!("f/{short_topic}:7"),
        format!("cc/{upper_topic}:7"),
        format!("cc/{TOPIC}:7/m"),
        format!("sq/{TOPIC}:007"),
        format!("sq/{TOPIC}:7/{SENDER}"),
        format!("ds/{TOPIC}:7"),
        format!("ds/{TOPIC}:7/"),
        format!("ds/{TOPIC}:7/{}", SENDER.to_uppercase()),
        format!("ds/{TOPIC}:7/{SENDER}/"),
        format!("ds/{TOPIC}:7//{SENDER}"),
        format!("ds/{TOPIC}:7/{}", &SENDER[..35]),
        format!("ds/{TOPIC}:+7/{SENDER}"),
        format!("q/{TOPIC}:7"),
        format!("q/{TOPIC}:7/"),
        format!("q/{TOPIC}:7/M"),
        format!("q/{TOPIC}:7/m/"),
        format!("q/{TOPIC}:7/mm"),
        format!("q/{TOPIC}:7/e"),
        format!("q/{TOPIC}:7/e/"),
        format!("q/{TOPIC}:7/e/a"),
        format!("q/{TOPIC}:7/e/00000000000000a"),
        format!("q/{TOPIC}:7/e/0000000000000000a"),
        format!("q/{TOPIC}:7/e/000000000000000A"),
        format!("q/{TOPIC}:7/e/+00000000000000a"),
        format!("q/{TOPIC}:7/e/0x0000000000000a"),
        format!("q/{TOPIC}:7/e/000000000000000g"),
        format!("q/{TOPIC}:7/e//00000000000000a"),
        format!("q/{TOPIC}:7/e/000000000000000a/"),
        format!("q/{TOPIC}:7//e/000000000000000a"),
        format!("q/{TOPIC}:7/f/000000000000000a"),
        format!("q/{TOPIC}:07/e/000000000000000a"),
        format!("q/{TOPIC}:7/000000000000000a"),
    ];
    for key in near {
        assert_eq!(parse(&key), None, "{key}");
    }
    let mut broken = format!("f/{TOPIC}:7").into_bytes();
    broken[5] = 0xff;
    assert_eq!(StateKey::parse(&broken), None);
    assert_eq!(StateKey::parse(b"\xc3\x28"), None);
    assert_eq!(StateKey::parse(b"f\0/"), None);
}

fn held(name: &str) -> Bytes {
    let entries = golden::list("held");
    let entry = entries
        .iter()
        .find(|entry| golden::text(entry, "name").starts_with(name))
        .expect("a golden record");
    golden::hex(entry).into()
}

fn untagged() -> HeldRecord {
    HeldRecord {
        offset: 5,
        timestamp_ms: 1000,
        sender: None,
        clock: Bytes::from_static(&wire::EMPTY_CLOCK),
        key: None,
        value: Some(Bytes::new()),
        headers: vec![],
    }
}

fn tagged() -> HeldRecord {
    let claim = OffsetClaim {
        channel: channel(),
        offset: 42,
    };
    HeldRecord {
        offset: 6,
        timestamp_ms: 1001,
        sender: Some((sender(), 3)),
        clock: wire::encode(&Clock::from_claims([claim], [])).into(),
        key: Some(Bytes::from_static(b"k")),
        value: Some(Bytes::from_static(b"v")),
        headers: vec![],
    }
}

fn with_headers() -> HeldRecord {
    HeldRecord {
        headers: vec![
            Header::new("trace", "1"),
            Header::null("trace"),
            Header::new("", ""),
            Header::new("trace", "1"),
        ],
        ..tagged()
    }
}

fn read(value: impl Into<Bytes>) -> Result<HeldRecord, CorruptValue> {
    HeldRecord::from_bytes(&value.into())
}

fn length(found: usize, field: &'static str) -> CorruptValue {
    CorruptValue::Length { found, field }
}

fn field(field: &'static str, found: i64) -> CorruptValue {
    CorruptValue::Field { field, found }
}

/// B17: lossy persistence of held records.
mod b17 {
    use super::*;

    #[test]
    fn golden_held_records_are_written_and_read() {
        assert_eq!(golden::list("held").len(), 2);
        for (name, record) in [("untagged", untagged()), ("tagged", tagged())] {
            assert_eq!(hex::encode(record.to_bytes()), hex::encode(held(name)));
            assert_eq!(read(held(name)), Ok(record));
        }
    }

    #[test]
    fn application_headers_follow_and_keep_order_repetitions_and_nulls() {
        let bytes = with_headers().to_bytes();
        let addition = "00000004\
            0000000574726163650000000131\
            000000057472616365ffffffff\
            0000000000000000\
            0000000574726163650000000131";
        assert_eq!(
            hex::encode(&bytes),
            hex::encode(tagged().to_bytes()) + addition
        );
        assert_eq!(read(bytes), Ok(with_headers()));
    }

    #[test]
    fn null_and_empty_differ_and_timestamps_of_any_sign_survive() {
        let mut seen = std::collections::BTreeSet::new();
        for key in [None, Some(Bytes::new()), Some(Bytes::from_static(b"k"))] {
            for value in [None, Some(Bytes::new()), Some(Bytes::from_static(b"k"))] {
                for timestamp_ms in [i64::MIN, -1, 0, i64::MAX] {
                    let record = HeldRecord {
                        key: key.clone(),
                        value: value.clone(),
                        timestamp_ms,
                        ..untagged()
                    };
                    let bytes = record.to_bytes();
                    assert_eq!(read(bytes.clone()), Ok(record));
                    assert!(seen.insert(bytes), "two records share their bytes");
                }
            }
        }
    }

    #[test]
    fn indices_sort_as_text_in_numeric_order() {
        let indices = [
            0,
            9,
            10,
            11,
            15,
            16,
            255,
            256,
            4095,
            4096,
            u64::MAX - 1,
            u64::MAX,
        ];
        let keys = indices.map(|index| StateKey::QueueEntry(channel(), index).to_bytes());
        assert!(keys.is_sorted_by(|a, b| a < b));
        let digits = |index: usize| String::from_utf8_lossy(&keys[index][43..]).into_owned();
        assert_eq!(digits(1), "0000000000000009");
        assert_eq!(digits(2), "000000000000000a");
        assert_eq!(digits(3), "000000000000000b");
        assert_eq!(digits(6), "00000000000000ff");
        assert_eq!(digits(7), "0000000000000100");
        assert_eq!(digits(11), "ffffffffffffffff");
        for (key, index) in keys.iter().zip(indices) {
            assert_eq!(
                StateKey::parse(key),
                Some(StateKey::QueueEntry(channel(), index))
            );
            assert!(key.starts_with(&StateKey::queue_entries(channel())));
        }
    }

    #[test]
    fn every_truncation_and_every_extension_is_refused() {
        for record in [untagged(), tagged(), with_headers()] {
            let bytes = record.to_bytes();
            let block = HeldRecord {
                headers: vec![],
                ..record.clone()
            };
            for cut in 0..bytes.len() {
                let prefix = bytes.slice(..cut);
                if !record.headers.is_empty() && cut == block.to_bytes().len() {
                    assert_eq!(read(prefix).as_ref(), Ok(&block));
                } else {
                    let refused = read(prefix).expect_err("a truncation");
                    assert!(
                        matches!(refused, CorruptValue::Length { found, .. } if found == cut),
                        "{cut}: {refused:?}"
                    );
                }
            }
            for extra in 1..9 {
                let extended = [&bytes[..], &vec![0; extra]].concat();
                let total = extended.len();
                let expected = match (record.headers.is_empty(), extra) {
                    (true, ..4) => length(total, "header count"),
                    (true, _) => field("header count", 0),
                    (false, _) => length(total, "the end after the last field"),
                };
                assert_eq!(read(extended), Err(expected));
            }
        }
    }
}

#[test]
fn held_fields_that_are_never_written_are_refused() {
    let with = |at: usize, bytes: &[u8]| {
        let mut value = tagged().to_bytes().to_vec();
        value[at..at + bytes.len()].copy_from_slice(bytes);
        read(value)
    };
    assert_eq!(with(0, &[0xff; 8]), Err(field("offset", -1)));
    assert_eq!(
        with(0, &i64::MIN.to_be_bytes()),
        Err(field("offset", i64::MIN))
    );
    let tag = "tagged, or the sender of an untagged record,";
    for tagged in [2, 0x81, 0xff] {
        assert_eq!(with(16, &[tagged]), Err(field(tag, tagged.into())));
    }
    // Untagged, and yet with a sender: either half tells.
    assert_eq!(with(16, &[0]), Err(field(tag, 0)));
    let mut half = untagged().to_bytes().to_vec();
    half[17 + 7] = 1;
    assert_eq!(read(half), Err(field(tag, 0)));
    let mut half = untagged().to_bytes().to_vec();
    half[25 + 7] = 1;
    assert_eq!(read(half), Err(field(tag, 0)));
    assert_eq!(
        with(33, &[0xff; 8]),
        Err(field("sender sequence", -1)),
        "a tagged record has a sequence"
    );
    assert_eq!(
        with(33, &[0; 8]),
        Ok(HeldRecord {
            sender: Some((sender(), 0)),
            ..tagged()
        })
    );
    assert_eq!(
        with(41, &(-1_i32).to_be_bytes()),
        Err(field("clock", -1)),
        "a clock is never null"
    );
    assert_eq!(with(41, &(-2_i32).to_be_bytes()), Err(field("clock", -2)));
    let total = tagged().to_bytes().len();
    assert_eq!(
        with(41, &i32::MAX.to_be_bytes()),
        Err(length(total, "clock"))
    );
    assert_eq!(
        with(45, &[2]),
        Err(CorruptValue::Clock(wire::CorruptClock::UnknownVersion {
            found: 2
        }))
    );
    let key = 45 + 37;
    assert_eq!(with(key, &(-2_i32).to_be_bytes()), Err(field("key", -2)));
    assert_eq!(
        with(key, &i32::MAX.to_be_bytes()),
        Err(length(total, "key"))
    );
    let value = key + 5;
    assert_eq!(
        with(value, &i32::MIN.to_be_bytes()),
        Err(field("value", i32::MIN.into()))
    );
    assert_eq!(
        with(value, &2_i32.to_be_bytes()),
        Err(length(total, "value"))
    );
}

#[test]
fn header_additions_that_are_never_written_are_refused() {
    let with = |addition: &str| {
        let bytes = hex::decode(addition).expect("hex digits");
        let value = [&tagged().to_bytes()[..], &bytes].concat();
        (value.len(), read(value))
    };
    let (_, refused) = with("00000000");
    assert_eq!(refused, Err(field("header count", 0)));
    let (_, refused) = with("ffffffff");
    assert_eq!(refused, Err(field("header count", -1)));
    let (total, refused) = with("7fffffff");
    assert_eq!(refused, Err(length(total, "header name")));
    let (_, refused) = with("00000001ffffffff");
    assert_eq!(refused, Err(field("header name", -1)));
    let (total, refused) = with("000000010000000161");
    assert_eq!(refused, Err(length(total, "header value")));
    let (_, refused) = with("000000010000000161fffffffe");
    assert_eq!(refused, Err(field("header value", -2)));
    let (total, refused) = with("000000020000000161ffffffff");
    assert_eq!(refused, Err(length(total, "header name")));
    let (_, read) = with("000000010000000161ffffffff");
    assert_eq!(
        read.map(|record| record.headers),
        Ok(vec![Header::null("a")])
    );
}

#[test]
fn a_clock_out_of_order_is_sorted_on_the_way_in() {
    let claim = |lsb, offset| OffsetClaim {
        channel: TopicId(Id { msb: 0, lsb }).partition(0),
        offset,
    };
    let sorted = wire::encode(&Clock::from_claims([claim(1, 1), claim(2, 2)], []));
    let mut swapped = sorted.clone();
    swapped[5..33].copy_from_slice(&sorted[33..61]);
    swapped[33..61].copy_from_slice(&sorted[5..33]);
    assert_ne!(swapped, sorted);
    assert_eq!(
        in_order(swapped.clone().into()),
        Ok(Bytes::from(sorted.clone()))
    );
    assert_eq!(
        in_order(sorted.clone().into()),
        Ok(Bytes::from(sorted.clone()))
    );
    assert_eq!(in_order(Bytes::new()), Err(wire::CorruptClock::Empty));
    let record = HeldRecord {
        clock: swapped.into(),
        ..tagged()
    };
    assert_eq!(
        read(record.to_bytes()).map(|read| read.clock),
        Ok(sorted.into())
    );
}

#[test]
fn a_scope_is_written_in_its_layout_and_refused_when_it_is_not() {
    let topic = golden::topic(TOPIC);
    let negative = golden::topic("ff112233-4455-6677-8899-aabbccddeeff");
    let scope = Scope {
        channels: vec![
            negative.partition(3),
            topic.partition(0),
            topic.partition(1),
        ],
        sinks: vec![negative, topic],
    };
    let (low, high) = (
        "ff112233445566778899aabbccddeeff",
        "00112233445566778899aabbccddeeff",
    );
    let golden = format!("00000003{low}00000003{high}00000000{high}00000001\n00000002{low}{high}")
        .replace('\n', "");
    let bytes = scope.to_bytes();
    assert_eq!(hex::encode(&bytes), golden);
    assert_eq!(Scope::from_bytes(&bytes), Ok(scope));
    let empty = Scope::default().to_bytes();
    assert_eq!(hex::encode(&empty), "0000000000000000");
    assert_eq!(Scope::from_bytes(&empty), Ok(Scope::default()));

    let read = |hex: &str| Scope::from_bytes(&hex::decode(hex).expect("hex digits").into());
    for cut in 0..golden.len() / 2 {
        assert!(
            matches!(read(&golden[..2 * cut]), Err(CorruptValue::Length { found, .. }) if found == cut)
        );
    }
    assert_eq!(
        read(&(golden.clone() + "00")),
        Err(length(bytes.len() + 1, "the end after the last sink"))
    );
    assert_eq!(read("ffffffff"), Err(field("channel count", -1)));
    assert_eq!(read("00000000ffffffff"), Err(field("sink count", -1)));
    assert_eq!(read("7fffffff"), Err(length(4, "channel")));
    assert_eq!(read("000000007fffffff"), Err(length(8, "sink")));
    assert_eq!(
        read(&format!("00000001{high}ffffffff00000000")),
        Err(field("partition", -1))
    );
    let disorder = "entries out of order or repeated";
    for (channels, sinks) in [
        (vec![(high, 0), (low, 0)], vec![]),
        (vec![(high, 1), (high, 0)], vec![]),
        (vec![(high, 1), (high, 1)], vec![]),
        (vec![], vec![high, low]),
        (vec![], vec![low, low]),
    ] {
        let mut value = format!("{:08x}", channels.len());
        for (topic, partition) in channels {
            value += &format!("{topic}{partition:08x}");
        }
        value += &format!("{:08x}", sinks.len());
        value.extend(sinks);
        assert_eq!(
            read(&value),
            Err(length(value.len() / 2, disorder)),
            "{value}"
        );
    }
}

#[test]
fn numbers_and_pairs_are_fixed_in_width_and_never_negative() {
    let value = |hex: &str| Bytes::from(hex::decode(hex).expect("hex digits"));
    for number in [0, 1, 0x0102, i64::MAX] {
        let bytes = number_to_bytes(number);
        assert_eq!(hex::encode(&bytes), format!("{number:016x}"));
        assert_eq!(number_from_bytes(&bytes), Ok(number));
        for other in [0, i64::MAX] {
            let bytes = pair_to_bytes(number, other);
            assert_eq!(hex::encode(&bytes), format!("{number:016x}{other:016x}"));
            assert_eq!(pair_from_bytes(&bytes), Ok((number, other)));
        }
    }
    let name = "position or sequence";
    assert_eq!(
        number_from_bytes(&value("ffffffffffffffff")),
        Err(field(name, -1))
    );
    assert_eq!(number_from_bytes(&value("")), Err(length(0, name)));
    assert_eq!(
        number_from_bytes(&value("00000000000000")),
        Err(length(7, name))
    );
    assert_eq!(
        number_from_bytes(&value("000000000000000000")),
        Err(length(9, "8 bytes"))
    );
    let one = "0000000000000001";
    assert_eq!(
        pair_from_bytes(&value(&format!("8000000000000000{one}"))),
        Err(field("first number", i64::MIN))
    );
    assert_eq!(
        pair_from_bytes(&value(&format!("{one}ffffffffffffffff"))),
        Err(field("second number", -1))
    );
    assert_eq!(
        pair_from_bytes(&value(one)),
        Err(length(8, "second number"))
    );
    assert_eq!(
        pair_from_bytes(&value("00")),
        Err(length(1, "first number"))
    );
    assert_eq!(
        pair_from_bytes(&value(&format!("{one}{one}00"))),
        Err(length(17, "16 bytes"))
    );
}

fn state_key() -> impl Strategy<Value = StateKey> {
    let index = prop_oneof![0..300_u64, any::<u64>()];
    prop_oneof![
        Just(StateKey::Scope),
        Just(StateKey::Carried),
        any::channel().prop_map(StateKey::Frontier),
        any::channel().prop_map(StateKey::Advertised),
        any::channel().prop_map(StateKey::QueueMeta),
        (any::channel(), index).prop_map(|(on, index)| StateKey::QueueEntry(on, index)),
        any::channel().prop_map(StateKey::SendSequence),
        (any::channel(), any::sender())
            .prop_map(|(on, from)| StateKey::DeliveredSequence(on, from)),
    ]
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn keys_parse_to_what_they_were_written_from(key in state_key(), other in state_key()) {
        prop_assert_eq!(StateKey::parse(&key.to_bytes()), Some(key));
        prop_assert_eq!(key.to_bytes() == other.to_bytes(), key == other);
    }

    #[test]
    fn a_damaged_key_is_another_key_or_none(
        key in state_key(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<bool>(),
    ) {
        let mut bytes = key.to_bytes();
        let at = at.index(bytes.len());
        if cut { bytes.truncate(at) } else { bytes[at] = byte }
        let parsed = StateKey::parse(&bytes);
        if let Some(parsed) = parsed {
            prop_assert_eq!(parsed.to_bytes(), &bytes[..]);
        }
        if let StateKey::QueueEntry(channel, _) = key {
            let index = match parsed {
                Some(StateKey::QueueEntry(on, index)) if on == channel => Some(index),
                _ => None,
            };
            for next in [0, 7, index.unwrap_or(u64::MAX)] {
                prop_assert_eq!(EntryKeys::from(channel, next).take(&bytes), index);
            }
        }
    }

    #[test]
    fn keys_of_entries_are_those_of_their_indices(
        channel in any::channel(),
        from in prop_oneof![0..300_u64, any::<u64>(), Just(u64::MAX - 2), Just(0xffff_fff0)],
        jump in prop::option::of(any::<u64>()),
    ) {
        let mut keys = EntryKeys::from(channel, from);
        let mut taken = EntryKeys::from(channel, jump.unwrap_or(from));
        prop_assert_eq!(keys.prefix(), StateKey::queue_entries(channel));
        for index in (0..40).map(|ahead| from.wrapping_add(ahead)) {
            let expected = StateKey::QueueEntry(channel, index).to_bytes();
            prop_assert_eq!(keys.key(), &expected[..]);
            prop_assert_eq!(taken.take(&expected), Some(index));
            keys.advance();
        }
    }

    #[test]
    fn queue_entries_of_a_channel_sort_by_index(
        channel in any::channel(),
        one in any::<u64>(),
        other in any::<u64>(),
    ) {
        let key = |index| StateKey::QueueEntry(channel, index).to_bytes();
        prop_assert_eq!(key(one).cmp(&key(other)), one.cmp(&other));
    }

    #[test]
    fn held_records_read_as_they_were_written(record in any::held_record()) {
        let bytes = record.to_bytes();
        prop_assert_eq!(HeldRecord::from_bytes(&bytes), Ok(record));
    }

    #[test]
    fn a_damaged_value_reads_or_is_refused(
        record in any::held_record(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = record.to_bytes().to_vec();
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let bytes = Bytes::from(bytes);
        if let Ok(read) = HeldRecord::from_bytes(&bytes) {
            // What is read is written again as it is read: damage never changes length or order silently.
            prop_assert_eq!(HeldRecord::from_bytes(&read.to_bytes()), Ok(read));
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        bytes in prop::collection::vec(prop_oneof![3 => Just(0), 1 => any::<u8>()], 0..120),
    ) {
        let bytes = Bytes::from(bytes);
        if let Some(key) = StateKey::parse(&bytes) {
            prop_assert_eq!(key.to_bytes(), &bytes[..]);
        }
        if let Ok(scope) = Scope::from_bytes(&bytes) {
            prop_assert_eq!(scope.to_bytes(), &bytes);
        }
        if let Ok(number) = number_from_bytes(&bytes) {
            prop_assert_eq!(number_to_bytes(number), &bytes);
        }
        if let Ok((first, second)) = pair_from_bytes(&bytes) {
            prop_assert_eq!(pair_to_bytes(first, second), &bytes);
        }
        if let Ok(record) = HeldRecord::from_bytes(&bytes) {
            prop_assert_eq!(HeldRecord::from_bytes(&record.to_bytes()), Ok(record));
        }
        if let Ok(clock) = clock_from_bytes(&bytes) {
            prop_assert_eq!(wire::encode(&clock).len(), bytes.len());
        }
    }
}
