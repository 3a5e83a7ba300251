//! Members that are processes of their own, so that they can be stopped and killed.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kafka_cluster::proxy::{ApiKey, Proxy, Requests};
use parsley_kafka::{KafkaConfig, KafkaHost, KafkaRunning};
use parsley_stage::{App, Message, Outbox, Stage, Topic, codec};
use rdkafka::consumer::{BaseConsumer, Consumer};

use crate::world::*;

/// What the child process is to run, as which client, and where.
const APP: &str = "PARSLEY_TEST_APP";
const LOGIC: &str = "PARSLEY_TEST_LOGIC";
const DIR: &str = "PARSLEY_TEST_STATE_DIR";
/// How long it keeps a step open, in milliseconds, and a transaction; how many deliveries a step has.
const INTERVAL: &str = "PARSLEY_TEST_COMMIT_INTERVAL_MS";
const TRANSACTION: &str = "PARSLEY_TEST_TRANSACTION_TIMEOUT_MS";
const DELIVERIES: &str = "PARSLEY_TEST_STEP_DELIVERIES";
/// How long its clients wait for an answer, in milliseconds, if that is set.
const ANSWER: &str = "PARSLEY_TEST_SOCKET_TIMEOUT_MS";

/// Longer than any test takes.
pub const NEVER: Duration = Duration::from_secs(600);

/// The child process of the tests: a member that runs until it is killed. Alone it does nothing.
#[test]
fn child_that_runs_until_it_is_killed() {
    let Ok(app) = std::env::var(APP) else { return };
    let var = |name| std::env::var(name).unwrap();
    let time = |name| Duration::from_millis(var(name).parse().unwrap());
    let mut config = member(var(DIR), &child_id(&app))
        .commit_interval(time(INTERVAL))
        .transaction_timeout(time(TRANSACTION))
        // The group moves on soon.
        .property("session.timeout.ms", "2000");
    if let Ok(answer) = std::env::var(ANSWER) {
        config = config.property("socket.timeout.ms", answer);
    }
    config.max_step_deliveries = var(DELIVERIES).parse().unwrap();
    let _running = match &*var(LOGIC) {
        "copy" => start(config, &copying(&app)),
        "count" => start_counting(config, &app),
        other => panic!("{other}"),
    };
    loop {
        std::thread::park();
    }
}

pub fn child_id(app: &str) -> String {
    format!("{app}-child")
}

/// A host's configuration under a `client.id` of its own.
pub fn member(dir: impl AsRef<Path>, client_id: &str) -> KafkaConfig {
    config(dir).property("client.id", client_id)
}

/// How a child is to run.
#[derive(Clone, Copy)]
pub struct Plan {
    pub logic: &'static str,
    pub interval: Duration,
    pub transaction: Duration,
    pub step_deliveries: usize,
    /// How long its clients wait for an answer, if that is not to be as long as they do.
    pub answer: Option<Duration>,
}

impl Plan {
    /// Steps that end soon, and a transaction that the cluster does not give up.
    pub fn of(logic: &'static str) -> Self {
        Self {
            logic,
            interval: Duration::from_millis(20),
            transaction: NEVER,
            step_deliveries: 20_000,
            answer: None,
        }
    }
}

/// A child process, ended whatever becomes of the test.
pub struct Member {
    app: String,
    logic: &'static str,
    process: Child,
    _dir: tempfile::TempDir,
}

impl Member {
    pub fn start(app: &str, interval: Duration, transaction: Duration) -> Self {
        Self::planned(
            app,
            Plan {
                interval,
                transaction,
                ..Plan::of("copy")
            },
        )
    }

