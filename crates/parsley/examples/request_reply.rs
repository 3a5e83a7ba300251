//! Request and reply over two topics, and a third party that reads both.
//!
//! A gateway turns clicks into requests, a service answers, and a monitor measures how long each request took. A reply has no meaning
//! without its request; in the order of arrival the monitor would have to park replies of requests that it has not seen, for how long
//! nobody knows. Here no reply is handed to it before its request, so one without a request is an error, and says so.

use std::error::Error;
use std::time::Duration;

use parsley::testing::TestDriver;
use parsley::{App, Stage, Topic, codec};

/// Runs it on topics with identities of this seed, and says what there is to see.
pub fn run(seed: u64) -> Result<Vec<String>, Box<dyn Error>> {
    let clicks = Topic::new("clicks", codec::string(), codec::string());
    let requests = Topic::new("requests", codec::string(), codec::string());
    let replies = Topic::new("replies", codec::string(), codec::string());
    let times = Topic::new("times", codec::string(), codec::i64());

    let gateway = Stage::stateless("gateway")
        .sink(&requests)
        .on(&clicks, {
            let requests = requests.clone();
            move |click, out| out.send(&requests, &click.key, &click.value)
        })
        .build()?;
    let service = Stage::stateless("service")
        .sink(&replies)
        .on(&requests, {
            let replies = replies.clone();
            move |request, out| {
                // The service takes a second, as far as anybody is told.
                let answered = out.to(&replies).timestamp(request.timestamp_ms + 1_000);
                answered.send(&request.key, &format!("{}: done", request.value))
            }
        })
        .build()?;
    let monitor = Stage::stateful("monitor", codec::string(), codec::nullable(codec::i64()))
        .sink(&times)
        .on(&requests, |asked_at, request, _out| {
            *asked_at = Some(request.timestamp_ms);
            Ok(())
        })
        .on(&replies, {
            let times = times.clone();
            move |asked_at, reply, out| {
                let asked_at = asked_at.take().ok_or("a reply, and no request")?;
                out.send(&times, &reply.key, &(reply.timestamp_ms - asked_at))
            }
        })
        .build()?;
    let app = App::named("web")
        .stage(gateway)
        .stage(service)
        .stage(monitor)
        .build()?;

    let mut driver = TestDriver::builder().seed(seed).partitions(3).build(&app)?;
    driver.advance(Duration::from_secs(5));
    driver.withhold("monitor", &requests)?;
    for request in ["request-1", "request-2", "request-3"] {
        driver.input(&clicks).send(request, "pay")?;
    }
    driver.run()?;
    driver.assert_waits("monitor", &replies, &requests);
    driver.output(&times).assert_empty();
    let holds = driver.holds()?.holds;
    let held: u64 = holds.iter().map(|hold| 1 + hold.behind).sum();
    assert_eq!(held, 3);
    let mut lines = vec![format!("{held} replies wait for their requests")];

    driver.release("monitor", &requests)?;
    driver.run()?;
    let mut measured = driver.output(&times).read_pairs()?;
    measured.sort();
    assert!(measured.iter().all(|(_, took)| *took == 1_000) && measured.len() == 3);
    lines.extend(
        measured
            .iter()
            .map(|(request, took)| format!("{request} took {took} ms")),
    );
    Ok(lines)
}

fn main() -> Result<(), Box<dyn Error>> {
    run(0)?.iter().for_each(|line| println!("{line}"));
    Ok(())
}
