//! The test driver: what a test sends, withholds, crashes and reads is what happens, and nothing else does.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use parsley_core::{Clock, RefusalCode, SenderId};
use parsley_embedded::testing::{DriverError, TestDriver};
use parsley_embedded::{NewRecord, Reads, StepError};
use parsley_stage::{App, Codec, Stage, Topic, codec};

type Amounts = Topic<String, u64>;

fn amounts(name: &'static str) -> Amounts {
    Topic::new(name, codec::string(), codec::u64())
}

fn codecs() -> (Codec<String>, Codec<u64>) {
    (codec::string(), codec::u64())
}

/// `bill` copies orders to bills; `ledger` keeps what is open of each customer and fails on a bill that nobody ordered.
struct Shop {
    orders: Amounts,
    bills: Amounts,
    sums: Amounts,
}

impl Shop {
    fn new() -> Self {
        Self {
            orders: amounts("orders"),
            bills: amounts("bills"),
            sums: amounts("sums"),
        }
    }

    fn bill(&self) -> Stage {
        let bills = self.bills.clone();
        Stage::stateless("bill")
            .sink(&self.bills)
            .on(&self.orders, move |order, out| {
                out.send(&bills, &order.key, &order.value)
            })
            .build()
            .unwrap()
    }

    fn ledger(&self) -> Stage {
        let sums = self.sums.clone();
        Stage::stateful("ledger", codec::string(), codec::u64())
            .sink(&self.sums)
            .on(&self.orders, |open, order, _out| {
                *open += order.value;
                Ok(())
            })
            .on(&self.bills, move |open, bill, out| {
                *open = open.checked_sub(bill.value).ok_or("nobody ordered it")?;
                out.send(&sums, &bill.key, open)
            })
            .build()
            .unwrap()
    }

    fn app(&self) -> App {
        let app = App::named("shop").stage(self.bill());
        app.stage(self.ledger()).build().unwrap()
    }
}

/// The panic's message.
fn panic_of(check: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(check)).expect_err("it panics");
    payload.downcast_ref::<String>().expect("a text").clone()
}

#[test]
fn what_is_sent_is_what_logic_sees_and_what_it_sends_is_read() {
    let (input, output) = (amounts("in"), amounts("out"));
    let copy = {
        let output = output.clone();
        Stage::stateless("copy")
            .sink(&output)
            .on(&input, move |message, out| {
                let place = format!("{}:{}", message.partition, message.offset);
                let source = message.header("source").unwrap_or(b"-").to_vec();
                let emission = out.to(&output).header("place", place);
                emission
                    .header("source", source)
                    .send(&message.key, &message.value)
            })
            .build()
            .unwrap()
    };
    let app = App::named("app").stage(copy).build().unwrap();
    let mut driver = TestDriver::builder().partitions(2).build(&app).unwrap();
    let sent = driver.input(&input).partition(1).timestamp_ms(7);
    let sent = sent.header("source", "web").send("ann", 3_u64).unwrap();
    assert_eq!((sent.channel.partition, sent.offset), (1, 0));
    driver
        .input(&input)
        .partition(1)
        .send("bob", 4_u64)
        .unwrap();
    assert_eq!(driver.run().unwrap(), 2);

    let mut messages = driver.output(&output).read_all().unwrap();
    messages.sort_by_key(|message| message.value);
    let seen = |index: usize, name: &str| messages[index].header(name).unwrap();
    assert_eq!(
        (seen(0, "place"), seen(0, "source")),
        (&b"1:0"[..], &b"web"[..])
    );
    assert_eq!(
        (seen(1, "place"), seen(1, "source")),
        (&b"1:1"[..], &b"-"[..])
    );
    assert_eq!(
        messages
            .iter()
            .map(|message| message.timestamp_ms)
            .collect::<Vec<_>>(),
        [7, 0]
    );
    // The stamp is in the log, and not among what logic and tests read.
    assert_eq!(messages[0].headers.len(), 2);
    assert!(matches!(
        driver.output(&output).read(),
        Err(DriverError::NothingToRead { topic }) if topic == "out"
    ));
}

