//! `devcluster record`: the output of `demo` with its timing, as an animated SVG. Text stays text,
//! and colors follow the reader's dark or light mode. Only [`run`] does I/O.

use std::env;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use crate::run::exit_code;

/// The size of the screen, in characters and lines; longer lines are wrapped.
const COLUMNS: usize = 100;
const ROWS: usize = 30;

/// The size of a character in a monospaced font of 13 px, with margins.
const CHARACTER_WIDTH: usize = 8;
const LINE_HEIGHT: usize = 18;
const MARGIN: usize = 16;

/// Longer pauses before a line are shortened to this.
const LONGEST_PAUSE: Duration = Duration::from_millis(1500);
/// The shortest pause before a line, and before a line that begins a new step, so that it can be
/// read.
const SHORTEST_PAUSE: Duration = Duration::from_millis(120);
const PAUSE_TO_READ: Duration = Duration::from_millis(800);
/// How long the end is shown before the animation restarts.
const LAST_PAUSE: Duration = Duration::from_secs(8);

/// GitHub's colors; the second set is for dark mode.
const STYLE: &str = "\
svg{--back:#fff;--front:#1f2328;--typed:#0550ae;--heading:#8250df;--edge:#d1d9e0}
@media (prefers-color-scheme:dark){svg{--back:#0d1117;--front:#e6edf3;--typed:#79c0ff;--heading:#d2a8ff;--edge:#3d444d}}
text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre;fill:var(--front)}
.t{fill:var(--typed)}
.h{fill:var(--heading);font-weight:bold}
rect{fill:var(--back);pointer-events:none}
@media (prefers-reduced-motion:reduce){g,#below{animation:none!important}}
";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The SVG to write
    output: PathBuf,
    /// The manager's binary
    #[arg(long, default_value = "target/release/manager")]
    manager: PathBuf,
    /// The folder that holds config/
    #[arg(long, default_value = ".")]
    root: PathBuf,
}

/// A line of the screen, and when it was printed.
#[derive(Debug, PartialEq)]
struct Line {
    text: String,
    /// The beginning of the whole line, of which this may be a later piece.
    mark: Option<char>,
    after: Duration,
}

/// Runs the demo and, if it succeeds, writes the SVG.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let mut demo = Command::new(env::current_exe()?)
        .arg("demo")
        .arg("--manager")
        .arg(&arguments.manager)
        .arg("--root")
        .arg(&arguments.root)
        .stdout(Stdio::piped())
        .spawn()?;
    let began = Instant::now();
    let mut lines = Vec::new();
    let home = env::var("HOME").unwrap_or_default();
    for text in BufReader::new(demo.stdout.take().ok_or("no pipe")?).lines() {
        let text = text?;
        println!("{text}");
        // The recording must not show the user's name.
        let text = match home.as_str() {
            "" | "/" => text,
            home => text.replace(home, "~"),
        };
        lines.extend(wrapped(&text, began.elapsed()));
    }
    let status = demo.wait()?;
    if status.success() {
        fs::write(&arguments.output, svg(&lines))?;
    }
    Ok(exit_code(status))
}

/// Splits a line into pieces of at most [`COLUMNS`], of which the later ones are indented.
fn wrapped(text: &str, after: Duration) -> Vec<Line> {
    let mut rest: Vec<char> = text.chars().collect();
    let mark = rest.first().copied();
    let mut lines = Vec::new();
    while rest.len() > COLUMNS {
        // At a space if there is one after the indentation.
        let blank = (COLUMNS / 2..COLUMNS).rev().find(|at| rest[*at] == ' ');
        let tail = rest.split_off(blank.unwrap_or(COLUMNS));
        let tail = tail.into_iter().skip_while(|one| *one == ' ');
        let next = "      ".chars().chain(tail).collect();
        lines.push(std::mem::replace(&mut rest, next));
    }
    lines.push(rest);
    lines
        .into_iter()
        .map(|characters| Line {
            text: characters.into_iter().collect(),
            mark,
            after,
        })
        .collect()
}

/// Returns when each line is shown and when the animation restarts: with the timing of the demo,
/// without its longest pauses.
fn times(lines: &[Line]) -> (Vec<Duration>, Duration) {
    let (mut shown, mut now, mut last) = (Vec::new(), Duration::ZERO, Duration::ZERO);
    for line in lines {
        let shortest = match line.text.starts_with(['$', '#']) {
            true => PAUSE_TO_READ,
            false => SHORTEST_PAUSE,
        };
        now += line
            .after
            .saturating_sub(last)
            .clamp(shortest, LONGEST_PAUSE);
        last = line.after;
        shown.push(now);
    }
    (shown, now + LAST_PAUSE)
}

