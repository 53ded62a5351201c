//! No files of a folder in [`SOURCES`] use each other in a circle: file A uses B if a path in A, in a
//! `use` or in the code, leads to B. Tests and what they add to a file do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::modules::{files, is_left_out};
use crate::root;

/// The segments of a module's path below the crate.
type Module = Vec<String>;

/// Which module uses which.
type Uses = BTreeMap<Module, BTreeSet<Module>>;

/// `src/api/mod.rs` and `src/api.rs` are the module `api`.
fn module_of(file: &str) -> Module {
    let path = file.strip_suffix(".rs").unwrap_or(file);
    let path = path.strip_suffix("/mod").unwrap_or(path);
    match path {
        "lib" | "main" => Module::new(),
        path => path.split('/').map(ToOwned::to_owned).collect(),
    }
}

/// The code without comments, and without the items below `#[cfg(test)]` and `#[cfg(fuzzing)]`. Needs
/// the layout of rustfmt: an item ends with a brace that has its indentation.
fn product_code(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let is_skipped = ["#[cfg(test)]", "#[cfg(fuzzing)]"].contains(&line.trim());
        if !is_skipped {
            let is_comment = line.trim_start().starts_with("//");
            code.push_str(if is_comment { "" } else { line });
            code.push('\n');
            continue;
        }
        let indentation = line.len() - line.trim_start().len();
        for (index, line) in lines
            .by_ref()
            .filter(|line| !line.trim_start().starts_with("#["))
            .enumerate()
        {
            let is_one_line = index == 0 && line.ends_with([';', ',', '}']);
            let closes = line.len() - line.trim_start().len() == indentation
                && line.trim_start().starts_with('}');
            if is_one_line || closes {
                break;
            }
        }
    }
    code
}

/// `a::{b, c::{self, d}}` as `a::b`, `a::c`, `a::c::d`.
fn expand(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((prefix, rest)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or(tree);
        return vec![path.trim().trim_end_matches("::self").to_owned()];
    };
    let inner = rest.strip_suffix('}').unwrap_or(rest);
    let mut depth = 0;
    let parts = inner.split(|character| {
        depth += i32::from(character == '{') - i32::from(character == '}');
        character == ',' && depth == 0
    });
    let parts = parts.filter(|part| !part.trim().is_empty());
    parts
        .flat_map(|part| expand(&format!("{prefix}{}", part.trim())))
        .collect()
}

/// The statements `use` of the code, and the rest of it.
fn split_uses(code: &str) -> (Vec<String>, String) {
    let (mut uses, mut rest) = (Vec::new(), String::new());
    let mut statement: Option<String> = None;
    for line in code.lines() {
        let begins = line.split_once("use ").filter(|(before, tree)| {
            let before = before.trim();
            (before.is_empty() || before.starts_with("pub")) && tree.ends_with([';', '{'])
        });
        match (&mut statement, begins) {
            (Some(open), _) => open.push_str(line),
            (None, Some((_, tree))) => statement = Some(tree.to_owned()),
            (None, None) => {
                rest.push_str(line);
                rest.push('\n');
            }
        }
        if let Some(done) = statement.take_if(|open| open.ends_with(';')) {
            uses.extend(expand(done.trim_end_matches(';')));
        }
    }
    (uses, rest)
}

/// The module that a path in `module` leads to, and the part of the path behind it. `None` if the path
/// does not lead into the crate. `names` are the modules that have a name here.
fn resolve<'p>(
    path: &'p str,
    module: &Module,
    modules: &BTreeSet<Module>,
    names: &BTreeMap<String, Module>,
) -> Option<(Module, Vec<&'p str>)> {
    let mut segments: Vec<&str> = path.split("::").collect();
    let mut found = match *segments.first()? {
        "crate" => Module::new(),
        "self" | "super" => module.clone(),
        name => names.get(name)?.clone(),
    };
    while segments.first() == Some(&"super") {
        found.pop();
        segments.remove(0);
    }
    if segments.first().is_some_and(|first| {
        ["crate", "self"].contains(first) || names.get(*first).is_some_and(|it| *it == found)
    }) {
        segments.remove(0);
    }
    while let Some(name) = segments.first() {
        let mut below = found.clone();
        below.push((*name).to_owned());
        if !modules.contains(&below) {
            break;
        }
        found = below;
        segments.remove(0);
    }
    Some((found, segments))
}

