//! What the instances run: the application that is judged, and a spare one whose topics are deleted under it.
//!
//! ```text
//! commands → decide → events → spread → views, mixed
//! commands, views, mixed → join → joined
//! commands, events, views, mixed, joined → watch
//! ```
//!
//! `join` and `watch` see effects and their causes, which travel on ways of different lengths; `commands` and `events` are let in late there, so
//! that effects have to be held. `mixed` has other keys than `events`: each of its partitions is written by all tasks of `spread`. The values say of
//! which delivery a record came, so that what really happened before what is known without a clock.

use parsley_stage::{App, BuildError, Message, Outbox, Stage, Topic, codec};
use serde::{Deserialize, Serialize};

/// The application's name.
pub const APP: &str = "nemesis";
/// Where its tasks account for what they were handed.
pub const ACCOUNT: &str = "nemesis-account";
/// The same of the spare application.
pub const SPARE_ACCOUNT: &str = "spare-account";

/// How many partitions each topic of the application has.
pub const PARTITIONS: i32 = 4;
/// And each of the spare application.
pub const SPARE_PARTITIONS: i32 = 2;

/// The topics of the application. The first is the input.
pub const TOPICS: [&str; 5] = [COMMANDS, "events", "views", "mixed", "joined"];
/// Where commands come in.
pub const COMMANDS: &str = "commands";

/// The topics of the spare application: its input, and what its first stage makes of it.
pub const SPARE_TOPICS: [&str; 2] = ["spare-in", "spare-out"];

/// The stages and what they consume.
pub const STAGES: [(&str, &[&str]); 4] = [
    ("decide", &["commands"]),
    ("spread", &["events"]),
    ("join", &["commands", "views", "mixed"]),
    ("watch", &["commands", "events", "views", "mixed", "joined"]),
];

/// Which stage writes a topic, and of which of its inputs each record there comes; `None` for the input.
pub fn writer(topic: &str) -> Option<(&'static str, &'static str)> {
    Some(match topic {
        "events" => ("decide", "commands"),
        "views" | "mixed" => ("spread", "events"),
        "joined" => ("join", "commands"),
        _ => return None,
    })
}

/// What a delivery at a stage of a record of a topic sends: one record to each of these.
pub fn effects(stage: &str, topic: &str) -> &'static [&'static str] {
    match (stage, topic) {
        ("decide", "commands") => &["events"],
        ("spread", "events") => &["views", "mixed"],
        ("join", "commands") => &["joined"],
        _ => &[],
    }
}

/// Which stages let which topics in late, and in which range, in milliseconds.
pub const LATE: [(&str, &str, [u64; 2]); 3] = [
    ("join", "commands", [300, 1500]),
    ("watch", "commands", [100, 800]),
    ("watch", "events", [300, 1200]),
];

/// What clients write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Which one it is.
    pub command: u64,
}

/// What stages write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// The topic of the record that it came of.
    pub topic: String,
    /// The partition of that.
    pub partition: i32,
    /// And the offset.
    pub offset: i64,
    /// How many deliveries the key has had at that stage, this one included; 0 where none are counted.
    pub count: u64,
}

impl Effect {
    fn of<V>(message: &Message<String, V>, count: u64) -> Self {
        Self {
            topic: message.topic.to_string(),
            partition: message.partition,
            offset: message.offset,
            count,
        }
    }
}

