//! Access rules, for clusters that have an authorizer.

use std::io;
use std::time::Duration;

use crate::ask::{Answer, Request, ask, invalid};

/// Keys of the requests in Kafka's protocol, in the versions that every broker from 2.0 on serves.
const CREATE_KEY: i16 = 30;
const DELETE_KEY: i16 = 31;
const VERSION: i16 = 1;

const LITERAL: u8 = 3;
const EVERYBODY: &str = "User:*";
const EVERYWHERE: &str = "*";
const ALL_OPERATIONS: u8 = 2;
const DENY: u8 = 2;

/// Something on a cluster that access can be denied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource<'a> {
    /// The topic of this name.
    Topic(&'a str),
    /// The consumer group of this name.
    Group(&'a str),
    /// This transactional id.
    TransactionalId(&'a str),
}

impl Resource<'_> {
    fn kind(self) -> u8 {
        match self {
            Self::Topic(_) => 2,
            Self::Group(_) => 3,
            Self::TransactionalId(_) => 5,
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Topic(name) | Self::Group(name) | Self::TransactionalId(name) => name,
        }
    }
}

/// Denies everybody everything on a resource.
pub(crate) fn deny(port: u16, resource: Resource<'_>, timeout: Duration) -> io::Result<()> {
    judge(&ask(port, &rule(CREATE_KEY, resource)?, timeout)?)
}

/// Takes that back.
pub(crate) fn allow(port: u16, resource: Resource<'_>, timeout: Duration) -> io::Result<()> {
    judge(&ask(port, &rule(DELETE_KEY, resource)?, timeout)?)
}

/// The two requests have the same fields: a rule, and a filter that the same rule passes.
fn rule(key: i16, resource: Resource<'_>) -> io::Result<Request> {
    Ok(Request::new(key, VERSION)
        .count(1)
        .byte(resource.kind())
        .text(resource.name())?
        .byte(LITERAL)
        .text(EVERYBODY)?
        .text(EVERYWHERE)?
        .byte(ALL_OPERATIONS)
        .byte(DENY))
}

/// The answer has a result for the one rule, behind the throttle time and the number of results.
fn judge(answer: &Answer) -> io::Result<()> {
    match (answer.i32(4)?, answer.i16(8)?) {
        (1, 0) => Ok(()),
        (results, code) => Err(invalid(format!(
            "{results} results, the first with error code {code}"
        ))),
    }
}
