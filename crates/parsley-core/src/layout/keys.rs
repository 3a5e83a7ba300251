//! The keys of the state store: written without an allocation, parsed strictly.

use std::ops::Deref;

use crate::channel::{Channel, Id, SenderId, TopicId};

/// The key of the recorded scope.
pub const SCOPE_KEY: &[u8] = b"scope";
/// The key of the carried ancestry.
pub const CARRIED_KEY: &[u8] = b"ca";

/// A state key, parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateKey {
    /// `scope`
    Scope,
    /// `ca`
    Carried,
    /// `f/<channel>`
    Frontier(Channel),
    /// `cc/<channel>`
    Advertised(Channel),
    /// `q/<channel>/m`
    QueueMeta(Channel),
    /// `q/<channel>/e/<index>`
    QueueEntry(Channel, u64),
    /// `sq/<channel>`
    SendSequence(Channel),
    /// `ds/<channel>/<sender>`
    DeliveredSequence(Channel, SenderId),
}

impl StateKey {
    /// The key's bytes.
    pub fn to_bytes(self) -> Vec<u8> {
        self.text().to_vec()
    }

    /// The prefix of a channel's queue entries.
    pub fn queue_entries(channel: Channel) -> Vec<u8> {
        EntryKeys::from(channel, 0).prefix().to_vec()
    }

    /// The key as it stands in the store.
    pub(crate) fn text(self) -> KeyText {
        let mut key = KeyText::empty();
        match self {
            Self::Scope => key.push(SCOPE_KEY),
            Self::Carried => key.push(CARRIED_KEY),
            Self::Frontier(channel) => key.push_channel(b"f/", channel),
            Self::Advertised(channel) => key.push_channel(b"cc/", channel),
            Self::QueueMeta(channel) => {
                key.push_channel(b"q/", channel);
                key.push(b"/m");
            }
            Self::QueueEntry(channel, index) => key = EntryKeys::from(channel, index).key,
            Self::SendSequence(channel) => key.push_channel(b"sq/", channel),
            Self::DeliveredSequence(channel, sender) => {
                key.push_channel(b"ds/", channel);
                key.push(b"/");
                key.push_id(sender.0);
            }
        }
        key
    }

    /// Parses a key. `None` when it is not exactly one that [`StateKey::to_bytes`] writes.
    pub fn parse(key: &[u8]) -> Option<Self> {
        if key == SCOPE_KEY {
            return Some(Self::Scope);
        }
        if key == CARRIED_KEY {
            return Some(Self::Carried);
        }
        let mut rest = Rest(key);
        let class = rest.until_slash()?;
        let channel = rest.channel()?;
        let parsed = match class {
            b"f" => Self::Frontier(channel),
            b"cc" => Self::Advertised(channel),
            b"sq" => Self::SendSequence(channel),
            b"ds" => {
                rest.skip(b"/")?;
                Self::DeliveredSequence(channel, SenderId(rest.id()?))
            }
            b"q" => match rest.skip(b"/e/") {
                Some(()) => Self::QueueEntry(channel, rest.number::<INDEX_DIGITS>()?),
                None => {
                    rest.skip(b"/m")?;
                    Self::QueueMeta(channel)
                }
            },
            _ => return None,
        };
        rest.0.is_empty().then_some(parsed)
    }
}

const DIGITS: [u8; 16] = *b"0123456789abcdef";
/// What a byte is as a digit.
const DIGIT_OF: [u8; 256] = {
    let mut digit_of = [NO_DIGIT; 256];
    let mut digit = 0;
    while digit < DIGITS.len() {
        digit_of[DIGITS[digit] as usize] = digit as u8;
        digit += 1;
    }
    digit_of
};
const NO_DIGIT: u8 = 16;
/// An identity's digits, and the hyphens between their groups.
const ID_LENGTH: usize = 36;
const INDEX_DIGITS: usize = 16;
/// The longest key: `ds/`, an identity, a colon, ten digits, a slash, an identity.
const LENGTH_MAX: usize = 3 + ID_LENGTH + 1 + 10 + 1 + ID_LENGTH;

/// A key's bytes, on the stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyText {
    bytes: [u8; LENGTH_MAX],
    length: usize,
}

