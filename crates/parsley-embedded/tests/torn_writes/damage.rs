//! What befalls a file.

use std::fmt;

#[derive(Clone, Copy, Debug)]
pub enum Damage {
    /// Everything from this byte on is lost.
    Cut { at: u64 },
    /// One bit is another.
    Flip { byte: u64, bit: u8 },
}

impl Damage {
    pub fn apply(self, bytes: &mut Vec<u8>) {
        match self {
            Self::Cut { at } => bytes.truncate(at as usize),
            Self::Flip { byte, bit } => bytes[byte as usize] ^= 1 << bit,
        }
    }

    /// Undoes it in a file that once was as `whole` is.
    pub fn undo(self, bytes: &mut Vec<u8>, whole: &[u8]) {
        match self {
            Self::Cut { at } => {
                bytes.truncate(at as usize);
                bytes.extend_from_slice(&whole[at as usize..]);
            }
            Self::Flip { .. } => self.apply(bytes),
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut { at } => write!(f, "cut at byte {at}"),
            Self::Flip { byte, bit } => write!(f, "bit {bit} of byte {byte} flipped"),
        }
    }
}
