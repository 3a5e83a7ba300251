//! Figures that a task writes into a page of the documentation.

use std::fs;
use std::path::Path;

use crate::command::Failure;

/// What stands before and behind figures on a page.
pub type Marks = [&'static str; 2];

/// Writes figures into a page, where its marks are.
pub fn put(page: &str, marks: Marks, text: &str) -> Result<(), Failure> {
    let path = crate::root().join(page);
    let before = fs::read_to_string(&path).map_err(|error| unmet(&path, &error))?;
    let [begin, end] = marks;
    let after = replaced(&before, marks, text)
        .ok_or_else(|| Failure::Unmet(format!("{page} has not both of {begin} and {end}")))?;
    fs::write(&path, after).map_err(|error| unmet(&path, &error))
}

/// A file that cannot be read or written.
pub fn unmet(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Unmet(format!("{}: {error}", path.display()))
}

/// The page with other figures; `None` when it has no place for them.
fn replaced(page: &str, [begin, end]: Marks, text: &str) -> Option<String> {
    let (before, rest) = page.split_once(begin)?;
    let (_, after) = rest.split_once(end)?;
    Some(format!("{before}{begin}\n{text}{end}{after}"))
}

#[cfg(test)]
pub fn assert_has_place(page: &str, marks: Marks) {
    let page = fs::read_to_string(crate::root().join(page)).unwrap();
    assert!(
        replaced(&page, marks, "x\n").is_some(),
        "{marks:?} are missing"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_take_the_place_of_those_before() {
        let marks @ [begin, end] = ["<!-- begin -->", "<!-- end -->"];
        let page = format!("a\n{begin}\nold\n{end}\nb\n");
        let new = replaced(&page, marks, "new\n").unwrap();
        assert_eq!(new, format!("a\n{begin}\nnew\n{end}\nb\n"));
        assert_eq!(replaced(&new, marks, "new\n").unwrap(), new);
        assert_eq!(replaced("no marks", marks, "new\n"), None);
    }
}
