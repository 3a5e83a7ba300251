//! A connection: one thread passes requests on, one answers. Nothing longer than the part of a request that is looked at is kept.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use super::frame::{FRAME_MAX, HEAD_MAX, Head, put_in_place_of, stranger_of};
use super::rules::Action;
use super::shared::{ConnectionId, Shared};
use super::{Fault, FaultKind};

/// How much is copied at once, in bytes.
const CHUNK: usize = 16 * 1024;

/// The longest answer that is passed on, in bytes. An answer to a fetch can be longer than a request.
const ANSWER_MAX: u32 = i32::MAX as u32;

/// Why a thread has ended.
enum End {
    /// A side has closed the connection, or a rule has cut it.
    Closed,
    Fault(FaultKind),
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> Self {
        Self::Closed
    }
}

/// The two ends of a connection, for one of its threads.
struct Ends {
    shared: Arc<Shared>,
    id: ConnectionId,
    broker: u16,
    client: TcpStream,
    upstream: TcpStream,
}

/// Passes on what comes, in two threads. An error says that there were no threads, or no more descriptors, for it.
pub(super) fn begin(
    shared: &Arc<Shared>,
    broker: u16,
    client: TcpStream,
    upstream: TcpStream,
) -> io::Result<Vec<JoinHandle<()>>> {
    for stream in [&client, &upstream] {
        stream.set_nodelay(true)?;
    }
    let ends = |id| -> io::Result<Ends> {
        Ok(Ends {
            shared: Arc::clone(shared),
            id,
            broker,
            client: client.try_clone()?,
            upstream: upstream.try_clone()?,
        })
    };
    let (kept_client, kept_upstream) = (client.try_clone()?, upstream.try_clone()?);
    let Some(id) = shared.connect(broker, kept_client, kept_upstream) else {
        return Ok(Vec::new());
    };
    let begun = (|| {
        let (requests, answers) = (ends(id)?, ends(id)?);
        let name = format!("proxy {broker}");
        let requests = thread::Builder::new()
            .name(name.clone())
            .spawn(move || requests.run(Ends::pass_requests))?;
        let answers = thread::Builder::new()
            .name(name)
            .spawn(move || answers.run(Ends::pass_answers));
        Ok((requests, answers))
    })();
    match begun {
        Ok((requests, Ok(answers))) => Ok(vec![requests, answers]),
        // The one that did begin ends with the connection.
        Ok((requests, Err(_))) => {
            shared.end(id, None);
            Ok(vec![requests])
        }
        Err(error) => {
            shared.end(id, None);
            Err(error)
        }
    }
}

impl Ends {
    fn run(mut self, pass: impl Fn(&mut Self) -> Result<(), End>) {
        let fault = match pass(&mut self) {
            Ok(()) | Err(End::Closed) => None,
            Err(End::Fault(kind)) => Some(Fault {
                broker: self.broker,
                kind,
            }),
        };
        self.shared.end(self.id, fault);
    }

    fn pass_requests(&mut self) -> Result<(), End> {
        let mut buffer = vec![0; CHUNK];
        loop {
            let len = read_u32(&mut self.client)?;
            if len > FRAME_MAX {
                return Err(End::Fault(FaultKind::RequestLength(len)));
            }
            // Not more than `CHUNK`, so it fits.
            let head_len = (len as usize).min(HEAD_MAX);
            let head_bytes = &mut buffer[..head_len];
            self.client.read_exact(head_bytes)?;
            let head = Head::of(head_bytes).ok_or(End::Fault(FaultKind::RequestHeader))?;
            let verdict = self.shared.arrived(self.broker, &head);
            if let Some(topic) = &verdict.hidden {
                put_in_place_of(head_bytes, &stranger_of(topic), topic);
            }
            match verdict.acting {
                Some((rule, Action::HoldRequest)) => self.hold(rule, None)?,
                Some((rule, Action::DelayRequest(time))) => self.hold(rule, Some(time))?,
                Some((_, Action::DropRequest)) => return Err(End::Closed),
                _ => {}
            }
            if !self
                .shared
                .pass_request(self.id, self.broker, &head, verdict)
            {
                return Err(End::Closed);
            }
            self.upstream.write_all(&len.to_be_bytes())?;
            self.upstream.write_all(&buffer[..head_len])?;
            let left = len as usize - head_len;
            copy(&mut self.client, &mut self.upstream, left, &mut buffer)?;
        }
    }

    fn pass_answers(&mut self) -> Result<(), End> {
        let mut buffer = vec![0; CHUNK];
        loop {
            let len = read_u32(&mut self.upstream)?;
            if !(4..=ANSWER_MAX).contains(&len) {
                return Err(End::Fault(FaultKind::AnswerLength(len)));
            }
            let correlation = read_u32(&mut self.upstream)?.cast_signed();
            let Some(verdict) = self.shared.answered(self.id, correlation) else {
                return Err(End::Fault(FaultKind::UnexpectedAnswer(correlation)));
            };
            match verdict.acting {
                Some((rule, Action::HoldResponse)) => self.hold(rule, None)?,
                Some((rule, Action::DelayResponse(time))) => self.hold(rule, Some(time))?,
                Some((_, Action::DropResponse)) => return Err(End::Closed),
                _ => {}
            }
            if !self.shared.pass_answer(self.id, self.broker) {
                return Err(End::Closed);
            }
            self.client.write_all(&len.to_be_bytes())?;
            self.client.write_all(&correlation.to_be_bytes())?;
            let left = len as usize - 4;
            if let Some(topic) = &verdict.hidden {
                let mut answer = vec![0; left];
                self.upstream.read_exact(&mut answer)?;
                put_in_place_of(&mut answer, topic, &stranger_of(topic));
                self.client.write_all(&answer)?;
                continue;
            }
            copy(&mut self.upstream, &mut self.client, left, &mut buffer)?;
        }
    }

    fn hold(&self, rule: u64, time: Option<std::time::Duration>) -> Result<(), End> {
        match self.shared.hold(self.id, rule, time) {
            true => Ok(()),
            false => Err(End::Closed),
        }
    }
}

fn read_u32(from: &mut TcpStream) -> io::Result<u32> {
    let mut bytes = [0; 4];
    from.read_exact(&mut bytes)?;
    Ok(u32::from_be_bytes(bytes))
}

/// Copies `left` bytes, a chunk at a time.
fn copy(
    from: &mut TcpStream,
    to: &mut TcpStream,
    mut left: usize,
    buffer: &mut [u8],
) -> io::Result<()> {
    while left > 0 {
        let wanted = left.min(buffer.len());
        let read = from.read(&mut buffer[..wanted])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        to.write_all(&buffer[..read])?;
        left -= read;
    }
    Ok(())
}
