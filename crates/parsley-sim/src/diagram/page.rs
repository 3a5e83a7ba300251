//! The page around the picture: what the run was, what went wrong, the legend, and what the panel shows of each event.

use std::collections::{BTreeMap, BTreeSet};

use super::columns::Role;
use super::escape::{json, markup, shorten};
use super::layout::Layout;
use super::legend::legend;
use super::picture::{colour, draw, words};
use super::reading::{HoldEnd, Reading, record};
use super::violation::Violation;
use crate::trace::{At, Event, Found, Kind, Trace};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The whole page.
pub(crate) fn page(
    trace: &Trace,
    reading: &Reading,
    violation: &Violation,
    layout: Layout,
) -> String {
    let mut out = String::new();
    let name = markup(&trace.scenario);
    let on_purpose = trace.on_purpose.as_ref().map_or_else(String::new, |wrong| {
        format!(", on purpose: {}", markup(&wrong.name))
    });
    put!(
        &mut out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{name}, seed {}{on_purpose}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n",
        trace.seed
    );
    out.push_str("<header>\n");
    summary(&mut out, trace, reading);
    origin(&mut out, trace);
    if let Some(found) = &trace.violation {
        describe(&mut out, trace, found);
    }
    legend(&mut out, trace);
    out.push_str("</header>\n<main>\n<div class=\"run\">\n");
    heads(&mut out, reading, layout);
    out.push_str(&draw(trace, reading, violation, layout));
    out.push_str("</div>\n<aside><div id=\"panel\" aria-live=\"polite\"></div></aside>\n</main>\n<script id=\"run\" type=\"application/json\">");
    data(&mut out, trace, reading, layout);
    put!(
        &mut out,
        "</script>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n"
    );
    out
}

/// The scenario, the seed, the outcome and the counts.
fn summary(out: &mut String, trace: &Trace, reading: &Reading) {
    let outcome = match &trace.violation {
        None => "<span class=\"outcome good\">no violation</span>".to_owned(),
        Some(found) => format!(
            "<span class=\"outcome ill\">violation: {}</span>",
            markup(&found.rule)
        ),
    };
    put!(
        out,
        "<h1>{} <small>seed {}</small> {outcome}",
        markup(&trace.scenario),
        trace.seed
    );
    if let Some(wrong) = &trace.on_purpose {
        put!(
            out,
            " <span class=\"outcome purpose\">on purpose: {}</span>",
            markup(&wrong.name)
        );
    }
    out.push_str("</h1>\n<dl class=\"counts\">");
    let of = |is_it: fn(&Kind) -> bool| {
        trace
            .events
            .iter()
            .filter(|event| is_it(&event.kind))
            .count()
    };
    let held: BTreeSet<(usize, At)> = reading
        .holds
        .iter()
        .map(|hold| (hold.column, hold.at))
        .collect();
    let counts = [
        ("actors", trace.actors.len()),
        ("events", trace.events.len()),
        ("sends", of(|kind| matches!(kind, Kind::Sent { .. }))),
        (
            "deliveries",
            of(|kind| matches!(kind, Kind::Delivered { .. })),
        ),
        ("held", held.len()),
        ("crashes", of(|kind| matches!(kind, Kind::Crashed { .. }))),
        ("refusals", of(|kind| matches!(kind, Kind::Refused { .. }))),
    ];
    for (name, n) in counts {
        put!(out, "<div><dt>{name}</dt><dd>{n}</dd></div>");
    }
    out.push_str("</dl>\n");
}

/// How the run came about: what is wrong in it on purpose, and the command that runs it again.
fn origin(out: &mut String, trace: &Trace) {
    if trace.on_purpose.is_none() && trace.replay.is_none() {
        return;
    }
    out.push_str("<dl class=\"origin\">");
    if let Some(wrong) = &trace.on_purpose {
        put!(
            out,
            "<dt>wrong on purpose</dt><dd>{}</dd>",
            markup(&wrong.to_string())
        );
    }
    if let Some(command) = &trace.replay {
        put!(
            out,
            "<dt>replay</dt><dd><code>{}</code></dd>",
            markup(command)
        );
    }
    out.push_str("</dl>\n");
}

/// A violation in words, with links to its events.
fn describe(out: &mut String, trace: &Trace, found: &Found) {
    let sent = |at: At| {
        trace
            .events
            .iter()
            .rposition(|event| matches!(&event.kind, Kind::Sent { at: sent, .. } if *sent == at))
    };
    let place = |at: At| {
        let name = markup(&trace.place(at));
        match sent(at) {
            Some(i) => format!("<a href=\"#e{i}\">{name}</a>"),
            None => format!("<span>{name}</span>"),
        }
    };
    put!(
        out,
        "<section class=\"found\" aria-label=\"Violation\"><p>{}</p>\n<dl>",
        markup(&found.text)
    );
    if found.actor.is_some() {
        put!(
            out,
            "<dt>at</dt><dd>{}</dd>",
            markup(trace.actor(found.actor))
        );
    }
    for (name, at) in [("record", found.record), ("at odds with", found.other)] {
        if let Some(at) = at {
            put!(out, "<dt>{name}</dt><dd>{}</dd>", place(at));
        }
    }
    if !found.path.is_empty() {
        let path: Vec<String> = found.path.iter().map(|&at| place(at)).collect();
        put!(
            out,
            "<dt>causal path</dt><dd>{}</dd>",
            path.join(" <i aria-label=\"leads to\">→</i> ")
        );
    }
    out.push_str("</dl></section>\n");
}

