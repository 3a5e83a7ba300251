//! `parsley sim list`.

use std::io::Write;

use parsley_model::Broken;
use parsley_sim::explore::worlds;
use parsley_sim::{HostFault, scenarios};
use serde_json::json;

use super::names::Kind;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::style::Style;

/// Names what there is, with a line on each for people.
pub fn run(json: bool, out: &mut impl Write) -> Result<Exit, Failure> {
    let written = if json {
        let names = json!({
            "scenarios": Kind::Scenario.names(),
            "sabotages": Kind::Sabotage.names(),
            "faults": Kind::Fault.names(),
            "worlds": Kind::World.names(),
        });
        writeln!(out, "{names}")
    } else {
        show(out)
    };
    written.and_then(|()| out.flush()).map_err(Failure::Write)?;
    Ok(Exit::Done)
}

fn show(out: &mut impl Write) -> std::io::Result<()> {
    let scenarios = scenarios::all().into_iter();
    let scenarios = scenarios.map(|scenario| (scenario.name, scenario.about));
    let broken = Broken::ALL.iter();
    let broken = broken.map(|broken| (broken.as_str(), broken.about()));
    let faults = HostFault::ALL.iter();
    let faults = faults.map(|fault| (fault.as_str(), fault.about()));
    let worlds = worlds::ALL.iter();
    let worlds = worlds.map(|world| (world.name, world.about));
    let parts: [(&str, Vec<(&str, &str)>); 4] = [
        ("Scenarios (--scenario)", scenarios.collect()),
        (
            "Rules of the protocol, broken (--sabotage)",
            broken.collect(),
        ),
        ("Duties of the host, shirked (--fault)", faults.collect()),
        ("Small worlds (--world)", worlds.collect()),
    ];
    let style = Style::of_stdout();
    for (number, (head, rows)) in parts.iter().enumerate() {
        if number > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{}", style.strong(head))?;
        let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, about) in rows {
            writeln!(out, "  {name:<width$}  {}", style.faint(about))?;
        }
    }
    Ok(())
}
