//! Deliveries held against dumps: what was delivered is in the log, and is what stands there.

use std::slice;

use super::*;

/// A line that was taken out of a dump was missed by nobody where its sender was unknown, although a trace had it delivered.
#[test]
fn what_is_delivered_stands_in_a_dump_that_covers_it() {
    let dump = [plain("x", 3), plain("x", 4), plain("x", 7)];
    let of = |offsets: &[i64]| -> Vec<Value> {
        let numbered = (0..).zip(offsets);
        numbered
            .map(|(number, offset)| delivered("t", number, "x", *offset))
            .collect()
    };
    let (_, findings, report) = judged(&[&dump, &of(&[3, 4, 7])], &[]);
    assert_eq!((findings.total(), report.tasks.in_log), (0, 3));
    // In either order of the files; what nobody dumped is not missed.
    let gone = [(Kind::NotInLog, Some(5))];
    assert_eq!(found(&[&dump, &of(&[3, 4, 5, 7])]), gone);
    assert_eq!(found(&[&of(&[3, 4, 5, 7]), &dump]), gone);
    assert_eq!(found(&[&dump, &of(&[2, 3, 4, 7, 8])]), []);
    // What lies between two dumps neither; another dump may have it.
    let (head, tail) = (&dump[..2], &dump[2..]);
    assert_eq!(found(&[head, tail, &of(&[3, 4, 5, 7])]), []);
    assert_eq!(found(&[&dump, &[plain("x", 5)], &of(&[3, 4, 5, 7])]), []);
    // Compaction takes records out of the middle.
    let compacted = ["x".to_owned()];
    let (_, findings, report) = judged(&[&dump, &of(&[3, 4, 5, 7])], &compacted);
    assert_eq!((findings.total(), report.tasks.in_log), (0, 0));
}

/// A dump of what is not committed covers nothing, and does not make up for what one of the committed does not have.
#[test]
fn an_aborted_record_that_is_delivered_is_not_in_the_log() {
    let mut aborted = plain("x", 5);
    aborted["isolation"] = "read_uncommitted".into();
    let mut around = [plain("x", 4), plain("x", 6)];
    let told = [4, 5, 6].map(|offset| delivered("t", offset - 4, "x", offset as i64));
    let files = [&around[..], &[aborted.clone()], &told];
    assert_eq!(found(&files), [(Kind::NotInLog, Some(5))]);
    for line in &mut around {
        line["isolation"] = "read_uncommitted".into();
    }
    assert_eq!(found(&[&around, &[aborted], &told]), []);
}

/// Whatever key or value a trace or an account told of a record was right, for they were held against nothing.
#[test]
fn keys_and_values_of_deliveries_are_those_of_the_record() {
    let mut dumped = plain("x", 1);
    (dumped["key"], dumped["value"]) = ("ann".into(), r#"{"a": 1, "b": [2.50, "c"]}"#.into());
    let mut told = delivered("t", 0, "x", 1);
    (told["key"], told["value"]) = ("ann".into(), json!({"b": [2.5, "c"], "a": 1}));
    let contradiction = [(Kind::Contradiction, Some(1))];
    let both = |dumped: &Value, told: &Value| {
        let orders = [[dumped, told], [told, dumped]];
        let [first, second] =
            orders.map(|[first, second]| found(&[slice::from_ref(first), slice::from_ref(second)]));
        assert_eq!(first, second);
        first
    };
    assert_eq!(both(&dumped, &told), []);
    for (field, other) in [
        ("key", json!("bob")),
        ("key", Value::Null),
        ("value", json!({"a": 2, "b": [2.5, "c"]})),
        ("value", json!({"a": "1", "b": [2.5, "c"]})),
        ("value", json!({"a": 1, "b": ["c", 2.5]})),
        ("value", Value::Null),
    ] {
        let mut differs = told.clone();
        differs[field] = other;
        assert_eq!(both(&dumped, &differs), contradiction, "{differs}");
        // A line that does not tell contradicts nothing.
        differs.as_object_mut().unwrap().remove(field);
        assert_eq!(both(&dumped, &differs), [], "{differs}");
    }
    // A value that is no JSON is in no trace as it was given.
    dumped["value"] = "v".into();
    assert_eq!(both(&dumped, &told), []);
    // A key that is no text is in an account in hexadecimal, and in a trace not as it was given.
    let fields = dumped.as_object_mut().unwrap();
    fields.remove("key");
    fields.insert("key_hex".to_owned(), "fe00".into());
    told["key"] = "\u{fffd}\0".into();
    assert_eq!(both(&dumped, &told), []);
    told["key"] = "a".into();
    assert_eq!(both(&dumped, &told), contradiction);

    let entry = |key: Value| {
        let value = json!({"delivered": {"stage": "s", "partition": 0, "execution": 0, "topic": "x", "channel": channel("x"),
                                         "offset": 1, "arrival": 0, "timestamp_ms": 1, "clock": "010000000000000000", "key_hex": key}});
        let mut line = plain("account", 0);
        line["value"] = value.to_string().into();
        line
    };
    assert_eq!(both(&dumped, &entry("fe00".into())), []);
    assert_eq!(both(&dumped, &entry("fe01".into())), contradiction);
    assert_eq!(both(&dumped, &entry(Value::Null)), contradiction);
}
