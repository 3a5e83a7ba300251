//! The clock's bytes: the golden ones, every way to break them, and whatever else may arrive; the protocol headers.

use proptest::prelude::*;

use super::*;
use crate::channel::Offset;
use crate::golden;
use crate::strategies::{self as any, cases};

/// The sections as a foreign encoder may list them: in any order, with any values.
#[derive(Clone, Debug, Default)]
struct Listing {
    offsets: Vec<OffsetClaim>,
    sequences: Vec<SequenceClaim>,
}

impl Listing {
    fn offsets(claims: &[(Channel, Offset)]) -> Self {
        let claim = |&(channel, offset)| OffsetClaim { channel, offset };
        Self {
            offsets: claims.iter().map(claim).collect(),
            sequences: Vec::new(),
        }
    }

    fn sequences(claims: &[(Channel, SenderId, i64)]) -> Self {
        let claim = |&(channel, sender, sequence)| SequenceClaim {
            channel,
            sender,
            sequence,
        };
        Self {
            offsets: Vec::new(),
            sequences: claims.iter().map(claim).collect(),
        }
    }

    fn of(entry: &serde_json::Value) -> Self {
        let section = |name: &str| entry["clock"][name].as_array().expect("a section").clone();
        Self {
            offsets: section("offsets")
                .iter()
                .map(|claim| OffsetClaim {
                    channel: golden::channel(claim),
                    offset: golden::number(claim, "offset"),
                })
                .collect(),
            sequences: section("sequences")
                .iter()
                .map(|claim| SequenceClaim {
                    channel: golden::channel(claim),
                    sender: golden::sender(golden::text(claim, "sender")),
                    sequence: golden::number(claim, "sequence"),
                })
                .collect(),
        }
    }

    fn clock(&self) -> Clock {
        Clock::from_claims(self.offsets.clone(), self.sequences.clone())
    }

    /// The bytes in the order listed, written field by field.
    fn bytes(&self) -> Vec<u8> {
        let channel = |bytes: &mut Vec<u8>, channel: Channel| {
            bytes.extend(channel.topic.0.uuid().as_bytes());
            bytes.extend(channel.partition.to_be_bytes());
        };
        let mut bytes = vec![1];
        bytes.extend((self.offsets.len() as u32).to_be_bytes());
        for claim in &self.offsets {
            channel(&mut bytes, claim.channel);
            bytes.extend(claim.offset.to_be_bytes());
        }
        bytes.extend((self.sequences.len() as u32).to_be_bytes());
        for claim in &self.sequences {
            channel(&mut bytes, claim.channel);
            bytes.extend(claim.sender.0.uuid().as_bytes());
            bytes.extend(claim.sequence.to_be_bytes());
        }
        bytes
    }
}

fn on(topic: i64) -> Channel {
    TopicId(Id { msb: topic, lsb: 0 }).partition(0)
}

fn from(sender: i64) -> SenderId {
    SenderId(Id {
        msb: sender,
        lsb: 0,
    })
}

fn refused(bytes: &[u8]) -> CorruptClock {
    match decode(bytes) {
        Ok(decoded) => panic!("decoded {}: {decoded:?}", hex::encode(bytes)),
        Err(why) => why,
    }
}

fn in_order(bytes: &[u8]) -> ClockRef<'_> {
    match decode(bytes) {
        Ok(Decoded::InOrder(clock)) => clock,
        other => panic!("not in order: {other:?}"),
    }
}

fn resorted(bytes: &[u8]) -> Clock {
    match decode(bytes) {
        Ok(Decoded::Resorted(clock)) => clock,
        other => panic!("not resorted: {other:?}"),
    }
}

