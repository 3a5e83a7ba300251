//! The example `read_your_writes` asserts what it shows.
#![cfg(feature = "embedded")]

#[path = "../examples/read_your_writes.rs"]
mod example;

#[test]
fn every_read_shows_what_its_client_has_written() {
    example::main().unwrap();
}
