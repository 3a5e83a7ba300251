//! The dependency clock: two sorted sections of claims (`docs/protocol.md`, Words and Wire format).
//!
//! A clock is a pair of sorted vectors. Merging walks the narrower side and looks its entries up in the wider one, so folding a narrow
//! clock into a wide one costs the narrow one's width; nothing is allocated unless an entry is new.

use crate::channel::{Channel, Offset, SenderId, TopicId, gallop};

/// Claims every position at or below `offset` on `channel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OffsetClaim {
    /// The channel claimed on.
    pub channel: Channel,
    /// The highest position claimed, `>= 0`.
    pub offset: Offset,
}

/// Claims every record that `sender` sent to `channel` with send sequence at or below `sequence`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceClaim {
    /// The channel claimed on.
    pub channel: Channel,
    /// Whose sends are claimed.
    pub sender: SenderId,
    /// The highest send sequence claimed, `>= 0`.
    pub sequence: i64,
}

/// One claim of either kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Claim {
    /// By position.
    Offset(OffsetClaim),
    /// By a sender's send sequence.
    Sequence(SequenceClaim),
}

impl Claim {
    /// The channel claimed on.
    pub fn channel(&self) -> Channel {
        match self {
            Self::Offset(claim) => claim.channel,
            Self::Sequence(claim) => claim.channel,
        }
    }
}

/// An entry of a clock's section: a key, at most once per section, and the watermark that a merge maximises.
pub(crate) trait Entry: Copy {
    type Key: Ord + Copy;
    /// How many channels the next entry stands behind this one at least: 1 where a channel has one entry.
    const CHANNEL_STEP: usize;
    fn key(&self) -> Self::Key;
    fn watermark(&self) -> i64;
    fn set_watermark(&mut self, watermark: i64);
    fn channel(&self) -> Channel;
    /// Negative when a number is that must not be.
    fn signs(&self) -> i64 {
        i64::from(self.channel().partition) | self.watermark()
    }
    /// Whether the key is less than that of `other`, without a branch.
    fn key_is_below(&self, other: &Self) -> bool;
}

impl Entry for OffsetClaim {
    type Key = Channel;
    const CHANNEL_STEP: usize = 1;
    #[inline]
    fn key(&self) -> Channel {
        self.channel
    }
    #[inline]
    fn watermark(&self) -> i64 {
        self.offset
    }
    #[inline]
    fn set_watermark(&mut self, watermark: i64) {
        self.offset = watermark;
    }
    #[inline]
    fn channel(&self) -> Channel {
        self.channel
    }
    #[inline]
    fn key_is_below(&self, other: &Self) -> bool {
        is_below(self.channel, other.channel)
    }
}

impl Entry for SequenceClaim {
    type Key = (Channel, SenderId);
    const CHANNEL_STEP: usize = 0;
    #[inline]
    fn key(&self) -> Self::Key {
        (self.channel, self.sender)
    }
    #[inline]
    fn watermark(&self) -> i64 {
        self.sequence
    }
    #[inline]
    fn set_watermark(&mut self, watermark: i64) {
        self.sequence = watermark;
    }
    #[inline]
    fn channel(&self) -> Channel {
        self.channel
    }
    #[inline]
    fn key_is_below(&self, other: &Self) -> bool {
        let (mine, others) = (self.sender.0, other.sender.0);
        is_below(self.channel, other.channel)
            | (self.channel == other.channel)
                & ((mine.msb < others.msb) | (mine.msb == others.msb) & (mine.lsb < others.lsb))
    }
}

fn is_below(channel: Channel, other: Channel) -> bool {
    let (mine, others) = (channel.topic.0, other.topic.0);
    (mine.msb < others.msb)
        | (mine.msb == others.msb)
            & ((mine.lsb < others.lsb)
                | (mine.lsb == others.lsb) & (channel.partition < other.partition))
}

/// A sorted section that can be read by position: a slice of claims, or the bytes of one.
pub trait Section<E> {
    /// How many entries it has.
    fn len(&self) -> usize;
    /// Whether it has none.
    #[inline]
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The entry at a position below [`Section::len`].
    fn get(&self, index: usize) -> E;
}

impl<E: Copy> Section<E> for &[E] {
    #[inline]
    fn len(&self) -> usize {
        <[E]>::len(self)
    }
    #[inline]
    fn get(&self, index: usize) -> E {
        self[index]
    }
}

/// Both sections of a clock, owned or borrowed from its bytes.
pub trait Claims {
    /// The offset section.
    fn offset_section(&self) -> impl Section<OffsetClaim>;
    /// The sequence section.
    fn sequence_section(&self) -> impl Section<SequenceClaim>;
}

/// A dependency clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Clock {
    offsets: Vec<OffsetClaim>,
    sequences: Vec<SequenceClaim>,
}

