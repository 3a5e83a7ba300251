//! Brings Apache Kafka's jars to a folder.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The Scala build of the broker that is fetched.
const BROKER_ARTIFACT: &str = "kafka_2.13";

/// The Maven plugin that copies an artifact with what it needs at run time, pinned.
const COPY_GOAL: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";

/// The logging backend put beside the broker, which ships none of its own. Serves every version from 3.7 on.
const LOGGING_BACKEND: (&str, &str, &str) = ("org.slf4j", "slf4j-reload4j", "1.7.36");

/// The jars of one version of Apache Kafka, in a folder.
#[derive(Clone, Debug)]
pub struct KafkaJars {
    version: String,
    folder: PathBuf,
}

/// Why the jars could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The version has a character that no version of Apache Kafka has.
    #[error(
        "`{version}` is not a version of Apache Kafka: only letters, digits, `.` and `-` may occur"
    )]
    Version {
        /// The version asked for.
        version: String,
    },
    /// Maven is not installed.
    #[error("`mvn` was not found on the path; install Maven (Debian: apt-get install -y maven)")]
    NoMaven,
    /// Maven ran and failed.
    #[error("Maven could not fetch Apache Kafka {version} ({status}):\n{output}")]
    Maven {
        /// The version asked for.
        version: String,
        /// How Maven ended.
        status: std::process::ExitStatus,
        /// What Maven printed.
        output: String,
    },
    /// The folder could not be read or written.
    #[error("{doing} {path}: {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// Where.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl FetchError {
    fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            doing,
            path,
            source,
        }
    }
}

impl KafkaJars {
    /// The jars of `version` in the folder `<folder>/<version>`, fetched by Maven when that does not exist yet.
    ///
    /// Several processes may fetch into one folder at once: a lock file makes all but the first wait, and a folder appears under
    /// its final name only when it is complete.
    ///
    /// # Errors
    ///
    /// [`FetchError`], when the version is malformed, Maven is missing or fails, or the folder cannot be written.
    pub fn fetch(version: &str, folder: &Path) -> Result<Self, FetchError> {
        let well_formed = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
        if !version.starts_with(|c: char| c.is_ascii_digit()) || !version.chars().all(well_formed) {
            return Err(FetchError::Version {
                version: version.to_owned(),
            });
        }
        let jars = Self {
            version: version.to_owned(),
            folder: folder.join(version),
        };
        if jars.folder.is_dir() {
            return Ok(jars);
        }
        fs::create_dir_all(folder).map_err(FetchError::io("creating", folder))?;
        let lock_path = folder.join(format!("{version}.lock"));
        let lock = File::create(&lock_path).map_err(FetchError::io("creating", &lock_path))?;
        lock.lock().map_err(FetchError::io("locking", &lock_path))?;
        if !jars.folder.is_dir() {
            jars.download(folder)?;
        }
        Ok(jars)
    }

    /// The folder that the project's own runs keep jars in: `kafka` in Cargo's target folder.
    #[must_use]
    pub fn default_folder() -> PathBuf {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
            || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"),
            PathBuf::from,
        );
        target.join("kafka")
    }

    /// The version of these jars.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The folder with the jars.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Fetches into a temporary folder beside the final one, then renames it.
    fn download(&self, beside: &Path) -> Result<(), FetchError> {
        let scratch = tempfile::Builder::new()
            .prefix("fetch-")
            .tempdir_in(beside)
            .map_err(FetchError::io("creating a folder in", beside))?;
        let pom = scratch.path().join("pom.xml");
        fs::write(&pom, self.pom()).map_err(FetchError::io("writing", &pom))?;
        let fetched = scratch.path().join("jars");
        let output = Command::new("mvn")
            .args(["--batch-mode", "--quiet", "--file"])
            .arg(&pom)
            .arg(COPY_GOAL)
            .arg("-DincludeScope=runtime")
            .arg(format!("-DoutputDirectory={}", fetched.display()))
            .stdin(Stdio::null())
            .output()
            .map_err(|source| match source.kind() {
                io::ErrorKind::NotFound => FetchError::NoMaven,
                _ => FetchError::Io {
                    doing: "running",
                    path: PathBuf::from("mvn"),
                    source,
                },
            })?;
        if !output.status.success() {
            let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
            text.push_str(&String::from_utf8_lossy(&output.stderr));
            return Err(FetchError::Maven {
                version: self.version.clone(),
                status: output.status,
                output: text,
            });
        }
        fs::rename(&fetched, &self.folder)
            .map_err(FetchError::io("renaming the fetched jars to", &self.folder))
    }

    fn pom(&self) -> String {
        let dependency = |group: &str, artifact: &str, version: &str| {
            format!(
                "    <dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>\n"
            )
        };
        let (group, artifact, version) = LOGGING_BACKEND;
        format!(
            "<project xmlns=\"http://maven.apache.org/POM/4.0.0\">\n  <modelVersion>4.0.0</modelVersion>\n  \
             <groupId>parsley</groupId><artifactId>broker-jars</artifactId><version>1</version>\n  <dependencies>\n{}{}  \
             </dependencies>\n</project>\n",
            dependency("org.apache.kafka", BROKER_ARTIFACT, &self.version),
            dependency(group, artifact, version),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_could_leave_the_folder_or_the_pom_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for version in ["", "..", "../4.4.0", "4.4.0</version>", "4.4.0/x", "-4"] {
            let refused = KafkaJars::fetch(version, folder.path());
            assert!(
                matches!(refused, Err(FetchError::Version { .. })),
                "{version:?}: {refused:?}"
            );
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_complete_folder_is_used_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("9.9.9")).unwrap();
        let jars = KafkaJars::fetch("9.9.9", folder.path()).unwrap();
        assert_eq!(jars.folder(), folder.path().join("9.9.9"));
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            1,
            "no lock is taken and nothing is fetched"
        );
    }
}
