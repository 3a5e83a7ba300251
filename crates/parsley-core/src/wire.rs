//! Bytes of the clock and of the three protocol headers (`docs/protocol.md`, Wire format).
//!
//! [`decode`] reads a clock where it lies: it checks every byte once and allocates nothing, so what a clock claims to hold is never a
//! reason to reserve memory. Only a clock whose entries are out of order is copied, to sort it (decision S5).

use bytes::Bytes;

use crate::channel::{Channel, Id, Offset, SenderId, TopicId};
use crate::clock::{Claims, Clock, Entry, OffsetClaim, Section, SequenceClaim};
use crate::record::Header;

/// Header that carries the dependency clock. Absent means that the producer claims nothing.
pub const CLOCK_HEADER: &str = "vc";
/// Header that carries the sending node's identity: 16 bytes.
pub const SENDER_HEADER: &str = "vc-sender";
/// Header that carries the record's send sequence on its channel: 8 bytes. Present exactly when [`SENDER_HEADER`] is.
pub const SEQUENCE_HEADER: &str = "vc-seq";

/// The one clock version that exists.
pub const CLOCK_VERSION: u8 = 1;
/// The clock that claims nothing, encoded.
pub const EMPTY_CLOCK: [u8; 9] = [CLOCK_VERSION, 0, 0, 0, 0, 0, 0, 0, 0];

const COUNT_BYTES: usize = 4;
const OFFSET_ENTRY_BYTES: usize = 8 + 8 + 4 + 8;
const SEQUENCE_ENTRY_BYTES: usize = 8 + 8 + 4 + 8 + 8 + 8;

/// Why bytes are not a clock. Guard G1 (`vc-corrupt-clock`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CorruptClock {
    /// The header or value is there and holds nothing.
    #[error("the clock is empty where a version byte is expected")]
    Empty,
    /// The header is there and its value is null.
    #[error("the clock header has a null value")]
    Null,
    /// The first byte is not a known version.
    #[error("unknown clock version {found}, expected {CLOCK_VERSION}")]
    UnknownVersion {
        /// The version byte.
        found: u8,
    },
    /// The bytes end before what they announce.
    #[error("the clock ends at byte {length} where its {section} section needs {needed} bytes")]
    Truncated {
        /// Which section is cut.
        section: &'static str,
        /// How many bytes there are.
        length: usize,
        /// How many there would have to be; saturates.
        needed: usize,
    },
    /// Bytes remain after the last entry.
    #[error("{extra} bytes follow the clock's last entry")]
    TrailingBytes {
        /// How many.
        extra: usize,
    },
    /// A count, partition, offset or sequence is negative.
    #[error("negative {field} {found} in the clock")]
    Negative {
        /// Which field.
        field: &'static str,
        /// Its value.
        found: i64,
    },
    /// A channel (or a channel and sender) stands twice in a section.
    #[error("{channel} is listed twice in the clock's {section} section")]
    Repeated {
        /// Which section.
        section: &'static str,
        /// The channel.
        channel: Channel,
    },
}

/// A clock read from bytes.
#[derive(Clone, Debug)]
pub enum Decoded<'a> {
    /// The entries stand in order; they are read from the bytes.
    InOrder(ClockRef<'a>),
    /// The entries stood in another order and were copied and sorted.
    Resorted(Clock),
}

impl Decoded<'_> {
    /// The clock as an owned value.
    pub fn into_clock(self) -> Clock {
        match self {
            Self::InOrder(clock) => clock.to_clock(),
            Self::Resorted(clock) => clock,
        }
    }
}

/// A checked clock, its entries in order, still in its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockRef<'a> {
    offsets: OffsetBytes<'a>,
    sequences: SequenceBytes<'a>,
}

/// The entries of an offset section, in their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OffsetBytes<'a>(&'a [[u8; OFFSET_ENTRY_BYTES]]);

/// The entries of a sequence section, in their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SequenceBytes<'a>(&'a [[u8; SEQUENCE_ENTRY_BYTES]]);

impl Section<OffsetClaim> for OffsetBytes<'_> {
    #[inline]
    fn len(&self) -> usize {
        self.0.len()
    }
    #[inline]
    fn get(&self, index: usize) -> OffsetClaim {
        let entry = &self.0[index];
        OffsetClaim {
            channel: read_channel(entry),
            offset: read_i64(entry, 20),
        }
    }
}

