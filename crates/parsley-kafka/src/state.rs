//! The state of a task as this process keeps it between runs: a copy of what its changelogs say, and up to where.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use bytes::{Buf, BufMut, Bytes};
use parsley_core::{Changes, Offset, StateStore, StoreError, TopicId, Visit};
use parsley_store::{Batch, Database, DatabaseError};

/// How much memory a task's database takes for what was read and written lately.
const CACHE_BYTES: usize = 4 << 20;

/// After how many steps a task's state is made durable here. What a crash takes back is read from the changelog again.
const DURABLE_EVERY: u32 = 64;

/// The database of a task, in its directory.
const FILE: &str = "state.redb";

const META: &[u8] = b"m";

/// The first byte of keys of the ordering changelog that are the host's own: those of the layout are text. The rest of such a key is the
/// identity of a topic that the stage has read or written, the value is the topic's name (decision K11).
const TOPIC: u8 = 0xff;

/// The key of the ordering changelog that has the identity of the fold changelog beside it.
const FOLD_CHANGELOG: &[u8] = b"\xfffold";

/// What begins the keys of topics in the database.
const TOPICS: u8 = b't';

/// Which of the two stores of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StoreKind {
    Ordering,
    Fold,
}

impl StoreKind {
    pub(crate) const ORDERING: [Self; 1] = [Self::Ordering];

    pub(crate) const BOTH: [Self; 2] = [Self::Ordering, Self::Fold];

    fn prefix(self) -> u8 {
        match self {
            Self::Ordering => b'o',
            Self::Fold => b'f',
        }
    }

    fn index(self) -> usize {
        match self {
            Self::Ordering => 0,
            Self::Fold => 1,
        }
    }
}

/// How far the changelogs are copied here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    /// The identities of the two changelog topics.
    pub(crate) topics: [TopicId; 2],
    /// The next offset to copy, of each.
    pub(crate) next: [Offset; 2],
    /// When it was written, in milliseconds since the Unix epoch.
    pub(crate) at_ms: i64,
}

impl Checkpoint {
    pub(crate) fn next_of(&self, kind: StoreKind) -> Offset {
        self.next[kind.index()]
    }

    pub(crate) fn advance(&mut self, kind: StoreKind, next: Offset) {
        let known = &mut self.next[kind.index()];
        *known = next.max(*known);
    }

    pub(crate) fn to_bytes(self) -> Bytes {
        let mut value = Vec::with_capacity(56);
        for topic in self.topics {
            value.put_slice(topic.0.uuid().as_bytes());
        }
        for next in self.next {
            value.put_i64(next);
        }
        value.put_i64(self.at_ms);
        value.into()
    }

    pub(crate) fn from_bytes(mut value: &[u8]) -> Option<Self> {
        if value.len() != 56 {
            return None;
        }
        let mut topic = || TopicId::from_uuid(uuid::Uuid::from_u128(value.get_u128()));
        let topics = [topic(), topic()];
        let mut next = || value.get_i64();
        let next = [next(), next()];
        let at_ms = value.get_i64();
        (next.iter().all(|next| *next >= 0)).then_some(Self {
            topics,
            next,
            at_ms,
        })
    }
}

/// A task's state in its directory.
#[derive(Debug)]
pub(crate) struct TaskState {
    database: Arc<Database>,
    path: PathBuf,
    steps: u32,
}

