//! What fuzz targets do with what a person or a file gives the program (`docs/verification.md`, Fuzzing). Every function panics when
//! something that it asserts does not hold.

#[cfg(feature = "kafka")]
mod dumped;

#[cfg(feature = "kafka")]
pub use dumped::dumped_record;

use std::fmt;
use std::io::BufReader;
use std::str::FromStr;

use parsley_core::wire;
use parsley_sim::shrink::Keep;
use serde::de::IgnoredAny;

use crate::brokers::Brokers;
use crate::clock;
use crate::demo;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::input::Input;
use crate::lines::{Line, Lines};
use crate::script;
use crate::script::names::ChannelName;
use crate::sim::seeds;
use crate::topic::check;
use crate::topic::dump;

/// Every line of an output is JSON; returns how many there are.
fn json_lines(out: &[u8]) -> usize {
    let lines = out.split_inclusive(|byte| *byte == b'\n');
    lines
        .map(|line| {
            assert!(line.ends_with(b"\n"));
            serde_json::from_slice::<IgnoredAny>(line).expect("a line of JSON");
        })
        .count()
}

/// A script is answered in lines of JSON. What is malformed is named with its line, which there is.
pub fn node_script(bytes: &[u8]) {
    let mut out = Vec::new();
    let unreadable = |error| panic!("bytes can be read: {error}");
    let answered = script::answer(BufReader::new(bytes), unreadable, &mut out);
    json_lines(&out);
    match answered {
        Ok(exit) => assert!(matches!(exit, Exit::Done | Exit::Refused)),
        Err(failure) => {
            assert_eq!(failure.exit(), Exit::Usage, "{failure}");
            let told = failure.to_string();
            let line = told
                .strip_prefix("line ")
                .and_then(|rest| rest.split_once(": "));
            let (line, reason) = line.unwrap_or_else(|| panic!("no line: {told}"));
            let line: usize = line.parse().expect("a number");
            let lines = bytes.split(|byte| *byte == b'\n').count();
            assert!((1..=lines).contains(&line) && !reason.is_empty(), "{told}");
        }
    }
}

/// Lines are judged, or named as malformed, and the report is lines of JSON which are the same when the lines are judged again.
pub fn judged_lines(bytes: &[u8]) {
    let options = check::Options {
        inputs: vec![Input::standard(), Input::standard()],
        show: 8,
        compacted: vec!["c".to_owned()],
    };
    let judge = || {
        let (mut out, mut apart) = (Vec::new(), Vec::new());
        let open = |_: &Input| Ok(BufReader::new(bytes));
        let exit = check::judge_lines(&options, open, &mut out, &mut apart);
        (exit, out, apart)
    };
    let (exit, out, apart) = judge();
    let lines = json_lines(&out);
    assert!(lines >= 1, "the summary at least");
    let is_named = !apart.is_empty();
    match exit {
        Ok(Exit::MalformedData) => assert!(is_named),
        Ok(Exit::Failed) => assert!(lines > 1 && !is_named),
        Ok(Exit::Done) => assert!(lines == 1 && !is_named),
        Err(Failure::Topic(_)) => assert!(!is_named),
        Ok(exit) => panic!("it does not end with {exit:?}"),
        Err(failure) => panic!("{failure}"),
    }
    let (_, same, apart_too) = judge();
    assert_eq!((same, apart_too), (out, apart));
}

/// A clock in JSON or in hexadecimal is read, and written so that it is read again.
pub fn clock_line(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let text = text.trim();
    let clock = match clock::json::read(text) {
        Ok(clock) => clock,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            match clock::decoded(text) {
                Ok(clock) => {
                    assert_eq!(wire::encode(&clock).len() * 2, text.len());
                    clock
                }
                Err(fault) => return assert!(!fault.to_string().is_empty()),
            }
        }
    };
    let mut written = Vec::new();
    clock::json::write(&clock, &mut written).expect("memory takes it");
    let written = std::str::from_utf8(&written).expect("JSON is text");
    let again = clock::json::read(written.trim_end()).expect("what was written");
    assert_eq!(again, clock);
    let digits = hex::encode(wire::encode(&clock));
    assert_eq!(clock::decoded(&digits).expect("what was written"), clock);
}

/// A command of the demo has an account that it can keep.
pub fn demo_command(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    match demo::command::parse(text) {
        Ok(command) => {
            assert!(command.account.len() <= demo::command::ACCOUNT_BYTES_MAX);
            let written = serde_json::to_vec(&command.command).expect("a command is JSON");
            let again: demo::command::Command =
                serde_json::from_slice(&written).expect("what was written");
            assert_eq!(again, command.command);
        }
        Err(fault) => assert!(!fault.to_string().is_empty()),
    }
}

/// An argument of the command line, of the kind that the first byte says: what is read is written so that it is read again.
pub fn argument(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    match kind % 8 {
        0 => same::<Keep>(text),
        1 => same::<ChannelName>(text),
        2 => same::<demo::topology::At>(text),
        3 => {
            if let Ok(brokers) = text.parse::<Brokers>() {
                assert_eq!(brokers.as_str(), text);
            }
        }
        4 => {
            if let Ok(seeds) = seeds::seeds(text) {
                assert!(seeds.start < seeds.end);
                let again = seeds::seeds(&format!("{}..{}", seeds.start, seeds.end));
                assert_eq!(again, Ok(seeds));
            }
            if let Ok(seed) = seeds::seed(text) {
                assert_eq!(seeds::seeds(text), Ok(seed..seed + 1));
            }
        }
        5 => {
            // Its addresses are those of the standard library.
            let _ = text.parse::<demo::status::StatusAddress>();
        }
        6 => {
            if let Ok(dump::From::Offset(number) | dump::From::Timestamp(number)) = text.parse() {
                assert!(number >= 0);
            }
        }
        _ => {
            let plain = crate::plain::plain(text);
            assert!(!plain.chars().any(char::is_control));
            assert!(plain.chars().count() <= 10 * 400 + 5);
            assert!(crate::plain::clipped(text).chars().count() <= 64 + 3);
        }
    }
}

fn same<T: FromStr + fmt::Display + PartialEq>(text: &str) {
    if let Ok(read) = text.parse::<T>() {
        let written = read.to_string();
        let again = written.parse::<T>();
        assert!(
            again.is_ok_and(|again| again == read),
            "{text:?} became {written:?}"
        );
    }
}

/// Lines are those that a split at newlines gives, whatever the size of the buffer; one that is too long, or no text, is told.
pub fn lines(bytes: &[u8]) {
    let Some((&[buffer, limit], bytes)) = bytes.split_first_chunk() else {
        return;
    };
    let limit = usize::from(limit);
    let reader = BufReader::with_capacity(usize::from(buffer % 32) + 1, bytes);
    let mut lines = Lines::new(reader, limit);
    if buffer & 0x80 != 0 {
        lines = lines.digesting();
    }
    let mut expected: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    expected.pop_if(|last| last.is_empty());
    let mut number = 0;
    while let Some((found, line)) = lines.next().expect("bytes can be read") {
        let expected = expected[number];
        number += 1;
        assert_eq!(found, number as u64);
        match line {
            Line::Text(text) => assert_eq!(text.as_bytes(), expected),
            Line::TooLong => assert!(expected.len() > limit),
            Line::NotUtf8 { valid_up_to } => {
                assert!(std::str::from_utf8(&expected[..valid_up_to]).is_ok());
                assert!(std::str::from_utf8(expected).is_err());
            }
        }
    }
    assert_eq!(number, expected.len());
    assert_eq!(lines.bytes(), bytes.len() as u64);
}
