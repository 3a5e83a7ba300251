//! What happened in a run, as data: for reading, for comparing two runs byte by byte, and for diagrams.

use std::fmt;

/// Everything that happened in one run, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The scenario's name.
    pub scenario: String,
    /// The run's seed.
    pub seed: u64,
    /// What is wrong in it on purpose.
    pub on_purpose: Option<OnPurpose>,
    /// The command that shows the run again, where there is one.
    pub replay: Option<String>,
    /// The actors by number: tasks as `<stage>/<partition>`, edge clients by their names.
    pub actors: Vec<String>,
    /// The channels by number, as `<topic>:<partition>`; a topic created again has `<topic>'<incarnation>:<partition>`.
    pub channels: Vec<String>,
    /// What happened, in order.
    pub events: Vec<Event>,
    /// The violation that ended the run, if one did.
    pub violation: Option<Found>,
}

/// A rule or a duty that a run breaks so that it is seen who notices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnPurpose {
    /// What it is: `sabotage` of the protocol, or a `fault` of the host.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// What it does.
    pub about: String,
}

impl fmt::Display for OnPurpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}, {}", self.kind, self.name, self.about)
    }
}

/// A record's place: the number of its channel in [`Trace::channels`], and its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct At {
    /// The channel's number.
    pub channel: usize,
    /// The offset.
    pub offset: i64,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The scheduler's step in which it happened, from 0. Steps never decrease along the events.
    pub step: u64,
    /// Whom it happened to, by number; `None` for the log itself (markers, retention, replication).
    pub actor: Option<usize>,
    /// What happened.
    pub kind: Kind,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A task began an execution, with that many records held from earlier ones.
    Started {
        /// How many held records were restored.
        restored: u64,
    },
    /// An execution ended without a commit. `mid_step`: a step was under way and was lost.
    Crashed {
        /// Whether a step was lost.
        mid_step: bool,
    },
    /// A guard stopped the task.
    Refused {
        /// The guard's code.
        code: String,
        /// What it found.
        found: String,
    },
    /// A record was appended to the log. Its transaction may still abort.
    Sent {
        /// Where.
        at: At,
        /// Its clock, as text: claims separated by a comma and a space, `orders:0<=3` or `orders:0/settle/0<=2` (sender and sequence).
        clock: String,
    },
    /// What the actor had appended since its last commit was committed.
    Committed,
    /// What the actor had appended since its last commit was aborted.
    Aborted,
    /// A record was handed to the task.
    Received {
        /// Which.
        at: At,
    },
    /// A record that had been fed before was dropped.
    Dropped {
        /// Which.
        at: At,
    },
    /// The record at the head of a channel could not be delivered when a drain ended; told once, or again when the claim changes.
    Held {
        /// Which.
        at: At,
        /// The first claim that is not met, as text.
        blocked_by: String,
    },
    /// A record was delivered to the task's logic, or was read by an edge client.
    Delivered {
        /// Which.
        at: At,
        /// Whether it had been held.
        was_held: bool,
    },
    /// A position was reported: everything below it was fed or never comes.
    Advanced {
        /// The channel's number.
        channel: usize,
        /// The position.
        next: i64,
    },
    /// Anything else worth reading: watermarks, checks, truncations, redeploys, retention, deletions, markers.
    Note(String),
}

/// A violation, as a trace shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The rule that was violated, in a word or two.
    pub rule: String,
    /// What was found, in a sentence.
    pub text: String,
    /// At whom.
    pub actor: Option<usize>,
    /// The record that was delivered wrongly, or never.
    pub record: Option<At>,
    /// The record that it is at odds with.
    pub other: Option<At>,
    /// The real causal path from the earlier to the later of the two, both included.
    pub path: Vec<At>,
}

impl Trace {
    /// The trace of a run in which nothing has happened yet.
    pub fn of(scenario: impl Into<String>, seed: u64) -> Self {
        Self {
            scenario: scenario.into(),
            seed,
            on_purpose: None,
            replay: None,
            actors: Vec::new(),
            channels: Vec::new(),
            events: Vec::new(),
            violation: None,
        }
    }

    /// A record's place as text, `orders:0@5`.
    pub fn place(&self, at: At) -> String {
        format!("{}@{}", self.channel(at.channel), at.offset)
    }

    /// A channel's name.
    pub fn channel(&self, channel: usize) -> &str {
        self.channels.get(channel).map_or("?", String::as_str)
    }

    /// An actor's name.
    pub fn actor(&self, actor: Option<usize>) -> &str {
        match actor {
            None => "log",
            Some(actor) => self.actors.get(actor).map_or("?", String::as_str),
        }
    }

    /// What an event says, on one line, without its step and its actor.
    pub fn text(&self, event: &Event) -> String {
        match &event.kind {
            Kind::Started { restored } => format!("started, {restored} held restored"),
            Kind::Crashed { mid_step: true } => "crashed within a step".to_owned(),
            Kind::Crashed { mid_step: false } => "crashed between steps".to_owned(),
            Kind::Refused { code, found } => format!("refused {code}: {found}"),
            Kind::Sent { at, clock } => format!("sent {} [{clock}]", self.place(*at)),
            Kind::Committed => "committed".to_owned(),
            Kind::Aborted => "aborted".to_owned(),
            Kind::Received { at } => format!("received {}", self.place(*at)),
            Kind::Dropped { at } => format!("dropped {}", self.place(*at)),
            Kind::Held { at, blocked_by } => format!("holds {} for {blocked_by}", self.place(*at)),
            Kind::Delivered { at, was_held } => {
                let held = if *was_held { ", which was held" } else { "" };
                format!("delivered {}{held}", self.place(*at))
            }
            Kind::Advanced { channel, next } => {
                format!(
                    "is past {}@{}",
                    self.channel(*channel),
                    next.saturating_sub(1)
                )
            }
            Kind::Note(text) => text.clone(),
        }
    }
}

/// One line for each event.
impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "scenario {} seed {}", self.scenario, self.seed)?;
        if let Some(on_purpose) = &self.on_purpose {
            write!(f, ", wrong on purpose: {on_purpose}")?;
        }
        writeln!(f)?;
        for event in &self.events {
            write!(f, "{:>5}  {:<12} ", event.step, self.actor(event.actor))?;
            writeln!(f, "{}", self.text(event))?;
        }
        if let Some(found) = &self.violation {
            writeln!(f, "VIOLATION {}: {}", found.rule, found.text)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_names_what_is_wrong_on_purpose() {
        let mut trace = Trace::of("chain", 7);
        assert_eq!(trace.to_string(), "scenario chain seed 7\n");
        trace.replay = Some("a command".to_owned());
        assert_eq!(trace.to_string(), "scenario chain seed 7\n");
        trace.on_purpose = Some(OnPurpose {
            kind: "sabotage".to_owned(),
            name: "eager".to_owned(),
            about: "every claim counts as met".to_owned(),
        });
        assert_eq!(
            trace.to_string(),
            "scenario chain seed 7, wrong on purpose: sabotage eager, every claim counts as met\n"
        );
    }
}
