//! The request of a review: the fields of both kinds of reviews that are read. Objects are not parsed here.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::answer::beginning_of;
use quartet_versions::raw::{Size, Text};

/// Maximum bytes of a uid, which every answer contains. The API server's uids have 36.
const MOST_UID: usize = 256;
/// Maximum nesting of a long body. API servers reject JSON that is nested deeper than 10 000
/// (`sigs.k8s.io/json`), and a review adds three levels. For a value that it skips, serde_json keeps a byte
/// per open bracket, in a `Vec` that doubles: a body of brackets takes more than twice its length.
const MOST_NESTED: usize = 16 * 1024;
/// In a body of up to this length, the nesting takes little memory.
const MOST_UNCHECKED: usize = 1024 * 1024;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review<'a> {
    #[serde(borrow)]
    api_version: Option<Text<'a>>,
    #[serde(borrow)]
    kind: Option<Text<'a>>,
    #[serde(borrow)]
    request: Option<&'a RawValue>,
}

/// What is asked: to admit `object`, or to convert `objects`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Request<'a> {
    #[serde(borrow)]
    uid: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) operation: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) sub_resource: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) object: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) old_object: Option<&'a RawValue>,
    #[serde(borrow, rename = "desiredAPIVersion")]
    pub(super) desired: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) objects: Option<&'a RawValue>,
}

/// Returns the uid and the request of the review in `body`, which has this apiVersion and kind, or why it is
/// not such a review.
pub(super) fn parse<'a>(
    body: &'a [u8],
    [api_version, kind]: [&str; 2],
) -> Result<(Cow<'a, str>, Request<'a>), String> {
    let body = str::from_utf8(body).map_err(|_| "the body is not UTF-8")?;
    if body.len() > MOST_UNCHECKED && Size::of(body).depth > MOST_NESTED {
        let message = format!("the body is nested more than {MOST_NESTED} levels deep");
        return Err(message);
    }
    let unreadable = |problem| format!("cannot read the body as {kind}: {problem}");
    let review: Review<'_> = object(body).map_err(unreadable)?;
    let is = |found: Option<Text<'_>>, expected| found.is_some_and(|Text(it)| it == expected);
    if !is(review.api_version, api_version) || !is(review.kind, kind) {
        return Err(format!(
            "this endpoint answers reviews of apiVersion {api_version} and kind {kind} only"
        ));
    }
    let request = review.request.ok_or("the review has no request")?;
    let mut request: Request<'_> = object(request.get()).map_err(unreadable)?;
    match request.uid.take() {
        Some(Text(uid)) if !uid.is_empty() && uid.len() <= MOST_UID => Ok((uid, request)),
        _ => Err("request.uid is missing, empty or too long".to_owned()),
    }
}

/// Reads an object. The error of serde for anything else would quote a string as a whole.
fn object<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, String> {
    match json.trim_start().starts_with('{') {
        true => serde_json::from_str(json).map_err(|error| beginning_of(&error)),
        false => Err("expected an object".to_owned()),
    }
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
