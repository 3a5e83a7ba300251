//! Applications: stages that are started together.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::build_error::{BuildError, Named, check_name};
use crate::stage::{Stage, check_codecs};
use crate::ticks;
use crate::topic::DeclaredTopic;

/// A declared application. Cheap to clone; a host starts it.
#[derive(Clone, Debug)]
pub struct App(Arc<DeclaredApp>);

#[derive(Debug)]
struct DeclaredApp {
    name: Arc<str>,
    stages: Vec<Stage>,
}

impl App {
    /// Begins an application of this name. The name is part of every task's identity: under another name, all starts afresh.
    pub fn named(name: impl Into<Arc<str>>) -> AppBuilder {
        AppBuilder {
            name: name.into(),
            stages: Vec::new(),
        }
    }

    /// The application's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The stages, in the order declared.
    pub fn stages(&self) -> &[Stage] {
        &self.0.stages
    }

    /// The stage of this name.
    pub fn stage(&self, name: &str) -> Option<&Stage> {
        self.0.stages.iter().find(|stage| stage.name() == name)
    }

    /// The topics that some stage consumes, in name order, each once.
    pub fn inputs(&self) -> BTreeSet<&str> {
        self.0.stages.iter().flat_map(Stage::inputs).collect()
    }

    /// The topics that some stage may emit to, in name order, each once.
    pub fn sinks(&self) -> BTreeSet<&str> {
        self.0.stages.iter().flat_map(Stage::sinks).collect()
    }

    /// Every declared topic, in name order, each once.
    pub fn topics(&self) -> BTreeSet<&str> {
        &self.inputs() | &self.sinks()
    }

    /// The consumer group of a stage: `<application>-<stage>` (decision S7).
    pub fn consumer_group(&self, stage: &Stage) -> String {
        consumer_group(self.name(), stage.name())
    }
}

pub(crate) fn consumer_group(application: &str, stage: &str) -> String {
    format!("{application}-{stage}")
}

/// What the names of the topics that a host creates for a stage end in, after the stage's consumer group.
const INTERNAL_SUFFIXES: [&str; 3] = ["-state-changelog", "-fold-changelog", ticks::TOPIC_SUFFIX];

/// An application being declared: [`App::named`] begins one, [`AppBuilder::build`] ends it.
#[must_use = "an application exists once it is built"]
#[derive(Clone, Debug)]
pub struct AppBuilder {
    name: Arc<str>,
    stages: Vec<Stage>,
}

impl AppBuilder {
    /// Adds a stage.
    pub fn stage(mut self, stage: Stage) -> Self {
        self.stages.push(stage);
        self
    }

    /// Ends the declaration.
    ///
    /// # Errors
    ///
    /// [`BuildError`] with the first fault found.
    pub fn build(self) -> Result<App, BuildError> {
        let Self { name, stages } = self;
        let stages: Vec<Stage> = stages.into_iter().map(Stage::in_no_application).collect();
        check_name(Named::Application, &name)?;
        if stages.is_empty() {
            return Err(BuildError::NoStage {
                application: name.to_string(),
            });
        }
        let mut stage_names = BTreeSet::new();
        if let Some(stage) = stages
            .iter()
            .find(|stage| !stage_names.insert(stage.name()))
        {
            return Err(BuildError::DuplicateStage {
                application: name.to_string(),
                stage: stage.name().to_owned(),
            });
        }
        check_codecs(stages.iter().flat_map(declared_topics))?;
        for stage in &stages {
            let group = consumer_group(&name, stage.name());
            for suffix in INTERNAL_SUFFIXES {
                let internal = format!("{group}{suffix}");
                check_name(Named::Internal, &internal)?;
                if stages
                    .iter()
                    .flat_map(declared_topics)
                    .any(|topic| *topic.name == *internal)
                {
                    return Err(BuildError::InternalTopic {
                        stage: stage.name().to_owned(),
                        topic: internal,
                    });
                }
            }
        }
        let of_application = |stage: Stage| {
            let group = consumer_group(&name, stage.name());
            stage.in_group(&group)
        };
        let stages = stages.into_iter().map(of_application).collect();
        Ok(App(Arc::new(DeclaredApp { name, stages })))
    }
}

fn declared_topics(stage: &Stage) -> impl Iterator<Item = &Arc<DeclaredTopic>> {
    stage
        .declared_inputs()
        .iter()
        .map(|input| &input.topic)
        .chain(stage.declared_sinks())
}
