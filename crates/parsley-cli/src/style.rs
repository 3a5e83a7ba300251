//! Colour, where a terminal shows it.

use std::fmt;
use std::io::IsTerminal;

/// Whether to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    colour: bool,
}

/// Text in a colour.
pub struct Styled<T> {
    text: T,
    code: Option<&'static str>,
}

impl Style {
    /// For standard output: colour on a terminal that knows it, unless `NO_COLOR` is set (to anything but nothing).
    pub fn of_stdout() -> Self {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            colour: std::io::stdout().is_terminal() && !is_set("NO_COLOR") && !is_dumb,
        }
    }

    /// For what is right.
    pub fn good<T>(self, text: T) -> Styled<T> {
        self.with("32", text)
    }

    /// For what is wrong.
    pub fn bad<T>(self, text: T) -> Styled<T> {
        self.with("31", text)
    }

    /// For what stands out.
    pub fn strong<T>(self, text: T) -> Styled<T> {
        self.with("1", text)
    }

    /// For what stands back.
    pub fn faint<T>(self, text: T) -> Styled<T> {
        self.with("2", text)
    }

    fn with<T>(self, code: &'static str, text: T) -> Styled<T> {
        Styled {
            text,
            code: self.colour.then_some(code),
        }
    }
}

impl<T: fmt::Display> fmt::Display for Styled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            None => self.text.fmt(f),
            Some(code) => {
                write!(f, "\u{1b}[{code}m")?;
                self.text.fmt(f)?;
                f.write_str("\u{1b}[0m")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn width_counts_the_text_and_not_the_colour() {
        let (plain, colour) = (Style { colour: false }, Style { colour: true });
        assert_eq!(format!("[{:>4}]", plain.good("ok")), "[  ok]");
        assert_eq!(
            format!("[{:>4}]", colour.good("ok")),
            "[\u{1b}[32m  ok\u{1b}[0m]"
        );
    }
}
