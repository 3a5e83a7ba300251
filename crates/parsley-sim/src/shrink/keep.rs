//! Which actions of a run are kept: as data, and as it is typed.

use std::fmt;
use std::str::FromStr;

/// What stands for no action at all.
const NONE: &str = "none";

/// The highest number that an action of a run may have.
pub const INDEX_MAX: usize = 999_999;

/// An action of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its number among the run's actions, from 0.
    pub index: usize,
    /// How many records it may send, or read of a channel, at most; as many as in the run where nothing is said.
    pub records_max: Option<u32>,
}

/// Actions of a run, in order. Typed as `3,7:2,12-15`: the actions 3, 7, and 12 to 15, and of action 7 only two records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keep(Vec<Kept>);

/// Why a text says no actions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeepError {
    /// A part is neither a number, nor a number with a limit, nor a range.
    #[error("found {found:?}, expected `3`, `7:2` or `12-15`")]
    Malformed {
        /// The part.
        found: String,
    },
    /// A number is too high for an action.
    #[error("found action {found}, expected at most {INDEX_MAX}")]
    TooHigh {
        /// The number.
        found: u64,
    },
    /// The numbers do not rise.
    #[error("found action {found} after action {before}, expected numbers that rise")]
    OutOfOrder {
        /// The number.
        found: usize,
        /// The one in front of it.
        before: usize,
    },
}

impl Keep {
    /// These actions.
    ///
    /// # Errors
    ///
    /// When their numbers do not rise, or are too high.
    pub fn new(actions: impl IntoIterator<Item = Kept>) -> Result<Self, KeepError> {
        let mut keep = Self::default();
        for kept in actions {
            keep.push(kept)?;
        }
        Ok(keep)
    }

    /// The actions, in order.
    pub fn actions(&self) -> &[Kept] {
        &self.0
    }

    fn push(&mut self, kept: Kept) -> Result<(), KeepError> {
        if kept.index > INDEX_MAX {
            return Err(KeepError::TooHigh {
                found: kept.index as u64,
            });
        }
        if let Some(last) = self.0.last()
            && kept.index <= last.index
        {
            return Err(KeepError::OutOfOrder {
                found: kept.index,
                before: last.index,
            });
        }
        self.0.push(kept);
        Ok(())
    }
}

impl FromStr for Keep {
    type Err = KeepError;

    fn from_str(text: &str) -> Result<Self, KeepError> {
        let mut keep = Self::default();
        if text == NONE {
            return Ok(keep);
        }
        for part in text.split(',') {
            let malformed = || KeepError::Malformed {
                found: part.chars().take(40).collect(),
            };
            let number = |text: &str| {
                let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
                let number = text.parse::<u64>().ok().filter(|_| digits);
                number.ok_or_else(malformed)
            };
            let index = |text: &str| {
                let found = number(text)?;
                let index = usize::try_from(found).ok();
                let index = index.filter(|&index| index <= INDEX_MAX);
                index.ok_or(KeepError::TooHigh { found })
            };
            if let Some((action, records)) = part.split_once(':') {
                let records_max = u32::try_from(number(records)?).map_err(|_| malformed())?;
                keep.push(Kept {
                    index: index(action)?,
                    records_max: Some(records_max),
                })?;
                continue;
            }
            let (first, last) = match part.split_once('-') {
                Some((first, last)) => (index(first)?, index(last)?),
                None => (index(part)?, index(part)?),
            };
            if first > last {
                return Err(malformed());
            }
            for index in first..=last {
                keep.push(Kept {
                    index,
                    records_max: None,
                })?;
            }
        }
        Ok(keep)
    }
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str(NONE);
        }
        let follows = |pair: &[Kept]| {
            let plain = pair.iter().all(|kept| kept.records_max.is_none());
            plain && pair[0].index + 1 == pair[1].index
        };
        let mut rest = &self.0[..];
        let mut separator = "";
        while let Some(first) = rest.first() {
            f.write_str(separator)?;
            separator = ",";
            let length = 1 + rest.windows(2).take_while(|pair| follows(pair)).count();
            match (first.records_max, length) {
                (Some(records), _) => write!(f, "{}:{records}", first.index)?,
                (None, 1) => write!(f, "{}", first.index)?,
                (None, _) => write!(f, "{}-{}", first.index, first.index + length - 1)?,
            }
            rest = &rest[length..];
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_typed_is_read() {
        let keep: Keep = "3,7:2,12-15".parse().unwrap();
        let read: Vec<_> = keep
            .actions()
            .iter()
            .map(|kept| (kept.index, kept.records_max))
            .collect();
        let expected = [(3, None), (7, Some(2)), (12, None), (13, None), (14, None)];
        assert_eq!(read[..5], expected);
        assert_eq!(read.len(), 6);
        assert_eq!("none".parse::<Keep>(), Ok(Keep::default()));
        assert_eq!(Keep::default().to_string(), "none");
    }

    #[test]
    fn what_is_no_list_of_actions_is_named() {
        let malformed = |found: &str| KeepError::Malformed {
            found: found.to_owned(),
        };
        for (text, error) in [
            ("", malformed("")),
            ("3,", malformed("")),
            ("x", malformed("x")),
            ("+3", malformed("+3")),
            ("1:", malformed("1:")),
            ("1:2:3", malformed("1:2:3")),
            ("1-2:3", malformed("1-2:3")),
            ("4-3", malformed("4-3")),
            ("-3", malformed("-3")),
            ("1:4294967296", malformed("1:4294967296")),
            ("99999999999999999999", malformed("99999999999999999999")),
            ("1000000", KeepError::TooHigh { found: 1_000_000 }),
            (
                "0-18446744073709551615",
                KeepError::TooHigh { found: u64::MAX },
            ),
            (
                "4,4",
                KeepError::OutOfOrder {
                    found: 4,
                    before: 4,
                },
            ),
            (
                "1-5,3",
                KeepError::OutOfOrder {
                    found: 3,
                    before: 5,
                },
            ),
        ] {
            assert_eq!(text.parse::<Keep>(), Err(error), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            actions in prop::collection::btree_map(0..60_usize, prop::option::of(0..9_u32), 0..40),
        ) {
            let kept = actions.into_iter().map(|(index, records_max)| Kept { index, records_max });
            let keep = Keep::new(kept).unwrap();
            prop_assert_eq!(keep.to_string().parse::<Keep>(), Ok(keep));
        }

        #[test]
        fn no_text_is_too_much(text in "[0-9,:-]{0,12}|.{0,12}") {
            if let Ok(keep) = text.parse::<Keep>() {
                prop_assert_eq!(keep.to_string().parse::<Keep>(), Ok(keep));
            }
        }
    }
}
