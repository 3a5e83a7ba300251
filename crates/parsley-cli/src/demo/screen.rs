//! What the demo shows: for people, or as lines of JSON.

use std::io::{self, Write};

use serde_json::json;

use super::audit::Summary;
use super::holds::{Held, Until};
use super::judge::Handed;
use crate::style::Style;

/// How many holds are shown to people.
const ROWS: usize = 12;

/// Where the demo shows what it sees.
pub enum Screen<W> {
    /// For people.
    Table {
        /// Where to.
        out: W,
        /// With or without colour.
        style: Style,
        /// The first holds.
        rows: Vec<Held>,
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
            rows: Vec::new(),
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
            "{}\n\nA reconciler reads commands and views. It has to see a command before the view\n\
             that came of it, and an adversary brings it the commands late.\n",
            style.strong("commands → commander → events → projector → views")
        )?;
        out.flush()
    }

    /// Shows a record that had to wait.
    pub fn held(&mut self, held: Held) -> io::Result<()> {
        match self {
            Self::Table { rows, .. } => {
                if rows.len() < ROWS {
                    rows.push(held);
                }
                Ok(())
            }
            Self::Json { out } => {
                serde_json::to_writer(&mut *out, &held_line(&held))?;
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
                    write_rows(out, *style, rows, summary.held)?;
                }
                write_totals(out, *style, summary)?;
                out.flush()
            }
        }
    }
}

fn held_line(held: &Held) -> serde_json::Value {
    let at = |at: &super::topology::At| json!({"topic": at.topic, "partition": at.partition, "offset": at.offset});
    let handed = |handed: &Handed| json!({"arrival": handed.arrival, "delivery": handed.delivery});
    let until = match &held.until {
        Until::Delivered { cause, code } => json!({"record": at(cause), "code": code}),
        Until::Sent {
            channel,
            sequence,
            code,
        } => json!({"sends": channel, "sequence": sequence, "code": code}),
        Until::Ahead(ahead) => json!({"ahead": at(ahead)}),
    };
    json!({"held": {
        "stage": &*held.stage,
        "record": at(&held.record),
        "key": held.key,
        "until": until,
        "handed": handed(&held.handed),
        "cause": held.cause_at.as_ref().map(at),
        "cause_handed": held.cause.as_ref().map(handed),
        "inversion_prevented": held.is_prevented,
    }})
}

fn write_rows(out: &mut impl Write, style: Style, rows: &[Held], held: u64) -> io::Result<()> {
    let shown = grouped(rows.len() as u64);
    writeln!(
        out,
        "{} {}",
        style.strong("What was held"),
        style.faint(format!("({shown} of {})", grouped(held)))
    )?;
    writeln!(
        out,
        "{}",
        style.faint(format!(
            "  {:<12} {:<15} {:<25} as delivered",
            "held", "until", "as they arrived"
        ))
    )?;
    for row in rows {
        let (arrived, delivered) = match row.cause {
            None => (
                format!("#{}", row.handed.arrival),
                format!("#{}", row.handed.delivery),
            ),
            Some(cause) => (
                in_order(row.handed.arrival, cause.arrival),
                in_order(row.handed.delivery, cause.delivery),
            ),
        };
        // Behind another record it has to wait for that, and for its own cause; the cause is what matters.
        let until = match (&row.until, &row.cause_at) {
            (Until::Ahead(_), Some(cause)) => cause.to_string(),
            (until, _) => until.to_string(),
        };
        let arrived = format!("{arrived:<23}");
        let (mark, arrived) = if row.is_prevented {
            (style.bad("✗").to_string(), style.bad(arrived).to_string())
        } else {
            (style.faint("·").to_string(), arrived)
        };
        writeln!(
            out,
            "  {:<12} {until:<15} {mark} {arrived} {} {}",
            row.record.to_string(),
            style.good("✓"),
            style.good(delivered)
        )?;
    }
    writeln!(out)
}

/// The view and its command, first things first.
fn in_order(view: u64, command: u64) -> String {
    if view < command {
        format!("view #{view}, command #{command}")
    } else {
        format!("command #{command}, view #{view}")
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
    writeln!(out, "{}  deliveries at three stages", count(*delivered))?;
    writeln!(
        out,
        "{}  records held, at most {} at once",
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
        "{prevented}  views would have come before their command in the order of arrival"
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
    if summary.is_good() {
        writeln!(
            out,
            "{}",
            style.good("✓ Every cause was delivered before its effects.")
        )
    } else {
        writeln!(out, "{}", style.bad("✗ Causal order was broken."))
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
}
