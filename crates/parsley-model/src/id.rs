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
///
/// ```
/// let sender = parsley_model::named("shop/settle/0");
/// assert_eq!(parsley_model::uuid_text(sender), "5d7ce273-b3ed-34cb-95f7-bed1a25c3360");
/// ```
pub fn named(name: &str) -> (i64, i64) {
    let mut bytes: [u8; 16] = Md5::digest(name.as_bytes()).into();
    bytes[6] = bytes[6] & 0x0f | 0x30;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let whole = u128::from_be_bytes(bytes);
    ((whole >> 64) as i64, whole as i64)
}

/// The canonical text of a UUID.
pub fn uuid_text(id: (i64, i64)) -> String {
    let mut text = String::with_capacity(36);
    push_uuid(&mut text, id);
    text
}

fn push_uuid(text: &mut String, id: (i64, i64)) {
    push_hex(text, id.0 >> 32, 8);
    text.push('-');
    push_hex(text, id.0 >> 16, 4);
    text.push('-');
    push_hex(text, id.0, 4);
    text.push('-');
    push_hex(text, id.1 >> 48, 4);
    text.push('-');
    push_hex(text, id.1, 12);
}

/// The last `digits` hex digits of a number, in lower case.
pub(crate) fn push_hex(text: &mut String, number: i64, digits: u32) {
    for place in (0..digits).rev() {
        let digit = (number >> (4 * place) & 0xf) as usize;
        text.push(char::from(b"0123456789abcdef"[digit]));
    }
}

/// Reads the canonical text alone: lower case, hyphens in their places.
pub fn parse_uuid(text: &str) -> Option<(i64, i64)> {
    let whole = u128::from_str_radix(&text.replace('-', ""), 16).ok()?;
    let id = ((whole >> 64) as i64, whole as i64);
    (uuid_text(id) == text).then_some(id)
}

/// A channel as it stands in the keys of a store.
pub fn channel_text(channel: Channel) -> String {
    let mut text = String::with_capacity(48);
    push_uuid(&mut text, topic_of(channel));
    text.push(':');
    text.push_str(&channel.2.to_string());
    text
}

/// Reads what [`channel_text`] writes.
pub fn parse_channel(text: &str) -> Option<Channel> {
    let (topic, partition) = text.split_once(':')?;
    let parsed = channel(parse_uuid(topic)?, partition.parse().ok()?);
    (parsed.2 >= 0 && channel_text(parsed) == text).then_some(parsed)
}
