//! The host on three real brokers that come and go. Tests share the brokers one at a time, and leave all of them running.

mod cut_tail;
mod leaders;
mod load;
mod markers;
mod three;
#[path = "../host/world.rs"]
#[allow(dead_code, reason = "each test binary uses a part")]
mod world;

/// Three brokers behind a proxy. One that is gone is missed within seconds.
fn brokers() -> kafka_cluster::ClusterConfig {
    let mut config = kafka_cluster::ClusterConfig {
        brokers: 3,
        heap_mb: 384,
        proxied: true,
        ..kafka_cluster::ClusterConfig::default()
    };
    for (property, value) in [
        ("broker.session.timeout.ms", "5000"),
        ("broker.heartbeat.interval.ms", "500"),
    ] {
        let set = (property.to_owned(), value.to_owned());
        config.properties.extend([set]);
    }
    config
}
