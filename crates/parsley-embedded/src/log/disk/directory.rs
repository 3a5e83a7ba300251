//! The files of a log's directory, and who may have it open.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::OpenError;

/// The format that this build reads and writes.
const FORMAT: u32 = 1;

/// Locked by the process that has the directory open, whose number it holds.
const LOCK_FILE: &str = "LOCK";
/// What is in the directory, and in which format.
const FORMAT_FILE: &str = "FORMAT";
/// There while the directory is being made: what else there is may be made anew.
const UNFINISHED_FILE: &str = "UNFINISHED";
/// Everything else.
const DATABASE_FILE: &str = "log.redb";

/// What a format file says ahead of the format's number.
const FORMAT_TEXT: &str = "parsley embedded log, format ";

/// A directory that this process alone has open.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    _lock: File,
}

impl Directory {
    /// Takes a directory, which is made when there is none.
    pub(crate) fn lock(path: &Path) -> Result<Self, OpenError> {
        let failed = |at: &Path| {
            let at = at.to_owned();
            move |error: io::Error| OpenError::io(&at, &error)
        };
        make(path).map_err(failed(path))?;
        if let Some(found) = foreign_file(path).map_err(failed(path))? {
            return Err(OpenError::Foreign {
                dir: path.to_owned(),
                found,
            });
        }
        let lock_path = path.join(LOCK_FILE);
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&lock_path)
            .map_err(failed(&lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(OpenError::InUse {
                    dir: path.to_owned(),
                    process: process_in(&mut lock),
                });
            }
            Err(TryLockError::Error(error)) => return Err(failed(&lock_path)(error)),
        }
        // Only for the message that another process gives: the lock is what counts.
        let _ = lock
            .set_len(0)
            .and_then(|()| write!(lock, "{}", std::process::id()));
        Ok(Self {
            path: path.to_owned(),
            _lock: lock,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Has the database opened, or made when the directory is new: then the format is written down once the database is there, so
    /// that what a crash leaves unfinished is known to be that.
    pub(crate) fn database<T>(
        &self,
        open: impl FnOnce(&Path, bool) -> Result<T, super::StorageError>,
    ) -> Result<T, OpenError> {
        let (format, unfinished, database) = (
            self.path.join(FORMAT_FILE),
            self.path.join(UNFINISHED_FILE),
            self.path.join(DATABASE_FILE),
        );
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error: io::Error| OpenError::io(&path, &error)
        };
        if format.try_exists().map_err(failed(&format))? {
            self.check_format(&format)?;
            // The crash that left it came after everything was there.
            remove_if_there(&unfinished).map_err(failed(&unfinished))?;
            if !database.try_exists().map_err(failed(&database))? {
                let found = format!("its {DATABASE_FILE} is missing");
                return Err(super::StorageError::corrupt(&self.path, found).into());
            }
            return Ok(open(&database, false)?);
        }
        if unfinished.try_exists().map_err(failed(&unfinished))? {
            remove_if_there(&database).map_err(failed(&database))?;
        } else if database.try_exists().map_err(failed(&database))? {
            return Err(
                super::StorageError::corrupt(&self.path, "its FORMAT file is missing").into(),
            );
        } else {
            write_synced(&unfinished, "").map_err(failed(&unfinished))?;
            self.sync()?;
        }
        let opened = open(&database, true)?;
        self.sync()?;
        let new = self.path.join("FORMAT.new");
        write_synced(&new, &format!("{FORMAT_TEXT}{FORMAT}\n")).map_err(failed(&new))?;
        fs::rename(&new, &format).map_err(failed(&format))?;
        self.sync()?;
        remove_if_there(&unfinished).map_err(failed(&unfinished))?;
        self.sync()?;
        Ok(opened)
    }

    fn check_format(&self, path: &Path) -> Result<(), OpenError> {
        let mut text = Vec::new();
        File::open(path)
            .and_then(|file| file.take(200).read_to_end(&mut text))
            .map_err(|error| OpenError::io(path, &error))?;
        match other_format(&text) {
            None => Ok(()),
            Some(found) => Err(OpenError::Format {
                dir: self.path.clone(),
                found,
                expected: FORMAT,
            }),
        }
    }

    /// Makes the names of the directory's files durable.
    fn sync(&self) -> Result<(), OpenError> {
        sync(&self.path).map_err(|error| OpenError::io(&self.path, &error))
    }
}

/// Makes a directory and those above it, where there are none, and their names durable.
fn make(path: &Path) -> io::Result<()> {
    if path.exists() && !path.is_dir() {
        return Err(io::Error::new(
            io::ErrorKind::NotADirectory,
            "it is no directory",
        ));
    }
    let above = |path: &Path| match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Some(PathBuf::from(".")),
        parent => parent.map(Path::to_owned),
    };
    let mut named = Vec::new();
    let mut missing = Some(path.to_owned());
    while let Some(dir) = missing.take_if(|dir| !dir.exists()) {
        missing = above(&dir);
        named.extend(missing.clone());
    }
    fs::create_dir_all(path)?;
    named.iter().try_for_each(|dir| sync(dir))
}

/// Makes the names in a directory durable.
fn sync(dir: &Path) -> io::Result<()> {
    // Only where directories are files.
    if cfg!(unix) {
        File::open(dir)?.sync_all()?;
    }
    Ok(())
}

/// What a format file says, for people, unless it is the format that this build reads and writes.
pub(crate) fn other_format(text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    let text = text.trim_end();
    match text.strip_prefix(FORMAT_TEXT) {
        Some(number) if number == FORMAT.to_string() => None,
        number => Some(shortened(number, text)),
    }
}

/// What a format file says, for people.
fn shortened(number: Option<&str>, text: &str) -> String {
    let (said, quoted) = match number {
        Some(number) => (number, number.to_owned()),
        None => (text, format!("{text:?}")),
    };
    match said.chars().count() > 40 {
        false => quoted,
        true => format!("{:?}...", said.chars().take(40).collect::<String>()),
    }
}

/// A file that is none of a log's, if the directory is no log's.
fn foreign_file(dir: &Path) -> io::Result<Option<String>> {
    let mut foreign = None;
    for file in fs::read_dir(dir)? {
        let name = file?.file_name().to_string_lossy().into_owned();
        match &*name {
            FORMAT_FILE | UNFINISHED_FILE | DATABASE_FILE => return Ok(None),
            LOCK_FILE => {}
            _ => foreign = Some(name),
        }
    }
    Ok(foreign)
}

fn process_in(lock: &mut File) -> Option<u32> {
    let mut text = String::new();
    lock.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn write_synced(path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
