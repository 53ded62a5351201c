use std::path::Path;

use super::chart::{Look, Picture};
use super::*;

fn promises() -> Promises {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("promises.yaml");
    Promises::read(&path).unwrap()
}

/// The line of this look in the first panel.
fn line(picture: &Picture, look: Look) -> &[(f64, f64)] {
    let mut lines = picture.panels[0].lines.iter();
    &lines.find(|line| line.look == look).unwrap().points
}

/// The line of what is promised, in the first panel.
fn promised(picture: &Picture) -> &[(f64, f64)] {
    line(picture, Look::Promised)
}

/// One row of the three managers at two sizes, with no pods.
fn bursts(row: &str) -> Records<crate::figures::Burst> {
    let mut text = "manager,resources,pods,row,value\n".to_owned();
    for (manager, small, large) in [
        ("manager", 1.0, 10.0),
        ("controller-runtime", 2.0, 30.0),
        ("kube-rs", 4.0, 20.0),
    ] {
        text += &format!("{manager},100,0,\"{row}\",{small}\n{manager},1000,0,\"{row}\",{large}\n");
    }
    Records::parse(&text).unwrap()
}

fn of_bursts(row: &str) -> Picture {
    let plot = pictures::BURSTS.iter().find(|it| it.row == row).unwrap();
    pictures::of_bursts(plot, &bursts(row), &promises())
}

#[test]
fn what_is_promised_of_a_row_goes_from_end_to_end() {
    let picture = of_bursts("from the children to the first status, P99, s");
    let promised = promised(&picture);
    assert_eq!(promised.len(), 4);
    assert!(
        promised.iter().all(|(_, value)| *value == 5.0),
        "{promised:?}"
    );
    assert!(
        promised[0].0 < 100.0 && promised[3].0 > 1000.0,
        "{promised:?}"
    );
    assert_eq!(line(&picture, Look::Bound), []);
}

#[test]
fn a_promise_for_small_bursts_ends_in_a_step_and_the_bound_goes_from_end_to_end() {
    let picture = of_bursts("requests per resource");
    let promised = promised(&picture);
    let steps: Vec<_> = promised[1..4].into();
    assert_eq!(steps, [(100.0, 2.3), (100.0, 3.25), (1000.0, 3.25)]);
    let bound = line(&picture, Look::Bound);
    let ends = [(promised[0].0, 2.25), (promised[4].0, 2.25)];
    assert_eq!(bound, ends);
}

#[test]
fn what_is_promised_beside_the_peers_is_the_lower_of_them() {
    let picture = of_bursts("all Ready after, s");
    assert_eq!(promised(&picture), [(100.0, 2.0), (1000.0, 20.0)]);
}

#[test]
fn a_fleet_may_take_a_tenth_more_per_resource_than_the_smallest() {
    let fleet = "resources,row,value\n\
                 1024,\"memory idle, MiB\",10\n\
                 1024,\"memory over idle with all, KiB per resource\",4\n\
                 10240,\"memory idle, MiB\",11\n";
    let fleet = Records::parse(fleet).unwrap();
    let picture = pictures::of_fleet(&fleet, &promises());
    let rounded = |points: &[(f64, f64)]| -> Vec<_> {
        let rounded = points
            .iter()
            .map(|(size, value)| (*size, (value * 1e3).round()));
        rounded.collect()
    };
    let promised = rounded(promised(&picture));
    assert_eq!(promised, [(1024.0, 14_400.0), (10_240.0, 55_000.0)]);
    let bound = rounded(line(&picture, Look::Bound));
    assert_eq!(bound, [(1024.0, 7697.0), (10_240.0, 10_370.0)]);
}

#[test]
fn batches_alone_have_a_bound_of_objects() {
    let webhooks = "server,call,objects,connections,row,value\n\
                    manager,convert,1,1,\"CPU of a call, µs\",50\n\
                    manager,convert,500,1,\"CPU of a call, µs\",3000\n\
                    manager,convert,1,4,\"CPU of a call, µs\",30\n";
    let webhooks = Records::parse(webhooks).unwrap();
    let picture = pictures::of_conversions(&webhooks, &promises());
    assert_eq!(
        picture.panels[0].lines[0].points,
        [(1.0, 50.0), (500.0, 6.0)]
    );
    assert_eq!(promised(&picture), [(500.0, 5.0), (750.0, 5.0)]);
    let each = 1e6 / 242_000.0;
    assert_eq!(line(&picture, Look::Bound), [(500.0, each), (750.0, each)]);
}

#[test]
fn latencies_are_drawn_by_connections_and_promised_of_conversions_alone() {
    let webhooks = "server,call,objects,connections,row,value\n\
                    manager,create,1,4,\"P99, µs\",150\n\
                    manager,create,1,64,\"P99, µs\",3000\n\
                    controller-runtime,create,1,4,\"P99, µs\",900\n\
                    manager,create,1,4,\"P50, µs\",1\n\
                    bare server,convert,1,4,\"P99, µs\",100\n\
                    manager,convert,500,4,\"P99, µs\",1\n";
    let webhooks = Records::parse(webhooks).unwrap();
    let picture = pictures::of_latencies(&webhooks, &promises());
    let [creations, conversions] = &picture.panels[..] else {
        panic!("{picture:?}");
    };
    let points = |panel: &super::chart::Panel| -> Vec<_> {
        let lines = panel.lines.iter();
        lines.map(|line| line.points.clone()).collect()
    };
    assert_eq!(
        points(creations),
        [vec![(4.0, 0.15), (64.0, 3.0)], vec![(4.0, 0.9)], vec![]]
    );
    let promised = vec![(4.0, 0.6)];
    assert_eq!(
        points(conversions),
        [vec![], vec![], vec![(4.0, 0.1)], promised]
    );
}

#[test]
fn the_same_figures_give_the_same_small_picture() {
    let svg = |row| chart::svg(&of_bursts(row)).unwrap();
    for row in ["requests per resource", "all Ready after, s"] {
        let drawn = svg(row);
        assert_eq!(drawn, svg(row));
        assert!(drawn.len() < 15_000, "{}", drawn.len());
        for text in [
            "fill=\"#FFFFFF\"",
            "controller-runtime",
            "promised, at most",
            "stroke-dasharray",
            "no pods",
        ] {
            assert!(drawn.contains(text), "{text}: {drawn}");
        }
    }
}

#[test]
fn figures_without_a_row_that_is_drawn_are_an_error() {
    let folder = std::env::temp_dir().join(format!("bench-plot-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (file, columns) in [
        (BURSTS, "manager,resources,pods,row"),
        (FLEET, "resources,row"),
        (WEBHOOKS, "server,call,objects,connections,row"),
    ] {
        std::fs::write(folder.join(file), format!("{columns},value\n")).unwrap();
    }
    let arguments = Arguments {
        figures: folder.clone(),
        output: None,
    };
    let error = perform(&arguments, &promises()).unwrap_err().to_string();
    assert!(error.contains("bursts.csv has no figures"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}
