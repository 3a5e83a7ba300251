//! A cycle: buyer and seller bargain over two topics until they agree, and a notary reads along.
//!
//! Each bid answers an offer and each offer a bid, so the stages feed one another; each gives way by half of what lies between them,
//! and the cycle ends by itself. The notary writes the talk down. Bids and offers are on two topics, and in the order of arrival an
//! answer can be written above its question. Here the minutes alternate, however late one of the two sides is read.

use std::error::Error;

use parsley::testing::TestDriver;
use parsley::{App, Stage, Topic, codec};

/// Runs it on topics with identities of this seed, and says what there is to see.
pub fn run(seed: u64) -> Result<Vec<String>, Box<dyn Error>> {
    let bids = Topic::new("bids", codec::string(), codec::u64());
    let offers = Topic::new("offers", codec::string(), codec::u64());
    let minutes = Topic::new("minutes", codec::string(), codec::string());

    let seller = Stage::stateful("seller", codec::string(), codec::nullable(codec::u64()))
        .sink(&offers)
        .on(&bids, {
            let offers = offers.clone();
            move |asked, bid, out| {
                let now = asked.map_or(200, |asked| bid.value + (asked - bid.value) / 2);
                // Agreed: nothing more is said.
                if *asked == Some(now) || now == bid.value {
                    return Ok(());
                }
                *asked = Some(now);
                out.send(&offers, &bid.key, &now)
            }
        })
        .build()?;
    let buyer = Stage::stateful("buyer", codec::string(), codec::u64())
        .sink(&bids)
        .on(&offers, {
            let bids = bids.clone();
            move |bid, offer, out| {
                let last = (*bid).max(100);
                *bid = offer.value - (offer.value - last) / 2;
                out.send(&bids, &offer.key, bid)
            }
        })
        .build()?;
    let notary = Stage::stateful("notary", codec::string(), codec::json::<(u64, u64)>())
        .sink(&minutes)
        .on(&bids, {
            let minutes = minutes.clone();
            move |(bids, offers), bid, out| {
                *bids += 1;
                (*bids == *offers + 1)
                    .then_some(())
                    .ok_or("a bid on an offer that nobody made")?;
                out.send(&minutes, &bid.key, &format!("bid {}", bid.value))
            }
        })
        .on(&offers, {
            let minutes = minutes.clone();
            move |(bids, offers), offer, out| {
                *offers += 1;
                (*bids == *offers)
                    .then_some(())
                    .ok_or("an offer on a bid that nobody made")?;
                out.send(&minutes, &offer.key, &format!("offer {}", offer.value))
            }
        })
        .build()?;
    let app = App::named("market")
        .stage(seller)
        .stage(buyer)
        .stage(notary)
        .build()?;

    let mut written = Vec::new();
    for (late, other) in [(&bids, &offers), (&offers, &bids)] {
        let mut driver = TestDriver::builder().seed(seed).build(&app)?;
        driver.withhold("notary", late)?;
        driver.input(&bids).send("house", 100_u64)?;
        driver.run()?;
        // The two have long agreed; of the side that is read the notary takes down at most what opens the talk.
        driver.assert_waits("notary", other, late);
        let taken_down = driver.output(&minutes).read_pairs()?;
        driver.release("notary", late)?;
        driver.run()?;
        driver.assert_nothing_held();
        let rest = driver.output(&minutes).read_pairs()?;
        written.push(
            taken_down
                .into_iter()
                .chain(rest)
                .map(|(_, line)| line)
                .collect::<Vec<_>>(),
        );
    }
    assert_eq!(written[0], written[1], "late or not, it is one talk");
    assert!(written[0].len() > 6, "{written:?}");
    Ok(written.swap_remove(0))
}

fn main() -> Result<(), Box<dyn Error>> {
    run(0)?.iter().for_each(|line| println!("{line}"));
    Ok(())
}