#[test]
fn what_does_not_decode_stays_unread() {
    let shop = Shop::new();
    let mut driver = TestDriver::new(&shop.app()).unwrap();
    driver.input(&shop.sums).send("ann", 1_u64).unwrap();
    driver
        .send_raw(NewRecord::to("sums").key("bob").value("two"))
        .unwrap();
    let undecodable = |error: &DriverError| matches!(error, DriverError::Decode { topic, offset: 1, .. } if topic == "sums");
    let error = driver.output(&shop.sums).read_all().unwrap_err();
    assert!(undecodable(&error), "{error}");
    assert_eq!(driver.output(&shop.sums).read().unwrap().value, 1);
    let error = driver.output(&shop.sums).read().unwrap_err();
    assert!(undecodable(&error), "{error}");
    let raw = driver.output(&shop.sums).read_raw().unwrap();
    assert_eq!(raw[0].value.as_deref(), Some(&b"two"[..]));
    driver.output(&shop.sums).assert_empty();
}

#[test]
fn keys_find_their_partition_and_their_state() {
    let shop = Shop::new();
    let mut driver = TestDriver::builder()
        .partitions(3)
        .build(&shop.app())
        .unwrap();
    assert_eq!(driver.tasks().unwrap().len(), 6);
    let names: Vec<String> = (0..12).map(|number| format!("customer-{number}")).collect();
    let mut partitions = BTreeSet::new();
    for (name, amount) in names.iter().zip(1_u64..) {
        let sent = driver
            .input(&shop.orders)
            .send(name.as_str(), amount)
            .unwrap();
        partitions.insert(sent.channel.partition);
        driver
            .input(&shop.orders)
            .send(name.as_str(), amount)
            .unwrap();
    }
    assert_eq!(partitions.len(), 3, "the keys are spread");
    // Of each task the ledger gets the orders, and not the bills.
    driver.withhold("ledger", &shop.bills).unwrap();
    driver.run().unwrap();
    let (key, state) = codecs();
    let states = driver.states("ledger", &key, &state).unwrap();
    for (name, amount) in names.iter().zip(1_u64..) {
        assert_eq!(states.get(name).unwrap(), Some(2 * amount));
    }
    assert_eq!(states.all().unwrap().len(), names.len());
    driver.release("ledger", &shop.bills).unwrap();
    driver.run().unwrap();
    assert_eq!(
        states.get(&names[0]).unwrap(),
        Some(2),
        "as it was when it was asked for"
    );
    let states = driver.states("ledger", &key, &state).unwrap();
    assert!(states.all().unwrap().iter().all(|(_, open)| *open == 0));
}

#[test]
fn the_effect_of_a_withheld_cause_waits_and_says_for_what() {
    let shop = Shop::new();
    for seed in 0..8 {
        let mut driver = TestDriver::builder().seed(seed).build(&shop.app()).unwrap();
        driver.input(&shop.orders).send("ann", 1_u64).unwrap();
        let second = driver.input(&shop.orders).send("bob", 2_u64).unwrap();
        driver.withhold_from("ledger", second).unwrap();
        driver.run().unwrap();
        // The bill of the order that was withheld is held, its cause named, and the one before it is not.
        driver.output(&shop.sums).assert_read([("ann".into(), 0)]);
        driver.assert_waits("ledger", &shop.bills, &shop.orders);
        let holds = driver.holds().unwrap().holds;
        assert_eq!(holds.len(), 1);
        assert_eq!(
            holds[0].to_string(),
            "bills:0@1 waits for orders:0 up to 1, settled up to 0 (vc-hold-not-fetched)"
        );
        driver.release("ledger", &shop.orders).unwrap();
        driver.run().unwrap();
        driver.output(&shop.sums).assert_read([("bob".into(), 0)]);
        driver.assert_nothing_held();
        let order = driver.delivered_to("ledger");
        let place = |wanted| order.iter().position(|found| *found == wanted).unwrap();
        assert!(place(("orders", 1)) < place(("bills", 1)), "{order:?}");
    }
}

