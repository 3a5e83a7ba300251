//! Access rules, for clusters that have an authorizer.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use crate::ask::{Answer, Request, ask, invalid};

/// Keys of the requests in Kafka's protocol, in the versions that every broker from 2.0 on serves.
const DESCRIBE_KEY: i16 = 29;
const CREATE_KEY: i16 = 30;
const DELETE_KEY: i16 = 31;
const VERSION: i16 = 1;

const LITERAL: u8 = 3;
const PREFIXED: u8 = 4;
const EVERYBODY: &str = "User:*";
const EVERYWHERE: &str = "*";
const ALL_OPERATIONS: u8 = 2;
const DENY: u8 = 2;
const ALLOW: u8 = 3;

/// How long it is waited between two looks whether a broker goes by a rule.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// Something on a cluster that access can be denied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource<'a> {
    /// The topic of this name.
    Topic(&'a str),
    /// The consumer group of this name.
    Group(&'a str),
    /// This transactional id.
    TransactionalId(&'a str),
    /// Every transactional id that begins so.
    TransactionalIds(&'a str),
    /// The cluster itself.
    Cluster,
}

/// Something that can be done with a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reading records.
    Read,
    /// Writing records.
    Write,
    /// Reading settings: of a topic, or of the brokers where the resource is the cluster.
    DescribeConfigs,
}

impl Operation {
    fn code(self) -> u8 {
        match self {
            Self::Read => 3,
            Self::Write => 4,
            Self::DescribeConfigs => 10,
        }
    }
}

impl Resource<'_> {
    fn kind(self) -> u8 {
        match self {
            Self::Topic(_) => 2,
            Self::Group(_) => 3,
            Self::Cluster => 4,
            Self::TransactionalId(_) | Self::TransactionalIds(_) => 5,
        }
    }

    fn pattern(self) -> u8 {
        match self {
            Self::TransactionalIds(_) => PREFIXED,
            _ => LITERAL,
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Topic(name)
            | Self::Group(name)
            | Self::TransactionalId(name)
            | Self::TransactionalIds(name) => name,
            // The one name that brokers know of it.
            Self::Cluster => "kafka-cluster",
        }
    }
}

/// An operation, and whether it is denied or allowed.
type Rule = (u8, u8);

/// What is denied: everything, or one operation and no other. A broker takes what no rule of a resource allows for denied, as soon as it has a rule.
fn rules(operation: Option<Operation>) -> Vec<Rule> {
    match operation {
        None => vec![(ALL_OPERATIONS, DENY)],
        Some(operation) => vec![(ALL_OPERATIONS, ALLOW), (operation.code(), DENY)],
    }
}

/// Denies everybody an operation on a resource; everything, if none is named.
pub(crate) fn deny(
    port: u16,
    resource: Resource<'_>,
    operation: Option<Operation>,
    timeout: Duration,
) -> io::Result<()> {
    change(port, CREATE_KEY, resource, &rules(operation), timeout)
}

/// Takes that back.
pub(crate) fn allow(
    port: u16,
    resource: Resource<'_>,
    operation: Option<Operation>,
    timeout: Duration,
) -> io::Result<()> {
    change(port, DELETE_KEY, resource, &rules(operation), timeout)
}

/// Has rules made or removed, and waits until the broker goes by it: what it answers is that the controller has taken note, whose log it follows by itself.
fn change(
    port: u16,
    key: i16,
    resource: Resource<'_>,
    rules: &[Rule],
    timeout: Duration,
) -> io::Result<()> {
    // Two at most.
    let count = i32::try_from(rules.len()).unwrap_or(i32::MAX);
    let mut request = Request::new(key, VERSION).count(count);
    for rule in rules {
        request = with_rule(request, resource, *rule)?;
    }
    judge(&ask(port, &request, timeout)?, count)?;
    let until = Instant::now() + timeout;
    for rule in rules {
        let request = with_rule(Request::new(DESCRIBE_KEY, VERSION), resource, *rule)?;
        while described(&ask(port, &request, timeout)?)? != (key == CREATE_KEY) {
            if Instant::now() > until {
                let late = format!("the broker does not go by the rules for {resource:?} yet");
                return Err(io::Error::new(io::ErrorKind::TimedOut, late));
            }
            thread::sleep(BETWEEN_LOOKS);
        }
    }
    Ok(())
}

/// A rule, or a filter that it alone passes: all three requests have the same fields for them.
fn with_rule(
    request: Request,
    resource: Resource<'_>,
    (operation, permission): Rule,
) -> io::Result<Request> {
    Ok(request
        .byte(resource.kind())
        .text(resource.name())?
        .byte(resource.pattern())
        .text(EVERYBODY)?
        .text(EVERYWHERE)?
        .byte(operation)
        .byte(permission))
}

/// The answer has a result for each rule, behind the throttle time and the number of results. The first stands for all: they differ in
/// nothing that a broker could refuse.
fn judge(answer: &Answer, rules: i32) -> io::Result<()> {
    match (answer.i32(4)?, answer.i16(8)?) {
        (results, 0) if results == rules => Ok(()),
        (results, code) => Err(invalid(format!(
            "{results} results, the first with error code {code}"
        ))),
    }
}

/// Whether a broker knows of a rule that fits. Behind the throttle time come an error code, its message, which is none, and the number of resources.
fn described(answer: &Answer) -> io::Result<bool> {
    match answer.i16(4)? {
        0 => Ok(answer.i32(8)? > 0),
        code => Err(invalid(format!("rules are not told: error code {code}"))),
    }
}
