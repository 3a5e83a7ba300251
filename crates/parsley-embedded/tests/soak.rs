//! A diamond of stages under everything at once: delays, small steps, failures, stops wherever they come, and writers that do not wait.
//! What holds in the end does not depend on how the threads ran.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parsley_embedded::{Host, NewRecord, Waited};
use parsley_stage::{App, Stage};
use support::numbers::Numbers;
use support::*;

/// `start → {left, right} → join`, `join` also sees `start`. One call in so many fails, more than a step has.
fn diamond(fail_every: u64) -> App {
    let (start, left, right, end) = (text("start"), text("left"), text("right"), text("end"));
    let calls = Arc::new(AtomicU64::new(0));
    let stage = |name: &'static str, inputs: &[&Text], to: &Text| {
        let mut stage = Stage::stateless(name).sink(to);
        for input in inputs {
            let (to, calls) = (to.clone(), Arc::clone(&calls));
            stage = stage.on(input, move |message, out| {
                if calls.fetch_add(1, Ordering::SeqCst) % fail_every == fail_every - 1 {
                    return Err("its turn to fail".into());
                }
                let value = format!("{}/{}", message.value, message.topic);
                out.send(&to, &message.key, &value)
            });
        }
        stage.build().unwrap()
    };
    App::named("diamond")
        .stage(stage("go-left", &[&start], &left))
        .stage(stage("go-right", &[&start], &right))
        .stage(stage("join", &[&start, &left, &right], &end))
        .build()
        .unwrap()
}

fn host_of(numbers: &mut Numbers, trace: &Trace, former: Option<&Host>) -> Host {
    let mut builder = builder()
        .fetch_records_max(1 + numbers.below(20) as usize)
        .max_step_deliveries(1 + numbers.below(20) as usize)
        .delay("join", "start", numbers.below(30))
        .delay("join", "right", numbers.below(30));
    if let Some(former) = former {
        builder = builder.over(former.log().clone());
    }
    trace.observe(builder).build().unwrap()
}

fn run(seed: u64) {
    let mut numbers = Numbers::of_seed(seed);
    let trace = Trace::default();
    let mut host = host_of(&mut numbers, &trace, None);
    create(&host, 2, &["start", "left", "right", "end"]);
    let total = 60;
    let app = diamond(45 + numbers.below(20));
    let writer = std::thread::spawn({
        let producer = host.producer();
        move || {
            for number in 0..total {
                let record = || {
                    NewRecord::to("start")
                        .key(format!("key-{}", number % 7))
                        .value(number.to_string())
                };
                let mut withdrawn = producer.begin();
                withdrawn.send(record()).unwrap();
                drop(withdrawn);
                let mut transaction = producer.begin();
                transaction.send(record()).unwrap();
                transaction.commit().unwrap();
            }
        }
    });
    for _ in 0..4 {
        let running = host.start(&app).unwrap();
        let some = numbers.below(40);
        assert_eq!(
            running.wait(|status| status.delivered() >= some),
            Waited::Reached
        );
        running.stop().unwrap();
        host = host_of(&mut numbers, &trace, Some(&host));
        if trace.deliveries.lock().unwrap().len() as u64 + 40 >= 5 * total {
            break;
        }
    }
    writer.join().unwrap();
    let running = host.start(&app).unwrap();
    assert_eq!(running.wait_until_idle(), Waited::Reached, "seed {seed}");
    assert_eq!(
        running.status().held(),
        0,
        "seed {seed}: {:?}",
        running.explain_holds()
    );
    running.stop().unwrap();

    trace.assert_causal();
    let mut delivered = BTreeMap::new();
    for delivery in trace.deliveries.lock().unwrap().iter() {
        *delivered
            .entry((delivery.stage.clone(), delivery.channel, delivery.offset))
            .or_insert(0) += 1;
    }
    assert!(
        delivered.values().all(|times| *times == 1),
        "seed {seed}: delivered twice"
    );
    assert_eq!(delivered.len() as u64, 5 * total, "seed {seed}");
    let expected = (0..total).flat_map(|number| {
        [
            format!("{number}/start"),
            format!("{number}/start/left"),
            format!("{number}/start/right"),
        ]
    });
    assert_eq!(
        sorted(values(host.log(), "end")),
        sorted(expected.collect()),
        "seed {seed}"
    );
}

#[test]
fn a_diamond_under_stress_delivers_everything_once_and_in_causal_order() {
    for seed in 1..=25 {
        run(seed);
    }
}