#[test]
fn withholding_is_for_one_stage_one_topic_and_where_asked_one_partition() {
    let shop = Shop::new();
    let mut driver = TestDriver::builder()
        .partitions(2)
        .build(&shop.app())
        .unwrap();
    let first = driver
        .input(&shop.orders)
        .partition(0)
        .send("ann", 0_u64)
        .unwrap();
    driver
        .input(&shop.orders)
        .partition(1)
        .send("bob", 0_u64)
        .unwrap();
    driver.withhold_from("bill", first).unwrap();
    // A later record does not let the earlier one go.
    let later = driver
        .input(&shop.orders)
        .partition(0)
        .send("ann", 0_u64)
        .unwrap();
    driver.withhold_from("bill", later).unwrap();
    driver.run().unwrap();
    let delivered = driver.deliveries().iter().map(ToString::to_string);
    let delivered: BTreeSet<String> = delivered.collect();
    assert!(!delivered.contains("bill/0: orders:0@0"), "{delivered:?}");
    assert!(delivered.contains("bill/1: orders:1@0"));
    assert!(
        delivered.contains("ledger/0: orders:0@0"),
        "another stage has it"
    );

    let unknown = driver.withhold("packer", &shop.orders).unwrap_err();
    assert!(matches!(unknown, DriverError::NoStage { .. }), "{unknown}");
    let no_input = driver.withhold("bill", &shop.sums).unwrap_err();
    assert!(
        matches!(no_input, DriverError::NoInput { .. }),
        "{no_input}"
    );
    // What a step is to read is narrowed by what is withheld, and never widened.
    driver.release("ledger", &shop.orders).unwrap();
    driver
        .input(&shop.orders)
        .partition(1)
        .send("bob", 0_u64)
        .unwrap();
    let late = driver
        .input(&shop.orders)
        .partition(1)
        .send("bob", 0_u64)
        .unwrap();
    driver.withhold_from("ledger", late).unwrap();
    let step = driver.step_reading("ledger", 1, Reads::nothing()).unwrap();
    assert_eq!(step.received, []);
    let step = driver
        .step_reading("ledger", 1, Reads::nothing().until("orders", 9))
        .unwrap();
    assert_eq!(step.received.len(), 1, "up to what is withheld");
}

#[test]
fn nothing_is_kept_of_a_step_that_a_crash_broke_off() {
    let shop = Shop::new();
    for deliveries in 0..=4 {
        let mut driver = TestDriver::new(&shop.app()).unwrap();
        driver.input(&shop.orders).send("ann", 5_u64).unwrap();
        driver.run().unwrap();
        driver.output(&shop.sums).assert_read([("ann".into(), 0)]);
        driver.withhold("ledger", &shop.orders).unwrap();
        for amount in [3_u64, 4] {
            driver.input(&shop.orders).send("ann", amount).unwrap();
        }
        driver.run().unwrap();
        driver.release("ledger", &shop.orders).unwrap();
        let before = driver.deliveries().len();

        let lost = driver.crash_in_step("ledger", 0, deliveries).unwrap();
        assert_eq!(lost.delivered.len(), deliveries);
        let bills = lost
            .delivered
            .iter()
            .filter(|record| &*record.topic == "bills");
        assert_eq!(
            lost.appended.len(),
            bills.count(),
            "the log has them, aborted"
        );
        assert!(!lost.committed);
        assert!(!driver.is_open("ledger", 0).unwrap());
        let (key, state) = codecs();
        let open = |driver: &TestDriver| {
            let states = driver.states("ledger", &key, &state).unwrap();
            states.get(&"ann".into()).unwrap()
        };
        assert_eq!(open(&driver), Some(0), "what was committed");
        assert_eq!(driver.deliveries().len(), before);

        // The bills that were held before are held again, and all comes again in the same order.
        let opening = driver.restart("ledger", 0).unwrap();
        assert_eq!(opening.held, 2);
        driver.output(&shop.sums).assert_empty();
        driver.run().unwrap();
        let again = &driver.deliveries()[before..];
        assert_eq!(again.len(), 4);
        for (lost, again) in lost.delivered.iter().zip(again) {
            assert_eq!(
                (&lost.topic, lost.offset),
                (&again.record.topic, again.record.offset)
            );
        }
        let sums = driver.output(&shop.sums).read_all().unwrap();
        assert_eq!(sums.len(), 2);
        // Where something was sent the aborted run has taken its offsets, and a marker.
        let sent = lost.appended.len();
        let aborted = if sent == 0 { 0 } else { sent + 1 };
        assert_eq!(sums[0].offset, 2 + aborted as i64);
        assert_eq!(open(&driver), Some(0));
    }
}

