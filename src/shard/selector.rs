//! Parses label selectors, as `k8s.io/apimachinery/pkg/labels.Parse` does, into a canonical form.

use std::collections::BTreeSet;
use std::fmt;

/// Longest canonical form: it is the value of a label of each metric.
const LENGTH_MAX: usize = 1024;

/// The text is no label selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{part:?}: {reason}")]
pub struct InvalidSelector {
    /// The invalid requirement.
    part: String,
    reason: &'static str,
}

/// One requirement on the labels of an object. Displayed as a selector.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Requirement<'a> {
    key: &'a str,
    operator: Operator,
    /// Not empty for the operators that have values.
    values: BTreeSet<&'a str>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Operator {
    In,
    NotIn,
    Exists,
    NotExists,
}

impl fmt::Display for Requirement<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, values) = (self.key, Vec::from_iter(self.values.iter().copied()));
        match (self.operator, values.as_slice()) {
            (Operator::Exists, _) => write!(formatter, "{key}"),
            (Operator::NotExists, _) => write!(formatter, "!{key}"),
            (Operator::In, [value]) => write!(formatter, "{key}={value}"),
            (Operator::NotIn, [value]) => write!(formatter, "{key}!={value}"),
            (Operator::In, values) => write!(formatter, "{key} in ({})", values.join(",")),
            (Operator::NotIn, values) => write!(formatter, "{key} notin ({})", values.join(",")),
        }
    }
}

/// The canonical form of a selector: requirements and values in order, each once, and each in one
/// notation. Empty if the selector is.
///
/// # Errors
/// [`InvalidSelector`]: the text is no selector.
pub(super) fn canonical(selector: &str) -> Result<String, InvalidSelector> {
    let selector = selector.trim();
    if selector.is_empty() {
        return Ok(String::new());
    }
    let requirements: BTreeSet<_> = split(selector)?
        .into_iter()
        .map(requirement)
        .collect::<Result<_, _>>()?;
    let texts: Vec<_> = requirements.iter().map(ToString::to_string).collect();
    let canonical = texts.join(",");
    match canonical.len() <= LENGTH_MAX {
        true => Ok(canonical),
        false => {
            let begin: String = selector.chars().take(80).collect();
            Err(invalid(&begin, "longer than 1024 characters"))
        }
    }
}

fn invalid(part: &str, reason: &'static str) -> InvalidSelector {
    InvalidSelector {
        part: part.to_owned(),
        reason,
    }
}

/// The requirements: the parts between the commas that are not in parentheses.
fn split(selector: &str) -> Result<Vec<&str>, InvalidSelector> {
    let (mut is_inside, mut error) = (false, None);
    let is_separator = |one: char| {
        match (one, is_inside) {
            ('(', true) => _ = error.get_or_insert("a parenthesis within parentheses"),
            (')', false) => _ = error.get_or_insert("a ) without its ("),
            ('(' | ')', _) => is_inside = !is_inside,
            _ => {}
        }
        one == ',' && !is_inside
    };
    let parts = selector.split(is_separator).map(str::trim).collect();
    match error.or(is_inside.then_some("a ( without its )")) {
        None => Ok(parts),
        Some(reason) => Err(invalid(selector, reason)),
    }
}

fn requirement(part: &str) -> Result<Requirement<'_>, InvalidSelector> {
    if part.is_empty() {
        return Err(invalid(part, "nothing between two commas, or at an end"));
    }
    let (key, operator, values) = operands(part)?;
    let key = key.trim();
    if !is_key(key) {
        let reason = "give KEY, !KEY, KEY=VALUE, KEY!=VALUE, KEY in (VALUES) or KEY notin (VALUES), \
                      with a key such as example.com/shard";
        return Err(invalid(part, reason));
    }
    if !values.iter().copied().all(is_value) {
        let reason = "a value of a label has at most 63 letters, digits, '-', '_' and '.', with a \
                      letter or digit at both ends";
        return Err(invalid(part, reason));
    }
    Ok(Requirement {
        key,
        operator,
        values,
    })
}

