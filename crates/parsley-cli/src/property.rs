//! Properties of librdkafka on the command line.

/// Text is no property.
#[derive(Debug, thiserror::Error)]
#[error("expected a key, `=`, a value, such as security.protocol=ssl")]
pub struct NoProperty;

/// Reads `KEY=VALUE`.
pub fn property(text: &str) -> Result<(String, String), NoProperty> {
    let (key, value) = text.split_once('=').ok_or(NoProperty)?;
    match key.trim() {
        "" => Err(NoProperty),
        key => Ok((key.to_owned(), value.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_property_is_a_key_and_a_value() {
        let read = |text: &str| property(text).ok();
        let pair = |key: &str, value: &str| Some((key.to_owned(), value.to_owned()));
        assert_eq!(read("a.b=c"), pair("a.b", "c"));
        assert_eq!(read("a= x=y"), pair("a", " x=y"));
        assert_eq!(read("a="), pair("a", ""));
        assert_eq!((read("a"), read("=c"), read("")), (None, None, None));
    }
}
