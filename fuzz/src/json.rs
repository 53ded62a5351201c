//! Any JSON: meaningful strings, numbers at the limits of their types, long strings. Independent of
//! kinds.

use std::str::FromStr;

use arbitrary::{Result, Unstructured};
use serde_json::{Map, Value};

/// Names of fields of some version, and of none.
const NAMES: &str = "size count replicas image port singlePodsQPS totalQPS capacity perPodQPS targetQPS service \
    nodePort containerPort enabled type memory threads maxConnections resources requests \
    limits scheduling tolerations nodeSelector topologySpreadConstraints priorityClassName \
    podSecurity imagePullPolicy imagePullSecrets name key v1 v2 v1alpha1 annotations unknown";

const WORDS: &str = "a x true null 100m 64Mi 1e3 1e-99 .5Gi 0 -1 cpu memory ClusterIP NodePort LoadBalancer \
    Restricted Baseline Exists nginx:1.17.1 1abc a.b";

/// Strings with characters that are special somewhere.
const ODD: &[&str] = &[
    "",
    "é",
    "\0",
    "\u{2028}",
    "\"",
    "\\",
    "{}",
    "\u{fffd}\u{10ffff}",
];

/// Limits of types and of fields; each is also tried one lower and one higher.
const INTEGERS: &str = "0 1000 30000 32768 65535 2147483647 -2147483648 4294967295 9007199254740992 \
    -9007199254740992 9223372036854775806 -9223372036854775807";

const FLOATS: &str = "-0.0 0.5 3.0 1e15 1e16 1e20 -1e20 1e21 9007199254740993.0 18446744073709551616.0 \
    1.7976931348623157e308 2.2250738585072014e-308 5e-324 0.1 1e-7";

/// The deepest nesting generated here, well below the parser's limit of 128 levels.
const DEEPEST: u32 = 6;

/// A long string of one repeated character: longer than the limit of a condition's message.
const LONG: usize = 4 * 1024;

/// The longest string of one repeated character: longer than the limit of all annotations together.
const LONGEST: usize = 300 * 1024;

/// Any JSON.
pub fn any(bytes: &mut Unstructured<'_>) -> Result<Value> {
    nested(bytes, 0)
}

fn nested(bytes: &mut Unstructured<'_>, depth: u32) -> Result<Value> {
    let choices = if depth < DEEPEST { 9 } else { 6 };
    Ok(match bytes.int_in_range(0..=choices)? {
        0 => Value::Null,
        1 => Value::from(bytes.arbitrary::<bool>()?),
        2 => integer(bytes)?,
        3 => Value::from(bytes.arbitrary::<u64>()?),
        4 => float(bytes)?,
        5 | 6 => Value::from(text(bytes)?),
        7 => {
            let count = bytes.int_in_range(0..=3)?;
            let items = (0..count).map(|_| nested(bytes, depth + 1));
            Value::Array(items.collect::<Result<_>>()?)
        }
        _ => {
            let count = bytes.int_in_range(0..=4)?;
            let members = (0..count).map(|_| Ok((name(bytes)?, nested(bytes, depth + 1)?)));
            Value::Object(members.collect::<Result<Map<_, _>>>()?)
        }
    })
}

/// An integer, often at the limit of a type or a bound.
pub fn integer(bytes: &mut Unstructured<'_>) -> Result<Value> {
    Ok(match bytes.ratio(1, 2)? {
        true => Value::from(number::<i64>(bytes, INTEGERS)? + bytes.int_in_range(-1..=1)?),
        false => Value::from(bytes.arbitrary::<i64>()?),
    })
}

fn float(bytes: &mut Unstructured<'_>) -> Result<Value> {
    let float: f64 = match bytes.ratio(1, 2)? {
        true => number(bytes, FLOATS)?,
        // JSON has no infinities: they become null.
        false => bytes.arbitrary()?,
    };
    Ok(Value::from(float))
}

/// The name of a member.
pub fn name(bytes: &mut Unstructured<'_>) -> Result<String> {
    match bytes.ratio(1, 8)? {
        true => text(bytes),
        false => word(bytes, NAMES),
    }
}

/// A string: a known one, a few random characters, or rarely a long one.
pub fn text(bytes: &mut Unstructured<'_>) -> Result<String> {
    Ok(match bytes.int_in_range(0..=15)? {
        0..=5 => word(bytes, WORDS)?,
        6..=7 => (*bytes.choose(ODD)?).to_owned(),
        8..=14 => {
            let most = bytes.int_in_range(0..=40)?;
            let found = bytes.bytes(most.min(bytes.len()))?;
            String::from_utf8_lossy(found).into_owned()
        }
        _ => {
            let character = *bytes.choose(&['x', '"', '\\', '\0', 'é', ','])?;
            // The longest take a hundred times as long as all others, so they are rare.
            let most = match bytes.ratio(1, 1024_u16)? {
                true => LONGEST,
                false => LONG >> bytes.int_in_range(0..=8)?,
            };
            String::from(character).repeat(bytes.int_in_range(0..=most)?)
        }
    })
}

fn word(bytes: &mut Unstructured<'_>, words: &str) -> Result<String> {
    let words: Vec<&str> = words.split_whitespace().collect();
    Ok((*bytes.choose(&words)?).to_owned())
}

fn number<T: FromStr>(bytes: &mut Unstructured<'_>, numbers: &str) -> Result<T> {
    let number = word(bytes, numbers)?.parse();
    Ok(number.unwrap_or_else(|_| panic!("{numbers} are numbers")))
}
