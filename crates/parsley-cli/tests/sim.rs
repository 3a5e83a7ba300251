//! `parsley sim`, as a program: what it prints, and how it ends.

mod running;

use std::process::{Command, Stdio};

use parsley_sim::run::Request;
use parsley_sim::{Sabotage, scenarios};
use running::{Run, parsley};
use serde_json::Value;

const RACE: &str = "shared-input-race";

fn sim(arguments: &str) -> Run {
    let arguments: Vec<&str> = ["sim"]
        .into_iter()
        .chain(arguments.split_whitespace())
        .collect();
    parsley(&arguments, b"")
}

/// The arguments of the one command that a report gives.
fn replay_command(run: &Run) -> String {
    let command = run
        .stdout
        .lines()
        .find_map(|line| line.trim().strip_prefix("REPLAY: "));
    let command = command.unwrap_or_else(|| panic!("no command in {}", run.stdout));
    let arguments = command.strip_prefix("cargo run --release -p parsley-cli -- sim ");
    arguments.expect("a command of this program").to_owned()
}

fn numbers(value: &Value, names: &[&str]) -> Vec<u64> {
    let number = |name: &&str| {
        let found = value[*name].as_u64();
        found.unwrap_or_else(|| panic!("{name} in {value}"))
    };
    names.iter().map(number).collect()
}

#[test]
fn everything_that_has_a_name_is_listed() {
    let run = sim("list --json");
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let lines = run.lines();
    assert_eq!(lines.len(), 1);
    let text = sim("list");
    assert_eq!((text.code, text.stderr.as_str()), (0, ""));
    for (list, known) in [
        ("scenarios", RACE),
        ("scenarios", "wide-soak"),
        ("sabotages", "eager"),
        ("faults", "h7-sends-without-rounds"),
        ("worlds", "triangle"),
    ] {
        let names = lines[0][list].as_array().expect("a list of names");
        assert!(names.iter().any(|name| name == known), "{known}");
        for name in names {
            let name = name.as_str().expect("a name");
            let row = format!("\n  {name} ");
            assert!(text.stdout.contains(&row), "{name}");
        }
    }
}

#[test]
fn a_suite_that_holds_says_so_for_people() {
    let run = sim("run --scenario shared-input-race --seeds 0..40");
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    let lines: Vec<&str> = run.stdout.lines().collect();
    let head: Vec<&str> = lines[0].split_whitespace().collect();
    assert_eq!(
        head,
        [
            "scenario",
            "seeds",
            "steps",
            "deliveries",
            "holds",
            "crashes",
            "advances",
            "violations",
            "floors"
        ]
    );
    let row: Vec<&str> = lines[1].split_whitespace().collect();
    assert_eq!((row[0], row[1], row[8]), (RACE, "40", "met"));
    assert_eq!(lines.last(), Some(&"All 40 runs held."));
}

#[test]
fn a_suite_that_holds_says_so_for_programs() {
    let run = sim("run --scenario shared-input-race --seeds 10..50 --json");
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    let lines = run.lines();
    assert_eq!(lines.len(), 2);
    let (scenario, summary) = (&lines[0], &lines[1]["summary"]);
    assert_eq!(scenario["scenario"], RACE);
    assert_eq!(
        numbers(scenario, &["seeds", "violations"]),
        [40, 0],
        "{scenario}"
    );
    assert!(scenario["floors"][0]["met"].as_bool().expect("a floor"));
    let keys: Vec<&String> = summary.as_object().expect("an object").keys().collect();
    let expected = [
        "scenarios",
        "seeds",
        "steps",
        "deliveries",
        "holds",
        "crashes",
        "restores_with_holds",
        "position_advances",
        "violations",
        "floors_missed",
    ];
    assert_eq!(keys, expected);
    let values = numbers(summary, &expected);
    assert_eq!((values[0], values[1]), (1, 40));
    assert_eq!((values[8], values[9]), (0, 0));
    assert!(values[2] > values[3] && values[3] > values[4] && values[4] > 0);
    for name in ["steps", "deliveries", "holds", "crashes"] {
        assert_eq!(scenario["counts"][name], summary[name], "{name}");
    }
}

