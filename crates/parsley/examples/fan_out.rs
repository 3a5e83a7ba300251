//! One command, several effects, and a reply: the effects come before the reply.
//!
//! A seat is booked: the booking goes to `seats`, the invoice to `invoices`, and only then the confirmation to `replies`. They travel
//! on three topics, and nothing in Kafka keeps the confirmation from being read first; whoever then looks for the booking finds none.
//! Here each send depends on those that the same step made before it, so a reply is delivered behind every effect that it confirms.

use std::error::Error;

use parsley::testing::TestDriver;
use parsley::{App, Stage, Topic, codec};

/// Runs it on topics with identities of this seed, and says what there is to see.
pub fn run(seed: u64) -> Result<Vec<String>, Box<dyn Error>> {
    let bookings = Topic::new("bookings", codec::string(), codec::string());
    let seats = Topic::new("seats", codec::string(), codec::string());
    let invoices = Topic::new("invoices", codec::string(), codec::u64());
    let replies = Topic::new("replies", codec::string(), codec::string());
    let screens = Topic::new("screens", codec::string(), codec::string());

    let book = Stage::stateless("book")
        .sink(&seats)
        .sink(&invoices)
        .sink(&replies)
        .on(&bookings, {
            let (seats, invoices, replies) = (seats.clone(), invoices.clone(), replies.clone());
            move |booking, out| {
                out.send(&seats, &booking.key, &booking.value)?;
                out.send(&invoices, &booking.key, &45)?;
                out.send(&replies, &booking.key, &"confirmed".into())
            }
        })
        .build()?;
    // What a customer sees: the screen is drawn when the reply comes, out of what is known by then.
    let screen = Stage::stateful("screen", codec::string(), codec::json::<Known>())
        .sink(&screens)
        .on(&seats, |known, seat, _out| {
            known.0 = Some(seat.value);
            Ok(())
        })
        .on(&invoices, |known, invoice, _out| {
            known.1 = Some(invoice.value);
            Ok(())
        })
        .on(&replies, {
            let screens = screens.clone();
            move |known, reply, out| {
                let seat = known.0.as_ref().ok_or("confirmed, and no seat")?;
                let price = known.1.ok_or("confirmed, and no invoice")?;
                out.send(
                    &screens,
                    &reply.key,
                    &format!("{}: seat {seat}, {price} euros", reply.value),
                )
            }
        })
        .build()?;
    let app = App::named("theatre").stage(book).stage(screen).build()?;

    let mut lines = Vec::new();
    // Whichever effect is late, the reply waits for it.
    for late in ["seats", "invoices"] {
        let mut driver = TestDriver::builder().seed(seed).build(&app)?;
        driver.input(&bookings).send("ann", "7F")?;
        if late == "seats" {
            driver.withhold("screen", &seats)?;
        } else {
            driver.withhold("screen", &invoices)?;
        }
        driver.run()?;
        driver.output(&screens).assert_empty();
        let held = driver.holds()?.holds;
        let reply = held.iter().find(|hold| hold.place.topic == "replies");
        let reply = reply.ok_or("the reply did not wait")?;
        lines.push(format!("without {late}, the screen holds: {reply}"));
        driver.release("screen", &seats)?;
        driver.release("screen", &invoices)?;
        driver.run()?;
        driver
            .output(&screens)
            .assert_read([("ann".into(), "confirmed: seat 7F, 45 euros".into())]);
    }
    lines.push("with both, it shows the seat and the price".into());
    Ok(lines)
}

/// The seat and the price, as far as they are known.
type Known = (Option<String>, Option<u64>);

fn main() -> Result<(), Box<dyn Error>> {
    run(0)?.iter().for_each(|line| println!("{line}"));
    Ok(())
}
