//! Charts of the recorded figures beside what is promised, as SVG. Measures nothing.

use std::ops::Range;
use std::path::PathBuf;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

use crate::Result;
use crate::figures::Figures;
use crate::manager::NAMES;
use crate::promises::{Load, Promises, row};

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

/// A chart: panels side by side, with a line for each manager and one for what is promised.
struct Chart {
    name: &'static str,
    /// The file of its figures.
    figures: &'static str,
    /// What the x axis shows.
    x: &'static str,
    row: &'static str,
    /// The row whose promise is drawn.
    promised: &'static str,
    panels: &'static [Panel],
}

/// A part of a chart: its title, and the load of its figures behind the name of the manager, in which `x` is
/// the number on the x axis.
struct Panel(&'static str, &'static str);

const CHARTS: [Chart; 6] = [
    of_bursts("burst-requests", row::REQUESTS),
    of_bursts("burst-cpu", row::CPU),
    of_bursts("burst-first-status", row::STATUS_AFTER_CHILDREN),
    of_bursts("burst-all-ready", row::ALL_READY),
    Chart {
        name: "webhook-latency",
        figures: "webhooks.csv",
        x: "connections that call without a pause",
        row: row::CALL_P99,
        promised: row::CALL_P99,
        panels: &[
            Panel("creations", "create,1,x"),
            Panel("conversions of one object", "convert,1,x"),
        ],
    },
    Chart {
        name: "webhook-conversion",
        figures: "webhooks.csv",
        x: "objects in one call",
        row: row::OBJECTS,
        promised: row::BATCH_OBJECTS,
        panels: &[Panel("conversions, one connection", "convert,x,1")],
    },
];

const fn of_bursts(name: &'static str, row: &'static str) -> Chart {
    Chart {
        name,
        figures: "bursts.csv",
        x: "resources in the burst",
        row,
        promised: row,
        panels: &[Panel("no pods", "x,0"), Panel("one pod each", "x,1")],
    }
}

/// A line of a chart and its name.
type Line = (&'static str, Vec<(f64, f64)>);

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
    let output = arguments.output.as_ref().unwrap_or(&arguments.figures);
    std::fs::create_dir_all(output)?;
    for chart in CHARTS {
        let figures = Figures::read(&arguments.figures.join(chart.figures))?;
        let panels = chart.panels.iter();
        let panels: Vec<_> = panels
            .map(|panel| lines(&chart, panel, &figures, promises))
            .collect();
        let file = output.join(chart.name).with_extension("svg");
        std::fs::write(file, svg(&chart, &panels)?)?;
    }
    Ok(())
}

/// The lines of a panel that have points.
fn lines(chart: &Chart, panel: &Panel, figures: &Figures, promises: &Promises) -> Vec<Line> {
    let Panel(_, load) = panel;
    let mut lines = NAMES
        .map(|name| (name, figures.points(chart.row, &format!("{name},{load}"))))
        .to_vec();
    let promised = lines[0].1.iter().filter_map(|&(x, _)| {
        let load = Load {
            resources: x as u32,
            pods: u32::from(load.ends_with(",1")),
        };
        Some((x, promises.limit(chart.promised, load)?))
    });
    lines.push(("promised", promised.collect()));
    lines
}

/// Draws `chart`: the same figures result in the same bytes.
fn svg(chart: &Chart, panels: &[Vec<Line>]) -> Result<String> {
    let points = panels.iter().flatten().flat_map(|(_, points)| points);
    let (xs, ys): (Vec<_>, Vec<_>) = points.copied().unzip();
    let x = smallest(&xs) / 1.5..largest(&xs) * 1.5;
    let (least, most) = (smallest(&ys), largest(&ys));
    let mut svg = String::new();
    let (width, height) = SIZE;
    let size = (width * panels.len() as u32, height);
    let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
    root.fill(&WHITE)?;
    let areas = root.split_evenly((1, panels.len()));
    for ((area, lines), Panel(title, _)) in areas.iter().zip(panels).zip(chart.panels) {
        // With room above, for the legend.
        if most / least > WIDE {
            let y = (least / 2.0..most * 5.0).log_scale();
            draw(chart, title, lines, area, x.clone(), y)?;
        } else {
            draw(chart, title, lines, area, x.clone(), 0.0..most * 1.5)?;
        }
    }
    root.present()?;
    drop((areas, root));
    Ok(svg)
}

fn draw<Y>(
    chart: &Chart,
    title: &str,
    lines: &[Line],
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    x: Range<f64>,
    y: Y,
) -> Result<()>
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let written = |value: &f64| ((value * 1e6).round() / 1e6).to_string();
    let mut plot = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 16))
        .margin(10)
        .x_label_area_size(42)
        .y_label_area_size(62)
        .build_cartesian_2d(x.log_scale(), y)?;
    plot.configure_mesh()
        .x_desc(chart.x)
        .y_desc(chart.row)
        .x_label_formatter(&written)
        .y_label_formatter(&written)
        .light_line_style(TRANSPARENT)
        .draw()?;
    let lines = lines.iter().zip(COLOURS);
    for ((name, points), colour) in lines.filter(|((_, points), _)| !points.is_empty()) {
        let points = points.iter().copied();
        plot.draw_series(LineSeries::new(points, colour.stroke_width(2)).point_size(3))?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    plot.configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE)
        .draw()?;
    Ok(())
}

fn smallest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}