impl TaskState {
    /// Opens the state in a directory, which is made when there is none. What cannot be read is made anew: the changelogs have it.
    pub(crate) fn open(dir: &Path) -> Result<(Self, Option<Checkpoint>), StateError> {
        let failed = |error: io::Error| StateError::Io {
            path: dir.to_owned(),
            reason: error.to_string(),
        };
        fs::create_dir_all(dir).map_err(failed)?;
        let path = dir.join(FILE);
        if path.try_exists().map_err(failed)? {
            match Database::open(&path, CACHE_BYTES) {
                Ok(database) => {
                    let checkpoint = database.get(META);
                    let checkpoint = checkpoint.map_err(|error| StateError::of(&path, error))?;
                    let checkpoint = checkpoint.and_then(|value| Checkpoint::from_bytes(&value));
                    return Ok((Self::of(path, database), checkpoint));
                }
                Err(DatabaseError::InUse) => return Err(StateError::InUse { path }),
                Err(DatabaseError::Io(error)) if !is_damage(&error) => return Err(failed(error)),
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "local state is damaged and will be read back from the changelog");
                }
            }
        }
        Self::new(path).map(|state| (state, None))
    }

    /// Whether a directory has something of a task.
    pub(crate) fn is_kept(dir: &Path) -> bool {
        dir.join(FILE).exists()
    }

    fn new(path: PathBuf) -> Result<Self, StateError> {
        let made = match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => Database::create(&path, CACHE_BYTES),
        };
        match made {
            Ok(database) => Ok(Self::of(path, database)),
            Err(error) => Err(StateError::of(&path, error)),
        }
    }

    fn of(path: PathBuf, database: Database) -> Self {
        Self {
            database: Arc::new(database),
            path,
            steps: 0,
        }
    }

    /// The names of the topics that the task has read or written, by identity.
    pub(crate) fn topics(&self) -> Result<BTreeMap<TopicId, String>, StateError> {
        let mut topics = BTreeMap::new();
        let scanned = self.database.scan(&[TOPICS], &[TOPICS], &mut |key, name| {
            if let Ok(id) = uuid::Uuid::from_slice(&key[1..]) {
                let name = String::from_utf8_lossy(name).into_owned();
                topics.insert(TopicId::from_uuid(id), name);
            }
            Visit::Continue(())
        });
        scanned.map_err(|error| StateError::of(&self.path, error))?;
        Ok(topics)
    }

    /// The identity of the fold changelog that belongs to the ordering state, once it has been written down.
    pub(crate) fn fold_changelog(&self) -> Result<Option<TopicId>, StateError> {
        let found = self.database.get(&prefixed(TOPICS, &FOLD_CHANGELOG[1..]));
        let found = found.map_err(|error| StateError::of(&self.path, error))?;
        let id = found.and_then(|id| uuid::Uuid::from_slice(&id).ok());
        Ok(id.map(TopicId::from_uuid))
    }

    /// Whether a store has nothing in it.
    pub(crate) fn is_empty(&self, kind: StoreKind) -> Result<bool, StateError> {
        let mut is_empty = true;
        let prefix = [kind.prefix()];
        let scanned = self.database.scan(&prefix, &prefix, &mut |_, _| {
            is_empty = false;
            Visit::Break(())
        });
        scanned.map_err(|error| StateError::of(&self.path, error))?;
        Ok(is_empty)
    }

    /// The same, empty.
    pub(crate) fn cleared(self) -> Result<Self, StateError> {
        let Self { database, path, .. } = self;
        drop(database);
        Self::new(path)
    }

    pub(crate) fn store(&self, kind: StoreKind) -> TaskStore {
        TaskStore {
            database: Arc::clone(&self.database),
            prefix: kind.prefix(),
        }
    }

    /// Takes up what a step has committed, or what a changelog says, with how far that is.
    pub(crate) fn apply(
        &mut self,
        changes: [&Changes; 2],
        checkpoint: Checkpoint,
    ) -> Result<(), StateError> {
        let mut batch = Batch::default();
        for kind in StoreKind::BOTH {
            for (key, value) in &changes[kind.index()].0 {
                let key = match (kind, key.split_first()) {
                    (StoreKind::Ordering, Some((&TOPIC, id))) => prefixed(TOPICS, id),
                    _ => prefixed(kind.prefix(), key),
                };
                batch.set(key.into(), value.clone());
            }
        }
        batch.put(META.into(), checkpoint.to_bytes());
        self.steps += 1;
        let written = if self.steps >= DURABLE_EVERY {
            self.steps = 0;
            self.database.write(&batch)
        } else {
            self.database.write_soon(&batch)
        };
        written.map_err(|error| StateError::of(&self.path, error))
    }

    /// Makes durable what was taken up.
    pub(crate) fn make_durable(&mut self) -> Result<(), StateError> {
        self.steps = 0;
        self.database
            .write(&Batch::default())
            .map_err(|error| StateError::of(&self.path, error))
    }
}

/// The change of an ordering changelog that keeps a topic's name.
pub(crate) fn topic_name(topic: TopicId, name: &str) -> (Bytes, Option<Bytes>) {
    let key = prefixed(TOPIC, topic.0.uuid().as_bytes());
    (key.into(), Some(Bytes::copy_from_slice(name.as_bytes())))
}

/// The change of an ordering changelog that names the fold changelog beside it.
pub(crate) fn fold_changelog(topic: TopicId) -> (Bytes, Option<Bytes>) {
    let id = Bytes::copy_from_slice(topic.0.uuid().as_bytes());
    (Bytes::from_static(FOLD_CHANGELOG), Some(id))
}

/// Whether the system has read the file, and what it read is too little: a file that was cut off.
fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, UnexpectedEof};
    matches!(error.kind(), InvalidData | UnexpectedEof)
}

fn prefixed(prefix: u8, key: &[u8]) -> Vec<u8> {
    [&[prefix], key].concat()
}

/// The directory with a task's state cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// Another process has it open.
    #[error("{} is in use by another process: two processes on one machine need two state directories", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// It cannot be read or written.
    #[error("{}: {reason}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What went wrong.
        reason: String,
    },
}

impl StateError {
    fn of(path: &Path, error: DatabaseError) -> Self {
        let path = path.to_owned();
        match error {
            DatabaseError::InUse => Self::InUse { path },
            error => Self::Io {
                path,
                reason: error.to_string(),
            },
        }
    }
}

/// One of the two stores of a task, as it is committed.
#[derive(Clone, Debug)]
pub(crate) struct TaskStore {
    database: Arc<Database>,
    prefix: u8,
}

/// A task stages its changes over its committed state and never writes to it.
#[derive(Debug, thiserror::Error)]
#[error("committed state is changed by the step's commit alone")]
struct ReadOnly;

impl StateStore for TaskStore {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.database
            .get(&prefixed(self.prefix, key))
            .map_err(StoreError::new)
    }

    fn put(&mut self, _: &[u8], _: Bytes) -> Result<(), StoreError> {
        Err(StoreError::new(ReadOnly))
    }

    fn delete(&mut self, _: &[u8]) -> Result<(), StoreError> {
        Err(StoreError::new(ReadOnly))
    }

    fn scan(
        &self,
        prefix: &[u8],
        from: &[u8],
        visit: &mut dyn FnMut(&[u8], &Bytes) -> Visit,
    ) -> Result<(), StoreError> {
        self.database
            .scan(
                &prefixed(self.prefix, prefix),
                &prefixed(self.prefix, from),
                &mut |key, value| visit(&key[1..], &Bytes::copy_from_slice(value)),
            )
            .map_err(StoreError::new)
    }
}