impl Claims for Clock {
    #[inline]
    fn offset_section(&self) -> impl Section<OffsetClaim> {
        self.offsets.as_slice()
    }
    #[inline]
    fn sequence_section(&self) -> impl Section<SequenceClaim> {
        self.sequences.as_slice()
    }
}

/// Offset claims in channel order.
impl Claims for &[OffsetClaim] {
    fn offset_section(&self) -> impl Section<OffsetClaim> {
        *self
    }
    fn sequence_section(&self) -> impl Section<SequenceClaim> {
        <&[SequenceClaim]>::default()
    }
}

impl Clock {
    /// A clock that claims nothing.
    pub const fn new() -> Self {
        Self {
            offsets: Vec::new(),
            sequences: Vec::new(),
        }
    }

    /// The clock with these claims. Claims with the same key are joined to their maximum.
    pub fn from_claims(
        offsets: impl IntoIterator<Item = OffsetClaim>,
        sequences: impl IntoIterator<Item = SequenceClaim>,
    ) -> Self {
        Self {
            offsets: sorted(offsets.into_iter().collect()),
            sequences: sorted(sequences.into_iter().collect()),
        }
    }

    /// The offset claims, in channel order.
    pub fn offsets(&self) -> &[OffsetClaim] {
        &self.offsets
    }

    /// The sequence claims, in channel order, then sender order.
    pub fn sequences(&self) -> &[SequenceClaim] {
        &self.sequences
    }

    /// Whether the clock claims nothing.
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty() && self.sequences.is_empty()
    }

    /// How many claims it has, of both kinds.
    pub fn width(&self) -> usize {
        self.offsets.len() + self.sequences.len()
    }

    /// The highest position claimed on a channel.
    pub fn offset(&self, channel: Channel) -> Option<Offset> {
        self.offsets
            .binary_search_by_key(&channel, |claim| claim.channel)
            .ok()
            .map(|i| self.offsets[i].offset)
    }

    /// The sequence claims on a channel, in sender order.
    pub fn sequences_on(&self, channel: Channel) -> &[SequenceClaim] {
        let start = self
            .sequences
            .partition_point(|claim| claim.channel < channel);
        let end = start + self.sequences[start..].partition_point(|claim| claim.channel == channel);
        &self.sequences[start..end]
    }

    /// Joins another clock into this one, entry by entry to the maximum. Returns whether anything changed.
    pub fn merge(&mut self, other: &impl Claims) -> bool {
        let offsets = merge_section(&mut self.offsets, other.offset_section(), |_| {});
        merge_section(&mut self.sequences, other.sequence_section(), |_| {}) | offsets
    }

    /// Joins another clock and notes the places of the offset claims that it raises. Returns whether they are all that it changes: no
    /// claim is new, and no sequence claim is raised.
    pub(crate) fn merge_noting(&mut self, other: &impl Claims, raised: &mut Vec<usize>) -> bool {
        let before = self.offsets.len();
        merge_section(&mut self.offsets, other.offset_section(), |at| {
            raised.push(at);
        });
        let sequences = merge_section(&mut self.sequences, other.sequence_section(), |_| {});
        self.offsets.len() == before && !sequences
    }

    /// The place of the offset claim on a channel among all. `hint` is looked at first.
    pub(crate) fn place_of(&self, channel: Channel, hint: usize) -> Option<usize> {
        let hinted = self.offsets.get(hint);
        if hinted.is_some_and(|claim| claim.channel == channel) {
            return Some(hint);
        }
        self.offsets
            .binary_search_by_key(&channel, |claim| claim.channel)
            .ok()
    }

    /// Raises the offset claim at a place. Returns whether it was lower.
    pub(crate) fn raise_at(&mut self, place: usize, offset: Offset) -> bool {
        let is_lower = self.offsets[place].offset < offset;
        if is_lower {
            self.offsets[place].offset = offset;
        }
        is_lower
    }

    /// Joins one offset claim. Returns whether anything changed.
    pub fn claim_offset(&mut self, channel: Channel, offset: Offset) -> bool {
        merge_section(
            &mut self.offsets,
            [OffsetClaim { channel, offset }].as_slice(),
            |_| {},
        )
    }

    /// Joins one sequence claim. Returns whether anything changed.
    pub fn claim_sequence(&mut self, channel: Channel, sender: SenderId, sequence: i64) -> bool {
        merge_section(
            &mut self.sequences,
            [SequenceClaim {
                channel,
                sender,
                sequence,
            }]
            .as_slice(),
            |_| {},
        )
    }

    /// Whether every claim of `other` is contained in a claim of this clock of the same kind.
    pub fn dominates(&self, other: &impl Claims) -> bool {
        dominates_section(&self.offsets, other.offset_section())
            && dominates_section(&self.sequences, other.sequence_section())
    }

    /// Drops the offset claims on `channel` that lie below `bound`. Returns whether anything changed.
    pub fn truncate_below(&mut self, channel: Channel, bound: Offset) -> bool {
        match self
            .offsets
            .binary_search_by_key(&channel, |claim| claim.channel)
        {
            Ok(i) if self.offsets[i].offset < bound => {
                self.offsets.remove(i);
                true
            }
            _ => false,
        }
    }

    /// Drops every claim on every channel of a topic. Returns whether anything changed.
    pub fn drop_topic(&mut self, topic: TopicId) -> bool {
        let before = self.width();
        self.offsets.retain(|claim| claim.channel.topic != topic);
        self.sequences.retain(|claim| claim.channel.topic != topic);
        self.width() != before
    }

    /// Replaces sequence claims by what `resolve` says of each: `Some(offset)` turns it into an offset claim on its channel, `None`
    /// leaves it. Returns whether anything changed.
    pub fn resolve_sequences(
        &mut self,
        mut resolve: impl FnMut(&SequenceClaim) -> Option<Offset>,
    ) -> bool {
        let mut resolved = Vec::new();
        self.sequences.retain(|claim| match resolve(claim) {
            Some(offset) => {
                resolved.push(OffsetClaim {
                    channel: claim.channel,
                    offset,
                });
                false
            }
            None => true,
        });
        for claim in &resolved {
            self.claim_offset(claim.channel, claim.offset);
        }
        !resolved.is_empty()
    }

    /// Makes the clock one of the offset claims of `other`, and keeps its memory.
    pub(crate) fn copy_offsets(&mut self, other: &Self) {
        self.offsets.clone_from(&other.offsets);
        self.sequences.clear();
    }
}

