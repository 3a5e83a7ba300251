//! How a host is configured, from code or from a TOML file.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parsley_core::NodeLimits;
use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;
use serde::Deserialize;

mod owned;

use owned::{is_secret, owner_of};

/// How a host is configured. Printing it shows no secret.
///
/// ```
/// use std::time::Duration;
/// use parsley_kafka::KafkaConfig;
///
/// let config = KafkaConfig::new("localhost:9092", "/var/lib/shop")
///     .commit_interval(Duration::from_millis(50))
///     .property("security.protocol", "plaintext");
/// config.check()?;
///
/// let same = KafkaConfig::from_toml(r#"
///     brokers = "localhost:9092"
///     state_dir = "/var/lib/shop"
///     commit_interval_ms = 50
///     [librdkafka]
///     "security.protocol" = "plaintext"
/// "#)?;
/// assert_eq!(config, same);
/// # Ok::<(), parsley_kafka::ConfigError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KafkaConfig {
    /// Where to find the cluster: `host:port`, several separated by commas.
    pub brokers: String,
    /// Where tasks keep their state between runs. One process uses it at a time; what is lost there is read back from the cluster.
    pub state_dir: PathBuf,
    /// How many workers a stage has in this process: threads with a consumer and a producer of their own. At least 1; default 1.
    pub workers: usize,
    /// After how long a step ends, also in the middle of a drain. At least 1 ms, half of the transaction's timeout at most; default 100 ms.
    pub commit_interval: Duration,
    /// After how many deliveries a task's part of a step ends. At least 1; default 20,000.
    pub max_step_deliveries: usize,
    /// After how many rounds of sends a task's part of a step ends. At least 1; default 8.
    pub max_rounds: usize,
    /// Bounds of each task's ordering state.
    pub node: NodeLimits,
    /// After how long the cluster gives up a transaction whose process has gone: readers of what it wrote wait that long. 1 s to 15 min, and
    /// not above the brokers' `transaction.max.timeout.ms`; default 10 s.
    pub transaction_timeout: Duration,
    /// How often log starts of inputs and the identities of all topics are looked at (G9, G10, G12, G15). At least 1 ms; default 30 s.
    pub check_interval: Duration,
    /// How often it is looked what was deleted of what stamps claim. At least 1 ms; default 10 min.
    pub sweep_interval: Duration,
    /// How long a deletion has to be known before stamps stop claiming what it deleted (`docs/protocol.md`, Truncation), and, less a
    /// check interval, how long deliveries go on without a check that succeeds. The same in all applications that send to each other. At
    /// least twice the check interval; default 1 hour.
    pub truncation_delay: Duration,
    /// The wait after a first failure; it doubles with each in a row. Default 100 ms.
    pub backoff_first: Duration,
    /// The longest wait after a failure. Default 30 s.
    pub backoff_longest: Duration,
    /// How long a stop waits for the steps in flight before it gives them up. Default 30 s.
    pub stop_timeout: Duration,
    /// After how long a record that is held is warned of in the log, once for each that stands first on its channel. Default 30 s.
    pub hold_warning_after: Duration,
    /// How changelog topics are made that do not exist.
    pub changelog: ChangelogConfig,
    /// Further properties of librdkafka, for all clients: security, buffers. Those that the guarantee rests on are refused.
    pub properties: BTreeMap<String, String>,
}

/// How changelog topics are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ChangelogConfig {
    /// On how many brokers each partition stands; the brokers' default if none is named.
    pub replication: Option<i32>,
    /// How many of them have to have a write (`min.insync.replicas`); the brokers' default if none is named.
    pub min_insync_replicas: Option<u32>,
}

/// A configuration that no host can work with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's words.
        reason: String,
    },
    /// The text is no TOML, or has a key that is missing, unknown, or of another type.
    #[error("line {line}, column {column}: {reason}")]
    Toml {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// What was found, and what is expected.
        reason: String,
    },
    /// A table has a key that is missing, unknown, or of another type.
    #[error("{reason}")]
    Table {
        /// What was found, and what is expected.
        reason: String,
    },
    /// A setting is out of range.
    #[error("{setting} is {found}, and has to be {expected}")]
    Range {
        /// The setting.
        setting: &'static str,
        /// What it is set to.
        found: String,
        /// What it can be.
        expected: &'static str,
    },
    /// A property of librdkafka is the host's alone.
    #[error("the librdkafka property {property} is the host's: {why}")]
    Owned {
        /// The property.
        property: String,
        /// Why.
        why: &'static str,
    },
    /// librdkafka does not take a property, or not this value for it.
    #[error("librdkafka does not take the property {property}: {reason}")]
    Property {
        /// The property.
        property: String,
        /// Its words, without the value of a secret.
        reason: String,
    },
}