#[test]
fn all_scenarios_and_all_seeds_are_counted_whatever_the_threads() {
    let run = |jobs: &str| sim(&format!("run --seeds 0..4 --json --jobs {jobs}"));
    // Of four seeds no floor is due.
    let (one, three) = (run("1"), run("3"));
    assert_eq!((one.code, one.stderr.as_str()), (0, ""));
    assert!(one.stdout == three.stdout);
    let lines = one.lines();
    let (summary, reports) = lines.split_last().expect("a summary");
    assert_eq!(reports.len(), scenarios::all().len());
    let sum: u64 = reports
        .iter()
        .flat_map(|report| numbers(&report["counts"], &["deliveries"]))
        .sum();
    assert_eq!(numbers(&summary["summary"], &["deliveries"]), [sum]);
}

#[test]
fn a_floor_that_is_missed_is_a_failure() {
    let scenario = scenarios::named(RACE).expect("the scenario");
    let holds = |seed| {
        let request = Request {
            scenario,
            seed,
            trace: false,
        };
        request.run(Sabotage::None).counts.holds
    };
    // Five seeds of which none holds anything back.
    let start = (0..10_000)
        .find(|&start| (start..start + 5).all(|seed| holds(seed) == 0))
        .expect("such seeds");
    let arguments = format!("run --scenario {RACE} --seeds {start}..{}", start + 5);
    let run = sim(&arguments);
    assert_eq!((run.code, run.stderr.as_str()), (1, ""), "{}", run.stdout);
    let line =
        format!("\nFLOOR of {RACE} missed: \"a record was held\" on 0 of 5 seeds, expected 1\n");
    assert!(run.stdout.contains(&line), "{}", run.stdout);
    assert!(run.stdout.contains("1 of 1 missed"), "{}", run.stdout);
    let run = sim(&format!("{arguments} --json"));
    assert_eq!(run.code, 1);
    let lines = run.lines();
    assert_eq!(lines[0]["floors"][0]["met"], false);
    assert_eq!(numbers(&lines[1]["summary"], &["floors_missed"]), [1]);
}

#[test]
fn a_sabotage_that_is_caught_is_a_success() {
    for (wrong, rule) in [
        ("--sabotage eager", "causal order"),
        ("--fault h1-feeds-out-of-order", "unexpected refusal"),
    ] {
        let arguments = format!("run --scenario {RACE} --seeds 0..40 {wrong}");
        let run = sim(&arguments);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
        let caught = format!("VIOLATION of \"{rule}\" in {RACE}, seed ");
        assert!(run.stdout.contains(&caught), "{}", run.stdout);
        let last = run.stdout.lines().last().expect("a line");
        assert!(last.starts_with("Caught in "), "{last}");
        assert!(
            last.ends_with(" of 40 runs, by 1 of 1 scenarios."),
            "{last}"
        );

        let run = sim(&format!("{arguments} --json"));
        assert_eq!(run.code, 0);
        let lines = run.lines();
        let [violations] = numbers(&lines[0], &["violations"])[..] else {
            panic!("one number");
        };
        assert!(violations > 0);
        assert_eq!(numbers(&lines[0]["rules"], &[rule]), [violations]);
        let summary = &lines[1]["summary"];
        assert_eq!(
            numbers(summary, &["violations", "floors_missed"]),
            [violations, 0]
        );
        let first = &lines[0]["violating"][0];
        assert_eq!(first["rule"], rule);
        let command = first["replay"].as_str().expect("a command");
        let seed = first["seed"].as_u64().expect("a seed");
        assert!(command.contains(&format!(" --seed {seed} {wrong}")));
    }
}

