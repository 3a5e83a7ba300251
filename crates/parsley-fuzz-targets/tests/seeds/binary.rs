//! Seeds of layouts that crates keep to themselves, written by hand as their documentation has them.

use parsley_core::{SenderId, TopicId, wire};

use super::{Seeds, numbered};

pub fn codec() -> Seeds {
    let value = |kind: u8, bytes: &[u8]| [&[kind], bytes].concat();
    numbered(
        "value",
        [
            value(0, "äpfel".as_bytes()),
            value(0, b"\xff"),
            value(1, b"bytes"),
            value(2, &7_u64.to_be_bytes()),
            value(3, &7_i32.to_be_bytes()),
            value(4, &(-7_i64).to_be_bytes()),
            value(5, b""),
            value(6, b"bytes"),
            value(7, br#"{"a":1,"b":null}"#),
            value(0x80, b""),
            value(0x85, b""),
            value(0x87, b""),
        ],
    )
}

fn nullable(field: Option<&[u8]>) -> Vec<u8> {
    match field {
        None => (-1_i32).to_be_bytes().to_vec(),
        Some(bytes) => [
            &i32::try_from(bytes.len()).unwrap().to_be_bytes()[..],
            bytes,
        ]
        .concat(),
    }
}

fn record(key: Option<&[u8]>, value: Option<&[u8]>, headers: &[(&[u8], Option<&[u8]>)]) -> Vec<u8> {
    let mut record = 1_700_000_000_000_i64.to_be_bytes().to_vec();
    record.extend(nullable(key));
    record.extend(nullable(value));
    record.extend(i32::try_from(headers.len()).unwrap().to_be_bytes());
    for (name, value) in headers {
        record.extend(nullable(Some(name)));
        record.extend(nullable(*value));
    }
    [&[0], &(record.len() as u64).to_be_bytes()[..], &record].concat()
}

pub fn log_chunk() -> Seeds {
    let chunk =
        |base: i64, entries: &[&[u8]]| [&base.to_be_bytes()[..], &entries.concat()].concat();
    let (aborted, marker): (&[u8], &[u8]) = (&[1], &[2]);
    let plain = record(Some(b"ann"), Some(b"3 apples"), &[]);
    let bare = record(None, None, &[]);
    let headed = record(
        None,
        Some(b""),
        &[(b"vc", Some(&wire::EMPTY_CLOCK)), (b"trace", None)],
    );
    numbered(
        "chunk",
        [
            chunk(0, &[]),
            chunk(0, &[&plain]),
            chunk(7, &[&bare, aborted, marker, &headed]),
            chunk(i64::MAX, &[]),
            chunk(i64::MAX, &[marker]),
            chunk(i64::MAX - 1, &[marker]),
            chunk(-1, &[marker]),
            chunk(3, &[&plain[..plain.len() - 1]]),
            chunk(3, &[&plain, &[3]]),
            chunk(3, &[&headed, &headed]),
        ],
    )
}

pub fn log_description() -> Seeds {
    let described =
        |key: &[u8], value: &[u8]| [&[u8::try_from(key.len()).unwrap()], key, value].concat();
    let id = TopicId::of_name("orders").0.uuid().into_bytes();
    let channel = [&id[..], &[0, 0, 0, 1]].concat();
    let run = |first: i64, length: u64| [first.to_be_bytes(), length.to_be_bytes()].concat();
    let open = [b"o", &channel[..], &9_u64.to_be_bytes()].concat();
    let topic = [&3_i32.to_be_bytes()[..], &0_u64.to_be_bytes(), b"orders"].concat();
    numbered(
        "description",
        [
            described(&[b"t", &id[..]].concat(), &topic),
            described(b"iorders", &2_u64.to_be_bytes()),
            described(&[b"p", &channel[..]].concat(), &run(3, 9)),
            described(&open, &[run(1, 3), run(7, 1)].concat()),
            described(&open, &run(i64::MAX, 2)),
            described(b"gshop-add\0", &4_i32.to_be_bytes()),
            described(
                &[b"cshop-add\0", &channel[..]].concat(),
                &7_i64.to_be_bytes(),
            ),
            described(b"gshop-add\0more", &4_i32.to_be_bytes()),
        ],
    )
}

pub fn kafka_checkpoint() -> Seeds {
    let ids =
        [TopicId::of_name("a"), TopicId::of_name("b")].map(|topic| topic.0.uuid().into_bytes());
    let checkpoint = |next: [i64; 2]| {
        let next = next.map(i64::to_be_bytes).concat();
        [
            &ids.concat()[..],
            &next,
            &1_700_000_000_000_i64.to_be_bytes(),
        ]
        .concat()
    };
    let one = checkpoint([0, 7]);
    numbered(
        "checkpoint",
        [
            &one[..],
            &checkpoint([i64::MAX, 0]),
            &checkpoint([-1, 0]),
            &checkpoint([0, -1]),
            &one[..55],
            &[&one[..], b"x"].concat(),
            b"",
        ],
    )
}

/// Fields behind their lengths in one byte; 255 is null.
pub fn dumped_record() -> Seeds {
    let fields = |fields: &[Option<&[u8]>]| -> Vec<u8> {
        let field = |field: &Option<&[u8]>| match field {
            None => vec![u8::MAX],
            Some(bytes) => [&[u8::try_from(bytes.len()).unwrap()], *bytes].concat(),
        };
        fields.iter().flat_map(field).collect()
    };
    let (orders, at): (Option<&[u8]>, Option<&[u8]>) = (Some(b"orders"), Some(&[7]));
    let sender = SenderId::of_task("shop", "settle", 0).0.uuid().into_bytes();
    let mut clock = parsley_core::Clock::new();
    clock.claim_offset(TopicId::of_name("payments").partition(0), 3);
    let clock = wire::encode(&clock);
    numbered(
        "record",
        [
            fields(&[orders, at, at, Some(b"ann"), Some(b"3 apples")]),
            fields(&[orders, at, None, None, None]),
            fields(&[
                orders,
                at,
                at,
                Some(b"\xff"),
                Some(b"\xfe"),
                Some(b"trace"),
                None,
            ]),
            fields(&[orders, at, at, None, None, Some(b"0"), Some(&clock)]),
            fields(&[
                orders,
                at,
                at,
                Some(b"k"),
                Some(br#"{"delivered": 3}"#),
                Some(b"0"),
                Some(&clock),
                Some(b"1"),
                Some(&sender),
                Some(b"2"),
                Some(&[0; 8]),
                Some(b"\xff"),
                Some(b"x"),
            ]),
            fields(&[orders, at, at, None, None, Some(b"0"), None]),
            fields(&[
                orders,
                at,
                at,
                None,
                None,
                Some(b"0"),
                Some(b"x"),
                Some(b"0"),
                Some(b""),
            ]),
            fields(&[
                Some("\u{1f980}\"\\\n".as_bytes()),
                at,
                at,
                Some(b""),
                Some(b""),
            ]),
        ],
    )
}
