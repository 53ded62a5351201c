//! The request of a review. Its members are not parsed here.

use std::borrow::Cow;

use super::answer::beginning_of;
use quartet_versions::raw::{Members, values_and_depth};

/// Maximum bytes of a uid, which every answer contains. The API server's uids have 36.
const MOST_UID: usize = 256;
/// Maximum nesting of a long body. API servers reject JSON that is nested deeper than 10 000
/// (`sigs.k8s.io/json`), and a review adds three levels. For a value that it skips, serde_json keeps a byte
/// per open bracket, in a `Vec` that doubles: a body of brackets takes more than twice its length.
const MOST_NESTED: usize = 16 * 1024;
/// In a body of up to this length, the nesting takes little memory.
const MOST_UNCHECKED: usize = 1024 * 1024;

/// Returns the uid and the request of the review in `body`, which has this apiVersion and kind, or why it is
/// not such a review.
pub(super) fn parse<'a>(
    body: &'a [u8],
    [api_version, kind]: [&str; 2],
) -> Result<(Cow<'a, str>, Members<'a>), String> {
    let body = str::from_utf8(body).map_err(|_| "the body is not UTF-8")?;
    if body.len() > MOST_UNCHECKED && values_and_depth(body).1 > MOST_NESTED {
        let message = format!("the body is nested more than {MOST_NESTED} levels deep");
        return Err(message);
    }
    let members = |text| {
        let members = Members::of(text).map_err(|error| beginning_of(&error));
        members.map_err(|error| format!("cannot read the body as {kind}: {error}"))
    };
    let review = members(body)?;
    let is = |field, expected| review.text(field).is_some_and(|it| it == expected);
    if !is("apiVersion", api_version) || !is("kind", kind) {
        return Err(format!(
            "this endpoint answers reviews of apiVersion {api_version} and kind {kind} only"
        ));
    }
    let request = members(review.json("request").unwrap_or("null"))?;
    let uid = request.text("uid");
    let uid = uid.filter(|uid| !uid.is_empty() && uid.len() <= MOST_UID);
    let uid = uid.ok_or("request.uid is missing, empty or too long")?;
    Ok((uid, request))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_long_body_that_is_nested_deep_is_rejected() {
        let is_too_deep = |body: &str| {
            let parsed = parse(body.as_bytes(), ["", ""]);
            parsed.is_err_and(|message| message.contains("levels deep"))
        };
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

    #[test]
    fn errors_do_not_quote_a_text_in_the_place_of_an_object() {
        let text = "x".repeat(1000);
        for body in [
            format!("\"{text}\""),
            format!(r#"{{"apiVersion":"v","kind":"K","request":"{text}"}}"#),
        ] {
            let Err(error) = parse(body.as_bytes(), ["v", "K"]) else {
                panic!("{body} is no review");
            };
            assert_eq!(error, "cannot read the body as K: expected an object");
        }
    }
}
