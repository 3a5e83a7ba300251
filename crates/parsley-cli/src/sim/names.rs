//! Names of scenarios, small worlds, broken rules and shirked duties, and which one was meant.

use std::fmt;

use parsley_model::Broken;
use parsley_sim::explore::{SmallWorld, worlds};
use parsley_sim::scenario::Scenario;
use parsley_sim::{HostFault, Sabotage, scenarios};

use super::args::Wrong;
use crate::plain::clipped;

/// What has names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Families of worlds.
    Scenario,
    /// Rules of the protocol, broken.
    Sabotage,
    /// Duties of a host, shirked.
    Fault,
    /// Small worlds.
    World,
}

impl Kind {
    /// All names, in the order in which they are listed.
    pub fn names(self) -> Vec<&'static str> {
        match self {
            Self::Scenario => scenarios::all().iter().map(|known| known.name).collect(),
            Self::Sabotage => Broken::ALL.iter().map(|known| known.as_str()).collect(),
            Self::Fault => HostFault::ALL.iter().map(|known| known.as_str()).collect(),
            Self::World => worlds::ALL.iter().map(|known| known.name).collect(),
        }
    }

    fn unknown(self, found: &str) -> Unknown {
        let all = [Self::Scenario, Self::Sabotage, Self::Fault, Self::World];
        Unknown {
            kind: self,
            found: clipped(found),
            other: all.into_iter().find(|kind| kind.names().contains(&found)),
            near: near(found, &self.names()),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scenario => "scenario",
            Self::Sabotage => "sabotage",
            Self::Fault => "fault",
            Self::World => "world",
        })
    }
}

/// A name that nothing of its kind has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    kind: Kind,
    found: String,
    /// What has that name instead.
    other: Option<Kind>,
    near: Vec<&'static str>,
}

impl std::error::Error for Unknown {}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind;
        if let Some(other) = self.other {
            let found = &self.found;
            return write!(
                f,
                "found {kind} {found:?}, which is a {other}: `--{other} {found}`"
            );
        }
        write!(f, "found {kind} {:?}, expected ", self.found)?;
        if self.near.is_empty() {
            let count = kind.names().len();
            return write!(f, "one of {count}: `parsley sim list` names them");
        }
        for (number, name) in self.near.iter().enumerate() {
            let separator = if number == 0 { "" } else { " or " };
            write!(f, "{separator}{name:?}")?;
        }
        f.write_str(" perhaps; `parsley sim list` names all")
    }
}

/// The scenario of that name.
pub fn scenario(name: &str) -> Result<&'static Scenario, Unknown> {
    scenarios::named(name).ok_or_else(|| Kind::Scenario.unknown(name))
}

/// The scenario of that name, or all of them.
pub fn scenarios_of(name: &str) -> Result<Vec<&'static Scenario>, Unknown> {
    if name == "all" {
        return Ok(scenarios::all());
    }
    Ok(vec![scenario(name)?])
}

/// The small world of that name, or all of them.
pub fn worlds_of(name: &str) -> Result<Vec<&'static SmallWorld>, Unknown> {
    if name == "all" {
        return Ok(worlds::ALL.iter().collect());
    }
    let world = worlds::named(name);
    world
        .map(|world| vec![world])
        .ok_or_else(|| Kind::World.unknown(name))
}

/// What is wrong on purpose.
pub fn sabotage(wrong: &Wrong) -> Result<Sabotage, Unknown> {
    if let Some(name) = &wrong.sabotage {
        let broken = name.parse::<Broken>();
        return broken
            .map(Sabotage::Protocol)
            .map_err(|_| Kind::Sabotage.unknown(name));
    }
    if let Some(name) = &wrong.fault {
        let fault = HostFault::of_name(name);
        return fault
            .map(Sabotage::Host)
            .ok_or_else(|| Kind::Fault.unknown(name));
    }
    Ok(if wrong.model {
        Sabotage::Model
    } else {
        Sabotage::None
    })
}

/// How many names are proposed.
const NEAR_MAX: usize = 3;

/// The longest name that is compared with others.
const COMPARED_CHARS_MAX: usize = 64;

