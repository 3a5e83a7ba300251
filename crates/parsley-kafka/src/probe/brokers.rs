//! What the brokers allow of transactions.

use rdkafka::admin::AdminClient;
use rdkafka::client::DefaultClientContext;

use super::{Clause, Probe, ProbeError, Severity};
use crate::cluster::{self, Cluster};
use crate::config::KafkaConfig;

/// The broker's setting.
const LONGEST: &str = "transaction.max.timeout.ms";

/// How long transactions may last.
pub(super) struct TimeLimits {
    /// Of each broker that shows it: its limit in milliseconds, and its id.
    told: Vec<(u128, i32)>,
    /// What is not known, and why.
    untold: Vec<String>,
}

impl TimeLimits {
    /// Asks every broker.
    pub(super) fn ask(config: &KafkaConfig, cluster: &Cluster) -> Result<Self, ProbeError> {
        let brokers = cluster.brokers()?;
        let admin: AdminClient<DefaultClientContext> =
            config.client().create().map_err(ProbeError::Client)?;
        let (mut told, mut untold) = (Vec::new(), Vec::new());
        for broker in brokers {
            match cluster::broker_setting(&admin, broker, LONGEST) {
                Ok(value) => match value.and_then(|value| value.parse().ok()) {
                    Some(ms) => told.push((ms, broker)),
                    None => untold.push(format!("broker {broker} does not show it")),
                },
                Err(error) => untold.push(error.to_string()),
            }
        }
        Ok(Self { told, untold })
    }

    /// Whether every broker is known to refuse a transaction that is to last so long.
    pub(super) fn all_refuse(&self, ms: u128) -> bool {
        let is_shorter = |(limit, _): &(u128, i32)| *limit < ms;
        self.untold.is_empty() && self.told.iter().all(is_shorter)
    }
}

impl Probe {
    /// Whether every broker takes transactions that last as long as configured: any may be the coordinator of a worker's transactional id, and one that does
    /// not refuses the worker's producer (decision K38).
    pub(super) fn transaction_timeout(&mut self, config: &KafkaConfig, limits: &TimeLimits) {
        let asked_ms = config.transaction_timeout.as_millis();
        let shortest = limits.told.iter().min();
        if let Some((ms, broker)) = shortest.filter(|(ms, _)| asked_ms > *ms) {
            let found = format!(
                "transaction_timeout_ms is {asked_ms}, and {LONGEST} of broker {broker} is {ms}"
            );
            self.error(Clause::TransactionTimeout, None, [], found);
        }
        if !limits.untold.is_empty() {
            let found = format!(
                "whether transaction_timeout_ms, {asked_ms}, is within {LONGEST} is not known: {}",
                limits.untold.join("; ")
            );
            let clause = Clause::TransactionTimeout;
            self.found(Severity::Note, clause, None, [], found);
        }
    }
}
