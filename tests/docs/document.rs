//! One document as a reader follows it: its headings, its links, and what it says to do, in
//! its order. Reads Markdown only; knows nothing of what is done with it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// Begins what readers do not see and `make test-docs` does: `<!-- test-docs: make run -->`.
const HIDDEN: &str = "<!-- test-docs: ";

/// Everything that the tests look at.
#[derive(Debug, Default)]
pub(crate) struct Document {
    /// Path below the root of the checkout.
    pub(crate) path: String,
    /// What a link to a heading ends with.
    pub(crate) anchors: BTreeSet<String>,
    /// Targets of links and images, with their lines.
    pub(crate) links: Vec<(usize, String)>,
    /// Code within sentences and tables, with its lines.
    pub(crate) code: Vec<(usize, String)>,
    /// What a reader does.
    pub(crate) steps: Vec<Step>,
    /// Blocks whose language has no meaning here, with their lines.
    pub(crate) unknown: Vec<(usize, String)>,
}

/// One thing to do.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) line: usize,
    pub(crate) action: Action,
}

#[derive(Debug)]
pub(crate) enum Action {
    /// A line behind `$ ` in a `console` block, and the lines below that it prints, if the
    /// document shows any.
    Run { command: String, shown: String },
    /// The same, hidden.
    Prepare(String),
    /// A `yaml` block that is a resource.
    Apply(String),
    /// A block with a path behind its language: a whole file.
    Write { path: String, text: String },
    /// A `diff` block.
    Patch(String),
}

/// Every document of a reader that git knows or will know, by path.
pub(crate) fn all(root: &Path) -> Vec<Document> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .args(["*.md", ":!src", ":!packaging"])
        .arg(":!crates/packaging/testdata")
        .current_dir(root)
        .output()
        .expect("git runs");
    let listed = String::from_utf8(listed.stdout).expect("paths in UTF-8");
    let mut paths: Vec<&str> = listed.lines().collect();
    paths.sort_unstable();
    let there = paths.into_iter().filter(|path| root.join(path).exists());
    there
        .map(|path| Document::read(path, &fs::read_to_string(root.join(path)).expect("UTF-8")))
        .collect()
}

impl Document {
    pub(crate) fn read(path: &str, text: &str) -> Self {
        let mut document = Self {
            path: path.to_owned(),
            ..Self::default()
        };
        let mut heading: Option<String> = None;
        let mut block: Option<(usize, String, String)> = None;
        let events = Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter();
        for (event, range) in events {
            let line = 1 + text[..range.start].matches('\n').count();
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    document.add_anchor(&heading.take().unwrap_or_default());
                }
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    document.links.push((line, dest_url.into_string()));
                }
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                    block = Some((line + 1, info.into_string(), String::new()));
                }
                Event::Start(Tag::CodeBlock(CodeBlockKind::Indented)) => {
                    block = Some((line, "indented".to_owned(), String::new()));
                }
                Event::End(TagEnd::CodeBlock) => {
                    let (line, info, text) = block.take().expect("a block began");
                    document.add_block(line, &info, &text);
                }
                Event::Text(words) => match (&mut block, &mut heading) {
                    (Some((_, _, text)), _) => text.push_str(&words),
                    (None, Some(heading)) => heading.push_str(&words),
                    (None, None) => {}
                },
                Event::Code(code) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&code);
                    }
                    document.code.push((line, code.into_string()));
                }
                Event::Html(html) => {
                    if let Some(command) = html.trim().strip_prefix(HIDDEN) {
                        let command = command.trim_end_matches("-->").trim();
                        document.add(line, Action::Prepare(command.to_owned()));
                    }
                }
                _ => {}
            }
        }
        document
    }

    /// The commands that it shows, with their lines and what is below them.
    pub(crate) fn commands(&self) -> impl Iterator<Item = (usize, &str, &str)> {
        self.steps.iter().filter_map(|step| match &step.action {
            Action::Run { command, shown } => Some((step.line, command.as_str(), shown.as_str())),
            _ => None,
        })
    }

    /// Those commands and the code within sentences, with their lines.
    pub(crate) fn all_commands(&self) -> impl Iterator<Item = (usize, &str)> {
        let inline = self.code.iter().map(|(line, code)| (*line, code.as_str()));
        inline.chain(self.commands().map(|(line, command, _)| (line, command)))
    }

    /// Whether following it changes files, which then are those of a copy.
    pub(crate) fn changes_files(&self) -> bool {
        self.steps.iter().any(|step| match &step.action {
            Action::Write { .. } | Action::Patch(_) => true,
            Action::Run { command, .. } => command.starts_with("make kind"),
            _ => false,
        })
    }

    /// As GitHub makes them: lower case, without punctuation, with hyphens for blanks; one
    /// that is there already is counted on.
    fn add_anchor(&mut self, heading: &str) {
        let kept = |one: &char| one.is_alphanumeric() || "-_ ".contains(*one);
        let anchor: String = heading.to_lowercase().chars().filter(kept).collect();
        let anchor = anchor.trim().replace(' ', "-");
        let mut numbered = anchor.clone();
        let mut number = 0;
        while !self.anchors.insert(numbered) {
            number += 1;
            numbered = format!("{anchor}-{number}");
        }
    }

    fn add_block(&mut self, line: usize, info: &str, text: &str) {
        let mut words = info.split_whitespace();
        let language = words.next().unwrap_or_default();
        match (language, words.next()) {
            (_, Some(path)) => {
                let (path, text) = (path.to_owned(), text.to_owned());
                self.add(line, Action::Write { path, text });
            }
            ("console", None) => self.add_console(line, text),
            ("diff", None) => self.add(line, Action::Patch(text.to_owned())),
            ("yaml", None) if text.starts_with("apiVersion:") => {
                self.add(line, Action::Apply(text.to_owned()));
            }
            // Parts of files, and what nobody types.
            ("yaml" | "rust" | "rust,no_run" | "mermaid" | "text" | "json" | "lua", None)
                if !text.lines().any(|line| line.starts_with("$ ")) => {}
            _ => self.unknown.push((line, info.to_owned())),
        }
    }

    /// Lines behind `$ ` are commands, which a backslash continues; what is below one, up to
    /// the next, is what it prints.
    fn add_console(&mut self, first: usize, text: &str) {
        let mut continues = false;
        for (line, content) in (first..).zip(text.lines()) {
            let last = self.steps.last_mut().map(|step| &mut step.action);
            match (content.strip_prefix("$ "), last) {
                (Some(command), _) => self.add_command(line, command),
                (None, Some(Action::Run { command, .. })) if continues => {
                    command.truncate(command.len() - 1);
                    command.push_str(typed(content).trim_start());
                }
                (None, Some(Action::Run { shown, .. })) => *shown += &format!("{content}\n"),
                (None, _) => self.unknown.push((line, content.to_owned())),
            }
            continues = content.ends_with('\\');
        }
    }

    fn add_command(&mut self, line: usize, command: &str) {
        let (command, shown) = (typed(command).to_owned(), String::new());
        self.add(line, Action::Run { command, shown });
    }

    fn add(&mut self, line: usize, action: Action) {
        self.steps.push(Step { line, action });
    }
}

/// A remark behind two blanks and `#` is not typed.
fn typed(line: &str) -> &str {
    line.split("  #").next().unwrap_or_default().trim_end()
}
