//! What the demo shows: for people, or as lines of JSON.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use serde_json::json;

use super::audit::Summary;
use super::command::Command;
use super::holds::{Held, Until};
use super::judge::Handed;
use super::topology::At;
use crate::style::Style;

/// How many holds are shown to people.
const ROWS: usize = 6;
/// How wide the column of what was held is.
const HELD_WIDTH: usize = 38;
/// How wide the column of the order of arrival is.
const ARRIVED_WIDTH: usize = 21;

/// Where the demo shows what it sees.
pub enum Screen<W> {
    /// For people.
    Table {
        /// Where to.
        out: W,
        /// With or without colour.
        style: Style,
        /// The holds that ended first in their partitions, by how many deliveries had been made there: the same in whatever order the
        /// partitions are read.
        rows: BTreeMap<(u64, i32, Arc<str>), Held>,
    },
    /// For programs.
    Json {
        /// Where to.
        out: W,
    },
}

impl<W: Write> Screen<W> {
    /// A screen for people.
    pub fn table(out: W) -> Self {
        Self::Table {
            out,
            style: Style::of_stdout(),
            rows: BTreeMap::new(),
        }
    }

    /// Lines of JSON.
    pub fn json(out: W) -> Self {
        Self::Json { out }
    }

    /// Says what will be shown.
    pub fn begin(&mut self) -> io::Result<()> {
        let Self::Table { out, style, .. } = self else {
            return Ok(());
        };
        writeln!(
            out,
            "{}\n\n\
             Commands change the balance of an account. The projector shows the balance\n\
             after each of them as a view, and a reconciler reads commands and views and\n\
             compares. It has to see a command before the view that came of it, and an\n\
             adversary brings it the commands late.\n",
            style.strong("commands → commander → events → projector → views")
        )?;
        out.flush()
    }

    /// Shows a record that had to wait.
    pub fn held(&mut self, held: Held) -> io::Result<()> {
        match self {
            // A full step is a reason to wait as well, and nothing to look at.
            Self::Table { .. } if held.cause.is_none() => Ok(()),
            Self::Table { rows, .. } => {
                let place = (
                    held.handed.delivery,
                    held.record.partition,
                    Arc::clone(&held.stage),
                );
                rows.insert(place, held);
                if rows.len() > ROWS {
                    rows.pop_last();
                }
                Ok(())
            }
            Self::Json { out } => {
                serde_json::to_writer(&mut *out, &held_line(&held))?;
                out.write_all(b"\n")
            }
        }
    }

    /// Confirms how many lines of this run are taken for good.
    pub fn taken(&mut self, lines: u64) -> io::Result<()> {
        match self {
            Self::Table { .. } => Ok(()),
            Self::Json { out } => {
                serde_json::to_writer(&mut *out, &json!({"taken": {"lines": lines}}))?;
                out.write_all(b"\n")
            }
        }
    }

    /// Hands out what was shown so far.
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Table { out, .. } | Self::Json { out } => out.flush(),
        }
    }

    /// Shows how it all came out.
    pub fn end(&mut self, summary: &Summary) -> io::Result<()> {
        match self {
            Self::Json { out } => {
                serde_json::to_writer(&mut *out, &json!({ "summary": summary }))?;
                out.write_all(b"\n")?;
                out.flush()
            }
            Self::Table { out, style, rows } => {
                if !rows.is_empty() {
                    let rows: Vec<&Held> = rows.values().collect();
                    write_rows(out, *style, &rows, summary.held)?;
                }
                write_totals(out, *style, summary)?;
                out.flush()
            }
        }
    }
}

fn held_line(held: &Held) -> serde_json::Value {
    let at = |at: &At| json!({"topic": at.topic, "partition": at.partition, "offset": at.offset});
    let handed = |handed: &Handed| json!({"arrival": handed.arrival, "delivery": handed.delivery});
    let until = match &held.until {
        Until::Delivered { cause, code } => json!({"record": at(cause), "code": code}),
        Until::Sent {
            channel,
            sequence,
            code,
        } => json!({"sends": channel, "sequence": sequence, "code": code}),
        Until::Ahead(ahead) => json!({"ahead": at(ahead)}),
        Until::NextStep => json!({"step": "next"}),
    };
    json!({"held": {
        "stage": &*held.stage,
        "record": at(&held.record),
        "key": held.key,
        "until": until,
        "handed": handed(&held.handed),
        "cause": held.cause.as_ref().map(|cause| at(&cause.at)),
        "cause_handed": held.cause_handed.as_ref().map(handed),
        "command": held.cause.as_ref().and_then(|cause| cause.command),
        "inversion_prevented": held.is_prevented,
    }})
}

