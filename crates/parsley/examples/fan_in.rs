//! Many sources, one consumer: an account is opened, money comes in, money goes out, on a topic each.
//!
//! A deposit goes to an account that its sender knows to be open, and a withdrawal is made by somebody who has seen the deposit. The
//! bank reads three topics, each at its own pace. In the order of arrival it would have to refuse what is right, or take back what it
//! refused; here it is handed causes first, and a balance that is too low is too low.

use std::error::Error;

use parsley::testing::TestDriver;
use parsley::{App, Stage, Topic, codec};

/// Runs it on topics with identities of this seed, and says what there is to see.
pub fn run(seed: u64) -> Result<Vec<String>, Box<dyn Error>> {
    let openings = Topic::new("openings", codec::string(), codec::string());
    let deposits = Topic::new("deposits", codec::string(), codec::u64());
    let withdrawals = Topic::new("withdrawals", codec::string(), codec::u64());
    let answers = Topic::new("answers", codec::string(), codec::string());

    let bank = Stage::stateful("bank", codec::string(), codec::nullable(codec::u64()))
        .sink(&answers)
        .on(&openings, |balance, _opening, _out| {
            balance.get_or_insert(0);
            Ok(())
        })
        .on(&deposits, |balance, deposit, _out| {
            *balance.as_mut().ok_or("a deposit, and no account")? += deposit.value;
            Ok(())
        })
        .on(&withdrawals, {
            let answers = answers.clone();
            move |balance, withdrawal, out| {
                let balance = balance.as_mut().ok_or("a withdrawal, and no account")?;
                let left = balance.checked_sub(withdrawal.value);
                *balance = left.unwrap_or(*balance);
                let answer = left.map_or("too little money".to_owned(), |left| {
                    format!("{left} are left")
                });
                out.send(&answers, &withdrawal.key, &answer)
            }
        })
        .build()?;
    let app = App::named("bank").stage(bank).build()?;

    let mut driver = TestDriver::builder().seed(seed).build(&app)?;
    // Each client names what it has seen when it writes.
    let opening = driver.input(&openings).send("ann", "Ann")?;
    let deposit = driver
        .input(&deposits)
        .caused_by([opening])
        .send("ann", 80_u64)?;
    driver
        .input(&withdrawals)
        .caused_by([deposit])
        .send("ann", 50_u64)?;
    driver.withhold("bank", &openings)?;
    driver.withhold("bank", &deposits)?;
    driver.run()?;
    driver.assert_waits("bank", &withdrawals, &deposits);
    let mut lines = vec![format!("the bank holds: {}", driver.holds()?.holds[0])];

    driver.release("bank", &deposits)?;
    driver.run()?;
    driver.assert_waits("bank", &deposits, &openings);
    driver.output(&answers).assert_empty();
    lines.push("the deposit is there, and waits for the account".into());

    driver.release("bank", &openings)?;
    driver.run()?;
    let order = driver.delivered_to("bank");
    assert_eq!(
        order,
        [("openings", 0), ("deposits", 0), ("withdrawals", 0)]
    );
    driver
        .output(&answers)
        .assert_read([("ann".into(), "30 are left".into())]);
    lines.push("account, deposit, withdrawal: 30 are left".into());
    Ok(lines)
}

fn main() -> Result<(), Box<dyn Error>> {
    run(0)?.iter().for_each(|line| println!("{line}"));
    Ok(())
}
