//! Identities: topics, channels, senders, and their texts.

use md5::{Digest, Md5};

/// A topic: most and least significant half of its UUID, both signed.
pub type Topic = (i64, i64);
/// One partition of one topic. The order of the tuples is channel order.
pub type Channel = (i64, i64, i32);
/// A sender identity: the two halves of its UUID.
pub type Sender = (i64, i64);

/// The channel of that topic and partition.
pub fn channel(topic: Topic, partition: i32) -> Channel {
    (topic.0, topic.1, partition)
}

/// The topic that a channel is a partition of.
pub fn topic_of(channel: Channel) -> Topic {
    (channel.0, channel.1)
}

/// The version 3 UUID made from the MD5 of the name's bytes alone.
pub fn named(name: &str) -> (i64, i64) {
    let mut bytes: [u8; 16] = Md5::digest(name.as_bytes()).into();
    bytes[6] = bytes[6] & 0x0f | 0x30;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let whole = u128::from_be_bytes(bytes);
    ((whole >> 64) as i64, whole as i64)
}

/// The canonical text of a UUID.
pub fn uuid_text(id: (i64, i64)) -> String {
    let hex = format!("{:016x}{:016x}", id.0, id.1);
    [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ]
    .join("-")
}

/// Reads the canonical text alone: lower case, hyphens in their places.
pub fn parse_uuid(text: &str) -> Option<(i64, i64)> {
    let whole = u128::from_str_radix(&text.replace('-', ""), 16).ok()?;
    let id = ((whole >> 64) as i64, whole as i64);
    (uuid_text(id) == text).then_some(id)
}

/// A channel as it stands in the keys of a store.
pub fn channel_text(channel: Channel) -> String {
    format!("{}:{}", uuid_text(topic_of(channel)), channel.2)
}

/// Reads what [`channel_text`] writes.
pub fn parse_channel(text: &str) -> Option<Channel> {
    let (topic, partition) = text.split_once(':')?;
    let parsed = channel(parse_uuid(topic)?, partition.parse().ok()?);
    (parsed.2 >= 0 && channel_text(parsed) == text).then_some(parsed)
}
