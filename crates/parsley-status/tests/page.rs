//! The page in a real browser: what it says while a cause is missing, when that has come, and when the process is gone.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use headless_page::{Browser, Page};
use parsley_core::{Clock, Header, wire};
use parsley_embedded::{Host, Ids, LogConfig, NewRecord, Running};
use parsley_stage::report::{HostKind, InputReport, StateWord, TaskReport};
use parsley_stage::{App, Stage, Topic, codec};
use parsley_status::{Holds, Observed, Report, StatusServer};

/// No wait comes near it: it guards against hanging.
const BOUND: Duration = Duration::from_secs(60);

const WINDOW: (u32, u32) = (1280, 800);

/// The text of a place on the page.
fn text(page: &Page, selector: &str) -> String {
    let asked = format!("document.querySelector({selector:?}).textContent");
    page.evaluate(&asked)
        .expect(selector)
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[track_caller]
fn await_page(page: &Page, expression: &str) {
    let is_so = page.wait_until(expression, BOUND).expect("an answer");
    assert!(
        is_so,
        "{expression}: {}",
        page.evaluate("document.body.innerText").unwrap_or_default()
    );
}

/// What an expression comes to right after the first refresh that began after this was called.
fn at_next_refresh(page: &Page, expression: &str) -> serde_json::Value {
    let script = format!(
        "new Promise((resolve) => {{
           const begun = Number(document.body.dataset.asked);
           new MutationObserver((_, observer) => {{
             if (Number(document.body.dataset.shown) <= begun) return;
             observer.disconnect();
             resolve({expression});
           }}).observe(document.body, {{ attributes: true, attributeFilter: ['data-shown'] }});
         }})"
    );
    page.evaluate(&script).expect("a refresh")
}

/// Keeps a screenshot where `PARSLEY_SCREENSHOTS` names a folder: for people.
fn keep(page: &Page, name: &str) {
    let Some(folder) = std::env::var_os("PARSLEY_SCREENSHOTS") else {
        return;
    };
    let shot = page.screenshot().expect("a screenshot");
    std::fs::write(PathBuf::from(folder).join(name), shot).expect("a file");
}

type Text = Topic<String, String>;

fn topic(name: &str) -> Text {
    Topic::new(name, codec::string(), codec::string())
}

/// `settle` reads three topics and sends a receipt for each record of any of them; `print` reads those.
fn shop() -> App {
    let inputs = ["orders", "payments", "refunds"].map(topic);
    let receipts = topic("receipts");
    let mut settle = Stage::stateless("settle").sink(&receipts);
    for input in &inputs {
        let receipts = receipts.clone();
        settle = settle.on(input, move |message, out| {
            out.send(&receipts, &message.key, &message.value)
        });
    }
    let print = Stage::stateless("print").on(&receipts, |_receipt, _out| Ok(()));
    App::named("shop")
        .stage(settle.build().unwrap())
        .stage(print.build().unwrap())
        .build()
        .unwrap()
}

fn shop_on(partitions: i32) -> (Host, Arc<Running>, StatusServer) {
    let config = LogConfig::default().ids(Ids::Seeded(7));
    let host = Host::builder().log_config(config).build().unwrap();
    let app = shop();
    for topic in app.topics() {
        host.create_topic(topic, partitions).unwrap();
    }
    let running = Arc::new(host.start(&app).unwrap());
    let server = StatusServer::builder().start(&running).unwrap();
    (host, running, server)
}

/// What a plain client writes: it says that it has seen what `of` claims.
fn write(host: &Host, (topic, partition): (&str, i32), of: &[(&str, i64)]) {
    let mut record = NewRecord::to(topic)
        .partition(partition)
        .key("ann")
        .value("a book, and nobody's business");
    if !of.is_empty() {
        let mut clock = Clock::new();
        for (cause, offset) in of {
            let id = host.log().topics()[*cause];
            clock.claim_offset(id.partition(partition), *offset);
        }
        record = record.headers([Header::new(wire::CLOCK_HEADER, wire::encode(&clock))]);
    }
    host.producer().send(record).expect("sent");
}

