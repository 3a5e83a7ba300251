//! An application as a file describes it: what of it a cluster can be asked about.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use parsley_stage::{App, BuildError, Stage, StageBuilder, Topic, codec};
use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, KafkaConfig};

/// An application without its logic: names of stages and topics. What `parsley probe` is given.
///
/// ```
/// use parsley_kafka::Description;
/// use parsley_stage::{App, Stage, Topic, codec};
///
/// let orders = Topic::new("orders", codec::string(), codec::u64());
/// let totals = Topic::new("totals", codec::string(), codec::u64());
/// let total = Stage::stateful("total", codec::string(), codec::u64())
///     .sink(&totals)
///     .on(&orders, |_total, _order, _out| Ok(()))
///     .build()?;
/// let app = App::named("shop").stage(total).build()?;
///
/// // What a service prints when it is asked to describe itself.
/// let text = Description::of(&app).to_string();
/// assert_eq!(text, r#"application = "shop"
///
/// [[stage]]
/// name = "total"
/// stateful = true
/// inputs = ["orders"]
/// sinks = ["totals"]
/// "#);
/// assert_eq!(Description::from_toml(&text)?, Description::of(&app));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Description {
    /// The application's name.
    pub application: String,
    /// The topic of the account of deliveries, if one is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Settings of the host, as in [`KafkaConfig::from_toml`], without `brokers`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub host: BTreeMap<String, toml::Value>,
    /// Its stages, in the order declared.
    #[serde(rename = "stage")]
    pub stages: Vec<StageDescription>,
}

/// A stage without its logic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct StageDescription {
    /// Its name.
    pub name: String,
    /// Whether it keeps state by key.
    #[serde(default)]
    pub stateful: bool,
    /// At which interval it ticks, if it does, in milliseconds. Its tick topic is neither among the inputs nor among the sinks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticks_ms: Option<u64>,
    /// The topics that it consumes.
    pub inputs: Vec<String>,
    /// The topics that it may emit to.
    #[serde(default)]
    pub sinks: Vec<String>,
}

/// A text describes no application.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DescriptionError {
    /// It is no TOML, or has a key that is missing, unknown, or of another type.
    #[error("{reason}")]
    Toml {
        /// What was found, where, and what is expected.
        reason: String,
    },
    /// No application can be declared so.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The settings of the host name brokers.
    #[error(
        "host: brokers is no part of a description: they are named where the cluster is probed"
    )]
    Brokers,
    /// The settings of the host are none.
    #[error("host: {0}")]
    Host(ConfigError),
}

impl Description {
    /// Describes an application.
    pub fn of(app: &App) -> Self {
        let stages = app.stages().iter().map(|stage| {
            let is_own = |topic: &&str| Some(*topic) != stage.tick_topic();
            let ticks = stage.tick_interval();
            StageDescription {
                name: stage.name().to_owned(),
                stateful: stage.is_stateful(),
                ticks_ms: ticks.map(|every| u64::try_from(every.as_millis()).unwrap_or(u64::MAX)),
                inputs: stage.inputs().filter(is_own).map(str::to_owned).collect(),
                sinks: stage.sinks().filter(is_own).map(str::to_owned).collect(),
            }
        });
        Self {
            application: app.name().to_owned(),
            account: None,
            host: BTreeMap::new(),
            stages: stages.collect(),
        }
    }

    /// Reads a description.
    ///
    /// # Errors
    ///
    /// When it is no TOML, or has a key that is missing, unknown, or of another type. Whether there can be such an application shows in
    /// [`Description::app`].
    pub fn from_toml(text: &str) -> Result<Self, DescriptionError> {
        toml::from_str(text).map_err(|error| DescriptionError::Toml {
            reason: error.to_string().trim_end().to_owned(),
        })
    }

    /// An application of this description, whose logic does nothing: good for probing, and for nothing else.
    ///
    /// # Errors
    ///
    /// When there can be no such application.
    pub fn app(&self) -> Result<App, DescriptionError> {
        let mut app = App::named(self.application.as_str());
        for stage in &self.stages {
            app = app.stage(stage.build()?);
        }
        Ok(app.build()?)
    }

    /// The configuration of a host on these brokers, unchecked.
    ///
    /// # Errors
    ///
    /// When a setting is unknown or of another type, or names brokers as well.
    pub fn config(&self, brokers: &str) -> Result<KafkaConfig, DescriptionError> {
        if self.host.contains_key("brokers") {
            return Err(DescriptionError::Brokers);
        }
        let mut settings = self.host.clone();
        settings.insert("brokers".to_owned(), brokers.into());
        settings
            .entry("state_dir".to_owned())
            .or_insert_with(|| ".".into());
        let settings = settings.into_iter().collect();
        KafkaConfig::from_table(settings).map_err(DescriptionError::Host)
    }
}

impl StageDescription {
    fn build(&self) -> Result<Stage, BuildError> {
        let inputs = self.inputs.iter().map(|name| topic(name));
        if self.stateful {
            let stage = Stage::stateful(self.name.as_str(), codec::bytes(), codec::u64());
            let mut stage = self.common(stage);
            for input in inputs {
                stage = stage.on(&input, |_, _, _| Ok(()));
            }
            stage.build()
        } else {
            let mut stage = self.common(Stage::stateless(self.name.as_str()));
            for input in inputs {
                stage = stage.on(&input, |_, _| Ok(()));
            }
            stage.build()
        }
    }

    fn common<S>(&self, mut stage: StageBuilder<S>) -> StageBuilder<S> {
        for sink in self.sinks.iter().map(|name| topic(name)) {
            stage = stage.sink(&sink);
        }
        if let Some(ticks_ms) = self.ticks_ms {
            let every = Duration::from_millis(ticks_ms);
            stage = stage.ticks(every, codec::u64(), |_, _, _| Ok(()));
        }
        stage
    }
}

fn topic(name: &str) -> Topic<Bytes, Bytes> {
    Topic::new(name, codec::bytes(), codec::bytes())
}

/// As [`Description::from_toml`] reads it.
impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = toml::to_string(self).map_err(|_| fmt::Error)?;
        f.write_str(&text)
    }
}
