use rdkafka::consumer::BaseConsumer;
use rdkafka::producer::BaseProducer;

use super::*;

const LEAST: &str = "brokers = \"a:1\"\nstate_dir = \"/s\"\n";

fn read(more: &str) -> Result<KafkaConfig, ConfigError> {
    KafkaConfig::from_toml(&format!("{LEAST}{more}"))
}

#[test]
fn what_is_not_set_has_its_default() {
    assert_eq!(read(""), Ok(KafkaConfig::new("a:1", "/s")));
}

#[test]
fn everything_can_be_set() {
    let config = read(
        "workers = 2
         commit_interval_ms = 50
         max_step_deliveries = 10
         max_rounds = 3
         window_records = 4
         clock_budget_bytes = 5000
         transaction_timeout_ms = 20000
         check_interval_ms = 1000
         sweep_interval_ms = 2000
         truncation_delay_ms = 3000
         backoff_first_ms = 10
         backoff_longest_ms = 11
         stop_timeout_ms = 12
         hold_warning_after_ms = 15
         changelog = { replication = 3, min_insync_replicas = 2 }
         [librdkafka]
         \"security.protocol\" = \"plaintext\"
         \"linger.ms\" = 5
         \"socket.keepalive.enable\" = true",
    )
    .unwrap();
    let ms = Duration::from_millis;
    let expected = KafkaConfig {
        workers: 2,
        commit_interval: ms(50),
        max_step_deliveries: 10,
        max_rounds: 3,
        node: NodeLimits {
            clock_budget_bytes: 5000,
            window_records: 4,
        },
        transaction_timeout: ms(20_000),
        check_interval: ms(1000),
        sweep_interval: ms(2000),
        truncation_delay: ms(3000),
        backoff_first: ms(10),
        backoff_longest: ms(11),
        stop_timeout: ms(12),
        hold_warning_after: ms(15),
        changelog: ChangelogConfig {
            replication: Some(3),
            min_insync_replicas: Some(2),
        },
        ..KafkaConfig::new("a:1", "/s")
    }
    .property("security.protocol", "plaintext")
    .property("linger.ms", "5")
    .property("socket.keepalive.enable", "true");
    assert_eq!(config, expected);
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let at = |text: &str| match KafkaConfig::from_toml(text) {
        Err(ConfigError::Toml {
            line,
            column,
            reason,
        }) => (line, column, reason),
        other => panic!("{other:?}"),
    };
    let (line, column, reason) = at(&format!("{LEAST}wrokers = 2\n"));
    assert_eq!((line, column), (3, 1));
    assert!(reason.contains("unknown field `wrokers`"), "{reason}");
    let (line, _, reason) = at("brokers = \"a:1\"\n");
    assert_eq!(line, 1);
    assert!(reason.contains("missing field `state_dir`"), "{reason}");
    let (line, column, _) = at(&format!("{LEAST}workers = \"two\""));
    assert_eq!((line, column), (3, 11));
    assert_eq!(at("brokers = \n").0, 1);
    assert!(
        at(&format!("{LEAST}changelog = {{ copies = 3 }}"))
            .2
            .contains("copies")
    );
    let missing = KafkaConfig::from_file("/does/not/exist.toml").unwrap_err();
    assert!(
        missing.to_string().starts_with("/does/not/exist.toml: "),
        "{missing}"
    );
}

#[test]
fn a_setting_out_of_range_is_refused() {
    for (more, text) in [
        ("workers = 0", "workers is 0, and has to be at least 1"),
        (
            "max_rounds = 0",
            "max_rounds is 0, and has to be at least 1",
        ),
        (
            "commit_interval_ms = 0",
            "commit_interval_ms is 0, and has to be at least 1",
        ),
        (
            "transaction_timeout_ms = 999",
            "transaction_timeout_ms is 999, and has to be 1,000 to 900,000",
        ),
        (
            "commit_interval_ms = 5001",
            "commit_interval_ms is 5001, and has to be half of transaction_timeout_ms at most",
        ),
        (
            "backoff_first_ms = 31000",
            "backoff_first_ms is 31000, and has to be backoff_longest_ms at most",
        ),
        (
            "changelog.replication = 0",
            "changelog.replication is 0, and has to be at least 1",
        ),
    ] {
        assert_eq!(read(more).unwrap_err().to_string(), text);
    }
    let no_brokers = KafkaConfig::new(" ", "/s").check().unwrap_err();
    assert!(
        no_brokers.to_string().starts_with("brokers is empty"),
        "{no_brokers}"
    );
}

