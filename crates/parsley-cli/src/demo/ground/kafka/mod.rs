//! The brokers of a cluster. Everything is kept there, for all runs, and other processes may run the application beside this one.

mod cluster;
mod failure;
mod reader;
mod running;
mod topics;
mod writer;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parsley::App;
use parsley::kafka::{KafkaConfig, KafkaHost};
use tempfile::TempDir;

pub use failure::ClusterFailure;

use super::{Application, Bell, Ground, LogReader, LogWriter};
use crate::demo::Options;
use crate::demo::error::DemoError;
use crate::demo::feed::Pace;
use crate::demo::retention::Retention;
use crate::demo::topology::{AUDIT, COMMANDS, RECONCILER};
use crate::demo::watch::spawn;
use crate::input::Input;
use cluster::Cluster;
use reader::TopicOfDemo;
use running::OnBrokers;
use writer::Portions;

/// How late the adversary brings commands to the reconciler: later than a view comes, on most machines.
const LATE: Duration = Duration::from_millis(800);

/// How often it is looked whether deliveries of other processes have come, and signals.
const LOOK: Duration = Duration::from_millis(100);

/// How long a stop waits for a cluster that does not answer. What is not committed by then is done again by the next run.
const STOP: Duration = Duration::from_secs(10);

/// How the demo's clients are set up unless the command line says otherwise: what a killed process had is given to another soon.
const PROPERTIES: [(&str, &str); 3] = [
    ("session.timeout.ms", "6000"),
    ("heartbeat.interval.ms", "500"),
    ("fetch.wait.max.ms", "50"),
];

/// A cluster that has the demo's topics.
pub struct Kafka {
    cluster: Arc<Cluster>,
    host: KafkaHost,
    /// The identities of its topics, by name.
    topics: BTreeMap<String, String>,
    /// Where tasks keep copies of their state while they run; the cluster has it all.
    _state: TempDir,
}

impl Kafka {
    /// A host for a cluster, once that answers. The bell rings when a delivery may have been committed, here or elsewhere.
    pub fn open(brokers: &str, options: &Options, bell: &Bell) -> Result<Self, DemoError> {
        let cluster = Arc::new(Cluster::new(brokers, options)?);
        let state = tempfile::Builder::new()
            .prefix("parsley-demo-")
            .tempdir()
            .map_err(ClusterFailure::Directory)?;
        let mut config = KafkaConfig::new(brokers, state.path());
        config.stop_timeout = STOP;
        config.properties = cluster.properties.clone();
        let rings = bell.clone();
        let host = KafkaHost::new(config)
            .map_err(ClusterFailure::Config)?
            .audit(AUDIT)
            .delay(RECONCILER, COMMANDS, LATE)
            .withhold(RECONCILER, COMMANDS, options.withheld())
            .on_delivery(move |_| {
                // Nobody listens any more when the demo ends early.
                rings.ring();
            });
        let topics = topics::prepare(&cluster, options.create_topics)?;
        let (bell, asked) = (bell.clone(), Arc::clone(&cluster));
        spawn("look", move || {
            loop {
                if let Err(interrupted) = asked.interrupted() {
                    bell.broken(interrupted.into());
                    return;
                }
                if !bell.ring() {
                    return;
                }
                thread::sleep(LOOK);
            }
        })?;
        Ok(Self {
            cluster,
            host,
            topics,
            _state: state,
        })
    }
}

impl Ground for Kafka {
    fn is_durable(&self) -> bool {
        true
    }

    fn place(&self) -> &'static str {
        "what these topics were"
    }

    fn identities(&self) -> BTreeMap<String, String> {
        self.topics.clone()
    }

    /// A command is under way for as long as the adversary keeps it: more at once than in a process.
    fn pace(&self, input: Option<&Input>) -> Pace {
        match input {
            None => Pace {
                under_way: 250,
                portion: 25,
            },
            Some(_) => Pace {
                under_way: 2000,
                portion: 200,
            },
        }
    }

    fn reader(&self, topic: &'static str) -> Result<Box<dyn LogReader>, DemoError> {
        Ok(Box::new(TopicOfDemo::open(&self.cluster, topic)?))
    }

    fn writer(&self) -> Result<Box<dyn LogWriter>, DemoError> {
        Ok(Box::new(Portions::begin(&self.cluster)?))
    }

    fn retention(&self) -> Option<Retention> {
        None
    }

    fn start(&self, app: App) -> Result<Arc<dyn Application>, DemoError> {
        let running = self.host.start(&app).map_err(ClusterFailure::Start)?;
        Ok(Arc::new(OnBrokers::new(&self.cluster, &app, running)?))
    }
}
