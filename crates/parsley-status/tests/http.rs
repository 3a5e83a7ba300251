//! What the server answers, to whom, and what clients can do to it.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::time::Duration;

use parsley_stage::report::{HostKind, InputReport, StateWord, TaskReport};
use parsley_status::{Holds, Metrics, Observed, Report, StatusServer};
use serde_json::Value;

/// No test comes near it: it guards against hanging.
const BOUND: Duration = Duration::from_secs(60);

/// The length of an answer that no socket keeps.
const LONG: usize = 32 << 20;

/// An application that was looked at so often.
#[derive(Default)]
struct Shop {
    looks: AtomicUsize,
}

impl Observed for Shop {
    fn report(&self) -> Report {
        self.looks.fetch_add(1, Ordering::SeqCst);
        let mut task = TaskReport::new("settle", 1, StateWord::Running);
        task.delivered = 7;
        task.inputs.push(InputReport::new("orders", 1, 9, 2));
        Report {
            application: "shop".into(),
            host: HostKind::Embedded,
            tasks: vec![task],
            workers: Vec::new(),
        }
    }

    fn holds(&self) -> Holds {
        Holds::default()
    }
}

/// An application whose tasks are at work until a test lets them go.
#[derive(Default)]
struct AtWork {
    is_over: Mutex<bool>,
    changed: Condvar,
}

impl Observed for AtWork {
    fn report(&self) -> Report {
        Shop::default().report()
    }

    fn holds(&self) -> Holds {
        let is_over = self.is_over.lock().unwrap();
        drop(self.changed.wait_while(is_over, |over| !*over).unwrap());
        Holds::default()
    }
}

impl AtWork {
    fn end(&self) {
        *self.is_over.lock().unwrap() = true;
        self.changed.notify_all();
    }
}

struct Panicking;

impl Observed for Panicking {
    fn report(&self) -> Report {
        panic!("on purpose");
    }

    fn holds(&self) -> Holds {
        Holds::default()
    }
}

fn serve<O: Observed + 'static>(observed: &Arc<O>) -> StatusServer {
    StatusServer::builder().start(observed).expect("a server")
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(BOUND)).unwrap();
    stream.set_write_timeout(Some(BOUND)).unwrap();
    stream
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines();
        lines.find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }
}

/// Reads until the server closes the connection.
fn read_answer(stream: &mut TcpStream) -> Answer {
    let mut text = Vec::new();
    stream.read_to_end(&mut text).expect("an answer");
    let text = String::from_utf8(text).expect("text");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
    Answer {
        status: status.expect("a status"),
        head: head.to_owned(),
        body: body.to_owned(),
    }
}

fn ask(address: SocketAddr, request: &str) -> Answer {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).expect("sent");
    read_answer(&mut stream)
}

fn get(address: SocketAddr, path: &str) -> Answer {
    ask(
        address,
        &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n"),
    )
}

