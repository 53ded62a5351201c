//! The format of the demo: commands as a user would type them, their output, and durations. Only
//! prints.

use std::time::Duration;

/// Prints what was just shown, with its duration.
pub(crate) fn took(what: &str, time: Duration) {
    println!("  {what:<72} {:>6.2} s", time.as_secs_f64());
}

pub(crate) fn print_indented(text: &str) {
    for line in text.lines() {
        println!("{}", format!("  {line}").trim_end());
    }
}

pub(crate) fn show_command(arguments: &[&str]) {
    let words: Vec<_> = arguments.iter().map(quoted).collect();
    println!("$ kubectl {}", words.join(" "));
}

/// Prints kind and spec of an object in YAML, and returns the spec's lines.
pub(crate) fn print_spec(yaml: &str) -> String {
    let spec = section(yaml, "spec:");
    print_indented(&format!("{}…\nspec:\n{spec}…", heading(yaml)));
    spec
}

/// Returns the first lines of an object in YAML, its apiVersion and kind.
fn heading(yaml: &str) -> String {
    let lines = yaml.lines().take_while(|line| *line != "metadata:");
    lines.map(|line| format!("{line}\n")).collect()
}

/// Returns the lines below `key` up to the next key of the same depth.
fn section(yaml: &str, key: &str) -> String {
    let below = yaml.lines().skip_while(|line| *line != key).skip(1);
    let lines = below.take_while(|line| line.starts_with(' '));
    lines.map(|line| format!("{line}\n")).collect()
}

/// Quotes an argument for a shell.
fn quoted(argument: &&str) -> String {
    let is_plain = |one: char| one.is_ascii_alphanumeric() || "-_=./,:".contains(one);
    if argument.chars().all(is_plain) {
        (*argument).to_owned()
    } else {
        format!("'{argument}'")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shown_command_can_be_copied_into_a_shell() {
        assert_eq!(quoted(&"--type=merge"), "--type=merge");
        assert_eq!(
            quoted(&r#"{"spec":{"size":-1}}"#),
            r#"'{"spec":{"size":-1}}'"#
        );
    }

    #[test]
    fn heading_and_spec_of_an_object_are_shown() {
        let yaml = "apiVersion: v1\nkind: K\nmetadata:\n  name: n\nspec:\n  size: 5\nstatus: {}\n";
        assert_eq!(heading(yaml), "apiVersion: v1\nkind: K\n");
        assert_eq!(section(yaml, "spec:"), "  size: 5\n");
    }
}
