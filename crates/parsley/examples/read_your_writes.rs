//! Read your writes: an HTTP service over an embedded host, whose reads wait until they show what the reader has written.
//!
//! Writes go to the topic `orders`, a stage keeps each customer's total, and the service answers reads from `totals`. A stage works in its own time, so a
//! read right after a write may well miss it. Each answer carries a token, in the header `Seen`: what the client has seen by then. A request that brings it
//! along is answered once the stage has been delivered all of that, or with 503 when that takes too long.
//!
//! `cargo run -p parsley --example read_your_writes`
//!
//! HTTP is spoken by hand, as far as it is needed here, so that nothing hides what the example is about; a service has its framework.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use parsley::edge::token::{KnownTopics, TokenError, TokenLimits};
use parsley::embedded::{Consumer, Host, NewRecord, Running};
use parsley::{App, CausalClock, Stage, Topic, codec};

/// How long a read waits.
const WAIT: Duration = Duration::from_millis(300);
/// The longest request: the head of it, and its body.
const REQUEST_BYTES_MAX: u64 = 16 << 10;

type Anyhow<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn app() -> Anyhow<App> {
    let orders = Topic::new("orders", codec::string(), codec::u64());
    let totals = Topic::new("totals", codec::string(), codec::u64());
    let total = Stage::stateful("total", codec::string(), codec::u64())
        .sink(&totals)
        .on(&orders, move |total, order, out| {
            *total += order.value;
            out.send(&totals, &order.key, total)
        })
        .build()?;
    Ok(App::named("shop").stage(total).build()?)
}

struct Service {
    host: Host,
    /// The application, while it runs in this process.
    running: Mutex<Option<Running>>,
    projection: Mutex<Projection>,
}

/// What reads are answered from: each customer's total, and what is behind it.
struct Projection {
    totals: Consumer,
    of: BTreeMap<Vec<u8>, (u64, CausalClock)>,
}

impl Projection {
    /// Takes in everything that is committed by now.
    fn catch_up(&mut self) -> Anyhow<()> {
        for record in self.totals.read_to_end()? {
            let key = record.key.clone().unwrap_or_default().to_vec();
            let (total, seen) = self.of.entry(key).or_default();
            *total = codec::u64().decode(record.value.as_ref())?;
            seen.observe_record(&record)?;
        }
        Ok(())
    }
}

struct Request {
    method: String,
    path: String,
    seen: Option<String>,
    body: String,
}

struct Answer {
    status: &'static str,
    seen: Option<CausalClock>,
    body: String,
}

impl Answer {
    fn of(status: &'static str, body: impl ToString) -> Self {
        Self {
            status,
            seen: None,
            body: body.to_string(),
        }
    }
}

impl Service {
    fn new() -> Anyhow<Self> {
        let host = Host::in_memory();
        host.create_topic("orders", 4)?;
        host.create_topic("totals", 4)?;
        let totals = host.consumer("totals")?;
        let of = BTreeMap::new();
        Ok(Self {
            host,
            running: Mutex::default(),
            projection: Mutex::new(Projection { totals, of }),
        })
    }

    fn answer(&self, request: &Request) -> Anyhow<Answer> {
        let seen = match request.seen.as_deref().map(|token| self.judge(token)) {
            None => CausalClock::new(),
            Some(Ok(seen)) => seen,
            Some(Err(refused)) => return Ok(Answer::of("400 Bad Request", refused)),
        };
        let path: Vec<&str> = request.path.trim_matches('/').split('/').collect();
        match (request.method.as_str(), path.as_slice()) {
            ("POST", ["orders", customer]) => self.write(seen, customer, &request.body),
            ("GET", ["totals", customer]) => self.read(seen, customer),
            _ => Ok(Answer::of("404 Not Found", "no such thing")),
        }
    }

