//! Input by lines, in bounded memory.

use std::io::{self, BufRead};

use md5::{Digest, Md5};

/// One line of input, without its newline.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// A line of text.
    Text(&'a str),
    /// The line is longer than the reader holds. What follows it is still read, line by line.
    TooLong,
    /// The line is not UTF-8 from this byte on.
    NotUtf8 {
        /// How many bytes of it are.
        valid_up_to: usize,
    },
}

/// Reads lines and holds one at a time, up to a limit.
pub struct Lines<R> {
    reader: R,
    limit: usize,
    line: Vec<u8>,
    number: u64,
    bytes: u64,
    within_long_line: bool,
    digest: Option<LinesDigest>,
}

/// A digest of lines, whatever they end with.
#[derive(Default)]
struct LinesDigest {
    /// Of the lines that were read to their end.
    whole: Md5,
    /// Of these and what was read of the next one.
    open: Md5,
}

impl<R: BufRead> Lines<R> {
    /// Reads lines of at most `limit` bytes.
    pub fn new(reader: R, limit: usize) -> Self {
        Self {
            reader,
            limit,
            line: Vec::new(),
            number: 0,
            bytes: 0,
            within_long_line: false,
            digest: None,
        }
    }

    /// Has it keep a digest of the lines. Each is then read to its end before it is handed out.
    #[must_use]
    pub fn digesting(mut self) -> Self {
        self.digest = Some(LinesDigest::default());
        self
    }

    /// The digest of the lines handed out so far, in hexadecimal, if one is kept. Whether the last of them ends with a newline does not matter.
    pub fn digest(&self) -> Option<String> {
        let digest = self.digest.as_ref()?;
        Some(hex::encode(digest.whole.clone().finalize()))
    }

    /// The longest line that is read.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// How many bytes of the input were read so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next line and its number, which starts at 1.
    ///
    /// A line that is too long is reported as soon as that is known, and its rest discarded by the next call; but not while a digest is kept.
    ///
    /// # Errors
    ///
    /// When the input cannot be read.
    pub fn next(&mut self) -> io::Result<Option<(u64, Line<'_>)>> {
        self.skip_rest()?;
        self.line.clear();
        let ended = self.take_until_newline(true)?;
        if !ended && self.line.is_empty() && !self.within_long_line {
            return Ok(None);
        }
        self.number += 1;
        let too_long = self.within_long_line;
        if self.digest.is_some() {
            self.skip_rest()?;
        }
        if let Some(digest) = &mut self.digest {
            digest.open.update(b"\n");
            digest.whole = digest.open.clone();
        }
        let line = if too_long {
            Line::TooLong
        } else {
            match std::str::from_utf8(&self.line) {
                Ok(text) => Line::Text(text),
                Err(error) => Line::NotUtf8 {
                    valid_up_to: error.valid_up_to(),
                },
            }
        };
        Ok(Some((self.number, line)))
    }

    /// Discards what is left of a line that is too long.
    fn skip_rest(&mut self) -> io::Result<()> {
        if self.within_long_line {
            self.take_until_newline(false)?;
            self.within_long_line = false;
        }
        Ok(())
    }

