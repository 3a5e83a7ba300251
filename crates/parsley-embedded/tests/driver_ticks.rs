//! Ticks in the test driver: its clock makes them due, and they are what they are on every host.

use std::time::Duration;

use parsley_embedded::testing::{DriverError, TestDriver};
use parsley_embedded::{NewRecord, StepError};
use parsley_stage::{App, Stage, Topic, codec};

type Numbers = Topic<String, u64>;

const MINUTE: Duration = Duration::from_secs(60);

struct Shop {
    sales: Numbers,
    closings: Topic<String, i64>,
    sums: Numbers,
}

impl Shop {
    fn new() -> Self {
        Self {
            sales: Topic::new("sales", codec::string(), codec::u64()),
            closings: Topic::new("closings", codec::string(), codec::i64()),
            sums: Topic::new("sums", codec::string(), codec::u64()),
        }
    }

    /// `till` closes every minute, unless a sale of 13 was made; `books` sums up what was sold until a closing.
    fn app(&self) -> App {
        let (closings, sums) = (self.closings.clone(), self.sums.clone());
        let till = Stage::stateless("till")
            .sink(&self.closings)
            .on(&self.sales, |sale, _out| match sale.value {
                13 => Err("thirteen".into()),
                _ => Ok(()),
            })
            .ticks(MINUTE, codec::u64(), move |closed, tick, out| {
                *closed += 1;
                out.send(&closings, &"shop".into(), &tick.timestamp_ms)
            })
            .build()
            .unwrap();
        let books = Stage::stateful("books", codec::string(), codec::u64())
            .sink(&self.sums)
            .on(&self.sales, |sum, sale, _out| {
                *sum += sale.value;
                Ok(())
            })
            .on(&self.closings, move |sum, closing, out| {
                out.send(&sums, &closing.key, sum)
            })
            .build()
            .unwrap();
        let app = App::named("shop").stage(till);
        app.stage(books).build().unwrap()
    }

    fn closed_at(&self, driver: &mut TestDriver) -> Vec<i64> {
        let closings = driver.output(&self.closings).read_pairs().unwrap();
        closings.into_iter().map(|(_, at)| at).collect()
    }
}

#[test]
fn a_tick_is_due_when_the_test_says_so_and_once() {
    let shop = Shop::new();
    let mut driver = TestDriver::builder()
        .start_ms(-60_000)
        .build(&shop.app())
        .unwrap();
    driver.run().unwrap();
    driver.advance(MINUTE - Duration::from_millis(1));
    driver.run().unwrap();
    assert_eq!(shop.closed_at(&mut driver), [0_i64; 0]);
    driver.advance(Duration::from_millis(1));
    assert_eq!(shop.closed_at(&mut driver), [0_i64; 0], "nothing was run");
    driver.run().unwrap();
    driver.run().unwrap();
    assert_eq!(shop.closed_at(&mut driver), [0]);
    // Five intervals and a half come to one, and the grid stays.
    driver.advance(5 * MINUTE + MINUTE / 2);
    driver.run().unwrap();
    driver.advance(MINUTE / 2);
    driver.run().unwrap();
    assert_eq!(shop.closed_at(&mut driver), [330_000, 360_000]);
    assert_eq!(
        driver.tick_state("till", 0, &codec::u64()).unwrap(),
        Some(3)
    );
    assert!(matches!(
        driver.tick_state("till", 0, &codec::i64()),
        Err(DriverError::NoStates { .. })
    ));
    assert!(matches!(
        driver.tick_state("books", 0, &codec::u64()),
        Err(DriverError::NoStates { .. })
    ));
    assert_eq!(driver.tick_state("till", 1, &codec::u64()).unwrap(), None);
}

