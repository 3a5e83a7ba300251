//! The account of deliveries (decision E11): what was handed over is in it once, in order, whatever became of the tasks.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parsley_core::{Clock, Offset};
use parsley_embedded::{Host, HostBuilder, Reads, StartError, Stepper};
use parsley_stage::{App, AuditRecord, Audited, Stage};
use support::stepping::{ALL, delivered, ended, opened, pair, pair_host, records, repeatable};
use support::*;

const ACCOUNT: &str = "account";

fn audited(builder: HostBuilder) -> Host {
    let host = pair_host(builder.audit(ACCOUNT));
    create(&host, 1, &[ACCOUNT]);
    host
}

fn account(host: &Host) -> Vec<AuditRecord> {
    let entry = |record: &parsley_core::Record| {
        let entry = AuditRecord::decode(record.value.as_deref()).unwrap();
        assert_eq!(record.key, Some(entry.key()));
        assert!(record.headers.is_empty(), "the account carries no stamp");
        entry
    };
    records(host, ACCOUNT).iter().map(entry).collect()
}

/// `x@0` for a delivery with its arrival, `x@0 held` for a hold.
fn told(entries: &[AuditRecord]) -> Vec<String> {
    let tell = |entry: &AuditRecord| {
        let at = format!("{}@{}", entry.topic, entry.offset);
        match &entry.audited {
            Audited::Delivered {
                arrival: Some(arrival),
                ..
            } => format!("{at} arrived {arrival}"),
            Audited::Delivered { arrival: None, .. } => at,
            Audited::Held {
                arrival,
                head,
                waits,
            } => {
                format!(
                    "{at} arrived {arrival}, held, head {head}, waits {}",
                    waits.len()
                )
            }
        }
    };
    entries.iter().map(tell).collect()
}

fn deliveries(entries: &[AuditRecord]) -> Vec<(&str, Offset)> {
    entries
        .iter()
        .filter(|entry| matches!(entry.audited, Audited::Delivered { .. }))
        .map(|entry| (&*entry.topic, entry.offset))
        .collect()
}

/// Sends records to y that claim a record of x.
fn send_effect(host: &Host, of: Offset, value: &str) {
    let mut clock = Clock::new();
    clock.claim_offset(channel(host, "x", 0), of);
    host.producer().send(claiming("y", value, &clock)).unwrap();
}

fn step(stepper: &mut Stepper, reads: &Reads) -> Vec<(String, Offset)> {
    let report = stepper.step("s", 0, reads).unwrap();
    delivered(&report)
        .into_iter()
        .map(|(topic, offset)| (topic.to_owned(), offset))
        .collect()
}

#[test]
fn the_account_has_deliveries_in_their_order_behind_them_what_is_held_and_for_what() {
    let host = audited(repeatable());
    let app = pair();
    send_effect(&host, 0, "effect");
    send_effect(&host, 0, "another");
    send(&host, "y", "k", "alone");
    let mut stepper = opened(&host, &app);
    assert_eq!(step(&mut stepper, &ALL), []);
    let first = account(&host);
    assert_eq!(
        told(&first),
        [
            "y@0 arrived 0, held, head 0, waits 1",
            "y@1 arrived 1, held, head 0, waits 0",
            "y@2 arrived 2, held, head 0, waits 0",
        ]
    );
    let Audited::Held { waits, .. } = &first[0].audited else {
        panic!("a hold");
    };
    assert_eq!(&*waits[0].topic, "x");
    assert_eq!(waits[0].wait.channel(), channel(&host, "x", 0));

    send(&host, "x", "k", "cause");
    send(&host, "x", "k", "more");
    let order = step(&mut stepper, &ALL);
    let all = account(&host);
    assert_eq!(all[..3], first);
    assert_eq!(
        told(&all[3..]),
        ["x@0 arrived 3", "x@1 arrived 4", "y@0", "y@1", "y@2"]
    );
    assert!(
        deliveries(&all)
            .into_iter()
            .eq(order.iter().map(|(topic, offset)| (&**topic, *offset)))
    );
    let Audited::Delivered {
        key,
        clock,
        timestamp_ms,
        ..
    } = &all[5].audited
    else {
        panic!("a delivery");
    };
    assert_eq!((key.as_deref(), *timestamp_ms), (Some(&b"k"[..]), 7));
    let mut claim = Clock::new();
    claim.claim_offset(channel(&host, "x", 0), 0);
    assert_eq!(*clock, parsley_core::wire::encode(&claim));
    assert!(
        all.iter()
            .all(|entry| &*entry.stage == "s" && entry.partition == 0)
    );
}