/// Whether the server has closed a connection. It may have cut it off.
fn is_closed(stream: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

#[test]
fn what_an_application_does_is_there_as_json_and_as_a_page() {
    let shop = Arc::new(Shop::default());
    let server = serve(&shop);
    let status = get(server.address(), "/status");
    assert_eq!(
        (status.status, status.header("content-type")),
        (200, Some("application/json"))
    );
    assert_eq!(status.json(), serde_json::to_value(shop.report()).unwrap());
    assert_eq!(get(server.address(), "/holds").body, r#"{"holds":[]}"#);
    // The query is no part of what is asked for.
    assert_eq!(get(server.address(), "/holds?now").status, 200);
    for (path, kind) in [
        ("/", "text/html; charset=utf-8"),
        ("/page.css", "text/css; charset=utf-8"),
        ("/page.js", "text/javascript; charset=utf-8"),
    ] {
        let answer = get(server.address(), path);
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (200, Some(kind)),
            "{path}"
        );
    }
}

#[test]
fn nothing_is_kept_and_nothing_comes_from_elsewhere() {
    let shop = Arc::new(Shop::default());
    let server = serve(&shop);
    for path in ["/", "/page.js", "/status", "/holds", "/metrics", "/nowhere"] {
        let answer = get(server.address(), path);
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        let policy = answer.header("content-security-policy").expect(path);
        assert!(policy.starts_with("default-src 'none'; script-src 'self'"));
        assert!(!policy.contains("unsafe"), "{policy}");
    }
    let page = get(server.address(), "/").body;
    for foreign in ["http:", "https:", "//", "<style", "style=", "onload"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    let script = get(server.address(), "/page.js").body;
    for unsafe_use in [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
    ] {
        assert!(!script.contains(unsafe_use), "{unsafe_use}");
    }
}

#[test]
fn a_head_is_the_same_without_its_body() {
    let shop = Arc::new(Shop::default());
    let address = serve_for_ever(&shop);
    let whole = get(address, "/holds");
    let head = ask(
        address,
        &format!("HEAD /holds HTTP/1.1\r\nHost: {address}\r\n\r\n"),
    );
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert_eq!(
        head.header("content-length"),
        Some(&*whole.body.len().to_string())
    );
}

/// A server that ends with the test's process.
fn serve_for_ever<O: Observed + 'static>(observed: &Arc<O>) -> SocketAddr {
    let server = serve(observed);
    let address = server.address();
    std::mem::forget(server);
    address
}

#[test]
fn there_is_no_other_method_and_no_other_path() {
    let shop = Arc::new(Shop::default());
    let server = serve(&shop);
    let address = server.address();
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "STOP"] {
        let answer = ask(
            address,
            &format!("{method} /status HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\n\r\n"),
        );
        assert_eq!(
            (answer.status, answer.header("allow")),
            (405, Some("GET, HEAD")),
            "{method}"
        );
    }
    for path in [
        "/nowhere",
        "/status/",
        "//",
        "/../etc/passwd",
        "/page.html",
        "/STATUS",
    ] {
        assert_eq!(get(address, path).status, 404, "{path}");
    }
    assert_eq!(shop.looks.load(Ordering::SeqCst), 0);
}

/// A page elsewhere whose name its owner makes mean 127.0.0.1 is of the same origin as this server to a browser.
#[test]
fn a_name_that_somebody_else_gives_away_is_not_answered() {
    let shop = Arc::new(Shop::default());
    let server = serve(&shop);
    let of = |host: &str| {
        let request = format!("GET /status HTTP/1.1\r\nHost: {host}\r\n\r\n");
        ask(server.address(), &request).status
    };
    assert_eq!(of("evil.example"), 421);
    assert_eq!(of("localhost:1234"), 200);
    let without = ask(server.address(), "GET /status HTTP/1.1\r\n\r\n");
    assert_ne!(without.status, 200);
}

#[test]
fn what_is_no_request_is_answered_so_and_a_head_has_bounds() {
    let shop = Arc::new(Shop::default());
    let server = serve(&shop);
    let address = server.address();
    assert_eq!(ask(address, "no request at all\r\n\r\n").status, 400);
    for (what, head) in [
        ("a header", format!("X: {}\r\n", "x".repeat(1 << 20))),
        ("many headers", "X: x\r\n".repeat(1000)),
    ] {
        let mut stream = connect(address);
        // It may be cut off while it is sent.
        let request = format!("GET /status HTTP/1.1\r\nHost: {address}\r\n{head}\r\n");
        let _ = stream.write_all(request.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 431"),
            "{what}: {answer}"
        );
    }
    assert_eq!(get(address, "/status").status, 200);
}

