//! `parsley topic`, as far as it needs no broker.

mod running;

use running::parsley;

/// Nothing listens on the discard port of the loopback address.
#[cfg(feature = "kafka")]
#[test]
fn a_cluster_that_does_not_answer_ends_a_dump_with_6() {
    let run = parsley(
        &["topic", "dump", "--brokers", "127.0.0.1:9", "--topic", "t"],
        b"",
    );
    assert_eq!((run.code, run.stdout.as_str()), (6, ""), "{}", run.stderr);
    assert!(
        run.stderr
            .starts_with("parsley: no broker of 127.0.0.1:9 answered: "),
        "{}",
        run.stderr
    );
}

#[cfg(not(feature = "kafka"))]
#[test]
fn a_build_without_kafka_says_so_and_how_to_get_it() {
    let run = parsley(
        &["topic", "dump", "--brokers", "127.0.0.1:9", "--topic", "t"],
        b"",
    );
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    assert_eq!(
        run.stderr,
        "parsley: this build cannot speak to Kafka: build it with `cargo build --release -p parsley-cli --features kafka`\n"
    );
}
