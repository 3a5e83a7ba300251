//! A run as a log for the ShiViz tool, which draws happened-before from vector clocks.
//!
//! # How to look at one
//!
//! Open ShiViz in a browser and go to its input page.
//!
//! - As a file: choose it with the page's button for log files. Its first line is the parser's regular expression, its second, empty one says that there
//!   is a single execution, and the log follows.
//! - By pasting: the first line into the field for the parser's regular expression, the third line and all that follow into the
//!   field for the log. The field for the delimiter of executions stays empty.
//!
//! For the lines to stand in the order of the run's actors, choose to arrange processes by their order in the log, ascending: each host
//! begins with an event `begins`, and these come first in the log, from left to right.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::diagram::{Column, Columns, json};
use crate::trace::{At, Kind, Trace};

/// How a line pair of the log is taken apart: the host and its clock, and on the next line the event.
pub const PARSER: &str = r"(?<host>\S*) (?<clock>{.*})\n(?<event>.*)";

/// A vector clock: for each host that was heard of, how many of its events are in the past or the present.
type VectorClock = BTreeMap<usize, u64>;

/// Writes a run as a ShiViz log.
///
/// The clocks are those of the run as it was seen from outside, not the ones that records carry: each host counts its own events from 1
/// without a gap, and a delivery takes over what the record's sender had seen when it sent it. A record that was received and not yet delivered
/// has told its host nothing.
pub fn shiviz(trace: &Trace) -> String {
    let columns = Columns::of(trace);
    let hosts = hosts(&columns);
    let mut clocks: Vec<VectorClock> = vec![VectorClock::new(); hosts.len()];
    let mut sent: BTreeMap<At, VectorClock> = BTreeMap::new();
    let mut out = format!("{PARSER}\n\n");
    for (host, clock) in clocks.iter_mut().enumerate() {
        clock.insert(host, 1);
        entry(&mut out, &hosts, host, clock, "begins");
    }
    for event in &trace.events {
        let host = columns.index(event.actor);
        let clock = &mut clocks[host];
        if let Kind::Delivered { at, .. } = &event.kind {
            for (&other, &n) in sent.get(at).into_iter().flatten() {
                let known = clock.entry(other).or_insert(0);
                *known = n.max(*known);
            }
        }
        *clock.entry(host).or_insert(0) += 1;
        if let Kind::Sent { at, .. } = &event.kind {
            sent.insert(*at, clock.clone());
        }
        entry(
            &mut out,
            &hosts,
            host,
            clock,
            &format!("{} (step {})", trace.text(event), event.step),
        );
    }
    out
}

/// Writes one event: its host, its clock with the own entry first, and what happened on a line of its own.
fn entry(out: &mut String, hosts: &[String], host: usize, clock: &VectorClock, text: &str) {
    let own = clock.iter().filter(|&(&other, _)| other == host);
    let rest = clock.iter().filter(|&(&other, _)| other != host);
    let claims: Vec<String> = own
        .chain(rest)
        .map(|(&other, n)| format!("{}:{n}", json(&hosts[other])))
        .collect();
    let text: String = text
        .chars()
        .map(|c| {
            if c.is_control() || is_line_end(c) {
                ' '
            } else {
                c
            }
        })
        .collect();
    writeln!(out, "{} {{{}}}\n{text}", hosts[host], claims.join(","))
        .expect("writing to a String does not fail");
}

/// Whether a regular expression of JavaScript ends a line here, besides at control characters.
fn is_line_end(c: char) -> bool {
    matches!(c, '\u{2028}' | '\u{2029}')
}

/// A name for each column that is one word and no one else's. Braces would be taken for a clock, and quotes would be escaped in one.
fn hosts(columns: &Columns) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let name = |column: &Column| {
        let plain = |c: char| {
            if c.is_alphanumeric() || "/:'.+-@?".contains(c) {
                c
            } else {
                '_'
            }
        };
        let mut name: String = column.name.chars().map(plain).collect();
        if name.is_empty() {
            name.push('_');
        }
        while !taken.insert(name.clone()) {
            name.push('\'');
        }
        name
    };
    columns.all().iter().map(name).collect()
}