fn sorted<E: Entry>(mut entries: Vec<E>) -> Vec<E> {
    entries.sort_unstable_by_key(Entry::key);
    entries.dedup_by(|later, kept| {
        let same = later.key() == kept.key();
        if same {
            kept.set_watermark(kept.watermark().max(later.watermark()));
        }
        same
    });
    entries
}

/// Joins a sorted section into sorted entries, in place: one pass raises what is there and counts what is new, a second one, only if
/// something is new, moves entries from the back into the grown vector. `raised` is told where an entry was raised in the first pass.
fn merge_section<E: Entry>(
    entries: &mut Vec<E>,
    other: impl Section<E>,
    mut raised: impl FnMut(usize),
) -> bool {
    let (mut at, mut next, mut new, mut changed) = (0, 0, 0, false);
    loop {
        // Mostly the two have the same keys, so this is kept small.
        while next < other.len() && at < entries.len() {
            let (entry, ours) = (other.get(next), &mut entries[at]);
            if ours.key() != entry.key() {
                break;
            }
            if entry.watermark() > ours.watermark() {
                ours.set_watermark(entry.watermark());
                changed = true;
                raised(at);
            }
            (at, next) = (at + 1, next + 1);
        }
        if next == other.len() {
            break;
        }
        match find_from(entries, at, other.get(next).key()) {
            Ok(found) => at = found,
            Err(larger) => (at, next, new) = (larger, next + 1, new + 1),
        }
    }
    if new == 0 {
        return changed;
    }
    let (mut left, mut right) = (entries.len(), other.len());
    let mut write = left + new;
    entries.resize(write, other.get(0));
    // Everything at and above `write` is final. It meets `left` when no new entry remains.
    while write > left {
        let entry = other.get(right - 1);
        if left > 0 && entries[left - 1].key() >= entry.key() {
            if entries[left - 1].key() == entry.key() {
                right -= 1;
            }
            left -= 1;
            write -= 1;
            entries[write] = entries[left];
        } else {
            right -= 1;
            write -= 1;
            entries[write] = entry;
        }
    }
    true
}

fn dominates_section<E: Entry>(entries: &[E], other: impl Section<E>) -> bool {
    let (mut at, mut next) = (0, 0);
    loop {
        // Mostly the two have the same keys, so this is kept small.
        while next < other.len() && at < entries.len() {
            let (entry, ours) = (other.get(next), &entries[at]);
            if ours.key() != entry.key() {
                break;
            }
            if ours.watermark() < entry.watermark() {
                return false;
            }
            (at, next) = (at + 1, next + 1);
        }
        if next == other.len() {
            return true;
        }
        match find_from(entries, at, other.get(next).key()) {
            Ok(found) => at = found,
            Err(_) => return false,
        }
    }
}

/// Finds the entry with a key at or after `at` (`Ok`), or where it would stand.
#[inline(never)]
fn find_from<E: Entry>(entries: &[E], at: usize, key: E::Key) -> Result<usize, usize> {
    gallop(entries.len(), at, |at| entries[at].key().cmp(&key))
}

#[cfg(test)]
mod tests;
