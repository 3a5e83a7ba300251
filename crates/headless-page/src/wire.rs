//! Chromium and the pipes to it: messages are JSON, each ends with a zero byte.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// How long an answer may take. It guards against hanging.
const BOUND: Duration = Duration::from_secs(60);

/// Who starts Chromium with its pipes as descriptors 3 and 4, where it looks for them, and away from what it prints.
const START: &str = r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null 2>"$CHROMIUM_LOG""#;

/// What Chromium is started with. Without a sandbox, as tests may be run by root; without what it asks of the network by itself.
const ARGUMENTS: [&str; 12] = [
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--no-proxy-server",
    "--hide-scrollbars",
];

/// A page could not be opened or asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BrowserError {
    /// Chromium cannot be started.
    #[error("chromium cannot be started: {0}")]
    Start(#[source] io::Error),
    /// Chromium is gone, or was never there.
    #[error("chromium is gone (install the package `chromium`, or set CHROMIUM): {log}")]
    Gone {
        /// What it said last.
        log: String,
    },
    /// It did not answer in time.
    #[error("chromium did not answer {method} within {} s", BOUND.as_secs())]
    Silent {
        /// What it was asked.
        method: String,
    },
    /// It refused.
    #[error("{method}: {message}")]
    Refused {
        /// What it was asked.
        method: String,
        /// Why it does not do so.
        message: String,
    },
}

/// A Chromium of its own, with a profile of its own, for as long as this lives.
pub(crate) struct Wire {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    next: u64,
    profile: TempDir,
}

impl Wire {
    pub(crate) fn open() -> Result<Self, BrowserError> {
        let profile = tempfile::tempdir().map_err(BrowserError::Start)?;
        let named = std::env::var("CHROMIUM")
            .ok()
            .filter(|name| !name.is_empty());
        let mut child = Command::new("sh")
            .args(["-c", START, named.as_deref().unwrap_or("chromium")])
            .args(ARGUMENTS)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .env("CHROMIUM_LOG", profile.path().join("log"))
            .env("HOME", profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A group of its own, so that Ctrl-C on a test does not end it before its test does.
            .process_group(0)
            .spawn()
            .map_err(BrowserError::Start)?;
        let to = child.stdin.take().expect("a pipe was asked for");
        let out = child.stdout.take().expect("a pipe was asked for");
        let (read, from) = mpsc::channel();
        thread::spawn(move || read_messages(out, &read));
        Ok(Self {
            child,
            to,
            from,
            next: 0,
            profile,
        })
    }

    /// Asks for something and waits for the answer; what is told in between is of no interest.
    pub(crate) fn ask(
        &mut self,
        session: Option<&str>,
        method: &str,
        parameters: Value,
    ) -> Result<Value, BrowserError> {
        self.next += 1;
        let mut message = json!({"id": self.next, "method": method, "params": parameters});
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        if self.to.write_all(&bytes).is_err() {
            return Err(self.gone());
        }
        let until = Instant::now() + BOUND;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let answer = match self.from.recv_timeout(left) {
                Ok(answer) => answer,
                Err(RecvTimeoutError::Disconnected) => return Err(self.gone()),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(BrowserError::Silent {
                        method: method.to_owned(),
                    });
                }
            };
            if answer["id"] != self.next {
                continue;
            }
            if let Some(message) = answer["error"]["message"].as_str() {
                return Err(BrowserError::Refused {
                    method: method.to_owned(),
                    message: message.to_owned(),
                });
            }
            return Ok(answer["result"].clone());
        }
    }

    fn gone(&self) -> BrowserError {
        let log = std::fs::read_to_string(self.profile.path().join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        BrowserError::Gone {
            log: lines[lines.len().saturating_sub(5)..].join(" / "),
        }
    }
}

fn read_messages(out: ChildStdout, read: &mpsc::Sender<Value>) {
    let mut out = BufReader::new(out);
    loop {
        let mut bytes = Vec::new();
        match out.read_until(0, &mut bytes) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        bytes.pop_if(|last| *last == 0);
        if let Ok(message) = serde_json::from_slice(&bytes)
            && read.send(message).is_err()
        {
            return;
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // It ends by itself when it is asked to, and its children with it.
        let asked = self.ask(None, "Browser.close", json!({}));
        if asked.is_err() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}
