//! Tests of the page and its pictures: they need nothing else, and show measurements in the right places.

use std::collections::HashSet;
use std::fs;

use crate::runs::{CHUNKS, LOADS, Scratch, all, mean_ns};
use probeline_report::Report;
use roxmltree::{Document, Node};

/// Maximum error of a point in tenths of pixels, because coordinates are whole numbers.
const OFF: f64 = 1.0;

fn report() -> Report {
    Report::read(&Scratch::new().runs(&all())).unwrap()
}

/// Returns the elements with a class.
fn of_class<'a>(of: Node<'a, 'a>, class: &'static str) -> impl Iterator<Item = Node<'a, 'a>> {
    of.descendants().filter(move |node| {
        node.attribute("class").is_some_and(|all| all.split(' ').any(|one| one == class))
    })
}

fn named<'a>(of: Node<'a, 'a>, name: &'static str) -> impl Iterator<Item = Node<'a, 'a>> {
    of.descendants().filter(move |node| node.has_tag_name(name))
}

fn number(node: Node<'_, '_>, attribute: &str) -> f64 {
    node.attribute(attribute).unwrap().parse().unwrap()
}

/// Returns the corners of all lines below an element.
fn points(of: Node<'_, '_>) -> Vec<[f64; 2]> {
    let lists = named(of, "polyline").map(|line| line.attribute("points").unwrap());
    let point = |text: &str| {
        let (x, y) = text.split_once(',').unwrap();
        [x.parse().unwrap(), y.parse().unwrap()]
    };
    lists.flat_map(|list| list.split(' ').map(point)).collect()
}

#[test]
fn page_is_self_contained() {
    let page = report().html("Synthetic runs");
    assert!(page.contains("<title>Synthetic runs</title>"));
    assert!(page.matches("<figure").count() >= 15);
    for part in ["<h3", "<figcaption", "class=\"legend\""] {
        assert!(page.matches(part).count() >= page.matches("<figure").count(), "{part}");
    }
    for outside in ["http://", "https://", "@import", "src=", "url(", "<script"] {
        assert!(!page.contains(outside), "{outside}");
    }
    let behind = |start| page.split(start).skip(1).map(|rest| rest.split('"').next().unwrap());
    let ids: Vec<_> = behind(" id=\"").collect();
    let unique: HashSet<_> = ids.iter().copied().collect();
    assert_eq!(ids.len(), unique.len(), "{ids:?}");
    let broken: Vec<_> = behind("href=\"#").filter(|link| !unique.contains(link)).collect();
    assert_eq!(broken, [""; 0]);
}

/// The expected position follows from the labels of the axes, as a reader derives it.
#[test]
fn points_match_axes() {
    let all = report().svgs();
    let (_, svg) = all.iter().find(|(name, _)| name == "latency-inserted").unwrap();
    let svg = Document::parse(svg).unwrap();
    let ticks = |anchor: &str, at: &str| -> Vec<[f64; 2]> {
        let axes = of_class(svg.root(), "axes").flat_map(|axes| named(axes, "text"));
        let texts = axes.filter(|text| text.attribute("text-anchor") == Some(anchor));
        let tick = |text: Node<'_, '_>| {
            let label = text.text()?;
            let value = match label.strip_suffix('k') {
                Some(thousands) => thousands.parse::<f64>().ok()? * 1e3,
                None => label.parse().ok()?,
            };
            Some([value, number(text, at)])
        };
        texts.filter_map(tick).collect()
    };
    let (x_ticks, y_ticks) = (ticks("middle", "x"), ticks("end", "y"));
    assert!(x_ticks.len() >= 3 && y_ticks.len() >= 3, "{x_ticks:?} {y_ticks:?}");
    // The latencies span a wide range, so the axis is logarithmic.
    let y_ticks: Vec<[f64; 2]> = y_ticks.iter().map(|[value, at]| [value.log10(), *at]).collect();
    for (transport, times) in [("shm", 1.0), ("verbs", 30.0)] {
        for c in CHUNKS {
            let name = format!("C = {c}, {transport}");
            let is_named = |series: &Node<'_, '_>| {
                named(*series, "title").any(|title| title.text() == Some(&*name))
            };
            let series = of_class(svg.root(), "series").find(is_named).unwrap();
            let points = points(series);
            assert_eq!(points.len(), LOADS.len());
            for (point, load) in points.iter().zip(LOADS) {
                let x = on_line(&x_ticks, load);
                let y = on_line(&y_ticks, mean_ns(times, c, load).log10());
                assert!((point[0] - x).abs() <= 2.0 * OFF, "x of {load}: {} {x}", point[0]);
                assert!((point[1] - y).abs() <= 4.0 * OFF, "y of {load}: {} {y}", point[1]);
            }
        }
    }
}

/// Returns the position of a value on the line through the first and the last tick.
fn on_line(ticks: &[[f64; 2]], value: f64) -> f64 {
    let ([from, at], [to, end]) = (ticks[0], ticks[ticks.len() - 1]);
    at + (value - from) / (to - from) * (end - at)
}

#[test]
fn pictures_keep_series_within_axes() {
    let (mut dashes, mut shapes) = ([HashSet::new(), HashSet::new()], 0);
    let all = report().svgs();
    assert!(all.len() >= 15, "{}", all.len());
    for (name, text) in &all {
        let svg = Document::parse(text).unwrap();
        let area = svg.root_element().attribute("data-area").unwrap();
        let area: Vec<f64> = area.split(' ').map(|side| side.parse().unwrap()).collect();
        assert!(of_class(svg.root(), "series").next().is_some(), "{name}");
        for series in of_class(svg.root(), "series") {
            let is_within = |[x, y]: &[f64; 2]| {
                (area[0]..=area[2]).contains(x) && (area[1]..=area[3]).contains(y)
            };
            assert!(points(series).iter().all(is_within), "{name}: {area:?}");
            let title = named(series, "title").next().unwrap().text().unwrap();
            for (transport, dashes) in [", shm", ", verbs"].iter().zip(&mut dashes) {
                let lines = of_class(series, "line").filter(|_| title.contains(transport));
                dashes.extend(
                    lines.map(|line| line.attribute("stroke-dasharray").map(str::to_owned)),
                );
            }
            shapes += 1;
        }
    }
    assert!(shapes > 30, "{shapes}");
    // A transport has the same line in all pictures.
    assert!(dashes.iter().all(|styles| styles.len() == 1) && dashes[0] != dashes[1], "{dashes:?}");
}

#[test]
fn writes_pictures_of_page() {
    let (scratch, report) = (Scratch::new(), report());
    let folder = scratch.path("svg");
    assert_eq!(report.write_svgs(&folder).unwrap(), report.svgs().len());
    for (name, svg) in report.svgs() {
        assert_eq!(fs::read_to_string(folder.join(format!("{name}.svg"))).unwrap(), svg, "{name}");
    }
}
