use proptest::prelude::*;
use regex::Regex;

use super::{PATTERN, is_valid};

#[test]
fn quantities_that_people_write_are_valid() {
    for text in [
        "0", "1", "100m", "0.5", ".5", "1.", "64Mi", "2Gi", "1k", "1e3", "1E6", "12E-2", "1E",
    ] {
        assert!(is_valid(text), "{text}");
    }
}

#[test]
fn other_text_is_not_a_quantity() {
    for text in [
        "", ".", "m", "-1", "+1", "1 Gi", "1mi", "1e", "1e1000", "1.2.3", "0x1", "é", "1é", "NaN",
    ] {
        assert!(!is_valid(text), "{text}");
    }
}

proptest! {
    #[test]
    fn the_function_and_the_pattern_in_the_schema_agree(text in "[0-9.]{0,3}[numkMGTPEei+-]{0,2}[0-9]{0,3}") {
        prop_assert_eq!(is_valid(&text), Regex::new(PATTERN).unwrap().is_match(&text), "{:?}", text);
    }
}
