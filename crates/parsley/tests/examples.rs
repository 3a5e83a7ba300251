//! Every example runs, shows what its header says, and does so whatever the identities of its topics are.
#![cfg(feature = "embedded")]

use std::error::Error;

/// The example's `run`, for many orders of concurrent records. What it promises it asserts itself; `shows` is what it says of the first.
#[track_caller]
fn runs(run: impl Fn(u64) -> Result<Vec<String>, Box<dyn Error>>, shows: &[&str]) {
    for seed in 1..24 {
        let lines = run(seed).unwrap_or_else(|error| panic!("with seed {seed}: {error}"));
        assert!(!lines.is_empty());
    }
    let lines = run(0).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(lines, shows);
}

#[path = "../examples/linear.rs"]
#[allow(dead_code, reason = "an example's `main`")]
mod linear;

#[test]
fn linear_runs() {
    runs(
        linear::run,
        &[
            "the desk holds: parcels:0@0 waits for orders:0 up to 0, of which nothing is known (vc-hold-not-fetched)",
            "with the order: ann: a kettle is on its way",
        ],
    );
}

#[path = "../examples/fan_out.rs"]
#[allow(dead_code, reason = "an example's `main`")]
mod fan_out;

#[test]
fn fan_out_runs() {
    runs(
        fan_out::run,
        &[
            "without seats, the screen holds: replies:0@0 waits for seats:0 up to 0, of which nothing is known (vc-hold-not-fetched) and for invoices:0 up to 0, settled up to -1 (vc-hold-held-upstream)",
            "without invoices, the screen holds: replies:0@0 waits for invoices:0 up to 0, of which nothing is known (vc-hold-not-fetched)",
            "with both, it shows the seat and the price",
        ],
    );
}

#[path = "../examples/fan_in.rs"]
#[allow(dead_code, reason = "an example's `main`")]
mod fan_in;

#[test]
fn fan_in_runs() {
    runs(
        fan_in::run,
        &[
            "the bank holds: withdrawals:0@0 waits for deposits:0 up to 0, of which nothing is known (vc-hold-not-fetched)",
            "the deposit is there, and waits for the account",
            "account, deposit, withdrawal: 30 are left",
        ],
    );
}

#[path = "../examples/diamond.rs"]
#[allow(dead_code, reason = "an example's `main`")]
mod diamond;

#[test]
fn diamond_runs() {
    runs(
        diamond::run,
        &[
            "prices late: the offer waits, and comes last",
            "stock late: the offer waits, and comes last",
        ],
    );
}

#[path = "../examples/triangle.rs"]
#[allow(dead_code, reason = "an example's `main`")]
mod triangle;

#[test]
fn triangle_runs() {
    runs(
        triangle::run,
        &[
            "the auditor holds: balances:0@1 waits for postings:0 up to 1, settled up to 0 (vc-hold-not-fetched)",
            "with the posting, there is nothing to report",
            "a balance that somebody made up: 1000000 is no balance of [70, 50]",
        ],
    );
}

#[path = "../examples/request_reply.rs"]
#[allow(dead_code, reason = "an example's `main`")]
mod request_reply;

#[test]
fn request_reply_runs() {
    runs(
        request_reply::run,
        &[
            "3 replies wait for their requests",
            "request-1 took 1000 ms",
            "request-2 took 1000 ms",
            "request-3 took 1000 ms",
        ],
    );
}

#[path = "../examples/event_notification.rs"]
#[allow(dead_code, reason = "an example's `main`")]
mod event_notification;

#[test]
fn event_notification_runs() {
    runs(
        event_notification::run,
        &[
            "the indexer holds: announced:0@2 waits for documents:0 up to 2, settled up to 1 (vc-hold-not-fetched)",
            "with the document: \"better words\" are indexed",
        ],
    );
}

#[path = "../examples/cycle.rs"]
#[allow(dead_code, reason = "an example's `main`")]
mod cycle;

#[test]
fn cycle_runs() {
    runs(
        cycle::run,
        &[
            "bid 100",
            "offer 200",
            "bid 150",
            "offer 175",
            "bid 163",
            "offer 169",
            "bid 166",
            "offer 167",
            "bid 167",
        ],
    );
}

#[path = "../examples/commander.rs"]
#[allow(dead_code, reason = "an example's `main`")]
mod commander;

#[test]
fn commander_runs() {
    runs(
        commander::run,
        &[
            "commands late, events in time: 0 of 7 were delivered at once, then the rest",
            "commands in time, events late: 3 of 7 were delivered at once, then the rest",
            "commands late, events late: 0 of 7 were delivered at once, then the rest",
        ],
    );
}

#[path = "../examples/concurrent.rs"]
#[allow(dead_code, reason = "an example's `main`")]
mod concurrent;

#[test]
fn concurrent_runs() {
    runs(
        concurrent::run,
        &[
            "ann: bob was first (ticket: bob)",
            "bob: ann was first (ticket: ann)",
        ],
    );
}

#[path = "../examples/malformed.rs"]
#[allow(dead_code, reason = "an example's `main`")]
mod malformed;

#[test]
fn malformed_runs() {
    runs(
        malformed::run,
        &[
            "used: 120, then 30",
            "support holds: rejected:0@0 waits for readings:0 up to 2, of which nothing is known (vc-hold-not-fetched)",
            "reading 1 of 12 bytes: 12 bytes, where the codec expects 8",
        ],
    );
}

#[path = "../examples/ticks.rs"]
#[allow(dead_code, reason = "an example's `main`")]
mod ticks;

#[test]
fn ticks_runs() {
    runs(
        ticks::run,
        &[
            "the books hold: closings:0@0 waits for sales:0 up to 1, of which nothing is known (vc-hold-not-fetched)",
            "closing 1: 7 sold",
            "closing 2: 7 sold",
        ],
    );
}

#[path = "../examples/edge_client.rs"]
#[allow(dead_code, reason = "an example's `main`")]
mod edge_client;

#[test]
fn edge_client_runs() {
    runs(
        edge_client::run,
        &[
            "without a clock: paid for nothing, 48 was never quoted",
            "with a clock: ordered at 48, paid",
        ],
    );
}
