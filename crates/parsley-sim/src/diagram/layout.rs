//! Where everything stands in the picture.

use super::columns::Columns;
use super::picture::words;
use crate::trace::Trace;

/// The width of a character of the small monospaced face, in pixels.
const CHARACTER: f64 = 6.65;
/// The same of the face beside the events.
const CHARACTER_BESIDE: f64 = 6.05;
/// Space for the numbers of the steps, at the left.
const GUTTER: f64 = 56.0;
/// Space above the first row and below the last.
const MARGIN: f64 = 12.0;
/// The longest text of a row, in characters.
pub(crate) const TEXT_MAX: usize = 40;
/// The longest actor's name of a row, in characters.
pub(crate) const NAME_MAX: usize = 14;

/// The measures of one picture, in pixels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// The distance of two lines.
    pub(crate) column: f64,
    /// The distance of two events.
    pub(crate) row: f64,
    /// How wide the band of a hold is.
    pub(crate) band: f64,
    /// Where the actors' names of the rows begin.
    pub(crate) names_x: f64,
    /// Where the texts of the rows begin.
    pub(crate) texts_x: f64,
    /// The whole width.
    pub(crate) width: f64,
    /// The whole height.
    pub(crate) height: f64,
    /// Whether the names above the lines take turns in two tiers.
    pub(crate) two_tiers: bool,
    /// How many characters of a name fit above a line.
    pub(crate) head_max: usize,
    /// Whether there is room for texts beside the events.
    pub(crate) roomy: bool,
}

/// Where a text stands beside an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// To its left.
    Left,
    /// To its right, and above what leads away from it there.
    Right {
        /// Whether something does.
        raised: bool,
    },
}

impl Layout {
    /// The measures for a trace.
    pub(crate) fn of(trace: &Trace, columns: &Columns) -> Self {
        let lines = columns.all().len();
        let column = (660.0 / count(lines.max(1))).clamp(60.0, 130.0);
        let few = trace.events.len() <= 120;
        let row = if few { 22.0 } else { 17.0 };
        let longest = |max: usize| {
            columns
                .all()
                .iter()
                .map(|c| c.name.chars().count())
                .max()
                .unwrap_or(0)
                .min(max)
        };
        let fits = whole((column - 14.0) / CHARACTER);
        let longest_text = trace
            .events
            .iter()
            .map(|event| words(trace, &event.kind).chars().count())
            .max()
            .unwrap_or(0);
        let two_tiers = longest(usize::MAX) > fits;
        let names_x = GUTTER + column * count(lines) + 22.0;
        let texts_x = names_x + count(longest(NAME_MAX)) * CHARACTER + 12.0;
        Self {
            column,
            row,
            band: if column >= 100.0 { 8.0 } else { 5.0 },
            names_x,
            texts_x,
            width: texts_x + count(longest_text.min(TEXT_MAX)) * CHARACTER + 14.0,
            height: MARGIN * 2.0 + row * count(trace.events.len().max(1)),
            two_tiers,
            head_max: if two_tiers {
                whole((column * 2.0 - 14.0) / CHARACTER)
            } else {
                fits
            },
            roomy: column >= 100.0 && few,
        }
    }

    /// The middle of a line.
    pub(crate) fn x(&self, column: usize) -> f64 {
        GUTTER + self.column * (count(column) + 0.5)
    }

    /// The middle of a row.
    pub(crate) fn y(&self, event: usize) -> f64 {
        MARGIN + self.row * (count(event) + 0.5)
    }

    /// Where a text beside an event of a line has room up to the next line, or up to the step's number: to its left or right.
    pub(crate) fn room(&self, column: usize, text: &str, prefer_left: bool) -> Option<Side> {
        let needs = count(text.chars().count()) * CHARACTER_BESIDE + 12.0;
        let left = if column == 0 {
            self.column / 2.0 + 14.0
        } else {
            self.column - 8.0
        };
        match (
            self.roomy && needs < self.column - 8.0,
            prefer_left && needs < left,
        ) {
            (false, _) => None,
            (true, true) => Some(Side::Left),
            (true, false) => Some(Side::Right {
                raised: prefer_left,
            }),
        }
    }

    /// The upper edge of a row.
    pub(crate) fn top(&self, event: usize) -> f64 {
        MARGIN + self.row * count(event)
    }

    /// Where the lines and their arrows begin.
    pub(crate) fn left(&self) -> f64 {
        GUTTER
    }
}

/// A count as a measure. Pictures are far smaller than what a measure cannot tell apart.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts of events and lines are small"
)]
pub(crate) fn count(n: usize) -> f64 {
    n as f64
}

/// The whole part of a measure, 0 for what is below.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped before"
)]
fn whole(x: f64) -> usize {
    x.clamp(0.0, 10_000.0) as usize
}
