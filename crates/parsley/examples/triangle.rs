//! Base and derived: postings, balances that a processor makes of them, and an auditor that reads both and compares.
//!
//! The most common race of stream processing: a derived record can overtake the base record that it was made of, since the two are on
//! different topics. An auditor then reports a difference that is none, waits a minute, and looks again. Here it is handed the posting
//! first, so that a difference that it finds is one.

use std::error::Error;

use parsley::testing::TestDriver;
use parsley::{App, Stage, Topic, codec};

/// Runs it on topics with identities of this seed, and says what there is to see.
pub fn run(seed: u64) -> Result<Vec<String>, Box<dyn Error>> {
    let postings = Topic::new("postings", codec::string(), codec::i64());
    let balances = Topic::new("balances", codec::string(), codec::i64());
    let findings = Topic::new("findings", codec::string(), codec::string());

    let sum = Stage::stateful("sum", codec::string(), codec::i64())
        .sink(&balances)
        .on(&postings, {
            let balances = balances.clone();
            move |balance, posting, out| {
                *balance += posting.value;
                out.send(&balances, &posting.key, balance)
            }
        })
        .build()?;
    // Every balance that the postings up to now have come to, in their order: a balance that is none of them is wrong.
    let audit = Stage::stateful("audit", codec::string(), codec::json::<Vec<i64>>())
        .sink(&findings)
        .on(&postings, |balances, posting, _out| {
            balances.push(balances.last().unwrap_or(&0) + posting.value);
            Ok(())
        })
        .on(&balances, {
            let findings = findings.clone();
            move |balances, balance, out| {
                if balances.contains(&balance.value) {
                    return Ok(());
                }
                let found = format!("{} is no balance of {balances:?}", balance.value);
                out.send(&findings, &balance.key, &found)
            }
        })
        .build()?;
    let app = App::named("books").stage(sum).stage(audit).build()?;

    let mut driver = TestDriver::builder().seed(seed).build(&app)?;
    driver.input(&postings).send("ann", 70)?;
    let second = driver.input(&postings).send("ann", -20)?;
    // The auditor gets the first posting and both balances.
    driver.withhold_from("audit", second)?;
    driver.run()?;
    driver.assert_waits("audit", &balances, &postings);
    let mut lines = vec![format!("the auditor holds: {}", driver.holds()?.holds[0])];
    driver.release("audit", &postings)?;
    driver.run()?;
    driver.output(&findings).assert_empty();
    lines.push("with the posting, there is nothing to report".into());

    // Somebody writes a balance by hand. That is found, and is no race.
    driver.input(&balances).send("ann", 1_000_000)?;
    driver.run()?;
    let finding = driver.output(&findings).read()?.value;
    assert_eq!(finding, "1000000 is no balance of [70, 50]");
    lines.push(format!("a balance that somebody made up: {finding}"));
    Ok(lines)
}

fn main() -> Result<(), Box<dyn Error>> {
    run(0)?.iter().for_each(|line| println!("{line}"));
    Ok(())
}
