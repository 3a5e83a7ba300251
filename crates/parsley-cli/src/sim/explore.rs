//! `parsley sim explore`: all ways through small worlds.

use std::io::{self, Write};

use parsley_sim::Sabotage;
use parsley_sim::explore::{Exploration, Judged, SmallWorld, explore};

use super::args::Wrong;
use super::error::SimError;
use super::names;
use super::table::Table;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::style::Style;

/// Explores one world or all, and says what they came to.
pub fn run(name: &str, wrong: &Wrong, out: &mut impl Write) -> Result<Exit, Failure> {
    let sabotage = names::sabotage(wrong).map_err(SimError::from)?;
    let worlds = names::worlds_of(name).map_err(SimError::from)?;
    let explored = worlds
        .into_iter()
        .map(|world| (world, search(world, sabotage)));
    let explored: Vec<_> = explored.collect();
    let written = show(&explored, sabotage, out);
    written.and_then(|()| out.flush()).map_err(Failure::Write)?;
    let found = shortest(&explored).is_some();
    Ok(if found == is_sabotaged(sabotage) {
        Exit::Done
    } else {
        Exit::Failed
    })
}

/// Whether something is wrong on purpose, and has to be found.
fn is_sabotaged(sabotage: Sabotage) -> bool {
    matches!(sabotage, Sabotage::Protocol(_) | Sabotage::Host(_))
}

/// All ways. Of what is wrong on purpose, one into an action that is wrong is looked for first: it shows more than one that does not end well.
fn search(world: &SmallWorld, sabotage: Sabotage) -> Exploration {
    if is_sabotaged(sabotage) {
        let found = explore(world, sabotage, Judged::Actions);
        if found.counterexample.is_some() {
            return found;
        }
    }
    explore(world, sabotage, Judged::ActionsAndRest)
}

type Explored = (&'static SmallWorld, Exploration);

/// The world with the violation that takes the fewest actions.
fn shortest(explored: &[Explored]) -> Option<&Explored> {
    let found = explored
        .iter()
        .filter(|(_, explored)| explored.counterexample.is_some());
    found.min_by_key(|(_, explored)| {
        let counterexample = explored.counterexample.as_ref();
        counterexample.map(|found| found.actions.len())
    })
}

fn show(explored: &[Explored], sabotage: Sabotage, out: &mut impl Write) -> io::Result<()> {
    let mut table = Table::new(&[
        "world",
        "states",
        "transitions",
        "depth",
        "holding",
        "down holding",
        "aborted",
        "at rest",
        "violation",
    ]);
    for (world, explored) in explored {
        let seen = explored.seen;
        let found = explored.counterexample.as_ref();
        let numbers = [
            explored.states,
            explored.transitions,
            explored.depth,
            seen.holding,
            seen.down_while_holding,
            seen.aborted,
            seen.at_rest,
        ];
        let mut row = vec![world.name.to_owned()];
        row.extend(numbers.iter().map(usize::to_string));
        row.push(match found {
            None => "none".to_owned(),
            Some(found) => {
                let rule = &found.violation.rule;
                format!("{rule}, after {}", counted(found.actions.len()))
            }
        });
        table.row(row);
    }
    table.write(out)?;
    writeln!(out)?;
    let Some((
        world,
        Exploration {
            counterexample: Some(found),
            ..
        },
    )) = shortest(explored)
    else {
        let worlds = match explored.len() {
            1 => "this world".to_owned(),
            many => format!("{many} worlds"),
        };
        return match is_sabotaged(sabotage) {
            false => writeln!(out, "Every way through {worlds} is right."),
            true => writeln!(out, "Slipped through: no way through {worlds} goes wrong."),
        };
    };
    let style = Style::of_stdout();
    writeln!(out, "{} ({})", style.strong(world.name), world.about)?;
    if let Some(on_purpose) = sabotage.on_purpose() {
        writeln!(out, "wrong on purpose: {on_purpose}")?;
    }
    writeln!(out, "{}", found.schedule().trim_end())?;
    let actions = found.actions.len();
    let shorter = match found.at_rest {
        // That no action is wrong on any way, however long, was found before.
        true => "goes wrong, nor when it comes to rest",
        // What is left to come to rest does more than is counted, and may go wrong by that.
        false => "has an action that is wrong",
    };
    writeln!(
        out,
        "\nNo way of fewer than {} through this world {shorter}.",
        counted(actions)
    )
}

fn counted(actions: usize) -> String {
    let plural = if actions == 1 { "" } else { "s" };
    format!("{actions} action{plural}")
}
