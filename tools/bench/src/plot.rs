//! Charts of the recorded figures beside what is promised, as SVG. Measures nothing.

use std::ops::Range;
use std::path::PathBuf;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::*;

use crate::error::Error;
use crate::figures::Figures;
use crate::manager::NAMES;
use crate::promises::{Load, Promises, row};
use crate::webhook::{BATCH, CONVERT, CPU, CREATE, P99};

type Failure = DrawingAreaErrorKind<std::io::Error>;
type Line = (String, Vec<(f64, f64)>);

/// What is to be drawn.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The folder of bursts.csv and webhooks.csv, which --record writes
    #[arg(long, default_value = "docs/figures")]
    figures: PathBuf,
    /// Where the charts go [default: beside the figures]
    #[arg(long)]
    output: Option<PathBuf>,
}

/// A chart: panels side by side, each with a title and its lines.
struct Chart {
    x: &'static str,
    y: &'static str,
    panels: Vec<(&'static str, Vec<Line>)>,
}

/// The rows of bursts that are drawn, and the files.
const BURSTS: [(&str, &str); 4] = [
    ("burst-requests.svg", row::REQUESTS),
    ("burst-cpu.svg", row::CPU),
    ("burst-first-status.svg", row::STATUS_AFTER_CHILDREN),
    ("burst-all-ready.svg", row::ALL_READY),
];
/// The values of a chart that span more than this have a logarithmic axis.
const WIDE: f64 = 20.0;
/// Of one panel, in pixels.
const SIZE: (u32, u32) = (440, 340);
/// Of the palette of Okabe and Ito, for all who see colours one way or another.
const COLOURS: [RGBColor; 4] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    BLACK,
];

/// Draws all charts.
///
/// # Errors
/// A file cannot be read or written, or has no figures.
pub(crate) fn perform(arguments: &Arguments, promises: &Promises) -> Result<(), Error> {
    let bursts = Figures::read(&arguments.figures.join("bursts.csv"))?;
    let webhooks = Figures::read(&arguments.figures.join("webhooks.csv"))?;
    let mut charts: Vec<_> = BURSTS
        .into_iter()
        .map(|(file, row)| (file, of_bursts(&bursts, row, promises)))
        .collect();
    charts.push((
        "webhook-conversion.svg",
        of_conversions(&webhooks, promises),
    ));
    charts.push(("webhook-latency.svg", of_latencies(&webhooks)));
    let output = arguments.output.as_ref().unwrap_or(&arguments.figures);
    std::fs::create_dir_all(output)?;
    for (file, chart) in charts {
        std::fs::write(output.join(file), svg(&chart)?)?;
    }
    Ok(())
}

/// A row by the size of the burst, a panel for each number of pods.
fn of_bursts(figures: &Figures, row: &'static str, promises: &Promises) -> Chart {
    let panels = [("no pods", 0), ("one pod each", 1)].map(|(title, pods)| {
        let of = |name: &str| {
            figures.points(|key| match key {
                [manager, resources, of, what] if (*manager, *what) == (name, row) => {
                    let resources = resources.parse().ok();
                    resources.filter(|_| of.parse() == Ok(pods))
                }
                _ => None,
            })
        };
        let mut lines: Vec<Line> = NAMES.map(|name| (name.to_owned(), of(name))).into();
        let promised = of(NAMES[0]).into_iter().filter_map(|(resources, _)| {
            let load = Load {
                resources: resources as u32,
                pods,
            };
            Some((resources, promises.limit(row, load)?))
        });
        lines.push(("promised".to_owned(), promised.collect()));
        (title, lines)
    });
    Chart {
        x: "resources in the burst",
        y: row,
        panels: panels.into(),
    }
}

/// CPU of a conversion, by how many objects are in the call.
fn of_conversions(figures: &Figures, promises: &Promises) -> Chart {
    let mut lines = of_servers(figures, |key| match key {
        [CONVERT, objects, "1", CPU] => objects.parse().ok(),
        _ => None,
    });
    for (objects, value) in lines.iter_mut().flat_map(|(_, points)| points) {
        *value /= *objects;
    }
    let batches = lines[0]
        .1
        .iter()
        .filter(|(objects, _)| *objects >= f64::from(BATCH));
    let promised = batches.filter_map(|(objects, _)| {
        let each_second = promises.limit(row::BATCH_OBJECTS, Load::default())?;
        Some((*objects, 1e6 / each_second))
    });
    let promised = ("promised".to_owned(), promised.collect());
    lines.push(promised);
    Chart {
        x: "objects in one call",
        y: "CPU per object, µs",
        panels: vec![("CPU of a conversion, one connection", lines)],
    }
}

/// How long the slowest calls take, by how many connections call without a pause.
fn of_latencies(figures: &Figures) -> Chart {
    let of = |call: &'static str| {
        of_servers(figures, move |key| match key {
            [this, "1", connections, P99] if *this == call => connections.parse().ok(),
            _ => None,
        })
    };
    let conversions = ("conversions of one object", of(CONVERT));
    Chart {
        x: "connections that call without a pause",
        y: P99,
        panels: vec![("creations", of(CREATE)), conversions],
    }
}

/// A line for each server; `x` returns the place of a figure by what follows the server in its key.
fn of_servers(figures: &Figures, x: impl Fn(&[&str]) -> Option<f64>) -> Vec<Line> {
    let servers = NAMES[..2].iter().map(|&server| {
        let points = figures.points(|key| match key {
            [name, rest @ ..] if *name == server => x(rest),
            _ => None,
        });
        (server.to_owned(), points)
    });
    servers.collect()
}

/// Draws `chart`: the same figures result in the same bytes.
fn svg(chart: &Chart) -> Result<String, Failure> {
    let all = chart.panels.iter().flat_map(|(_, lines)| lines);
    let points = all.flat_map(|(_, points)| points.iter().copied());
    let (xs, ys): (Vec<_>, Vec<_>) = points.unzip();
    let x = smallest(&xs) / 1.5..largest(&xs) * 1.5;
    let (least, most) = (smallest(&ys), largest(&ys));
    let mut svg = String::new();
    {
        let (width, height) = SIZE;
        let size = (width * chart.panels.len() as u32, height);
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&WHITE)?;
        // With room above, for the legend.
        for (number, area) in root
            .split_evenly((1, chart.panels.len()))
            .iter()
            .enumerate()
        {
            if most / least > WIDE {
                let y = (least / 2.0..most * 5.0).log_scale();
                panel(chart, number, area, x.clone(), y)?;
            } else {
                panel(chart, number, area, x.clone(), 0.0..most * 1.5)?;
            }
        }
        root.present()?;
    }
    Ok(svg)
}

fn panel<Y>(
    chart: &Chart,
    number: usize,
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    x: Range<f64>,
    y: Y,
) -> Result<(), Failure>
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let (title, lines) = &chart.panels[number];
    let written = |value: &f64| ((value * 1e6).round() / 1e6).to_string();
    let mut plot = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 16))
        .margin(10)
        .x_label_area_size(42)
        .y_label_area_size(62)
        .build_cartesian_2d(x.log_scale(), y)?;
    plot.configure_mesh()
        .x_desc(chart.x)
        .y_desc(chart.y)
        .x_label_formatter(&written)
        .y_label_formatter(&written)
        .light_line_style(TRANSPARENT)
        .draw()?;
    for ((name, points), colour) in lines.iter().zip(COLOURS) {
        if points.is_empty() {
            continue;
        }
        let points = points.iter().copied();
        plot.draw_series(LineSeries::new(points, colour.stroke_width(2)).point_size(3))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    plot.configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE)
        .draw()
}

fn smallest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}
