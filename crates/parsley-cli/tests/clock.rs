//! `parsley clock` against the golden bytes.

mod running;

use running::{parsley, workspace};
use serde_json::{Value, json};

fn vectors() -> Value {
    let text = std::fs::read_to_string(workspace("testdata/wire.json")).expect("vectors");
    serde_json::from_str(&text).expect("JSON")
}

fn text<'a>(vector: &'a Value, field: &str) -> &'a str {
    vector[field].as_str().expect("a text")
}

/// The entries of a vector's clock in the order of its bytes: that of the signed halves, partition, signed halves of the sender.
fn in_clock_order(clock: &Value) -> Value {
    let halves = |uuid: &Value| {
        let digits = uuid.as_str().expect("a UUID").replace('-', "");
        let half = |digits: &str| {
            u64::from_str_radix(digits, 16)
                .expect("hexadecimal")
                .cast_signed()
        };
        (half(&digits[..16]), half(&digits[16..]))
    };
    let mut offsets = clock["offsets"].as_array().expect("offsets").clone();
    offsets.sort_by_key(|entry| (halves(&entry["topic"]), entry["partition"].as_i64()));
    let mut sequences = clock["sequences"].as_array().expect("sequences").clone();
    sequences.sort_by_key(|entry| {
        (
            halves(&entry["topic"]),
            entry["partition"].as_i64(),
            halves(&entry["sender"]),
        )
    });
    json!({"offsets": offsets, "sequences": sequences})
}

#[test]
fn golden_clocks_decode_and_encode() {
    let vectors = vectors();
    let clocks = vectors["clocks"].as_array().expect("clocks");
    assert!(clocks.len() >= 6);
    let hex: Vec<&str> = clocks.iter().map(|vector| text(vector, "hex")).collect();
    let expected: Vec<Value> = clocks
        .iter()
        .map(|vector| in_clock_order(&vector["clock"]))
        .collect();

    let mut arguments = vec!["clock", "decode"];
    arguments.extend(&hex);
    let decoded = parsley(&arguments, b"");
    assert_eq!((decoded.code, decoded.stderr.as_str()), (0, ""));
    assert_eq!(decoded.lines(), expected);

    // Unsorted on purpose, as the vectors list them.
    let unsorted: String = clocks
        .iter()
        .map(|vector| format!("{}\n", vector["clock"]))
        .collect();
    let encoded = parsley(&["clock", "encode", "-"], unsorted.as_bytes());
    assert_eq!((encoded.code, encoded.stderr.as_str()), (0, ""));
    assert_eq!(encoded.stdout.lines().collect::<Vec<_>>(), hex);
}

#[test]
fn decode_then_encode_is_the_identity() {
    let vectors = vectors();
    let hex: String = vectors["clocks"]
        .as_array()
        .expect("clocks")
        .iter()
        .map(|v| format!("{}\n", text(v, "hex")))
        .collect();
    let decoded = parsley(&["clock", "decode", "-"], hex.as_bytes());
    assert_eq!(decoded.code, 0, "{}", decoded.stderr);
    let encoded = parsley(&["clock", "encode", "-"], decoded.stdout.as_bytes());
    assert_eq!(encoded.code, 0, "{}", encoded.stderr);
    assert_eq!(encoded.stdout, hex);
    let again = parsley(&["clock", "decode", "-"], encoded.stdout.as_bytes());
    assert_eq!(again.stdout, decoded.stdout);
}

#[test]
fn malformed_clocks_exit_with_4_and_say_what_and_where() {
    let vectors = vectors();
    let malformed = vectors["malformed"].as_array().expect("malformed");
    assert!(malformed.len() >= 12);
    for vector in malformed {
        let (why, hex) = (text(vector, "why"), text(vector, "hex"));
        let run = parsley(&["clock", "decode", "010000000000000000", hex], b"");
        assert_eq!(run.code, 4, "{why}");
        assert_eq!(run.stdout, "{\"offsets\":[],\"sequences\":[]}\n", "{why}");
        assert!(
            run.stderr.starts_with("parsley: argument 2: "),
            "{why}: {}",
            run.stderr
        );
        assert_eq!(run.stderr.lines().count(), 1, "{why}: {}", run.stderr);
        if !hex.is_empty() {
            let run = parsley(&["clock", "decode", "-"], format!("\n{hex}\n").as_bytes());
            assert_eq!((run.code, run.stdout.as_str()), (4, ""), "{why}");
            assert!(
                run.stderr.starts_with("parsley: line 2: "),
                "{why}: {}",
                run.stderr
            );
        }
    }
}

#[test]
fn bytes_of_any_cut_of_a_clock_are_malformed() {
    let hex = "010000000100112233445566778899aabbccddeeff00000007000000000000002a00000000";
    for bytes in 0..hex.len() / 2 {
        let run = parsley(&["clock", "decode", &hex[..bytes * 2]], b"");
        assert_eq!(run.code, 4, "{bytes}: {}", run.stdout);
    }
}

