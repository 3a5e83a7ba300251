//! Seeds that people could write.

use std::fs;

use parsley_core::{HoldCode, OffsetClaim, SenderId, SequenceClaim, TopicId, Wait, wire};
use parsley_stage::{AuditRecord, Audited, AuditedWait};

use super::{Seeds, numbered, root};

/// The node scripts of the repository that are short: every third of them.
pub fn node_script() -> Seeds {
    let folder = fs::read_dir(root().join("testdata/node")).unwrap();
    let mut scripts: Vec<_> = folder
        .map(|file| file.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "jsonl")
        })
        .collect();
    scripts.sort();
    scripts
        .iter()
        .map(|path| {
            let text = fs::read_to_string(path).unwrap();
            let lines = text.lines().filter(|line| !line.starts_with('#'));
            let text: String = lines.map(|line| format!("{line}\n")).collect();
            (
                path.file_stem().unwrap().to_str().unwrap().to_owned(),
                text.into_bytes(),
            )
        })
        .filter(|(_, text)| text.len() <= 768)
        .step_by(3)
        .collect()
}

fn accounts() -> [AuditRecord; 5] {
    let orders = TopicId::of_name("orders").partition(0);
    let entry = |audited| AuditRecord {
        stage: "settle".into(),
        partition: 0,
        execution: 12,
        topic: "orders".into(),
        channel: orders,
        offset: 7,
        audited,
    };
    let delivered = |arrival, key: Option<&'static [u8]>| Audited::Delivered {
        arrival,
        key: key.map(Into::into),
        timestamp_ms: 1_700_000_000_000,
        clock: wire::EMPTY_CLOCK.to_vec().into(),
    };
    let held = |waits| Audited::Held {
        arrival: 4,
        head: 4,
        waits,
    };
    let offset = Wait::Offset {
        claim: OffsetClaim {
            channel: orders,
            offset: 9,
        },
        settled: Some(7),
        code: HoldCode::ALL[0],
    };
    let sequence = Wait::Sequence {
        claim: SequenceClaim {
            channel: orders,
            sender: SenderId::of_task("shop", "sell", 0),
            sequence: 3,
        },
        delivered: None,
        code: HoldCode::ALL[1],
    };
    let wait = |wait| AuditedWait {
        topic: "orders".into(),
        wait,
    };
    [
        entry(delivered(Some(3), Some(b"ann"))),
        entry(delivered(None, Some(b"\xff\xfe"))),
        entry(delivered(Some(0), None)),
        entry(held(vec![])),
        entry(held(vec![wait(offset), wait(sequence)])),
    ]
}

pub fn account_record() -> Seeds {
    let mut seeds = numbered("entry", accounts().map(|entry| entry.encode()));
    let others = [
        r#"{"delivered":{}}"#,
        r#"{"held":null}"#,
        "[]",
        "",
        r#"{"delivered":{"stage":"s","partition":-1}}"#,
    ];
    seeds.extend(numbered("other", others));
    seeds
}

pub fn log_format() -> Seeds {
    numbered(
        "format",
        [
            "parsley embedded log, format 1\n",
            "parsley embedded log, format 2\n",
            "parsley embedded log, format ",
            "parsley embedded log, format 10000000000000000000000000000000000000000000001\n",
            "something else, of which there is more than forty characters to be told\n",
            "",
        ],
    )
}

pub fn kafka_config() -> Seeds {
    let base = "brokers = \"b:1\"\nstate_dir = \"s\"\n";
    let with = |more: &str| format!("{base}{more}");
    numbered(
        "config",
        [
            base.to_owned(),
            with("workers = 2\ncommit_interval_ms = 50\n"),
            with("transaction_timeout_ms = 1000\ncheck_interval_ms = 1\n"),
            with("[librdkafka]\n\"security.protocol\" = \"plaintext\"\n"),
            with("[librdkafka]\n\"group.id\" = \"mine\"\n"),
            with("[librdkafka]\n\"sasl.password\" = \"x\"\n\"no.such\" = \"y\"\n"),
            with("[changelog]\nreplication = 3\nmin_insync_replicas = 2\n"),
            with("workers = 0\n"),
            with("workers = \"two\"\n"),
            with("unknown = 1\n"),
            "brokers = \n".to_owned(),
            String::new(),
        ],
    )
}

