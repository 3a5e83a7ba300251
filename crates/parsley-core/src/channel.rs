//! Topics, channels, senders: the identities that clocks are made of (`docs/protocol.md`, Words).
//!
//! The order of these types is part of the protocol: it is the order of a clock's sections on the wire and the order in which a drain
//! visits the received channels. It compares the fields as they are laid out: signed most significant bits, signed least significant
//! bits, partition (decision S5).

use std::fmt;

use md5::{Digest, Md5};
use uuid::Uuid;

/// A place on a channel: `0 ..= i64::MAX` for records. Kafka's offset.
pub type Offset = i64;

/// A UUID as the wire carries it: two signed 64-bit halves, compared as signed numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    /// Most significant 64 bits.
    pub msb: i64,
    /// Least significant 64 bits.
    pub lsb: i64,
}

impl Id {
    /// The identity with the given UUID.
    pub const fn from_uuid(uuid: Uuid) -> Self {
        let (msb, lsb) = uuid.as_u64_pair();
        Self {
            msb: msb as i64,
            lsb: lsb as i64,
        }
    }

    /// The same 128 bits as a [`Uuid`].
    pub const fn uuid(self) -> Uuid {
        Uuid::from_u64_pair(self.msb as u64, self.lsb as u64)
    }

    /// The version 3 UUID made from the MD5 of the bytes alone, with no namespace before them.
    ///
    /// Node scripts name topics and senders this way, and [`SenderId::of_task`] is built on it.
    pub fn of_name(name: &[u8]) -> Self {
        Self::from_uuid(uuid::Builder::from_md5_bytes(Md5::digest(name).into()).into_uuid())
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.uuid(), f)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The identity of a topic: its UUID at the broker. A topic that is deleted and created again under its old name is another topic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId(pub Id);

impl TopicId {
    /// The topic with the given UUID.
    pub const fn from_uuid(uuid: Uuid) -> Self {
        Self(Id::from_uuid(uuid))
    }

    /// The identity that a node script gives to a topic of this name (`docs/node-script.md`).
    pub fn of_name(name: &str) -> Self {
        Self(Id::of_name(name.as_bytes()))
    }

    /// The channel of this topic with the given partition.
    pub const fn partition(self, partition: i32) -> Channel {
        Channel {
            topic: self,
            partition,
        }
    }
}

/// The identity of a sending node, stable over its restarts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SenderId(pub Id);

impl SenderId {
    /// The sender with the given UUID.
    pub const fn from_uuid(uuid: Uuid) -> Self {
        Self(Id::from_uuid(uuid))
    }

    /// The sender that a node script calls by this name (`docs/node-script.md`).
    pub fn of_name(name: &str) -> Self {
        Self(Id::of_name(name.as_bytes()))
    }

    /// The sender identity of a task: from `<application>/<stage>/<partition>` (`docs/protocol.md`, The stamp).
    pub fn of_task(application: &str, stage: &str, partition: i32) -> Self {
        Self::of_name(&format!("{application}/{stage}/{partition}"))
    }
}

/// One partition of one topic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Channel {
    /// The topic's identity.
    pub topic: TopicId,
    /// The partition number, `>= 0`.
    pub partition: i32,
}

macro_rules! shown_as_id {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    )*};
}
shown_as_id!(TopicId, SenderId);

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.topic, self.partition)
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The channels that a node is declared to consume, in channel order. Inside a node a channel is its index here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceivedChannels(Vec<Channel>);

impl ReceivedChannels {
    /// Sorts the channels and drops repetitions.
    pub fn new(channels: impl IntoIterator<Item = Channel>) -> Self {
        let mut channels: Vec<Channel> = channels.into_iter().collect();
        channels.sort_unstable();
        channels.dedup();
        Self(channels)
    }

    /// The channels in channel order.
    pub fn as_slice(&self) -> &[Channel] {
        &self.0
    }

    /// How many channels there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no channel is received.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The index of a channel, if it is received.
    pub fn index_of(&self, channel: Channel) -> Option<usize> {
        self.0.binary_search(&channel).ok()
    }

    /// Looks a channel up at or after `hint`, for callers that walk a sorted list of channels: `Ok` with its index, or `Err` with the
    /// index of the first larger one. Both are the hint for the next look-up. Costs the logarithm of the distance walked.
    pub fn find_from(&self, hint: usize, channel: Channel) -> Result<usize, usize> {
        gallop(self.0.len(), hint, |i| self.0[i].cmp(&channel))
    }
}

