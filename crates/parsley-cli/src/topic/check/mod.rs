//! `parsley topic check`: dumps and traces judged, without a broker and without the program that wrote them (`docs/topic.md`).

use std::io::{self, BufRead, Write};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::input::Input;
use crate::lines::{self, Lines};
use crate::plain::plain;
use crate::topic::TopicError;

mod causes;
mod deliveries;
mod dumps;
mod finding;
pub(crate) mod line;
mod report;
mod world;

use causes::Causes;
use finding::Findings;
use line::LineFault;
use report::{Made, Report};
use world::{Place, World, count};

/// The longest line read: a record of the largest size, in hexadecimal, with a clock of a million claims.
const LINE_LIMIT: usize = 128 << 20;

/// How many malformed lines are named.
const MALFORMED_SHOWN: u64 = 20;

/// What to judge.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Dumped topics (`parsley topic dump`) and traces (`parsley demo --trace`), mixed as they come; `-` reads standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) inputs: Vec<Input>,
    /// How many violations are shown; all are counted
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) show: usize,
    /// A topic that is compacted: records and sequences may be missing there. May be given several times
    #[arg(long, value_name = "TOPIC")]
    pub(crate) compacted: Vec<String>,
}

/// Judges the lines of all inputs together.
pub fn run(options: &Options, out: &mut impl Write) -> Result<Exit, Failure> {
    judge_lines(options, Input::open, out, &mut io::stderr())
}

/// Judges the lines of all inputs together, and names the malformed ones apart.
pub(crate) fn judge_lines<R: BufRead>(
    options: &Options,
    open: impl Fn(&Input) -> Result<R, Failure>,
    out: &mut impl Write,
    apart: &mut impl Write,
) -> Result<Exit, Failure> {
    let mut world = World::default();
    let mut findings = Findings::new(options.show);
    let (mut lines, mut malformed) = (0, 0);
    for (file, input) in options.inputs.iter().enumerate() {
        world.begin_file();
        let mut reader = Lines::new(open(input)?, LINE_LIMIT);
        let mut take = |place: Place, text: Result<&str, LineFault>| {
            lines += 1;
            match text.and_then(line::read) {
                Ok(line) => world.take(line, place, &mut findings),
                Err(fault) => {
                    malformed += 1;
                    if malformed <= MALFORMED_SHOWN {
                        let text = format!("{input}:{}: {fault}", place.line);
                        // What cannot be said is counted.
                        let _ = writeln!(apart, "parsley: {}", plain(&text));
                    }
                }
            }
        };
        each_line(input, &mut reader, count(file), &mut take)?;
    }
    world.end();
    let report = judge(&world, &mut findings, &options.compacted);
    for finding in &findings.kept {
        report::write_violation(&world, &options.inputs, finding, out).map_err(Failure::Write)?;
    }
    report
        .write(&world, &findings, lines, malformed, out)
        .map_err(Failure::Write)?;
    out.flush().map_err(Failure::Write)?;
    if malformed > MALFORMED_SHOWN {
        let more = malformed - MALFORMED_SHOWN;
        let _ = writeln!(apart, "parsley: {more} more lines are malformed");
    }
    match (malformed, findings.total()) {
        (1.., _) => Ok(Exit::MalformedData),
        (0, 1..) => Ok(Exit::Failed),
        (0, 0) if world.records.is_empty() => Err(TopicError::NothingToJudge.into()),
        (0, 0) => Ok(Exit::Done),
    }
}

fn each_line<R: BufRead>(
    input: &Input,
    reader: &mut Lines<R>,
    file: u32,
    take: &mut impl FnMut(Place, Result<&str, LineFault>),
) -> Result<(), Failure> {
    let limit = reader.limit();
    while let Some((line, text)) = reader.next().map_err(|error| input.unreadable(error))? {
        let text = match text {
            lines::Line::Text(text) if text.trim().is_empty() => continue,
            lines::Line::Text(text) => Ok(text.trim()),
            lines::Line::NotUtf8 { valid_up_to } => Err(LineFault::NotUtf8 { valid_up_to }),
            lines::Line::TooLong => Err(LineFault::TooLong { limit }),
        };
        take(Place { file, line }, text);
    }
    Ok(())
}

/// Makes every check that the lines allow.
fn judge(world: &World, findings: &mut Findings, compacted: &[String]) -> Report {
    let logs = world.logs();
    let causes = match world.tells_sends {
        true => Causes::find(world, findings),
        false => Causes::default(),
    };
    let dumps = dumps::judge(world, &logs, compacted, findings);
    let tasks = deliveries::judge(world, &logs, &causes, compacted, findings);
    Report {
        dumps,
        tasks,
        made: Made::of(world),
    }
}

#[cfg(test)]
mod tests;
