//! A progress bar over long input, on standard error and only where that is a terminal.

use std::io::{self, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::input::Input;
use crate::plain::plain;

/// The bar, if there is one, and the messages beside it.
#[derive(Clone, Debug)]
pub struct Progress(Option<ProgressBar>);

impl Progress {
    /// No bar.
    pub const fn none() -> Self {
        Self(None)
    }

    /// A bar over an input; without an end where its length is not known. None beside input that is being typed.
    pub fn over(input: &Input) -> Self {
        if input.is_typed() {
            return Self(None);
        }
        Self(Some(bar(input.len(), ProgressDrawTarget::stderr())))
    }

    /// So many bytes were read.
    pub fn reached(&self, bytes: u64) {
        if let Some(bar) = &self.0 {
            bar.set_position(bytes);
        }
    }

    /// Says something on standard error. If that cannot be written there is nobody to tell.
    pub fn say(&self, message: &str) {
        let write = || {
            let _ = writeln!(io::stderr(), "parsley: {}", plain(message));
        };
        match &self.0 {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Takes the bar away.
    pub fn end(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// A bar for so many bytes. It takes the width that the terminal has at the time, and beside it there is little enough for 40 columns.
fn bar(length: Option<u64>, target: ProgressDrawTarget) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(length, target);
    let template = match length {
        Some(_) => "{wide_bar} {bytes} of {total_bytes}, {eta} to go",
        None => "{spinner} {bytes} read, {elapsed} elapsed",
    };
    bar.set_style(
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    bar
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use indicatif::TermLike;

    use super::*;

    /// A terminal of some width that keeps what it is told to show.
    #[derive(Clone, Debug)]
    struct Terminal {
        width: u16,
        shown: Arc<Mutex<String>>,
    }

    impl Terminal {
        fn show(&self, text: &str) -> io::Result<()> {
            self.shown
                .lock()
                .expect("no test panics here")
                .push_str(text);
            Ok(())
        }
    }

    impl TermLike for Terminal {
        fn width(&self) -> u16 {
            self.width
        }

        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn write_line(&self, text: &str) -> io::Result<()> {
            self.show(text)?;
            self.show("\n")
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            self.show(text)
        }

        fn clear_line(&self) -> io::Result<()> {
            self.shown.lock().expect("no test panics here").clear();
            Ok(())
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The bar had 32 columns and its text 50: a terminal of 60 columns showed each step on two lines.
    #[test]
    fn the_bar_takes_one_line_of_any_terminal() {
        let longest = 1023 * (1 << 20) + (1 << 19);
        for width in [40, 60, 80, 200] {
            for length in [Some(longest), None] {
                let terminal = Terminal {
                    width,
                    shown: Arc::default(),
                };
                let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
                let bar = bar(length, target);
                bar.set_position(longest - 1);
                bar.tick();
                let shown = terminal.shown.lock().expect("no test panics here").clone();
                let line = shown.trim_end();
                assert!(line.contains("1023.50 MiB"), "{line}");
                assert!(!line.contains('\n'), "{line}");
                let columns = line.chars().count();
                assert!(
                    columns <= usize::from(width),
                    "{columns} of {width}: {line}"
                );
                if length.is_some() {
                    assert_eq!(columns, usize::from(width), "{line}");
                }
            }
        }
    }
}