/// The entries stand behind what the step sent, under one marker with it.
#[test]
fn an_entry_is_readable_when_the_sends_of_its_step_are_and_not_before() {
    let host = audited(repeatable());
    send(&host, "x", "k", "1");
    let mut stepper = opened(&host, &pair());
    assert_eq!((account(&host).len(), records(&host, "out").len()), (0, 0));
    step(&mut stepper, &ALL);
    assert_eq!((account(&host).len(), records(&host, "out").len()), (1, 1));
    assert_eq!(
        host.log().high_watermark(channel(&host, ACCOUNT, 0)),
        Some(2),
        "an entry and a marker"
    );
}

#[test]
fn a_step_that_fails_leaves_nothing_and_its_repetition_is_told_once() {
    let fails = Arc::new(AtomicBool::new(true));
    let (x, out) = (text("x"), text("out"));
    let stage = Stage::stateless("s")
        .sink(&out)
        .on(&x, {
            let (fails, out) = (Arc::clone(&fails), out.clone());
            move |message, outbox| {
                outbox.send(&out, &message.key, &message.value)?;
                match message.offset == 2 && fails.load(Ordering::SeqCst) {
                    true => Err("not yet".into()),
                    false => Ok(()),
                }
            }
        })
        .build()
        .unwrap();
    let app = App::named("app").stage(stage).build().unwrap();
    let host = repeatable().audit(ACCOUNT).build().unwrap();
    create(&host, 1, &["x", "out", ACCOUNT]);
    send_numbers(&host, "x", 0..4);
    let mut stepper = opened(&host, &app);
    for _ in 0..3 {
        let (end, given_up) = ended(stepper.step("s", 0, &ALL));
        assert!(end.application().is_some());
        assert_eq!(given_up.delivered.len(), 2);
        assert_eq!(account(&host), []);
        stepper.open("s", 0).unwrap();
    }
    fails.store(false, Ordering::SeqCst);
    step(&mut stepper, &ALL);
    assert_eq!(
        told(&account(&host)),
        [
            "x@0 arrived 0",
            "x@1 arrived 1",
            "x@2 arrived 2",
            "x@3 arrived 3"
        ]
    );
}

/// An entry that cannot be appended fails the step as a send does: nothing is delivered that the account does not tell of.
#[test]
fn without_its_account_a_step_is_not_committed() {
    let host = audited(repeatable());
    send(&host, "x", "k", "1");
    let mut stepper = opened(&host, &pair());
    host.delete_topic(ACCOUNT).unwrap();
    ended(stepper.step("s", 0, &ALL));
    assert_eq!(records(&host, "out"), []);
    let committed = host.log().committed_positions("app-s");
    assert_eq!(
        committed.get(&channel(&host, "x", 0)).copied().unwrap_or(0),
        0
    );
    drop(stepper);
    create(&host, 1, &[ACCOUNT]);
    let mut stepper = opened(&host, &pair());
    step(&mut stepper, &ALL);
    assert_eq!(told(&account(&host)), ["x@0 arrived 0"]);
}

/// Crashes between any two steps: whatever was delivered is told once, in order, and arrivals go on within each execution.
#[test]
fn crashes_neither_lose_an_entry_nor_repeat_one() {
    for full_after in [1, 2, 1000] {
        let host = audited(repeatable().max_step_deliveries(full_after));
        let app = pair();
        let mut order = Vec::new();
        let mut executions = Vec::new();
        for round in 0..6 {
            send_effect(&host, round, "effect");
            send_effect(&host, round, "another");
            let mut stepper = opened(&host, &app);
            order.extend(step(&mut stepper, &ALL));
            drop(stepper);
            send(&host, "x", "k", "cause");
            let mut stepper = opened(&host, &app);
            order.extend(step(&mut stepper, &Reads::everything().at_most("y", 0)));
            stepper.crash("s", 0).unwrap();
            stepper.open("s", 0).unwrap();
            order.extend(step(&mut stepper, &ALL));
        }
        let mut stepper = opened(&host, &app);
        loop {
            let report = stepper.step("s", 0, &ALL).unwrap();
            if !report.committed {
                break;
            }
            order.extend(
                delivered(&report)
                    .into_iter()
                    .map(|(topic, offset)| (topic.to_owned(), offset)),
            );
        }
        assert_eq!(order.len(), 18, "all is delivered");
        let account = account(&host);
        assert!(
            deliveries(&account)
                .into_iter()
                .eq(order.iter().map(|(topic, offset)| (&**topic, *offset))),
            "{:?}",
            told(&account)
        );

        // Each record arrived once, and a hold precedes the delivery that has no arrival.
        let mut held = std::collections::BTreeSet::new();
        let mut arrived = std::collections::BTreeMap::<Offset, Vec<u64>>::new();
        for entry in &account {
            let at = (entry.channel, entry.offset);
            match entry.audited {
                Audited::Held { arrival, .. } => {
                    assert!(held.insert(at));
                    arrived.entry(entry.execution).or_default().push(arrival);
                }
                Audited::Delivered {
                    arrival: Some(arrival),
                    ..
                } => {
                    assert!(!held.contains(&at));
                    arrived.entry(entry.execution).or_default().push(arrival);
                }
                Audited::Delivered { arrival: None, .. } => assert!(held.remove(&at)),
            }
            executions.push(entry.execution);
        }
        assert_eq!(held, [].into());
        assert!(executions.is_sorted());
        assert_eq!(arrived.values().map(Vec::len).sum::<usize>(), 18);
        for mut arrivals in arrived.into_values() {
            arrivals.sort_unstable();
            assert!(arrivals.iter().copied().eq(0..arrivals.len() as u64));
        }
    }
}