impl KafkaConfig {
    /// A configuration with defaults.
    pub fn new(brokers: impl Into<String>, state_dir: impl Into<PathBuf>) -> Self {
        Self {
            brokers: brokers.into(),
            state_dir: state_dir.into(),
            workers: 1,
            commit_interval: Duration::from_millis(100),
            max_step_deliveries: 20_000,
            max_rounds: 8,
            node: NodeLimits::default(),
            transaction_timeout: Duration::from_secs(10),
            check_interval: Duration::from_secs(30),
            sweep_interval: Duration::from_secs(600),
            truncation_delay: Duration::from_secs(3600),
            backoff_first: Duration::from_millis(100),
            backoff_longest: Duration::from_secs(30),
            stop_timeout: Duration::from_secs(30),
            hold_warning_after: Duration::from_secs(30),
            changelog: ChangelogConfig::default(),
            properties: BTreeMap::new(),
        }
    }

    /// Reads a configuration, and checks it. Durations are whole milliseconds, and end in `_ms`.
    ///
    /// # Errors
    ///
    /// When it is no TOML, has an unknown key, lacks `brokers` or `state_dir`, or fails [`KafkaConfig::check`].
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        let read: ConfigFile = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start.min(text.len()));
            let before = text.get(..at).unwrap_or_default();
            let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
            ConfigError::Toml {
                line: before.matches('\n').count() + 1,
                column: before[line_start..].chars().count() + 1,
                reason: error.message().to_owned(),
            }
        })?;
        let config = read.into_config();
        config.check()?;
        Ok(config)
    }

    /// Takes a configuration from a table, and does not check it.
    pub(crate) fn from_table(table: toml::Table) -> Result<Self, ConfigError> {
        let read: ConfigFile = table.try_into().map_err(|error: toml::de::Error| {
            let reason = error.message().to_owned();
            ConfigError::Table { reason }
        })?;
        Ok(read.into_config())
    }

    /// Reads a configuration from a file.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, and as [`KafkaConfig::from_toml`].
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|error| ConfigError::Unreadable {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        Self::from_toml(&text)
    }

    /// Sets how many workers a stage has in this process.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// Sets after how long a step ends.
    #[must_use]
    pub fn commit_interval(mut self, commit_interval: Duration) -> Self {
        self.commit_interval = commit_interval;
        self
    }

    /// Sets after how long the cluster gives up a transaction whose process has gone.
    #[must_use]
    pub fn transaction_timeout(mut self, transaction_timeout: Duration) -> Self {
        self.transaction_timeout = transaction_timeout;
        self
    }

    /// Sets after how long a record that is held is warned of in the log.
    #[must_use]
    pub fn hold_warning_after(mut self, hold_warning_after: Duration) -> Self {
        self.hold_warning_after = hold_warning_after;
        self
    }

    /// Sets a property of librdkafka.
    #[must_use]
    pub fn property(mut self, property: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.insert(property.into(), value.into());
        self
    }

    /// Checks every setting.
    ///
    /// # Errors
    ///
    /// When one is out of range, or a property of librdkafka is the host's, unknown, or has a value that librdkafka does not take.
    pub fn check(&self) -> Result<(), ConfigError> {
        let at_least_1 = "at least 1";
        let counts = [
            ("workers", self.workers),
            ("max_step_deliveries", self.max_step_deliveries),
            ("max_rounds", self.max_rounds),
            ("window_records", self.node.window_records),
            ("clock_budget_bytes", self.node.clock_budget_bytes),
        ];
        if let Some((setting, _)) = counts.iter().find(|(_, count)| *count == 0) {
            return Err(range(setting, "0", at_least_1));
        }
        let intervals = [
            ("commit_interval_ms", self.commit_interval),
            ("check_interval_ms", self.check_interval),
            ("sweep_interval_ms", self.sweep_interval),
        ];
        if let Some((setting, _)) = intervals
            .iter()
            .find(|(_, interval)| interval.as_millis() == 0)
        {
            return Err(range(setting, "0", at_least_1));
        }
        let timeout = self.transaction_timeout;
        if !(Duration::from_secs(1)..=Duration::from_secs(900)).contains(&timeout) {
            let found = timeout.as_millis().to_string();
            return Err(range("transaction_timeout_ms", found, "1,000 to 900,000"));
        }
        if self.commit_interval > timeout / 2 {
            let found = self.commit_interval.as_millis().to_string();
            let expected = "half of transaction_timeout_ms at most";
            return Err(range("commit_interval_ms", found, expected));
        }
        if self.truncation_delay / 2 < self.check_interval {
            let found = self.truncation_delay.as_millis().to_string();
            let expected = "twice check_interval_ms at least";
            return Err(range("truncation_delay_ms", found, expected));
        }
        if self.backoff_first > self.backoff_longest {
            let found = self.backoff_first.as_millis().to_string();
            return Err(range(
                "backoff_first_ms",
                found,
                "backoff_longest_ms at most",
            ));
        }
        if self.brokers.trim().is_empty() {
            return Err(range(
                "brokers",
                "empty",
                "host:port, several separated by commas",
            ));
        }
        if self.state_dir.as_os_str().is_empty() {
            return Err(range("state_dir", "empty", "a directory"));
        }
        if let Some(found) = self.changelog.replication.filter(|found| *found < 1) {
            return Err(range(
                "changelog.replication",
                found.to_string(),
                at_least_1,
            ));
        }
        if self.changelog.min_insync_replicas == Some(0) {
            return Err(range("changelog.min_insync_replicas", "0", at_least_1));
        }
        check_properties(&self.properties)?;
        self.check_together()
    }

    /// Refuses what librdkafka takes alone and refuses together, which it looks at when a client is made: none ever could be, and each attempt would look
    /// like a cluster's failure.
    fn check_together(&self) -> Result<(), ConfigError> {
        let set = |property: &str| set_ms(&self.properties, property);
        let longest_ms = self.transaction_timeout.as_millis() + ANSWER_BEYOND_MS;
        if let Some(ms) = set(ANSWER).filter(|ms| *ms > longest_ms) {
            return Err(ConfigError::Property {
                property: ANSWER.to_owned(),
                reason: format!(
                    "it is {ms}, and has to be {ANSWER_BEYOND_MS} above transaction_timeout_ms at most, which makes {longest_ms}"
                ),
            });
        }
        let session_ms = set(SESSION).unwrap_or(SESSION_MS);
        let poll_ms = set(POLL).unwrap_or(POLL_MS);
        if session_ms > poll_ms {
            let property = if self.properties.contains_key(SESSION) {
                SESSION
            } else {
                POLL
            };
            return Err(ConfigError::Property {
                property: property.to_owned(),
                reason: format!(
                    "{SESSION} is {session_ms}, and has to be {POLL} at most, which is {poll_ms}"
                ),
            });
        }
        Ok(())
    }

    /// What every client of the host has in common.
    pub(crate) fn client(&self) -> ClientConfig {
        client_of(&self.brokers, &self.properties)
    }
}

