//! Seeds, as they are typed.

use std::ops::Range;

use crate::plain::clipped;

/// The first number that is no seed: JSON readers take all numbers below it as they are.
pub const SEEDS_END: u64 = 1 << 53;

/// How many seeds there may be at once.
const COUNT_MAX: u64 = 1 << 32;

/// Why a text says no seeds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SeedsError {
    /// It is neither a number nor a range.
    #[error("found seeds {found:?}, expected a range like `0..100` or a seed like `7`")]
    Malformed {
        /// The text.
        found: String,
    },
    /// It is no number.
    #[error("found seed {found:?}, expected a number like `7`")]
    NoNumber {
        /// The text.
        found: String,
    },
    /// A seed is too high.
    #[error("found seed {found}, expected at most {}", SEEDS_END - 1)]
    TooHigh {
        /// The seed, or the end of the range.
        found: u64,
    },
    /// A range with nothing in it.
    #[error("found seeds {start}..{end}, which are none; the end of a range is not in it")]
    Empty {
        /// Where it starts.
        start: u64,
        /// Where it ends.
        end: u64,
    },
    /// More seeds than can be run.
    #[error("found {found} seeds, expected at most {COUNT_MAX}")]
    TooMany {
        /// How many.
        found: u64,
    },
}

/// Reads one seed.
pub fn seed(text: &str) -> Result<u64, SeedsError> {
    let found = number(text).ok_or_else(|| SeedsError::NoNumber {
        found: clipped(text),
    })?;
    if found >= SEEDS_END {
        return Err(SeedsError::TooHigh { found });
    }
    Ok(found)
}

/// Reads `0..100`, or one seed.
pub fn seeds(text: &str) -> Result<Range<u64>, SeedsError> {
    let malformed = || SeedsError::Malformed {
        found: clipped(text),
    };
    let Some((start, end)) = text.split_once("..") else {
        let seed = number(text).ok_or_else(malformed)?;
        if seed >= SEEDS_END {
            return Err(SeedsError::TooHigh { found: seed });
        }
        return Ok(seed..seed + 1);
    };
    let start = number(start).ok_or_else(malformed)?;
    let end = number(end).ok_or_else(malformed)?;
    if end > SEEDS_END {
        return Err(SeedsError::TooHigh { found: end });
    }
    if start >= end {
        return Err(SeedsError::Empty { start, end });
    }
    if end - start > COUNT_MAX {
        return Err(SeedsError::TooMany { found: end - start });
    }
    Ok(start..end)
}

/// Digits and nothing else.
fn number(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_read() {
        assert_eq!(seeds("0..100"), Ok(0..100));
        assert_eq!(seeds("7"), Ok(7..8));
        assert_eq!(seeds("007..8"), Ok(7..8));
        let last = SEEDS_END - 1;
        assert_eq!(seeds(&last.to_string()), Ok(last..SEEDS_END));
        assert_eq!(seeds(&format!("{last}..{SEEDS_END}")), Ok(last..SEEDS_END));
        assert_eq!(seeds("0..4294967296"), Ok(0..COUNT_MAX));
        assert_eq!(seed("7"), Ok(7));
        assert_eq!(seed(&last.to_string()), Ok(last));
    }

    #[test]
    fn what_is_none_is_named() {
        let malformed = [
            "",
            "x",
            "..",
            "1..",
            "..5",
            "1..2..3",
            "0..=5",
            "-1..5",
            "+1",
            "1 ..2",
            "1..99999999999999999999",
        ];
        for text in malformed {
            let found = text.to_owned();
            assert_eq!(seeds(text), Err(SeedsError::Malformed { found }));
        }
        for text in ["", "x", "-1", "1..2", "99999999999999999999"] {
            let found = text.to_owned();
            assert_eq!(seed(text), Err(SeedsError::NoNumber { found }));
        }
        let (start, end) = (5, 5);
        assert_eq!(seeds("5..5"), Err(SeedsError::Empty { start, end }));
        let (start, end) = (6, 5);
        assert_eq!(seeds("6..5"), Err(SeedsError::Empty { start, end }));
        let found = SEEDS_END;
        assert_eq!(
            seeds(&found.to_string()),
            Err(SeedsError::TooHigh { found })
        );
        assert_eq!(seed(&found.to_string()), Err(SeedsError::TooHigh { found }));
        let found = u64::MAX;
        assert_eq!(
            seeds(&format!("0..{found}")),
            Err(SeedsError::TooHigh { found })
        );
        assert_eq!(
            seeds("0..4294967297"),
            Err(SeedsError::TooMany {
                found: COUNT_MAX + 1
            })
        );
    }
}
