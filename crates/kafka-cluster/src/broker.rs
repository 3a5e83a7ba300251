//! One broker process.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Runs the program behind its first argument in its own place, with a watchdog beside it. Standard input is the lifeline: a line on
/// it says that the program has ended and was waited for, and the watchdog goes. An end without a line says that whoever held the
/// other end died; the watchdog then ends the program and removes the folder named by the first argument.
const LIFELINE: &str = r#"
folder=$1
shift
exec 3<&0 </dev/null
(
    if read -r line <&3; then exit 0; fi
    kill -TERM $$
    tries=0
    while kill -0 $$ && [ "$tries" -lt 50 ]; do sleep 0.1; tries=$((tries + 1)); done
    kill -KILL $$
    rm -rf -- "$folder"
    rmdir -- "$(dirname -- "$folder")"
) >/dev/null 2>&1 &
exec 3<&-
exec "$@"
"#;

/// The file of a broker's properties in its folder.
const PROPERTIES: &str = "server.properties";

/// How long a broker may take to end by itself before it is killed.
const STOP_BOUND: Duration = Duration::from_secs(5);

/// How often a process is asked whether it has ended.
const WAIT_STEP: Duration = Duration::from_millis(20);

/// How many of the broker's last log lines an error shows.
const LOG_LINES_SHOWN: usize = 40;

/// What a broker is started with.
pub(crate) struct BrokerSpec<'a> {
    /// The `java` program.
    pub java: &'a Path,
    /// The folder of the jars.
    pub jars: &'a Path,
    /// The broker's own folder, existing and empty.
    pub folder: PathBuf,
    /// Heap of the virtual machine, in MiB.
    pub heap_mb: u32,
    /// The broker's properties.
    pub properties: Vec<(String, String)>,
    /// The cluster that it belongs to.
    pub cluster_id: &'a str,
}

/// A broker with a storage of its own, and its process while it runs.
#[derive(Debug)]
pub(crate) struct Broker {
    java: PathBuf,
    virtual_machine: Vec<String>,
    folder: PathBuf,
    running: Option<Running>,
}

impl Broker {
    /// Formats the broker's storage and starts it. It does not answer yet.
    pub(crate) fn start(spec: BrokerSpec<'_>) -> io::Result<Result<Self, FormatFailed>> {
        let properties = spec.folder.join(PROPERTIES);
        fs::write(&properties, lines(&spec.properties))?;
        let log4j = spec.folder.join("log4j.properties");
        fs::write(&log4j, LOG4J)?;
        let virtual_machine = [
            format!("-Xmx{}m", spec.heap_mb),
            "-XX:+UseSerialGC".to_owned(),
            "-XX:TieredStopAtLevel=1".to_owned(),
            format!("-Dlog4j.configuration=file:{}", log4j.display()),
            "-cp".to_owned(),
            spec.jars.join("*").display().to_string(),
        ];

        let formatted = Command::new(spec.java)
            .args(&virtual_machine)
            .args([
                "kafka.tools.StorageTool",
                "format",
                "--cluster-id",
                spec.cluster_id,
                "--config",
            ])
            .arg(&properties)
            .stdin(Stdio::null())
            .output()?;
        if !formatted.status.success() {
            let mut output = String::from_utf8_lossy(&formatted.stdout).into_owned();
            output.push_str(&String::from_utf8_lossy(&formatted.stderr));
            return Ok(Err(FormatFailed {
                status: formatted.status,
                output,
            }));
        }

        let mut broker = Self {
            java: spec.java.to_owned(),
            virtual_machine: virtual_machine.into(),
            folder: spec.folder,
            running: None,
        };
        broker.run()?;
        Ok(Ok(broker))
    }

    /// Runs the broker's process, if it does not run, on what its storage has. It does not answer yet.
    pub(crate) fn run(&mut self) -> io::Result<()> {
        if self.running.is_some() {
            return Ok(());
        }
        let out = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log())?;
        let mut process = Command::new("sh")
            .args(["-c", LIFELINE, "broker"])
            .arg(&self.folder)
            .arg(&self.java)
            .args(&self.virtual_machine)
            .arg("kafka.Kafka")
            .arg(self.folder.join(PROPERTIES))
            .stdin(Stdio::piped())
            .stdout(out.try_clone()?)
            .stderr(out)
            // A process group of its own: Ctrl-C in a terminal ends the starter, and the starter or the watchdog ends the broker.
            .process_group(0)
            .spawn()?;
        let lifeline = process
            .stdin
            .take()
            .expect("standard input was asked for as a pipe");
        self.running = Some(Running { process, lifeline });
        Ok(())
    }

    /// How the broker ended by itself, if it has.
    pub(crate) fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        match &mut self.running {
            Some(running) => running.process.try_wait(),
            None => Ok(None),
        }
    }

    /// The id of the broker's process, while it runs.
    pub(crate) fn process_id(&self) -> Option<u32> {
        self.running.as_ref().map(|running| running.process.id())
    }

    /// Asks the broker to end, without waiting for it.
    pub(crate) fn ask_to_end(&mut self) {
        if let Some(running) = &mut self.running {
            running.signal(Signal::TERM);
        }
    }

    /// Has the broker end: by itself within a bound, or at once.
    pub(crate) fn end(&mut self, how: End) {
        let Some(mut running) = self.running.take() else {
            return;
        };
        match how {
            End::Within(bound) => running.end(bound),
            End::Killed => running.signal(Signal::KILL),
        }
    }

    fn log(&self) -> PathBuf {
        self.folder.join("broker.log")
    }

    /// The last lines of the broker's log.
    pub(crate) fn log_tail(&self) -> String {
        match fs::read(self.log()) {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                let all: Vec<&str> = text.lines().collect();
                all[all.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
            }
            Err(error) => format!("(no log: {error})"),
        }
    }
}

/// How a broker is to end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    /// It hands over what it leads, and is killed if that takes longer.
    Within(Duration),
    /// It learns of nothing.
    Killed,
}

/// A running process, ended on drop.
#[derive(Debug)]
struct Running {
    process: Child,
    lifeline: ChildStdin,
}

impl Running {
    fn end(&mut self, bound: Duration) {
        self.signal(Signal::TERM);
        let deadline = Instant::now() + bound;
        while matches!(self.process.try_wait(), Ok(None)) {
            if Instant::now() >= deadline {
                self.signal(Signal::KILL);
                break;
            }
            std::thread::sleep(WAIT_STEP);
        }
    }

    /// Signals the process while it has not been waited for, so that its id cannot have passed to another.
    fn signal(&mut self, signal: Signal) {
        if matches!(self.process.try_wait(), Ok(None)) {
            let pid = i32::try_from(self.process.id())
                .ok()
                .and_then(Pid::from_raw);
            // A failure says that the process ended in between, which is what was wanted.
            let _ = pid.map(|pid| kill_process(pid, signal));
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.end(End::Within(STOP_BOUND));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.process.try_wait(), Ok(None)) {
            self.signal(Signal::KILL);
        }
        // Both fail only when there is nothing left to wait for or to tell.
        let _ = self.process.wait();
        let _ = self.lifeline.write_all(b"ended\n");
    }
}

/// The storage tool's complaint.
#[derive(Debug)]
pub(crate) struct FormatFailed {
    pub status: ExitStatus,
    pub output: String,
}

/// The broker's logging: everything from level INFO on to standard output.
const LOG4J: &str = "\
log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{ISO8601} %p %m (%c)%n
";

/// The properties as a file's text.
fn lines(properties: &[(String, String)]) -> String {
    properties
        .iter()
        .map(|(key, value)| format!("{key}={value}\n"))
        .collect()
}
