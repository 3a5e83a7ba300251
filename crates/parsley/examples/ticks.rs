//! Ticks: a till is closed every minute, and the books say what was sold until then.
//!
//! Nothing is sold at the moment when a till is closed: the closing has no record that it could be a reaction to, so the till ticks.
//! The policy is the till's own (a closing once a minute, and one late closing where several were missed), and its clock decides when.
//! What belongs to a closing is not left to clocks: whoever is handed it has been handed every sale that the till had seen by then. In
//! the order of arrival a closing overtakes sales, and the books are cut wherever the topics happened to be; comparing timestamps only
//! moves the cut to where the clocks happened to be.

use std::error::Error;
use std::time::Duration;

use parsley::testing::TestDriver;
use parsley::{App, Stage, Topic, codec};

/// Runs it on topics with identities of this seed, and says what there is to see.
pub fn run(seed: u64) -> Result<Vec<String>, Box<dyn Error>> {
    let sales = Topic::new("sales", codec::string(), codec::u64());
    let closings = Topic::new("closings", codec::string(), codec::u64());
    let days = Topic::new("days", codec::string(), codec::string());
    let minute = Duration::from_secs(60);

    let till = Stage::stateless("till")
        .sink(&closings)
        .on(&sales, |_sale, _out| Ok(()))
        .ticks(minute, codec::u64(), {
            let closings = closings.clone();
            move |closed, _tick, out| {
                *closed += 1;
                out.send(&closings, &"kiosk".into(), closed)
            }
        })
        .build()?;
    let books = Stage::stateful("books", codec::string(), codec::u64())
        .sink(&days)
        .on(&sales, |sum, sale, _out| {
            *sum += sale.value;
            Ok(())
        })
        .on(&closings, {
            let days = days.clone();
            move |sum, closing, out| {
                let day = format!("closing {}: {sum} sold", closing.value);
                out.send(&days, &closing.key, &day)
            }
        })
        .build()?;
    let app = App::named("kiosk").stage(till).stage(books).build()?;

    let mut driver = TestDriver::builder().seed(seed).build(&app)?;
    let mut lines = Vec::new();
    // The books get sales late. The till has seen 3 and 4 when it is closed.
    driver.withhold("books", &sales)?;
    driver.input(&sales).send("kiosk", 3_u64)?;
    driver.input(&sales).send("kiosk", 4_u64)?;
    driver.run()?;
    driver.advance(minute);
    driver.run()?;
    driver.assert_waits("books", &closings, &sales);
    driver.output(&days).assert_empty();
    lines.push(format!("the books hold: {}", driver.holds()?.holds[0]));

    driver.release("books", &sales)?;
    driver.run()?;
    lines.push(driver.output(&days).read()?.value);
    assert_eq!(lines[1], "closing 1: 7 sold");

    // The till is late by four minutes: it is closed once, and not four times.
    driver.advance(4 * minute);
    driver.run()?;
    lines.push(driver.output(&days).read()?.value);
    assert_eq!(lines[2], "closing 2: 7 sold");
    driver.output(&days).assert_empty();
    Ok(lines)
}

fn main() -> Result<(), Box<dyn Error>> {
    run(0)?.iter().for_each(|line| println!("{line}"));
    Ok(())
}