#[test]
fn a_crash_between_steps_keeps_what_was_committed() {
    let shop = Shop::new();
    let mut driver = TestDriver::new(&shop.app()).unwrap();
    driver.withhold("ledger", &shop.bills).unwrap();
    driver.input(&shop.orders).send("ann", 5_u64).unwrap();
    driver.run().unwrap();
    driver.crash("ledger", 0).unwrap();
    assert!(matches!(
        driver.step("ledger", 0),
        Err(DriverError::Task {
            error: StepError::NotOpen { .. },
            ..
        })
    ));
    driver.release("ledger", &shop.bills).unwrap();
    assert_eq!(driver.run().unwrap(), 0);
    driver.restart("ledger", 0).unwrap();
    driver.run().unwrap();
    driver.output(&shop.sums).assert_read([("ann".into(), 0)]);
    assert!(matches!(
        driver.crash("ledger", 1),
        Err(DriverError::Task {
            error: StepError::NoTask { .. },
            ..
        })
    ));
}

#[test]
fn a_failing_task_says_why_and_the_others_go_on_without_it() {
    let shop = Shop::new();
    let mut driver = TestDriver::new(&shop.app()).unwrap();
    driver.input(&shop.bills).send("ann", 1_u64).unwrap();
    let error = driver.run().unwrap_err();
    let end = error.task_end().and_then(|end| end.application());
    assert!(
        end.is_some_and(|end| end.message == "nobody ordered it"),
        "{error}"
    );
    assert!(error.to_string().starts_with("ledger/0: "), "{error}");
    driver.input(&shop.orders).send("ann", 1_u64).unwrap();
    driver.run().unwrap();
    assert_eq!(driver.delivered_to("bill").len(), 1);
    driver.restart("ledger", 0).unwrap();
    // The order of orders and bills is open: with the order first it succeeds.
    driver.withhold("ledger", &shop.bills).unwrap();
    driver.run().unwrap();
    driver.release("ledger", &shop.bills).unwrap();
    let error = driver.run().unwrap_err();
    assert!(
        error.task_end().is_some(),
        "the second bill, of the order, is one too many"
    );
}

