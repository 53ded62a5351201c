use regex::Regex;

use super::QUANTITY;

fn is_quantity(text: &str) -> bool {
    Regex::new(QUANTITY).unwrap().is_match(text)
}

#[test]
fn quantities_that_people_write_are_valid() {
    for text in [
        "0", "1", "100m", "0.5", ".5", "1.", "64Mi", "2Gi", "1k", "1e3", "1E6", "12E-2", "1E",
    ] {
        assert!(is_quantity(text), "{text}");
    }
}

#[test]
fn other_text_is_not_a_quantity() {
    for text in [
        "", ".", "m", "-1", "+1", "1 Gi", "1mi", "1e", "1e1000", "1.2.3", "0x1", "é", "1é", "NaN",
    ] {
        assert!(!is_quantity(text), "{text}");
    }
}
