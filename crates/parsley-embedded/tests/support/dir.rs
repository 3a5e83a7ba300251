//! Directories for logs.

use std::path::Path;

use tempfile::TempDir;

/// A new directory, in memory where the system has such: for tests that write much and do not ask what a real disk does.
pub fn fast_dir() -> TempDir {
    let in_memory = Path::new("/dev/shm");
    let made = if in_memory.is_dir() {
        tempfile::tempdir_in(in_memory)
    } else {
        tempfile::tempdir()
    };
    made.unwrap()
}
