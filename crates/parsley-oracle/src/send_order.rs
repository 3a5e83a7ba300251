//! Which sends of one step have happened before one another.

use crate::record::{Of, Record, Sent};

/// Which of an actor's earlier sends are causes of a later one *within one step* (`docs/protocol.md`, Send order; decision S12). All sends of
/// a committed step are causes of all sends of the later ones whatever is said here, and sends of one step to one channel are ordered as
/// emitted. Both go on transitively: what came before a cause is a cause. What is sent for ticks ([`Oracle::ticks_on`](crate::Oracle::ticks_on)) is
/// ordered by tick, under `PerKey` and `PerDelivery` alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOrder {
    /// Every send comes after all that were emitted before it: a producer that does one thing after the other.
    Sequential,
    /// The sends of one delivery as emitted, and those of deliveries with the same key by delivery.
    PerKey {
        /// Whether deliveries with a null key count as deliveries of one key (a stateful stage), or as unrelated.
        null_is_key: bool,
    },
    /// The sends of one delivery as emitted.
    PerDelivery,
    /// The sends of one delivery as emitted, and nothing else: those of a committed step are no causes of later ones either. For who watches from
    /// outside, and does not know which deliveries were one step: it asks for less than what holds, and never for what does not. Each delivery
    /// is committed for itself then (decision K32).
    WithinDelivery,
}

impl SendOrder {
    /// Whether all sends of a committed step are causes of all sends of the later ones.
    pub(crate) fn goes_over_steps(self) -> bool {
        self != Self::WithinDelivery
    }
}

impl SendOrder {
    /// Whether `earlier` is a direct cause of `later`, where both were sent by one actor of this order and `earlier` was emitted first.
    pub(crate) fn relates(self, earlier: &Record, later: &Record) -> bool {
        if earlier.step < later.step {
            return self.goes_over_steps();
        }
        if earlier.channel == later.channel {
            return true;
        }
        match self {
            Self::Sequential => true,
            Self::WithinDelivery => same_delivery(earlier.sent, later.sent),
            Self::PerDelivery => {
                same_delivery(earlier.sent, later.sent) || both_of_ticks(earlier.sent, later.sent)
            }
            Self::PerKey { null_is_key } => {
                same_delivery(earlier.sent, later.sent)
                    || both_of_ticks(earlier.sent, later.sent)
                    || same_key(earlier.sent, later.sent, null_is_key)
            }
        }
    }
}

fn same_delivery(earlier: Sent, later: Sent) -> bool {
    match (earlier, later) {
        (Sent::For { input: earlier, .. }, Sent::For { input: later, .. }) => earlier == later,
        _ => false,
    }
}

fn same_key(earlier: Sent, later: Sent, null_is_key: bool) -> bool {
    match (key(earlier), key(later)) {
        (Some(earlier), Some(later)) => earlier == later && (null_is_key || later.is_some()),
        _ => false,
    }
}

/// The key of the delivery, if it is one of a key.
fn key(sent: Sent) -> Option<Option<u64>> {
    match sent {
        Sent::For {
            of: Of::Key(key), ..
        } => Some(key),
        Sent::For { of: Of::Ticks, .. } | Sent::Unprompted => None,
    }
}

fn both_of_ticks(earlier: Sent, later: Sent) -> bool {
    let of_tick = |sent| matches!(sent, Sent::For { of: Of::Ticks, .. });
    of_tick(earlier) && of_tick(later)
}
