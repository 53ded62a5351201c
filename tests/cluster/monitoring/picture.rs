//! Draws a dashboard as a picture for the documentation: its panels and queries, with the data that
//! a real Prometheus scraped from a working manager. It resembles Grafana's rendering.

use plotters::prelude::*;

use super::files::{Dashboard, Panel};
use super::prometheus::{Line, Prometheus};

/// The size of a panel in pixels.
const PANEL: (u32, u32) = (560, 260);
const HEADING: u32 = 34;
const GREY: RGBColor = RGBColor(110, 110, 110);
/// The most lines in a graph, so that they can be told apart: the highest are drawn.
const MOST_LINES: usize = 6;

/// Returns the SVG of `dashboard` from `begin` to `end`, in seconds since 1970.
pub(crate) fn draw(
    dashboard: &Dashboard,
    prometheus: &Prometheus,
    (begin, end): (u64, u64),
) -> String {
    let rows = dashboard.rows();
    let heights = rows
        .iter()
        .map(|row| HEADING + PANEL.1 * row.panels.len().div_ceil(2) as u32);
    let size = (2 * PANEL.0, HEADING + heights.clone().sum::<u32>());
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&WHITE).expect("a background");
        let (title, mut rest) = root.split_vertically(HEADING);
        heading(&title, &dashboard.title, 18);
        for (row, height) in rows.iter().zip(heights) {
            let (area, below) = rest.split_vertically(height);
            rest = below;
            let (title, panels) = area.split_vertically(HEADING);
            heading(&title, row.title, 15);
            let places = panels.split_evenly((row.panels.len().div_ceil(2), 2));
            for (panel, place) in row.panels.iter().zip(places) {
                let lines = highest(panel, prometheus, (begin, end));
                graph(&place, panel, &lines, (begin, end));
            }
        }
        root.present().expect("a picture");
    }
    svg
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn heading(area: &Area<'_>, text: &str, size: u32) {
    let style = ("sans-serif", size).into_font().color(&BLACK);
    area.draw(&Text::new(text.to_owned(), (14, 10), style))
        .expect("a heading");
}

/// Returns the lines of a panel with their legends.
fn highest(
    panel: &Panel,
    prometheus: &Prometheus,
    (begin, end): (u64, u64),
) -> Vec<(String, Vec<(f64, f64)>)> {
    let mut lines = Vec::new();
    for query in &panel.targets {
        for line in prometheus.lines(&query.expression_for_all(), begin, end) {
            lines.push((legend(&query.legend_format, &line), line.points));
        }
    }
    let peak = |points: &[(f64, f64)]| points.iter().map(|point| point.1).fold(0.0, f64::max);
    lines.sort_by(|(_, left), (_, right)| peak(right).total_cmp(&peak(left)));
    lines.truncate(MOST_LINES);
    lines
}

/// Replaces `{{controller}}` by the value of the label.
fn legend(template: &str, line: &Line) -> String {
    let mut text = template.to_owned();
    for (label, value) in line.labels.as_object().into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        text = text.replace(&format!("{{{{{label}}}}}"), value);
    }
    text
}

fn graph(
    area: &Area<'_>,
    panel: &Panel,
    lines: &[(String, Vec<(f64, f64)>)],
    (begin, end): (u64, u64),
) {
    let points = lines.iter().flat_map(|(_, points)| points);
    let top = points.map(|point| point.1).fold(0.0, f64::max);
    let top = if top > 0.0 { 1.15 * top } else { 1.0 };
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .caption(
            format!("{} [{}]", panel.title, panel.unit()),
            ("sans-serif", 13).into_font().color(&BLACK),
        )
        .x_label_area_size(22)
        .y_label_area_size(58)
        .build_cartesian_2d(0.0..(end - begin) as f64, 0.0..top)
        .expect("a chart");
    chart
        .configure_mesh()
        .x_labels(6)
        .y_labels(5)
        .x_label_formatter(&|seconds| format!("{seconds:.0} s"))
        .y_label_formatter(&short)
        .label_style(("sans-serif", 10).into_font().color(&GREY))
        .axis_style(RGBColor(200, 200, 200))
        .light_line_style(WHITE)
        .bold_line_style(RGBColor(235, 235, 235))
        .draw()
        .expect("a grid");
    for (index, (legend, points)) in lines.iter().enumerate() {
        let colour = Palette99::pick(index).to_rgba();
        let points = points
            .iter()
            .map(|(time, value)| (time - begin as f64, *value));
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2)))
            .expect("a line")
            .label(legend.as_str())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 12, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .label_font(("sans-serif", 10).into_font().color(&GREY))
        .draw()
        .expect("a legend");
}

/// Formats a value with three digits and a letter for thousands.
fn short(value: &f64) -> String {
    match *value {
        0.0 => "0".to_owned(),
        1e9.. => format!("{:.1}G", value / 1e9),
        1e6.. => format!("{:.1}M", value / 1e6),
        1e3.. => format!("{:.1}k", value / 1e3),
        1.0.. => format!("{value:.1}"),
        _ => format!("{value:.4}"),
    }
}
