//! The host on one real broker that ends, is killed, or cannot be reached, and comes back: nobody can take its place meanwhile. Each test has the broker
//! to itself, and leaves it running.

use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kafka_cluster::KafkaCluster;
use kafka_cluster::proxy::{Proxy, Reach};

mod away;
mod restarts;
#[path = "../../../parsley-embedded/tests/support/told.rs"]
mod telling;
#[path = "../host/world.rs"]
#[allow(dead_code, reason = "each test binary uses a part")]
mod world;

/// One broker behind a proxy.
fn brokers() -> kafka_cluster::ClusterConfig {
    kafka_cluster::ClusterConfig {
        proxied: true,
        ..kafka_cluster::ClusterConfig::default()
    }
}

/// The broker, for one test. When it ends the broker runs again, and can be reached.
struct Only(#[allow(dead_code, reason = "it is held")] MutexGuard<'static, ()>);

impl Only {
    fn take() -> Self {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let turn = ONE_AT_A_TIME.lock();
        Self(turn.unwrap_or_else(PoisonError::into_inner))
    }

    fn reach(&self, reach: Reach) {
        self.at().set_reach(1, reach);
    }

    fn at(&self) -> &Proxy {
        self.proxy().expect("it is proxied")
    }
}

impl Deref for Only {
    type Target = KafkaCluster;

    fn deref(&self) -> &KafkaCluster {
        world::broker()
    }
}

impl Drop for Only {
    fn drop(&mut self) {
        self.reach(Reach::Open);
        if let Err(error) = self.start_broker(1) {
            eprintln!("the broker does not come back: {error}");
        }
    }
}
