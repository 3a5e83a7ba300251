//! The database's keys: one map holds everything, and the first byte of a key says what it is about.
//!
//! Numbers are big-endian, so that keys stand in the order of what they name. A name ends with a zero byte, which none contains.

use bytes::Bytes;
use parsley_core::{Channel, Id, Offset, TopicId};

use crate::log::partition::TransactionId;

/// `t` topic: what the topic is made of.
const TOPIC: u8 = b't';
/// `i` name: how many topics of the name there have been.
const INCARNATIONS: u8 = b'i';
/// `p` topic partition: the log start and the high watermark.
const PARTITION: u8 = b'p';
/// `r` topic partition offset: the chunk that begins at the offset.
const CHUNK: u8 = b'r';
/// `o` topic partition transaction: what a transaction that is open has written there.
const OPEN: u8 = b'o';
/// `g` group: how many tasks the group has.
const GROUP: u8 = b'g';
/// `c` group topic partition: a committed position.
const POSITION: u8 = b'c';
/// `s` group task store: the state of a task; the key of the state follows.
const STATE: u8 = b's';

/// The kinds of keys that describe topics and groups: all that is read when a log is opened.
pub(crate) const DESCRIPTIONS: [u8; 6] = [TOPIC, INCARNATIONS, PARTITION, OPEN, GROUP, POSITION];

/// A key that describes a topic or a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Description {
    Topic(TopicId),
    Incarnations(String),
    Partition(Channel),
    Open(Channel, TransactionId),
    Group(String),
    Position(String, Channel),
}

/// Which of the two stores of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreKind {
    Ordering,
    Fold,
}

pub(crate) fn topic(id: TopicId) -> Bytes {
    let mut key = vec![TOPIC];
    push_id(&mut key, id.0);
    key.into()
}

pub(crate) fn incarnations(name: &str) -> Bytes {
    let mut key = vec![INCARNATIONS];
    key.extend_from_slice(name.as_bytes());
    key.into()
}

pub(crate) fn partition(channel: Channel) -> Bytes {
    of_channel(PARTITION, channel).into()
}

/// What precedes the offset in the keys of a partition's chunks.
pub(crate) fn chunks(channel: Channel) -> Vec<u8> {
    of_channel(CHUNK, channel)
}

pub(crate) fn chunk(channel: Channel, base: Offset) -> Bytes {
    let mut key = chunks(channel);
    key.extend_from_slice(&base.to_be_bytes());
    key.into()
}

/// The offset at which a chunk begins; `None` when it is no chunk's key.
pub(crate) fn chunk_base(key: &[u8]) -> Option<Offset> {
    let base = key.strip_prefix(&[CHUNK])?.get(20..)?;
    let base = Offset::from_be_bytes(base.try_into().ok()?);
    (base >= 0).then_some(base)
}

pub(crate) fn open(channel: Channel, transaction: TransactionId) -> Bytes {
    let mut key = of_channel(OPEN, channel);
    key.extend_from_slice(&transaction.0.to_be_bytes());
    key.into()
}

pub(crate) fn group(name: &str) -> Bytes {
    let mut key = vec![GROUP];
    push_name(&mut key, name);
    key.into()
}

pub(crate) fn position(group: &str, channel: Channel) -> Bytes {
    let mut key = vec![POSITION];
    push_name(&mut key, group);
    push_channel(&mut key, channel);
    key.into()
}

/// What precedes the state's own keys.
pub(crate) fn state(group: &str, task: i32, store: StoreKind) -> Vec<u8> {
    let mut key = vec![STATE];
    push_name(&mut key, group);
    key.extend_from_slice(&task.to_be_bytes());
    key.push(match store {
        StoreKind::Ordering => b'o',
        StoreKind::Fold => b'f',
    });
    key
}

/// What precedes all keys about a topic, but the number of its incarnations.
pub(crate) fn all_of_topic(id: TopicId) -> [Vec<u8>; 4] {
    [TOPIC, PARTITION, CHUNK, OPEN].map(|kind| {
        let mut key = vec![kind];
        push_id(&mut key, id.0);
        key
    })
}

impl Description {
    /// Reads a key. `None` when it is not exactly one that this module makes.
    pub(crate) fn parse(key: &[u8]) -> Option<Self> {
        let (&kind, rest) = key.split_first()?;
        let parsed = match kind {
            TOPIC => Self::Topic(TopicId(take_id(rest)?.0)),
            INCARNATIONS => Self::Incarnations(std::str::from_utf8(rest).ok()?.to_owned()),
            PARTITION => Self::Partition(take_channel(rest)?.0),
            OPEN => {
                let (channel, rest) = take_channel(rest)?;
                let transaction = u64::from_be_bytes(rest.try_into().ok()?);
                Self::Open(channel, TransactionId(transaction))
            }
            GROUP => Self::Group(take_name(rest)?.0),
            POSITION => {
                let (group, rest) = take_name(rest)?;
                Self::Position(group, take_channel(rest)?.0)
            }
            _ => return None,
        };
        (parsed.to_bytes() == key).then_some(parsed)
    }

