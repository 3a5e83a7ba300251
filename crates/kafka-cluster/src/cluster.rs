//! A cluster of brokers for a test.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::access::{self, Operation, Resource};
use crate::broker::{Broker, BrokerSpec, End};
use crate::jars::{FetchError, KafkaJars};
use crate::java::{self, JavaError};
use crate::properties::{Ports, data_folder, properties};
use crate::proxy::Proxy;
use crate::{metadata, ports};

/// How often a start is tried when another process takes a port between its choice and the broker's bind.
const START_ATTEMPTS: u32 = 3;

/// What the broker's log says when a port is taken.
const PORT_TAKEN: &str = "Address already in use";

/// How long one question to a broker may take while it starts.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a broker that is to end may take to hand over what it leads.
const HAND_OVER_BOUND: Duration = Duration::from_secs(20);

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
    /// There is no broker of that number.
    #[error("the cluster has no broker {number}; they are numbered from 1 on")]
    NoSuchBroker {
        /// The number.
        number: u16,
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
    brokers: Vec<Mutex<Broker>>,
    ports: Vec<Ports>,
    version: String,
    start_timeout: Duration,
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
    /// [`ClusterConfig::with_authorizer`]. It is in force when this returns.
    ///
    /// # Errors
    ///
    /// When the broker does not answer or refuses.
    pub fn deny(&self, resource: Resource<'_>) -> io::Result<()> {
        access::deny(self.ports[0].client, resource, None, ANSWER_TIMEOUT)
    }

    /// Takes a denial back. That is in force when this returns.
    ///
    /// # Errors
    ///
    /// When the broker does not answer or refuses.
    pub fn allow(&self, resource: Resource<'_>) -> io::Result<()> {
        access::allow(self.ports[0].client, resource, None, ANSWER_TIMEOUT)
    }

    /// Denies every client one operation on a resource, and no other.
    ///
    /// # Errors
    ///
    /// When the broker does not answer or refuses.
    pub fn deny_one(&self, resource: Resource<'_>, operation: Operation) -> io::Result<()> {
        let port = self.ports[0].client;
        access::deny(port, resource, Some(operation), ANSWER_TIMEOUT)
    }

    /// Takes the denial of one operation back.
    ///
    /// # Errors
    ///
    /// When the broker does not answer or refuses.
    pub fn allow_one(&self, resource: Resource<'_>, operation: Operation) -> io::Result<()> {
        let port = self.ports[0].client;
        access::allow(port, resource, Some(operation), ANSWER_TIMEOUT)
    }

    /// The version of Apache Kafka that runs.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The process ids of the brokers that run, in the order of their numbers.
    #[must_use]
    pub fn process_ids(&self) -> Vec<u32> {
        let brokers = self.brokers.iter().map(locked);
        brokers.filter_map(|broker| broker.process_id()).collect()
    }

    /// Has broker `number`, from 1 on, end as an operator would: it hands over what it leads, and is killed if it has not ended after 20 s.
    /// Does nothing if it does not run.
    ///
    /// # Errors
    ///
    /// [`StartError::NoSuchBroker`].
    pub fn end_broker(&self, number: u16) -> Result<(), StartError> {
        self.broker(number)?.end(End::Within(HAND_OVER_BOUND));
        Ok(())
    }

    /// Kills broker `number`, from 1 on, with SIGKILL. Does nothing if it does not run.
    ///
    /// # Errors
    ///
    /// [`StartError::NoSuchBroker`].
    pub fn kill_broker(&self, number: u16) -> Result<(), StartError> {
        self.broker(number)?.end(End::Killed);
        Ok(())
    }

    /// Starts broker `number`, from 1 on, again on its ports and with what its storage has. Returns when it answers, and knows at least as
    /// many live brokers as there are. Does not start one that runs.
    ///
    /// # Errors
    ///
    /// [`StartError`], with the broker's last log lines where there are any.
    pub fn start_broker(&self, number: u16) -> Result<(), StartError> {
        self.broker(number)?.run()?;
        let live = self.process_ids().len();
        self.wait_until_it_answers(number, |known| known as usize >= live)
    }

    fn broker(&self, number: u16) -> Result<MutexGuard<'_, Broker>, StartError> {
        let index = usize::from(number).checked_sub(1);
        let broker = index.and_then(|index| self.brokers.get(index));
        broker
            .map(locked)
            .ok_or(StartError::NoSuchBroker { number })
    }

    /// The last lines of the log of broker `number`, from 1 on; `None` when there is no such broker.
    #[must_use]
    pub fn log_tail(&self, number: u16) -> Option<String> {
        self.broker(number).ok().map(|broker| broker.log_tail())
    }

    /// The folder in which broker `number`, from 1 on, keeps its logs, one subfolder a partition; `None` when there is no such broker.
    #[must_use]
    pub fn data_folder(&self, number: u16) -> Option<PathBuf> {
        let broker = self.broker(number).ok();
        broker.map(|_| data_folder(self.folder.path(), number))
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
            start_timeout: config.start_timeout,
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
            match Broker::start(spec)? {
                Ok(broker) => cluster.brokers.push(Mutex::new(broker)),
                Err(failed) => {
                    return Err(StartError::Format {
                        broker: number,
                        status: failed.status,
                        output: failed.output,
                    });
                }
            }
        }
        for number in 1..=config.brokers {
            cluster.wait_until_it_answers(number, |known| known == u32::from(config.brokers))?;
        }
        Ok(cluster)
    }

    /// Waits until a broker says that it knows as many live brokers as is wished.
    fn wait_until_it_answers(
        &self,
        number: u16,
        is_reached: impl Fn(u32) -> bool,
    ) -> Result<(), StartError> {
        let started = Instant::now();
        let port = self.ports[usize::from(number) - 1].client;
        loop {
            let mut broker = self.broker(number)?;
            if let Some(status) = broker.ended()? {
                return Err(StartError::Ended {
                    broker: number,
                    status,
                    log: broker.log_tail(),
                });
            }
            if started.elapsed() >= self.start_timeout {
                return Err(StartError::Silent {
                    broker: number,
                    waited: started.elapsed(),
                    log: broker.log_tail(),
                });
            }
            drop(broker);
            if metadata::live_brokers(port, ANSWER_TIMEOUT).is_ok_and(&is_reached) {
                return Ok(());
            }
            std::thread::sleep(ANSWER_STEP);
        }
    }
}

impl Drop for KafkaCluster {
    fn drop(&mut self) {
        // All are asked before the first is waited for.
        for broker in &self.brokers {
            locked(broker).ask_to_end();
        }
    }
}

fn locked(broker: &Mutex<Broker>) -> MutexGuard<'_, Broker> {
    // What a thread was about when it died is seen from the process itself.
    broker.lock().unwrap_or_else(PoisonError::into_inner)
}

fn addresses(ports: impl Iterator<Item = u16>) -> String {
    let addresses: Vec<String> = ports.map(|port| format!("127.0.0.1:{port}")).collect();
    addresses.join(",")
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
    fn cluster_ids_differ_and_have_the_length_of_a_uuid() {
        let (one, other) = (cluster_id(), cluster_id());
        assert_eq!(one.len(), 22);
        assert_ne!(one, other);
    }
}
