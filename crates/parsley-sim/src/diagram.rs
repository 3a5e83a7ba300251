//! Space-time diagrams: one page that shows who sent, held and delivered what in a run, and why.
//!
//! Time runs downward with a row for each event, and each actor has a vertical line. An arrow leads from a send to each of
//! its deliveries, a band beside a task's line shows how long a record was held there. Pointing at an event or an arrow, or reaching it
//! with the arrow keys, shows the record's clock, what blocked it, and the path along which it came to be.
//! The page is complete in itself: it loads nothing and refuses to.

/// Appends formatted text to a `String`.
macro_rules! put {
    ($out:expr, $($arg:tt)*) => {
        std::fmt::Write::write_fmt($out, format_args!($($arg)*))
            .expect("writing to a String does not fail")
    };
}

mod columns;
mod escape;
mod layout;
mod legend;
mod mark;
mod page;
mod picture;
mod reading;
mod violation;

pub(crate) use columns::{Column, Columns};
pub(crate) use escape::json;

use crate::trace::Trace;

/// Draws a run as a self-contained HTML page. The same trace gives the same page, byte for byte.
///
/// Any trace can be drawn: what its numbers point to and it does not have is left out or shown as `?`.
pub fn html(trace: &Trace) -> String {
    let reading = reading::Reading::of(trace);
    let violation = violation::Violation::of(trace, &reading);
    let layout = layout::Layout::of(trace, &reading.columns);
    page::page(trace, &reading, &violation, layout)
}