fn open(browser: &Browser, server: &StatusServer) -> Page {
    let address = format!("http://{}/", server.address());
    let page = browser.open(&address, WINDOW).expect("a page");
    await_page(
        &page,
        "document.getElementById('link').className === 'live'",
    );
    page
}

const MISSING: &str = "[...document.querySelectorAll('#missing li')].map((line) => line.dataset.topic + ' ' + line.dataset.partition + ' ' + line.dataset.offset)";

/// How many boxes of the graph lie over another.
const OVERLAPS: &str = "(() => {
  const boxes = [...document.querySelectorAll('.node')].map((node) => node.getBoundingClientRect());
  return boxes.filter((a, i) => boxes.some((b, j) => i < j && a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)).length;
  })()";

/// The whole story: a chain of two records waits for one that was not written; it is written; the process goes.
#[test]
fn a_record_that_is_missing_is_named_until_it_comes() {
    let browser = Browser::start().expect("a browser");
    let (host, running, server) = shop_on(2);
    write(&host, ("orders", 1), &[]);
    let page = open(&browser, &server);
    await_page(
        &page,
        "document.getElementById('holds-said').textContent === 'Nothing is held.'",
    );

    // The payment claims an order that is not there, the refund the payment.
    let end = host
        .log()
        .last_stable_offset(host.log().topics()["orders"].partition(1));
    let missing = end.expect("the partition is there");
    write(&host, ("payments", 1), &[("orders", missing)]);
    write(&host, ("refunds", 1), &[("payments", 0)]);
    running
        .wait(|status| status.held() == 2)
        .reached()
        .expect("both wait");

    // Both waits end at the same record: it is named once, within one refresh.
    let named = at_next_refresh(&page, MISSING);
    assert_eq!(named, serde_json::json!([format!("orders 1 {missing}")]));
    let said = text(&page, "#missing");
    assert!(
        said.starts_with(&format!(
            "orders:1@{missing} is missing at settle/1: 2 records wait for it"
        )),
        "{said}"
    );
    let boxes = "[...document.querySelectorAll('#graph .node .place')].map((place) => place.textContent).sort().join(' ')";
    let expected = format!("orders:1@{missing} payments:1@0 refunds:1@0");
    assert_eq!(page.evaluate(boxes).unwrap(), expected);
    assert_eq!(
        page.evaluate("document.querySelectorAll('#graph path').length")
            .unwrap(),
        2
    );
    assert_eq!(
        text(&page, "#graph .node.missing .place"),
        format!("orders:1@{missing}")
    );
    let all = text(&page, "body");
    assert!(
        all.contains("not-fetched") && all.contains("held-upstream"),
        "{all}"
    );
    assert!(!all.contains("nobody's business"), "no payload is shown");
    keep(&page, "one-hold.png");

    // It comes: within one refresh nothing is held, and the rates have moved.
    write(&host, ("orders", 1), &[]);
    running
        .wait(|status| status.held() == 0 && status.delivered() >= 8)
        .reached()
        .expect("all is delivered");
    assert_eq!(at_next_refresh(&page, MISSING), serde_json::json!([]));
    assert_eq!(text(&page, "#holds-said"), "Nothing is held.");
    assert_eq!(
        page.evaluate("document.querySelectorAll('.node').length")
            .unwrap(),
        0
    );
    let drawn = "[...document.querySelectorAll('tr.stage .spark polyline')].every((line) => new Set(line.getAttribute('points').split(' ').map((point) => point.split(',')[1])).size > 1)";
    await_page(&page, drawn);
    write(&host, ("orders", 0), &[]);
    await_page(
        &page,
        "[...document.querySelectorAll('#figures dd')][2].textContent > '0.0'",
    );

    // It goes.
    server.stop();
    running.stop().unwrap();
    await_page(
        &page,
        "document.getElementById('link').className === 'gone'",
    );
    assert!(text(&page, "#link").starts_with("no answer since "));
    assert_eq!(
        page.evaluate("document.body.classList.contains('gone')")
            .unwrap(),
        true
    );
}