/// Finds, in a sorted sequence of `len` elements compared by `compare`, an equal element at or after `hint` (`Ok`), or where it would stand.
pub(crate) fn gallop(
    len: usize,
    hint: usize,
    compare: impl Fn(usize) -> std::cmp::Ordering,
) -> Result<usize, usize> {
    use std::cmp::Ordering;
    let (mut low, mut step) = (hint.min(len), 1);
    let mut high = low;
    while high < len {
        match compare(high) {
            Ordering::Less => {
                low = high + 1;
                high += step;
                step *= 2;
            }
            Ordering::Equal => return Ok(high),
            Ordering::Greater => break,
        }
    }
    let mut high = high.min(len);
    while low < high {
        let middle = low + (high - low) / 2;
        match compare(middle) {
            Ordering::Less => low = middle + 1,
            Ordering::Equal => return Ok(middle),
            Ordering::Greater => high = middle,
        }
    }
    Err(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(msb: i64, lsb: i64, partition: i32) -> Channel {
        TopicId(Id { msb, lsb }).partition(partition)
    }

    #[test]
    fn channels_order_by_signed_halves_then_partition() {
        let sorted = [
            channel(i64::MIN, 5, 0),
            channel(-1, i64::MAX, 3),
            channel(0, -7, 9),
            channel(0, 0, 0),
            channel(0, 0, 1),
            channel(7, i64::MIN, 0),
        ];
        let mut shuffled = sorted;
        shuffled.reverse();
        shuffled.sort_unstable();
        assert_eq!(shuffled, sorted);
    }

    #[test]
    fn a_task_identity_is_the_md5_of_its_path_alone() {
        assert_eq!(
            SenderId::of_task("shop", "settle", 0).to_string(),
            "5d7ce273-b3ed-34cb-95f7-bed1a25c3360"
        );
        assert_eq!(
            SenderId::of_task("shop", "settle", 11).to_string(),
            "1dba284c-e704-3e8a-b89c-19dbaec547ce"
        );
    }

    #[test]
    fn uuid_halves_survive_the_round_trip() {
        let uuid = Uuid::from_u128(0x8f11_2233_4455_6677_8899_aabb_ccdd_eeff);
        assert!(Id::from_uuid(uuid).msb < 0);
        assert_eq!(Id::from_uuid(uuid).uuid(), uuid);
    }

    #[test]
    fn an_identity_is_shown_as_its_uuid_also_to_developers() {
        let id = Id { msb: 0, lsb: 0x1f };
        assert_eq!(format!("{id:?}"), "00000000-0000-0000-0000-00000000001f");
    }

    #[test]
    fn channels_are_counted() {
        let none = ReceivedChannels::new([]);
        assert!(none.is_empty());
        assert_eq!(none.len(), 0);
        let twice = ReceivedChannels::new([channel(0, 1, 0), channel(0, 1, 0)]);
        assert!(!twice.is_empty());
        assert_eq!(twice.len(), 1);
    }

    /// A look-up beside its hint is cheap however many channels there are, and a far one costs the logarithm of its distance.
    #[test]
    fn finding_costs_the_logarithm_of_the_distance_from_the_hint() {
        const LEN: usize = 1 << 12;
        for hint in [0, 1, 1000] {
            for distance in [0, 1, 2, 3, 7, 8, 100, 1000, 3000] {
                let asked = std::cell::Cell::new(0_u32);
                let wanted = hint + distance;
                let found = gallop(LEN, hint, |at| {
                    asked.set(asked.get() + 1);
                    at.cmp(&wanted)
                });
                assert_eq!(found, Ok(wanted));
                let most = 2 * (distance + 1).ilog2() + 2;
                assert!(asked.get() <= most, "{distance} from {hint}: {asked:?}");
            }
        }
    }

    /// Whatever the length, the hint and the gap that something stands in.
    #[test]
    fn finding_agrees_with_a_scan_of_any_short_list() {
        for len in 0..20_usize {
            for hint in 0..=len + 1 {
                let from = hint.min(len);
                // Elements are the odd numbers, so even ones stand between them.
                for wanted in 2 * from..=2 * len {
                    let scanned = (from..len).find(|at| 2 * at + 1 >= wanted).unwrap_or(len);
                    let expected = match wanted % 2 {
                        1 if scanned < len => Ok(scanned),
                        _ => Err(scanned),
                    };
                    let found = gallop(len, hint, |at| (2 * at + 1).cmp(&wanted));
                    assert_eq!(found, expected, "{wanted} in {len} from {hint}");
                }
            }
        }
    }

    #[test]
    fn finding_from_a_hint_agrees_with_finding_from_the_start() {
        let received = ReceivedChannels::new((0..100).map(|i| channel(0, i * 2, 0)));
        for hint in 0..=100 {
            for wanted in 0..210 {
                let wanted = channel(0, wanted, 0);
                let expected = received.as_slice().binary_search(&wanted);
                let position = match expected {
                    Ok(i) | Err(i) => i,
                };
                if position >= hint {
                    assert_eq!(
                        received.find_from(hint, wanted),
                        expected,
                        "hint {hint}, wanted {wanted}"
                    );
                }
            }
        }
    }
}
