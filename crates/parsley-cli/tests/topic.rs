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

/// `--property sasl.password:hunter2`, a colon in place of `=`, was answered with "invalid value 'sasl.password:hunter2'": the password was on the
/// screen, and in whatever keeps what programs say. The demo's property was as talkative.
#[cfg(feature = "kafka")]
#[test]
fn a_mistyped_secret_is_not_printed() {
    let dump = ["topic", "dump", "--brokers", "127.0.0.1:9", "--topic", "t"];
    let demo = ["demo", "--brokers", "127.0.0.1:9"];
    for command in [&dump[..], &demo[..]] {
        for secret in [
            "sasl.password:hunter2",
            "=hunter2",
            "hunter2",
            "hunter2==",
            "--hunter2",
            "-hunter2",
            "security.protocol=hunter2",
        ] {
            let good = ["--property", "client.id=c", "--property", secret];
            let run = parsley(&[command, &good].concat(), b"");
            assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{secret}");
            assert!(!run.stderr.contains("hunter"), "{secret}: {}", run.stderr);
            let named = run.stderr.contains("argument 2 of --property")
                || run.stderr.contains("the property security.protocol");
            assert!(named, "{secret}: {}", run.stderr);
        }
    }
}

/// `--brokers ,` and `--brokers a:99999` were asked for 10 s, or for ever by the demo, and `--topic ''` was a topic that the cluster does not know.
#[test]
fn brokers_and_topics_that_cannot_be_are_refused() {
    for (brokers, said) in [
        (",", "broker 1 is empty"),
        ("a:1,,b:1", "broker 2 is empty"),
        ("a:1,b:99999", "broker 2, `b:99999`, has no port"),
        ("a:port", "broker 1, `a:port`, has no port"),
    ] {
        let dump = ["topic", "dump", "--topic", "t", "--brokers", brokers];
        for command in [&dump[..], &["demo", "--brokers", brokers]] {
            let run = parsley(command, b"");
            assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{command:?}");
            assert!(run.stderr.contains(said), "{command:?}: {}", run.stderr);
        }
    }
    let dump = ["topic", "dump", "--brokers", "127.0.0.1:9", "--topic", ""];
    let run = parsley(&dump, b"");
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    assert!(run.stderr.contains("--topic"), "{}", run.stderr);
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
