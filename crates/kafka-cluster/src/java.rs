//! Finds and describes the Java virtual machine.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Why no usable Java was found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JavaError {
    /// There is no Java.
    #[error("{} was not found; install Java 17 (Debian: apt-get install -y openjdk-17-jre-headless) or set JAVA_HOME", .program.display())]
    Missing {
        /// The program that was looked for.
        program: PathBuf,
    },
    /// Java is there and does not run.
    #[error("{} does not run: {source}", .program.display())]
    Broken {
        /// The program that was tried.
        program: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// The `java` program to use: the one of `JAVA_HOME` when that is set and not empty, else the one on the path. It is run once, so that
/// its absence is told apart from a broker that fails.
pub(crate) fn find(java_home: Option<OsString>) -> Result<PathBuf, JavaError> {
    let program = match java_home {
        Some(home) if !home.is_empty() => Path::new(&home).join("bin/java"),
        _ => PathBuf::from("java"),
    };
    let tried = Command::new(&program)
        .arg("-version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match tried {
        Ok(status) if status.success() => Ok(program),
        Ok(status) => Err(JavaError::Broken {
            program,
            source: io::Error::other(status.to_string()),
        }),
        Err(source) if source.kind() == io::ErrorKind::NotFound => {
            Err(JavaError::Missing { program })
        }
        Err(source) => Err(JavaError::Broken { program, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_java_home_without_java_is_named_in_the_error() {
        let home = tempfile::tempdir().unwrap();
        let error = find(Some(home.path().as_os_str().to_owned())).unwrap_err();
        let expected = home.path().join("bin/java");
        assert!(
            matches!(&error, JavaError::Missing { program } if *program == expected),
            "{error:?}"
        );
        assert!(error.to_string().contains("JAVA_HOME"), "{error}");
    }
}