#[test]
fn another_declaration_goes_on_from_what_is_committed() {
    let shop = Shop::new();
    let only_bills = App::named("shop").stage(shop.bill()).build().unwrap();
    let mut driver = TestDriver::new(&only_bills).unwrap();
    driver.input(&shop.orders).send("ann", 5_u64).unwrap();
    driver.run().unwrap();
    driver.redeploy(&shop.app()).unwrap();
    assert_eq!(driver.tasks().unwrap(), [("bill", 0), ("ledger", 0)]);
    driver.withhold("ledger", &shop.orders).unwrap();
    driver.run().unwrap();
    driver.assert_waits("ledger", &shop.bills, &shop.orders);
    assert_eq!(
        driver.delivered_to("bill").len(),
        1,
        "its positions are committed"
    );

    // An input that holds records cannot be left out (G8); the former declaration goes on.
    let without_bills = {
        let ledger = Stage::stateful("ledger", codec::string(), codec::u64())
            .on(&shop.orders, |_: &mut u64, _, _| Ok(()))
            .build()
            .unwrap();
        App::named("shop").stage(ledger).build().unwrap()
    };
    let error = driver.redeploy(&without_bills).unwrap_err();
    let refusal = error.task_end().and_then(|end| end.refusal());
    assert_eq!(
        refusal.map(|refusal| refusal.code),
        Some(RefusalCode::RemovedInputHeld)
    );
    assert!(!driver.is_open("ledger", 0).unwrap());
    assert_eq!(driver.run().unwrap(), 0);
    driver.redeploy(&shop.app()).unwrap();
    driver.assert_waits("ledger", &shop.bills, &shop.orders);
    driver.release("ledger", &shop.orders).unwrap();
    driver.run().unwrap();
    driver.output(&shop.sums).assert_read([("ann".into(), 0)]);
    // A stage without an input that is withheld is stepped all the same.
    driver.withhold("ledger", &shop.bills).unwrap();
    driver.redeploy(&without_bills).unwrap();
    driver.input(&shop.orders).send("ann", 5_u64).unwrap();
    assert_eq!(driver.run().unwrap(), 1);
}

#[test]
fn an_application_that_does_not_fit_is_not_deployed() {
    let shop = Shop::new();
    let mut driver = TestDriver::builder()
        .topic("bills", 2)
        .build(&{ App::named("shop").stage(shop.bill()).build().unwrap() })
        .unwrap();
    let error = driver.redeploy(&shop.app()).unwrap_err();
    assert!(error.to_string().starts_with("co-partition"), "{error}");
    assert!(matches!(driver.run(), Err(DriverError::NotDeployed)));
    assert!(matches!(driver.holds(), Err(DriverError::NotDeployed)));
    driver
        .redeploy(&App::named("shop").stage(shop.bill()).build().unwrap())
        .unwrap();
    assert_eq!(driver.run().unwrap(), 0);

    let error = TestDriver::builder()
        .partitions(0)
        .build(&shop.app())
        .unwrap_err();
    assert!(matches!(error, DriverError::Topic(_)), "{error}");
    let error = TestDriver::builder()
        .max_step_deliveries(0)
        .build(&shop.app())
        .unwrap_err();
    assert!(matches!(error, DriverError::Host(_)), "{error}");
}

#[test]
fn a_run_gives_the_evidence_that_a_host_gives() {
    let shop = Shop::new();
    let mut driver = TestDriver::new(&shop.app()).unwrap();
    let order = driver.input(&shop.orders).send("ann", 5_u64).unwrap();
    // A send of somebody whose records never come here: only a high watermark says so.
    let mut clock = Clock::new();
    clock.claim_sequence(order.channel, SenderId::of_name("alice"), 3);
    driver
        .input(&shop.bills)
        .clock(&clock)
        .caused_by([order])
        .send("ann", 0_u64)
        .unwrap();
    driver.step("bill", 0).unwrap();
    driver.step("ledger", 0).unwrap();
    driver.assert_waits("ledger", &shop.bills, &shop.orders);
    driver.run().unwrap();
    driver.assert_nothing_held();
}

#[test]
fn an_application_that_feeds_itself_does_not_run_for_ever() {
    let loops = amounts("loop");
    let stage = {
        let to = loops.clone();
        Stage::stateless("turn")
            .sink(&loops)
            .on(&loops, move |message, out| {
                out.send(&to, &message.key, &(message.value + 1))
            })
            .build()
            .unwrap()
    };
    let app = App::named("app").stage(stage).build().unwrap();
    let mut driver = TestDriver::builder().steps_max(20).build(&app).unwrap();
    driver.input(&loops).send("ann", 0_u64).unwrap();
    assert!(matches!(
        driver.run(),
        Err(DriverError::NotIdle { steps: 21 })
    ));
}

