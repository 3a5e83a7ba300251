//! A demo that runs with `--status`, its page in a browser, and what both say while commands are withheld.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use headless_page::{Browser, Page};
use serde_json::{Value, json};

/// No wait comes near it: it guards against hanging.
const BOUND: Duration = Duration::from_secs(90);

const WINDOW: (u32, u32) = (1280, 800);

/// A demo that goes on beside the test. It is killed with it.
pub struct Shown {
    child: Child,
    /// `127.0.0.1:PORT`.
    address: String,
}

impl Shown {
    pub fn start<A: AsRef<std::ffi::OsStr>>(arguments: &[A]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_parsley"))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut said = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut line = String::new();
        said.read_line(&mut line).expect("a line");
        let address = line
            .trim_end()
            .strip_prefix("status: http://")
            .and_then(|rest| rest.strip_suffix('/'))
            .unwrap_or_else(|| panic!("no address: {line}"))
            .to_owned();
        // What comes later is read, so that it holds up nobody.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::stderr()));
        Self { child, address }
    }

    /// What the demo answers.
    pub fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n",
            self.address
        )
        .expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
        body.to_owned()
    }

    fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.get(path)).expect("JSON")
    }

    /// Waits until both partitions of the reconciler hold views.
    fn await_holds(&self) {
        let until = Instant::now() + BOUND;
        loop {
            let holds = self.json("/holds");
            if holds["holds"]
                .as_array()
                .is_some_and(|holds| holds.len() == 2)
            {
                return;
            }
            assert!(Instant::now() < until, "{holds}: {}", self.get("/status"));
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Which records are said to be missing, and at which task; read right after the first refresh that begins after this was called.
const AT_NEXT_REFRESH: &str = "new Promise((resolve) => {
  const begun = Number(document.body.dataset.asked);
  new MutationObserver((_, observer) => {
    if (Number(document.body.dataset.shown) <= begun) return;
    observer.disconnect();
    const lines = [...document.querySelectorAll('#missing li')];
    resolve(lines.map((line) => [line.dataset.topic, line.dataset.partition, line.dataset.offset, line.querySelectorAll('.place')[1].textContent]));
  }).observe(document.body, { attributes: true, attributeFilter: ['data-shown'] });
})";

#[track_caller]
fn await_page(page: &Page, expression: &str) {
    let is_so = page.wait_until(expression, BOUND).expect("an answer");
    let seen = page.evaluate("document.body.innerText");
    assert!(is_so, "{expression}: {}", seen.unwrap_or_default());
}

/// A demo whose commands do not come to the reconciler, in a browser: the page names the first command of each partition, which the first view
/// of each waits for, within one refresh; and says so when the process is gone.
pub fn assert_missing_commands_are_named(mut demo: Shown, host: &str) {
    let browser = Browser::start().expect("a browser");
    let page = browser.open(&format!("http://{}/", demo.address), WINDOW);
    let page = page.expect("a page");
    await_page(
        &page,
        "document.getElementById('link').className === 'live'",
    );
    demo.await_holds();

    let mut named = page.evaluate(AT_NEXT_REFRESH).expect("a refresh");
    let lines = named.as_array_mut().expect("lines");
    lines.sort_by_key(|line| line.to_string());
    assert_eq!(
        named,
        json!([
            ["commands", "0", "0", "reconciler/0"],
            ["commands", "1", "0", "reconciler/1"]
        ])
    );
    let boxes = page.evaluate(
        "[...document.querySelectorAll('#graph .place')].map((place) => place.textContent).sort()",
    );
    assert_eq!(
        boxes.expect("boxes"),
        json!(["commands:0@0", "commands:1@0", "views:0@0", "views:1@0"])
    );
    let title = page.evaluate("document.title").expect("a title");
    assert_eq!(title, "demo · Parsley");
    let report = demo.json("/status");
    assert_eq!(
        (&report["application"], &report["host"]),
        (&json!("demo"), &json!(host))
    );
    let metrics = demo.get("/metrics");
    let held = metrics.lines().filter(|line| {
        line.starts_with("parsley_held_records{")
            && line.contains("=\"views\"")
            && !line.ends_with(" 0")
    });
    assert_eq!(held.count(), 2, "{metrics}");
    if let Some(folder) = std::env::var_os("PARSLEY_SCREENSHOTS") {
        let shot = page.screenshot().expect("a screenshot");
        let name = format!("demo-{host}.png");
        std::fs::write(std::path::Path::new(&folder).join(name), shot).expect("a file");
    }

    demo.kill();
    await_page(
        &page,
        "document.getElementById('link').className === 'gone'",
    );
    await_page(
        &page,
        "document.getElementById('link').textContent.startsWith('no answer since ')",
    );
}