/// The key, operator and values of a requirement, unchecked.
fn operands(part: &str) -> Result<(&str, Operator, BTreeSet<&str>), InvalidSelector> {
    if let Some((head, list)) = part.split_once('(') {
        let Some((list, "")) = list.split_once(')') else {
            return Err(invalid(part, "something follows the )"));
        };
        let (key, operator) = match head.trim().rsplit_once(char::is_whitespace) {
            Some((key, "in")) => (key, Operator::In),
            Some((key, "notin")) => (key, Operator::NotIn),
            _ => return Err(invalid(part, "give KEY in or KEY notin before the (")),
        };
        if list.trim().is_empty() {
            return Err(invalid(part, "give values between ( and )"));
        }
        return Ok((key, operator, list.split(',').map(str::trim).collect()));
    }
    if part.contains(['<', '>']) {
        return Err(invalid(part, "< and > are not supported"));
    }
    if let Some((key, value)) = part.split_once("!=") {
        return Ok((key, Operator::NotIn, BTreeSet::from([value.trim()])));
    }
    if let Some((key, value)) = part.split_once('=') {
        let value = value.strip_prefix('=').unwrap_or(value);
        return Ok((key, Operator::In, BTreeSet::from([value.trim()])));
    }
    Ok(match part.strip_prefix('!') {
        Some(key) => (key, Operator::NotExists, BTreeSet::new()),
        None => (part, Operator::Exists, BTreeSet::new()),
    })
}

/// Whether `key` is the key of a label, and no operator.
fn is_key(key: &str) -> bool {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let is_label = |label: &str| {
        let is_inner = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
        !label.is_empty() && label.bytes().all(is_inner) && label.trim_matches('-') == label
    };
    let is_domain = |prefix: &str| prefix.len() <= 253 && prefix.split('.').all(is_label);
    !matches!(key, "in" | "notin")
        && prefix.is_none_or(is_domain)
        && !name.is_empty()
        && is_value(name)
}