/// The names above the lines, which stay in sight.
fn heads(out: &mut String, reading: &Reading, layout: Layout) {
    let tiers = if layout.two_tiers { " tiers" } else { "" };
    put!(
        out,
        "<div class=\"heads{tiers}\" style=\"width:{:.0}px\"><span class=\"step\" style=\"width:{:.0}px\">step</span>",
        layout.width,
        layout.left()
    );
    for (i, column) in reading.columns.all().iter().enumerate() {
        let (class, what) = match column.role {
            Role::Task => ("task", "task"),
            Role::Client => ("client", "edge client"),
            Role::Unknown => ("log", "unknown"),
            Role::Log => ("log", "the log itself"),
        };
        let tier = if layout.two_tiers && i % 2 == 1 {
            " low"
        } else {
            ""
        };
        put!(
            out,
            "<span class=\"head {class}{tier}\" style=\"left:{:.1}px\" title=\"{}, {what}\">{}</span>",
            layout.x(i),
            markup(&column.name),
            markup(&shorten(&column.name, layout.head_max))
        );
    }
    out.push_str("</div>\n");
}

/// What the panel and the highlighting need, as JSON: for each event its place, step, cause, record, texts and holds; the records.
fn data(out: &mut String, trace: &Trace, reading: &Reading, layout: Layout) {
    let mut records: BTreeMap<usize, usize> = BTreeMap::new();
    for (i, event) in trace.events.iter().enumerate() {
        if matches!(event.kind, Kind::Sent { .. }) {
            records.insert(i, records.len());
        }
    }
    out.push_str("{\"events\":[");
    for (i, event) in trace.events.iter().enumerate() {
        let comma = if i == 0 { "" } else { ",\n" };
        put!(
            out,
            "{comma}[{:.1},{:.1},{},{},{},{},{},[{}]]",
            layout.x(reading.column[i]),
            layout.y(i),
            event.step,
            number(reading.cause[i]),
            number(reading.send[i].and_then(|send| records.get(&send).copied())),
            json(&reading.columns.all()[reading.column[i]].name),
            json(&words(trace, &event.kind)),
            remarks(trace, reading, i, event)
                .iter()
                .map(|text| json(text))
                .collect::<Vec<_>>()
                .join(",")
        );
    }
    out.push_str("],\n\"records\":[");
    for (&i, &n) in &records {
        let comma = if n == 0 { "" } else { ",\n" };
        let Kind::Sent { at, clock } = &trace.events[i].kind else {
            continue;
        };
        let fate = reading.fate[i].map_or("", super::reading::Fate::word);
        let claims: Vec<String> = clock
            .split(", ")
            .filter(|claim| !claim.is_empty())
            .map(json)
            .collect();
        put!(
            out,
            "{comma}[{},{},{i},{},[{}]]",
            json(&trace.place(*at)),
            json(&colour(at.channel)),
            json(fate),
            claims.join(",")
        );
    }
    out.push_str("]}");
}

fn number(index: Option<usize>) -> String {
    index.map_or_else(|| "-1".to_owned(), |i| i.to_string())
}

/// How an event's record was held where the event happened, in sentences.
fn remarks(trace: &Trace, reading: &Reading, i: usize, event: &Event) -> Vec<String> {
    let mut all = Vec::new();
    let Some(at) = record(&event.kind) else {
        return all;
    };
    let column = reading.column[i];
    if !matches!(event.kind, Kind::Sent { .. }) {
        for &block in reading.blocks.get(&(column, at)).into_iter().flatten() {
            if let Event {
                step,
                kind: Kind::Held { blocked_by, .. },
                ..
            } = &trace.events[block]
            {
                all.push(format!("step {step}: blocked by {blocked_by}"));
            }
        }
        for hold in reading
            .holds
            .iter()
            .filter(|hold| hold.column == column && hold.at == at)
        {
            let step = |event: usize| trace.events.get(event).map_or(0, |event| event.step);
            all.push(match hold.end {
                HoldEnd::Delivered => format!(
                    "held from step {} to step {}",
                    step(hold.from),
                    step(hold.to)
                ),
                HoldEnd::Down => format!(
                    "held from step {}, until its task went down in step {}",
                    step(hold.from),
                    step(hold.to)
                ),
                HoldEnd::Trace => {
                    format!("held from step {}, until the trace ends", step(hold.from))
                }
            });
        }
    }
    all
}
