//! What this client may do with the topics that it is shown.

use std::collections::BTreeMap;

use super::{Clause, Probe, ProbeError, Severity};
use crate::cluster::Cluster;
use crate::stage::Declared;
use crate::topic::Permitted;

impl Probe {
    /// Whether the stage may read what it reads, and write what it writes (decision K39). Topics that are missing or not shown are told of elsewhere.
    pub(super) fn access(
        &mut self,
        declared: &Declared,
        cluster: &Cluster,
    ) -> Result<(), ProbeError> {
        let needed = declared.access();
        let names: Vec<&str> = needed.keys().copied().collect();
        let permitted = cluster.permitted(&names)?;
        self.compare(&declared.stage_name, &needed, permitted);
        Ok(())
    }

    fn compare(
        &mut self,
        stage: &str,
        needed: &BTreeMap<&str, Permitted>,
        permitted: BTreeMap<String, Option<Permitted>>,
    ) {
        let mut untold = Vec::new();
        for (topic, permitted) in permitted {
            let Some(permitted) = permitted else {
                untold.push(topic);
                continue;
            };
            let needed = needed.get(&*topic).copied().unwrap_or_default();
            if let Some(denied) = denied(needed, permitted) {
                let found = format!("this client may not {denied} the topic {topic}");
                self.error(Clause::Access, Some(stage), [topic], found);
            }
        }
        if !untold.is_empty() {
            let found = format!(
                "the cluster does not tell what this client may do with {}",
                untold.join(", ")
            );
            self.found(Severity::Note, Clause::Access, Some(stage), untold, found);
        }
    }
}

/// What is needed and not permitted.
fn denied(needed: Permitted, permitted: Permitted) -> Option<&'static str> {
    let reads = needed.reads && !permitted.reads;
    let writes = needed.writes && !permitted.writes;
    match (reads, writes) {
        (true, true) => Some("read or write"),
        (true, false) => Some("read"),
        (false, true) => Some("write"),
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Brokers before Apache Kafka 2.3 do not tell, and the host may well start on them.
    #[test]
    fn what_the_cluster_does_not_tell_is_a_note() {
        let both = Permitted {
            reads: true,
            writes: true,
        };
        let needed = BTreeMap::from([("a", both), ("b", both), ("c", both)]);
        let permitted = [
            ("a", None),
            ("b", Some(both)),
            ("c", Some(Permitted::default())),
        ];
        let mut probe = Probe::default();
        let permitted = permitted.map(|(topic, permitted)| (topic.to_owned(), permitted));
        probe.compare("s", &needed, permitted.into());
        let found: Vec<_> = probe
            .report
            .findings
            .iter()
            .map(|finding| (finding.severity, finding.found.as_str()))
            .collect();
        let (denied, untold) = (
            "this client may not read or write the topic c",
            "the cluster does not tell what this client may do with a",
        );
        let expected = [(Severity::Error, denied), (Severity::Note, untold)];
        assert_eq!(found, expected);
    }
}