impl Section<SequenceClaim> for SequenceBytes<'_> {
    #[inline]
    fn len(&self) -> usize {
        self.0.len()
    }
    #[inline]
    fn get(&self, index: usize) -> SequenceClaim {
        let entry = &self.0[index];
        SequenceClaim {
            channel: read_channel(entry),
            sender: SenderId(Id {
                msb: read_i64(entry, 20),
                lsb: read_i64(entry, 28),
            }),
            sequence: read_i64(entry, 36),
        }
    }
}

impl Claims for ClockRef<'_> {
    #[inline]
    fn offset_section(&self) -> impl Section<OffsetClaim> {
        self.offsets
    }
    #[inline]
    fn sequence_section(&self) -> impl Section<SequenceClaim> {
        self.sequences
    }
}

impl<'a> ClockRef<'a> {
    /// Borrows bytes that [`decode`] found in order before, without checking them again: `None` if they do not even have the shape of a
    /// clock, which such bytes always have.
    pub(crate) fn of_checked(bytes: &'a [u8]) -> Option<Self> {
        let rest = bytes.get(1..)?;
        let (offsets, rest) = split_section::<OFFSET_ENTRY_BYTES>(rest)?;
        let (sequences, rest) = split_section::<SEQUENCE_ENTRY_BYTES>(rest)?;
        rest.is_empty().then_some(Self {
            offsets: OffsetBytes(offsets),
            sequences: SequenceBytes(sequences),
        })
    }

    /// How many claims it has, of both kinds.
    pub fn width(&self) -> usize {
        self.offsets.0.len() + self.sequences.0.len()
    }

    /// The clock as an owned value.
    pub fn to_clock(&self) -> Clock {
        let mut clock = Clock::new();
        clock.merge(self);
        clock
    }
}

fn split_section<const N: usize>(bytes: &[u8]) -> Option<(&[[u8; N]], &[u8])> {
    let (count, rest) = bytes.split_first_chunk::<COUNT_BYTES>()?;
    let length = usize::try_from(i32::from_be_bytes(*count))
        .ok()?
        .checked_mul(N)?;
    let (section, rest) = rest.split_at_checked(length)?;
    Some((section.as_chunks::<N>().0, rest))
}

/// Reads a clock, checking everything: version, counts, lengths, signs, repetitions. Allocates only to sort entries out of order.
///
/// # Errors
///
/// [`CorruptClock`] with the first fault found.
pub fn decode(bytes: &[u8]) -> Result<Decoded<'_>, CorruptClock> {
    let (&version, rest) = bytes.split_first().ok_or(CorruptClock::Empty)?;
    if version != CLOCK_VERSION {
        return Err(CorruptClock::UnknownVersion { found: version });
    }
    let (offsets, rest) = read_section::<OFFSET_ENTRY_BYTES>("offset", bytes.len(), rest)?;
    let (sequences, rest) = read_section::<SEQUENCE_ENTRY_BYTES>("sequence", bytes.len(), rest)?;
    if !rest.is_empty() {
        return Err(CorruptClock::TrailingBytes { extra: rest.len() });
    }
    let clock = ClockRef {
        offsets: OffsetBytes(offsets),
        sequences: SequenceBytes(sequences),
    };
    if is_clean(&clock.offsets) && is_clean(&clock.sequences) {
        return Ok(Decoded::InOrder(clock));
    }
    check_entries("offset", &clock.offsets)?;
    check_entries("sequence", &clock.sequences)?;
    resort(&clock).map(Decoded::Resorted)
}

/// Whether no entry has a negative number and each key is larger than the one before it: one pass without branches, since that is how
/// clocks come.
fn is_clean<E: Entry>(section: &impl Section<E>) -> bool {
    let Some(mut last) = (!section.is_empty()).then(|| section.get(0)) else {
        return true;
    };
    let mut signs = last.signs();
    let mut in_order = true;
    for i in 1..section.len() {
        let entry = section.get(i);
        signs |= entry.signs();
        in_order &= last.key_is_below(&entry);
        last = entry;
    }
    in_order & (signs >= 0)
}

