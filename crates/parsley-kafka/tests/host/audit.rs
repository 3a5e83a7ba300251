//! The account of deliveries (decision E11) on a real broker: what was delivered is in it once, in order, whatever became of the steps.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parsley_kafka::{KafkaHost, KafkaRunning, StageError, StartError};
use parsley_stage::{App, AuditRecord, Audited, Stage};

use crate::account::{account, check};
use crate::world::*;

fn start_audited(dir: &tempfile::TempDir, app: &App, account: &str) -> KafkaRunning {
    let host = KafkaHost::new(config(dir)).unwrap().audit(account);
    host.start(app).unwrap()
}

#[test]
fn the_topic_of_the_account_has_to_fit() {
    let (input, output) = copying_topics("unfit", 2);
    let app = copying("unfit");
    let dir = tempfile::tempdir().unwrap();
    let refusal = |topic: &str| {
        let host = KafkaHost::new(config(&dir)).unwrap().audit(topic);
        match host.start(&app) {
            Err(StartError::Stage(error)) => error,
            other => panic!("{other:?}"),
        }
    };
    for declared in [&input, &output] {
        let error = refusal(declared);
        assert!(
            matches!(&error, StageError::AuditDeclared { topic } if topic == declared),
            "{error}"
        );
    }
    let error = refusal("unfit-account");
    assert!(
        matches!(&error, StageError::MissingTopics { topics } if topics == &["unfit-account"]),
        "{error}"
    );
    create_topic("unfit-account", 1);
    assert_eq!(
        refusal("unfit-account").to_string(),
        "the account of deliveries in topic unfit-account needs a partition for each task: 2, and there are 1"
    );
}

/// A step that fails is aborted with its entries; what a killed or stopped execution had received and not committed did not arrive.
#[test]
fn an_account_is_exact_over_failures_and_restarts() {
    let name = "exact";
    let account_topic = "exact-account";
    let (input, output) = (text_topic("exact-in"), text_topic("exact-out"));
    for topic in ["exact-in", "exact-out", account_topic] {
        create_topic(topic, 1);
    }
    let fails = Arc::new(AtomicBool::new(true));
    let copy = Stage::stateless("copy")
        .sink(&output)
        .on(&input, {
            let (fails, output) = (Arc::clone(&fails), output.clone());
            move |message, out| {
                if message.value == "bad" && fails.load(Ordering::SeqCst) {
                    return Err("not yet".into());
                }
                out.send(&output, &message.key, &message.value)
            }
        })
        .build()
        .unwrap();
    let app = App::named(name).stage(copy).build().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let running = start_audited(&dir, &app, account_topic);
    wait_for_tasks(&running, 1);
    let plain = Foreign::plain();
    plain.append("exact-in", To::Key, &[("k", "1"), ("k", "2")]);
    wait_for_deliveries(&running, 2);
    // What comes with the record that fails is delivered, and taken back, with each attempt.
    plain.append("exact-in", To::Key, &[("k", "3"), ("k", "bad"), ("k", "4")]);
    wait_for(&running, "tried again", |status| {
        let retried = |state: &parsley_kafka::WorkerState| matches!(state, parsley_kafka::WorkerState::Retrying { attempt, .. } if *attempt >= 2);
        status.workers.iter().any(|worker| retried(&worker.state))
    });
    let before = account(account_topic);
    assert_eq!(check(&before).0["exact-in"], before.len());
    fails.store(false, Ordering::SeqCst);
    wait_for_deliveries(&running, 5);
    stop(&running);
    let dir = tempfile::tempdir().unwrap();
    let running = start_audited(&dir, &app, account_topic);
    plain.append("exact-in", To::Key, &[("k", "5")]);
    wait_for_deliveries(&running, 1);
    stop(&running);

    let entries = account(account_topic);
    let (delivered, executions) = check(&entries);
    assert_eq!(delivered, BTreeMap::from([("exact-in".to_owned(), 6)]));
    let tasks: Vec<_> = executions.into_iter().collect();
    let [((stage, 0), executions)] = &tasks[..] else {
        panic!("{tasks:?}");
    };
    assert!(stage == "copy" && *executions >= 3, "{executions}");
    assert_eq!(values("exact-out"), ["1", "2", "3", "bad", "4", "5"]);
    // No send is counted twice, or not, for the entries beside it.
    check_stamps("exact-out", name, "copy", 1);
}

/// Orders reach the join late: each payment is held until its order was delivered. Two instances take turns at the tasks.
#[test]
fn an_account_is_exact_over_two_instances_and_has_what_was_held() {
    let app = joined("audited");
    for topic in ["orders", "payments", "seen", "account"] {
        create_topic(&format!("audited-{topic}"), 2);
    }
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let begin = |dir: &tempfile::TempDir| {
        KafkaHost::new(config(dir))
            .unwrap()
            .audit("audited-account")
            .delay("join", "audited-orders", Duration::from_millis(300))
            .start(&app)
            .unwrap()
    };
    let plain = Foreign::plain();
    let send = |range: std::ops::Range<u32>| {
        for number in range {
            let (key, value) = (format!("key{}", number % 16), number.to_string());
            plain.send("audited-orders", To::Key, &key, &value, &[]);
        }
        plain.flush();
    };
    let first = begin(&here);
    wait_for_tasks(&first, 4);
    send(0..50);
    wait_for(&first, "holding", |status| {
        status.tasks().any(|(_, _, task)| task.held > 0)
    });
    let second = begin(&there);
    wait_for_tasks(&second, 2);
    send(50..100);
    // What is kept back for its delay is not waited for.
    stop(&first);
    send(100..150);
    let until = std::time::Instant::now() + BOUND;
    while read("audited-seen").len() < 300 {
        assert!(std::time::Instant::now() < until, "{:#?}", second.status());
    }
    stop(&second);
    let entries = account("audited-account");
    let (delivered, executions) = check(&entries);
    assert_eq!(
        delivered,
        BTreeMap::from([
            ("audited-orders".to_owned(), 300),
            ("audited-payments".to_owned(), 150)
        ])
    );
    assert!(executions.values().any(|executions| *executions > 1));
    let waits_for_its_order = |entry: &&AuditRecord| match &entry.audited {
        Audited::Held { waits, .. } => {
            &*entry.topic == "audited-payments"
                && waits
                    .first()
                    .is_some_and(|wait| &*wait.topic == "audited-orders")
        }
        Audited::Delivered { .. } => false,
    };
    assert!(entries.iter().any(|entry| waits_for_its_order(&entry)));
}
