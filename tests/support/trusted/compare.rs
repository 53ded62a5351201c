//! Finds the differences between a desired object and a stored one. Objects are compared member by
//! member, items of a list of objects with any item, quantities by value.

use serde_json::Value;

/// Returns the paths at which `found` lacks or differs from `wanted`, with both values.
pub(super) fn lacking(wanted: &Value, found: &Value) -> Vec<(String, String)> {
    let mut lacking = Vec::new();
    walk("", wanted, found, &mut lacking);
    lacking
}

fn walk(path: &str, wanted: &Value, found: &Value, lacking: &mut Vec<(String, String)>) {
    match (wanted, found) {
        (Value::Object(members), _) => {
            for (name, member) in members {
                let path = format!("{path}/{name}");
                walk(&path, member, &found[name], lacking);
            }
        }
        (Value::Array(items), Value::Array(others)) if items.iter().all(Value::is_object) => {
            for (index, item) in items.iter().enumerate() {
                let best = others
                    .iter()
                    .map(|other| {
                        let mut lacking = Vec::new();
                        walk(&format!("{path}/{index}"), item, other, &mut lacking);
                        lacking
                    })
                    .min_by_key(Vec::len);
                match best {
                    Some(best) => lacking.extend(best),
                    None => lacking.push((format!("{path}/{index}"), "there is none".to_owned())),
                }
            }
        }
        _ if wanted == found || is_same_amount(path, wanted, found) => {}
        _ => lacking.push((path.to_owned(), format!("{found} instead of {wanted}"))),
    }
}

/// Only strings below `resources` are quantities.
fn is_same_amount(path: &str, wanted: &Value, found: &Value) -> bool {
    let amount = |value: &Value| value.as_str().and_then(thousandths);
    path.contains("/resources/") && amount(wanted).is_some() && amount(wanted) == amount(found)
}

/// Parses a quantity to thousandths, rounded up, as the API server stores it.
fn thousandths(text: &str) -> Option<i128> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-')));
    let (number, suffix) = text.split_at(end.unwrap_or(text.len()));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let mantissa: i128 = format!("{whole}{fraction}").parse().ok()?;
    let below = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let (times, parts) = match suffix {
        "" => (1, 1),
        "n" => (1, 1_000_000_000),
        "u" => (1, 1_000_000),
        "m" => (1, 1_000),
        "k" => (1_000, 1),
        "M" => (1_000_000, 1),
        "G" => (1_000_000_000, 1),
        "T" => (1_000_000_000_000, 1),
        "Ki" => (1 << 10, 1),
        "Mi" => (1 << 20, 1),
        "Gi" => (1 << 30, 1),
        "Ti" => (1 << 40, 1),
        _ => {
            let exponent: u32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            (10_i128.checked_pow(exponent)?, 1)
        }
    };
    let (dividend, divisor) = (mantissa.checked_mul(times)? * 1000, below * parts);
    Some((dividend + divisor - 1).div_euclid(divisor))
}

/// Returns why the rollout of a Deployment's current template is not complete.
pub(super) fn unfinished_rollout(deployment: &Value) -> Option<String> {
    let number = |path: &str| {
        let value = deployment.pointer(path);
        value.and_then(Value::as_i64).unwrap_or_default()
    };
    let replicas = deployment.pointer("/spec/replicas");
    let replicas = replicas.and_then(Value::as_i64).unwrap_or(1);
    let counts = ["replicas", "updatedReplicas", "availableReplicas"];
    let counts = counts.map(|name| number(&format!("/status/{name}")));
    let is_seen = number("/status/observedGeneration") >= number("/metadata/generation");
    if is_seen && counts == [replicas; 3] {
        return None;
    }
    let [all, updated, available] = counts;
    Some(format!(
        "its rollout is not complete: generation {} seen of {}, {updated} of {replicas} pods are \
         of its template, {available} available, {all} in all",
        number("/status/observedGeneration"),
        number("/metadata/generation"),
    ))
}