    /// A token comes from outside: whoever made one up could otherwise have the stage wait for good for what will never be there.
    fn judge(&self, token: &str) -> Result<CausalClock, TokenError> {
        let (log, mut known) = (self.host.log(), KnownTopics::new());
        for topic in log.topics().into_values() {
            let partitions = log.partition_count(topic).unwrap_or(0);
            known.topic(topic, partitions);
            for partition in 0..partitions {
                let channel = topic.partition(partition);
                known.end(channel, log.high_watermark(channel).unwrap_or(0));
            }
        }
        // What is no hexadecimal is no clock either.
        let bytes = from_hex(token).unwrap_or_default();
        CausalClock::from_untrusted(&bytes, TokenLimits::default(), &known)
    }

    fn write(&self, mut seen: CausalClock, customer: &str, body: &str) -> Anyhow<Answer> {
        let Ok(amount) = body.trim().parse() else {
            return Ok(Answer::of("400 Bad Request", "the body is to be a number"));
        };
        let value = codec::u64().encode(&amount)?.unwrap_or_default();
        let mut headers = Vec::new();
        seen.stamp(&mut headers)?;
        let order = NewRecord::to("orders")
            .key(customer.to_owned())
            .value(value)
            .headers(headers);
        let sent = self.host.producer().send(order)?;
        seen.record_produced(sent.channel.topic, sent.channel.partition, sent.offset)?;
        Ok(Answer {
            seen: Some(seen),
            ..Answer::of("201 Created", "ordered")
        })
    }

    fn read(&self, mut seen: CausalClock, customer: &str) -> Anyhow<Answer> {
        if !seen.is_empty() && !self.wait_until_covered(&seen) {
            return Ok(Answer::of("503 Service Unavailable", "not there yet"));
        }
        // What the stage has sent is committed with what it was delivered: all of it is there to be read by now.
        let mut projection = lock(&self.projection);
        projection.catch_up()?;
        let found = projection.of.get(customer.as_bytes());
        let total = found.map_or(0, |(total, _)| *total);
        if let Some((_, behind)) = found {
            seen.merge(behind);
        }
        Ok(Answer {
            seen: Some(seen),
            ..Answer::of("200 OK", total)
        })
    }

    fn wait_until_covered(&self, seen: &CausalClock) -> bool {
        let until = Instant::now() + WAIT;
        loop {
            let covers = |running: &Running| running.status().covers("total", seen);
            if lock(&self.running).as_ref().is_some_and(covers) {
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn serve(&self, stream: TcpStream) -> Anyhow<()> {
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        let request = read_request(&stream)?;
        let answer = match self.answer(&request) {
            Ok(answer) => answer,
            Err(error) => Answer::of("500 Internal Server Error", error),
        };
        let mut head = format!(
            "HTTP/1.1 {}\r\nConnection: close\r\nContent-Length: {}\r\n",
            answer.status,
            answer.body.len()
        );
        if let Some(seen) = &answer.seen {
            head += &format!("Seen: {}\r\n", to_hex(&seen.to_bytes()));
        }
        if answer.status.starts_with("503") {
            head += "Retry-After: 1\r\n";
        }
        (&stream).write_all(format!("{head}\r\n{}", answer.body).as_bytes())?;
        Ok(())
    }
}

fn read_request(stream: &TcpStream) -> Anyhow<Request> {
    let mut reader = BufReader::new(stream.take(REQUEST_BYTES_MAX));
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next(), words.next());
    let (mut seen, mut length) = (None, 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        match line.trim().split_once(": ") {
            Some((name, token)) if name.eq_ignore_ascii_case("seen") => seen = Some(token.into()),
            Some((name, found)) if name.eq_ignore_ascii_case("content-length") => {
                length = found.parse()?;
            }
            _ => {}
        }
    }
    let mut body = String::new();
    reader.take(length).read_to_string(&mut body)?;
    Ok(Request {
        method: method.unwrap_or_default(),
        path: path.unwrap_or_default(),
        seen,
        body,
    })
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|digit| digit.to_digit(16).and_then(|digit| digit.try_into().ok()))
        .collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    Some(
        digits
            .chunks(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect(),
    )
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a client gets: the status, the headers that matter here, and the body.
#[derive(Debug)]
struct Got {
    status: u16,
    seen: Option<String>,
    retry_after: Option<String>,
    body: String,
}

fn ask(at: SocketAddr, request: &str, seen: Option<&str>, body: &str) -> Anyhow<Got> {
    let mut stream = TcpStream::connect(at)?;
    let seen = seen.map_or(String::new(), |token| format!("Seen: {token}\r\n"));
    let length = body.len();
    write!(
        stream,
        "{request} HTTP/1.1\r\nHost: {at}\r\n{seen}Content-Length: {length}\r\n\r\n{body}"
    )?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or("no answer")?;
    let header = |wanted: &str| {
        let found = head.lines().filter_map(|line| line.split_once(": "));
        let mut found = found.filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.next().map(|(_, value)| value.to_owned())
    };
    let got = Got {
        status: head.split(' ').nth(1).ok_or("no status")?.parse()?,
        seen: header("seen"),
        retry_after: header("retry-after"),
        body: body.to_owned(),
    };
    println!(
        "{request:<20} seen: {:<5} -> {} {}",
        if seen.is_empty() { "no" } else { "yes" },
        got.status,
        got.body
    );
    Ok(got)
}

/// Reads until the answer is not that it is not there yet.
fn read_covered(at: SocketAddr, token: &str) -> Anyhow<Got> {
    loop {
        let read = ask(at, "GET /totals/ann", Some(token), "")?;
        if read.status != 503 {
            return Ok(read);
        }
    }
}

/// Serves, and asks.
pub fn main() -> Anyhow<()> {
    let service = Arc::new(Service::new()?);
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let at = listener.local_addr()?;
    let serving = Arc::clone(&service);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let service = Arc::clone(&serving);
            std::thread::spawn(move || {
                if let Err(error) = service.serve(stream) {
                    eprintln!("a request was not answered: {error}");
                }
            });
        }
    });

