//! What the brokers allow of transactions.

use rdkafka::admin::AdminClient;
use rdkafka::client::DefaultClientContext;

use super::{Clause, Probe, ProbeError, Severity};
use crate::cluster::{self, Cluster};
use crate::config::KafkaConfig;

/// The broker's setting.
const LONGEST: &str = "transaction.max.timeout.ms";

impl Probe {
    /// Whether every broker takes transactions that last as long as configured: any may be the coordinator of a worker's transactional id, and one that does
    /// not refuses the worker's producer (decision K38).
    pub(super) fn transaction_timeout(
        &mut self,
        config: &KafkaConfig,
        cluster: &Cluster,
    ) -> Result<(), ProbeError> {
        let brokers = cluster.brokers()?;
        let admin: AdminClient<DefaultClientContext> =
            config.client().create().map_err(ProbeError::Client)?;
        let asked_ms = config.transaction_timeout.as_millis();
        let mut shortest: Option<(u128, i32)> = None;
        let mut untold = Vec::new();
        for broker in brokers {
            match cluster::broker_setting(&admin, broker, LONGEST) {
                Ok(value) => match value.and_then(|value| value.parse().ok()) {
                    Some(ms) => {
                        shortest = Some(shortest.map_or((ms, broker), |s| s.min((ms, broker))))
                    }
                    None => untold.push(format!("broker {broker} does not show it")),
                },
                Err(error) => untold.push(error.to_string()),
            }
        }
        if let Some((ms, broker)) = shortest.filter(|(ms, _)| asked_ms > *ms) {
            let found = format!(
                "transaction_timeout_ms is {asked_ms}, and {LONGEST} of broker {broker} is {ms}"
            );
            self.error(Clause::TransactionTimeout, None, [], found);
        }
        if !untold.is_empty() {
            let found = format!(
                "whether transaction_timeout_ms, {asked_ms}, is within {LONGEST} is not known: {}",
                untold.join("; ")
            );
            let clause = Clause::TransactionTimeout;
            self.found(Severity::Note, clause, None, [], found);
        }
        Ok(())
    }
}
