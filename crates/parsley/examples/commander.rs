//! Commands, events and views: who reads all three is handed them in the order in which they came of each other.
//!
//! A commander decides what becomes of a command and writes events, a projector makes views of events, and a reconciler checks that
//! each view is explained by an event, and each event by a command. Three topics, two processors between the first and the last: in the
//! order of arrival all six orders of a command, its event and its view can be seen. Here there is one, whichever topics are late.

use std::error::Error;

use parsley::testing::TestDriver;
use parsley::{App, Stage, Topic, codec};

/// Runs it on topics with identities of this seed, and says what there is to see.
pub fn run(seed: u64) -> Result<Vec<String>, Box<dyn Error>> {
    let commands = Topic::new("commands", codec::string(), codec::u64());
    let events = Topic::new("events", codec::string(), codec::u64());
    let views = Topic::new("views", codec::string(), codec::u64());

    let commander = Stage::stateless("commander")
        .sink(&events)
        .on(&commands, {
            let events = events.clone();
            // A deposit of nothing comes to nothing.
            move |command, out| match command.value {
                0 => Ok(()),
                amount => out.send(&events, &command.key, &amount),
            }
        })
        .build()?;
    let projector = Stage::stateful("projector", codec::string(), codec::u64())
        .sink(&views)
        .on(&events, {
            let views = views.clone();
            move |balance, event, out| {
                *balance += event.value;
                out.send(&views, &event.key, balance)
            }
        })
        .build()?;
    // What was commanded, what has happened, what can be seen: each at most as much as the one before.
    let reconciler = Stage::stateful("reconciler", codec::string(), codec::json::<[u64; 2]>())
        .on(&commands, |[commanded, _], command, _out| {
            *commanded += command.value;
            Ok(())
        })
        .on(&events, |[commanded, happened], event, _out| {
            *happened += event.value;
            (*happened <= *commanded)
                .then_some(())
                .ok_or("an event that nobody commanded".into())
        })
        .on(&views, |[_, happened], view, _out| {
            (view.value <= *happened)
                .then_some(())
                .ok_or("a view of what has not happened".into())
        })
        .build()?;
    let app = App::named("bank")
        .stage(commander)
        .stage(projector)
        .stage(reconciler)
        .build()?;

    let mut lines = Vec::new();
    for (commands_late, events_late) in [(true, false), (false, true), (true, true)] {
        let mut driver = TestDriver::builder().seed(seed).build(&app)?;
        if commands_late {
            driver.withhold("reconciler", &commands)?;
        }
        if events_late {
            driver.withhold("reconciler", &events)?;
        }
        for amount in [5_u64, 0, 7] {
            driver.input(&commands).send("ann", amount)?;
        }
        driver.run()?;
        let late = if events_late { &events } else { &commands };
        driver.assert_waits("reconciler", &views, late);
        let early = driver.delivered_to("reconciler").len();
        driver.release("reconciler", &commands)?;
        driver.release("reconciler", &events)?;
        driver.run()?;
        driver.assert_nothing_held();
        assert_eq!(driver.delivered_to("reconciler").len(), 7);
        lines.push(format!(
            "commands {}, events {}: {early} of 7 were delivered at once, then the rest",
            lateness(commands_late),
            lateness(events_late)
        ));
    }
    Ok(lines)
}

fn lateness(late: bool) -> &'static str {
    if late { "late" } else { "in time" }
}

fn main() -> Result<(), Box<dyn Error>> {
    run(0)?.iter().for_each(|line| println!("{line}"));
    Ok(())
}