#[test]
fn golden_clocks_encode_to_their_bytes_and_decode_to_their_claims() {
    let mut resorted_seen = 0;
    for entry in golden::list("clocks") {
        let (listing, golden) = (Listing::of(&entry), golden::hex(&entry));
        let clock = listing.clock();
        assert_eq!(hex::encode(encode(&clock)), hex::encode(&golden), "{entry}");
        assert_eq!(
            golden.len(),
            encoded_len(listing.offsets.len(), listing.sequences.len())
        );
        let decoded = in_order(&golden);
        assert_eq!(decoded.to_clock(), clock, "{entry}");
        assert_eq!(decoded.width(), clock.width(), "{entry}");
        assert_eq!(
            decode(&golden).map(Decoded::into_clock),
            Ok(clock.clone()),
            "{entry}"
        );
        assert_eq!(ClockRef::of_checked(&golden), Some(decoded), "{entry}");
        // The file lists the entries out of order.
        let foreign = listing.bytes();
        if foreign != golden {
            assert_eq!(resorted(&foreign), clock, "{entry}");
            resorted_seen += 1;
        }
    }
    assert!(resorted_seen >= 1, "the file lists no clock out of order");
    assert_eq!(encode(&Clock::new()), EMPTY_CLOCK);
}

#[test]
fn golden_malformed_clocks_are_refused_each_for_its_reason() {
    let topic = golden::topic("00112233-4455-6677-8899-aabbccddeeff");
    let negative = |field, found| CorruptClock::Negative { field, found };
    let expected = [
        ("empty value", CorruptClock::Empty),
        (
            "unknown version 0",
            CorruptClock::UnknownVersion { found: 0 },
        ),
        (
            "unknown version 2",
            CorruptClock::UnknownVersion { found: 2 },
        ),
        (
            "truncated after the first count",
            CorruptClock::Truncated {
                section: "sequence",
                length: 5,
                needed: 9,
            },
        ),
        ("trailing byte", CorruptClock::TrailingBytes { extra: 1 }),
        ("negative offset count", negative("entry count", -1)),
        ("negative sequence count", negative("entry count", -1)),
        ("negative partition", negative("partition", -1)),
        ("negative offset", negative("offset", -1)),
        ("negative sequence", negative("sequence", -1)),
        (
            "count larger than the bytes",
            CorruptClock::Truncated {
                section: "offset",
                length: 5,
                needed: 5 + 28 * 0x7fff_ffff,
            },
        ),
        (
            "channel twice",
            CorruptClock::Repeated {
                section: "offset",
                channel: topic.partition(0),
            },
        ),
    ];
    let malformed = golden::list("malformed");
    assert_eq!(malformed.len(), expected.len());
    for (entry, (why, error)) in malformed.iter().zip(expected) {
        assert_eq!(golden::text(entry, "why"), why);
        assert_eq!(refused(&golden::hex(entry)), error, "{why}");
    }
}

/// B21: a decoder that trusts its bytes.
mod b21 {
    use super::*;

    /// What is missing from a clock of this shape when only `length` bytes of it are there.
    fn missing(offsets: usize, sequences: usize, length: usize) -> CorruptClock {
        let needs = [
            ("offset", 5),
            ("offset", 5 + 28 * offsets),
            ("sequence", 9 + 28 * offsets),
            ("sequence", 9 + 28 * offsets + 44 * sequences),
        ];
        if length == 0 {
            return CorruptClock::Empty;
        }
        let (section, needed) = needs
            .into_iter()
            .find(|&(_, needed)| length < needed)
            .expect("a strict prefix");
        CorruptClock::Truncated {
            section,
            length,
            needed,
        }
    }

    #[test]
    fn every_strict_prefix_of_every_valid_encoding_is_refused() {
        for entry in golden::list("clocks") {
            let (listing, bytes) = (Listing::of(&entry), golden::hex(&entry));
            for length in 0..bytes.len() {
                let expected = missing(listing.offsets.len(), listing.sequences.len(), length);
                assert_eq!(refused(&bytes[..length]), expected, "{length} of {entry}");
                assert_eq!(ClockRef::of_checked(&bytes[..length]), None);
            }
        }
    }

