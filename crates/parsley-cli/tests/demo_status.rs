//! `parsley demo --status`: the page beside a run, in a browser.

mod running;
mod status_page;

use std::net::TcpListener;

use running::parsley;
use status_page::{Shown, assert_missing_commands_are_named};

#[test]
fn the_page_names_the_commands_that_are_missing_while_they_are_withheld() {
    let demo = Shown::start(&["demo", "--json", "--status", "0", "--withhold", "3600"]);
    assert_missing_commands_are_named(demo, "embedded");
}

#[test]
fn what_was_withheld_comes_and_all_is_delivered_as_ever() {
    let run = parsley(&["demo", "--json", "--withhold", "1"], b"");
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let summary = &run.lines().pop().expect("a line")["summary"];
    assert_eq!(summary["delivered"], 4000);
    assert_eq!(summary["inversions_delivered"], 0);
    assert_eq!(summary["views_match"], true);
}

#[test]
fn an_address_that_is_taken_or_none_ends_the_demo() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let run = parsley(&["demo", "--status", &address], b"");
    assert_eq!(run.code, 5, "{}", run.stderr);
    let said = format!("parsley: cannot listen on {address}: ");
    assert!(run.stderr.starts_with(&said), "{}", run.stderr);

    let run = parsley(&["demo", "--status", "localhost:9090"], b"");
    assert_eq!(run.code, 2);
    assert!(
        run.stderr.contains("expected PORT or IP:PORT"),
        "{}",
        run.stderr
    );
    let run = parsley(&["demo", "--withhold", "3601"], b"");
    assert_eq!(run.code, 2);
}
