//! Which figures are drawn, beside which promises.

use std::collections::BTreeSet;

use super::axis::{Axis, Scale};
use super::chart::{Line, Look, Panel, Picture};
use crate::figures::{Burst, Fleet, Records, Webhook};
use crate::manager::NAMES;
use crate::promises::{Load, Promises, row};
use crate::scale;
use crate::webhook::{BATCH, CONVERT, CPU, CREATE, P99, PROMISED_CONNECTIONS, SERVERS};

const LOOKS: [Look; 3] = [Look::First, Look::Second, Look::Third];

/// What stands for what is promised.
const AT_MOST: &str = "promised, at most";
const AT_MOST_PEERS: &str = "promised, at most: the lower of both peers";
/// What stands for what the work takes by itself.
const BOUND: &str = "bound";

/// A row of bursts.
pub(super) struct BurstPlot {
    pub(super) file: &'static str,
    pub(super) row: &'static str,
    title: &'static str,
    label: &'static str,
    scale: Scale,
}

/// The rows that are drawn.
pub(super) const BURSTS: [BurstPlot; 4] = [
    BurstPlot {
        file: "burst-requests.svg",
        row: row::REQUESTS,
        title: "Requests to the API server",
        label: "requests per resource",
        scale: Scale::Linear,
    },
    BurstPlot {
        file: "burst-cpu.svg",
        row: row::CPU,
        title: "CPU of each manager",
        label: "CPU per 1000 resources, s",
        scale: Scale::Linear,
    },
    BurstPlot {
        file: "burst-first-status.svg",
        row: row::STATUS_AFTER_CHILDREN,
        title: "From the children to the first status, P99",
        label: "time, s",
        scale: Scale::Logarithmic,
    },
    BurstPlot {
        file: "burst-all-ready.svg",
        row: row::ALL_READY,
        title: "From the first creation until all are Ready",
        label: "time, s",
        scale: Scale::Logarithmic,
    },
];

/// A row by burst size, a panel for each number of pods.
pub(super) fn of_bursts(
    plot: &BurstPlot,
    records: &Records<Burst>,
    promises: &Promises,
) -> Picture {
    let of_row = || records.iter().filter(|(key, _)| key.row == plot.row);
    let sizes = of_row().map(|(key, _)| key.resources).collect();
    let x = Axis::of_sizes("resources in the burst", Scale::Logarithmic, sizes);
    let pods: BTreeSet<u32> = of_row().map(|(key, _)| key.pods).collect();
    let panels: Vec<_> = pods
        .into_iter()
        .map(|pods| {
            let mut lines = measured(plot, records, pods);
            lines.push(promised(plot, records, pods, &x, promises));
            lines.push(bound(plot.row, pods, &x, promises));
            let title = match pods {
                0 => "no pods".to_owned(),
                1 => "one pod each".to_owned(),
                many => format!("{many} pods each"),
            };
            Panel { title, lines }
        })
        .collect();
    picture(plot.title, x, plot.label, plot.scale, panels)
}

/// The lines of the three managers.
fn measured(plot: &BurstPlot, records: &Records<Burst>, pods: u32) -> Vec<Line> {
    let lines = NAMES.into_iter().zip(LOOKS).map(|(manager, look)| {
        let is_here = |key: &Burst| (key.manager, key.pods, key.row) == (manager, pods, plot.row);
        let here = records.iter().filter(|(key, _)| is_here(key));
        Line {
            name: manager.to_owned(),
            look,
            points: here
                .map(|(key, value)| (f64::from(key.resources), value))
                .collect(),
        }
    });
    lines.collect()
}

/// What is promised. What does not depend on the peers goes from end to end, in steps.
fn promised(
    plot: &BurstPlot,
    records: &Records<Burst>,
    pods: u32,
    x: &Axis,
    promises: &Promises,
) -> Line {
    let here = records.iter().map(|(key, _)| key);
    let here = here.filter(|key| key.row == plot.row && key.pods == pods);
    let sizes: BTreeSet<u32> = here.map(|key| key.resources).collect();
    let fixed = |resources| promises.limit(plot.row, Load { resources, pods }, None);
    let mut points: Vec<(f64, f64)> = Vec::new();
    for &resources in &sizes {
        let load = Load { resources, pods };
        let Some(limit) = promises.limit(plot.row, load, lowest_peer(plot, records, load)) else {
            continue;
        };
        if let Some(&(before, last)) = points.last()
            && fixed(resources).is_some()
            && last != limit
        {
            points.push((before, limit));
        }
        points.push((f64::from(resources), limit));
    }
    let mut name = AT_MOST_PEERS;
    if let Some(limit) = sizes.first().copied().and_then(fixed) {
        points.insert(0, (x.range().start, limit));
        name = AT_MOST;
    }
    if let Some(limit) = sizes.last().copied().and_then(fixed) {
        points.push((x.range().end, limit));
    }
    Line {
        name: name.to_owned(),
        look: Look::Promised,
        points,
    }
}

