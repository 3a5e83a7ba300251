//! The SVG: lines, holds, arrows, events, and the text of each row.

use std::collections::BTreeMap;

use super::columns::Role;
use super::escape::{markup, shorten};
use super::layout::{Layout, NAME_MAX, Side, TEXT_MAX, count};
use super::mark::Mark;
use super::reading::{Fate, HoldEnd, Reading};
use super::violation::Violation;
use crate::trace::{Kind, Trace};

/// How many colours the channels take turns with.
pub(crate) const COLOURS: usize = 8;
/// How many holds stand beside each other before they are drawn over each other.
const LANES: usize = 4;

/// An SVG under construction.
pub(crate) struct Picture<'t> {
    trace: &'t Trace,
    reading: &'t Reading,
    violation: &'t Violation,
    layout: Layout,
    out: String,
}

/// Draws a trace.
pub(crate) fn draw(
    trace: &Trace,
    reading: &Reading,
    violation: &Violation,
    layout: Layout,
) -> String {
    let mut picture = Picture {
        trace,
        reading,
        violation,
        layout,
        out: String::new(),
    };
    let (width, height) = (layout.width, layout.height);
    put!(
        &mut picture.out,
        "<svg id=\"picture\" role=\"group\" aria-label=\"Space-time diagram\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\">\n"
    );
    picture.rows();
    picture.lines();
    picture.holds();
    picture.out.push_str("<g id=\"path\"></g>\n");
    picture.arrows();
    picture.violation();
    picture.events();
    picture.out.push_str("</svg>\n");
    picture.out
}

/// A row's text: what happened, without what the panel tells in full.
pub(crate) fn words(trace: &Trace, kind: &Kind) -> String {
    match kind {
        Kind::Started { restored: 0 } => "started".to_owned(),
        Kind::Started { restored } => format!("started, {restored} held restored"),
        Kind::Crashed { mid_step: true } => "crashed within a step".to_owned(),
        Kind::Crashed { mid_step: false } => "crashed".to_owned(),
        Kind::Refused { code, found } => format!("refused {code}: {found}"),
        Kind::Sent { at, .. } => format!("sent {}", trace.place(*at)),
        Kind::Committed => "committed".to_owned(),
        Kind::Aborted => "aborted".to_owned(),
        Kind::Received { at } => format!("received {}", trace.place(*at)),
        Kind::Dropped { at } => format!("dropped {}", trace.place(*at)),
        Kind::Held { at, blocked_by } => format!("holds {} for {blocked_by}", trace.place(*at)),
        Kind::Delivered {
            at,
            was_held: false,
        } => format!("delivered {}", trace.place(*at)),
        Kind::Delivered { at, was_held: true } => {
            format!("delivered {}, held before", trace.place(*at))
        }
        Kind::Advanced { channel, next } => {
            format!(
                "is past {}@{}",
                trace.channel(*channel),
                next.saturating_sub(1)
            )
        }
        Kind::Note(text) => text.clone(),
    }
}

/// The class that gives an element its channel's colour.
pub(crate) fn colour(channel: usize) -> String {
    format!("c{}", channel % COLOURS)
}