    println!("The stage does not run yet.");
    let written = ask(at, "POST /orders/ann", None, "3")?;
    assert_eq!(written.status, 201);
    let token = written.seen.ok_or("a write gives a token")?;
    // Without the token the write is missing, and nobody says so.
    let stale = ask(at, "GET /totals/ann", None, "")?;
    assert_eq!((stale.status, stale.body.as_str()), (200, "0"));
    // With it the read waits, and says that it is not there.
    let waited = ask(at, "GET /totals/ann", Some(&token), "")?;
    assert_eq!(waited.status, 503);
    assert_eq!(waited.retry_after.as_deref(), Some("1"));

    println!("The stage runs.");
    *lock(&service.running) = Some(service.host.start(&app()?)?);
    let mut token = token;
    for expected in [3, 8, 13, 18] {
        // Read at once after each write, from the second on: the stage is still at work, and the read waits for it.
        let read = read_covered(at, &token)?;
        assert_eq!((read.status, read.body), (200, expected.to_string()));
        token = read.seen.ok_or("a read gives a token")?;
        let written = ask(at, "POST /orders/ann", Some(&token), "5")?;
        token = written.seen.ok_or("a write gives a token")?;
    }

    println!("The stage cannot read on: a transaction is open ahead of the next order.");
    let mut open = service.host.producer().begin();
    let first = codec::u64().encode(&1)?.unwrap_or_default();
    open.send(NewRecord::to("orders").key("ann").value(first))?;
    let written = ask(at, "POST /orders/ann", Some(&token), "5")?;
    token = written.seen.ok_or("a write gives a token")?;
    // The stage runs, and what it has done so far does not cover this.
    let waited = ask(at, "GET /totals/ann", Some(&token), "")?;
    assert_eq!(waited.status, 503);
    open.commit()?;
    let read = read_covered(at, &token)?;
    assert_eq!((read.status, read.body.as_str()), (200, "29"));

    println!("Tokens that nobody was given.");
    let orders = service.host.log().topic_id("orders").ok_or("no orders")?;
    let mut made_up = CausalClock::new();
    made_up.record_produced(orders, 0, i64::MAX)?;
    for token in [
        to_hex(&made_up.to_bytes()),
        "ff".to_owned(),
        "no hex".to_owned(),
    ] {
        let refused = ask(at, "POST /orders/bob", Some(&token), "1")?;
        assert_eq!(refused.status, 400);
    }
    let running = lock(&service.running).take();
    running.ok_or("the stage runs")?.stop()?;
    println!("Every read showed what its client had written.");
    Ok(())
}