/// How long clients wait for an answer, and how much longer than a transaction lasts that may be, in milliseconds.
const ANSWER: &str = "socket.timeout.ms";
const ANSWER_BEYOND_MS: u128 = 100;

/// After how long without a heartbeat, and without a poll, a member is taken for gone; and the defaults, in milliseconds.
const SESSION: &str = "session.timeout.ms";
const SESSION_MS: u128 = 45_000;
const POLL: &str = "max.poll.interval.ms";
const POLL_MS: u128 = 300_000;

/// A time that is set, as librdkafka reads it in whatever notation; `None` if none is, or none that it takes.
fn set_ms(properties: &BTreeMap<String, String>, property: &str) -> Option<u128> {
    let mut one = ClientConfig::new();
    one.set(property, properties.get(property)?);
    let read = one.create_native_config().ok()?.get(property).ok()?;
    read.parse().ok()
}

/// Refuses properties of librdkafka that are the host's, and those that librdkafka does not take.
pub(crate) fn check_properties(properties: &BTreeMap<String, String>) -> Result<(), ConfigError> {
    for property in properties.keys() {
        if let Some(why) = owner_of(property) {
            let property = property.clone();
            return Err(ConfigError::Owned { property, why });
        }
    }
    // librdkafka knows its properties best; it is told of one after the other, so that its answer is about that one.
    for (property, value) in properties {
        let mut one = ClientConfig::new();
        one.set(property, value);
        let Err(KafkaError::ClientConfig(_, reason, ..)) = one.create_native_config() else {
            continue;
        };
        let reason = match is_secret(property) {
            true => "its value is none that it takes".to_owned(),
            false => reason,
        };
        return Err(ConfigError::Property {
            property: property.clone(),
            reason,
        });
    }
    Ok(())
}

/// What every client has in common.
pub(crate) fn client_of(brokers: &str, properties: &BTreeMap<String, String>) -> ClientConfig {
    let mut client = ClientConfig::new();
    for (property, value) in properties {
        client.set(property, value);
    }
    client.set("bootstrap.servers", brokers);
    client
}