#[test]
fn input_that_is_no_hexadecimal_line_exits_with_4() {
    for (input, reason) in [
        (&b"01000000000000000"[..], "line 1: not hexadecimal"),
        (b"\n \n010000000000000000\nxy\n", "line 4: not hexadecimal"),
        (
            "\u{feff}010000000000000000\n".as_bytes(),
            "line 1: found a byte order mark, expected hexadecimal",
        ),
        (b"\xff\xfe\n", "line 1: not UTF-8 from byte 0 on"),
    ] {
        let run = parsley(&["clock", "decode", "-"], input);
        assert_eq!(run.code, 4);
        assert!(run.stderr.contains(reason), "{}", run.stderr);
    }
}

/// Among other clocks `-` was taken for a clock that is not hexadecimal.
#[test]
fn standard_input_stands_alone() {
    for arguments in [
        &["clock", "decode", "-", "010000000000000000"][..],
        &["clock", "decode", "010000000000000000", "-"],
        &["clock", "decode", "-", "-"],
    ] {
        let run = parsley(arguments, b"");
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{arguments:?}");
        assert_eq!(
            run.stderr,
            "parsley: found `-` among other clocks, expected it alone: it reads clocks from standard input\n"
        );
    }
}

#[test]
fn blank_lines_are_skipped_and_json_changes_nothing() {
    let run = parsley(
        &["clock", "decode", "--json", "-"],
        b"\n010000000000000000\n   \n\n010000000000000000",
    );
    assert_eq!(run.code, 0);
    assert_eq!(
        run.stdout,
        "{\"offsets\":[],\"sequences\":[]}\n{\"offsets\":[],\"sequences\":[]}\n"
    );
    assert_eq!(parsley(&["clock", "decode", "-"], b"").stdout, "");
}

#[test]
fn json_that_is_no_clock_exits_with_4_and_says_what_and_where() {
    let topic = "00112233-4455-6677-8899-aabbccddeeff";
    let offset = |partition: i64, offset: i64| json!({"topic": topic, "partition": partition, "offset": offset});
    let sequence = |sequence: i64| json!({"topic": topic, "partition": 0, "sender": topic, "sequence": sequence});
    let clock = |offsets: Vec<Value>, sequences: Vec<Value>| {
        json!({"offsets": offsets, "sequences": sequences}).to_string()
    };
    for (line, reason) in [
        (
            clock(vec![offset(0, 1), offset(1, 1), offset(0, 2)], vec![]),
            format!("offsets: {topic}:0 is listed twice"),
        ),
        (
            clock(vec![], vec![sequence(1), sequence(1)]),
            format!("sequences: {topic}:0 of {topic} is listed twice"),
        ),
        (
            clock(vec![offset(0, -1)], vec![]),
            "found -1, expected a whole number from 0 to 9223372036854775807".to_owned(),
        ),
        (
            clock(vec![offset(-1, 1)], vec![]),
            "found -1, expected a whole number from 0 to 2147483647".to_owned(),
        ),
        (
            clock(vec![], vec![sequence(-7)]),
            "found -7, expected a whole number from 0 to 9223372036854775807".to_owned(),
        ),
        (
            clock(vec![offset(1 << 31, 1)], vec![]),
            "found 2147483648, expected a whole number from 0 to 2147483647".to_owned(),
        ),
        (
            "{\"offsets\": [], \"x\": 1}".to_owned(),
            "found the unknown key `x`, expected `offsets` or `sequences`".to_owned(),
        ),
        (
            "{\"offsets\": [], \"offsets\": []}".to_owned(),
            "found `offsets` twice, expected it once".to_owned(),
        ),
        (
            format!("{{\"offsets\": [[\"{topic}\", 0, 1]]}}"),
            "expected an object".to_owned(),
        ),
        ("[[], []]".to_owned(), "expected an object".to_owned()),
        (
            "{\"offsets\": [{\"topic\": \"t\", \"partition\": 0, \"offset\": 0}]}".to_owned(),
            "found `t`, expected a UUID such as ".to_owned(),
        ),
        ("{".to_owned(), "found the end of the line".to_owned()),
        (
            "\u{feff}{}".to_owned(),
            "found a byte order mark".to_owned(),
        ),
    ] {
        let run = parsley(
            &["clock", "encode", "-"],
            format!("{{\"offsets\":[],\"sequences\":[]}}\n{line}\n").as_bytes(),
        );
        assert_eq!(run.code, 4, "{line}");
        assert_eq!(run.stdout, "010000000000000000\n", "{line}");
        assert!(
            run.stderr.starts_with("parsley: line 2: "),
            "{line}: {}",
            run.stderr
        );
        assert!(run.stderr.contains(&reason), "{line}: {}", run.stderr);
    }
}
