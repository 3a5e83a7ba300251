//! `parsley demo`: a topology that would see effects before their causes, and does not.

mod audit;
mod balances;
mod builtin;
pub(crate) mod command;
mod error;
mod feed;
mod gate;
mod ground;
mod holds;
mod judge;
mod mirror;
mod progress;
mod retention;
mod screen;
pub(crate) mod status;
mod taken;
pub(crate) mod topology;
mod trace;
mod watch;

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::time::Duration;

pub use error::DemoError;

use audit::Auditor;
use feed::{Feeder, Source};
use gate::Gate;
use ground::Bell;
use progress::Progress;
use same_file::Handle;
use screen::Screen;
use status::{StatusAddress, StatusPage};
use trace::{Occupied, TraceFile};
use watch::{AllFed, Watch, look_out_for_failures, look_out_for_reader, spawn};

use crate::brokers::Brokers;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::input::Input;
use crate::property::Given;

/// How many observations may queue up.
const QUEUE: usize = 1024;

/// What the one who watches is told.
enum Seen {
    /// The account of deliveries has grown.
    News,
    /// So many lines of this run are taken for good.
    Taken(u64),
    /// All is fed.
    Fed(Box<AllFed>),
    /// There is nothing to read for any task.
    AtRest,
    /// A task does not work as it should.
    Broken(Box<DemoError>),
    /// Nobody reads the output any more.
    Unread(io::Error),
}

/// What the demo is to do.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Commands to run, one JSON object a line: {"account":"a","deposit":5} or {"account":"a","withdraw":7}; `-` reads standard
    /// input. Without it, 1,000 built-in ones
    #[arg(long, value_name = "FILE")]
    pub input: Option<Input>,
    /// Print one JSON object a line, the summary last
    #[arg(long)]
    pub json: bool,
    /// Write every delivery at every stage to a file of its own, one JSON object a line
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Keep everything in this directory, and go on where an earlier run with it ended, however it did. All that is shown is of all runs
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Run on the brokers of a cluster (HOST:PORT, several separated by commas), with all that earlier runs left there
    #[arg(long, value_name = "BROKERS", conflicts_with = "data")]
    pub brokers: Option<Brokers>,
    /// Make the demo's topics that the cluster does not have
    #[arg(long, requires = "brokers")]
    pub create_topics: bool,
    /// A property of librdkafka, for security and the like; may be given several times
    #[arg(
        long = "property",
        value_name = "KEY=VALUE",
        allow_hyphen_values = true,
        requires = "brokers"
    )]
    pub properties: Vec<Given>,
    /// Show on a page what the application is doing, at PORT of this machine or at IP:PORT; port 0 takes one that is free. Standard error says where
    #[arg(long, value_name = "ADDRESS")]
    pub status: Option<StatusAddress>,
    /// Keep commands from the reconciler for so many seconds, at most 3600: what comes of them is held until then
    #[arg(long, value_name = "SECONDS", default_value_t = 0, hide_default_value = true,
          value_parser = clap::value_parser!(u64).range(..=3600))]
    pub withhold: u64,
}

impl Options {
    /// For how long commands are kept from the reconciler.
    fn withheld(&self) -> Duration {
        Duration::from_secs(self.withhold)
    }
}

/// Runs the demo: over the commands of an input, or the built-in ones.
pub fn run(options: &Options, out: impl Write) -> Result<Exit, Failure> {
    let input = options.input.as_ref();
    let mut screen = if options.json {
        Screen::json(out)
    } else {
        Screen::table(out)
    };
    // What cannot be opened is said before anything is shown or written to.
    let opened = input.map(Input::open_with_identity).transpose()?;
    let (reader, identity) = opened.unzip();
    let (seen, sight) = mpsc::sync_channel(QUEUE);
    let bell = Bell::new(seen.clone());
    let ground = ground::open(options, &bell)?;
    let ground = &*ground;
    // Before it is looked what was taken: who took lines until then takes none any more.
    let writer = ground.writer()?;
    let source = Source::resume(ground, input.cloned(), reader)?;
    let create = |path| {
        let in_use = in_use(input, identity.flatten());
        TraceFile::create(path, &in_use, options.data.as_deref())
    };
    let trace = options.trace.as_deref().map(create).transpose()?;

    let pace = ground.pace(input);
    let gate = Arc::new(Gate::new(pace.under_way, source.commands()));
    let mut auditor = Auditor::new(ground, Arc::clone(&gate), trace)?;
    screen.begin().map_err(Failure::Write)?;

    let progress = input.map_or(Progress::none(), Progress::over);
    let app = topology::app().map_err(DemoError::from)?;
    let metrics = options.status.map(|_| StatusPage::record()).transpose()?;
    let running = ground.start(app)?;
    let page = options.status.zip(metrics);
    let page = page.map(|(address, metrics)| StatusPage::serve(address, metrics, &running));
    let page = page.transpose()?;
    look_out_for_failures(&running, &seen)?;
    look_out_for_reader(&seen)?;
    let confirm = (options.json && ground.is_durable()).then(|| seen.clone());
    let feeder = Feeder::new(
        writer,
        Arc::clone(&gate),
        pace,
        progress.clone(),
        source,
        confirm,
    );
    feed(feeder, seen.clone())?;
    let watch = Watch {
        running: &running,
        bell: &bell,
        seen,
        sight,
        gate: &gate,
        withheld: options.withheld(),
    };
    let watched = watch.all(&mut auditor, &mut screen);
    gate.close();
    progress.end();
    if let Some(page) = page {
        page.end();
    }
    let stopped = running.stop();
    let (fed, failed) = watched?;
    stopped?;
    // What came beyond all that was to come is seen as well.
    auditor.read_to_end(|held| screen.held(held).map_err(Failure::Write))?;

    let summary = auditor.end(&fed)?;
    if let Some(failure) = failed {
        // Nobody is to take what came of a part of the input for what comes of all of it.
        screen.flush().map_err(Failure::Write)?;
        return Err(failure);
    }
    screen.end(&summary).map_err(Failure::Write)?;
    Ok(if summary.is_good() {
        Exit::Done
    } else {
        Exit::Failed
    })
}

/// The files that the demo reads from and prints to.
fn in_use(input: Option<&Input>, identity: Option<Handle>) -> Vec<Occupied> {
    let input = input.zip(identity).map(|(input, handle)| Occupied {
        name: format!("the input, {input}"),
        handle,
    });
    let output = Handle::stdout().ok().map(|handle| Occupied {
        name: "standard output".to_owned(),
        handle,
    });
    input.into_iter().chain(output).collect()
}

fn feed(feeder: Feeder, seen: SyncSender<Seen>) -> Result<(), DemoError> {
    spawn("feed", move || {
        let fed = Box::new(feeder.feed());
        // Nobody looks on any more when the demo ends early.
        drop(seen.send(Seen::Fed(fed)));
    })
}

#[cfg(test)]
mod tests;
