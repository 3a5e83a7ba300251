//! Malformed input has a sink of its own, and stays in its place in the order.
//!
//! A meter writes readings, and now and then something that is none. A codec that fails would have the step tried again for good;
//! `codec::fallible` hands the bytes to the logic, which sends them, with the reason, to where somebody looks. That somebody reads the
//! raw readings too, and is handed a reading before the complaint about it, so a complaint can be looked up at once.

use std::error::Error;

use parsley::embedded::NewRecord;
use parsley::testing::TestDriver;
use parsley::{App, Stage, Topic, codec};

/// Runs it on topics with identities of this seed, and says what there is to see.
pub fn run(seed: u64) -> Result<Vec<String>, Box<dyn Error>> {
    let readings = Topic::new("readings", codec::string(), codec::fallible(codec::u64()));
    let usage = Topic::new("usage", codec::string(), codec::u64());
    let rejected = Topic::new("rejected", codec::string(), codec::bytes());
    let complaints = Topic::new("complaints", codec::string(), codec::string());

    let meter = Stage::stateful("meter", codec::string(), codec::u64())
        .sink(&usage)
        .sink(&rejected)
        .on(&readings, {
            let (usage, rejected) = (usage.clone(), rejected.clone());
            move |last, reading, out| match reading.value {
                Ok(counter) => {
                    let used = counter.saturating_sub(*last);
                    *last = counter;
                    out.send(&usage, &reading.key, &used)
                }
                Err(malformed) => out
                    .to(&rejected)
                    .header("reason", malformed.error.to_string())
                    .header("offset", reading.offset.to_string())
                    .send(&reading.key, &malformed.bytes.unwrap_or_default()),
            }
        })
        .build()?;
    // Keeps how many bytes each reading had, by offset.
    let support = Stage::stateful("support", codec::string(), codec::json::<Vec<usize>>())
        .sink(&complaints)
        .on(&readings, |sizes, reading, _out| {
            sizes.push(match reading.value {
                Ok(_) => 8,
                Err(malformed) => malformed.bytes.map_or(0, |bytes| bytes.len()),
            });
            Ok(())
        })
        .on(&rejected, {
            let complaints = complaints.clone();
            move |sizes, rejected, out| {
                let header = |name| {
                    String::from_utf8_lossy(rejected.header(name).unwrap_or_default()).into_owned()
                };
                let offset = header("offset");
                let size = sizes
                    .get(offset.parse::<usize>()?)
                    .ok_or("a complaint about nothing")?;
                let complaint = format!("reading {offset} of {size} bytes: {}", header("reason"));
                out.send(&complaints, &rejected.key, &complaint)
            }
        })
        .build()?;
    let app = App::named("power").stage(meter).stage(support).build()?;

    let mut driver = TestDriver::builder().seed(seed).build(&app)?;
    driver.withhold("support", &readings)?;
    driver.input(&readings).send("flat-3", Ok(120))?;
    driver.send_raw(
        NewRecord::to("readings")
            .key("flat-3")
            .value("out of order"),
    )?;
    driver.input(&readings).send("flat-3", Ok(150))?;
    driver.run()?;
    // The meter goes on behind what it could not read.
    driver
        .output(&usage)
        .assert_read([("flat-3".into(), 120), ("flat-3".into(), 30)]);
    driver.assert_waits("support", &rejected, &readings);
    driver.output(&complaints).assert_empty();
    let mut lines = vec![
        "used: 120, then 30".into(),
        format!("support holds: {}", driver.holds()?.holds[0]),
    ];

    driver.release("support", &readings)?;
    driver.run()?;
    let complaint = driver.output(&complaints).read()?.value;
    assert_eq!(
        complaint,
        "reading 1 of 12 bytes: 12 bytes, where the codec expects 8"
    );
    lines.push(complaint);
    Ok(lines)
}

fn main() -> Result<(), Box<dyn Error>> {
    run(0)?.iter().for_each(|line| println!("{line}"));
    Ok(())
}
