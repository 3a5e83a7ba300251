//! A line of processors: an order is charged, a charge is shipped, and the parcel's way is looked up at a desk.
//!
//! The desk reads both ends of the line: orders, and the parcels that come of them two processors later. In the order of arrival a
//! parcel can be there before its order, whenever the orders' partition is the slower one. Here it waits. The processor in the middle
//! of the line does not read orders at all: what it passes on still says where it comes from.

use std::error::Error;

use parsley::testing::TestDriver;
use parsley::{App, Stage, Topic, codec};

/// Runs it on topics with identities of this seed, and says what there is to see.
pub fn run(seed: u64) -> Result<Vec<String>, Box<dyn Error>> {
    let orders = Topic::new("orders", codec::string(), codec::string());
    let charges = Topic::new("charges", codec::string(), codec::string());
    let parcels = Topic::new("parcels", codec::string(), codec::string());
    let tracking = Topic::new("tracking", codec::string(), codec::string());

    let charge = Stage::stateless("charge")
        .sink(&charges)
        .on(&orders, {
            let charges = charges.clone();
            move |order, out| out.send(&charges, &order.key, &order.value)
        })
        .build()?;
    let ship = Stage::stateless("ship")
        .sink(&parcels)
        .on(&charges, {
            let parcels = parcels.clone();
            move |charge, out| out.send(&parcels, &charge.key, &charge.value)
        })
        .build()?;
    let desk = Stage::stateful("desk", codec::string(), codec::nullable(codec::string()))
        .sink(&tracking)
        .on(&orders, |ordered, order, _out| {
            *ordered = Some(order.value);
            Ok(())
        })
        .on(&parcels, {
            let tracking = tracking.clone();
            move |ordered, parcel, out| {
                let ordered = ordered.as_ref().ok_or("a parcel that nobody ordered")?;
                out.send(&tracking, &parcel.key, &format!("{ordered} is on its way"))
            }
        })
        .build()?;
    let app = App::named("shop")
        .stage(charge)
        .stage(ship)
        .stage(desk)
        .build()?;

    let mut driver = TestDriver::builder().seed(seed).build(&app)?;
    // The desk is slow with orders; the rest of the shop is not.
    driver.withhold("desk", &orders)?;
    driver.input(&orders).send("ann", "a kettle")?;
    driver.run()?;
    driver.assert_waits("desk", &parcels, &orders);
    driver.output(&tracking).assert_empty();
    let mut lines = vec![format!("the desk holds: {}", driver.holds()?.holds[0])];

    driver.release("desk", &orders)?;
    driver.run()?;
    assert_eq!(driver.delivered_to("desk"), [("orders", 0), ("parcels", 0)]);
    let message = driver.output(&tracking).read()?;
    assert_eq!(message.value, "a kettle is on its way");
    lines.push(format!(
        "with the order: {}: {}",
        message.key, message.value
    ));
    Ok(lines)
}

fn main() -> Result<(), Box<dyn Error>> {
    run(0)?.iter().for_each(|line| println!("{line}"));
    Ok(())
}