/// The application.
///
/// # Errors
///
/// When a stage cannot be declared, which its test excludes.
pub fn app() -> Result<App, BuildError> {
    let commands = Topic::new(COMMANDS, codec::string(), codec::json::<Command>());
    let effects = |name| Topic::new(name, codec::string(), codec::json::<Effect>());
    let [events, views, mixed, joined] = ["events", "views", "mixed", "joined"].map(effects);
    let decide = Stage::stateful("decide", codec::string(), codec::u64())
        .sink(&events)
        .on(&commands, {
            let events = events.clone();
            move |count, message, out: &mut Outbox| {
                *count += 1;
                out.send(&events, &message.key, &Effect::of(&message, *count))
            }
        })
        .build()?;
    let spread = Stage::stateless("spread")
        .sink(&views)
        .sink(&mixed)
        .on(&events, {
            let (views, mixed) = (views.clone(), mixed.clone());
            move |message, out| {
                let effect = Effect::of(&message, 0);
                out.send(&views, &message.key, &effect)?;
                // Another partition each time.
                let key = format!("{}-{}", message.key, message.offset % 8);
                out.send(&mixed, &key, &effect)
            }
        })
        .build()?;
    let count = |count: &mut u64, _: Message<String, Effect>, _: &mut Outbox| {
        *count += 1;
        Ok(())
    };
    let join = Stage::stateful("join", codec::string(), codec::u64())
        .sink(&joined)
        .on(&commands, {
            let joined = joined.clone();
            move |count, message, out: &mut Outbox| {
                *count += 1;
                out.send(&joined, &message.key, &Effect::of(&message, *count))
            }
        })
        .on(&views, count)
        .on(&mixed, count)
        .build()?;
    let look = |_: Message<String, Effect>, _: &mut Outbox| Ok(());
    let watch = Stage::stateless("watch")
        .on(&commands, |_, _| Ok(()))
        .on(&events, look)
        .on(&views, look)
        .on(&mixed, look)
        .on(&joined, look)
        .build()?;
    App::named(APP)
        .stage(decide)
        .stage(spread)
        .stage(join)
        .stage(watch)
        .build()
}

/// How the spare application lets its input in late, in milliseconds.
pub const SPARE_LATE_MS: u64 = 1500;

/// The name of the spare application's stage that reads both topics, and has to hold what comes of what it was not handed yet.
pub fn meet(generation: u32) -> String {
    format!("meet-{generation}")
}

/// What the application is called, or a generation of the spare one.
pub fn name_of(spare: Option<u32>) -> String {
    spare.map_or_else(
        || APP.to_owned(),
        |generation| format!("spare-{generation}"),
    )
}

/// The spare application: `spare-in → copy → spare-out`, and a stage that meets both. Each generation starts afresh under names of its own, as an
/// operator starts an application whose state is reset.
///
/// # Errors
///
/// When a stage cannot be declared, which its test excludes.
pub fn spare(generation: u32) -> Result<App, BuildError> {
    let [input, output] =
        SPARE_TOPICS.map(|name| Topic::new(name, codec::string(), codec::string()));
    let copy = Stage::stateless(format!("copy-{generation}"))
        .sink(&output)
        .on(&input, {
            let output = output.clone();
            move |message, out| out.send(&output, &message.key, &message.value)
        })
        .build()?;
    let meet = Stage::stateless(meet(generation))
        .on(&input, |_, _| Ok(()))
        .on(&output, |_, _| Ok(()))
        .build()?;
    App::named(name_of(Some(generation)))
        .stage(copy)
        .stage(meet)
        .build()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_tables_tell_what_the_stages_declare() {
        let app = app().unwrap();
        let declared: Vec<(&str, Vec<&str>)> = app
            .stages()
            .iter()
            .map(|stage| (stage.name(), stage.inputs().collect()))
            .collect();
        let told = STAGES.map(|(stage, inputs)| (stage, inputs.to_vec()));
        assert_eq!(declared, told);
        for stage in app.stages() {
            let sinks: BTreeSet<&str> = stage.sinks().collect();
            let told: BTreeSet<&str> = stage
                .inputs()
                .flat_map(|input| effects(stage.name(), input))
                .copied()
                .collect();
            assert_eq!(sinks, told);
            for sink in sinks {
                let (by, of) = writer(sink).unwrap();
                assert_eq!(by, stage.name());
                assert!(effects(by, of).contains(&sink));
            }
        }
        assert_eq!(app.topics(), TOPICS.into_iter().collect());
        assert_eq!(writer(COMMANDS), None);
        assert_eq!(
            spare(3).unwrap().topics(),
            SPARE_TOPICS.into_iter().collect()
        );
    }
}