#[test]
fn a_sabotage_that_slips_through_is_a_failure() {
    // Nothing crashes in that scenario.
    let arguments =
        format!("run --scenario {RACE} --seeds 0..40 --sabotage forget-held-at-restore");
    let run = sim(&arguments);
    assert_eq!((run.code, run.stderr.as_str()), (1, ""));
    assert_eq!(
        run.stdout.lines().last(),
        Some("Slipped through: none of 40 runs noticed.")
    );
    let run = sim(&format!("{arguments} --json"));
    assert_eq!(run.code, 1);
    let summary = &run.lines()[1]["summary"];
    assert_eq!(numbers(summary, &["violations", "floors_missed"]), [0, 0]);
}

#[test]
fn the_naive_model_in_the_place_of_the_node_is_judged_like_the_node() {
    let node = sim(&format!("run --scenario {RACE} --seeds 0..40 --json"));
    let model = sim(&format!(
        "run --scenario {RACE} --seeds 0..40 --json --model"
    ));
    assert_eq!((model.code, model.stdout), (0, node.stdout));
}

#[test]
fn a_report_gives_the_command_that_shows_the_same_again() {
    let run = sim(&format!(
        "run --scenario {RACE} --seeds 0..40 --sabotage eager"
    ));
    let report = run.stdout.find("VIOLATION of").expect("a report");
    let report: String = run.stdout[report..]
        .lines()
        .take_while(|line| !line.is_empty())
        .map(|line| format!("{line}\n"))
        .collect();
    let replayed = sim(&replay_command(&run));
    assert_eq!((replayed.code, replayed.stderr.as_str()), (1, ""));
    assert!(
        replayed.stdout.ends_with(&report),
        "{report} is not in {}",
        replayed.stdout
    );
    assert!(
        replayed
            .stdout
            .starts_with("scenario shared-input-race seed ")
    );
}

#[test]
fn a_replay_that_holds_shows_everything() {
    let run = sim(&format!("replay --scenario {RACE} --seed 3"));
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert!(
        run.stdout
            .starts_with("scenario shared-input-race seed 3\n")
    );
    let last = run.stdout.lines().last().expect("a line");
    assert!(last.starts_with("right: "), "{last}");
    // Byte for byte the same in another process.
    let again = sim(&format!("replay --scenario {RACE} --seed 3"));
    assert_eq!(again.stdout, run.stdout);

    let part = sim(&format!(
        "replay --scenario {RACE} --seed 3 --keep 0-1 --idle bill"
    ));
    assert_eq!((part.code, part.stderr.as_str()), (0, ""));
    assert!(!part.stdout.contains("bill/0"), "{}", part.stdout);
    let nothing = sim(&format!("replay --scenario {RACE} --seed 3 --keep none"));
    assert_eq!((nothing.code, nothing.stderr.as_str()), (0, ""));
    assert!(!nothing.stdout.contains("delivered"), "{}", nothing.stdout);
}

#[test]
fn a_replay_can_be_a_picture() {
    let html = sim(&format!("replay --scenario {RACE} --seed 3 --format html"));
    assert_eq!((html.code, html.stderr.as_str()), (0, ""));
    assert!(html.stdout.starts_with("<!DOCTYPE html>"));
    let shiviz = sim(&format!(
        "replay --scenario {RACE} --seed 3 --sabotage drop-delivered-term --format shiviz"
    ));
    assert!(shiviz.stdout.starts_with("(?<host>"), "{}", shiviz.stdout);
}

