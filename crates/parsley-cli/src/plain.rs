//! Text that came from outside, made fit for a terminal.

use std::fmt::Write;

/// The longest message that is shown.
const CHARS_MAX: usize = 400;

/// The text with control characters escaped, and its middle left out where it is long.
pub fn plain(text: &str) -> String {
    let (head, tail) = (CHARS_MAX * 3 / 4, CHARS_MAX / 4);
    let count = text.chars().count();
    let mut plain = String::new();
    for (index, character) in text.chars().enumerate() {
        if count > CHARS_MAX && index == head {
            plain.push_str(" ... ");
        }
        if count > CHARS_MAX && (head..count - tail).contains(&index) {
            continue;
        }
        if character.is_control() {
            // Writing to a String cannot fail.
            let _ = write!(plain, "{}", character.escape_default());
        } else {
            plain.push(character);
        }
    }
    plain
}

/// The longest name that a message repeats.
const NAME_CHARS_MAX: usize = 64;

/// A name from outside as a message repeats it: its first characters.
pub fn clipped(name: impl std::fmt::Display) -> String {
    let mut name = name.to_string();
    if let Some((end, _)) = name.char_indices().nth(NAME_CHARS_MAX) {
        name.truncate(end);
        name.push_str("...");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_the_rest_is_kept() {
        assert_eq!(plain("a\u{1b}[2Jb\r\nc\tä→"), "a\\u{1b}[2Jb\\r\\nc\\tä→");
    }

    #[test]
    fn long_text_keeps_its_ends() {
        let text = format!("{}{}", "a".repeat(1000), "b".repeat(1000));
        assert_eq!(
            plain(&text),
            format!("{} ... {}", "a".repeat(300), "b".repeat(100))
        );
        let text = "c".repeat(400);
        assert_eq!(plain(&text), text);
    }

    #[test]
    fn a_long_name_is_clipped_between_characters() {
        assert_eq!(clipped("ä".repeat(64)), "ä".repeat(64));
        assert_eq!(clipped("ä".repeat(65)), format!("{}...", "ä".repeat(64)));
    }
}
