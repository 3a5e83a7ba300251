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
        let length = input.len();
        let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr());
        let template = match length {
            Some(_) => "{bar:32} {bytes} of {total_bytes}, {elapsed} elapsed, {eta} to go",
            None => "{spinner} {bytes} read, {elapsed} elapsed",
        };
        bar.set_style(
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        Self(Some(bar))
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
