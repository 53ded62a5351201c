//! The names of a project and its kinds. What the API server, OLM, kubectl or the compiler would reject is
//! rejected before anything is written.

use std::collections::BTreeSet;

use super::Kind;
use crate::Error;

/// Names of common types for kubectl: `kubectl get NAME` finds one type, whatever its group.
const TAKEN: &str = include_str!("../../templates/taken.txt");
const KEYWORDS: &str = include_str!("../../templates/keywords.txt");
const IMAGE: &str = include_str!("../../templates/image.txt");
const MANIFEST: &str = include_str!("../../templates/project/Cargo.toml.template");
const CODE: &str = include_str!("../../templates/kind/src/kinds/{kind}.rs.template");
/// The longest name of an object is the project's with this suffix. As a name of a Service, it is a label.
const LONGEST: &str = "-controller-manager-metrics-service";
/// The maximum length of a label.
const LABEL: usize = 63;

/// Returns an error unless the condition is met.
macro_rules! require {
    ($is_met:expr, $($otherwise:tt)*) => {
        if !$is_met {
            return Err(Error(format!($($otherwise)*)));
        }
    };
}

/// Texts, and what replaces them.
#[derive(Debug)]
pub(super) struct Words(pub(super) Vec<(String, String)>);

impl Words {
    /// Adds placeholders: names in braces.
    pub(super) fn add<const N: usize>(&mut self, added: [(&str, &str); N]) {
        let added = added.map(|(name, value)| (format!("{{{name}}}"), value.to_owned()));
        self.0.extend(added);
    }

    /// Replaces these texts, at each place the longest.
    pub(super) fn fill(&self, text: &str) -> String {
        let (mut filled, mut rest) = (String::new(), text);
        let next = |text: &str| {
            let found = self.0.iter().filter_map(|(from, to)| {
                let at = text.find(from)?;
                Some((at, usize::MAX - from.len(), from.len(), to))
            });
            found.min()
        };
        while let Some((at, _, length, to)) = next(rest) {
            let (before, after) = rest.split_at(at);
            filled = filled + before + to;
            rest = after.split_at(length).1;
        }
        filled + rest
    }
}

/// The placeholders of a project with its first kind.
pub(super) fn of_project(project: &str, domain: &str, kind: &Kind) -> Result<Words, Error> {
    let is_name =
        is_label(project) && is_word(&project.replace('-', "")) && !project.contains("--");
    require!(
        is_name,
        "the name {project:?} is not lower case with hyphens, e.g. cache-operator"
    );
    let longest = format!("{project}{LONGEST}");
    require!(
        longest.len() <= LABEL,
        "{longest:?} has more than {LABEL} characters: use a shorter name"
    );
    let module = project.replace('-', "_");
    let is_free = !MANIFEST.contains(&format!("\n{project} = "));
    let is_free = is_free
        && !content(KEYWORDS)
            .flat_map(identifiers)
            .any(|word| word == module);
    require!(
        is_free,
        "{project:?} is the name of another crate, or a keyword of Rust"
    );
    require!(
        is_domain(domain),
        "--domain {domain:?} is not a domain in lower case, e.g. example.com"
    );
    let capitalized = project.split('-').map(|word| {
        let (first, rest) = word.split_at(1);
        first.to_uppercase() + rest
    });
    let capitalized: Vec<_> = capitalized.collect();
    let mut words = of_kind(project, Some(domain), kind, "")?;
    words.add([
        ("project_", &module),
        ("Project", &capitalized.concat()),
        ("title", &capitalized.join(" ")),
        ("domain", domain),
    ]);
    Ok(words)
}