/// Whether `value` can be the value of a label, or the name of its key.
fn is_value(value: &str) -> bool {
    let is_inner_only = |one| matches!(one, '-' | '_' | '.');
    value.len() <= 63
        && value
            .chars()
            .all(|one| one.is_ascii_alphanumeric() || is_inner_only(one))
        && value.trim_matches(is_inner_only) == value
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kube::core::SelectorExt as _;
    use kube::core::{Expression, Selector};

    use super::{InvalidSelector, canonical};

    fn of(selector: &str) -> String {
        canonical(selector).expect(selector)
    }

    fn rejected(selector: &str) -> InvalidSelector {
        canonical(selector).expect_err(selector)
    }

    #[test]
    fn the_notations_of_kubernetes_are_understood() {
        for (selector, expected) in [
            ("a", "a"),
            ("! a", "!a"),
            ("a=b", "a=b"),
            ("a == b", "a=b"),
            ("a!=b", "a!=b"),
            ("a=", "a="),
            ("a in (b)", "a=b"),
            ("a notin(b)", "a!=b"),
            ("e in (y, x,y)", "e in (x,y)"),
            ("f notin (x,in,notin)", "f notin (in,notin,x)"),
            ("e in (,x)", "e in (,x)"),
            (
                "x.example.com/A_b.c-1 = V_1.0-x",
                "x.example.com/A_b.c-1=V_1.0-x",
            ),
            (
                "!h,g, f notin (x),e in (x,y),c!=d,a=b",
                "a=b,c!=d,e in (x,y),f!=x,g,!h",
            ),
        ] {
            assert_eq!(of(selector), expected, "{selector}");
        }
    }

    #[test]
    fn an_invalid_selector_is_rejected_with_the_part_and_the_reason() {
        for (selector, part, reason) in [
            ("a,,b", "\"\"", "between two commas"),
            ("a,", "\"\"", "between two commas"),
            ("a=b,c d", "\"c d\"", "give KEY"),
            ("=b", "\"=b\"", "give KEY"),
            ("!", "\"!\"", "give KEY"),
            ("in", "\"in\"", "give KEY"),
            ("a/b/c", "\"a/b/c\"", "give KEY"),
            ("/b", "\"/b\"", "give KEY"),
            ("A.b/c", "\"A.b/c\"", "give KEY"),
            ("a=b c", "\"a=b c\"", "a value"),
            ("a=-b", "\"a=-b\"", "a value"),
            ("a===b", "\"a===b\"", "a value"),
            ("a=\"b\"", "a value", "a value"),
            ("a in b", "\"a in b\"", "give KEY"),
            ("a in ()", "\"a in ()\"", "give values"),
            ("a within (b)", "\"a within (b)\"", "KEY in"),
            ("a=(b)", "\"a=(b)\"", "KEY in"),
            ("a in (b) c", "\"a in (b) c\"", "follows"),
            ("a in ((b))", "(b)", "within"),
            ("a in (b", "(b", "without its )"),
            ("a in b)", "b)", "without its ("),
            ("a>1", "\"a>1\"", "not supported"),
        ] {
            let said = rejected(selector).to_string();
            assert!(said.contains(part) && said.contains(reason), "{said}");
        }
        let long = "x".repeat(64);
        for selector in [format!("a={long}"), long.clone(), format!("{long}/a")] {
            // A label of a domain has no limit of its own here, as in the API server.
            let is_domain = selector.contains('/');
            assert_eq!(canonical(&selector).is_ok(), is_domain, "{selector}");
        }
        let many: Vec<_> = (0..200).map(|n| format!("key-{n}=v")).collect();
        assert!(rejected(&many.join(",")).to_string().contains("1024"));
    }

    /// The canonical form is a fixed point, whatever the order of requirements and values.
    #[test]
    fn the_canonical_form_depends_on_the_meaning_only() {
        let parts = ["a=b", "c!=d", "e in (x,y)", "f notin (x,y)", "g", "!h"];
        let expected = of(&parts.join(","));
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut shuffled = parts.map(|part| part.replace("(x,y)", "( y ,x )"));
            random.shuffle(&mut shuffled);
            let space = [",", " , ", ",\n"][random.usize(..3)];
            assert_eq!(of(&shuffled.join(space)), expected);
        }
        assert_eq!(of(&expected), expected);
    }

    /// No text panics, and what is accepted is its own canonical form.
    #[test]
    fn any_text_is_a_selector_or_an_error() {
        let pieces = [
            "a", "b", "=", "!", ",", "(", ")", " ", "in", "notin", "é", "/", "-", "<",
        ];
        let (mut accepted, mut random) = (0, fastrand::Rng::with_seed(7));
        for _ in 0..50_000 {
            let length = random.usize(..12);
            let text: String = (0..length)
                .map(|_| pieces[random.usize(..pieces.len())])
                .collect();
            if let Ok(form) = canonical(&text) {
                assert_eq!(canonical(&form).as_ref(), Ok(&form), "{text:?}");
                accepted += 1;
            }
        }
        assert!(accepted > 1000, "{accepted}");
    }

    /// kube writes the selectors that its own matching is tested with.
    #[test]
    fn selectors_that_kube_writes_keep_their_meaning() {
        let labels = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        let values = |all: &[&str]| all.iter().map(ToString::to_string).collect();
        for (expression, expected, matches) in [
            (Expression::Equal("a".into(), "b".into()), "a=b", true),
            (Expression::NotEqual("a".into(), "b".into()), "a!=b", false),
            (
                Expression::In("a".into(), values(&["c", "b"])),
                "a in (b,c)",
                true,
            ),
            (
                Expression::NotIn("a".into(), values(&["c", "b"])),
                "a notin (b,c)",
                false,
            ),
            (Expression::Exists("a".into()), "a", true),
            (Expression::DoesNotExist("a".into()), "!a", false),
        ] {
            let selector: Selector = expression.into();
            assert_eq!(selector.matches(&labels), matches);
            assert_eq!(of(&selector.to_string()), expected);
        }
    }
}