#[test]
fn the_clock_is_the_tests_own() {
    let shop = Shop::new();
    let mut driver = TestDriver::builder()
        .start_ms(1_000)
        .build(&shop.app())
        .unwrap();
    driver.input(&shop.orders).send("ann", 1_u64).unwrap();
    driver.advance(Duration::from_millis(1_500));
    driver.input(&shop.orders).send("ann", 1_u64).unwrap();
    driver.run().unwrap();
    assert_eq!(driver.now_ms(), 2_500);
    let bills = driver.output(&shop.bills).read_all().unwrap();
    let times: Vec<i64> = bills.iter().map(|bill| bill.timestamp_ms).collect();
    assert_eq!(times, [1_000, 2_500]);
    driver.advance(Duration::MAX);
    driver.advance(Duration::MAX);
    assert_eq!(driver.now_ms(), i64::MAX);
}

/// What is held is as old as the driver's clock says, and not as the time that a test takes.
#[test]
fn what_is_held_ages_by_the_tests_clock() {
    let shop = Shop::new();
    let mut driver = TestDriver::new(&shop.app()).unwrap();
    driver.withhold("ledger", &shop.orders).unwrap();
    driver.input(&shop.orders).send("ann", 1_u64).unwrap();
    driver.run().unwrap();
    let age = |driver: &TestDriver| driver.holds().unwrap().holds[0].age_ms;
    std::thread::sleep(Duration::from_millis(3));
    assert_eq!(age(&driver), 0);
    driver.advance(Duration::from_secs(90));
    assert_eq!(age(&driver), 90_000);
}

/// Orders and payments that do not know of each other, read together.
fn concurrent(seed: u64) -> (Vec<(String, i64)>, Vec<parsley_core::Record>) {
    let shop = Shop::new();
    let mut driver = TestDriver::builder().seed(seed).build(&shop.app()).unwrap();
    driver.input(&shop.orders).send("ann", 5_u64).unwrap();
    driver.input(&shop.bills).send("bob", 0_u64).unwrap();
    driver.step("ledger", 0).unwrap();
    driver.run().unwrap();
    let order = driver.delivered_to("ledger").into_iter();
    let order = order
        .map(|(topic, offset)| (topic.to_owned(), offset))
        .collect();
    (order, driver.output(&shop.sums).read_raw().unwrap())
}

#[test]
fn runs_repeat_and_a_seed_chooses_between_orders_that_are_both_right() {
    let orders: BTreeSet<Vec<(String, i64)>> = (0..16).map(|seed| concurrent(seed).0).collect();
    assert_eq!(orders.len(), 2, "{orders:?}");
    assert_eq!(concurrent(3), concurrent(3));
}

#[test]
fn states_are_read_with_the_codecs_they_were_declared_with() {
    let visits: Topic<Option<String>, u64> =
        Topic::new("visits", codec::nullable(codec::string()), codec::u64());
    let (key, state) = (
        codec::nullable(codec::string()),
        codec::nullable(codec::u64()),
    );
    let last = Stage::stateful("last", key.clone(), state.clone())
        .on(&visits, |last, visit, _out| {
            *last = (visit.value > 0).then_some(visit.value);
            Ok(())
        })
        .build()
        .unwrap();
    let shop = Shop::new();
    let app = App::named("app")
        .stage(last)
        .stage(shop.bill())
        .build()
        .unwrap();
    let mut driver = TestDriver::new(&app).unwrap();
    let ann = Some("ann".to_owned());
    driver.input(&visits).send(None::<String>, 3_u64).unwrap();
    driver.input(&visits).send(ann.clone(), 4_u64).unwrap();
    driver.run().unwrap();
    let states = driver.states("last", &key, &state).unwrap();
    assert_eq!(
        states.all().unwrap(),
        [(None, Some(3)), (ann.clone(), Some(4))]
    );
    driver.input(&visits).send(ann.clone(), 0_u64).unwrap();
    driver.run().unwrap();
    let states = driver.states("last", &key, &state).unwrap();
    assert_eq!(states.get(&ann).unwrap(), None, "a null state is none");
    assert_eq!(states.get(&None).unwrap(), Some(Some(3)));
    assert_eq!(states.get_in(7, &None).unwrap(), None);

    let refused = [
        driver.states("last", &codec::string(), &state).err(),
        driver.states("last", &key, &codec::u64()).err(),
        driver.states("bill", &codec::string(), &codec::u64()).err(),
    ];
    for error in refused {
        assert!(
            matches!(error, Some(DriverError::NoStates { .. })),
            "{error:?}"
        );
    }
    let error = driver.states("nobody", &key, &state).err();
    assert!(matches!(error, Some(DriverError::NoStage { .. })));
}

