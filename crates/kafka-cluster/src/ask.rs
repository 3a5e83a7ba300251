//! One question to a broker, in Kafka's protocol: for what client libraries do not ask.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// The longest answer that is read, in bytes.
const ANSWER_LEN_MAX: u32 = 1 << 20;

/// The correlation number of every question: each has a connection of its own.
const CORRELATION: i32 = 1;

/// A request in one of the versions without tagged fields.
pub(crate) struct Request(Vec<u8>);

impl Request {
    pub(crate) fn new(key: i16, version: i16) -> Self {
        let mut request = Self(Vec::new());
        request.0.extend(key.to_be_bytes());
        request.0.extend(version.to_be_bytes());
        request.0.extend(CORRELATION.to_be_bytes());
        request.0.extend((-1_i16).to_be_bytes()); // no client id
        request
    }

    pub(crate) fn byte(mut self, byte: u8) -> Self {
        self.0.push(byte);
        self
    }

    pub(crate) fn count(mut self, count: i32) -> Self {
        self.0.extend(count.to_be_bytes());
        self
    }

    pub(crate) fn text(mut self, text: &str) -> io::Result<Self> {
        let length = i16::try_from(text.len())
            .map_err(|_| invalid(format!("a text of {} bytes", text.len())))?;
        self.0.extend(length.to_be_bytes());
        self.0.extend(text.as_bytes());
        Ok(self)
    }

    fn framed(&self) -> io::Result<Vec<u8>> {
        let length = u32::try_from(self.0.len())
            .map_err(|_| invalid(format!("a request of {} bytes", self.0.len())))?;
        Ok([&length.to_be_bytes()[..], &self.0].concat())
    }
}

/// An answer, behind its correlation number.
#[derive(Debug)]
pub(crate) struct Answer(Vec<u8>);

impl Answer {
    fn of(bytes: Vec<u8>) -> io::Result<Self> {
        let answer = Self(bytes);
        match answer.i32(-4) {
            Ok(CORRELATION) => Ok(answer),
            _ => Err(invalid("not an answer to what was asked".to_owned())),
        }
    }

    /// The number at a place, counted from behind the correlation number.
    pub(crate) fn i32(&self, at: isize) -> io::Result<i32> {
        self.array(at).map(i32::from_be_bytes)
    }

    /// The short number at a place, counted from behind the correlation number.
    pub(crate) fn i16(&self, at: isize) -> io::Result<i16> {
        self.array(at).map(i16::from_be_bytes)
    }

    fn array<const N: usize>(&self, at: isize) -> io::Result<[u8; N]> {
        usize::try_from(at + 4)
            .ok()
            .and_then(|at| self.0.get(at..at + N)?.try_into().ok())
            .ok_or_else(|| invalid(format!("an answer of {} bytes", self.0.len())))
    }
}

/// Asks the broker on `port` of the loopback address.
pub(crate) fn ask(port: u16, request: &Request, timeout: Duration) -> io::Result<Answer> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    stream.write_all(&request.framed()?)?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length);
    if length > ANSWER_LEN_MAX {
        return Err(invalid(format!("an answer of {length} bytes")));
    }
    let mut answer = vec![0; length as usize];
    stream.read_exact(&mut answer)?;
    Answer::of(answer)
}

pub(crate) fn invalid(found: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, found)
}

#[cfg(test)]
pub(crate) fn answer_of(bytes: &[u8]) -> io::Result<Answer> {
    Answer::of(bytes.to_vec())
}

#[cfg(test)]
pub(crate) fn bytes_of(request: &Request) -> Vec<u8> {
    request.framed().unwrap()
}
