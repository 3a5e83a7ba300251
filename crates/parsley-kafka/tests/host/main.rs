//! The host on a real broker. Every test has topics, groups and state directories of its own; all share one broker.

mod aborts;
mod account;
mod audit;
mod denied;
mod edge;
mod failures;
mod foreign;
mod guards;
mod identity;
mod joining;
mod log;
mod lost_state;
mod obligations;
mod probe;
mod pruning;
mod reader;
mod restore;
mod signals;
mod steps;
mod stops;
#[path = "../../../parsley-embedded/tests/support/told.rs"]
mod telling;
mod ticks;
mod ticks_redeployed;
mod told;
mod traps;
mod two_instances;

#[allow(dead_code, reason = "each test binary uses a part")]
mod world;

/// One broker, on which everybody may do everything until a test denies it. Its transactions last for two minutes at most.
fn brokers() -> kafka_cluster::ClusterConfig {
    let mut config = kafka_cluster::ClusterConfig::default().with_authorizer();
    let (longest, ms) = ("transaction.max.timeout.ms", "120000");
    config.properties.insert(longest.to_owned(), ms.to_owned());
    config
}
