//! B15: what a group's positions are is not known until the cluster has said so.

use kafka_cluster::proxy::{Action, ApiKey, Requests};
use parsley_kafka::{TaskState, WorkerState};

use crate::world::*;

/// The group has a position, and there is no state: to be refused (G11). As long as the question for positions fails, or is not answered, that is not known: who
/// took it for none would begin at the beginning.
#[test]
fn b15_positions_that_fail_or_are_not_answered_are_waited_for() {
    for (name, action) in [
        ("positions-cut", Action::DropResponse),
        ("positions-silent", Action::HoldResponse),
    ] {
        let (input, output) = copying_topics(name, 1);
        Foreign::plain().append(&input, To::Key, &[("k", "1"), ("k", "2")]);
        move_position(&format!("{name}-copy"), &input, 0, 1);
        let asks = Requests::of(ApiKey::OFFSET_FETCH).of_client(name);
        let proxy = broker().proxy().expect("it is proxied");
        let (unanswered, asked) = (
            proxy.rule(asks.clone(), action),
            proxy.rule(asks, Action::Watch),
        );
        let dir = tempfile::tempdir().unwrap();
        let running = start(config(&dir).property("client.id", name), &copying(name));
        asked.wait_for_answers(1, BOUND).unwrap();
        // For longer than one attempt to open takes.
        let mut waited = 0;
        wait_for(&running, "waiting for the position", |status| {
            assert!(status.refused().is_empty(), "{status:#?}");
            let waits = status.tasks().any(|(.., task)| {
                assert_eq!(task.steps, 0);
                !matches!(task.state, TaskState::Running)
            });
            waited += u32::from(waits);
            waited >= 10
        });
        drop(unanswered);
        assert_eq!(wait_for_refusal(&running).0, "vc-state-lost");
        let status = running.stop();
        let failed = |state: &WorkerState| matches!(state, WorkerState::Failed { .. });
        assert!(!status.workers.iter().any(|worker| failed(&worker.state)));
        assert_eq!(values(&output), [""; 0]);
    }
}