/// The names that may have been meant: those with the fewest letters to change, and those that have the text in them.
fn near(found: &str, names: &[&'static str]) -> Vec<&'static str> {
    if found.is_empty() || found.chars().nth(COMPARED_CHARS_MAX).is_some() {
        return Vec::new();
    }
    let limit = found.chars().count() / 3 + 1;
    let ranked = |&name: &&'static str| {
        let changes = changes(found, name);
        let rank = if name.contains(found) { 0 } else { changes };
        (rank <= limit).then_some((rank, name))
    };
    let mut ranked: Vec<_> = names.iter().filter_map(ranked).collect();
    ranked.sort_by_key(|&(rank, _)| rank);
    ranked.truncate(NEAR_MAX);
    ranked.into_iter().map(|(_, name)| name).collect()
}

/// How many characters have to be put in, taken out or replaced to make one text of the other.
fn changes(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (number, character) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], number + 1);
        for (column, &against) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(character != against);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_counted() {
        for (one, other, count) in [
            ("", "", 0),
            ("abc", "", 3),
            ("", "abc", 3),
            ("abc", "abc", 0),
            ("abc", "axc", 1),
            ("abc", "ac", 1),
            ("kitten", "sitting", 3),
            ("äbc", "abc", 1),
        ] {
            assert_eq!(changes(one, other), count, "{one} {other}");
        }
    }

    #[test]
    fn what_may_have_been_meant_is_proposed() {
        let of = |found| Kind::Scenario.unknown(found);
        assert_eq!(of("wide-sok").near[0], "wide-soak");
        assert_eq!(of("input-race").near[0], "shared-input-race");
        assert_eq!(of("").near, [""; 0]);
        assert_eq!(of("zzzzzzzz").near, [""; 0]);
        assert_eq!(of(&"wide-soak".repeat(1000)).near, [""; 0]);
        assert_eq!(Kind::Sabotage.unknown("eagre").near[0], "eager");
        let text = Kind::Fault.unknown("h1").to_string();
        assert_eq!(
            text,
            "found fault \"h1\", expected \"h1-feeds-out-of-order\" perhaps; `parsley sim list` names all"
        );
        let text = Kind::Fault.unknown("%%%%").to_string();
        let count = HostFault::ALL.len();
        assert_eq!(
            text,
            format!("found fault \"%%%%\", expected one of {count}: `parsley sim list` names them")
        );
    }

    #[test]
    fn a_name_of_another_kind_is_told_with_its_option() {
        for (kind, found, text) in [
            (
                Kind::Fault,
                "eager",
                "found fault \"eager\", which is a sabotage: `--sabotage eager`",
            ),
            (
                Kind::Sabotage,
                "h7-sends-without-rounds",
                "found sabotage \"h7-sends-without-rounds\", which is a fault: `--fault h7-sends-without-rounds`",
            ),
            (
                Kind::Sabotage,
                "wide-soak",
                "found sabotage \"wide-soak\", which is a scenario: `--scenario wide-soak`",
            ),
        ] {
            assert_eq!(kind.unknown(found).to_string(), text);
        }
    }

    #[test]
    fn every_name_means_what_it_names() {
        let wrong = |sabotage: Option<&str>, fault: Option<&str>| Wrong {
            sabotage: sabotage.map(str::to_owned),
            fault: fault.map(str::to_owned),
            model: false,
        };
        for name in Kind::Scenario.names() {
            assert_eq!(scenario(name).unwrap().name, name);
        }
        for &broken in Broken::ALL {
            let found = sabotage(&wrong(Some(broken.as_str()), None)).unwrap();
            assert_eq!(found, Sabotage::Protocol(broken));
        }
        for &fault in HostFault::ALL {
            let found = sabotage(&wrong(None, Some(fault.as_str()))).unwrap();
            assert_eq!(found, Sabotage::Host(fault));
        }
        assert_eq!(sabotage(&wrong(None, None)), Ok(Sabotage::None));
        assert_eq!(scenarios_of("all").unwrap().len(), scenarios::all().len());
        for name in Kind::World.names() {
            assert_eq!(worlds_of(name).unwrap()[0].name, name);
        }
        assert_eq!(worlds_of("all").unwrap().len(), worlds::ALL.len());
    }
}
