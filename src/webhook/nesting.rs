//! The nesting of the JSON in a body. For a value that it skips, serde_json keeps a byte per open
//! bracket, in a `Vec` that doubles: a body of brackets takes more than twice its length.

use memchr::memchr_iter;

/// Maximum nesting of a long body. API servers reject JSON that is nested deeper than 10 000
/// (`sigs.k8s.io/json`), and a review adds three levels.
pub(super) const MOST_NESTED: usize = 16 * 1024;
/// Up to this number of opening brackets, at most this number of bytes is taken. A list of 10 000
/// objects has far fewer.
const MOST_UNCHECKED: usize = 1024 * 1024;

/// Whether reading `body` may take much more memory than `body`, because of its nesting.
pub(super) fn is_too_deep(body: &str) -> bool {
    let json = body.as_bytes();
    // Counting is much faster than parsing. A short body is not even counted.
    let opening = |bracket| memchr_iter(bracket, json).count();
    json.len() > MOST_UNCHECKED
        && opening(b'[') + opening(b'{') > MOST_UNCHECKED
        && is_deeper_than(MOST_NESTED, json)
}

/// Exact up to the first syntax error, where the parser stops.
fn is_deeper_than(limit: usize, json: &[u8]) -> bool {
    let mut depth = 0_usize;
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => skip_string(&mut bytes),
            _ => {}
        }
        if depth > limit {
            return true;
        }
    }
    false
}

/// Continues after the closing quote.
fn skip_string<'a>(bytes: &mut impl Iterator<Item = &'a u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => _ = bytes.next(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_are_counted_where_they_are_open_and_no_text() {
        for (json, depth) in [
            ("1", 0),
            ("[[], {}, [[]]]", 3),
            (r#"{"a": {"[[[[": "]]]]"}}"#, 2),
            (r#"["\"[[[[", []]"#, 2),
            (r#"["\\", [[]]]"#, 3),
            ("[[[", 3),
            ("]]]]", 0),
        ] {
            assert!(!is_deeper_than(depth, json.as_bytes()), "{json}");
            assert!(
                depth == 0 || is_deeper_than(depth - 1, json.as_bytes()),
                "{json}"
            );
        }
    }

    #[test]
    fn only_a_long_body_that_is_nested_deep_is_rejected() {
        let brackets = "[".repeat(MOST_UNCHECKED + 1);
        assert!(is_too_deep(&brackets));
        assert!(!is_too_deep(&brackets[1..]), "short");
        assert!(!is_too_deep(&format!("\"{brackets}\"")), "a text");
        let wide = "[],".repeat(MOST_UNCHECKED + 1);
        assert!(!is_too_deep(&wide));
        let deep = "[".repeat(MOST_NESTED);
        assert!(is_too_deep(&format!("{deep}{wide}")));
        assert!(!is_too_deep(&format!("{}{wide}", &deep[1..])));
    }
}
