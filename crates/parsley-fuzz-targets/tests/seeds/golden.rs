//! Seeds of `testdata/wire.json`, and of what is made of it.

use std::fs;

use parsley_core::layout::{self, StateKey};
use parsley_core::wire;
use parsley_core::{Clock, Scope, SenderId, TopicId};
use parsley_stage::CausalClock;
use serde_json::Value;

use super::{Seeds, numbered, part, root};

fn wire_json() -> Value {
    let text = fs::read_to_string(root().join("testdata/wire.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn bytes(list: &str) -> Vec<Vec<u8>> {
    let wire = wire_json();
    let entries = wire[list].as_array().unwrap().iter();
    entries
        .map(|entry| hex::decode(entry["hex"].as_str().unwrap()).unwrap())
        .collect()
}

pub fn clock() -> Seeds {
    let mut seeds = numbered("golden", bytes("clocks"));
    seeds.extend(numbered("malformed", bytes("malformed")));
    seeds
}

pub fn clock_join() -> Seeds {
    let clocks = bytes("clocks");
    let count = clocks.len();
    let triples = (0..count * count).map(|pair| {
        let (a, b) = (&clocks[pair / count], &clocks[pair % count]);
        [part(a), part(b), clocks[(pair + 1) % count].clone()].concat()
    });
    numbered(
        "golden",
        triples.filter(|seed| seed.len() <= 1024).step_by(2),
    )
}

const CLOCK: u8 = 0;
const SENDER: u8 = 1;
const SEQUENCE: u8 = 2;

fn header(name: u8, value: &[u8]) -> Vec<u8> {
    [vec![name], part(value)].concat()
}

pub fn headers() -> Seeds {
    let mut seeds = Seeds::new();
    let sender = *SenderId::of_task("shop", "settle", 0).0.uuid().as_bytes();
    let tag = [
        header(SENDER, &sender),
        header(SEQUENCE, &7_i64.to_be_bytes()),
    ]
    .concat();
    let trace = [vec![9], b"trace".to_vec(), part(b"7")].concat();
    let clocks = bytes("clocks").into_iter().chain(bytes("malformed"));
    for (index, clock) in clocks.enumerate().filter(|(_, clock)| clock.len() < 300) {
        let clock = header(CLOCK, &clock);
        seeds.insert(format!("clock-{index:02}"), clock.clone());
        if index % 3 == 0 {
            seeds.insert(
                format!("stamp-{index:02}"),
                [clock, tag.clone(), trace.clone()].concat(),
            );
        }
    }
    let null = [vec![CLOCK], vec![0xff; 2]].concat();
    let negative = header(SEQUENCE, &(-1_i64).to_be_bytes());
    let others = [
        tag.clone(),
        [tag.clone(), tag.clone()].concat(),
        [trace.clone(), header(3, b"x"), trace].concat(),
        header(SENDER, &sender),
        header(SEQUENCE, &[0; 8]),
        [header(SENDER, &sender), negative].concat(),
        [header(SENDER, &sender[1..]), header(SEQUENCE, &[0; 8])].concat(),
        [header(SENDER, &sender), header(SEQUENCE, &[0; 9])].concat(),
        null,
    ];
    seeds.extend(numbered("other", others));
    let mut waits = Clock::new();
    waits.claim_offset(TopicId(parsley_core::Id { msb: 0, lsb: 2 }).partition(0), 3);
    seeds.insert(
        "waits".to_owned(),
        [header(CLOCK, &wire::encode(&waits)), tag].concat(),
    );
    seeds
}

pub fn held_record() -> Seeds {
    let held = bytes("held");
    let mut seeds = numbered("golden", &held);
    let cut = held
        .iter()
        .flat_map(|held| [41, 45, 54, held.len() - 1].map(|end| &held[..end]));
    seeds.extend(numbered("cut", cut));
    let clocks = bytes("clocks")
        .into_iter()
        .filter(|clock| clock.len() < 400);
    let with = clocks.map(|clock| {
        let length = u32::try_from(clock.len()).unwrap();
        let headers = [
            &1_u32.to_be_bytes()[..],
            &1_u32.to_be_bytes(),
            b"h",
            &[0xff; 4],
        ]
        .concat();
        [
            &held[1][..41],
            &length.to_be_bytes(),
            &clock,
            &[0xff; 8],
            &headers,
        ]
        .concat()
    });
    seeds.extend(numbered("clock", with));
    seeds
}

pub fn state_key() -> Seeds {
    let wire = wire_json();
    let golden = wire["state_keys"].as_object().unwrap().iter();
    let mut seeds: Seeds = golden
        .map(|(name, key)| (name.clone(), key.as_str().unwrap().as_bytes().to_vec()))
        .collect();
    let more = [
        "scope",
        "ca",
        "q/",
        "f/00112233-4455-6677-8899-aabbccddeeff:07",
        "",
    ];
    seeds.extend(numbered("other", more));
    seeds
}

fn scope() -> Scope {
    let on = |lsb| TopicId(parsley_core::Id { msb: 0, lsb });
    Scope {
        channels: vec![on(1).partition(0), on(2).partition(0)],
        sinks: vec![on(3)],
    }
}

pub fn state_value() -> Seeds {
    let mut values = vec![
        [&[0], &scope().to_bytes()[..]].concat(),
        [&[0], &Scope::default().to_bytes()[..]].concat(),
        [&[1], &layout::number_to_bytes(7)[..]].concat(),
        [&[1], &[0xff; 8][..]].concat(),
        [&[2], &layout::pair_to_bytes(3, 5)[..]].concat(),
        [&[2], &[0; 15][..]].concat(),
    ];
    let clocks = bytes("clocks").into_iter().chain(bytes("malformed"));
    values.extend(
        clocks
            .filter(|clock| clock.len() < 400)
            .map(|clock| [vec![3], clock].concat()),
    );
    numbered("value", values)
}

/// What a node stores, entry by entry, as the target takes it.
pub fn state() -> Seeds {
    let entry = |kind: u8, value: &[u8]| [vec![kind], part(value)].concat();
    let queued = |kind: u8, index: u8, value: &[u8]| [vec![kind, index], part(value)].concat();
    let scope = entry(0, &scope().to_bytes());
    let held = bytes("held");
    let number = |number| layout::number_to_bytes(number);
    let pair = |a, b| layout::pair_to_bytes(a, b);
    let queue = [
        entry(4, &pair(0, 2)),
        queued(5, 0, &held[0]),
        queued(5, 1, &held[1]),
    ]
    .concat();
    let highest = number(i64::MAX);
    let clock = wire::encode(&{
        let mut clock = Clock::new();
        clock.claim_offset(TopicId(parsley_core::Id { msb: 0, lsb: 2 }).partition(0), 3);
        clock
    });
    let raw = {
        let key = StateKey::Frontier(TopicId::of_name("elsewhere").partition(0)).to_bytes();
        [vec![0x42], part(&key), part(&number(3))].concat()
    };
    let states = [
        scope.clone(),
        [scope.clone(), entry(2, &number(3)), entry(10, &number(4))].concat(),
        [scope.clone(), queue.clone()].concat(),
        [
            scope.clone(),
            queue,
            entry(2, &number(4)),
            entry(6, &number(9)),
        ]
        .concat(),
        [scope.clone(), entry(2, &highest)].concat(),
        [
            scope.clone(),
            entry(6, &highest),
            entry(7, &pair(i64::MAX, i64::MAX)),
        ]
        .concat(),
        [
            scope.clone(),
            entry(1, &clock),
            entry(3, &clock),
            entry(11, &clock),
        ]
        .concat(),
        [scope.clone(), entry(4, &pair(5, 5))].concat(),
        [scope.clone(), entry(4, &pair(i64::MAX, i64::MAX))].concat(),
        [scope.clone(), entry(4, &pair(2, 1))].concat(),
        [scope, raw].concat(),
        entry(2, &number(3)),
        entry(0, &[0; 7]),
    ];
    numbered("state", states)
}

pub fn token() -> Seeds {
    let mut tokens = bytes("clocks");
    tokens.retain(|clock| clock.len() < 500);
    let (a, b) = (TopicId::of_name("a"), TopicId::of_name("b"));
    let claims = [
        vec![(a, 0, 41)],
        vec![(a, 0, 42)],
        vec![(a, 0, 3), (b, 0, i64::MAX)],
        vec![(a, 1, 0)],
        vec![(a, 2, 0)],
        vec![(TopicId::of_name("c"), 0, 1)],
    ];
    tokens.extend(claims.map(|claims| {
        let mut clock = CausalClock::new();
        for (topic, partition, offset) in claims {
            clock.record_produced(topic, partition, offset).unwrap();
        }
        clock.to_bytes()
    }));
    for channel in [a.partition(0), a.partition(1), b.partition(0)] {
        let mut clock = Clock::new();
        clock.claim_sequence(channel, SenderId::of_task("shop", "settle", 0), 5);
        tokens.push(wire::encode(&clock));
    }
    numbered("token", tokens)
}

pub fn clock_line() -> Seeds {
    let clocks = bytes("clocks").into_iter().chain(bytes("malformed"));
    let lines = clocks.map(hex::encode).filter(|line| line.len() <= 512);
    let mut seeds = numbered("hex", lines);
    let wire = wire_json();
    let clocks = wire["clocks"].as_array().unwrap().iter();
    let lines = clocks.map(|entry| entry["clock"].to_string());
    seeds.extend(numbered("json", lines.filter(|line| line.len() <= 512)));
    seeds
}