#[test]
fn a_diagram_is_written_to_its_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let (page, log) = (
        directory.path().join("run.html"),
        directory.path().join("run.log"),
    );
    let draw = |path: &std::path::Path, more: &str| {
        sim(&format!(
            "diagram --scenario {RACE} --seed 3 --out {} {more}",
            path.display()
        ))
    };
    let run = draw(&page, "");
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let drawn = std::fs::read_to_string(&page).expect("the page");
    let printed = sim(&format!("replay --scenario {RACE} --seed 3 --format html"));
    assert_eq!(drawn, printed.stdout);
    assert!(run.stdout.starts_with("shared-input-race seed 3 holds; "));
    let run = draw(&log, "--format shiviz");
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let drawn = std::fs::read_to_string(&log).expect("the log");
    let printed = sim(&format!(
        "replay --scenario {RACE} --seed 3 --format shiviz"
    ));
    assert_eq!(drawn, printed.stdout);

    let missing = directory.path().join("missing").join("run.html");
    let run = draw(&missing, "");
    assert_eq!((run.code, run.stdout.as_str()), (5, ""));
    let message = format!("parsley: {} cannot be written: ", missing.display());
    assert!(run.stderr.starts_with(&message), "{}", run.stderr);
}

#[test]
fn a_run_is_shrunk_to_a_few_records_and_the_command_that_replays_them() {
    for (arguments, rule) in [
        (
            format!("shrink --scenario {RACE} --sabotage eager"),
            "causal order",
        ),
        (
            "shrink --scenario wide-soak --seeds 0..20 --sabotage forget-held-at-restore"
                .to_owned(),
            "causal order",
        ),
    ] {
        let run = sim(&arguments);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
        let shrunk = run
            .stdout
            .lines()
            .find_map(|line| line.strip_prefix("Shrunk in "));
        let shrunk = shrunk.expect("what is left");
        let words: Vec<&str> = shrunk.split_whitespace().collect();
        let records: u64 = words[2].parse().expect("how many records are left");
        assert!((1..=12).contains(&records), "{shrunk}");
        let command = replay_command(&run);
        assert!(command.contains(" --keep "), "{command}");
        let replayed = sim(&command);
        assert_eq!((replayed.code, replayed.stderr.as_str()), (1, ""));
        let sent = replayed
            .stdout
            .lines()
            .filter(|line| line.contains(" sent "))
            .filter(|line| !line.contains("VIOLATION") && line.contains('['));
        assert_eq!(sent.count() as u64, records, "{}", replayed.stdout);
        let violation = format!("VIOLATION of \"{rule}\" in ");
        assert!(replayed.stdout.contains(&violation), "{}", replayed.stdout);
        // The same part has the same trace in both commands.
        let trace = |text: &str| -> Vec<String> {
            let lines = text.lines().take_while(|line| !line.is_empty());
            lines.map(str::to_owned).collect()
        };
        assert_eq!(trace(&replayed.stdout), trace(&run.stdout));
    }
}

#[test]
fn one_seed_is_shrunk_or_there_is_nothing_to_shrink() {
    let run = sim(&format!("shrink --scenario {RACE} --seed 3"));
    assert_eq!((run.code, run.stderr.as_str()), (1, ""));
    assert_eq!(run.stdout, "Nothing to shrink: all 1 runs held.\n");
    let run = sim(&format!(
        "shrink --scenario {RACE} --seed 0 --fault h1-feeds-out-of-order"
    ));
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let command = replay_command(&run);
    assert!(command.contains(" --seed 0 --fault h1-feeds-out-of-order "));
    assert!(command.contains(" --keep "), "{command}");
}

