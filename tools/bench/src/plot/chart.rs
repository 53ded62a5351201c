//! Draws pictures as SVG: panels side by side with axes that they share, and a legend below. Knows
//! nothing of what it draws.

use std::io;

use plotters::coord::Shift;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::*;

use super::axis::{Along, Axis};

/// A picture.
#[derive(Debug)]
pub(super) struct Picture {
    pub(super) title: &'static str,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) panels: Vec<Panel>,
}

impl Picture {
    /// Whether nothing was measured of it.
    pub(super) fn is_empty(&self) -> bool {
        let mut lines = self.panels.iter().flat_map(|panel| &panel.lines);
        lines.all(|line| !line.look.is_measured() || line.points.is_empty())
    }
}

/// Lines on axes.
#[derive(Debug)]
pub(super) struct Panel {
    /// Empty if there is one only.
    pub(super) title: String,
    pub(super) lines: Vec<Line>,
}

/// A line.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) look: Look,
    /// From left to right.
    pub(super) points: Vec<(f64, f64)>,
}

/// What a line looks like. Those of measured figures differ in colour, for all who see colours one
/// way or another, in brightness and in their marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    First,
    Second,
    Third,
    /// What is promised: dashed and thin.
    Promised,
    /// What cannot be undercut: dotted and thin.
    Bound,
}

/// Of the palette of Okabe and Ito.
const BLUE: RGBColor = RGBColor(0, 114, 178);
const VERMILION: RGBColor = RGBColor(213, 94, 0);
const GREEN: RGBColor = RGBColor(0, 158, 115);
const GREY: RGBColor = RGBColor(80, 80, 80);
const TEXT: RGBColor = RGBColor(60, 60, 60);
const AXIS: RGBColor = RGBColor(150, 150, 150);
const GRID: RGBColor = RGBColor(230, 230, 230);

impl Look {
    /// Whether it is of a figure that was measured.
    fn is_measured(self) -> bool {
        !matches!(self, Self::Promised | Self::Bound)
    }

    fn colour(self) -> RGBColor {
        match self {
            Self::First => BLUE,
            Self::Second => VERMILION,
            Self::Third => GREEN,
            Self::Promised => BLACK,
            Self::Bound => GREY,
        }
    }
}

/// Of a panel that is alone, and of one of many, in pixels.
const ALONE: u32 = 740;
const BESIDE: u32 = 410;
const HEIGHT: u32 = 290;
const HEADING: u32 = 30;
const LEGEND: u32 = 30;
/// Where the text of the legend begins behind the left end of its line.
const SAMPLE: i32 = 34;
/// Of a letter of the legend, more or less.
const LETTER: i32 = 8;
/// Of texts in SVG pixels; plotters divides what it is given by 1.24.
const LARGE: f64 = 16.0 * 1.24;
const MIDDLE: f64 = 12.5 * 1.24;
const SMALL: f64 = 11.5 * 1.24;
/// How SVG has the colours that nothing else has, and what makes their lines dashed and dotted: plotters
/// would draw each dash as a line of its own.
const PROMISED: [&str; 2] = ["stroke=\"#000000\"", "stroke-dasharray=\"7 5\""];
const BOUND: [&str; 2] = ["stroke=\"#505050\"", "stroke-dasharray=\"2 3\""];
/// Half of a line that is known at one place only.
const DASH: i32 = 14;
const MARK: i32 = 4;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<io::Error>>;
type Pixel = (i32, i32);

/// The picture as SVG.
pub(super) fn svg(picture: &Picture) -> Result<String, DrawingAreaErrorKind<io::Error>> {
    let count = picture.panels.len();
    let width = match count {
        ..=1 => ALONE,
        many => BESIDE * many as u32,
    };
    let mut svg = String::new();
    {
        let size = (width, HEADING + HEIGHT + LEGEND);
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&WHITE)?;
        text(&root, picture.title, (14, 9), LARGE)?;
        let (_, rest) = root.split_vertically(HEADING);
        let (places, _) = rest.split_vertically(HEIGHT);
        let places = places.split_evenly((1, count.max(1)));
        for (panel, place) in picture.panels.iter().zip(places) {
            draw(&root, &place, picture, panel)?;
        }
        legend(&root, picture, (HEADING + HEIGHT + LEGEND / 2) as i32)?;
        root.present()?;
    }
    let looks = [PROMISED, BOUND];
    let dashed = looks.iter().fold(svg, |svg, [colour, dashes]| {
        svg.replace(colour, &format!("{colour} {dashes}"))
    });
    Ok(dashed)
}