fn write_rows(out: &mut impl Write, style: Style, rows: &[&Held], held: u64) -> io::Result<()> {
    let shown = grouped(rows.len() as u64);
    writeln!(
        out,
        "{} {}",
        style.strong("What had to wait"),
        style.faint(format!("({shown} of {})", grouped(held)))
    )?;
    let legend = rows.first().map_or_else(String::new, |row| {
        let At {
            topic,
            partition,
            offset,
        } = &row.record;
        format!(
            "{} is offset {offset} of partition {partition} of {topic}. 1st, 2nd ... count what one\n\
             partition of the reconciler received, and what was delivered to it.",
            row.record
        )
    });
    writeln!(out, "{}\n", style.faint(legend))?;
    writeln!(
        out,
        "  {}",
        style.faint(format!(
            "{:<HELD_WIDTH$}{:<ARRIVED_WIDTH$}as delivered",
            "a view, and its command", "in order of arrival"
        ))
    )?;
    for row in rows {
        write_row(out, style, row)?;
    }
    writeln!(out)
}

/// Two lines: what was held and for what, each with its place in the two orders beside it, first things first.
fn write_row(out: &mut impl Write, style: Style, row: &Held) -> io::Result<()> {
    let orders = |at: fn(&Handed) -> u64| match &row.cause_handed {
        Some(cause) => in_order(at(&row.handed), at(cause)),
        None => [format!("view {}", ordinal(at(&row.handed))), String::new()],
    };
    let arrived = orders(|handed| handed.arrival);
    let delivered = orders(|handed| handed.delivery);
    // Behind another record it has to wait for that, and for its own cause; the cause is what matters.
    let held = match &row.cause {
        Some(cause) => [
            format!("{} of {}", row.record, cause.at),
            format!("  {}", asked(&row.key, cause.command, HELD_WIDTH - 3)),
        ],
        None => [row.record.to_string(), format!("  until {}", row.until)],
    };
    let marks = if row.is_prevented {
        ["✗", " "]
    } else {
        ["·", " "]
    };
    let lines = held
        .iter()
        .zip(marks)
        .zip(arrived)
        .zip(delivered)
        .zip(["✓", " "]);
    for ((((held, mark), arrived), delivered), good) in lines {
        let arrived = format!("{mark} {arrived:<width$}", width = ARRIVED_WIDTH - 2);
        let arrived = if row.is_prevented {
            style.bad(arrived)
        } else {
            style.faint(arrived)
        };
        let delivered = style.good(format!("{good} {delivered}"));
        let space = " ".repeat(HELD_WIDTH.saturating_sub(columns(held)));
        writeln!(out, "  {held}{space}{arrived}{delivered}")?;
    }
    Ok(())
}

/// The view and its command, first things first.
fn in_order(view: u64, command: u64) -> [String; 2] {
    let (view_at, command_at) = (ordinal(view), ordinal(command));
    if view < command {
        [
            format!("view {view_at}"),
            format!("its command {command_at}"),
        ]
    } else {
        [
            format!("command {command_at}"),
            format!("its view {view_at}"),
        ]
    }
}