/// The same over a directory, of which nothing stays open from one crash to the next.
#[test]
fn the_account_outlives_the_process_with_what_it_tells_of() {
    let dir = support::dir::fast_dir();
    let reopened = || {
        repeatable()
            .audit(ACCOUNT)
            .data_dir(dir.path())
            .build()
            .unwrap()
    };
    let app = pair();
    let mut order = Vec::new();
    create(&reopened(), 1, &["x", "y", "out", ACCOUNT]);
    for round in 0..4 {
        let host = reopened();
        assert!(
            deliveries(&account(&host)).into_iter().eq(order
                .iter()
                .map(|(topic, offset): &(String, _)| (&**topic, *offset)))
        );
        send_effect(&host, round, "effect");
        order.extend(step(&mut opened(&host, &app), &ALL));
        drop(host);
        let host = reopened();
        send(&host, "x", "k", "cause");
        order.extend(step(&mut opened(&host, &app), &ALL));
    }
    let account = account(&reopened());
    assert_eq!(order.len(), 8);
    assert_eq!(
        told(&account[..6]),
        [
            "y@0 arrived 0, held, head 0, waits 1",
            "x@0 arrived 0",
            "y@0",
            "y@1 arrived 0, held, head 1, waits 1",
            "x@1 arrived 0",
            "y@1",
        ]
    );
    let executions: Vec<_> = account.iter().map(|entry| entry.execution).collect();
    assert!(executions.is_sorted());
    assert_eq!(executions[1], executions[2]);
    assert_ne!(executions[0], executions[1]);
}

/// A step that is full leaves records behind that wait for no other.
#[test]
fn what_a_full_step_does_not_reach_is_told_as_held_for_nothing() {
    let host = audited(repeatable().max_step_deliveries(2));
    send_numbers(&host, "x", 0..4);
    let mut stepper = opened(&host, &pair());
    step(&mut stepper, &ALL);
    step(&mut stepper, &ALL);
    assert_eq!(
        told(&account(&host)),
        [
            "x@0 arrived 0",
            "x@1 arrived 1",
            "x@2 arrived 2, held, head 2, waits 0",
            "x@3 arrived 3, held, head 2, waits 0",
            "x@2",
            "x@3",
        ]
    );
}

#[test]
fn each_task_writes_to_the_partition_of_its_number() {
    let app = pair();
    let host = repeatable().audit(ACCOUNT).build().unwrap();
    create(&host, 3, &["x", "y", "out"]);
    create(&host, 4, &[ACCOUNT]);
    send_numbers(&host, "x", 0..30);
    let running = host.start(&app).unwrap();
    running.wait_until_idle().reached().unwrap();
    running.stop().unwrap();
    let records = records(&host, ACCOUNT);
    assert_eq!(records.len(), 30);
    for record in records {
        let entry = AuditRecord::decode(record.value.as_deref()).unwrap();
        assert_eq!(entry.partition, record.channel.partition);
        assert_eq!(entry.channel.partition, record.channel.partition);
    }
}

#[test]
fn a_topic_that_does_not_fit_fails_the_start() {
    let app = pair();
    let started = |name: &str| {
        let host = repeatable().audit(name).build().unwrap();
        create(&host, 2, &["x", "y", "out"]);
        create(&host, 1, &["narrow"]);
        let threads = host.start(&app).map(drop).unwrap_err();
        let steps = host.step_by_step(&app).map(drop).unwrap_err();
        assert_eq!(threads.to_string(), steps.to_string());
        threads
    };
    let missing = started("nowhere");
    assert!(
        matches!(&missing, StartError::MissingTopics { topics } if topics == &["nowhere"]),
        "{missing}"
    );
    for declared in ["x", "out"] {
        let error = started(declared);
        assert!(
            matches!(&error, StartError::AuditDeclared { topic } if topic == declared),
            "{error}"
        );
    }
    let narrow = started("narrow");
    assert!(
        matches!(
            &narrow,
            StartError::AuditPartitions {
                found: 1,
                needed: 2,
                ..
            }
        ),
        "{narrow}"
    );
}
