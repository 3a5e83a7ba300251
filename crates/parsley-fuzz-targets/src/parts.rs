//! How one input says several things: parts behind their lengths, which a fuzzer can cut and put together.

use bytes::Bytes;

/// Takes things off the front of an input. What is not there any more is zero, or empty.
pub struct Parts<'a>(pub &'a [u8]);

impl<'a> Parts<'a> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let taken = self.take(N);
        array[..taken.len()].copy_from_slice(taken);
        array
    }

    /// At most that many bytes.
    pub fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Bytes behind their length, which takes two bytes.
    pub fn part(&mut self) -> &'a [u8] {
        let length = u16::from_be_bytes(self.array());
        self.take(length.into())
    }

    /// Bytes behind their length, or null, for the highest length there is.
    pub fn nullable(&mut self) -> Option<Bytes> {
        match u16::from_be_bytes(self.array()) {
            u16::MAX => None,
            length => Some(Bytes::copy_from_slice(self.take(length.into()))),
        }
    }
}
