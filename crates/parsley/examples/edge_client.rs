//! Plain clients at the edge: a customer who reads a quote and orders because of it, and a cashier who goes on from there.
//!
//! Neither is a stage: they read and write with any Kafka client. What ties their records to what they have seen is a `CausalClock`
//! that they carry: it observes what was read and what was written, and stamps what is written next; as bytes it goes from one service
//! to another. Without it the order overtakes its quote, as it may in Kafka, and the desk has to refuse it. With it the desk is handed
//! the quote first.

use std::error::Error;

use parsley::testing::TestDriver;
use parsley::{App, CausalClock, Stage, Topic, codec};

/// Runs it on topics with identities of this seed, and says what there is to see.
pub fn run(seed: u64) -> Result<Vec<String>, Box<dyn Error>> {
    let inquiries = Topic::new("inquiries", codec::string(), codec::u64());
    let quotes = Topic::new("quotes", codec::string(), codec::u64());
    let orders = Topic::new("orders", codec::string(), codec::u64());
    let payments = Topic::new("payments", codec::string(), codec::u64());
    let letters = Topic::new("letters", codec::string(), codec::string());

    let quote = Stage::stateless("quote")
        .sink(&quotes)
        .on(&inquiries, {
            let quotes = quotes.clone();
            move |inquiry, out| out.send(&quotes, &inquiry.key, &(12 * inquiry.value))
        })
        .build()?;
    // Keeps the price that was quoted, and whether it was ordered at.
    let desk = Stage::stateful(
        "desk",
        codec::string(),
        codec::json::<(Option<u64>, bool)>(),
    )
    .sink(&letters)
    .on(&quotes, |(quoted, _), quote, _out| {
        *quoted = Some(quote.value);
        Ok(())
    })
    .on(&orders, {
        let letters = letters.clone();
        move |(quoted, ordered), order, out| {
            *ordered = *quoted == Some(order.value);
            let letter = match ordered {
                true => format!("ordered at {}", order.value),
                false => format!("{} was never quoted", order.value),
            };
            out.send(&letters, &order.key, &letter)
        }
    })
    .on(&payments, {
        let letters = letters.clone();
        move |(_, ordered), payment, out| {
            let letter = if *ordered { "paid" } else { "paid for nothing" };
            out.send(&letters, &payment.key, &letter.into())
        }
    })
    .build()?;
    let app = App::named("shop").stage(quote).stage(desk).build()?;

    let mut lines = Vec::new();
    for carries_a_clock in [false, true] {
        let mut driver = TestDriver::builder().seed(seed).build(&app)?;
        driver.withhold("desk", &quotes)?;
        driver.input(&inquiries).send("ann", 4_u64)?;
        driver.run()?;

        // The customer reads the quote, and orders at its price.
        let mut seen = CausalClock::new();
        let read = driver.output(&quotes).read_raw()?;
        read.iter()
            .try_for_each(|record| seen.observe_record(record))?;
        let stamp = if carries_a_clock {
            seen.header()?
        } else {
            None
        };
        let placed = driver.input(&orders).headers(stamp).send("ann", 48_u64)?;
        seen.record_produced(
            placed.channel.topic,
            placed.channel.partition,
            placed.offset,
        )?;

        // The cashier gets the customer's clock as bytes, and takes the money.
        let handed_over = CausalClock::from_bytes(&seen.to_bytes())?;
        let stamp = if carries_a_clock {
            handed_over.header()?
        } else {
            None
        };
        driver.input(&payments).headers(stamp).send("ann", 48_u64)?;
        driver.withhold("desk", &orders)?;
        driver.run()?;
        driver.release("desk", &orders)?;
        driver.run()?;
        if carries_a_clock {
            driver.assert_waits("desk", &orders, &quotes);
            driver.output(&letters).assert_empty();
        }
        driver.release("desk", &quotes)?;
        driver.run()?;
        let written = driver.output(&letters).read_pairs()?;
        let written: Vec<String> = written.into_iter().map(|(_, letter)| letter).collect();
        let expected = match carries_a_clock {
            false => ["paid for nothing", "48 was never quoted"],
            true => ["ordered at 48", "paid"],
        };
        assert_eq!(written, expected);
        let how = if carries_a_clock {
            "with a clock"
        } else {
            "without a clock"
        };
        lines.push(format!("{how}: {}", written.join(", ")));
    }
    Ok(lines)
}

fn main() -> Result<(), Box<dyn Error>> {
    run(0)?.iter().for_each(|line| println!("{line}"));
    Ok(())
}
