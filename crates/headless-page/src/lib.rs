//! Opens pages in a headless Chromium, for tests of pages that are alive: what is on a page is asked of the page that is open, as it changes.
//!
//! Chromium is the one of the variable `CHROMIUM`, else the `chromium` of the system. One that is missing is an error and no reason to skip a test;
//! `cargo xtask test` installs it where it can. It is spoken to in its DevTools protocol, over two pipes (decision B5).

#![forbid(unsafe_code)]

mod browser;
mod wire;

pub use browser::{Browser, Page};
pub use wire::BrowserError;