/// The bound of a row of bursts, which is the same for every size.
fn bound(row: &str, pods: u32, x: &Axis, promises: &Promises) -> Line {
    let resources = u32::MAX;
    let bound = promises.bound(row, Load { resources, pods });
    let ends = [x.range().start, x.range().end];
    bound_line(bound.map_or_else(Vec::new, |bound| {
        ends.into_iter().map(|end| (end, bound)).collect()
    }))
}

fn bound_line(points: Vec<(f64, f64)>) -> Line {
    Line {
        name: BOUND.to_owned(),
        look: Look::Bound,
        points,
    }
}

/// The lower figure of both peers, if both are there.
fn lowest_peer(plot: &BurstPlot, records: &Records<Burst>, load: Load) -> Option<f64> {
    let Load { resources, pods } = load;
    let row = plot.row;
    let peers = NAMES[1..].iter().map(|&manager| {
        records.get(&Burst {
            manager,
            resources,
            pods,
            row,
        })
    });
    let peers: Option<Vec<f64>> = peers.collect();
    peers?.into_iter().reduce(f64::min)
}

/// Memory by how many resources there are.
pub(super) fn of_fleet(records: &Records<Fleet>, promises: &Promises) -> Picture {
    let rows = [
        ("with all", row::MEMORY_FULL),
        ("restarted with all", row::MEMORY_RESTARTED),
        ("idle", row::MEMORY_IDLE),
    ];
    let mut lines: Vec<_> = rows
        .into_iter()
        .zip(LOOKS)
        .map(|((name, row), look)| {
            let here = records.iter().filter(|(key, _)| key.row == row);
            Line {
                name: name.to_owned(),
                look,
                points: here
                    .map(|(key, value)| (f64::from(key.resources), value))
                    .collect(),
            }
        })
        .collect();
    lines.push(Line {
        name: AT_MOST.to_owned(),
        look: Look::Promised,
        points: flat(records, promises).unwrap_or_default(),
    });
    lines.push(bound_line(
        fleet_bound(records, promises).unwrap_or_default(),
    ));
    let sizes = records.iter().map(|(key, _)| key.resources).collect();
    let x = Axis::of_sizes("resources with a pod each", Scale::Linear, sizes);
    let title = String::new();
    let panels = vec![Panel { title, lines }];
    picture(
        "Memory of the manager",
        x,
        "memory (RSS), MiB",
        Scale::Linear,
        panels,
    )
}

/// The memory that would be promised of each size: no more per resource than a part more than with the
/// fewest.
fn flat(records: &Records<Fleet>, promises: &Promises) -> Option<Vec<(f64, f64)>> {
    let value = |resources, row| records.get(&Fleet { resources, row });
    let sizes: BTreeSet<u32> = records.iter().map(|(key, _)| key.resources).collect();
    let (first, last) = (*sizes.first()?, *sizes.last()?);
    let load = Load {
        resources: last,
        pods: 1,
    };
    let growth = promises.limit(row::SCALE_MEMORY, load, None)?;
    let most = growth * value(first, scale::MEMORY_PER_RESOURCE)? / 1024.0;
    let points = sizes.into_iter().map(|resources| {
        let idle = value(resources, row::MEMORY_IDLE)?;
        let resources = f64::from(resources);
        Some((resources, idle + most * resources))
    });
    points.collect()
}

/// What so many resources take at least, from the bounds of none and of 10 000.
fn fleet_bound(records: &Records<Fleet>, promises: &Promises) -> Option<Vec<(f64, f64)>> {
    let load = Load {
        resources: 10_000,
        pods: 1,
    };
    let idle = promises.bound(row::MEMORY_IDLE, load)?;
    let each = (promises.bound(row::MEMORY_FULL, load)? - idle) / f64::from(load.resources);
    let sizes: BTreeSet<u32> = records.iter().map(|(key, _)| key.resources).collect();
    let sizes = sizes.into_iter().map(f64::from);
    Some(sizes.map(|size| (size, idle + each * size)).collect())
}

