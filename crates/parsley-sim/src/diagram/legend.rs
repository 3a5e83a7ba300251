//! What the marks, lines and colours mean.

use std::collections::BTreeSet;

use super::escape::markup;
use super::mark::Mark;
use super::picture::colour;
use super::reading::record;
use crate::trace::Trace;

/// How many channels the legend names.
const CHANNELS_MAX: usize = 24;

/// What is drawn besides marks: width, shape, meaning.
const DRAWN: [(u32, &str, &str); 5] = [
    (
        24,
        "<rect class=\"hold c0\" x=\"8\" y=\"1\" width=\"8\" height=\"16\" rx=\"2\"/>",
        "held",
    ),
    (28, "<path class=\"stub\" d=\"M2 9H26\"/>", "aborted send"),
    (20, "<path class=\"line task\" d=\"M10 0V18\"/>", "task"),
    (
        20,
        "<path class=\"line client\" d=\"M10 0V18\"/>",
        "edge client",
    ),
    (
        20,
        "<path class=\"line down\" d=\"M10 0V18\"/>",
        "not running",
    ),
];

/// The same for a run with a violation.
const VIOLATING: [(u32, &str, &str); 2] = [
    (
        28,
        "<path class=\"violating\" d=\"M2 9H26\"/>",
        "the real causal path",
    ),
    (
        28,
        "<g class=\"arrow pair\"><path d=\"M2 9H26\"/></g>",
        "the pair at odds",
    ),
];

/// Writes the legend of a trace.
pub(crate) fn legend(out: &mut String, trace: &Trace) {
    out.push_str("<ul class=\"legend\">");
    for mark in Mark::ALL {
        put!(
            out,
            "<li><svg width=\"18\" height=\"18\" viewBox=\"-9 -9 18 18\" aria-hidden=\"true\">\
             <g class=\"event c0 {}\">{}</g></svg>{}</li>",
            mark.class(),
            mark.shape(),
            mark.meaning()
        );
    }
    let violating = if trace.violation.is_some() {
        &VIOLATING[..]
    } else {
        &[]
    };
    for (width, shape, meaning) in DRAWN.iter().chain(violating) {
        put!(
            out,
            "<li><svg width=\"{width}\" height=\"18\" aria-hidden=\"true\">{shape}</svg>{meaning}</li>"
        );
    }
    out.push_str("</ul>\n");
    channels(out, trace);
}

/// The channels that the picture shows records of, with their colours.
fn channels(out: &mut String, trace: &Trace) {
    let used: BTreeSet<usize> = trace
        .events
        .iter()
        .filter_map(|event| record(&event.kind))
        .map(|at| at.channel)
        .collect();
    out.push_str("<ul class=\"legend channels\" aria-label=\"Channels\">");
    for &channel in used.iter().take(CHANNELS_MAX) {
        put!(
            out,
            "<li class=\"{}\"><b></b>{}</li>",
            colour(channel),
            markup(trace.channel(channel))
        );
    }
    if used.len() > CHANNELS_MAX {
        put!(out, "<li>and {} more</li>", used.len() - CHANNELS_MAX);
    }
    out.push_str("</ul>\n");
}