#[test]
fn each_task_ticks_on_its_own_partition() {
    let shop = Shop::new();
    let driver = TestDriver::builder().topic("sales", 3).topic("closings", 3);
    let mut driver = driver.build(&shop.app()).unwrap();
    let log = driver.host().log().clone();
    let ticks = log.topic_id("shop-till-ticks").unwrap();
    assert_eq!(
        log.partition_count(ticks),
        Some(3),
        "as many as the widest input"
    );
    driver.advance(MINUTE);
    driver.run().unwrap();
    assert_eq!(shop.closed_at(&mut driver).len(), 3);
    for partition in 0..3 {
        assert_eq!(
            driver.tick_state("till", partition, &codec::u64()).unwrap(),
            Some(1)
        );
    }
}

/// Who is delivered what a tick has caused has been delivered all that the ticking task had.
#[test]
fn the_effect_of_a_tick_waits_for_what_the_task_was_delivered() {
    let shop = Shop::new();
    for seed in 0..8 {
        let mut driver = TestDriver::builder().seed(seed).build(&shop.app()).unwrap();
        driver.withhold("books", &shop.sales).unwrap();
        for amount in [3_u64, 4] {
            driver.input(&shop.sales).send("shop", amount).unwrap();
        }
        driver.run().unwrap();
        driver.advance(MINUTE);
        driver.run().unwrap();
        driver.assert_waits("books", &shop.closings, &shop.sales);
        driver.output(&shop.sums).assert_empty();
        driver.release("books", &shop.sales).unwrap();
        driver.run().unwrap();
        driver.output(&shop.sums).assert_read([("shop".into(), 7)]);
    }
}

#[test]
fn a_tick_of_a_step_that_failed_is_due_still_and_one_of_a_crash_is_not() {
    let shop = Shop::new();
    let mut driver = TestDriver::new(&shop.app()).unwrap();
    driver.advance(MINUTE);
    // The step that emits the tick fails on a sale.
    let bad = NewRecord::to("sales").key("shop").value("no number");
    driver.send_raw(bad).unwrap();
    let error = driver.step("till", 0).unwrap_err();
    assert!(error.task_end().is_some());
    assert_eq!(shop.closed_at(&mut driver), [0_i64; 0]);
    driver.advance(MINUTE / 4);
    driver.restart("till", 0).unwrap();
    let error = driver.step("till", 0).unwrap_err();
    let DriverError::Task {
        error: StepError::Ended { given_up, .. },
        ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!(
        given_up.appended.len(),
        1,
        "the tick was emitted again, and aborted again"
    );
    assert_eq!(given_up.appended[0].send.timestamp_ms, 75_000);

    // A crash counts anew.
    let mut driver = TestDriver::new(&shop.app()).unwrap();
    driver.advance(MINUTE);
    let lost = driver.crash_in_step("till", 0, 0).unwrap();
    assert_eq!(
        (lost.delivered.len(), lost.appended.len()),
        (0, 1),
        "the tick"
    );
    driver.restart("till", 0).unwrap();
    driver.advance(MINUTE - Duration::from_millis(1));
    driver.run().unwrap();
    assert_eq!(shop.closed_at(&mut driver), [0_i64; 0]);
    driver.advance(Duration::from_millis(1));
    driver.run().unwrap();
    assert_eq!(shop.closed_at(&mut driver), [120_000]);
    // So do a restart of a task that is open, and a redeployment.
    driver.advance(MINUTE / 2);
    driver.restart("till", 0).unwrap();
    driver.advance(MINUTE / 2);
    driver.run().unwrap();
    assert_eq!(shop.closed_at(&mut driver), [0_i64; 0]);
    driver.advance(MINUTE / 2);
    driver.run().unwrap();
    assert_eq!(shop.closed_at(&mut driver), [210_000]);
    driver.advance(MINUTE / 2);
    driver.redeploy(&shop.app()).unwrap();
    driver.advance(MINUTE / 2);
    driver.run().unwrap();
    assert_eq!(shop.closed_at(&mut driver), [0_i64; 0]);
    assert_eq!(
        driver.tick_state("till", 0, &codec::u64()).unwrap(),
        Some(2)
    );
}
