use parsley::embedded::{NewRecord, Waited};

use super::*;
use ground::Embedded;
use topology::{COMMANDS, VIEWS, View};

/// Runs the application over records that somebody wrote without stamps, and returns what is seen of it.
fn seen_of(records: Vec<NewRecord>) -> audit::Summary {
    // Nobody listens to the bell.
    let bell = Bell::new(mpsc::sync_channel(1).0);
    let ground = Embedded::open(None, Duration::ZERO, &bell).unwrap();
    let host = &ground.host;
    let gate = Arc::new(Gate::new(1, 0));
    let mut auditor = Auditor::new(&ground, gate, None).unwrap();
    let running = host.start(topology::app().unwrap()).unwrap();
    for record in records {
        host.producer().send(record).unwrap();
        assert_eq!(running.wait_until_idle(), Waited::Reached);
    }
    running.stop().unwrap();
    while auditor.read(|_| Ok::<(), DemoError>(())).unwrap() {}
    auditor.end(&feed::Fed::default()).unwrap()
}

fn view(command: i64, balance: u64) -> NewRecord {
    let view = View {
        command,
        balance,
        rejected: 0,
    };
    NewRecord::to(VIEWS)
        .key("a")
        .value(serde_json::to_vec(&view).unwrap())
}

/// A view without a stamp is delivered at once, and its command has not been.
#[test]
fn a_view_that_claims_nothing_comes_before_its_command_and_is_seen_to() {
    let summary = seen_of(vec![
        view(0, 5),
        NewRecord::to(COMMANDS).key("a").value(r#"{"deposit":5}"#),
    ]);
    assert_eq!(summary.inversions_delivered, 1);
    assert!(!summary.views_match && !summary.is_good());
}

/// The command comes, and its view, and another view of it with another balance.
#[test]
fn a_view_that_nothing_caused_is_seen() {
    let summary = seen_of(vec![
        NewRecord::to(COMMANDS).key("a").value(r#"{"deposit":5}"#),
        view(0, 6),
    ]);
    assert_eq!((summary.inversions_delivered, summary.delivered), (1, 5));
    assert!(!summary.views_match);
}
