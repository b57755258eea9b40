//! Tests of the page in a browser: it loads, shows measurements in the right places, and fits phones and
//! large screens in light and dark colours.

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use crate::browser::{Window, artifacts, run, screenshot};
use crate::runs::{CHUNKS, LOADS, Scratch, all, mean_ns};
use probeline_report::Report;
use serde_json::{Value, json};

const WINDOWS: [(u32, u32, &str); 2] = [(360, 800, "phone"), (1280, 900, "desktop")];
const LARGE: Window = Window(1280, 900, false);
/// Maximum error of a point in tenths of pixels, because coordinates are whole numbers.
const OFF: f64 = 1.0;

/// Writes the page of all synthetic runs.
fn page() -> PathBuf {
    static PAGE: OnceLock<PathBuf> = OnceLock::new();
    let make = || {
        let scratch = Scratch::new();
        let report = Report::read(&scratch.runs(&all())).unwrap();
        let page = artifacts().join("made-up.html");
        fs::write(&page, report.html("Synthetic runs")).unwrap();
        println!("{}", page.display());
        page
    };
    PAGE.get_or_init(make).clone()
}

/// Returns the value of an expression in the page.
#[track_caller]
fn value(expression: &str) -> Value {
    run(&[page()], LARGE, &format!("return {expression}")).remove(0)
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

#[test]
fn loads_without_errors_or_requests() {
    let results = value(
        "(() => {
           const figures = [...document.querySelectorAll('figure')];
           const unlabelled = figures.filter((figure) => !figure.querySelector('h3').textContent
             || !figure.querySelector('figcaption').textContent
             || !figure.querySelector('.legend text'));
           const links = [...document.querySelectorAll('a[href^=\"#\"]')];
           const broken = links.filter((link) => !document.getElementById(link.hash.slice(1)));
           const ids = [...document.querySelectorAll('[id]')].map((element) => element.id);
           const requests = performance.getEntriesByType('resource').length;
           return [document.title, figures.length, unlabelled.length, broken.length,
             ids.length - new Set(ids).size, requests];
         })()",
    );
    assert_eq!(results[0], "Synthetic runs");
    assert!(results[1].as_u64().unwrap() >= 15, "{results}");
    assert_eq!(results.as_array().unwrap()[2..], [0, 0, 0, 0].map(Value::from), "{results}");
    let text = fs::read_to_string(page()).unwrap();
    for outside in ["http://", "https://", "@import", "src=", "url("] {
        assert!(!text.contains(outside), "{outside}");
    }
}

/// The expected position follows from the labels of the axes, as a reader derives it.
#[test]
fn points_match_axes() {
    let x_ticks = ticks("#latency-inserted", false);
    let y_ticks = ticks("#latency-inserted", true);
    // The latencies span a wide range, so the axis is logarithmic.
    let y_ticks: Vec<[f64; 2]> = y_ticks.iter().map(|[value, at]| [value.log10(), *at]).collect();
    let series = value(
        "Object.fromEntries([...document.querySelectorAll('#latency-inserted .series')].map((series) =>
           [series.querySelector('title').textContent,
            [...series.querySelector('.line polyline').points].flatMap((p) => [p.x, p.y])]))",
    );
    for (transport, times) in [("shm", 1.0), ("verbs", 30.0)] {
        for c in CHUNKS {
            let points = &series[format!("C = {c}, {transport}")];
            let points = numbers(points);
            assert_eq!(points.len(), 2 * LOADS.len());
            for (point, load) in points.chunks(2).zip(LOADS) {
                let x = on_line(&x_ticks, load);
                let y = on_line(&y_ticks, mean_ns(times, c, load).log10());
                assert!((point[0] - x).abs() <= 2.0 * OFF, "x of {load}: {} {x}", point[0]);
                assert!((point[1] - y).abs() <= 4.0 * OFF, "y of {load}: {} {y}", point[1]);
            }
        }
    }
}

/// Returns the numbers along an axis, and their positions.
fn ticks(figure: &str, up: bool) -> Vec<[f64; 2]> {
    let (anchor, at) = if up { ("end", "y") } else { ("middle", "x") };
    let found = value(&format!(
        "[...document.querySelectorAll('{figure} .axes text[text-anchor={anchor}]')]\
         .map((text) => [text.textContent.trim(), +text.getAttribute('{at}')])"
    ));
    let tick = |tick: &Value| {
        let text = tick[0].as_str().unwrap();
        let value = match text.strip_suffix('k') {
            Some(thousands) => thousands.parse::<f64>().ok()? * 1e3,
            None => text.parse().ok()?,
        };
        Some([value, tick[1].as_f64().unwrap()])
    };
    let ticks: Vec<[f64; 2]> = found.as_array().unwrap().iter().filter_map(tick).collect();
    assert!(ticks.len() >= 3, "{found}");
    ticks
}

/// Returns the position of a value on the line through the first and the last tick.
fn on_line(ticks: &[[f64; 2]], value: f64) -> f64 {
    let ([from, at], [to, end]) = (ticks[0], ticks[ticks.len() - 1]);
    at + (value - from) / (to - from) * (end - at)
}