    #[test]
    fn counts_that_the_bytes_do_not_back_are_refused() {
        let maximum = i32::MAX as usize;
        let truncated = |section, length, needed| CorruptClock::Truncated {
            section,
            length,
            needed,
        };
        let cases = [
            ("017fffffff", truncated("offset", 5, 5 + 28 * maximum)),
            (
                "017fffffff00000000",
                truncated("offset", 9, 5 + 28 * maximum),
            ),
            (
                "01000000007fffffff",
                truncated("sequence", 9, 9 + 44 * maximum),
            ),
            ("010000000100000000", truncated("offset", 9, 5 + 28)),
            ("010000000000000001", truncated("sequence", 9, 9 + 44)),
            (
                "0180000000",
                CorruptClock::Negative {
                    field: "entry count",
                    found: i32::MIN.into(),
                },
            ),
        ];
        for (bytes, expected) in cases {
            let bytes = hex::decode(bytes).expect("hex digits");
            assert_eq!(refused(&bytes), expected);
            assert_eq!(ClockRef::of_checked(&bytes), None);
        }
        // One entry more announced than there is.
        let mut bytes = Listing::offsets(&[(on(1), 1), (on(2), 2)]).bytes();
        bytes[4] = 3;
        assert_eq!(refused(&bytes), truncated("offset", 9 + 2 * 28, 5 + 3 * 28));
        let mut bytes = Listing::sequences(&[(on(1), from(1), 1)]).bytes();
        bytes[8] = 2;
        assert_eq!(refused(&bytes), truncated("sequence", 9 + 44, 9 + 2 * 44));
    }

    #[test]
    fn bytes_after_the_last_entry_are_refused() {
        for entry in golden::list("clocks") {
            let mut bytes = golden::hex(&entry);
            for extra in 1..4 {
                bytes.push(0);
                assert_eq!(refused(&bytes), CorruptClock::TrailingBytes { extra });
                assert_eq!(ClockRef::of_checked(&bytes), None);
            }
        }
    }

