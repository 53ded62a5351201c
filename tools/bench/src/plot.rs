//! Charts of the recorded figures beside what is promised, as SVG. Measures nothing.

use std::ops::Range;
use std::path::PathBuf;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::*;

use crate::Result;
use crate::figures::Figures;
use crate::manager::NAMES;
use crate::promises::{Load, Promises, row};
use crate::webhook::{BATCH, CONVERT, CREATE};

type Failure = DrawingAreaErrorKind<std::io::Error>;
type Points = Vec<(f64, f64)>;

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
#[derive(Clone)]
struct Chart {
    file: &'static str,
    x: &'static str,
    y: &'static str,
    panels: Vec<(&'static str, Vec<(&'static str, Points)>)>,
}

/// The rows of bursts that are drawn, and the files.
const BURSTS: [(&str, &str); 4] = [
    ("burst-requests.svg", row::REQUESTS),
    ("burst-cpu.svg", row::CPU),
    ("burst-first-status.svg", row::STATUS_AFTER_CHILDREN),
    ("burst-all-ready.svg", row::ALL_READY),
];
/// The managers with webhooks.
const SERVERS: [&str; 2] = [NAMES[0], NAMES[1]];
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
/// A file cannot be read or written.
pub(crate) fn perform(arguments: &Arguments, promises: &Promises) -> Result<()> {
    let bursts = Figures::read(&arguments.figures.join("bursts.csv"))?;
    let webhooks = Figures::read(&arguments.figures.join("webhooks.csv"))?;
    let mut charts = BURSTS
        .map(|(file, row)| of_bursts(&bursts, file, row, promises))
        .to_vec();
    charts.push(of_conversions(&webhooks, promises));
    charts.push(of_latencies(&webhooks));
    let output = arguments.output.as_ref().unwrap_or(&arguments.figures);
    std::fs::create_dir_all(output)?;
    for chart in charts {
        std::fs::write(output.join(chart.file), svg(&chart)?)?;
    }
    Ok(())
}

/// A row by the size of the burst, a panel for each number of pods.
fn of_bursts(
    figures: &Figures,
    file: &'static str,
    row: &'static str,
    promises: &Promises,
) -> Chart {
    let panels = [("no pods", 0), ("one pod each", 1)].map(|(title, pods)| {
        let mut lines = NAMES
            .map(|name| (name, of(figures, row, name, pods)))
            .to_vec();
        let promised = lines[0].1.iter().filter_map(|&(x, _)| {
            let resources = x as u32;
            Some((x, promises.limit(row, Load { resources, pods })?))
        });
        lines.push(("promised", promised.collect()));
        (title, lines)
    });
    Chart {
        file,
        x: "resources in the burst",
        y: row,
        panels: panels.into(),
    }
}

/// The row of one manager, by the number of resources with so many pods each.
fn of(figures: &Figures, row: &str, name: &str, pods: u32) -> Points {
    figures.points(row, |load| match load {
        [manager, resources, of] if *manager == name && of.parse() == Ok(pods) => {
            resources.parse().ok()
        }
        _ => None,
    })
}

/// CPU of a conversion, by how many objects are in the call.
fn of_conversions(figures: &Figures, promises: &Promises) -> Chart {
    let lines = SERVERS.map(|server| {
        let points = figures.points(row::CALL_CPU, |load| match load {
            [name, CONVERT, objects, "1"] if *name == server => objects.parse().ok(),
            _ => None,
        });
        let each = points
            .into_iter()
            .map(|(objects, cpu)| (objects, cpu / objects));
        (server, each.collect::<Points>())
    });
    let batches = lines[0]
        .1
        .iter()
        .filter(|(objects, _)| *objects >= f64::from(BATCH));
    let promised = promises.limit(row::BATCH_OBJECTS, Load::default());
    let promised = batches.filter_map(|(objects, _)| Some((*objects, 1e6 / promised?)));
    let promised = ("promised", promised.collect());
    Chart {
        file: "webhook-conversion.svg",
        x: "objects in one call",
        y: "CPU per object, µs",
        panels: vec![(
            "CPU of a conversion, one connection",
            lines.into_iter().chain([promised]).collect(),
        )],
    }
}

/// How long the slowest calls take, by how many connections call without a pause.
fn of_latencies(figures: &Figures) -> Chart {
    let panel = |title, call: &str| {
        let lines = SERVERS.map(|server| {
            let points = figures.points(row::CALL_P99, |load| match load {
                [name, of, "1", connections] if *name == server && *of == call => {
                    connections.parse().ok()
                }
                _ => None,
            });
            (server, points)
        });
        (title, lines.to_vec())
    };
    Chart {
        file: "webhook-latency.svg",
        x: "connections that call without a pause",
        y: row::CALL_P99,
        panels: vec![
            panel("creations", CREATE),
            panel("conversions of one object", CONVERT),
        ],
    }
}

/// Draws `chart`: the same figures result in the same bytes.
fn svg(chart: &Chart) -> std::result::Result<String, Failure> {
    let all = chart.panels.iter().flat_map(|(_, lines)| lines);
    let points = all.flat_map(|(_, points)| points.iter().copied());
    let (xs, ys): (Vec<_>, Vec<_>) = points.unzip();
    let x = smallest(&xs) / 1.5..largest(&xs) * 1.5;
    let (least, most) = (smallest(&ys), largest(&ys));
    let mut svg = String::new();
    let (width, height) = SIZE;
    let size = (width * chart.panels.len() as u32, height);
    let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
    root.fill(&WHITE)?;
    let areas = root.split_evenly((1, chart.panels.len()));
    for (number, area) in areas.iter().enumerate() {
        // With room above, for the legend.
        if most / least > WIDE {
            let y = (least / 2.0..most * 5.0).log_scale();
            panel(chart, number, area, x.clone(), y)?;
        } else {
            panel(chart, number, area, x.clone(), 0.0..most * 1.5)?;
        }
    }
    root.present()?;
    drop((areas, root));
    Ok(svg)
}

fn panel<Y>(
    chart: &Chart,
    number: usize,
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    x: Range<f64>,
    y: Y,
) -> std::result::Result<(), Failure>
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
            .label(*name)
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