fn text(root: &Area<'_>, text: &str, at: Pixel, size: f64) -> Drawn {
    let style = ("sans-serif", size).into_font().color(&TEXT);
    root.draw(&Text::new(text.to_owned(), at, style))
}

fn draw(root: &Area<'_>, place: &Area<'_>, picture: &Picture, panel: &Panel) -> Drawn {
    let Picture { x, y, .. } = picture;
    let mut builder = ChartBuilder::on(place);
    builder
        .margin(8)
        .margin_right(16)
        .x_label_area_size(42)
        .y_label_area_size(58);
    if !panel.title.is_empty() {
        let style = ("sans-serif", MIDDLE).into_font().color(&TEXT);
        builder.caption(&panel.title, style);
    }
    let mut chart = builder.build_cartesian_2d(Along(x), Along(y))?;
    chart
        .configure_mesh()
        .x_desc(x.label)
        .y_desc(y.label)
        .label_style(("sans-serif", SMALL).into_font().color(&TEXT))
        .axis_desc_style(("sans-serif", MIDDLE).into_font().color(&TEXT))
        .axis_style(AXIS)
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .draw()?;
    // The first over the others, and over all of them what is promised.
    let (measured, others): (Vec<_>, Vec<_>) =
        panel.lines.iter().partition(|line| line.look.is_measured());
    for one in measured.into_iter().rev().chain(others) {
        // What has no place on the axes is left out.
        let is_there = |&(x, y): &(f64, f64)| {
            let places = [picture.x.scale.place(x), picture.y.scale.place(y)];
            places.iter().all(|place| place.is_finite())
        };
        let there = one.points.iter().copied().filter(is_there);
        let pixels: Vec<_> = there.map(|point| chart.backend_coord(&point)).collect();
        line(root, one.look, &pixels)?;
    }
    Ok(())
}

fn line(root: &Area<'_>, look: Look, pixels: &[Pixel]) -> Drawn {
    let colour = look.colour();
    match (look, pixels) {
        (_, []) => Ok(()),
        (Look::Promised | Look::Bound, &[(x, y)]) => {
            let ends = vec![(x - DASH, y), (x + DASH, y)];
            root.draw(&PathElement::new(ends, colour.stroke_width(1)))
        }
        (Look::Promised | Look::Bound, _) => {
            let style = colour.stroke_width(1);
            root.draw(&PathElement::new(pixels.to_vec(), style))
        }
        _ => {
            let style = colour.stroke_width(2);
            root.draw(&PathElement::new(pixels.to_vec(), style))?;
            pixels.iter().try_for_each(|&at| mark(root, look, at))
        }
    }
}

fn mark(root: &Area<'_>, look: Look, (x, y): Pixel) -> Drawn {
    let style = look.colour().filled();
    match look {
        Look::First => root.draw(&Circle::new((x, y), MARK, style)),
        Look::Second => root.draw(&TriangleMarker::new((x, y), MARK + 2, style)),
        Look::Third => {
            let half = MARK + 1;
            let corners = [(x - half, y - half), (x + half, y + half)];
            root.draw(&Rectangle::new(corners, style))
        }
        Look::Promised | Look::Bound => Ok(()),
    }
}

/// Every line of the panels once.
fn legend(root: &Area<'_>, picture: &Picture, y: i32) -> Drawn {
    let mut lines: Vec<&Line> = Vec::new();
    for line in picture.panels.iter().flat_map(|panel| &panel.lines) {
        if !line.points.is_empty() && lines.iter().all(|one| one.name != line.name) {
            lines.push(line);
        }
    }
    let mut x = 66;
    for one in lines {
        line(root, one.look, &[(x, y), (x + SAMPLE - 8, y)])?;
        text(root, &one.name, (x + SAMPLE, y - 6), MIDDLE)?;
        x += SAMPLE + LETTER * one.name.len() as i32 + 16;
    }
    Ok(())
}
