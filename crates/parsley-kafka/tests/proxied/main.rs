//! The host on two real brokers behind a proxy, which loses, delays and holds back what a test says. Tests share both, so their rules are for their own
//! topics and transactions.

#[path = "../host/account.rs"]
mod account;
mod assignments;
mod child;
mod commits;
mod kills;
mod members;
mod new_topics;
mod positions;
mod scaling;
mod send_order;
#[path = "../host/world.rs"]
#[allow(dead_code, reason = "each test binary uses a part")]
mod world;
mod zombies;

/// Two brokers behind a proxy, so that partitions have different leaders.
fn brokers() -> kafka_cluster::ClusterConfig {
    kafka_cluster::ClusterConfig {
        brokers: 2,
        heap_mb: 384,
        proxied: true,
        ..kafka_cluster::ClusterConfig::default()
    }
}
