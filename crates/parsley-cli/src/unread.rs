//! Notices that nobody reads standard output any more, also while there is nothing to write.

use std::io;

/// Waits until the reader of standard output has gone away. Returns the error that a write would give, or `None` where that cannot be
/// waited for; it never returns while there is a reader, or where there cannot be one, as with a file.
#[cfg(unix)]
pub fn unread() -> Option<io::Error> {
    use rustix::event::{PollFd, PollFlags, poll};
    let stdout = io::stdout();
    loop {
        // No event is asked for: errors and hang-ups are told anyway.
        let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
        match poll(&mut polled, None) {
            Ok(_) => {
                let gone = polled[0]
                    .revents()
                    .intersects(PollFlags::ERR | PollFlags::HUP);
                return gone.then(|| io::ErrorKind::BrokenPipe.into());
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

/// Nothing here tells; the next write will.
#[cfg(not(unix))]
pub fn unread() -> Option<io::Error> {
    None
}