/// Which module uses which, of files with these paths and texts.
fn uses(files: &BTreeMap<String, String>) -> Uses {
    let modules: BTreeSet<Module> = files.keys().map(|file| module_of(file)).collect();
    let mut all = Uses::new();
    for (file, text) in files {
        let module = module_of(file);
        let code = product_code(text);
        let (imports, rest) = split_uses(&code);
        let mut names = BTreeMap::new();
        for below in modules
            .iter()
            .filter(|it| it.split_last().is_some_and(|it| it.1 == module))
        {
            names.extend(below.last().map(|name| (name.clone(), below.clone())));
        }
        let mut used = BTreeSet::new();
        for path in &imports {
            match resolve(path, &module, &modules, &names) {
                // A module: it is used where its name is.
                Some((found, behind)) if behind.is_empty() => {
                    let name = path.rsplit("::").next().unwrap_or(path);
                    names.insert(name.to_owned(), found);
                }
                Some((found, _)) => drop(used.insert(found)),
                None => {}
            }
        }
        let is_of_path = |character: char| character.is_alphanumeric() || "_:".contains(character);
        let words = rest.split(|character| !is_of_path(character));
        for path in words.filter(|word| word.contains("::")) {
            let found = resolve(path, &module, &modules, &names);
            used.extend(
                found
                    .filter(|(_, behind)| !behind.is_empty())
                    .map(|it| it.0),
            );
        }
        used.remove(&module);
        all.insert(module, used);
    }
    all
}

/// All that a module uses, directly or through others.
fn reached<'u>(from: &'u Module, uses: &'u Uses) -> BTreeSet<&'u Module> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        let next = uses.get(module).into_iter().flatten();
        open.extend(next.filter(|next| reached.insert(*next)));
    }
    reached
}

/// The uses that are part of a circle.
fn circles(uses: &Uses) -> Vec<String> {
    let all: BTreeMap<_, _> = uses.keys().map(|it| (it, reached(it, uses))).collect();
    let pairs = uses
        .iter()
        .flat_map(|(from, used)| used.iter().map(move |to| (from, to)));
    let in_circle = pairs.filter(|(from, to)| all.get(to).is_some_and(|it| it.contains(from)));
    in_circle
        .map(|(from, to)| format!("{} uses {}", from.join("/"), to.join("/")))
        .collect()
}

/// The source folders of this crate and of tools. Not those of `bench` and `devcluster`, in which a file
/// may use its parent module.
const SOURCES: [&str; 5] = [
    "src",
    "tools/bench/peers/kube-rs/src",
    "tools/faultproxy/src",
    "tools/modelapi/src",
    "tools/testkit/src",
];

#[test]
fn no_files_of_a_crate_use_each_other_in_a_circle() {
    let mut count = 0;
    for source in SOURCES {
        let folder = root().join(source);
        let mut paths = Vec::new();
        files(&folder, &folder, &mut paths);
        paths.retain(|path| !is_left_out(path));
        let read = |path: &String| fs::read_to_string(folder.join(path)).expect("a file");
        let texts = paths.iter().map(|path| (path.clone(), read(path)));
        let uses = uses(&texts.collect());
        count += uses.values().map(BTreeSet::len).sum::<usize>();
        let circles = circles(&uses);
        assert!(circles.is_empty(), "{source}:\n{}", circles.join("\n"));
    }
    assert!(count > 850, "{count} uses were found");
}

#[test]
fn a_circle_is_found_however_a_file_names_the_other() {
    let circle_of = |one: &str, other: &str| {
        let texts = [
            ("a/mod.rs", "mod b;\nmod c;\n"),
            ("a/b.rs", one),
            ("a/c.rs", other),
        ];
        let texts = texts.map(|(path, text)| (path.to_owned(), text.to_owned()));
        circles(&uses(&texts.into()))
    };
    for one in [
        "use super::c::C;",
        "use crate::a::c::C;",
        "pub(crate) use super::c::{\n    C,\n};",
        "use super::{\n    c::{self, C},\n};",
        "use super::c;\nfn f() {\n    c::f();\n}",
        "fn f(it: crate::a::c::C) {}",
    ] {
        let other = "use super::b::{B};\n";
        assert_eq!(
            circle_of(one, other),
            ["a/b uses a/c", "a/c uses a/b"],
            "{one}"
        );
        for test in [
            format!("#[cfg(test)]\n{other}"),
            format!("#[cfg(test)]\nmod tests {{\n    {other}\n}}"),
            "//! [`super::b::B`]".to_owned(),
        ] {
            assert!(circle_of(one, &test).is_empty(), "{test}");
        }
    }
}
