//! Whether the transactional ids of a stage's workers may be used.

use rdkafka::types::RDKafkaErrorCode;

use super::brokers::TimeLimits;
use super::{Clause, Probe, Severity};
use crate::names;
use crate::producer::Producer;
use crate::stage::Declared;
use crate::worker::Trouble;

impl Probe {
    /// Asks for a transactional id like those of the workers, and for a time that no broker gives: one that denies the id says so, another refuses the time, and
    /// keeps nothing of it (decision K42).
    pub(super) fn transactional_ids(&mut self, declared: &Declared, limits: &TimeLimits) {
        let name = Some(&*declared.stage_name);
        let clause = Clause::TransactionalIds;
        let ids = format!("the transactional ids {}-…", declared.group);
        if !limits.all_refuse(Producer::LONGEST_MS.into()) {
            let found = format!(
                "whether this client may use {ids} was not asked: only brokers that are known to refuse a transaction timeout of {} ms keep nothing of the question",
                Producer::LONGEST_MS
            );
            self.found(Severity::Note, clause, name, [], found);
            return;
        }
        // Another id each time, so that no producer is fenced.
        let id = names::transactional_id(&declared.group, 0);
        let Err(error) = Producer::ask_for(&declared.config, &id) else {
            return;
        };
        match error.code() {
            Some(RDKafkaErrorCode::InvalidTransactionTimeout) => {}
            Some(RDKafkaErrorCode::TransactionalIdAuthorizationFailed) => {
                let refused = Trouble::from(error).with_grant(declared, None);
                self.error(clause, name, [], refused.to_string());
            }
            _ => {
                let found = format!("whether this client may use {ids} is not known: {error}");
                self.found(Severity::Note, clause, name, [], found);
            }
        }
    }
}