/// Names the first entry with a negative number or the key of the entry before it. Entries may stand in any order.
fn check_entries<E: Entry>(
    section: &'static str,
    entries: &impl Section<E>,
) -> Result<(), CorruptClock> {
    let mut last: Option<E> = None;
    for i in 0..entries.len() {
        let entry = entries.get(i);
        check_sign("partition", entry.channel().partition.into())?;
        check_sign(section, entry.watermark())?;
        if last.is_some_and(|last| last.key() == entry.key()) {
            return Err(CorruptClock::Repeated {
                section,
                channel: entry.channel(),
            });
        }
        last = Some(entry);
    }
    Ok(())
}

fn read_section<'a, const N: usize>(
    section: &'static str,
    length: usize,
    bytes: &'a [u8],
) -> Result<(&'a [[u8; N]], &'a [u8]), CorruptClock> {
    let before = length - bytes.len();
    let cut = |needed| CorruptClock::Truncated {
        section,
        length,
        needed,
    };
    let (count, rest) = bytes
        .split_first_chunk::<COUNT_BYTES>()
        .ok_or_else(|| cut(before + COUNT_BYTES))?;
    let count = i32::from_be_bytes(*count);
    check_sign("entry count", count.into())?;
    let needed = usize::try_from(count)
        .unwrap_or(usize::MAX)
        .saturating_mul(N);
    let (entries, rest) = rest
        .split_at_checked(needed)
        .ok_or_else(|| cut(needed.saturating_add(before + COUNT_BYTES)))?;
    Ok((entries.as_chunks::<N>().0, rest))
}

fn check_sign(field: &'static str, found: i64) -> Result<(), CorruptClock> {
    if found < 0 {
        Err(CorruptClock::Negative { field, found })
    } else {
        Ok(())
    }
}

fn resort(clock: &ClockRef<'_>) -> Result<Clock, CorruptClock> {
    let offsets: Vec<OffsetClaim> = (0..clock.offsets.len())
        .map(|i| clock.offsets.get(i))
        .collect();
    let sequences: Vec<SequenceClaim> = (0..clock.sequences.len())
        .map(|i| clock.sequences.get(i))
        .collect();
    let sorted = Clock::from_claims(offsets, sequences);
    if sorted.width() == clock.width() {
        return Ok(sorted);
    }
    let mut channels: Vec<Channel> = (0..clock.offsets.len())
        .map(|i| clock.offsets.get(i).channel)
        .collect();
    channels.sort_unstable();
    let repeated = channels
        .windows(2)
        .find(|pair| pair[0] == pair[1])
        .map(|pair| pair[0]);
    if let Some(channel) = repeated {
        return Err(CorruptClock::Repeated {
            section: "offset",
            channel,
        });
    }
    let mut keys: Vec<_> = (0..clock.sequences.len())
        .map(|i| clock.sequences.get(i))
        .map(|c| (c.channel, c.sender))
        .collect();
    keys.sort_unstable();
    let repeated = keys
        .windows(2)
        .find(|pair| pair[0] == pair[1])
        .map(|pair| pair[0].0);
    match repeated {
        Some(channel) => Err(CorruptClock::Repeated {
            section: "sequence",
            channel,
        }),
        None => Ok(sorted),
    }
}

#[inline]
fn read_i64(entry: &[u8], at: usize) -> i64 {
    let mut value = [0; 8];
    value.copy_from_slice(&entry[at..at + 8]);
    i64::from_be_bytes(value)
}

#[inline]
fn read_channel(entry: &[u8]) -> Channel {
    let mut partition = [0; 4];
    partition.copy_from_slice(&entry[16..20]);
    Channel {
        topic: TopicId(Id {
            msb: read_i64(entry, 0),
            lsb: read_i64(entry, 8),
        }),
        partition: i32::from_be_bytes(partition),
    }
}

/// How many bytes a clock with these numbers of claims takes.
pub const fn encoded_len(offsets: usize, sequences: usize) -> usize {
    EMPTY_CLOCK.len() + offsets * OFFSET_ENTRY_BYTES + sequences * SEQUENCE_ENTRY_BYTES
}

/// Writes a clock. Equal clocks give equal bytes.
pub fn encode(clock: &Clock) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(encoded_len(clock.offsets().len(), clock.sequences().len()));
    encode_into(clock, &mut bytes);
    bytes
}