    /// Reads up to and including the next newline, or the end. Keeps what it reads if told to, and then stops where the line gets too long.
    /// Returns whether there was a newline.
    fn take_until_newline(&mut self, keep: bool) -> io::Result<bool> {
        loop {
            let chunk = match self.reader.fill_buf() {
                Ok(chunk) => chunk,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if chunk.is_empty() {
                return Ok(false);
            }
            let newline = chunk.iter().position(|&byte| byte == b'\n');
            let content = &chunk[..newline.unwrap_or(chunk.len())];
            if keep && content.len() > self.limit - self.line.len() {
                self.within_long_line = true;
                return Ok(false);
            }
            if keep {
                self.line.extend_from_slice(content);
            }
            if let Some(digest) = &mut self.digest {
                digest.open.update(content);
            }
            let used = content.len() + usize::from(newline.is_some());
            self.reader.consume(used);
            self.bytes += used as u64;
            if newline.is_some() {
                return Ok(true);
            }
        }
    }
}

impl<R: io::Read> Lines<io::BufReader<R>> {
    /// Whether the next line may have to be waited for: a program that answers line by line hands out its answers first.
    pub fn may_wait(&self) -> bool {
        self.reader.buffer().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    fn read(input: &[u8], limit: usize, chunk: usize) -> Vec<(u64, String)> {
        let mut lines = Lines::new(BufReader::with_capacity(chunk, input), limit);
        let mut read = Vec::new();
        while let Some((number, line)) = lines.next().unwrap() {
            let shown = match line {
                Line::Text(text) => text.to_owned(),
                Line::TooLong => "<too long>".to_owned(),
                Line::NotUtf8 { valid_up_to } => format!("<not utf-8 at {valid_up_to}>"),
            };
            read.push((number, shown));
        }
        assert_eq!(lines.bytes(), input.len() as u64);
        read
    }

    fn numbered(lines: &[&str]) -> Vec<(u64, String)> {
        (1..)
            .zip(lines.iter().map(|line| (*line).to_owned()))
            .collect()
    }

    #[test]
    fn lines_come_whole_whatever_the_chunks() {
        for chunk in [1, 2, 3, 7, 64] {
            assert_eq!(read(b"ab\n\ncd", 4, chunk), numbered(&["ab", "", "cd"]));
            assert_eq!(read(b"ab\n\ncd\n", 4, chunk), numbered(&["ab", "", "cd"]));
            assert_eq!(read(b"", 4, chunk), numbered(&[]));
            assert_eq!(read(b"\n", 4, chunk), numbered(&[""]));
        }
    }

    #[test]
    fn a_line_past_the_limit_is_named_and_the_next_one_read() {
        for chunk in [1, 2, 3, 7, 64] {
            assert_eq!(
                read(b"abcd\nabcde\nxy\n", 4, chunk),
                numbered(&["abcd", "<too long>", "xy"])
            );
            assert_eq!(read(b"abcdefghijkl", 4, chunk), numbered(&["<too long>"]));
            assert_eq!(
                read(b"abcdefghijkl\n\nmnopqrstuv\n", 4, chunk),
                numbered(&["<too long>", "", "<too long>"])
            );
        }
    }

    #[test]
    fn bytes_that_are_not_text_are_named() {
        assert_eq!(
            read(b"a\xff\nb\n", 4, 3),
            numbered(&["<not utf-8 at 1>", "b"])
        );
    }

    /// The digest that is kept after each line.
    fn digests(input: &[u8], chunk: usize) -> Vec<String> {
        let mut lines = Lines::new(BufReader::with_capacity(chunk, input), 4).digesting();
        let mut digests = vec![lines.digest().expect("a digest")];
        while lines.next().unwrap().is_some() {
            digests.push(lines.digest().expect("a digest"));
        }
        assert_eq!(
            Some(digests.last().expect("the first")),
            lines.digest().as_ref()
        );
        digests
    }

    #[test]
    fn the_digest_is_that_of_the_lines_handed_out() {
        let input = b"ab\n\nlong line\ncd\xff\nlonger line";
        let whole = |bytes: &[u8]| hex::encode(Md5::digest(bytes));
        let expected = [0, 3, 4, 14, 18].map(|end| whole(&input[..end]));
        for chunk in [1, 2, 3, 7, 64] {
            let found = digests(input, chunk);
            assert_eq!(found[..5], expected);
            assert_eq!(found[5..], [whole(&[&input[..], b"\n"].concat())]);
            assert_eq!(digests(b"ab", chunk), digests(b"ab\n", chunk));
            assert_ne!(digests(b"ab", chunk), digests(b"a\nb", chunk));
        }
        assert_eq!(Lines::new(BufReader::new(&b""[..]), 4).digest(), None);
    }

    #[test]
    fn a_line_without_end_is_named_before_it_ends() {
        let mut lines = Lines::new(BufReader::new(io::repeat(b'x')), 1000);
        assert_eq!(lines.next().unwrap(), Some((1, Line::TooLong)));
    }
}
