//! What fuzz targets do with the bytes that the host and its probe are given (`docs/verification.md`, Fuzzing). Every function panics when
//! something that it asserts does not hold.

use crate::config::{ConfigError, KafkaConfig};
use crate::probe::Description;
use crate::state::Checkpoint;

/// A configuration that is read passes its check, and an error says where it is, or which setting it is about.
pub fn kafka_config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    match KafkaConfig::from_toml(text) {
        Ok(config) => {
            assert_eq!(config.check(), Ok(()));
            assert!(!config.brokers.is_empty() && config.workers > 0);
        }
        Err(ConfigError::Toml {
            line,
            column,
            reason,
        }) => {
            let found = text.split('\n').nth(line - 1);
            let found = found.unwrap_or_else(|| panic!("there is no line {line}: {reason}"));
            let width = found.chars().count();
            assert!(
                column >= 1 && column <= width + 1,
                "line {line}, column {column} of {width}"
            );
            assert!(!reason.is_empty());
        }
        Err(ConfigError::Range { setting, .. }) => assert!(!setting.is_empty()),
        Err(ConfigError::Owned { property, .. } | ConfigError::Property { property, .. }) => {
            // Quotes apart, which a text has around a name, or a name has in it.
            let bare = |text: &str| text.replace(['"', '\''], "");
            assert!(
                text.contains('\\') || bare(text).contains(&bare(&property)),
                "{property}"
            );
        }
        Err(error) => panic!("a text is not {error:?}"),
    }
}

/// A description that is read is written so that it is read again, and an application that it describes is described so.
pub fn kafka_description(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let Ok(description) = Description::from_toml(text) else {
        return;
    };
    let written = description.to_string();
    let again = Description::from_toml(&written)
        .unwrap_or_else(|error| panic!("what was written is not read: {error}\n{written}"));
    // Written, for a number that is none is not equal to itself.
    assert_eq!(again.to_string(), written);
    if let Ok(app) = description.app() {
        let mut same = Description::of(&app);
        same.account = description.account.clone();
        same.host = description.host.clone();
        assert_eq!(same.stages.len(), description.stages.len());
        assert!(same.app().is_ok(), "{same}");
    }
    if let Ok(config) = description.config("localhost:9092") {
        assert_eq!(config.brokers, "localhost:9092");
    }
}

/// A checkpoint that is read is written back in the same bytes.
pub fn kafka_checkpoint(bytes: &[u8]) {
    if let Some(checkpoint) = Checkpoint::from_bytes(bytes) {
        assert_eq!(checkpoint.to_bytes(), bytes);
        assert!(checkpoint.next.iter().all(|next| *next >= 0));
    }
}
