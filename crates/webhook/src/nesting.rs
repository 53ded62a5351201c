//! The nesting of the JSON in a body. For a value that it skips, serde_json keeps a byte per open
//! bracket, in a `Vec` that doubles: a body of brackets takes more than twice its length.

/// Maximum nesting of a long body. API servers reject JSON that is nested deeper than 10 000
/// (`sigs.k8s.io/json`), and a review adds three levels.
pub(super) const MOST_NESTED: usize = 16 * 1024;
/// In a body of up to this length, the nesting takes little memory.
const MOST_UNCHECKED: usize = 1024 * 1024;

/// Whether reading `body` may take much more memory than `body`, because of its nesting. Exact up to the
/// first syntax error, where the parser stops.
pub(super) fn is_too_deep(body: &str) -> bool {
    body.len() > MOST_UNCHECKED && is_deeper_than(MOST_NESTED, body.as_bytes())
}

fn is_deeper_than(limit: usize, json: &[u8]) -> bool {
    let (mut depth, mut is_text, mut is_escaped) = (0_usize, false, false);
    json.iter().any(|byte| {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_text,
            b'"' => is_text = !is_text,
            b'{' | b'[' if !is_text => depth += 1,
            b'}' | b']' if !is_text => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth > limit
    })
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