    #[test]
    fn every_negative_number_is_refused_and_no_half_of_an_identity_is() {
        let listing = Listing {
            offsets: Listing::offsets(&[(on(1), 1), (on(2), 2)]).offsets,
            sequences: Listing::sequences(&[(on(1), from(1), 3), (on(1), from(2), 4)]).sequences,
        };
        let valid = listing.bytes();
        let sections = 9 + 2 * 28;
        // Where each number starts, its width, and its name; no name for identities.
        let mut fields = vec![
            (1, 4, Some("entry count")),
            (sections - 4, 4, Some("entry count")),
        ];
        for entry in [5, 5 + 28] {
            fields.extend([
                (entry, 8, None),
                (entry + 8, 8, None),
                (entry + 16, 4, Some("partition")),
                (entry + 20, 8, Some("offset")),
            ]);
        }
        for entry in [sections, sections + 44] {
            fields.extend([
                (entry, 8, None),
                (entry + 8, 8, None),
                (entry + 16, 4, Some("partition")),
                (entry + 20, 8, None),
                (entry + 28, 8, None),
                (entry + 36, 8, Some("sequence")),
            ]);
        }
        assert_eq!(fields.len(), 2 + 2 * 4 + 2 * 6);
        for (at, width, name) in fields {
            for lowest in [false, true] {
                let mut bytes = valid.clone();
                bytes[at..at + width].fill(if lowest { 0 } else { 0xff });
                bytes[at] |= 0x80;
                let found = match (width, lowest) {
                    (_, false) => -1,
                    (4, true) => i32::MIN.into(),
                    (_, true) => i64::MIN,
                };
                match name {
                    Some(field) => {
                        let expected = CorruptClock::Negative { field, found };
                        assert_eq!(refused(&bytes), expected, "{field} at {at}");
                    }
                    None => {
                        let decoded = decode(&bytes).map(Decoded::into_clock);
                        assert_eq!(decoded.map(|clock| clock.width()), Ok(4), "at {at}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_key_listed_twice_is_refused_also_where_others_stand_between() {
        let repeated = |section, channel| CorruptClock::Repeated { section, channel };
        let (a, b, c) = (on(1), on(2), on(3));
        let cases: &[(&[Channel], Channel)] = &[
            (&[a, a], a),
            (&[a, b, b], b),
            (&[b, a, a], a),
            (&[a, b, a], a),
            (&[b, a, b], b),
            (&[c, a, b, c], c),
            (&[c, b, a, b], b),
            // The lowest of several.
            (&[c, b, c, b], b),
            (&[a, b, c, b, c], b),
        ];
        for &(channels, expected) in cases {
            for equal in [true, false] {
                let value = |at: usize| if equal { 7 } else { at as i64 };
                let listed: Vec<_> = channels.iter().copied().enumerate().collect();
                let offsets: Vec<_> = listed.iter().map(|&(at, on)| (on, value(at))).collect();
                assert_eq!(
                    refused(&Listing::offsets(&offsets).bytes()),
                    repeated("offset", expected),
                    "{channels:?}"
                );
                let sequences: Vec<_> = listed
                    .iter()
                    .map(|&(at, on)| (on, from(5), value(at)))
                    .collect();
                assert_eq!(
                    refused(&Listing::sequences(&sequences).bytes()),
                    repeated("sequence", expected),
                    "{channels:?}"
                );
            }
        }
        // One channel, two senders: no repetition until one of them comes again.
        let two = Listing::sequences(&[(a, from(2), 1), (a, from(1), 1)]);
        assert_eq!(resorted(&two.bytes()), two.clock());
        let again = Listing::sequences(&[(a, from(2), 1), (a, from(1), 1), (a, from(2), 0)]);
        assert_eq!(refused(&again.bytes()), repeated("sequence", a));
        // One sender on two channels.
        let two = Listing::sequences(&[(b, from(2), 1), (a, from(2), 1)]);
        assert_eq!(resorted(&two.bytes()), two.clock());
        // Repetitions in both sections: the first section's is reported.
        let both = Listing {
            offsets: Listing::offsets(&[(c, 0), (b, 0), (c, 0)]).offsets,
            sequences: Listing::sequences(&[(b, from(1), 0), (a, from(1), 0), (b, from(1), 0)])
                .sequences,
        };
        assert_eq!(refused(&both.bytes()), repeated("offset", c));
    }
}

#[test]
fn entries_in_any_other_order_are_sorted_and_in_order_are_borrowed() {
    let (a, b) = (on(-1), on(1));
    let sorted = Listing {
        offsets: Listing::offsets(&[(a, 1), (b, 2)]).offsets,
        sequences: Listing::sequences(&[(a, from(1), 3), (a, from(2), 4), (b, from(1), 5)])
            .sequences,
    };
    let bytes = sorted.bytes();
    assert_eq!(in_order(&bytes).to_clock(), sorted.clock());
    assert_eq!(encode(&sorted.clock()), bytes);
    for swap in [(true, None), (false, Some((0, 1))), (false, Some((1, 2)))] {
        let mut listing = sorted.clone();
        if swap.0 {
            listing.offsets.swap(0, 1);
        }
        if let Some((one, other)) = swap.1 {
            listing.sequences.swap(one, other);
        }
        let clock = resorted(&listing.bytes());
        assert_eq!(clock, sorted.clock(), "{swap:?}");
        assert_eq!(encode(&clock), bytes, "{swap:?}");
        assert_eq!(
            decode(&listing.bytes()).map(Decoded::into_clock),
            Ok(sorted.clock())
        );
    }
}

#[test]
fn lengths_are_those_of_the_layout() {
    assert_eq!(encoded_len(0, 0), 9);
    assert_eq!(encoded_len(1, 0), 37);
    assert_eq!(encoded_len(0, 1), 53);
    assert_eq!(encoded_len(3, 2), 9 + 84 + 88);
    let mut bytes = vec![0xaa];
    encode_into(&Listing::offsets(&[(on(1), 1)]).clock(), &mut bytes);
    assert_eq!(bytes[0], 0xaa);
    assert_eq!(bytes[1..], Listing::offsets(&[(on(1), 1)]).bytes());
}

#[test]
fn a_checked_clock_is_borrowed_again_entry_for_entry() {
    let listing = Listing {
        offsets: Listing::offsets(&[(on(1), 0), (on(2), i64::MAX)]).offsets,
        sequences: Listing::sequences(&[(on(1), from(9), 8)]).sequences,
    };
    let bytes = listing.bytes();
    let clock = ClockRef::of_checked(&bytes).expect("a clock");
    assert_eq!(clock.width(), 3);
    assert_eq!(clock.offset_section().len(), 2);
    assert_eq!(clock.offset_section().get(0), listing.offsets[0]);
    assert_eq!(clock.offset_section().get(1), listing.offsets[1]);
    assert_eq!(clock.sequence_section().len(), 1);
    assert_eq!(clock.sequence_section().get(0), listing.sequences[0]);
    assert_eq!(
        ClockRef::of_checked(&hex::decode("01ffffffff00000000").expect("hex")),
        None
    );
    assert_eq!(ClockRef::of_checked(&[]), None);
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn what_is_encoded_decodes_to_itself(clock in any::clock()) {
        let bytes = encode(&clock);
        prop_assert_eq!(bytes.len(), encoded_len(clock.offsets().len(), clock.sequences().len()));
        let decoded = in_order(&bytes);
        prop_assert_eq!(decoded.to_clock(), clock);
        prop_assert_eq!(ClockRef::of_checked(&bytes), Some(decoded));
    }

    #[test]
    fn equal_clocks_are_equal_bytes_however_they_were_listed(
        offsets in prop::collection::vec(any::offset_claim(), 0..12),
        sequences in prop::collection::vec(any::sequence_claim(), 0..12),
        turn in 0..12_usize,
    ) {
        let clock = Clock::from_claims(offsets, sequences);
        let mut listing =
            Listing { offsets: clock.offsets().to_vec(), sequences: clock.sequences().to_vec() };
        if !listing.offsets.is_empty() {
            let by = turn % listing.offsets.len();
            listing.offsets.rotate_left(by);
        }
        listing.sequences.reverse();
        let decoded = decode(&listing.bytes()).map(Decoded::into_clock);
        prop_assert_eq!(decoded.map(|clock| encode(&clock)), Ok(encode(&clock)));
    }

    #[test]
    fn every_strict_prefix_of_a_random_encoding_is_refused(clock in any::clock()) {
        let bytes = encode(&clock);
        for length in 0..bytes.len() {
            prop_assert!(decode(&bytes[..length]).is_err());
        }
    }

    #[test]
    fn arbitrary_bytes_are_a_clock_or_an_error(
        bytes in prop::collection::vec(prop_oneof![3 => Just(0), 1 => any::<u8>()], 0..200),
    ) {
        survives(&bytes)?;
    }

    #[test]
    fn a_damaged_clock_is_a_clock_or_an_error(
        clock in any::clock(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = encode(&clock);
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        survives(&bytes)?;
    }
}

/// Whatever decodes is the same clock when written and read again, and is borrowed only if it is written the very same way.
fn survives(bytes: &[u8]) -> Result<(), TestCaseError> {
    match decode(bytes) {
        Err(_) => {}
        Ok(Decoded::InOrder(clock)) => {
            prop_assert_eq!(encode(&clock.to_clock()), bytes);
            prop_assert_eq!(ClockRef::of_checked(bytes), Some(clock));
        }
        Ok(Decoded::Resorted(clock)) => {
            let canonical = encode(&clock);
            prop_assert_ne!(&canonical[..], bytes);
            prop_assert_eq!(canonical.len(), bytes.len());
            prop_assert_eq!(in_order(&canonical).to_clock(), clock);
        }
    }
    Ok(())
}

mod headers {
    use super::*;

    const SENDER: &[u8; 16] = &[
        0x8b, 0xa7, 0xb8, 0x10, 0x9d, 0xad, 0x11, 0xd1, 0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30,
        0xc8,
    ];

    fn sender() -> SenderId {
        golden::sender("8ba7b810-9dad-11d1-80b4-00c04fd430c8")
    }

    fn clock() -> Header {
        Header::new("vc", &EMPTY_CLOCK[..])
    }

    fn vc_sender(value: &'static [u8]) -> Header {
        Header::new("vc-sender", value)
    }

    fn vc_seq(sequence: i64) -> Header {
        Header::new("vc-seq", sequence.to_be_bytes().to_vec())
    }

    /// What is read, after a look at what it leaves when it is taken.
    fn read(headers: &[Header]) -> Result<ProtocolHeaders, CorruptHeaders> {
        let read = ProtocolHeaders::read(headers);
        let mut left = headers.to_vec();
        assert_eq!(ProtocolHeaders::take(&mut left), read);
        let stays = |header: &&Header| read.is_err() || !is_reserved(&header.name);
        assert_eq!(
            left,
            headers.iter().filter(stays).cloned().collect::<Vec<_>>()
        );
        read
    }

    #[test]
    fn what_is_there_is_read_and_what_is_absent_says_nothing() {
        let empty_clock = Bytes::from_static(&EMPTY_CLOCK);
        let says = |clock: Option<Bytes>, sequence: Option<i64>| {
            Ok(ProtocolHeaders {
                clock,
                sender: sequence.map(|sequence| (sender(), sequence)),
            })
        };
        assert_eq!(read(&[]), says(None, None));
        assert_eq!(read(&[Header::new("trace", "1")]), says(None, None));
        assert_eq!(read(&[clock()]), says(Some(empty_clock.clone()), None));
        for sequence in [0, 1, i64::MAX] {
            let tagged = [vc_seq(sequence), vc_sender(SENDER)];
            assert_eq!(read(&tagged), says(None, Some(sequence)));
            let all = [
                Header::null("a"),
                vc_sender(SENDER),
                clock(),
                Header::null("a"),
                vc_seq(sequence),
            ];
            assert_eq!(read(&all), says(Some(empty_clock.clone()), Some(sequence)));
        }
        // The clock's bytes are somebody else's to look into, also when there are none.
        assert_eq!(
            read(&[Header::new("vc", "")]),
            says(Some(Bytes::new()), None)
        );
        // Names that only look alike.
        let alike = ["VC", "vc ", "vcs", "vc-senders", "vc-Seq", "v"];
        assert_eq!(read(&alike.map(Header::null)), says(None, None));
    }

    #[test]
    fn every_fault_of_the_sender_headers_is_told() {
        let length = |found| CorruptHeaders::SenderLength { found };
        let sequence_length = |found| CorruptHeaders::SequenceLength { found };
        let seven = Header::new("vc-seq", vec![0; 7]);
        let nine = Header::new("vc-seq", vec![0; 9]);
        let seventeen = Header::new("vc-sender", vec![0; 17]);
        let cases = [
            (vec![vc_sender(&SENDER[..15]), vc_seq(1)], length(15)),
            (vec![seventeen, vc_seq(1)], length(17)),
            (vec![vc_sender(b""), vc_seq(1)], length(0)),
            (vec![Header::null("vc-sender"), vc_seq(1)], length(0)),
            (vec![vc_sender(SENDER), seven], sequence_length(7)),
            (vec![vc_sender(SENDER), nine], sequence_length(9)),
            (
                vec![vc_sender(SENDER), Header::new("vc-seq", "")],
                sequence_length(0),
            ),
            (
                vec![vc_sender(SENDER), Header::null("vc-seq")],
                sequence_length(0),
            ),
            (
                vec![vc_sender(SENDER), vc_seq(-1)],
                CorruptHeaders::NegativeSequence { found: -1 },
            ),
            (
                vec![vc_sender(SENDER), vc_seq(i64::MIN)],
                CorruptHeaders::NegativeSequence { found: i64::MIN },
            ),
            (
                vec![vc_sender(SENDER)],
                CorruptHeaders::Unpaired {
                    present: "vc-sender",
                    absent: "vc-seq",
                },
            ),
            (
                vec![vc_seq(1)],
                CorruptHeaders::Unpaired {
                    present: "vc-seq",
                    absent: "vc-sender",
                },
            ),
        ];
        for (headers, expected) in cases {
            assert_eq!(read(&headers), Err(expected.clone()), "{headers:?}");
            // A clock beside them, even one that is null, changes nothing.
            for clock in [clock(), Header::null("vc")] {
                let with_clock = [vec![clock], headers.clone()].concat();
                assert_eq!(read(&with_clock), Err(expected.clone()), "{headers:?}");
            }
        }
    }

    #[test]
    fn a_protocol_header_given_more_than_once_is_told_with_its_count() {
        let all = [clock(), vc_sender(SENDER), vc_seq(1)];
        let names = ["vc", "vc-sender", "vc-seq"];
        for (at, name) in names.into_iter().enumerate() {
            for count in [2, 3] {
                let mut headers = all.to_vec();
                for _ in 1..count {
                    headers.push(all[at].clone());
                }
                assert_eq!(read(&headers), Err(CorruptHeaders::Doubled { name, count }));
                // Null values count as much.
                headers.truncate(3);
                for _ in 1..count {
                    headers.insert(0, Header::null(name));
                }
                assert_eq!(read(&headers), Err(CorruptHeaders::Doubled { name, count }));
            }
        }
    }

    #[test]
    fn a_clock_header_without_a_value_is_a_corrupt_clock() {
        assert_eq!(
            read(&[Header::null("vc")]),
            Err(CorruptHeaders::Clock(CorruptClock::Null))
        );
        let tagged = [vc_sender(SENDER), Header::null("vc"), vc_seq(1)];
        assert_eq!(
            read(&tagged),
            Err(CorruptHeaders::Clock(CorruptClock::Null))
        );
    }

    #[test]
    fn a_stamp_has_the_three_headers_in_their_order_and_reads_back() {
        let written = stamp_headers(Bytes::from_static(b"clock"), sender(), 0x0102);
        assert_eq!(
            written,
            [
                Header::new("vc", "clock"),
                Header::new("vc-sender", &SENDER[..]),
                Header::new("vc-seq", &[0, 0, 0, 0, 0, 0, 1, 2][..]),
            ]
        );
        assert_eq!(
            read(&written),
            Ok(ProtocolHeaders {
                clock: Some(Bytes::from_static(b"clock")),
                sender: Some((sender(), 0x0102)),
            })
        );
    }

    #[test]
    fn the_reserved_names_are_vc_and_all_that_begin_with_vc_and_a_dash() {
        for name in ["vc", "vc-", "vc-sender", "vc-seq", "vc-anything", "vc--"] {
            assert!(is_reserved(name.as_bytes()), "{name}");
        }
        for name in ["", "v", "vcs", "vc_", "VC", "Vc-", " vc", "a-vc-", "-vc"] {
            assert!(!is_reserved(name.as_bytes()), "{name}");
        }
        assert!(!is_reserved(b"\xffvc"));
        assert!(is_reserved(b"vc-\xff"));
    }

    proptest! {
        #![proptest_config(cases(300))]

        #[test]
        fn any_headers_read_or_are_refused(
            named in prop::collection::vec(
                (
                    prop::sample::select(vec!["vc", "vc-sender", "vc-seq", "vc-other", "trace"]),
                    prop::option::of(prop_oneof![
                        prop::collection::vec(any::<u8>(), 8),
                        prop::collection::vec(any::<u8>(), 16),
                        prop::collection::vec(any::<u8>(), 0..20),
                    ]),
                ),
                0..5,
            ),
        ) {
            let headers: Vec<Header> = named
                .iter()
                .map(|(name, value)| Header {
                    name: Bytes::from_static(name.as_bytes()),
                    value: value.clone().map(Bytes::from),
                })
                .collect();
            let count = |wanted: &str| named.iter().filter(|(name, _)| *name == wanted).count();
            if let Ok(read) = read(&headers) {
                prop_assert_eq!(usize::from(read.clock.is_some()), count("vc"));
                prop_assert_eq!(usize::from(read.sender.is_some()), count("vc-sender"));
                prop_assert_eq!(count("vc-sender"), count("vc-seq"));
                prop_assert!(read.sender.is_none_or(|(_, sequence)| sequence >= 0));
            }
        }
    }
}