/// Appends a clock's bytes to a buffer.
pub fn encode_into(clock: &Clock, bytes: &mut Vec<u8>) {
    bytes.push(CLOCK_VERSION);
    write_count(bytes, clock.offsets().len());
    for claim in clock.offsets() {
        let mut entry = [0; OFFSET_ENTRY_BYTES];
        write_channel(&mut entry, claim.channel);
        entry[20..].copy_from_slice(&claim.offset.to_be_bytes());
        bytes.extend_from_slice(&entry);
    }
    write_count(bytes, clock.sequences().len());
    for claim in clock.sequences() {
        let mut entry = [0; SEQUENCE_ENTRY_BYTES];
        write_channel(&mut entry, claim.channel);
        entry[20..28].copy_from_slice(&claim.sender.0.msb.to_be_bytes());
        entry[28..36].copy_from_slice(&claim.sender.0.lsb.to_be_bytes());
        entry[36..].copy_from_slice(&claim.sequence.to_be_bytes());
        bytes.extend_from_slice(&entry);
    }
}

/// Overwrites the offset of the claim at this place of an encoded clock's offset section.
pub(crate) fn set_offset(bytes: &mut [u8], place: usize, offset: Offset) {
    let entry = 1 + COUNT_BYTES + place * OFFSET_ENTRY_BYTES;
    bytes[entry + 20..entry + OFFSET_ENTRY_BYTES].copy_from_slice(&offset.to_be_bytes());
}

fn write_channel(entry: &mut [u8], channel: Channel) {
    entry[..8].copy_from_slice(&channel.topic.0.msb.to_be_bytes());
    entry[8..16].copy_from_slice(&channel.topic.0.lsb.to_be_bytes());
    entry[16..20].copy_from_slice(&channel.partition.to_be_bytes());
}

/// A count as the wire has it. A clock of 2^31 entries would take 56 GiB, and the metadata budget (G13) ends long before.
fn write_count(bytes: &mut Vec<u8>, count: usize) {
    bytes.extend_from_slice(&i32::try_from(count).unwrap_or(i32::MAX).to_be_bytes());
}

/// Whether a header name belongs to the protocol: `vc`, or anything that starts with `vc-`.
pub fn is_reserved(name: &[u8]) -> bool {
    name == CLOCK_HEADER.as_bytes() || name.starts_with(b"vc-")
}

/// Why a record's protocol headers cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CorruptHeaders {
    /// The clock header (G1).
    #[error(transparent)]
    Clock(#[from] CorruptClock),
    /// A protocol header stands more than once (G2).
    #[error("the header {name} is given {count} times")]
    Doubled {
        /// The header's name.
        name: &'static str,
        /// How often.
        count: usize,
    },
    /// The sender header is not 16 bytes (G2).
    #[error("the header {SENDER_HEADER} has {found} bytes, expected 16")]
    SenderLength {
        /// Its length; 0 for a null value.
        found: usize,
    },
    /// The sequence header is not 8 bytes (G2).
    #[error("the header {SEQUENCE_HEADER} has {found} bytes, expected 8")]
    SequenceLength {
        /// Its length; 0 for a null value.
        found: usize,
    },
    /// The sequence is negative (G2).
    #[error("the header {SEQUENCE_HEADER} holds the negative sequence {found}")]
    NegativeSequence {
        /// Its value.
        found: i64,
    },
    /// One of sender and sequence is there without the other (G2).
    #[error("the header {present} stands without {absent}")]
    Unpaired {
        /// The one that is there.
        present: &'static str,
        /// The one that is missing.
        absent: &'static str,
    },
}

/// What a record's protocol headers say, the clock not yet decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProtocolHeaders {
    /// The bytes of `vc`; `None` when the header is absent.
    pub clock: Option<Bytes>,
    /// The sender and its send sequence; `None` when both headers are absent.
    pub sender: Option<(SenderId, i64)>,
}