/// CPU of a conversion, by how many objects are in the call.
pub(super) fn of_conversions(records: &Records<Webhook>, promises: &Promises) -> Picture {
    let mut sizes = BTreeSet::new();
    let mut lines = of_servers(records, |key, value| {
        let is_drawn = (key.call, key.connections, key.row) == (CONVERT, 1, CPU);
        is_drawn.then(|| {
            sizes.insert(key.objects);
            let objects = f64::from(key.objects);
            (objects, value / objects)
        })
    });
    let x = Axis::of_sizes(
        "objects in one call",
        Scale::Logarithmic,
        sizes.iter().copied().collect(),
    );
    let batches = sizes.into_iter().filter(|&objects| objects >= BATCH);
    let batches: Vec<_> = batches.map(f64::from).chain([x.range().end]).collect();
    // So many a second of CPU are so many µs each.
    let flat = |each_second: Option<f64>| {
        let each = each_second.map(|it| 1e6 / it);
        let points = batches.iter().filter_map(|&objects| Some((objects, each?)));
        points.collect::<Vec<_>>()
    };
    let load = Load::default();
    lines.push(Line {
        name: AT_MOST.to_owned(),
        look: Look::Promised,
        points: flat(promises.limit(row::BATCH_OBJECTS, load, None)),
    });
    lines.push(bound_line(flat(promises.bound(row::BATCH_OBJECTS, load))));
    let panels = vec![Panel {
        title: String::new(),
        lines,
    }];
    let title = "CPU of a conversion, one connection";
    picture(title, x, "CPU per object, µs", Scale::Logarithmic, panels)
}

/// How long the slowest calls take, by how many connections call without a pause: a panel for each call.
pub(super) fn of_latencies(records: &Records<Webhook>, promises: &Promises) -> Picture {
    let mut loads = BTreeSet::new();
    let calls = [
        ("creations", CREATE),
        ("conversions of one object", CONVERT),
    ];
    let panels = calls.map(|(title, call)| {
        let mut lines = of_servers(records, |key, value| {
            let is_drawn = (key.call, key.objects, key.row) == (call, 1, P99);
            is_drawn.then(|| {
                loads.insert(key.connections);
                (f64::from(key.connections), value / 1e3)
            })
        });
        if call == CONVERT
            && let Some(limit) = promises.limit(row::CONVERSION_P99, Load::default(), None)
        {
            lines.push(Line {
                name: AT_MOST.to_owned(),
                look: Look::Promised,
                points: vec![(f64::from(PROMISED_CONNECTIONS), limit / 1e3)],
            });
        }
        Panel {
            title: title.to_owned(),
            lines,
        }
    });
    let label = "connections that call without a pause";
    let x = Axis::of_sizes(label, Scale::Logarithmic, loads.into_iter().collect());
    let title = "Latency of the webhooks, P99";
    picture(title, x, "time, ms", Scale::Logarithmic, panels.into())
}

/// A line for each server; `point` returns the place of a figure, or `None` if it is not drawn.
fn of_servers(
    records: &Records<Webhook>,
    mut point: impl FnMut(&Webhook, f64) -> Option<(f64, f64)>,
) -> Vec<Line> {
    let lines = SERVERS.into_iter().zip(LOOKS).map(|(server, look)| {
        let here = records.iter().filter(|(key, _)| key.server == server);
        Line {
            name: server.to_owned(),
            look,
            points: here.filter_map(|(key, value)| point(key, value)).collect(),
        }
    });
    lines.collect()
}

/// With an axis for all values.
fn picture(
    title: &'static str,
    x: Axis,
    label: &'static str,
    scale: Scale,
    panels: Vec<Panel>,
) -> Picture {
    let lines = panels.iter().flat_map(|panel| &panel.lines);
    let values: Vec<f64> = lines
        .flat_map(|line| line.points.iter().map(|(_, value)| *value))
        .filter(|value| scale.place(*value).is_finite())
        .collect();
    let y = Axis::of_values(label, scale, &values);
    Picture {
        title,
        x,
        y,
        panels,
    }
}