/// The placeholders of a kind. `others` is the source of the other kinds of the project.
pub(super) fn of_kind(
    project: &str,
    domain: Option<&str>,
    arguments: &Kind,
    others: &str,
) -> Result<Words, Error> {
    let kind = &arguments.kind;
    let is_camel = kind.starts_with(|first: char| first.is_ascii_uppercase())
        && kind.len() > 1
        && kind.chars().all(|one| one.is_ascii_alphanumeric());
    require!(
        is_camel,
        "--kind {kind:?} is not a name in CamelCase, e.g. Cache"
    );
    let group = match (&arguments.group, domain) {
        (group, Some(domain)) if !group.contains('.') => format!("{group}.{domain}"),
        (group, _) => group.to_owned(),
    };
    require!(
        is_domain(&group),
        "--group {group:?} is not a domain in lower case"
    );
    let below = format!(".{group}");
    let is_reserved = [".k8s.io", ".kubernetes.io"]
        .iter()
        .any(|it| below.ends_with(it));
    require!(
        !is_reserved,
        "--group: the API server keeps {group:?} for Kubernetes"
    );
    let versions = or(&arguments.versions, || "v1alpha1,v1".to_owned());
    let has_two = versions.contains(',');
    let (spoke, hub) = versions.split_once(',').unwrap_or((&versions, &versions));
    let are_versions = is_version(spoke) && is_version(hub) && (spoke != hub || !has_two);
    require!(
        are_versions,
        "--versions {versions:?} are not the original and the stored version, e.g. v1alpha1,v1, or the only one"
    );
    let module = kind.to_lowercase();
    for version in [spoke, hub] {
        let webhook = format!("v{module}-{version}.{group}");
        require!(
            webhook.len() <= LABEL,
            "OLM uses {webhook:?} as a label, which has at most {LABEL} characters"
        );
    }
    let code = CODE.lines().filter(|line| !line.contains("//"));
    let mut reserved = content(KEYWORDS).flat_map(identifiers);
    let is_free = !code.flat_map(identifiers).any(|word| word == kind)
        && !reserved.any(|word| word == kind || word == module);
    require!(
        is_free,
        "--kind {kind:?} is a name of Rust, or one that its own file needs"
    );

    let taken = taken(project, others);
    let plural = or(&arguments.plural, || plural_of(&module));
    let short = or(&arguments.short, || short_of(&module, &taken));
    for (flag, name, limit) in [
        ("kind", &module, LABEL),
        ("plural", &plural, LABEL),
        ("short", &short, 16),
    ] {
        let is_word = is_word(name) && name.len() <= limit;
        require!(is_word, "--{flag} {name:?} is not one word in lower case");
        require!(
            !taken.contains(name),
            "--{flag}: another type has the name {name:?}"
        );
    }
    let image = or(&arguments.image, || IMAGE.trim().to_owned());
    let tag = image.rsplit_once(':').map_or("", |(_, tag)| tag);
    let is_allowed = |one: char| one.is_ascii_alphanumeric() || "./_:@-".contains(one);
    let has_tag = !tag.is_empty() && !tag.contains('/') && image.chars().all(is_allowed);
    require!(has_tag, "--image {image:?} is not an image with a tag");
    let mut words = Words(Vec::new());
    words.add([
        ("project", project),
        ("Kind", kind),
        ("kind", &module),
        ("KIND", &module.to_uppercase()),
        ("plural", &plural),
        ("short", &short),
        ("group", &group),
        ("prefix", group.split('.').next().unwrap_or_default()),
        ("spoke", spoke),
        ("hub", hub),
        ("image", &image),
        (if has_two { "two" } else { "one" }, ""),
    ]);
    Ok(words)
}

fn or(value: &str, default: impl FnOnce() -> String) -> String {
    match value {
        "" => default(),
        value => value.to_owned(),
    }
}

/// The lines of a list that are not comments.
fn content(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter(|line| !line.starts_with('#'))
}

fn identifiers(line: &str) -> impl Iterator<Item = &str> {
    line.split(|one: char| !one.is_alphanumeric() && one != '_')
}

/// RFC 1123.
fn is_label(text: &str) -> bool {
    let is_allowed = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '-';
    !text.is_empty() && text.trim_matches('-') == text && text.chars().all(is_allowed)
}

fn is_domain(text: &str) -> bool {
    text.contains('.') && text.split('.').all(is_label)
}

fn is_word(text: &str) -> bool {
    let begins = text.starts_with(|first: char| first.is_ascii_lowercase());
    begins && is_label(text) && !text.contains('-')
}

/// E.g. `v1` or `v1alpha1`.
fn is_version(text: &str) -> bool {
    let is_number = |text: &str| {
        text.parse()
            .is_ok_and(|it: u16| it > 0 && it.to_string() == text)
    };
    let Some(rest) = text.strip_prefix('v') else {
        return false;
    };
    let stage = ["alpha", "beta"]
        .into_iter()
        .find_map(|stage| rest.split_once(stage));
    stage.map_or(is_number(rest), |(major, minor)| {
        is_number(major) && is_number(minor)
    })
}

/// All names of other types for kubectl.
fn taken(project: &str, others: &str) -> BTreeSet<String> {
    let mut taken = BTreeSet::from([project.to_owned()]);
    for name in content(TAKEN) {
        taken.extend([name.to_owned(), plural_of(name)]);
    }
    for line in others.lines() {
        let names = ["    kind: \"", "    plural: \"", "    short_name: \""];
        let name = names.iter().find_map(|field| line.strip_prefix(field));
        taken.extend(
            name.and_then(|name| name.strip_suffix("\","))
                .map(str::to_lowercase),
        );
    }
    taken
}

fn plural_of(word: &str) -> String {
    let ends = |ends: &[&str]| ends.iter().any(|end| word.ends_with(end));
    match word.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ if ends(&["s", "x", "ch", "sh"]) => format!("{word}es"),
        _ => format!("{word}s"),
    }
}

/// The first of these that is free, or else the last.
fn short_of(kind: &str, taken: &BTreeSet<String>) -> String {
    let consonants = kind.replace(['a', 'e', 'i', 'o', 'u'], "");
    let candidates = [(&*consonants, 2), (&*consonants, 3), (kind, 3), (kind, 4)];
    let first = |(text, count): (&str, usize)| text.chars().take(count).collect::<String>();
    let mut candidates = candidates.into_iter().map(first);
    let free = candidates.find(|short| is_word(short) && !taken.contains(short));
    free.unwrap_or_else(|| first((kind, 5)))
}
