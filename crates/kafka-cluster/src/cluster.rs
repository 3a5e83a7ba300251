//! A cluster of brokers for a test.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::access::{self, Resource};
use crate::broker::{Broker, BrokerSpec};
use crate::jars::{FetchError, KafkaJars};
use crate::java::{self, JavaError};
use crate::proxy::Proxy;
use crate::{metadata, ports};

/// How often a start is tried when another process takes a port between its choice and the broker's bind.
const START_ATTEMPTS: u32 = 3;

/// What the broker's log says when a port is taken.
const PORT_TAKEN: &str = "Address already in use";

/// How long one question to a broker may take while it starts.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Pause between two questions to a broker that starts.
const ANSWER_STEP: Duration = Duration::from_millis(50);

/// What to start.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// Version of Apache Kafka; [`NEWEST`](crate::NEWEST) by default.
    pub version: String,
    /// Number of brokers, 1 or more; 1 by default. Every broker is a controller too.
    pub brokers: u16,
    /// Heap of each broker, in MiB; 512 by default.
    pub heap_mb: u32,
    /// How long the brokers may take until they answer; 90 s by default.
    pub start_timeout: Duration,
    /// The folder that jars are fetched to; [`KafkaJars::default_folder`] by default.
    pub jars_folder: PathBuf,
    /// Whether clients reach the brokers through a [`Proxy`]; not by default.
    pub proxied: bool,
    /// Broker properties that replace or join those which this crate sets.
    pub properties: BTreeMap<String, String>,
}

impl Default for ClusterConfig {
    fn default() -> Self {
        Self {
            version: crate::NEWEST.to_owned(),
            brokers: 1,
            heap_mb: 512,
            start_timeout: Duration::from_secs(90),
            jars_folder: KafkaJars::default_folder(),
            proxied: false,
            properties: BTreeMap::new(),
        }
    }
}

impl ClusterConfig {
    /// Has the brokers ask their authorizer, which lets everybody do everything until there is a rule:
    /// [`KafkaCluster::deny`]. For one broker: several would refuse each other's votes until they have elected somebody.
    #[must_use]
    pub fn with_authorizer(mut self) -> Self {
        let class = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";
        for (property, value) in [
            ("authorizer.class.name", class),
            ("allow.everyone.if.no.acl.found", "true"),
        ] {
            self.properties
                .insert(property.to_owned(), value.to_owned());
        }
        self
    }
}