pub fn kafka_description() -> Seeds {
    let stage = "[[stage]]\nname = \"total\"\nstateful = true\ninputs = [\"orders\"]\nsinks = [\"totals\"]\n";
    numbered(
        "description",
        [
            format!("application = \"shop\"\n\n{stage}"),
            format!("application = \"shop\"\naccount = \"told\"\n[host]\nworkers = 2\n{stage}ticks_ms = 100\n"),
            format!("application = \"shop\"\n{stage}{}", stage.replace("total", "sum")),
            format!("application = \"\"\n{stage}"),
            stage.to_owned(),
            "application = \"shop\"\n[host.librdkafka]\n\"client.id\" = \"c\"\n[[stage]]\nname = \"s\"\ninputs = []\n".to_owned(),
            "application = \"shop\"\nstage = []\n".to_owned(),
        ],
    )
}

const CHANNEL: &str = "5d7ce273-b3ed-34cb-95f7-bed1a25c3360:0";
const SENDER: &str = "1dba284c-e704-3e8a-b89c-19dbaec547ce";

fn dumped(offset: i64, more: &str) -> String {
    format!(
        "{{\"topic\":\"t\",\"channel\":\"{CHANNEL}\",\"offset\":{offset},\"timestamp_ms\":7,\"key\":\"k\",\"value\":\"1\",\"clock\":null,{more}\"headers\":[]}}\n"
    )
}

fn delivered(offset: i64, more: &str) -> String {
    format!(
        "{{\"stage\":\"s\",\"partition\":0,\"topic\":\"t\",\"channel\":\"{CHANNEL}\",\"offset\":{offset},{more}\"clock\":{{\"offsets\":[],\"sequences\":[]}}}}\n"
    )
}

pub fn judged_lines() -> Seeds {
    let sent = |sequence: i64| format!("\"sender\":\"{SENDER}\",\"sequence\":{sequence},");
    let claim = format!(
        "{{\"stage\":\"s\",\"partition\":0,\"topic\":\"t\",\"channel\":\"{CHANNEL}\",\"offset\":3,\"clock\":{{\"offsets\":[{{\"topic\":\"{}\",\"partition\":0,\"offset\":5}}]}}}}\n",
        &CHANNEL[..36]
    );
    let tells = format!(
        "\"delivery\":0,\"sent\":[{{\"topic\":\"t\",\"channel\":\"{CHANNEL}\",\"offset\":4,\"sequence\":0}}],"
    );
    let entry = accounts()[0].encode();
    let entry = serde_json::to_string(std::str::from_utf8(&entry).unwrap()).unwrap();
    let account = dumped(0, "").replace("\"value\":\"1\"", &format!("\"value\":{entry}"));
    let unreadable = dumped(0, "").replace(
        "\"clock\":null",
        "\"header_error\":{\"error\":\"e\",\"headers\":[]}",
    );
    numbered(
        "lines",
        [
            dumped(0, ""),
            [dumped(0, &sent(0)), dumped(1, &sent(1))].concat(),
            [dumped(0, &sent(1)), dumped(1, &sent(0))].concat(),
            [dumped(1, ""), dumped(0, "")].concat(),
            [delivered(0, ""), delivered(1, "")].concat(),
            [delivered(1, ""), delivered(0, "")].concat(),
            [delivered(0, &tells), delivered(4, &sent(0))].concat(),
            [dumped(0, ""), delivered(0, "")].concat(),
            [claim, delivered(5, "")].concat(),
            account,
            unreadable,
            dumped(0, "\"isolation\":\"read_uncommitted\","),
            "{}\n\n[]\nx\n".to_owned(),
        ],
    )
}

pub fn demo_command() -> Seeds {
    numbered(
        "command",
        [
            r#"{"account":"a","deposit":5}"#,
            r#"{"account":"a","withdraw":18446744073709551615}"#,
            r#"{"account":"a","deposit":5,"withdraw":1}"#,
            r#"{"account":"a"}"#,
            r#"{"account":"a","deposit":5.0}"#,
            r#"["a",5]"#,
            r#"{"account":"a","deposit":5} x"#,
        ],
    )
}

pub fn argument() -> Seeds {
    numbered(
        "argument",
        [
            &b"\x003,7:2,12-15"[..],
            b"\x00none",
            b"\x01a:b:2147483647",
            b"\x02orders:0@7",
            b"\x03localhost:9092,[::1]:9092",
            b"\x03PLAINTEXT://broker",
            b"\x040..100",
            b"\x047",
            b"\x05127.0.0.1:9090",
            b"\x059090",
            b"\x06@1700000000000",
            b"\x06start",
            b"\x07a\x1b[2Jb",
        ],
    )
}

pub fn lines() -> Seeds {
    numbered(
        "lines",
        [
            &b"\x00\x04ab\n\ncd"[..],
            b"\x02\x04abcd\nabcde\nxy\n",
            b"\x1f\x04a\xff\nb\n",
            b"\x81\x04ab\n\nlong line\ncd\xff\nlonger line",
            b"\x03\x00\n",
            b"\x03\x00",
        ],
    )
}