    pub fn planned(app: &str, plan: Plan) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let process = Command::new(std::env::current_exe().unwrap())
            .args(["--nocapture", "--exact"])
            .arg("child::child_that_runs_until_it_is_killed")
            .env(BROKERS, bootstrap())
            .env(APP, app)
            .env(LOGIC, plan.logic)
            .env(DIR, dir.path())
            .env(INTERVAL, plan.interval.as_millis().to_string())
            .env(TRANSACTION, plan.transaction.as_millis().to_string())
            .env(DELIVERIES, plan.step_deliveries.to_string())
            .envs(
                plan.answer
                    .map(|time| (ANSWER, time.as_millis().to_string())),
            )
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            app: app.to_owned(),
            logic: plan.logic,
            process,
            _dir: dir,
        }
    }

    /// Waits until the opening of its task is committed.
    pub fn wait_until_open(&mut self, input: &str) {
        let group = format!("{}-{}", self.app, self.logic);
        let until = Instant::now() + BOUND;
        while committed(&group, input, 0).is_none() {
            assert!(self.process.try_wait().unwrap().is_none(), "it has ended");
            assert!(Instant::now() < until, "it has not opened");
            // Each question takes a client of its own.
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    pub fn signal(&self, signal: &str) {
        let signalled = Command::new("kill")
            .args([signal, &self.process.id().to_string()])
            .status();
        assert!(signalled.unwrap().success());
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub fn proxy() -> &'static Proxy {
    broker().proxy().expect("it is proxied")
}

/// Requests of the transactions of an application's stage that come of one client.
pub fn of_stage(api: ApiKey, group: &str, client_id: &str) -> Requests {
    Requests::of(api)
        .of_client(client_id)
        .of_transactions(&format!("{group}-"))
}

/// The same, of what [`copying`] makes.
pub fn of_transactions(api: ApiKey, app: &str, client_id: &str) -> Requests {
    of_stage(api, &format!("{app}-copy"), client_id)
}

/// Every value that stands in a topic, whether or not its transaction is committed.
pub fn written(topic: &str) -> Vec<String> {
    let records = read_as("read_uncommitted", topic);
    records.iter().map(|record| text(&record.value)).collect()
}

/// The topics of [`start_counting`].
pub struct Counting {
    pub words: String,
    pub waiting: String,
    pub causes: String,
    pub counts: String,
    pub account: String,
}

impl Counting {
    pub fn of(name: &str) -> Self {
        let topic = |part: &str| format!("{name}-{part}");
        Self {
            words: topic("words"),
            waiting: topic("waiting"),
            causes: topic("causes"),
            counts: topic("counts"),
            account: topic("account"),
        }
    }

    pub fn create(name: &str) -> Self {
        let topics = Self::of(name);
        for topic in [
            &topics.words,
            &topics.waiting,
            &topics.causes,
            &topics.counts,
            &topics.account,
        ] {
            create_topic(topic, 1);
        }
        topics
    }

    /// Appends words that wait for nothing; of the value "quiet" they are counted and nothing is sent.
    pub fn say(&self, words: &[(&str, &str)]) {
        Foreign::plain().append(&self.words, To::Key, words);
    }

    /// The same, by a producer of the test's.
    pub fn say_in(&self, foreign: &Foreign, words: &[(&str, &str)]) {
        foreign.append(&self.words, To::Key, words);
    }

    /// Appends a word that waits for the record at an offset of the causes.
    pub fn say_behind(&self, word: &str, cause: i64) {
        let headers = stamp(&[(channel(&self.causes, 0), cause)], cause);
        Foreign::plain().append_with(&self.waiting, To::Key, (word, "held"), &headers);
    }

    /// How many records there are, in whatever transaction.
    pub fn written(&self) -> usize {
        read_as("read_uncommitted", &self.counts).len()
    }
}

/// An application of one stage, `count`, which counts words in its state and sends each count on. Words come on two ways, as a word that waits holds all
/// that is behind it; what is read of the causes is all that words wait for.
pub fn counting(name: &str) -> App {
    let topics = Counting::of(name);
    let output = Topic::new(&*topics.counts, codec::string(), codec::u64());
    let count = || {
        let output = output.clone();
        move |seen: &mut u64, word: Message<String, String>, out: &mut Outbox| {
            *seen += 1;
            match &*word.value {
                "quiet" => Ok(()),
                _ => out.send(&output, &word.key, seen),
            }
        }
    };
    let count = Stage::stateful("count", codec::string(), codec::u64())
        .sink(&output)
        .on(&text_topic(&topics.words), count())
        .on(&text_topic(&topics.waiting), count())
        .on(&text_topic(&topics.causes), |_, _, _| Ok(()))
        .build()
        .unwrap();
    App::named(name).stage(count).build().unwrap()
}

/// Runs it, with an account of its deliveries.
pub fn start_counting(config: KafkaConfig, name: &str) -> KafkaRunning {
    let host = KafkaHost::new(config).unwrap();
    let host = host.audit(Counting::of(name).account);
    host.start(counting(name)).unwrap()
}

/// Whether a group has no member.
pub fn is_empty(group: &str) -> bool {
    let asker: BaseConsumer = client().create().unwrap();
    let groups = asker.fetch_group_list(Some(group), BOUND).unwrap();
    groups
        .groups()
        .iter()
        .all(|group| group.members().is_empty())
}
