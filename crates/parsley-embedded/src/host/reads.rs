//! What a step may read.

use std::collections::BTreeMap;

use parsley_core::Offset;

/// What a step may read of the inputs: everything there is, unless it says less.
///
/// ```
/// use parsley_embedded::Reads;
///
/// // Two records of `orders` at most, nothing of `payments`, everything of the other inputs.
/// let some = Reads::everything().at_most("orders", 2).without("payments");
/// // Of `orders` what stands below offset 7, and nothing else.
/// let few = Reads::nothing().until("orders", 7);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// Whether inputs that are not named are left out.
    named_alone: bool,
    named: BTreeMap<String, ReadLimit>,
}

/// How much of an input a step may read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadLimit {
    without: bool,
    pub(crate) records_max: Option<usize>,
    pub(crate) until: Option<Offset>,
}

impl Reads {
    /// Everything that the host's settings allow for a step.
    pub const fn everything() -> Self {
        Self {
            named_alone: false,
            named: BTreeMap::new(),
        }
    }

    /// Nothing, except of the inputs that are named from here on.
    pub const fn nothing() -> Self {
        Self {
            named_alone: true,
            named: BTreeMap::new(),
        }
    }

    /// Reads a topic, as far as the host's settings and other limits named for it allow.
    #[must_use]
    pub fn with(mut self, topic: impl Into<String>) -> Self {
        self.limit(topic).without = false;
        self
    }

    /// Reads at most this many records of a topic, and the markers and aborted records up to the next. With 0, the position alone advances.
    #[must_use]
    pub fn at_most(mut self, topic: impl Into<String>, records: usize) -> Self {
        self.limit(topic).records_max = Some(records);
        self
    }

    /// Reads nothing of a topic at or above an offset.
    #[must_use]
    pub fn until(mut self, topic: impl Into<String>, offset: Offset) -> Self {
        self.limit(topic).until = Some(offset);
        self
    }

    /// Does not read a topic.
    #[must_use]
    pub fn without(mut self, topic: impl Into<String>) -> Self {
        self.limit(topic).without = true;
        self
    }

    fn limit(&mut self, topic: impl Into<String>) -> &mut ReadLimit {
        self.named.entry(topic.into()).or_default()
    }

    /// How much of a topic is read; `None` when nothing is.
    pub(crate) fn of(&self, topic: &str) -> Option<ReadLimit> {
        match self.named.get(topic) {
            Some(limit) => (!limit.without).then_some(*limit),
            None => (!self.named_alone).then(ReadLimit::default),
        }
    }

    /// The topics that are named.
    pub(crate) fn topics(&self) -> impl Iterator<Item = &str> {
        self.named.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(records_max: Option<usize>, until: Option<Offset>) -> Option<ReadLimit> {
        Some(ReadLimit {
            without: false,
            records_max,
            until,
        })
    }

    #[test]
    fn what_is_not_named_is_read_whole_or_not_at_all() {
        assert_eq!(Reads::default(), Reads::everything());
        let but_a = Reads::everything().without("a").at_most("b", 2);
        assert_eq!(but_a.of("a"), None);
        assert_eq!(but_a.of("b"), limit(Some(2), None));
        assert_eq!(but_a.of("c"), limit(None, None));
        let only_a = Reads::nothing().with("a").at_most("b", 0).until("b", 4);
        assert_eq!(only_a.of("a"), limit(None, None));
        assert_eq!(only_a.of("b"), limit(Some(0), Some(4)));
        assert_eq!(only_a.of("c"), None);
        assert!(only_a.topics().eq(["a", "b"]));
    }

    #[test]
    fn the_last_word_on_a_topic_counts_and_its_limits_stay() {
        let again = Reads::everything().at_most("a", 1).without("a").with("a");
        assert_eq!(again.of("a"), limit(Some(1), None));
        assert_eq!(Reads::nothing().with("a").without("a").of("a"), None);
    }
}