/// Clients that never end their request, and one that does not read on in its answer, while others come and go; then a stop.
#[test]
fn slow_clients_hold_up_nobody() {
    let shop = Arc::new(Shop::default());
    // More than sockets keep.
    let metrics = Metrics::rendered_by(|| "x".repeat(LONG));
    let server = StatusServer::builder().metrics(metrics).start(&shop);
    let server = server.expect("a server");
    let address = server.address();
    let mut deaf = connect(address);
    write!(deaf, "GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut first = [0; 12];
    deaf.read_exact(&mut first).expect("an answer begins");
    assert_eq!(&first, b"HTTP/1.1 200");
    let mut slow: Vec<TcpStream> = (0..20)
        .map(|_| {
            let mut stream = connect(address);
            stream.write_all(b"GET /sta").unwrap();
            stream
        })
        .collect();
    for _ in 0..20 {
        assert_eq!(get(address, "/holds").status, 200);
    }
    server.stop();
    assert!(slow.iter_mut().all(is_closed));
    // What it had not read when the server went is not sent any more.
    let mut rest = Vec::new();
    let _ = deaf.read_to_end(&mut rest);
    assert!(rest.len() < LONG, "{} bytes", rest.len());
    let refused = TcpStream::connect(address).expect_err("nobody listens");
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}

/// More of them than are served at once. None of them ends its request: they are cut off, and the one behind them has its answer.
#[test]
fn clients_that_never_end_their_request_are_cut_off() {
    let shop = Arc::new(Shop::default());
    let server = serve(&shop);
    let address = server.address();
    let mut slow: Vec<TcpStream> = (0..64)
        .map(|_| {
            let mut stream = connect(address);
            stream.write_all(b"GET /status HTTP/1.1\r\nHost: ").unwrap();
            stream
        })
        .collect();
    assert_eq!(get(address, "/status").status, 200);
    assert!(slow.iter_mut().all(is_closed));
}

#[test]
fn an_application_that_is_at_work_holds_up_neither_the_rest_nor_a_stop() {
    let shop = Arc::new(AtWork::default());
    let server = serve(&shop);
    let address = server.address();
    let answer = std::thread::spawn(move || get(address, "/holds"));
    assert_eq!(get(address, "/status").status, 200);
    let answer = answer.join().unwrap();
    assert_eq!(answer.status, 503);
    assert!(answer.body.contains("at work"), "{}", answer.body);
    // It is still being asked.
    server.stop();
    shop.end();
}

#[test]
fn many_clients_cost_the_application_few_looks() {
    let shop = Arc::new(Shop::default());
    let server = serve(&shop);
    let address = server.address();
    let clients = 40;
    let together = Barrier::new(clients);
    std::thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| {
                together.wait();
                assert_eq!(get(address, "/status").status, 200);
            });
        }
    });
    let looks = shop.looks.load(Ordering::SeqCst);
    assert!((1..clients).contains(&looks), "{looks} looks");
}

#[test]
fn a_panic_of_the_application_is_an_answer_and_not_the_end() {
    let server = serve(&Arc::new(Panicking));
    let address = server.address();
    // Nobody keeps it: it is over.
    assert_eq!(get(address, "/status").status, 503);
    let shop = Arc::new(Panicking);
    let server = serve(&shop);
    assert_eq!(get(server.address(), "/status").status, 500);
    assert_eq!(get(server.address(), "/holds").status, 200);
}

#[test]
fn the_server_does_not_keep_an_application_alive() {
    let shop = Arc::new(Shop::default());
    let server = serve(&shop);
    assert_eq!(get(server.address(), "/status").status, 200);
    assert!(Arc::into_inner(shop).is_some());
    let answer = get(server.address(), "/holds");
    assert_eq!(answer.status, 503);
    assert_eq!(answer.body, "the application is over\n");
    server.stop();
    // As often as one likes.
    server.stop();
}

#[test]
fn an_address_that_is_taken_is_an_error_with_the_address() {
    let shop = Arc::new(Shop::default());
    let server = serve(&shop);
    assert!(server.address().ip().is_loopback());
    let address = server.address();
    let taken = StatusServer::builder().address(address).start(&shop);
    let message = taken.expect_err("it is taken").to_string();
    assert!(message.contains(&address.to_string()), "{message}");
}

#[test]
fn metrics_are_those_of_the_recorder_that_was_given() {
    let shop = Arc::new(Shop::default());
    let without = serve(&shop);
    assert_eq!(get(without.address(), "/metrics").status, 404);

    let metrics = Metrics::install().expect("no other recorder");
    let server = StatusServer::builder().metrics(metrics).start(&shop);
    let server = server.expect("a server");
    metrics::counter!("parsley_test_total", "topic" => "a\"b\n<script>").increment(3);
    metrics::histogram!("parsley_test_seconds").record(0.003);
    let answer = get(server.address(), "/metrics");
    assert_eq!(
        answer.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    for line in [
        r#"parsley_test_total{topic="a\"b\n<script>"} 3"#,
        r#"parsley_test_seconds_bucket{le="0.0025"} 0"#,
        r#"parsley_test_seconds_bucket{le="0.005"} 1"#,
    ] {
        assert!(
            answer.body.lines().any(|found| found == line),
            "{line}: {}",
            answer.body
        );
    }
    // A process has one, and keeps the one it has.
    let message = Metrics::install().expect_err("there is one").to_string();
    assert!(message.contains("Metrics::rendered_by"), "{message}");
    metrics::counter!("parsley_test_total", "topic" => "b").increment(1);
    let own = Metrics::rendered_by(|| "own 1\n".to_owned());
    let other = StatusServer::builder().metrics(own).start(&shop);
    assert_eq!(
        get(other.expect("a server").address(), "/metrics").body,
        "own 1\n"
    );
}