#[test]
fn what_does_not_exist_is_named_with_what_does() {
    for (arguments, message) in [
        (
            "run --scenario wide-sok",
            "found scenario \"wide-sok\", expected \"wide-soak\"",
        ),
        (
            "replay --scenario wide-soak --seed 1 --sabotage eagre",
            "found sabotage \"eagre\", expected \"eager\"",
        ),
        (
            "shrink --fault h7",
            "found fault \"h7\", expected \"h7-sends-without-rounds\"",
        ),
        (
            "run --fault eager",
            "found fault \"eager\", which is a sabotage: `--sabotage eager`",
        ),
        (
            "replay --scenario wide-soak --seed 1 --sabotage h7-sends-without-rounds",
            "found sabotage \"h7-sends-without-rounds\", which is a fault: `--fault h7-sends-without-rounds`",
        ),
        (
            "run --scenario %%%%",
            "found scenario \"%%%%\", expected one of ",
        ),
        (
            "run --seeds 5..5",
            "found seeds 5..5, which are none; the end of a range is not in it",
        ),
        (
            "run --seeds x",
            "found seeds \"x\", expected a range like `0..100` or a seed like `7`",
        ),
        (
            "run --seeds 0..18446744073709551615",
            "found seed 18446744073709551615, expected at most 9007199254740991",
        ),
        (
            "replay --scenario wide-soak --seed 0..3",
            "found seed \"0..3\", expected a number like `7`",
        ),
        (
            "replay --scenario wide-soak --seed 1 --keep 3,x",
            "--keep: found \"x\", expected `3`, `7:2` or `12-15`",
        ),
        (
            "replay --scenario wide-soak --seed 1 --keep 999999",
            "found action 999999, and the run has ",
        ),
        (
            "diagram --scenario shared-input-race --seed 1 --idle x --out never-written",
            "found stage \"x\", expected one of bill, ship",
        ),
        (
            "diagram --scenario shared-input-race --seed 1 --out -",
            "found `--out -`, expected a file",
        ),
    ] {
        let run = sim(arguments);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{arguments}");
        let message = format!("parsley: {message}");
        assert!(run.stderr.starts_with(&message), "{}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    }
}

#[test]
fn a_command_line_that_makes_no_sense_is_refused() {
    for arguments in [
        "",
        "lst",
        "run --sabotage eager --fault h7-sends-without-rounds",
        "run --model --sabotage eager",
        "run --jobs 0",
        "run --jobs 257",
        "run --jobs x",
        "run --seeds",
        "replay",
        "replay --scenario wide-soak",
        "replay --scenario wide-soak --seed 1 --format pdf",
        "shrink --seed 1 --seeds 0..3",
        "diagram --scenario wide-soak --seed 1",
    ] {
        let run = sim(arguments);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{arguments}");
        assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    }
    // A message is one line without control characters, however long the name.
    let name = "\u{1b}[2J\n".repeat(10_000);
    let run = parsley(&["sim", "run", "--scenario", &name], b"");
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    assert!(run.stderr.len() < 1000 && run.stderr.lines().count() == 1);
    assert!(!run.stderr.contains('\u{1b}'));
}

#[test]
fn help_tells_the_exit_codes() {
    for command in ["", "list", "run", "replay", "shrink", "diagram"] {
        let run = sim(&format!("{command} --help"));
        assert_eq!(run.code, 0);
        assert!(run.stdout.contains("Exit codes:\n  0  done"), "{command}");
    }
}

#[test]
fn help_tells_the_limits() {
    for (command, limits) in [
        ("run", &["1 to 256", "below 2^53", "at most 2^32"][..]),
        ("replay", &["below 2^53"]),
        ("shrink", &["below 2^53", "at most 2^32"]),
        ("diagram", &["below 2^53"]),
    ] {
        let help = sim(&format!("{command} --help")).stdout;
        for limit in limits {
            assert!(help.contains(limit), "{command}: {limit}");
        }
    }
}

#[test]
fn what_is_wrong_on_purpose_is_said_with_the_run() {
    let wrong = "--sabotage eager";
    // One seed that notices, and one that does not.
    let run = |seed: u64| sim(&format!("replay --scenario {RACE} --seed {seed} {wrong}"));
    let runs: Vec<(u64, Run)> = (0..40).map(|seed| (seed, run(seed))).collect();
    let directory = tempfile::tempdir().expect("a directory");
    for (code, ended) in [(0, "holds"), (1, "violates \"causal order\"")] {
        let (seed, run) = runs
            .iter()
            .find(|(_, run)| run.code == code)
            .expect("a run that ends so");
        let first = format!(
            "scenario {RACE} seed {seed}, wrong on purpose: sabotage eager, every claim counts as met\n"
        );
        assert!(run.stdout.starts_with(&first), "{}", run.stdout);
        let last = run.stdout.lines().last().expect("a line");
        let spite = last.starts_with("right in spite of sabotage eager: ");
        assert_eq!(spite, code == 0, "{last}");

        let page = directory.path().join(format!("{seed}.html"));
        let path = page.display();
        let command = format!("--scenario {RACE} --seed {seed} {wrong}");
        let drawn = sim(&format!("diagram {command} --out {path}"));
        let line = format!("{RACE} seed {seed}, wrong on purpose (sabotage eager), {ended}; ");
        assert!(drawn.stdout.starts_with(&line), "{}", drawn.stdout);
        let page = std::fs::read_to_string(&page).expect("the page");
        assert!(page.contains(">on purpose: eager</span>"));
        let command =
            format!("<code>cargo run --release -p parsley-cli -- sim replay {command}</code>");
        assert!(page.contains(&command), "{command}");
    }
    // The command of a part has the part.
    let part = format!("--scenario {RACE} --seed 3 --idle bill --keep 0-1");
    let page = sim(&format!("replay {part} --format html"));
    assert!(page.stdout.contains(&format!(" sim replay {part}</code>")));
    assert!(!page.stdout.contains("on purpose"));
}

/// What the page on the simulator shows of the program is what the program prints.
#[test]
fn the_examples_of_the_page_are_what_is_printed() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sim.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let mut commands = Vec::new();
    for block in page.split("```").skip(1).step_by(2) {
        let Some(example) = block.strip_prefix("\n$ parsley sim ") else {
            continue;
        };
        let (command, expected) = example.split_once('\n').expect("a command and its output");
        let run = sim(command);
        assert_eq!(
            format!("{}{}", run.stdout, run.stderr),
            expected,
            "{command}"
        );
        commands.push(command.split(' ').next().expect("a word"));
    }
    let expected = [
        "run", "run", "run", "run", "run", "replay", "shrink", "explore", "explore",
    ];
    assert_eq!(commands, expected);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    for arguments in [
        &["sim", "list"][..],
        &["sim", "run", "--scenario", RACE, "--sabotage", "eager"],
        &["sim", "replay", "--scenario", "wide-soak", "--seed", "1"],
    ] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_parsley"))
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("the program ends");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), stderr.as_ref()), (Some(0), ""));
    }
}

