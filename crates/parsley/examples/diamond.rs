//! A diamond: a request is priced by one processor and looked up in the stock by another, and an offer is made of both answers.
//!
//! The customer service reads prices, stock and offers. An offer depends on both branches of the diamond; in the order of arrival it
//! may come ahead of either, and an employee would see an offer without the price that it was made of. Between the two branches
//! themselves there is no order: neither knows of the other, and either may come first.

use std::error::Error;

use parsley::testing::TestDriver;
use parsley::{App, Stage, Topic, codec};

/// Runs it on topics with identities of this seed, and says what there is to see.
pub fn run(seed: u64) -> Result<Vec<String>, Box<dyn Error>> {
    let requests = Topic::new("requests", codec::string(), codec::u64());
    let prices = Topic::new("prices", codec::string(), codec::u64());
    let stock = Topic::new("stock", codec::string(), codec::u64());
    let offers = Topic::new("offers", codec::string(), codec::string());
    let files = Topic::new("files", codec::string(), codec::string());

    let branch = |name: &'static str, to: &Topic<String, u64>, of: fn(u64) -> u64| {
        let answers = to.clone();
        Stage::stateless(name)
            .sink(to)
            .on(&requests, move |request, out| {
                out.send(&answers, &request.key, &of(request.value))
            })
            .build()
    };
    let price = branch("price", &prices, |pieces| 12 * pieces)?;
    let warehouse = branch("warehouse", &stock, |pieces| pieces.min(10))?;
    let sell = Stage::stateful("sell", codec::string(), codec::json::<Answers>())
        .sink(&offers)
        .on(&prices, {
            let offers = offers.clone();
            move |answers, price, out| {
                answers.0 = Some(price.value);
                offer(&offers, &price.key, answers, out)
            }
        })
        .on(&stock, {
            let offers = offers.clone();
            move |answers, stock, out| {
                answers.1 = Some(stock.value);
                offer(&offers, &stock.key, answers, out)
            }
        })
        .build()?;
    let service = Stage::stateful("service", codec::string(), codec::json::<Answers>())
        .sink(&files)
        .on(&prices, |known, price, _out| {
            known.0 = Some(price.value);
            Ok(())
        })
        .on(&stock, |known, stock, _out| {
            known.1 = Some(stock.value);
            Ok(())
        })
        .on(&offers, {
            let files = files.clone();
            move |known, offer, out| {
                let price = known.0.ok_or("an offer without a price")?;
                let pieces = known.1.ok_or("an offer without stock")?;
                out.send(
                    &files,
                    &offer.key,
                    &format!("{}: {pieces} for {price}", offer.value),
                )
            }
        })
        .build()?;
    let app = App::named("sales")
        .stage(price)
        .stage(warehouse)
        .stage(sell)
        .stage(service)
        .build()?;

    let mut lines = Vec::new();
    for (late, name) in [(&prices, "prices"), (&stock, "stock")] {
        let mut driver = TestDriver::builder().seed(seed).build(&app)?;
        driver.withhold("service", late)?;
        driver.input(&requests).send("ann", 4_u64)?;
        driver.run()?;
        driver.assert_waits("service", &offers, late);
        driver.output(&files).assert_empty();
        driver.release("service", late)?;
        driver.run()?;
        driver
            .output(&files)
            .assert_read([("ann".into(), "offer: 4 for 48".into())]);
        assert_eq!(driver.delivered_to("service").last(), Some(&("offers", 0)));
        lines.push(format!("{name} late: the offer waits, and comes last"));
    }
    Ok(lines)
}

/// The price and the pieces that there are, as far as they are known.
type Answers = (Option<u64>, Option<u64>);

/// Makes an offer once both answers are there.
fn offer(
    offers: &Topic<String, String>,
    customer: &String,
    answers: &Answers,
    out: &mut parsley::Outbox,
) -> parsley::Outcome {
    match answers {
        (Some(_), Some(_)) => out.send(offers, customer, &"offer".into()),
        _ => Ok(()),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    run(0)?.iter().for_each(|line| println!("{line}"));
    Ok(())
}
