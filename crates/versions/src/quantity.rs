//! Resource quantities (`100m`, `64Mi`, `1e3`): syntax only; values are compared elsewhere. Pure.

/// Longest text of a quantity that is accepted.
pub const MAX_LENGTH: usize = 32;

/// The grammar of apimachinery's `resource.Quantity`, without a sign: neither requests nor
/// limits may be negative.
pub const PATTERN: &str =
    r"^(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]{1,2}))?$";

const SUFFIXES: [&str; 16] = [
    "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
];

/// Reports whether `text` is a non-negative quantity. Implements [`PATTERN`] by hand, so that the
/// manager needs no regular expressions.
pub fn is_valid(text: &str) -> bool {
    let end_of_number =
        text.find(|character: char| !character.is_ascii_digit() && character != '.');
    let (number, suffix) = text
        .split_at_checked(end_of_number.unwrap_or(text.len()))
        .unwrap_or((text, ""));
    let has_number = number.bytes().any(|byte| byte.is_ascii_digit())
        && number.bytes().filter(|byte| *byte == b'.').count() <= 1;
    has_number && (SUFFIXES.contains(&suffix) || is_exponent(suffix))
}

fn is_exponent(suffix: &str) -> bool {
    suffix.strip_prefix(['e', 'E']).is_some_and(|exponent| {
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        (1..=2).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests;