#[test]
fn all_ways_through_a_small_world_are_gone() {
    let run = sim("explore --world triangle-one-by-one");
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert!(run.stdout.starts_with("world "), "{}", run.stdout);
    assert!(
        run.stdout.contains("\ntriangle-one-by-one "),
        "{}",
        run.stdout
    );
    let end = "\n\nEvery way through this world is right.\n";
    assert!(run.stdout.ends_with(end), "{}", run.stdout);
}

#[test]
fn what_is_wrong_on_purpose_is_shown_by_the_shortest_way_into_it() {
    let run = sim("explore --world triangle-one-by-one --sabotage eager");
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    for part in [
        "causal order, after 9 actions\n",
        "wrong on purpose: sabotage eager, every claim counts as met\n",
        "\nVIOLATION causal order: both/0 was handed ",
        "\nNo way of fewer than 9 actions through this world has an action that is wrong.\n",
    ] {
        assert!(run.stdout.contains(part), "{part:?} in\n{}", run.stdout);
    }
    let run = sim("explore --world own-sends --sabotage unreceived-channels-block");
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let end = "\nNo way of fewer than 1 action through this world goes wrong, nor when it comes to rest.\n";
    assert!(run.stdout.ends_with(end), "{}", run.stdout);
    let run = sim("explore --world triangle-one-by-one --fault h6-jumps-over-log-start");
    assert_eq!((run.code, run.stderr.as_str()), (1, ""));
    let end = "Slipped through: no way through this world goes wrong.\n";
    assert!(run.stdout.ends_with(end), "{}", run.stdout);
    let run = sim("explore --world triangel");
    assert_eq!(run.code, 2);
    assert!(
        run.stderr.contains("expected \"triangle\""),
        "{}",
        run.stderr
    );
}