impl Deref for KeyText {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl KeyText {
    fn empty() -> Self {
        Self {
            bytes: [0; LENGTH_MAX],
            length: 0,
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        self.bytes[self.length..end].copy_from_slice(bytes);
        self.length = end;
    }

    fn push_id(&mut self, id: Id) {
        self.push(
            id.uuid()
                .hyphenated()
                .encode_lower(&mut [0; ID_LENGTH])
                .as_bytes(),
        );
    }

    fn push_channel(&mut self, class: &[u8], channel: Channel) {
        self.push(class);
        self.push_id(channel.topic.0);
        self.push(b":");
        self.push_decimal(channel.partition);
    }

    /// Partitions are never negative.
    fn push_decimal(&mut self, number: i32) {
        let mut digits = [0; 10];
        let mut first = digits.len();
        let mut left = number.unsigned_abs();
        loop {
            first -= 1;
            digits[first] = b'0' + (left % 10) as u8;
            left /= 10;
            if left == 0 {
                break;
            }
        }
        self.push(&digits[first..]);
    }
}

/// The keys of one channel's queue entries. They differ in the index alone, so the rest is written once; and they come one after another,
/// so each is made of the one before it.
#[derive(Clone, Debug)]
pub(crate) struct EntryKeys {
    /// The key of the entry at `index`.
    key: KeyText,
    index: u64,
}

impl EntryKeys {
    /// The key of the entry at this index comes first.
    pub fn from(channel: Channel, index: u64) -> Self {
        let mut key = KeyText::empty();
        key.push_channel(b"q/", channel);
        key.push(b"/e/");
        key.push(&[0; INDEX_DIGITS]);
        let mut keys = Self { key, index };
        keys.go_to(index);
        keys
    }

    /// What they have in common.
    pub fn prefix(&self) -> &[u8] {
        &self.key[..self.key.length - INDEX_DIGITS]
    }

    /// The next key. It is the one whose turn it is until [`EntryKeys::advance`].
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    fn digits(&mut self) -> &mut [u8] {
        let length = self.key.length;
        &mut self.key.bytes[length - INDEX_DIGITS..length]
    }

    /// The key of the entry at this index comes next.
    pub fn go_to(&mut self, index: u64) {
        self.index = index;
        for (place, digit) in self.digits().iter_mut().rev().enumerate() {
            *digit = DIGITS[(index >> (4 * place) & 0xf) as usize];
        }
    }

    /// Goes on to the key that follows.
    pub fn advance(&mut self) {
        self.index = self.index.wrapping_add(1);
        for digit in self.digits().iter_mut().rev() {
            *digit = match *digit {
                b'9' => b'a',
                b'f' => b'0',
                other => other + 1,
            };
            if *digit != b'0' {
                break;
            }
        }
    }

    /// The index of an entry of this channel, `None` for every other key; the next key is then the one that follows it.
    pub fn take(&mut self, key: &[u8]) -> Option<u64> {
        if *key != *self.key {
            let mut rest = Rest(key.strip_prefix(self.prefix())?);
            let index = rest.number::<INDEX_DIGITS>()?;
            if !rest.0.is_empty() {
                return None;
            }
            self.go_to(index);
        }
        let index = self.index;
        self.advance();
        Some(index)
    }
}

/// What of a key is not parsed yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn skip(&mut self, prefix: &[u8]) -> Option<()> {
        self.0 = self.0.strip_prefix(prefix)?;
        Some(())
    }

    fn until_slash(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|&byte| byte == b'/')?;
        let (before, rest) = self.0.split_at(end);
        self.0 = &rest[1..];
        Some(before)
    }

    /// A number in so many lower-case hexadecimal digits.
    fn number<const LENGTH: usize>(&mut self) -> Option<u64> {
        let (digits, rest) = self.0.split_first_chunk::<LENGTH>()?;
        self.0 = rest;
        let (mut number, mut seen) = (0, 0);
        for &byte in digits {
            let digit = DIGIT_OF[usize::from(byte)];
            number = number << 4 | u64::from(digit);
            seen |= digit;
        }
        (seen < NO_DIGIT).then_some(number)
    }

    fn id(&mut self) -> Option<Id> {
        let mut msb = self.number::<8>()?;
        for _ in 0..2 {
            self.skip(b"-")?;
            msb = msb << 16 | self.number::<4>()?;
        }
        self.skip(b"-")?;
        let lsb = self.number::<4>()?;
        self.skip(b"-")?;
        let lsb = lsb << 48 | self.number::<12>()?;
        Some(Id {
            msb: msb as i64,
            lsb: lsb as i64,
        })
    }

    /// A topic's identity and a partition, in decimal digits as they are written.
    fn channel(&mut self) -> Option<Channel> {
        let topic = TopicId(self.id()?);
        self.skip(b":")?;
        let end = self.0.iter().position(|byte| !byte.is_ascii_digit());
        let (digits, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        self.0 = rest;
        if digits.is_empty() || digits.len() > 1 && digits[0] == b'0' {
            return None;
        }
        let partition = digits.iter().try_fold(0_i32, |number, byte| {
            number.checked_mul(10)?.checked_add((byte - b'0').into())
        })?;
        Some(topic.partition(partition))
    }
}