/// All lines exist from the start. A rectangle hides those below the last shown one until the
/// screen is full; then they move up.
fn svg(lines: &[Line]) -> String {
    let (times, end) = times(lines);
    let percent = |time: &Duration| 100.0 * time.as_secs_f64() / end.as_secs_f64();
    let (mut hiding, mut moving) = (String::new(), String::new());
    for (count, time) in (1..).zip(&times) {
        let (frames, offset) = match count {
            ..=ROWS => (&mut hiding, (count * LINE_HEIGHT).to_string()),
            _ => (&mut moving, format!("-{}", (count - ROWS) * LINE_HEIGHT)),
        };
        frame(frames, percent(time), &offset);
    }
    let seconds = end.as_secs_f64();
    let (width, height) = (COLUMNS * CHARACTER_WIDTH, ROWS * LINE_HEIGHT);
    let (whole_width, whole_height) = (width + 2 * MARGIN, height + 2 * MARGIN);
    let mut text = String::new();
    for (row, line) in lines.iter().enumerate() {
        let class = match line.mark {
            Some('$') => " class=\"t\"",
            Some('#') => " class=\"h\"",
            _ => "",
        };
        let y = row * LINE_HEIGHT + 13;
        if !line.text.is_empty() {
            let _ = writeln!(
                text,
                "<text y=\"{y}\"{class}>{}</text>",
                escaped(&line.text)
            );
        }
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {whole_width} {whole_height}\" \
         width=\"{whole_width}\" height=\"{whole_height}\">\n\
         <title>make demo</title>\n<style>\n{STYLE}\
         #below{{transform:translateY({height}px);animation:below {seconds:.1}s step-end infinite}}\n\
         g{{animation:lines {seconds:.1}s step-end infinite}}\n\
         @keyframes below{{0%{{transform:none}}{hiding}}}\n\
         @keyframes lines{{0%{{transform:none}}{moving}}}\n</style>\n\
         <rect width=\"{whole_width}\" height=\"{whole_height}\" rx=\"8\" style=\"stroke:var(--edge)\"/>\n\
         <svg x=\"{MARGIN}\" y=\"{MARGIN}\" width=\"{width}\" height=\"{height}\" xml:space=\"preserve\">\n\
         <g>\n{text}</g>\n<rect id=\"below\" width=\"{width}\" height=\"{height}\"/>\n</svg>\n</svg>\n"
    )
}

fn frame(frames: &mut String, percent: f64, offset: &str) {
    let _ = write!(frames, "{percent:.2}%{{transform:translateY({offset}px)}}");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str, seconds: u64) -> Line {
        Line {
            text: text.to_owned(),
            mark: text.chars().next(),
            after: Duration::from_secs(seconds),
        }
    }

    #[test]
    fn long_waits_are_cut_and_no_line_comes_too_soon() {
        let (shown, end) = times(&[line("$ a", 0), line("b", 0), line("c", 9)]);
        let second = PAUSE_TO_READ + SHORTEST_PAUSE;
        let total = second + LONGEST_PAUSE;
        assert_eq!(shown, [PAUSE_TO_READ, second, total]);
        assert_eq!(end, total + LAST_PAUSE);
    }

    #[test]
    fn a_long_line_is_wrapped_at_a_blank_and_nothing_of_it_is_lost() {
        let text = format!("$ {} {}", "a".repeat(70), "b".repeat(170));
        let lines = wrapped(&text, Duration::ZERO);
        assert!(
            lines
                .iter()
                .all(|line| line.text.chars().count() <= COLUMNS)
        );
        assert_eq!(lines.len(), 3);
        let again: Vec<&str> = lines.iter().map(|line| line.text.trim_start()).collect();
        assert_eq!(again.concat(), text.replace("a b", "ab"));
    }

    #[test]
    fn what_was_printed_is_text_in_the_picture() {
        let lines: Vec<Line> = (0..40).map(|row| line("$ a <b> & c", row)).collect();
        let svg = svg(&lines);
        assert_eq!(svg.matches(">$ a &lt;b&gt; &amp; c</text>").count(), 40);
        assert_eq!(svg.matches("%{transform:translateY(-").count(), 40 - ROWS);
    }
}
