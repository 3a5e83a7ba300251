//! The cluster against real brokers: it answers, it ends, and it leaves nothing behind.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kafka_cluster::{ClusterConfig, KafkaCluster, KafkaJars, NEWEST, StartError};

/// Tells the process that a test started itself in, that it is to hold a broker.
const HOLDER: &str = "KAFKA_CLUSTER_TEST_HOLDS_A_BROKER";

fn runs(process_id: u32) -> bool {
    // A zombie has ended: only its parent has not asked yet.
    fs::read_to_string(format!("/proc/{process_id}/stat")).is_ok_and(|stat| {
        !stat
            .rsplit(')')
            .next()
            .is_some_and(|rest| rest.trim_start().starts_with('Z'))
    })
}

fn wait_until(what: &str, bound: Duration, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + bound;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {bound:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn fetches_at_once_fetch_once() {
    let folder = tempfile::tempdir().unwrap();
    let fetch =
        || KafkaJars::fetch(NEWEST, folder.path()).unwrap_or_else(|error| panic!("{error}"));
    let made_by = |jars: &KafkaJars| fs::metadata(jars.folder()).unwrap().created().unwrap();
    let (one, other) = std::thread::scope(|scope| {
        let one = scope.spawn(|| made_by(&fetch()));
        let other = scope.spawn(|| made_by(&fetch()));
        (one.join().unwrap(), other.join().unwrap())
    });
    assert_eq!(one, other);
    let mut left: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, [NEWEST.to_owned(), format!("{NEWEST}.lock")]);
    assert!(
        fetch()
            .folder()
            .join(format!("kafka_2.13-{NEWEST}.jar"))
            .is_file()
    );
}

#[test]
fn three_brokers_answer_and_end_on_drop() {
    let config = ClusterConfig {
        brokers: 3,
        heap_mb: 256,
        ..ClusterConfig::default()
    };
    let cluster = KafkaCluster::start(&config).unwrap_or_else(|error| panic!("{error}"));
    let processes = cluster.process_ids();
    assert_eq!(processes.len(), 3);
    let addresses: Vec<String> = cluster.bootstrap().split(',').map(str::to_owned).collect();
    assert_eq!(addresses.len(), 3);
    for address in &addresses {
        TcpStream::connect(address).unwrap();
    }
    assert!(processes.iter().all(|process| runs(*process)));
    drop(cluster);
    assert!(
        !processes.iter().any(|process| runs(*process)),
        "a broker outlived its cluster"
    );
    for address in &addresses {
        TcpStream::connect(address).unwrap_err();
    }
}

#[test]
fn a_broker_ends_and_is_killed_and_starts_again_with_what_it_had() {
    let cluster =
        KafkaCluster::start(&ClusterConfig::default()).unwrap_or_else(|error| panic!("{error}"));
    let address = cluster.bootstrap();
    let meta = cluster.data_folder(1).unwrap().join("meta.properties");
    let had = fs::read_to_string(&meta).unwrap();
    let mut before = cluster.process_ids();
    for end in [KafkaCluster::end_broker, KafkaCluster::kill_broker] {
        end(&cluster, 1).unwrap();
        assert!(cluster.process_ids().is_empty());
        assert!(!runs(before[0]));
        TcpStream::connect(&address).unwrap_err();
        end(&cluster, 1).unwrap();
        cluster
            .start_broker(1)
            .unwrap_or_else(|error| panic!("{error}"));
        let again = cluster.process_ids();
        assert_ne!(again, before);
        TcpStream::connect(&address).unwrap();
        cluster.start_broker(1).unwrap();
        assert_eq!(cluster.process_ids(), again, "one that runs is left alone");
        before = again;
    }
    assert_eq!(fs::read_to_string(&meta).unwrap(), had);
    for number in [0, 2] {
        let unknown = cluster.kill_broker(number);
        assert!(
            matches!(unknown, Err(StartError::NoSuchBroker { .. })),
            "{unknown:?}"
        );
    }
}

#[test]
fn a_broker_that_cannot_start_shows_its_log() {
    let mut config = ClusterConfig::default();
    config.properties.insert(
        "offsets.topic.compression.codec".to_owned(),
        "99".to_owned(),
    );
    match KafkaCluster::start(&config) {
        Err(StartError::Ended { broker: 1, log, .. }) => assert!(log.contains("99"), "{log}"),
        Err(StartError::Format {
            broker: 1, output, ..
        }) => assert!(output.contains("99"), "{output}"),
        other => panic!("started, or failed otherwise: {other:?}"),
    }
}

/// The test process is killed outright, so nothing of it is dropped. Without the lifeline the broker ran on.
#[test]
fn a_broker_ends_when_its_starter_is_killed() {
    if std::env::var_os(HOLDER).is_some() {
        let cluster = KafkaCluster::start(&ClusterConfig::default())
            .unwrap_or_else(|error| panic!("{error}"));
        let process = cluster.process_ids()[0];
        let command = fs::read_to_string(format!("/proc/{process}/cmdline")).unwrap();
        let properties = command
            .split('\0')
            .find(|word| word.ends_with("server.properties"))
            .unwrap();
        println!("holds {process} {properties}");
        loop {
            std::thread::park();
        }
    }
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "a_broker_ends_when_its_starter_is_killed",
            "--nocapture",
        ])
        .env(HOLDER, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(holder.stdout.take().unwrap());
    let line = out
        .lines()
        .map_while(Result::ok)
        .find(|line| line.contains("holds "))
        .expect("the holder started no broker");
    let (_, held) = line.split_once("holds ").unwrap();
    let (process, properties) = held.split_once(' ').unwrap();
    let process: u32 = process.parse().unwrap();
    let folder = Path::new(properties).parent().unwrap().parent().unwrap();
    assert!(runs(process) && folder.is_dir());

    holder.kill().unwrap();
    holder.wait().unwrap();
    wait_until("the broker ends", Duration::from_secs(15), || {
        !runs(process)
    });
    wait_until("its folder is removed", Duration::from_secs(15), || {
        !folder.exists()
    });
}
