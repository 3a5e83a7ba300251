//! Where input comes from: a file, or standard input.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, IsTerminal, Read};
use std::path::PathBuf;

use same_file::Handle;

use crate::failure::Failure;

const BUFFER_BYTES: usize = 64 << 10;

/// An opened input.
pub type Reader = BufReader<Box<dyn Read + Send>>;

/// A file's name on the command line, or `-` for standard input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input(Option<PathBuf>);

impl Input {
    /// Standard input.
    pub const fn standard() -> Self {
        Self(None)
    }

    /// Whether it is typed at a terminal.
    pub fn is_typed(&self) -> bool {
        self.0.is_none() && io::stdin().is_terminal()
    }

    /// Opens it.
    pub fn open(&self) -> Result<Reader, Failure> {
        self.open_with_identity().map(|(reader, _)| reader)
    }

    /// Opens it, and says which file it is; `None` where the system cannot tell, as with a standard input that is closed.
    pub fn open_with_identity(&self) -> Result<(Reader, Option<Handle>), Failure> {
        let (reader, handle): (Box<dyn Read + Send>, _) = match &self.0 {
            None => (Box::new(io::stdin()), Handle::stdin()),
            Some(path) => {
                let file = File::open(path).map_err(|error| self.unreadable(error))?;
                let handle = file.try_clone().and_then(Handle::from_file);
                (Box::new(file), handle)
            }
        };
        Ok((BufReader::with_capacity(BUFFER_BYTES, reader), handle.ok()))
    }

    /// Whether it is a file that can be read again, from its beginning. A pipe and a device cannot.
    pub fn is_file(&self) -> bool {
        self.len().is_some()
    }

    /// How long it is, where that is known.
    pub fn len(&self) -> Option<u64> {
        let metadata = self.0.as_ref()?.metadata().ok()?;
        metadata.is_file().then_some(metadata.len())
    }

    /// The failure to read it.
    pub fn unreadable(&self, source: io::Error) -> Failure {
        Failure::Read {
            input: self.to_string(),
            source,
        }
    }
}

impl From<std::ffi::OsString> for Input {
    fn from(argument: std::ffi::OsString) -> Self {
        Self((argument != "-").then(|| PathBuf::from(argument)))
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("standard input"),
            Some(path) => write!(f, "{}", path.display()),
        }
    }
}
