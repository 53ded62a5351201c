//! The status of a resource as compressed JSON text: most of it is the same for every resource, and it
//! would be half of what the caches hold.

use lz4_flex::block::{compress_prepend_size_with_dict, decompress_size_prepended_with_dict};

/// Statuses as this operator writes them, which the compression refers to. What is not in them makes a
/// cached status longer, but never wrong.
const DICTIONARY: &[u8] = include_bytes!("status_dictionary.json");

/// A status as JSON text, or nothing. Equal texts are equal when compressed.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct StatusText(Box<[u8]>);

impl StatusText {
    /// The text, or an empty one.
    pub(crate) fn text(&self) -> String {
        let bytes = match self.0.is_empty() {
            true => Ok(Vec::new()),
            false => decompress_size_prepended_with_dict(&self.0, DICTIONARY),
        };
        // These are bytes that `from` made of a text.
        bytes
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok())
            .unwrap_or_default()
    }
}

impl From<&str> for StatusText {
    fn from(text: &str) -> Self {
        match text {
            "" => StatusText::default(),
            text => StatusText(compress_prepend_size_with_dict(text.as_bytes(), DICTIONARY).into()),
        }
    }
}

impl std::fmt::Debug for StatusText {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.text().fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_text_is_restored(text in ".{0,300}", times in 1..20_usize) {
            let text = text.repeat(times);
            prop_assert_eq!(StatusText::from(&*text).text(), text);
        }
    }

    #[test]
    fn a_status_of_the_dictionary_takes_few_bytes() {
        for text in std::str::from_utf8(DICTIONARY).unwrap().lines() {
            let compressed = StatusText::from(text);
            assert_eq!(compressed.text(), text);
            assert!(compressed.0.len() < 40, "{} bytes", compressed.0.len());
        }
    }
}
