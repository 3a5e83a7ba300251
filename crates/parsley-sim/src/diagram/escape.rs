//! Text that comes from a run, made safe for the place it is put into.

use std::fmt::Write as _;

/// Text as content or a quoted attribute of HTML and SVG.
pub(crate) fn markup(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // What HTML does not allow as a character is shown as one that it does.
            '\n' => out.push('\n'),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Text as a JSON string with its quotes, which can also stand inside an element of a page.
pub(crate) fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\u{0}'..='\u{1f}' | '\u{7f}' => {
                write!(out, "\\u{:04x}", u32::from(c)).expect("writing to a String does not fail");
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// The first `max` characters of a text on one line, with an ellipsis in place of the last one where it is longer.
pub(crate) fn shorten(text: &str, max: usize) -> String {
    let mut line = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut out: String = line.by_ref().take(max).collect();
    if line.next().is_some() {
        out.pop();
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{json, markup, shorten};

    #[test]
    fn markup_leaves_nothing_that_ends_an_element_or_an_attribute() {
        assert_eq!(
            markup("<a b=\"c\" d='e'>\n&\u{7}"),
            "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;\n&amp;\u{fffd}"
        );
    }

    #[test]
    fn a_json_string_survives_a_script_element() {
        assert_eq!(
            json("</script>\"\\\n"),
            "\"\\u003c/script\\u003e\\\"\\\\\\u000a\""
        );
    }

    #[test]
    fn a_text_is_shortened_only_when_it_is_too_long() {
        assert_eq!(shorten("äbcd", 4), "äbcd");
        assert_eq!(shorten("äbcde", 4), "äbc…");
        assert_eq!(shorten("ab", 0), "…");
        assert_eq!(shorten("a\nb", 3), "a b");
    }
}