impl ProtocolHeaders {
    /// Reads the three protocol headers out of a record's headers.
    ///
    /// # Errors
    ///
    /// [`CorruptHeaders`]; the clock's bytes are not looked into.
    pub fn read(headers: &[Header]) -> Result<Self, CorruptHeaders> {
        let [clock, sender, sequence] = places(headers)?;
        let sender = read_pair(
            sender.map(|at| &headers[at]),
            sequence.map(|at| &headers[at]),
        )?;
        let clock = match clock {
            None => None,
            Some(at) => Some(headers[at].value.clone().ok_or(CorruptClock::Null)?),
        };
        Ok(Self { clock, sender })
    }

    /// [`ProtocolHeaders::read`], taking every header with a reserved name out; what is left is the application's. Headers that cannot be
    /// read stay as they are.
    ///
    /// # Errors
    ///
    /// As [`ProtocolHeaders::read`].
    pub fn take(headers: &mut Vec<Header>) -> Result<Self, CorruptHeaders> {
        let [clock, sender, sequence] = places(headers)?;
        let sender = read_pair(
            sender.map(|at| &headers[at]),
            sequence.map(|at| &headers[at]),
        )?;
        let clock = match clock {
            None => None,
            Some(at) => Some(headers[at].value.take().ok_or(CorruptClock::Null)?),
        };
        headers.retain(|header| !is_reserved(&header.name));
        Ok(Self { clock, sender })
    }
}

/// Where the header of each of the protocol's names stands; each may stand once.
fn places(headers: &[Header]) -> Result<[Option<usize>; 3], CorruptHeaders> {
    const NAMES: [&str; 3] = [CLOCK_HEADER, SENDER_HEADER, SEQUENCE_HEADER];
    let mut found = [None; NAMES.len()];
    let mut counts = [0; NAMES.len()];
    for (place, header) in headers.iter().enumerate() {
        let name = NAMES.iter().position(|name| header.name == name.as_bytes());
        if let Some(at) = name {
            found[at] = Some(place);
            counts[at] += 1;
        }
    }
    match counts.iter().position(|&count| count > 1) {
        None => Ok(found),
        Some(at) => Err(CorruptHeaders::Doubled {
            name: NAMES[at],
            count: counts[at],
        }),
    }
}

fn read_pair(
    sender: Option<&Header>,
    sequence: Option<&Header>,
) -> Result<Option<(SenderId, i64)>, CorruptHeaders> {
    match (sender, sequence) {
        (None, None) => Ok(None),
        (Some(sender), Some(sequence)) => {
            Ok(Some((read_sender(sender)?, read_sequence(sequence)?)))
        }
        (Some(_), None) => Err(CorruptHeaders::Unpaired {
            present: SENDER_HEADER,
            absent: SEQUENCE_HEADER,
        }),
        (None, Some(_)) => Err(CorruptHeaders::Unpaired {
            present: SEQUENCE_HEADER,
            absent: SENDER_HEADER,
        }),
    }
}

fn read_sender(header: &Header) -> Result<SenderId, CorruptHeaders> {
    let bytes = header.value.as_deref().unwrap_or_default();
    match <[u8; 16]>::try_from(bytes) {
        Ok(bytes) => Ok(SenderId::from_uuid(uuid::Uuid::from_bytes(bytes))),
        Err(_) => Err(CorruptHeaders::SenderLength { found: bytes.len() }),
    }
}

fn read_sequence(header: &Header) -> Result<i64, CorruptHeaders> {
    let bytes = header.value.as_deref().unwrap_or_default();
    let Ok(bytes) = <[u8; 8]>::try_from(bytes) else {
        return Err(CorruptHeaders::SequenceLength { found: bytes.len() });
    };
    match i64::from_be_bytes(bytes) {
        found if found < 0 => Err(CorruptHeaders::NegativeSequence { found }),
        sequence => Ok(sequence),
    }
}

/// The three headers that a stamped record carries, in this order.
pub fn stamp_headers(clock: Bytes, sender: SenderId, sequence: i64) -> [Header; 3] {
    let header = |name: &'static str, value| Header {
        name: Bytes::from_static(name.as_bytes()),
        value: Some(value),
    };
    [
        header(CLOCK_HEADER, clock),
        header(
            SENDER_HEADER,
            Bytes::copy_from_slice(sender.0.uuid().as_bytes()),
        ),
        header(
            SEQUENCE_HEADER,
            Bytes::copy_from_slice(&sequence.to_be_bytes()),
        ),
    ]
}

#[cfg(test)]
mod tests;