/// Two lines from one box to two others, which have their places side by side.
#[test]
fn a_record_that_waits_for_two_leads_to_both() {
    let browser = Browser::start().expect("a browser");
    let (host, running, server) = shop_on(1);
    write(&host, ("payments", 0), &[("orders", 3), ("refunds", 4)]);
    running.wait(|status| status.held() == 1).reached().unwrap();
    let page = open(&browser, &server);
    await_page(
        &page,
        "document.querySelectorAll('#missing li').length === 2",
    );
    assert_eq!(
        page.evaluate("document.querySelectorAll('#graph .node').length")
            .unwrap(),
        3
    );
    assert_eq!(
        page.evaluate("document.querySelectorAll('#graph path').length")
            .unwrap(),
        2
    );
    assert_eq!(page.evaluate(OVERLAPS).unwrap(), 0);
    assert_eq!(text(&page, "#holds-said"), "1 record is held on 1 channel.");
}

/// 200 holds are not a picture any more: the worst are shown, and the others counted.
#[test]
fn of_many_holds_the_worst_are_drawn_and_the_others_counted() {
    let browser = Browser::start().expect("a browser");
    let (host, running, server) = shop_on(100);
    for partition in 0..100 {
        write(
            &host,
            ("payments", partition),
            &[("orders", i64::from(partition))],
        );
        write(&host, ("refunds", partition), &[("payments", 0)]);
    }
    running
        .wait(|status| status.held() == 200)
        .reached()
        .unwrap();
    let page = open(&browser, &server);
    await_page(
        &page,
        "document.querySelectorAll('#missing li').length === 5",
    );
    assert_eq!(
        text(&page, "#holds-said"),
        "200 records are held on 200 channels."
    );
    assert_eq!(
        text(&page, "#holds-rest"),
        "Those that wait longest are shown; 95 more records that are missing, 176 more chains."
    );
    assert_eq!(page.evaluate(OVERLAPS).unwrap(), 0, "no box covers another");
    assert_eq!(
        page.evaluate("document.querySelectorAll('tr.task').length")
            .unwrap(),
        200
    );
    let wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth";
    assert_eq!(
        page.evaluate(wide).unwrap(),
        true,
        "what is wide scrolls in its own place"
    );
    keep(&page, "many-holds.png");
    page.prefer_dark(true).unwrap();
    keep(&page, "many-holds-dark.png");
}

/// What names and messages say is text, whatever they say.
struct Hostile;

const HOSTILE: &str =
    "<script>document.title='run'</script><img src=x onerror=\"document.title='run'\">";

impl Observed for Hostile {
    fn report(&self) -> Report {
        let mut task = TaskReport::new(HOSTILE, 0, StateWord::Failed);
        task.message = Some(HOSTILE.into());
        task.inputs.push(InputReport::new(HOSTILE, 0, 1, 0));
        Report {
            application: HOSTILE.into(),
            host: HostKind::Embedded,
            tasks: vec![task],
            workers: Vec::new(),
        }
    }

    fn holds(&self) -> Holds {
        Holds::default()
    }
}

#[test]
fn markup_in_names_and_messages_stays_text() {
    let browser = Browser::start().expect("a browser");
    let hostile = Arc::new(Hostile);
    let server = StatusServer::builder().start(&hostile).unwrap();
    let page = open(&browser, &server);
    await_page(&page, "document.querySelector('tr.message') !== null");
    for place in ["#application", "tr.stage td", "tr.message td"] {
        assert_eq!(text(&page, place), HOSTILE, "{place}");
    }
    assert!(text(&page, "td.inputs").starts_with(HOSTILE));
    assert_eq!(
        page.evaluate("document.title").unwrap(),
        format!("{HOSTILE} · Parsley")
    );
    let strangers = "document.querySelectorAll('body script, img').length";
    assert_eq!(page.evaluate(strangers).unwrap(), 0);
    // A script that came in all the same is not run.
    let injected = "(() => { const script = document.createElement('script'); script.textContent = \"document.title = 'run'\";
                     document.body.append(script); return document.title; })()";
    assert_ne!(page.evaluate(injected).unwrap(), "run");
}
