//! What a broker is told.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::cluster::ClusterConfig;

/// A broker's ports on the loopback address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    /// Where it listens for clients.
    pub client: u16,
    /// Where clients are told to find it: there, or at its proxy.
    pub advertised: u16,
    /// Where other brokers find it: at a listener of their own if clients come through a proxy.
    pub internal: u16,
    pub controller: u16,
}

/// Where broker `number` of the cluster in `folder` keeps its logs.
pub(crate) fn data_folder(folder: &Path, number: u16) -> PathBuf {
    folder.join(number.to_string()).join("data")
}

/// What broker `number` is told: its place in the cluster, and settings that make a test quick on a small machine.
pub(crate) fn properties(
    config: &ClusterConfig,
    number: u16,
    ports: &[Ports],
    data: &Path,
) -> Vec<(String, String)> {
    let index = usize::from(number) - 1;
    let Ports {
        client,
        advertised,
        internal,
        controller,
    } = ports[index];
    let voters: Vec<String> = (1..)
        .zip(ports)
        .map(|(id, ports): (u16, _)| format!("{id}@127.0.0.1:{}", ports.controller))
        .collect();
    let mut listeners = format!("PLAINTEXT://127.0.0.1:{client}");
    let mut advertised = format!("PLAINTEXT://127.0.0.1:{advertised}");
    let mut protocols = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT".to_owned();
    let mut between_brokers = "PLAINTEXT";
    if internal != client {
        between_brokers = "INTERNAL";
        let listener = format!(",INTERNAL://127.0.0.1:{internal}");
        listeners.push_str(&listener);
        advertised.push_str(&listener);
        protocols.push_str(",INTERNAL:PLAINTEXT");
    }
    listeners.push_str(&format!(",CONTROLLER://127.0.0.1:{controller}"));
    let replicas = config.brokers.min(3).to_string();
    let mut all: BTreeMap<String, String> = [
        ("process.roles", "broker,controller".to_owned()),
        ("node.id", number.to_string()),
        ("controller.quorum.voters", voters.join(",")),
        ("listeners", listeners),
        ("advertised.listeners", advertised),
        ("listener.security.protocol.map", protocols),
        ("inter.broker.listener.name", between_brokers.to_owned()),
        ("controller.listener.names", "CONTROLLER".to_owned()),
        ("log.dirs", data.display().to_string()),
        // Topics exist because a test created them.
        ("auto.create.topics.enable", "false".to_owned()),
        ("default.replication.factor", replicas.clone()),
        ("min.insync.replicas", "1".to_owned()),
        ("offsets.topic.replication.factor", replicas.clone()),
        ("offsets.topic.num.partitions", "4".to_owned()),
        ("transaction.state.log.replication.factor", replicas),
        ("transaction.state.log.min.isr", "1".to_owned()),
        ("transaction.state.log.num.partitions", "4".to_owned()),
        (
            "transaction.abort.timed.out.transaction.cleanup.interval.ms",
            "500".to_owned(),
        ),
        ("group.initial.rebalance.delay.ms", "0".to_owned()),
        ("group.min.session.timeout.ms", "1000".to_owned()),
        // Retention and compaction happen within a test's patience.
        ("log.segment.bytes", "1048576".to_owned()),
        ("log.retention.check.interval.ms", "500".to_owned()),
        ("log.initial.task.delay.ms", "500".to_owned()),
        ("log.segment.delete.delay.ms", "500".to_owned()),
        ("log.cleaner.backoff.ms", "500".to_owned()),
        ("log.cleaner.dedupe.buffer.size", "4194304".to_owned()),
        ("log.index.size.max.bytes", "262144".to_owned()),
        ("num.network.threads", "2".to_owned()),
        ("num.io.threads", "4".to_owned()),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value))
    .collect();
    all.extend(config.properties.clone());
    all.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_broker_names_all_voters_and_the_user_has_the_last_word() {
        let mut config = ClusterConfig {
            brokers: 3,
            ..ClusterConfig::default()
        };
        config
            .properties
            .insert("num.io.threads".to_owned(), "9".to_owned());
        let ports = [1, 2, 3].map(|port| Ports {
            client: port,
            advertised: port,
            internal: port,
            controller: port + 3,
        });
        let listed = properties(&config, 2, &ports, Path::new("/data"));
        let value = |key: &str| {
            listed
                .iter()
                .find(|(listed, _)| listed == key)
                .map(|(_, value)| value.as_str())
        };
        assert_eq!(
            value("controller.quorum.voters"),
            Some("1@127.0.0.1:4,2@127.0.0.1:5,3@127.0.0.1:6")
        );
        assert_eq!(
            value("advertised.listeners"),
            Some("PLAINTEXT://127.0.0.1:2")
        );
        assert_eq!(value("offsets.topic.replication.factor"), Some("3"));
        assert_eq!(value("num.io.threads"), Some("9"));
    }

    #[test]
    fn clients_are_sent_to_the_proxy_and_brokers_past_it() {
        let ports = [Ports {
            client: 1,
            advertised: 2,
            internal: 3,
            controller: 4,
        }];
        let listed = properties(&ClusterConfig::default(), 1, &ports, Path::new("/data"));
        for (key, expected) in [
            (
                "listeners",
                "PLAINTEXT://127.0.0.1:1,INTERNAL://127.0.0.1:3,CONTROLLER://127.0.0.1:4",
            ),
            (
                "advertised.listeners",
                "PLAINTEXT://127.0.0.1:2,INTERNAL://127.0.0.1:3",
            ),
            ("inter.broker.listener.name", "INTERNAL"),
        ] {
            let listed = listed.iter().find(|(listed, _)| listed == key);
            assert_eq!(listed.map(|(_, value)| value.as_str()), Some(expected));
        }
    }
}