/// Properties, without the values of secrets.
pub(crate) fn shown(properties: &BTreeMap<String, String>) -> BTreeMap<&str, &str> {
    let shown = properties.iter().map(|(property, value)| {
        let value = if is_secret(property) {
            "(secret)"
        } else {
            value
        };
        (property.as_str(), value)
    });
    shown.collect()
}

pub(crate) fn range(
    setting: &'static str,
    found: impl Into<String>,
    expected: &'static str,
) -> ConfigError {
    ConfigError::Range {
        setting,
        found: found.into(),
        expected,
    }
}

impl fmt::Debug for KafkaConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaConfig")
            .field("brokers", &self.brokers)
            .field("state_dir", &self.state_dir)
            .field("workers", &self.workers)
            .field("commit_interval", &self.commit_interval)
            .field("max_step_deliveries", &self.max_step_deliveries)
            .field("max_rounds", &self.max_rounds)
            .field("node", &self.node)
            .field("transaction_timeout", &self.transaction_timeout)
            .field("check_interval", &self.check_interval)
            .field("sweep_interval", &self.sweep_interval)
            .field("truncation_delay", &self.truncation_delay)
            .field("backoff_first", &self.backoff_first)
            .field("backoff_longest", &self.backoff_longest)
            .field("stop_timeout", &self.stop_timeout)
            .field("hold_warning_after", &self.hold_warning_after)
            .field("changelog", &self.changelog)
            .field("properties", &shown(&self.properties))
            .finish()
    }
}

/// As it stands in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigFile {
    brokers: String,
    state_dir: PathBuf,
    workers: Option<usize>,
    commit_interval_ms: Option<u64>,
    max_step_deliveries: Option<usize>,
    max_rounds: Option<usize>,
    window_records: Option<usize>,
    clock_budget_bytes: Option<usize>,
    transaction_timeout_ms: Option<u64>,
    check_interval_ms: Option<u64>,
    sweep_interval_ms: Option<u64>,
    truncation_delay_ms: Option<u64>,
    backoff_first_ms: Option<u64>,
    backoff_longest_ms: Option<u64>,
    stop_timeout_ms: Option<u64>,
    hold_warning_after_ms: Option<u64>,
    #[serde(default)]
    changelog: ChangelogConfig,
    #[serde(default)]
    librdkafka: BTreeMap<String, Property>,
}

/// A property may be written as the number or the truth value that it is.
#[derive(Deserialize)]
#[serde(untagged)]
enum Property {
    Text(String),
    Number(i64),
    Truth(bool),
}

impl ConfigFile {
    fn into_config(self) -> KafkaConfig {
        let defaults = KafkaConfig::new(self.brokers, self.state_dir);
        let or = |ms: Option<u64>, default| ms.map_or(default, Duration::from_millis);
        let text = |property| match property {
            Property::Text(text) => text,
            Property::Number(number) => number.to_string(),
            Property::Truth(truth) => truth.to_string(),
        };
        KafkaConfig {
            workers: self.workers.unwrap_or(defaults.workers),
            commit_interval: or(self.commit_interval_ms, defaults.commit_interval),
            max_step_deliveries: self
                .max_step_deliveries
                .unwrap_or(defaults.max_step_deliveries),
            max_rounds: self.max_rounds.unwrap_or(defaults.max_rounds),
            node: NodeLimits {
                clock_budget_bytes: self
                    .clock_budget_bytes
                    .unwrap_or(defaults.node.clock_budget_bytes),
                window_records: self.window_records.unwrap_or(defaults.node.window_records),
            },
            transaction_timeout: or(self.transaction_timeout_ms, defaults.transaction_timeout),
            check_interval: or(self.check_interval_ms, defaults.check_interval),
            sweep_interval: or(self.sweep_interval_ms, defaults.sweep_interval),
            truncation_delay: or(self.truncation_delay_ms, defaults.truncation_delay),
            backoff_first: or(self.backoff_first_ms, defaults.backoff_first),
            backoff_longest: or(self.backoff_longest_ms, defaults.backoff_longest),
            stop_timeout: or(self.stop_timeout_ms, defaults.stop_timeout),
            hold_warning_after: or(self.hold_warning_after_ms, defaults.hold_warning_after),
            changelog: self.changelog,
            properties: self
                .librdkafka
                .into_iter()
                .map(|(property, value)| (property, text(value)))
                .collect(),
            ..defaults
        }
    }
}

#[cfg(test)]
mod tests;
