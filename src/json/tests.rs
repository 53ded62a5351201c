use proptest::prelude::*;
use serde_json::json;

use super::*;

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e9..1e9).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("\\PC{0,3}", inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn a_tree_is_that_of_serde_json(value in any_value()) {
        let text = value.to_string();
        let json: Json<'_> = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(&json, &Json::from(&value));
        prop_assert_eq!(&json.to_string(), &text);
        prop_assert_eq!(Value::from(&json), value);
    }
}

#[test]
fn members_are_sorted_and_of_two_with_one_name_the_later_one_stays() {
    let text = r#"{"b":1,"a":2,"b":3,"\u0062":4}"#;
    let json: Json<'_> = serde_json::from_str(text).unwrap();
    assert_eq!(Value::from(&json), json!({"a": 2, "b": 4}));
    assert_eq!(json.to_string(), r#"{"a":2,"b":4}"#);
}

/// Leaves `raw`, and reads everything else.
#[derive(Clone, Copy)]
struct LeavesRaw;

impl Reader for LeavesRaw {
    fn member(self, name: &str, _before: &[(Cow<'_, str>, Json<'_>)]) -> Member<Self> {
        match name {
            "raw" => Member::Leave,
            _ => Member::Read(self),
        }
    }

    fn item(self) -> Member<Self> {
        Member::Read(self)
    }
}

#[derive(Deserialize)]
#[serde(tag = "type", content = "object")]
enum Tagged<'a> {
    #[serde(borrow)]
    It(Left<'a>),
}

struct Left<'a>(Json<'a>);

impl<'de: 'a, 'a> Deserialize<'de> for Left<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Reading(LeavesRaw).deserialize(deserializer).map(Left)
    }
}

#[test]
fn a_member_that_is_left_is_its_text_or_its_value_for_every_deserializer() {
    let raws = [
        r#"{"b": [1, "x"],"a":1e2}"#,
        "[]",
        "null",
        r#""a\"b""#,
        "-1",
        "true",
    ];
    for raw in raws {
        let text = format!(r#"{{"raw":{raw},"rest":[{{"raw":{raw}}}]}}"#);
        let whole: Value = serde_json::from_str(&text).unwrap();
        let Left(left) = serde_json::from_str(&text).unwrap();
        assert_eq!(left.get("raw"), Some(&Json::Unparsed(raw)));
        let tagged = [
            (format!(r#"{{"type":"It","object":{text}}}"#), true),
            (format!(r#"{{"object":{text},"type":"It"}}"#), false),
        ];
        for (text, is_unparsed) in tagged {
            let Tagged::It(Left(left)) = serde_json::from_str(&text).unwrap();
            let raw = left.get("raw").unwrap();
            assert_eq!(matches!(raw, Json::Unparsed(_)), is_unparsed, "{text}");
            assert_eq!(Value::from(&left), whole);
        }
        let Left(of_tree) = Left::deserialize(&whole).unwrap();
        assert_eq!(Value::from(&of_tree), whole);
        assert_eq!(Value::from(&left), whole);
        let written: Value = serde_json::from_str(&left.to_string()).unwrap();
        assert_eq!(written, whole);
        assert_eq!(
            left.get("raw").unwrap().parsed().to_string(),
            whole["raw"].to_string()
        );
    }
    assert!(serde_json::from_str::<Left<'_>>(r#"{"raw":{]}"#).is_err());
}

#[test]
fn a_text_is_copied_only_if_it_has_an_escape_sequence() {
    let json: Json<'_> = serde_json::from_str(r#"["plain","a\"b"]"#).unwrap();
    let is_borrowed = |item: &Json<'_>| matches!(item, Json::String(Cow::Borrowed(_)));
    let items = json.as_array().unwrap();
    assert!(is_borrowed(&items[0]) && !is_borrowed(&items[1]));
}
