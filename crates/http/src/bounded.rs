//! Limits the length of user input in messages and in log lines.

use std::borrow::Cow;
use std::fmt;

/// Maximum number of bytes of a value, path or name that a message quotes.
pub const MOST_QUOTED: usize = 256;

/// `text`, or its beginning and `…` in at most [`MOST_QUOTED`] bytes.
pub fn shortened(text: &str) -> Cow<'_, str> {
    if text.len() <= MOST_QUOTED {
        return Cow::Borrowed(text);
    }
    Cow::Owned(beginning_of(&text, MOST_QUOTED))
}

/// At most `limit` bytes of `text`, cut at a character boundary.
pub fn cut(text: &str, limit: usize) -> &str {
    text.get(..text.floor_char_boundary(limit)).unwrap_or(text)
}

/// The displayed form of `shown`, or its beginning and `…`, in at most `most` bytes (3 or more,
/// the size of `…`).
pub fn beginning_of(shown: &dyn fmt::Display, most: usize) -> String {
    let text = shown.to_string();
    if text.len() <= most {
        return text;
    }
    format!("{}…", cut(&text, most.saturating_sub('…'.len_utf8())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_keeps_to_its_bound_and_tells_that_it_was_cut() {
        for (text, most, shown) in [
            ("", 4, ""),
            ("abcd", 4, "abcd"),
            ("abcde", 4, "a…"),
            ("aäöü", 7, "aäöü"),
            ("aäöüß", 7, "aä…"),
        ] {
            assert_eq!(beginning_of(&text, most), shown, "{text}");
        }
        let letters = "abcdefg".chars().map(String::from).collect::<Vec<_>>();
        let pieces =
            fmt::from_fn(|out| letters.iter().try_for_each(|letter| out.write_str(letter)));
        assert_eq!(beginning_of(&pieces, 7), "abcdefg");
        assert_eq!(beginning_of(&pieces, 6), "abc…");
        assert_eq!(shortened(&"x".repeat(MOST_QUOTED)).len(), MOST_QUOTED);
        assert_eq!(shortened(&"x".repeat(9999)).len(), MOST_QUOTED);
    }
}