    pub(crate) fn to_bytes(&self) -> Bytes {
        match self {
            Self::Topic(id) => topic(*id),
            Self::Incarnations(name) => incarnations(name),
            Self::Partition(channel) => partition(*channel),
            Self::Open(channel, transaction) => open(*channel, *transaction),
            Self::Group(name) => group(name),
            Self::Position(name, channel) => position(name, *channel),
        }
    }
}

fn push_id(key: &mut Vec<u8>, id: Id) {
    key.extend_from_slice(id.uuid().as_bytes());
}

fn push_channel(key: &mut Vec<u8>, channel: Channel) {
    push_id(key, channel.topic.0);
    key.extend_from_slice(&channel.partition.to_be_bytes());
}

fn push_name(key: &mut Vec<u8>, name: &str) {
    key.extend_from_slice(name.as_bytes());
    key.push(0);
}

fn of_channel(kind: u8, channel: Channel) -> Vec<u8> {
    let mut key = Vec::with_capacity(32);
    key.push(kind);
    push_channel(&mut key, channel);
    key
}

fn take_id(key: &[u8]) -> Option<(Id, &[u8])> {
    let (id, rest) = key.split_first_chunk::<16>()?;
    Some((Id::from_uuid(uuid::Uuid::from_bytes(*id)), rest))
}

fn take_channel(key: &[u8]) -> Option<(Channel, &[u8])> {
    let (id, rest) = take_id(key)?;
    let (partition, rest) = rest.split_first_chunk::<4>()?;
    let partition = i32::from_be_bytes(*partition);
    (partition >= 0).then(|| (TopicId(id).partition(partition), rest))
}

fn take_name(key: &[u8]) -> Option<(String, &[u8])> {
    let end = key.iter().position(|byte| *byte == 0)?;
    let name = std::str::from_utf8(&key[..end]).ok()?;
    Some((name.to_owned(), &key[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(partition: i32) -> Channel {
        TopicId::of_name("orders").partition(partition)
    }

    #[test]
    fn a_description_is_read_back_from_its_key() {
        for description in [
            Description::Topic(channel(0).topic),
            Description::Incarnations("orders".to_owned()),
            Description::Partition(channel(3)),
            Description::Open(channel(3), TransactionId(9)),
            Description::Group("shop-add".to_owned()),
            Description::Position("shop-add".to_owned(), channel(2)),
        ] {
            let key = description.to_bytes();
            assert_eq!(Description::parse(&key), Some(description));
            assert!(DESCRIPTIONS.contains(&key[0]));
            assert_ne!(
                Description::parse(&key[..key.len() - 1]).map(|cut| cut.to_bytes()),
                Some(key)
            );
        }
        assert_eq!(Description::parse(b""), None);
        assert_eq!(Description::parse(b"x"), None);
        assert_eq!(Description::parse(b"gshop-add\0more"), None);
        assert_eq!(Description::parse(b"pshort"), None);
    }

    #[test]
    fn chunks_stand_in_the_order_of_their_offsets() {
        let keys: Vec<Bytes> = [0, 1, 255, 256, i64::MAX]
            .map(|base| chunk(channel(1), base))
            .into();
        assert!(keys.is_sorted());
        assert!(keys.iter().all(|key| key.starts_with(&chunks(channel(1)))));
        assert_eq!(chunk_base(&keys[3]), Some(256));
        assert_eq!(chunk_base(&keys[3][..20]), None);
        assert!(chunk(channel(1), i64::MAX) < chunk(channel(2), 0));
    }

    /// One group's name may begin another's.
    #[test]
    fn the_keys_of_groups_are_apart() {
        let short = state("shop", 0, StoreKind::Ordering);
        assert!(!state("shop-add", 0, StoreKind::Ordering).starts_with(&short));
        assert!(!state("shop", 0, StoreKind::Fold).starts_with(&short));
        assert!(!state("shop", 1, StoreKind::Ordering).starts_with(&short));
    }

    #[test]
    fn all_that_is_about_a_topic_goes_with_it() {
        let prefixes = all_of_topic(channel(0).topic);
        let is_of_topic = |key: &[u8]| prefixes.iter().any(|prefix| key.starts_with(prefix));
        assert!(is_of_topic(&topic(channel(0).topic)));
        assert!(is_of_topic(&partition(channel(4))));
        assert!(is_of_topic(&chunk(channel(4), 8)));
        assert!(is_of_topic(&open(channel(4), TransactionId(1))));
        assert!(!is_of_topic(&incarnations("orders")));
        assert!(!is_of_topic(&position("g", channel(4))));
    }
}