/// Why a cluster did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A cluster of no brokers was asked for.
    #[error("a cluster needs at least one broker")]
    NoBrokers,
    /// The jars could not be had.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// There is no usable Java.
    #[error(transparent)]
    Java(#[from] JavaError),
    /// The storage tool failed.
    #[error("formatting the storage of broker {broker} failed ({status}):\n{output}")]
    Format {
        /// Number of the broker, from 1 on.
        broker: u16,
        /// How the tool ended.
        status: ExitStatus,
        /// What it printed.
        output: String,
    },
    /// A broker ended while it started.
    #[error("broker {broker} ended while it started ({status}); the last lines of its log:\n{log}")]
    Ended {
        /// Number of the broker, from 1 on.
        broker: u16,
        /// How it ended.
        status: ExitStatus,
        /// The last lines of its log.
        log: String,
    },
    /// A broker did not answer in time.
    #[error("broker {broker} did not answer within {waited:?}; the last lines of its log:\n{log}")]
    Silent {
        /// Number of the broker, from 1 on.
        broker: u16,
        /// How long it was waited for.
        waited: Duration,
        /// The last lines of its log.
        log: String,
    },
    /// Files, ports or processes could not be had.
    #[error("starting a broker: {0}")]
    Io(#[from] io::Error),
}

/// Running brokers, ended when this is dropped.
#[derive(Debug)]
pub struct KafkaCluster {
    proxy: Option<Proxy>,
    // Before the folder, which the brokers use until they end.
    brokers: Vec<Broker>,
    ports: Vec<Ports>,
    version: String,
    folder: TempDir,
}

impl KafkaCluster {
    /// Starts the brokers and returns when each of them answers and knows all the others.
    ///
    /// # Errors
    ///
    /// [`StartError`], with the broker's last log lines where there are any.
    pub fn start(config: &ClusterConfig) -> Result<Self, StartError> {
        if config.brokers == 0 {
            return Err(StartError::NoBrokers);
        }
        let java = java::find(std::env::var_os("JAVA_HOME"))?;
        let jars = KafkaJars::fetch(&config.version, &config.jars_folder)?;
        let mut attempt = 1;
        loop {
            match Self::try_start(config, &jars, &java) {
                Err(StartError::Ended { log, .. })
                    if attempt < START_ATTEMPTS && log.contains(PORT_TAKEN) =>
                {
                    attempt += 1
                }
                outcome => return outcome,
            }
        }
    }

    /// The brokers' addresses, as clients take them in `bootstrap.servers`; those of the proxy, if there is one.
    #[must_use]
    pub fn bootstrap(&self) -> String {
        addresses(self.ports.iter().map(|ports| ports.advertised))
    }

    /// The addresses of listeners that no proxy stands before: of those that brokers use among themselves, if there is a proxy.
    #[must_use]
    pub fn direct_bootstrap(&self) -> String {
        addresses(self.ports.iter().map(|ports| ports.internal))
    }

    /// The proxy, if [`ClusterConfig::proxied`] asked for it.
    #[must_use]
    pub fn proxy(&self) -> Option<&Proxy> {
        self.proxy.as_ref()
    }

    /// Denies every client everything on a resource. The cluster needs an authorizer:
    /// [`ClusterConfig::with_authorizer`].
    ///
    /// # Errors
    ///
    /// When the broker does not answer or refuses.
    pub fn deny(&self, resource: Resource<'_>) -> io::Result<()> {
        access::deny(self.ports[0].client, resource, ANSWER_TIMEOUT)
    }

    /// Takes a denial back.
    ///
    /// # Errors
    ///
    /// When the broker does not answer or refuses.
    pub fn allow(&self, resource: Resource<'_>) -> io::Result<()> {
        access::allow(self.ports[0].client, resource, ANSWER_TIMEOUT)
    }

    /// The version of Apache Kafka that runs.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The brokers' process ids, broker 1 first.
    #[must_use]
    pub fn process_ids(&self) -> Vec<u32> {
        self.brokers.iter().map(Broker::process_id).collect()
    }

    /// The last lines of the log of broker `number`, from 1 on; `None` when there is no such broker.
    #[must_use]
    pub fn log_tail(&self, number: u16) -> Option<String> {
        let index = usize::from(number).checked_sub(1)?;
        self.brokers.get(index).map(Broker::log_tail)
    }

    /// The folder in which broker `number`, from 1 on, keeps its logs, one subfolder a partition; `None` when there is no such broker.
    #[must_use]
    pub fn data_folder(&self, number: u16) -> Option<PathBuf> {
        let index = usize::from(number).checked_sub(1)?;
        self.brokers
            .get(index)
            .map(|_| data_folder(self.folder.path(), number))
    }

    fn try_start(
        config: &ClusterConfig,
        jars: &KafkaJars,
        java: &Path,
    ) -> Result<Self, StartError> {
        let count = usize::from(config.brokers);
        let free = ports::free(count * 3)?;
        let (client_ports, others) = free.split_at(count);
        let (internal_ports, controller_ports) = others.split_at(count);
        let proxy = match config.proxied {
            true => Some(Proxy::start(client_ports)?),
            false => None,
        };
        let advertised = proxy
            .as_ref()
            .map_or_else(|| client_ports.to_vec(), Proxy::ports);
        let ports: Vec<Ports> = (0..count)
            .map(|index| Ports {
                client: client_ports[index],
                advertised: advertised[index],
                internal: match config.proxied {
                    true => internal_ports[index],
                    false => client_ports[index],
                },
                controller: controller_ports[index],
            })
            .collect();
        let folder = tempfile::Builder::new()
            .prefix("kafka-cluster-")
            .tempdir()?;
        let cluster_id = cluster_id();
        let mut cluster = Self {
            proxy,
            brokers: Vec::with_capacity(count),
            ports,
            version: config.version.clone(),
            folder,
        };
        for number in 1..=config.brokers {
            let own = cluster.folder.path().join(number.to_string());
            fs::create_dir(&own)?;
            let spec = BrokerSpec {
                java,
                jars: jars.folder(),
                properties: properties(
                    config,
                    number,
                    &cluster.ports,
                    &data_folder(cluster.folder.path(), number),
                ),
                folder: own,
                heap_mb: config.heap_mb,
                cluster_id: &cluster_id,
            };
            match Broker::start(&spec)? {
                Ok(broker) => cluster.brokers.push(broker),
                Err(failed) => {
                    return Err(StartError::Format {
                        broker: number,
                        status: failed.status,
                        output: failed.output,
                    });
                }
            }
        }
        cluster.wait_until_it_answers(config.start_timeout)?;
        Ok(cluster)
    }

    fn wait_until_it_answers(&mut self, timeout: Duration) -> Result<(), StartError> {
        let started = Instant::now();
        let expected =
            u32::try_from(self.brokers.len()).expect("the number of brokers came from a u16");
        for ((number, broker), ports) in (1..).zip(&mut self.brokers).zip(&self.ports) {
            loop {
                if let Some(status) = broker.ended()? {
                    return Err(StartError::Ended {
                        broker: number,
                        status,
                        log: broker.log_tail(),
                    });
                }
                if matches!(metadata::live_brokers(ports.client, ANSWER_TIMEOUT), Ok(live) if live == expected)
                {
                    break;
                }
                if started.elapsed() >= timeout {
                    return Err(StartError::Silent {
                        broker: number,
                        waited: started.elapsed(),
                        log: broker.log_tail(),
                    });
                }
                std::thread::sleep(ANSWER_STEP);
            }
        }
        Ok(())
    }
}

impl Drop for KafkaCluster {
    fn drop(&mut self) {
        // All are asked before the first is waited for.
        for broker in &mut self.brokers {
            broker.ask_to_end();
        }
    }
}

/// A broker's ports on the loopback address.
#[derive(Clone, Copy, Debug)]
struct Ports {
    /// Where it listens for clients.
    client: u16,
    /// Where clients are told to find it: there, or at its proxy.
    advertised: u16,
    /// Where other brokers find it: at a listener of their own if clients come through a proxy.
    internal: u16,
    controller: u16,
}

fn addresses(ports: impl Iterator<Item = u16>) -> String {
    let addresses: Vec<String> = ports.map(|port| format!("127.0.0.1:{port}")).collect();
    addresses.join(",")
}

/// Where broker `number` of the cluster in `folder` keeps its logs.
fn data_folder(folder: &Path, number: u16) -> PathBuf {
    folder.join(number.to_string()).join("data")
}

/// What broker `number` is told: its place in the cluster, and settings that make a test quick on a small machine.
fn properties(
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

/// A fresh cluster id: 16 bytes in base64 without padding, of which the last character holds two bits.
fn cluster_id() -> String {
    const LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdef";
    let mut id: String = (0..2_u64)
        .flat_map(|half| {
            // Keyed freshly for each state, which is all the chance that two clusters on one machine need to differ.
            let bits = RandomState::new().hash_one(half);
            (0..11).map(move |place| {
                char::from(LETTERS[(bits >> (5 * place)) as usize % LETTERS.len()])
            })
        })
        .take(21)
        .collect();
    id.push('Q');
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_of_no_brokers_is_refused() {
        let config = ClusterConfig {
            brokers: 0,
            ..ClusterConfig::default()
        };
        assert!(matches!(
            KafkaCluster::start(&config),
            Err(StartError::NoBrokers)
        ));
    }

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

    #[test]
    fn cluster_ids_differ_and_have_the_length_of_a_uuid() {
        let (one, other) = (cluster_id(), cluster_id());
        assert_eq!(one.len(), 22);
        assert_ne!(one, other);
    }
}