#[test]
fn shapes_stay_within_axes() {
    let shapes = value("document.querySelectorAll('.series polyline').length");
    assert!(shapes.as_u64().unwrap() > 30, "{shapes}");
    let outside = value(
        "[...document.querySelectorAll('figure')].flatMap((figure) => {
           const svg = figure.querySelector('svg');
           const [left, top, right, bottom] = svg.dataset.area.split(' ').map(Number);
           const shapes = svg.querySelectorAll('.series polyline');
           const points = [...shapes].flatMap((shape) => [...shape.points]);
           return points.filter((p) =>
             p.x < left - 60 || p.x > right + 60 || p.y < top - 60 || p.y > bottom + 60)
             .map((p) => `${figure.id}: ${p.x} ${p.y}`);
         })",
    );
    assert_eq!(outside, Value::from(Vec::<Value>::new()));
    // Visible elements fill the area, and no text exceeds its picture.
    let filled = value(
        "[...document.querySelectorAll('figure')].filter((figure) => {
           const svg = figure.querySelector('svg');
           const [left, , right] = svg.dataset.area.split(' ').map(Number);
           const shapes = [...svg.querySelectorAll('.series')].map((g) => g.getBBox());
           const width = Math.max(...shapes.map((b) => b.x + b.width))
             - Math.min(...shapes.map((b) => b.x));
           return shapes.length > 1 && svg.dataset.xScale !== 'linear' && width < 0.3 * (right - left);
         }).map((figure) => figure.id)",
    );
    assert_eq!(filled, Value::from(Vec::<Value>::new()));
    for (width, height, _) in WINDOWS {
        let clipped = run(
            &[page()],
            Window(width, height, false),
            "return [...document.querySelectorAll('figure svg text')].filter((text) => {
               const [a, b] = [text, text.ownerSVGElement].map((e) => e.getBoundingClientRect());
               return a.left < b.left - 1 || a.right > b.right + 1 || a.top < b.top - 1
                 || a.bottom > b.bottom + 1;
             }).map((text) => text.closest('figure').id + ': ' + text.textContent.trim())",
        );
        assert_eq!(clipped, [json!([])], "{width}");
    }
}

#[test]
fn line_styles_agree_across_plots() {
    for transport in ["shm", "verbs"] {
        let lines = format!(
            "[...document.querySelectorAll('.series')]\
             .filter((series) => series.textContent.includes(', {transport}'))\
             .flatMap((series) => [...series.querySelectorAll('.line')])\
             .map((line) => line.getAttribute('stroke-dasharray'))"
        );
        let dashes = value(&lines);
        let dashes = dashes.as_array().unwrap();
        assert!(dashes.len() > 10, "{transport}: {dashes:?}");
        assert!(dashes.iter().all(|dash| *dash == dashes[0]), "{transport}: {dashes:?}");
    }
}

#[test]
fn fits_all_screens_and_themes() {
    let script = "
        const line = document.querySelector('.s0 .line polyline');
        const sizes = [...document.querySelectorAll('figure svg text')].map((text) =>
          parseFloat(getComputedStyle(text).fontSize) * text.ownerSVGElement.clientWidth
          / text.ownerSVGElement.viewBox.baseVal.width);
        const widths = [false, true].map((open) => {
          document.querySelectorAll('details').forEach((e) => { e.open = open; });
          return document.documentElement.scrollWidth;
        });
        return [getComputedStyle(document.body).backgroundColor, getComputedStyle(line).stroke,
          Math.min(...sizes), ...widths];";
    for (width, height, name) in WINDOWS {
        let mut pictures = Vec::new();
        for (dark, time, ground, line) in [
            (false, "light", "rgb(255, 255, 255)", "rgb(0, 95, 168)"),
            (true, "dark", "rgb(18, 21, 25)", "rgb(98, 180, 242)"),
        ] {
            let window = Window(width, height, dark);
            let found = run(&[page()], window, script).remove(0);
            assert_eq!((&found[0], &found[1]), (&ground.into(), &line.into()));
            assert!(found[2].as_f64().unwrap() >= 10.5, "{name}: letters of {found}");
            assert_eq!((&found[3], &found[4]), (&width.into(), &width.into()), "{name}: details");
            let file = artifacts().join(format!("made-up-{name}-{time}.png"));
            pictures.push(screenshot(&page(), window, &file));
        }
        assert_ne!(pictures[0], pictures[1]);
    }
}

/// The page shows the same pictures.
#[test]
fn svg_files_are_self_contained() {
    let scratch = Scratch::new();
    let report = Report::read(&scratch.runs(&all())).unwrap();
    let folder = artifacts().join("svg");
    let count = report.write_svgs(&folder).unwrap();
    assert!(count >= 15 && count == report.svgs().len(), "{count}");
    let files: Vec<PathBuf> =
        report.svgs().iter().map(|(name, _)| folder.join(format!("{name}.svg"))).collect();
    let script = "
        return [document.documentElement.nodeName, document.querySelectorAll('.series').length];";
    for (file, found) in files.iter().zip(run(&files, Window(800, 600, false), script)) {
        assert_eq!(found[0], "svg", "{}", file.display());
        assert!(found[1].as_u64() > Some(0), "{}", file.display());
    }
}