/// The place in an order that counts from 0, in words that count from 1.
fn ordinal(index: u64) -> String {
    let place = u128::from(index) + 1;
    let suffix = match (place % 100, place % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{place}{suffix}")
}

/// What a command asks for, in so many columns: the name of the account gives way.
fn asked(account: &str, command: Option<Command>, width: usize) -> String {
    let asks = match command {
        Some(Command::Deposit(amount)) => format!("deposit {amount}"),
        Some(Command::Withdraw(amount)) => format!("withdraw {amount}"),
        None => String::new(),
    };
    let room = width.saturating_sub(asks.len() + 1);
    let whole = columns(account) <= room;
    let mut left = if whole { room } else { room.saturating_sub(1) };
    let mut shown = String::new();
    for character in account.chars() {
        let Some(rest) = left.checked_sub(columns_of(character)) else {
            break;
        };
        left = rest;
        shown.push(if character.is_control() {
            char::REPLACEMENT_CHARACTER
        } else {
            character
        });
    }
    if !whole {
        shown.push('…');
    }
    format!("{shown} {asks}")
}

/// How many columns of a terminal text takes, at most.
fn columns(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

/// Wide characters all stand behind the scripts that write from letter to letter; not all that stand there are wide.
fn columns_of(character: char) -> usize {
    match character {
        ..'\u{1100}' | '…' | '✗' | '✓' => 1,
        _ => 2,
    }
}

fn write_totals(out: &mut impl Write, style: Style, summary: &Summary) -> io::Result<()> {
    let count = |count: u64| format!("{:>9}", grouped(count));
    let Summary {
        commands,
        malformed,
        delivered,
        held,
        held_max,
        inversions_prevented,
        inversions_delivered,
        views_match,
    } = summary;
    writeln!(
        out,
        "{}  commands, and {} malformed {}",
        count(*commands),
        grouped(*malformed),
        if *malformed == 1 { "line" } else { "lines" }
    )?;
    writeln!(
        out,
        "{}  deliveries, 4 a command: itself at two stages, its event, its view",
        count(*delivered)
    )?;
    writeln!(
        out,
        "{}  records held, at most {} at once in one partition",
        count(*held),
        grouped(*held_max)
    )?;
    let prevented = count(*inversions_prevented);
    let prevented = if *inversions_prevented > 0 {
        style.bad(prevented)
    } else {
        style.faint(prevented)
    };
    writeln!(
        out,
        "{prevented}  views would have come before their command in order of arrival"
    )?;
    let inverted = count(*inversions_delivered);
    let inverted = if *inversions_delivered > 0 {
        style.bad(inverted)
    } else {
        style.good(inverted)
    };
    writeln!(out, "{inverted}  deliveries did come before their cause")?;
    let matched = if *views_match {
        style.good("    match")
    } else {
        style.bad("   differ")
    };
    writeln!(
        out,
        "{matched}  the views, beside an independent replay of the commands\n"
    )?;
    let verdict = verdict(summary);
    match summary.is_good() {
        true => writeln!(out, "{}", style.good(verdict)),
        false => writeln!(out, "{}", style.bad(verdict)),
    }
}

/// What it comes to. Views may differ though the order was right, as where state was lost.
fn verdict(summary: &Summary) -> &'static str {
    match (summary.inversions_delivered, summary.views_match) {
        (0, true) => "✓ Every cause was delivered before its effects.",
        (0, false) => {
            "✗ The views are not what the commands come to; every cause was delivered before its effects."
        }
        (_, true) => "✗ Causal order was broken.",
        (_, false) => "✗ Causal order was broken, and the views are not what the commands come to.",
    }
}

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "Causal order was broken" stood below "0 deliveries did come before their cause" when only the views differed, as after a changelog was
    /// deleted.
    #[test]
    fn the_verdict_says_which_of_the_two_was_wrong() {
        let said = |inversions_delivered, views_match| {
            let summary = Summary {
                inversions_delivered,
                views_match,
                ..Summary::default()
            };
            let mut out = Vec::new();
            write_totals(&mut out, Style::of_stdout(), &summary).unwrap();
            let text = String::from_utf8(out).unwrap();
            let broken = text.contains("Causal order was broken");
            let differ = text.contains("views are not what");
            assert_eq!(text.contains('✓'), summary.is_good(), "{text}");
            assert_eq!(text.contains('✗'), !summary.is_good(), "{text}");
            (broken, differ)
        };
        assert_eq!(said(0, true), (false, false));
        assert_eq!(said(0, false), (false, true));
        assert_eq!(said(2, true), (true, false));
        assert_eq!(said(2, false), (true, true));
    }

    #[test]
    fn digits_are_grouped_by_three() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (12_345_678, "12,345,678"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn places_are_told_in_words_that_count_from_1() {
        for (index, text) in [
            (0, "1st"),
            (1, "2nd"),
            (2, "3rd"),
            (3, "4th"),
            (10, "11th"),
            (11, "12th"),
            (12, "13th"),
            (20, "21st"),
            (110, "111th"),
            (u64::MAX, "18446744073709551616th"),
        ] {
            assert_eq!(ordinal(index), text);
        }
    }

    #[test]
    fn what_is_asked_for_fits_and_the_amount_is_whole() {
        assert_eq!(asked("ada", Some(Command::Deposit(5)), 13), "ada deposit 5");
        assert_eq!(asked("ada", Some(Command::Deposit(5)), 12), "a… deposit 5");
        let most = Some(Command::Withdraw(u64::MAX));
        assert_eq!(
            asked(&"ä".repeat(256), most, 35),
            "ääää… withdraw 18446744073709551615"
        );
        assert_eq!(asked("a\u{1b}b", None, 35), "a\u{fffd}b ");
        assert_eq!(
            asked(&"\u{5927}".repeat(85), most, 35),
            "\u{5927}\u{5927}… withdraw 18446744073709551615"
        );
    }
}
