//! `parsley probe` on a broker: what it finds, and how it ends.

use parsley_kafka::Description;
use parsley_stage::{App, Stage, Topic, codec};

use crate::running::{Run, parsley, parsley_with};
use crate::world::{Foreign, bootstrap, create_compacted_topic, create_topic};

/// `<name>-in` to `<name>-out`.
fn described(name: &str) -> String {
    let topic = |part: &str| Topic::new(format!("{name}-{part}"), codec::string(), codec::string());
    let (input, sink) = (topic("in"), topic("out"));
    let copy = Stage::stateless("copy")
        .sink(&sink)
        .on(&input, |_, _| Ok(()))
        .build();
    let app = App::named(name).stage(copy.unwrap()).build().unwrap();
    Description::of(&app).to_string()
}

fn probe(description: &str, more: &[&str]) -> Run {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, description).unwrap();
    let brokers = bootstrap();
    let path = file.path().to_str().unwrap();
    let mut args = vec!["probe", "--brokers", &brokers, "--config", path];
    args.extend(more);
    parsley(&args, b"")
}

#[test]
fn what_a_host_would_refuse_is_found_and_then_it_is_not() {
    let name = "cli-probe";
    let description = described(name);
    create_topic("cli-probe-in", 2);
    let run = probe(&description, &[]);
    assert_eq!(run.code, 1, "{run:?}");
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert!(
        lines[0].starts_with(
            "error probe-topic-there: stage copy: these topics do not exist: cli-probe-out;"
        ),
        "{run:?}"
    );
    assert_eq!(lines.last(), Some(&"1 error, 2 notes"), "{run:?}");

    create_topic("cli-probe-out", 1);
    let run = probe(&description, &[]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.stdout.ends_with("0 errors, 2 notes\n"), "{run:?}");
    assert!(
        run.stdout
            .lines()
            .next()
            .unwrap()
            .starts_with("note probe-changelog-made:"),
        "{run:?}"
    );

    // The account, and settings of the host, come from the file; properties from the command line as well.
    let with_account = format!("account = \"cli-probe-none\"\n{description}");
    let run = probe(&with_account, &[]);
    assert!(
        run.code == 1 && run.stdout.contains("cli-probe-none"),
        "{run:?}"
    );
    let with_host = format!("{description}\n[host.changelog]\nreplication = 3\n");
    let run = probe(&with_host, &[]);
    assert!(
        run.code == 1 && run.stdout.contains("error probe-changelog-made"),
        "{run:?}"
    );
    let run = probe(&description, &["--property", "group.id=mine"]);
    assert!(
        run.code == 1 && run.stdout.contains("error probe-configuration"),
        "{run:?}"
    );
}

#[test]
fn what_describes_no_application_is_malformed() {
    for (description, said) in [
        ("", "application"),
        ("application = 7", "line 1"),
        ("application = \"a\"\nstage = []\n", "has no stage"),
        (
            "application = \"a\"\n[[stage]]\nname = \"s\"\ninputs = []\n",
            "has no input",
        ),
        ("application = \"a\"\nunknown = 1\nstage = []\n", "unknown"),
        (
            "application = \"a\"\n[host]\nworkers = \"two\"\n[[stage]]\nname = \"s\"\ninputs = [\"t\"]\n",
            "host: ",
        ),
        (
            "application = \"a\"\n[host]\nbrokers = \"other:9092\"\n[[stage]]\nname = \"s\"\ninputs = [\"t\"]\n",
            "brokers is no part of a description",
        ),
    ] {
        let run = probe(description, &[]);
        assert_eq!(run.code, 2, "{description}: {run:?}");
        assert!(run.stderr.contains(said), "{description}: {run:?}");
        assert_eq!(run.stdout, "");
    }
    let run = parsley(
        &[
            "probe",
            "--brokers",
            &bootstrap(),
            "--config",
            "/no/such/file",
        ],
        b"",
    );
    assert_eq!(run.code, 5, "{run:?}");
}

/// State is read into a temporary directory. Where there is none, the cluster was said to have failed.
#[test]
fn a_temporary_directory_that_is_not_there_is_told_as_such() {
    let name = "cli-probe-directory";
    let description = described(name);
    create_topic(&format!("{name}-in"), 1);
    create_topic(&format!("{name}-out"), 1);
    let changelog = format!("{name}-copy-state-changelog");
    create_compacted_topic(&changelog, 1);
    Foreign::plain().append(&changelog, 0, (Some(b"k"), Some(b"v")), &[]);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, &description).unwrap();
    let (brokers, path) = (bootstrap(), file.path().to_str().unwrap().to_owned());
    let args = ["probe", "--brokers", &brokers, "--config", &path];
    let run = parsley_with(&args, b"", &[("TMPDIR", "/no/such/directory")]);
    assert_eq!((run.code, run.stdout.as_str()), (5, ""), "{run:?}");
    assert!(
        run.stderr
            .contains("no temporary directory to read state into"),
        "{run:?}"
    );
    // What was put there is no state, and no host takes it for one.
    let run = parsley(&args, b"");
    assert_eq!(run.code, 1, "{run:?}");
}

#[test]
fn a_cluster_that_does_not_answer_is_no_finding() {
    // A port that nobody listens at.
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, described("cli-probe-nobody")).unwrap();
    let args = [
        "probe",
        "--brokers",
        "127.0.0.1:1",
        "--config",
        file.path().to_str().unwrap(),
    ];
    let run = parsley(&args, b"");
    assert_eq!((run.code, run.stdout.as_str()), (6, ""), "{run:?}");
}
