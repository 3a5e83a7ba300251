//! The example `read_your_writes` asserts what it shows. A service that waits for nothing once the stage runs mostly passed it, since the stage
//! is quick; so the example keeps the stage from reading on for one read, with a transaction that is open.
#![cfg(feature = "embedded")]

#[path = "../examples/read_your_writes.rs"]
mod example;

#[test]
fn every_read_shows_what_its_client_has_written() {
    example::main().unwrap();
}