impl Picture<'_> {
    /// The rows: a background for each step, the step's number, what happened. They are what a pointer finds between the arrows.
    fn rows(&mut self) {
        let l = self.layout;
        let mut odd = false;
        for (i, event) in self.trace.events.iter().enumerate() {
            let first = i == 0 || self.trace.events[i - 1].step != event.step;
            odd ^= first && i > 0;
            let bad = if self.violation.events.contains(&i) {
                " bad"
            } else {
                ""
            };
            let odd_class = if odd { " odd" } else { "" };
            let (top, y) = (l.top(i), l.y(i) + 3.8);
            put!(
                &mut self.out,
                "<g class=\"row{odd_class}{bad}\" data-i=\"{i}\">"
            );
            put!(
                &mut self.out,
                "<rect x=\"0\" y=\"{top:.1}\" width=\"{:.0}\" height=\"{:.1}\"/>",
                l.width,
                l.row
            );
            if first {
                put!(
                    &mut self.out,
                    "<text class=\"step\" x=\"38\" y=\"{y:.1}\">{}</text>",
                    event.step
                );
            }
            let column = &self.reading.columns.all()[self.reading.column[i]];
            put!(
                &mut self.out,
                "<text class=\"who\" x=\"{:.1}\" y=\"{y:.1}\">{}</text><text class=\"what {}\" x=\"{:.1}\" y=\"{y:.1}\">{}</text></g>\n",
                l.names_x,
                markup(&shorten(&column.name, NAME_MAX)),
                Mark::of(&event.kind).class(),
                l.texts_x,
                markup(&shorten(&words(self.trace, &event.kind), TEXT_MAX)),
            );
        }
    }

    /// The vertical lines, interrupted while a task is down.
    fn lines(&mut self) {
        let l = self.layout;
        for (column, line) in self.reading.columns.all().iter().enumerate() {
            let class = match line.role {
                Role::Task => "task",
                Role::Client => "client",
                Role::Unknown | Role::Log => "log",
            };
            let x = l.x(column);
            let mut y = 0.0;
            for down in self
                .reading
                .downs
                .iter()
                .filter(|down| down.column == column)
            {
                let from = down.from.map_or(0.0, |i| l.y(i));
                let to = down.to.map_or(l.height, |i| l.y(i));
                if from > y {
                    put!(
                        &mut self.out,
                        "<path class=\"line {class}\" d=\"M{x:.1} {y:.1}V{from:.1}\"/>"
                    );
                }
                put!(
                    &mut self.out,
                    "<path class=\"line down\" d=\"M{x:.1} {from:.1}V{to:.1}\"/>"
                );
                y = to;
            }
            if y < l.height {
                put!(
                    &mut self.out,
                    "<path class=\"line {class}\" d=\"M{x:.1} {y:.1}V{:.1}\"/>",
                    l.height
                );
            }
            self.out.push('\n');
        }
    }

    /// The bands beside the lines in which a record was held. Holds of one line that overlap stand beside each other.
    fn holds(&mut self) {
        let l = self.layout;
        let mut holds: Vec<_> = self.reading.holds.iter().collect();
        holds.sort_by_key(|hold| (hold.column, hold.from, hold.to, hold.at));
        let mut lanes: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for hold in holds {
            let taken = lanes.entry(hold.column).or_default();
            let lane = taken
                .iter()
                .position(|&until| until <= hold.from)
                .unwrap_or(taken.len());
            taken.resize(taken.len().max(lane + 1), 0);
            taken[lane] = hold.to;
            let lane = count(lane.min(LANES - 1));
            let (x, y) = (
                l.x(hold.column) + 2.0 + lane * (l.band + 2.0),
                l.y(hold.from),
            );
            let bottom = if hold.end == HoldEnd::Trace {
                l.height
            } else {
                l.y(hold.to)
            };
            let height = (bottom - y).max(2.0);
            let (open, until) = match hold.end {
                HoldEnd::Delivered => ("", "until it was delivered"),
                HoldEnd::Down => (" open", "until its task went down"),
                HoldEnd::Trace => (" open", "until the trace ends"),
            };
            put!(
                &mut self.out,
                "<rect class=\"hold{open} {}\" data-i=\"{}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{height:.1}\" rx=\"2\">\
                 <title>{} was held {until}</title></rect>\n",
                colour(hold.at.channel),
                if hold.end == HoldEnd::Delivered {
                    hold.to
                } else {
                    hold.received
                },
                l.band,
                markup(&self.trace.place(hold.at)),
            );
        }
    }

    /// An arrow from each send to each of its deliveries, and a broken stub for a send that was aborted.
    fn arrows(&mut self) {
        let l = self.layout;
        for (i, event) in self.trace.events.iter().enumerate() {
            let to = (l.x(self.reading.column[i]), l.y(i));
            match (&event.kind, self.reading.send[i]) {
                (Kind::Delivered { at, .. }, Some(send)) => {
                    let from = (l.x(self.reading.column[send]), l.y(send));
                    let what = if self.violation.pair.contains(&(send, i)) {
                        " pair"
                    } else if self.violation.events.contains(&i) {
                        " bad"
                    } else if self.reading.fate[send] == Some(Fate::Aborted) {
                        " aborted"
                    } else {
                        ""
                    };
                    let d = arrow(from, to, l.column);
                    put!(
                        &mut self.out,
                        "<g class=\"arrow{what} {}\" data-i=\"{i}\" data-from=\"{send}\"><path class=\"hit\" d=\"{d}\"/><path d=\"{d}\"/></g>\n",
                        colour(at.channel)
                    );
                }
                (Kind::Sent { at, .. }, _) if self.reading.fate[i] == Some(Fate::Aborted) => {
                    let (x, y) = (to.0 + l.column * 0.3, to.1 + l.row * 0.7);
                    put!(
                        &mut self.out,
                        "<path class=\"stub {}\" d=\"M{:.1} {:.1}L{x:.1} {y:.1}\"/><path class=\"cut\" d=\"M{:.1} {:.1}l6 6m0 -6l-6 6\"/>\n",
                        colour(at.channel),
                        to.0,
                        to.1,
                        x - 3.0,
                        y - 3.0,
                    );
                }
                _ => {}
            }
        }
    }

    /// The violating pair and the path between the two, in red.
    fn violation(&mut self) {
        let l = self.layout;
        let point = |i: usize| (l.x(self.reading.column[i]), l.y(i));
        for chain in &self.violation.chains {
            self.out.push_str("<path class=\"violating\" d=\"");
            for (n, &i) in chain.iter().enumerate() {
                let (x, y) = point(i);
                put!(
                    &mut self.out,
                    "{}{x:.1} {y:.1}",
                    if n == 0 { 'M' } else { 'L' }
                );
            }
            self.out.push_str("\"/>\n");
        }
        for &i in &self.violation.events {
            let (x, y) = point(i);
            put!(
                &mut self.out,
                "<circle class=\"violating\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"8\"/>\n"
            );
        }
    }

    /// The events themselves, each with its mark, and where there is room the place of what was sent.
    fn events(&mut self) {
        let l = self.layout;
        // Where the first arrow of each send goes, so that its text can stand on the other side.
        let mut goes_left: BTreeMap<usize, bool> = BTreeMap::new();
        for (i, event) in self.trace.events.iter().enumerate() {
            if let (Kind::Delivered { .. }, Some(send)) = (&event.kind, self.reading.send[i]) {
                goes_left
                    .entry(send)
                    .or_insert(self.reading.column[i] < self.reading.column[send]);
            }
        }
        for (i, event) in self.trace.events.iter().enumerate() {
            let column = self.reading.column[i];
            let (x, y) = (l.x(column), l.y(i));
            let hue = super::reading::record(&event.kind)
                .map(|at| colour(at.channel))
                .unwrap_or_default();
            put!(
                &mut self.out,
                "<g id=\"e{i}\" class=\"event {} {hue}\" data-i=\"{i}\" tabindex=\"{}\" role=\"button\" \
                 aria-label=\"step {}, {}: {}\" transform=\"translate({x:.1} {y:.1})\"><circle class=\"hit\" r=\"9\"/>{}",
                Mark::of(&event.kind).class(),
                if i == 0 { 0 } else { -1 },
                event.step,
                markup(&self.reading.columns.all()[column].name),
                markup(&words(self.trace, &event.kind)),
                Mark::of(&event.kind).shape(),
            );
            if let Kind::Sent { at, .. } = &event.kind {
                let place = shorten(&self.trace.place(*at), TEXT_MAX);
                let aborted = self.reading.fate[i] == Some(Fate::Aborted);
                let side = l.room(column, &place, aborted || goes_left.get(&i) == Some(&false));
                if let Some(side) = side {
                    let (anchor, x, y) = match side {
                        Side::Left => ("end", -9.0, 3.5),
                        Side::Right { raised: false } => ("start", 9.0, 3.5),
                        Side::Right { raised: true } => ("start", 7.0, -5.0),
                    };
                    put!(
                        &mut self.out,
                        "<text class=\"place\" text-anchor=\"{anchor}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>",
                        markup(&place)
                    );
                }
            }
            self.out.push_str("</g>\n");
        }
    }
}

/// The path of an arrow, which ends short of its target's mark. An arrow to its own line bends aside.
fn arrow((x1, y1): (f64, f64), (x2, y2): (f64, f64), column: f64) -> String {
    let same = (x1 - x2).abs() < 0.5;
    let (cx, cy) = if same {
        (x1 - column * 0.36, f64::midpoint(y1, y2))
    } else {
        (x1, y1)
    };
    let (dx, dy) = (x2 - cx, y2 - cy);
    let length = (dx * dx + dy * dy).sqrt().max(1.0);
    let (ux, uy) = (dx / length, dy / length);
    let (tx, ty) = (x2 - ux * 6.0, y2 - uy * 6.0);
    let (bx, by) = (tx - ux * 7.0, ty - uy * 7.0);
    let (nx, ny) = (-uy * 3.2, ux * 3.2);
    let shaft = if same {
        format!("Q{cx:.1} {cy:.1} {tx:.1} {ty:.1}")
    } else {
        format!("L{tx:.1} {ty:.1}")
    };
    format!(
        "M{x1:.1} {y1:.1}{shaft}M{:.1} {:.1}L{tx:.1} {ty:.1}L{:.1} {:.1}",
        bx + nx,
        by + ny,
        bx - nx,
        by - ny
    )
}
