//! Compares quantities by value: `0.1`, `100m` and `100000u` are equal. The API server stores milli as
//! the smallest unit of a container's resources and rounds up (apimachinery
//! `pkg/api/resource/quantity.go`, `Quantity.MilliValue`); so does this file.

/// `text` in thousandths, rounded up; `None` if it is not a quantity or overflows.
pub(crate) fn milli(text: &str) -> Option<i128> {
    let number_end = text
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-')))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at_checked(number_end)?;
    let (negative, digits) = match number.as_bytes().first()? {
        b'-' => (true, number.get(1..)?),
        b'+' => (false, number.get(1..)?),
        _ => (false, number),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let count = whole.len() + fraction.len();
    if count == 0 || count > 20 || digits.contains(['+', '-']) {
        return None;
    }
    let mantissa: i128 = format!("{whole}{fraction}").parse().ok()?;
    let (numerator, denominator) = scale(suffix)?;
    let below_point = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let dividend = mantissa.checked_mul(numerator)?.checked_mul(1000)?;
    let divisor = denominator.checked_mul(below_point)?;
    let rounded_up = dividend.checked_add(divisor - 1)? / divisor;
    Some(if negative { -rounded_up } else { rounded_up })
}

/// The factor of a suffix, as a fraction.
fn scale(suffix: &str) -> Option<(i128, i128)> {
    let binary = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    if let Some(power) = binary.iter().position(|it| *it == suffix) {
        return Some((1 << (10 * power), 1));
    }
    let decimal = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    let exponent = match (-9_i32..)
        .step_by(3)
        .zip(decimal)
        .find(|(_, it)| *it == suffix)
    {
        Some((exponent, _)) => exponent,
        None => suffix.strip_prefix(['e', 'E'])?.parse().ok()?,
    };
    let power = 10_i128.checked_pow(exponent.unsigned_abs())?;
    Some(if exponent < 0 { (1, power) } else { (power, 1) })
}

#[cfg(test)]
mod tests {
    use super::milli;

    #[test]
    fn the_same_amount_in_other_words_is_the_same_number() {
        for (text, expected) in [
            ("1", 1000),
            ("100m", 100),
            ("0.1", 100),
            ("100000u", 100),
            ("1k", 1_000_000),
            ("1e3", 1_000_000),
            ("1E-3", 1),
            ("64Mi", 67_108_864_000),
            ("67108864", 67_108_864_000),
            ("0", 0),
            ("-1", -1000),
            ("+.5", 500),
        ] {
            assert_eq!(milli(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn every_suffix_is_a_factor() {
        for (base, suffixes) in [(1000_i128, "kMGTPE"), (1024, "KMGTPE")] {
            for (power, suffix) in (1..).zip(suffixes.chars()) {
                let binary = if base == 1024 { "i" } else { "" };
                let text = format!("3{suffix}{binary}");
                assert_eq!(milli(&text), Some(3000 * base.pow(power)), "{text}");
            }
        }
        for (text, expected) in [("5000000n", 5), ("5000u", 5), ("5m", 5), ("5", 5000)] {
            assert_eq!(milli(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn a_number_has_at_most_twenty_digits() {
        let nines = "9".repeat(20);
        assert_eq!(milli(&nines), Some(99_999_999_999_999_999_999_000));
        assert_eq!(milli(&format!("+{nines}")), milli(&nines));
        assert_eq!(milli(&format!("{nines}9")), None);
        assert_eq!(milli(&format!("{nines}.9")), None);
        assert_eq!(milli("0.0000000000000000001"), Some(1));
    }

    #[test]
    fn less_than_a_thousandth_is_rounded_up_as_the_api_server_does() {
        assert_eq!(milli("100u"), Some(1));
        assert_eq!(milli("1n"), Some(1));
        assert_eq!(milli("1500u"), Some(2));
    }

    #[test]
    fn what_is_no_quantity_is_none() {
        for text in [
            "",
            "-",
            ".",
            "1.2.3",
            "+-5",
            "--5",
            "1-5",
            "one",
            "1Q",
            "1e99",
            "99999999999999999999999",
        ] {
            assert_eq!(milli(text), None, "{text}");
        }
    }
}