#[test]
fn owned_and_unknown_properties_are_refused() {
    let owned = read("[librdkafka]\n\"isolation.level\" = \"read_uncommitted\"").unwrap_err();
    assert_eq!(
        owned.to_string(),
        "the librdkafka property isolation.level is the host's: records are read committed"
    );
    let unknown = read("[librdkafka]\n\"isolation.levle\" = \"x\"").unwrap_err();
    assert!(
        matches!(&unknown, ConfigError::Property { property, .. } if property == "isolation.levle"),
        "{unknown}"
    );
    let bad = read("[librdkafka]\n\"linger.ms\" = \"soon\"").unwrap_err();
    assert!(bad.to_string().contains("linger.ms"), "{bad}");
}

/// librdkafka takes these properties one by one, and looks at what they come to together when a client is made: a host with such a configuration was
/// started, said that its steps failed, and tried again for good.
#[test]
fn what_no_client_can_be_made_with_is_refused() {
    let config = |set: &[(&str, &str)]| {
        let config =
            KafkaConfig::new("127.0.0.1:9", "/s").transaction_timeout(Duration::from_secs(5));
        set.iter().fold(config, |config, (property, value)| {
            config.property(*property, *value)
        })
    };
    // As the clients of a worker are made. Nothing answers at this address.
    let are_made = |config: &KafkaConfig| {
        let timeout_ms = config.transaction_timeout.as_millis().to_string();
        let producer: Result<BaseProducer, _> = config
            .client()
            .set("transactional.id", "t")
            .set("transaction.timeout.ms", timeout_ms)
            .create();
        let consumer: Result<BaseConsumer, _> = config.client().set("group.id", "g").create();
        producer.is_ok() && consumer.is_ok()
    };
    let (session, poll) = ("session.timeout.ms", "max.poll.interval.ms");
    for (set, is_taken) in [
        (&[][..], true),
        (&[("socket.timeout.ms", "5100")], true),
        (&[("socket.timeout.ms", "5101")], false),
        // The same in another notation.
        (&[("socket.timeout.ms", "0x13ed")], false),
        (&[(session, "300000")], true),
        (&[(session, "300001")], false),
        (&[(poll, "45000")], true),
        (&[(poll, "44999")], false),
        (&[(session, "2000"), (poll, "2000")], true),
        (&[(session, "2001"), (poll, "2000")], false),
    ] {
        assert_eq!(config(set).check().is_ok(), is_taken, "{set:?}");
        assert_eq!(are_made(&config(set)), is_taken, "{set:?}");
    }
    let text = |property, value| {
        let refused = config(&[(property, value)]).check();
        refused.unwrap_err().to_string()
    };
    assert_eq!(
        text("socket.timeout.ms", "60000"),
        "librdkafka does not take the property socket.timeout.ms: it is 60000, and has to be 100 above transaction_timeout_ms at most, which makes 5100"
    );
    assert_eq!(
        text(poll, "9000"),
        "librdkafka does not take the property max.poll.interval.ms: session.timeout.ms is 45000, and has to be max.poll.interval.ms at most, which is 9000"
    );
}

#[test]
fn no_secret_is_printed() {
    let config = KafkaConfig::new("a:1", "/s")
        .property("sasl.username", "shop")
        .property("sasl.password", "hunter2");
    let printed = format!("{config:?}");
    assert!(
        printed.contains("shop") && !printed.contains("hunter2"),
        "{printed}"
    );
    let refused = KafkaConfig::new("a:1", "/s")
        .property("ssl.key.pem", "hunter2")
        .check();
    let printed = format!("{refused:?}");
    assert!(!printed.contains("hunter2"), "{printed}");
}
