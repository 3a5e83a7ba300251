//! Judges what a task was handed, by the causes that are known from outside: which command a record came of. It reads no clock.

use std::collections::BTreeMap;
use std::sync::Arc;

use parsley::core::Offset;

/// When a record arrived at a task, and when it was delivered there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handed {
    /// Which one of the arrivals it was, from 0.
    pub arrival: u64,
    /// Which one of the deliveries it was, from 0.
    pub delivery: u64,
}

/// What there is to say about a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The record itself.
    pub handed: Handed,
    /// Its cause, if it has one here, and it was delivered before.
    pub cause: Option<Handed>,
    /// It came before its cause, or not after the record ahead of it on its channel.
    pub is_inversion: bool,
}

impl Verdict {
    /// Whether it would have come before its cause, had the task been handed records as they arrived.
    pub fn is_prevented(&self) -> bool {
        self.cause
            .is_some_and(|cause| self.handed.arrival < cause.arrival)
    }
}

/// A record in the judge's eyes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It may be a cause: another record will name its offset, once.
    Cause,
    /// It came of the cause with this offset.
    Effect(Offset),
    /// It stands alone here.
    Alone,
}

/// Follows one task of a stage.
#[derive(Debug, Default)]
pub struct Judge {
    deliveries: u64,
    last: BTreeMap<Arc<str>, Offset>,
    /// Causes whose effect has not come.
    open: BTreeMap<Offset, Handed>,
}

impl Judge {
    /// Takes note of a delivery.
    pub fn delivered(
        &mut self,
        topic: &Arc<str>,
        offset: Offset,
        arrival: u64,
        role: Role,
    ) -> Verdict {
        let handed = Handed {
            arrival,
            delivery: self.deliveries,
        };
        self.deliveries += 1;
        let before = self.last.insert(Arc::clone(topic), offset);
        let in_order = before.is_none_or(|before| before < offset);
        let (cause, has_cause) = match role {
            Role::Cause => {
                self.open.insert(offset, handed);
                (None, true)
            }
            Role::Effect(offset) => {
                let cause = self.open.remove(&offset);
                (cause, cause.is_some())
            }
            Role::Alone => (None, true),
        };
        Verdict {
            handed,
            cause,
            is_inversion: !in_order || !has_cause,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_effect_before_its_cause_is_an_inversion() {
        let (commands, views): (Arc<str>, Arc<str>) = ("commands".into(), "views".into());
        let mut judge = Judge::default();
        assert!(!judge.delivered(&commands, 3, 0, Role::Cause).is_inversion);
        assert!(judge.delivered(&views, 0, 1, Role::Effect(4)).is_inversion);
        assert!(!judge.delivered(&commands, 4, 2, Role::Cause).is_inversion);
        let effect = judge.delivered(&views, 1, 3, Role::Effect(3));
        assert!(!effect.is_inversion && !effect.is_prevented());
        assert!(
            judge.delivered(&views, 2, 4, Role::Effect(3)).is_inversion,
            "a cause has one effect"
        );
    }

    #[test]
    fn a_channel_out_of_order_is_an_inversion() {
        let events: Arc<str> = "events".into();
        let mut judge = Judge::default();
        assert!(!judge.delivered(&events, 3, 0, Role::Alone).is_inversion);
        assert!(judge.delivered(&events, 3, 1, Role::Alone).is_inversion);
        assert!(judge.delivered(&events, 2, 2, Role::Alone).is_inversion);
        assert!(!judge.delivered(&events, 5, 3, Role::Alone).is_inversion);
    }

    #[test]
    fn an_effect_that_arrived_ahead_of_its_cause_was_prevented_from_coming_first() {
        let (commands, views): (Arc<str>, Arc<str>) = ("commands".into(), "views".into());
        let mut judge = Judge::default();
        judge.delivered(&commands, 0, 5, Role::Cause);
        let verdict = judge.delivered(&views, 0, 2, Role::Effect(0));
        assert!(verdict.is_prevented() && !verdict.is_inversion);
        assert_eq!(
            verdict.handed,
            Handed {
                arrival: 2,
                delivery: 1
            }
        );
        assert_eq!(
            verdict.cause,
            Some(Handed {
                arrival: 5,
                delivery: 0
            })
        );
    }
}
