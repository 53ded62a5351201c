//! Axes: which numbers stand on them, and how far along.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

/// How numbers are laid out on an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    /// From 0 on.
    Linear,
    /// By the logarithm: what is not above 0 has no place.
    Logarithmic,
}

impl Scale {
    /// How far along the axis a number is.
    pub(super) fn place(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Logarithmic => value.log10(),
        }
    }
}

/// An axis.
#[derive(Debug)]
pub(super) struct Axis {
    /// What is on it, with the unit.
    pub(super) label: &'static str,
    pub(super) scale: Scale,
    /// Numbers that are written at it.
    ticks: Vec<f64>,
    range: Range<f64>,
}

/// Ticks of an axis that has room for no more.
const MOST_TICKS: usize = 8;

impl Axis {
    /// One with a tick for each of `sizes`, and some room beside them.
    pub(super) fn of_sizes(label: &'static str, scale: Scale, mut sizes: Vec<u32>) -> Self {
        sizes.sort_unstable();
        sizes.dedup();
        let ticks: Vec<_> = sizes.into_iter().map(f64::from).collect();
        let (least, most) = ends(&ticks);
        let range = match scale {
            Scale::Linear => 0.0..1.08 * most,
            Scale::Logarithmic => least / 1.5..most * 1.5,
        };
        Self {
            label,
            scale,
            ticks,
            range,
        }
    }

    /// One on which all of `values` have their place, with round numbers.
    pub(super) fn of_values(label: &'static str, scale: Scale, values: &[f64]) -> Self {
        let (least, most) = ends(values);
        let ticks = match scale {
            Scale::Linear => multiples(most),
            Scale::Logarithmic => powers(least, most),
        };
        let (least, most) = ends(&ticks);
        Self {
            label,
            scale,
            ticks,
            range: least..most,
        }
    }

    /// From the first number to the last.
    pub(super) fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

/// An axis as charts have it.
pub(super) struct Along<'a>(pub(super) &'a Axis);

impl Ranged for Along<'_> {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (first, last): (i32, i32)) -> i32 {
        let Axis { scale, range, .. } = self.0;
        let place = |value| scale.place(value);
        let (start, end) = (place(range.start), place(range.end));
        let part = (place(*value) - start) / (end - start);
        first + (f64::from(last - first) * part).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match hint.weight().allow_light_points() {
            true => Vec::new(),
            false => self.0.ticks.clone(),
        }
    }

    fn range(&self) -> Range<f64> {
        self.0.range()
    }
}

impl ValueFormatter<f64> for Along<'_> {
    fn format(value: &f64) -> String {
        written(*value)
    }
}

/// The least and the most, 1 if there is nothing.
fn ends(values: &[f64]) -> (f64, f64) {
    if values.is_empty() {
        return (1.0, 1.0);
    }
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (least, most)
}

/// From 0 to more than `most`, by steps of 1, 2 or 5 times a power of ten.
fn multiples(most: f64) -> Vec<f64> {
    let most = if most > 0.0 { most } else { 1.0 };
    let steps = (-9..).flat_map(|power| [1, 2, 5].map(|first| scientific(first, power)));
    let fits = |step: &f64| most / step < (MOST_TICKS - 2) as f64;
    let step = steps.into_iter().find(fits).unwrap_or(most);
    let count = (most / step).floor() as u32 + 1;
    (0..=count).map(|number| f64::from(number) * step).collect()
}

/// Powers of ten around both, with 2 and 5 times them where there is room.
fn powers(least: f64, most: f64) -> Vec<f64> {
    let (first, last) = (least.log10().floor() as i32, most.log10().ceil() as i32);
    let all = |firsts: &[u8]| {
        let each = (first..=last).flat_map(|power| {
            let firsts = firsts.iter();
            firsts.map(move |&first| scientific(first, power))
        });
        let mut ticks: Vec<f64> = each.collect();
        // One below the least and one above the most are enough.
        ticks.dedup();
        let begin = ticks
            .partition_point(|tick| *tick < least)
            .saturating_sub(1);
        let end = ticks.partition_point(|tick| *tick <= most) + 1;
        let end = end.min(ticks.len());
        ticks[begin..end].to_vec()
    };
    let ticks = all(&[1, 2, 5]);
    match ticks.len() <= MOST_TICKS + 2 {
        true => ticks,
        false => all(&[1]),
    }
}

/// `first` times ten to `power`, to the last bit as it is read.
fn scientific(first: u8, power: i32) -> f64 {
    format!("{first}e{power}").parse().unwrap_or(f64::NAN)
}

/// A number with its thousands apart.
fn written(value: f64) -> String {
    let value = format!("{value:.5e}").parse().unwrap_or(value);
    let text = value.to_string();
    let (whole, part) = match text.split_once('.') {
        Some((whole, part)) => (whole, format!(".{part}")),
        None => (text.as_str(), String::new()),
    };
    // A no-break space.
    let (thousands, rest) = whole.split_at(whole.len().saturating_sub(3));
    match thousands {
        "" => format!("{rest}{part}"),
        _ => format!("{thousands}\u{a0}{rest}{part}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written_at(axis: &Axis) -> String {
        let ticks: Vec<_> = axis.ticks.iter().map(Along::format).collect();
        ticks.join(" ")
    }

    fn ticks(scale: Scale, values: &[f64]) -> String {
        written_at(&Axis::of_values("", scale, values))
    }

    #[test]
    fn ticks_are_round_numbers_around_all_values() {
        let linear = |values| ticks(Scale::Linear, values);
        assert_eq!(linear(&[3.2, 4.42]), "0 1 2 3 4 5");
        assert_eq!(linear(&[331.0]), "0 100 200 300 400");
        assert_eq!(linear(&[0.25]), "0 0.05 0.1 0.15 0.2 0.25 0.3");
        assert_eq!(linear(&[0.0]), "0 0.2 0.4 0.6 0.8 1 1.2");
        let logarithmic = |values| ticks(Scale::Logarithmic, values);
        assert_eq!(logarithmic(&[0.075, 6.65]), "0.05 0.1 0.2 0.5 1 2 5 10");
        assert_eq!(logarithmic(&[1.6, 47.0]), "1 2 5 10 20 50");
        assert_eq!(
            logarithmic(&[0.3, 25_000.0]),
            "0.1 1 10 100 1\u{a0}000 10\u{a0}000 100\u{a0}000"
        );
    }

    #[test]
    fn sizes_are_the_ticks_of_their_axis_and_lie_within() {
        let axis = Axis::of_sizes("", Scale::Logarithmic, vec![10_000, 100, 1000, 100]);
        assert_eq!(written_at(&axis), "100 1\u{a0}000 10\u{a0}000");
        let pixels = [100.0, 1000.0, 10_000.0].map(|size| Along(&axis).map(&size, (0, 1000)));
        assert_eq!(pixels[1], 500);
        assert_eq!(pixels[0], 1000 - pixels[2]);
        let range = axis.range();
        assert!(
            range.contains(&100.0) && range.contains(&10_000.0),
            "{range:?}"
        );
    }
}