#[test]
fn expectations_say_what_is_there_instead() {
    let shop = Shop::new();
    let mut driver = TestDriver::new(&shop.app()).unwrap();
    let message = panic_of(|| driver.assert_waits("ledger", &shop.bills, &shop.orders));
    assert_eq!(
        message,
        "stage ledger holds nothing of bills for orders; it holds []"
    );
    driver.input(&shop.sums).send("ann", 1_u64).unwrap();
    let message = panic_of(|| driver.output(&shop.sums).assert_read([("ann".into(), 2)]));
    assert_eq!(
        message,
        r#"topic sums has [("ann", 1)] to read, and not [("ann", 2)]"#
    );
    driver.input(&shop.sums).send("ann", 1_u64).unwrap();
    let message = panic_of(|| driver.output(&shop.sums).assert_empty());
    assert_eq!(
        message,
        "topic sums has 1 records to read, the first at partition 0, offset 1"
    );
    driver.withhold("ledger", &shop.orders).unwrap();
    driver.input(&shop.orders).send("ann", 1_u64).unwrap();
    driver.run().unwrap();
    // The wrong way round.
    panic_of(|| driver.assert_waits("ledger", &shop.orders, &shop.bills));
    panic_of(|| driver.assert_waits("ledger", &shop.sums, &shop.orders));
    panic_of(|| driver.assert_waits("bill", &shop.bills, &shop.orders));
    let message = panic_of(|| driver.assert_nothing_held());
    assert!(
        message.starts_with(r#"held: ["ledger/0: bills:0@0 waits for orders:0"#),
        "{message}"
    );
    driver
        .input(&shop.bills)
        .header("vc", "?")
        .send("ann", 1_u64)
        .unwrap();
    let message = panic_of(|| driver.assert_runs());
    assert!(message.contains("vc-corrupt-clock"), "{message}");
}

/// A run is over when no task has anything to do. A step that was full with the last record that could be delivered has the next one find its
/// drain at the end, and read nothing; where no other task moved meanwhile, the run ended there, with records that nobody had read.
#[test]
fn a_run_reads_on_behind_a_step_that_was_full_with_the_last_record() {
    let numbers = Topic::new("numbers", codec::string(), codec::u64());
    let stage = Stage::stateless("copy").on(&numbers, |_number, _out| Ok(()));
    let app = App::named("full").stage(stage.build().unwrap());
    let app = app.build().unwrap();
    let mut driver = TestDriver::builder()
        .max_step_deliveries(1)
        .build(&app)
        .unwrap();
    driver.input(&numbers).send("k", 1_u64).unwrap();
    assert!(driver.step("copy", 0).unwrap().is_full);
    driver.input(&numbers).send("k", 2_u64).unwrap();
    assert_eq!(driver.run().unwrap(), 1);
    assert_eq!(
        driver.delivered_to("copy"),
        [("numbers", 0), ("numbers", 1)]
    );
}
