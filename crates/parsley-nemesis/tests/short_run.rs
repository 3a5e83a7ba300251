//! A short run on three brokers: every kind of fault once, in fixed rows.

#![forbid(unsafe_code)]

mod on_kafka_nemesis {
    use std::path::{Path, PathBuf};
    use std::process::Command;
    use std::time::Duration;

    use parsley_nemesis::act::Act;
    use parsley_nemesis::run::{Disturbance, Plan, run};
    use parsley_nemesis::schedule::rows;

    /// The program `parsley`, built as this test is: for a test, and with the features of the whole workspace, so that the gate builds nothing twice.
    fn parsley() -> PathBuf {
        let folder = Path::new(env!("CARGO_BIN_EXE_nemesis")).parent().unwrap();
        let mut build = Command::new(env!("CARGO"));
        build.args(["test", "--no-run", "--quiet", "--locked", "--workspace"]);
        build.args(["--features", "parsley-bench/kafka", "--test", "program"]);
        if folder.ends_with("release") {
            build.arg("--release");
        }
        build.env("CARGO_TARGET_DIR", folder.parent().unwrap());
        assert!(build.status().unwrap().success());
        folder.join("parsley")
    }

    /// Each kind of fault at least once under load: nothing is delivered out of order, twice, or not at all, each effect stands once, every refusal
    /// is of the spare application and follows from a fault, no instance ends or panics by itself, and everything drains.
    #[test]
    fn every_kind_of_fault_once_and_nothing_is_wrong() {
        let folder = tempfile::Builder::new()
            .prefix("nemesis-")
            .tempdir()
            .unwrap();
        let outcome = run(&Plan {
            seed: 1,
            commands: 300,
            feed_over: Duration::from_secs(60),
            disturbance: Disturbance::Rows(rows()),
            heap_mb: 256,
            program: env!("CARGO_BIN_EXE_nemesis").into(),
            parsley: parsley(),
            folder: folder.path().to_owned(),
            is_quiet: false,
        })
        .unwrap();
        println!("{:#}", outcome.figures);
        if !outcome.is_right() {
            let kept = folder.keep();
            let wrong = outcome.what_is_wrong().join("\n");
            panic!("{wrong}\nthe evidence is in {}", kept.display());
        }
        for kind in rows().into_iter().flatten().map(Act::kind) {
            assert!(outcome.faults.contains_key(kind), "{kind}");
        }
        assert!(outcome.verdict.deliveries >= 2000);
        let held = outcome.figures["held"].as_u64().unwrap();
        assert!(held > 50, "only {held} records had to wait");
        // The spare application was stopped by faults, and went on.
        assert!(!outcome.figures["refusals"].as_array().unwrap().is_empty());
    }
}
