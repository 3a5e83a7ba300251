//! What causal order does not promise: an order between records that know nothing of each other.
//!
//! Ann and Bob book the last seat at the same time, at two offices that write to two topics. Neither has seen the other's booking, so
//! either may be delivered first, and both outcomes are right: causal order is no total order. What holds in both: one of them gets the
//! seat, and the letter to the loser is read after the ticket that it speaks of.

use std::collections::BTreeSet;
use std::error::Error;

use parsley::testing::TestDriver;
use parsley::{App, Stage, Topic, codec};

/// Runs it on topics with identities of this seed, and says what there is to see.
pub fn run(seed: u64) -> Result<Vec<String>, Box<dyn Error>> {
    let north = Topic::new("office-north", codec::string(), codec::string());
    let south = Topic::new("office-south", codec::string(), codec::string());
    let tickets = Topic::new("tickets", codec::string(), codec::string());
    let letters = Topic::new("letters", codec::string(), codec::string());
    let files = Topic::new("files", codec::string(), codec::string());

    let mut hall = Stage::stateful("hall", codec::string(), codec::nullable(codec::string()))
        .sink(&tickets)
        .sink(&letters);
    for office in [&north, &south] {
        let (tickets, letters) = (tickets.clone(), letters.clone());
        hall = hall.on(office, move |taken, booking, out| match taken {
            None => {
                *taken = Some(booking.value.clone());
                out.send(&tickets, &booking.key, &booking.value)
            }
            Some(winner) => out.send(
                &letters,
                &booking.key,
                &format!("{}: {winner} was first", booking.value),
            ),
        });
    }
    let archive = Stage::stateful("archive", codec::string(), codec::nullable(codec::string()))
        .sink(&files)
        .on(&tickets, |winner, ticket, _out| {
            *winner = Some(ticket.value);
            Ok(())
        })
        .on(&letters, {
            let files = files.clone();
            move |winner, letter, out| {
                let winner = winner
                    .as_ref()
                    .ok_or("a letter about a ticket that nobody has")?;
                out.send(
                    &files,
                    &letter.key,
                    &format!("{} (ticket: {winner})", letter.value),
                )
            }
        })
        .build()?;
    let app = App::named("theatre")
        .stage(hall.build()?)
        .stage(archive)
        .build()?;

    // Two schedules of the same two bookings: the hall reads one office late, or the other.
    let mut lines = Vec::new();
    for late in [&north, &south] {
        let mut driver = TestDriver::builder().seed(seed).build(&app)?;
        driver.input(&north).send("seat 7F", "ann")?;
        driver.input(&south).send("seat 7F", "bob")?;
        driver.withhold("hall", late)?;
        driver.withhold("archive", &tickets)?;
        driver.run()?;
        // Neither booking waits for the other.
        driver.assert_nothing_held();
        driver.release("hall", late)?;
        driver.run()?;
        // This is not left to the schedule: the letter is there, and waits for the ticket.
        driver.assert_waits("archive", &letters, &tickets);
        driver.release("archive", &tickets)?;
        driver.run()?;
        lines.push(driver.output(&files).read()?.value);
    }
    let outcomes: BTreeSet<&str> = lines.iter().map(String::as_str).collect();
    let both = [
        "ann: bob was first (ticket: bob)",
        "bob: ann was first (ticket: ann)",
    ];
    assert!(
        outcomes.into_iter().eq(both),
        "both outcomes are right: {lines:?}"
    );
    Ok(lines)
}

fn main() -> Result<(), Box<dyn Error>> {
    run(0)?.iter().for_each(|line| println!("{line}"));
    Ok(())
}
