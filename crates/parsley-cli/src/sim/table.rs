//! Tables: a head, rows, columns as wide as what is in them.

use std::io::{self, Write};

/// Rows of cells. The first and the last column stand left, those between them, which have numbers, right.
#[derive(Clone, Debug, Default)]
pub struct Table(Vec<Vec<String>>);

impl Table {
    /// A table with this head.
    pub fn new(head: &[&str]) -> Self {
        Self(vec![head.iter().map(|cell| (*cell).to_owned()).collect()])
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.0.push(cells);
    }

    /// Writes it.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let columns = self.0.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.0.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.0 {
            let mut line = String::new();
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                let padding = " ".repeat(width - cell.chars().count());
                let is_text = column == 0 || column + 1 == columns;
                line += if column == 0 { "" } else { "  " };
                line += &if is_text {
                    format!("{cell}{padding}")
                } else {
                    format!("{padding}{cell}")
                };
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_cells() {
        let mut table = Table::new(&["name", "n", "what"]);
        table.row(vec!["a".to_owned(), "1000".to_owned(), "x y".to_owned()]);
        table.row(vec!["älter".to_owned(), "7".to_owned(), String::new()]);
        let mut text = Vec::new();
        table.write(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text, "name      n  what\na      1000  x y\nälter     7\n");
    }
}
