//! The characters of texts, and the values that the property tests of validation and
//! conversion are made from.

mod within;

use proptest::prelude::*;
use regex::Regex;

use super::{LABEL, NAME, VISIBLE};
use crate::api::shape;

pub(crate) use within::within;

proptest! {
    #[test]
    fn allowed_characters_are_those_that_the_pattern_in_the_schema_matches(
        text in "[ -~é\n]{0,4}", set in prop::sample::select(vec![VISIBLE, LABEL, NAME])
    ) {
        let pattern = Regex::new(&set.pattern().unwrap()).unwrap();
        prop_assert_eq!(set.allow(&text), pattern.is_match(&text), "{:?}", text);
    }
}
