//! Tests of the page in a browser: it loads, shows measurements in the right places, has working
//! filters, and fits phones and large screens in light and dark colours.

mod browser;
mod runs;

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use browser::{Browser, artifacts};
use probeline_report::Report;
use runs::{CHUNKS, LOADS, Scratch, all, mean_ns};
use serde_json::Value;

const WINDOWS: [(u32, u32, &str); 2] = [(360, 800, "phone"), (1280, 900, "desktop")];
/// Maximum error of a point in tenths of pixels, because coordinates are whole numbers.
const OFF: f64 = 1.0;

/// Writes the page of all synthetic runs.
fn page() -> PathBuf {
    static PAGE: OnceLock<PathBuf> = OnceLock::new();
    let make = || {
        let scratch = Scratch::new();
        let report = Report::read(&scratch.runs(&all())).unwrap();
        let page = artifacts().join("made-up.html");
        fs::write(&page, report.html("Runs that nobody made")).unwrap();
        println!("{}", page.display());
        page
    };
    PAGE.get_or_init(make).clone()
}

/// Opens the page in a browser.
fn shown() -> (Browser, PathBuf) {
    let (mut browser, page) = (Browser::start(), page());
    browser.window(1280, 900, false);
    browser.load(&page);
    (browser, page)
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

#[test]
fn the_page_loads_without_errors_or_requests() {
    let (mut browser, page) = shown();
    assert_eq!(browser.complaints(), Vec::<String>::new());
    assert_eq!(browser.requests(), 1);
    assert_eq!(browser.value("document.title"), "Runs that nobody made");
    let figures = browser.value("document.querySelectorAll('figure').length");
    assert!(figures.as_u64().unwrap() >= 15, "{figures}");
    let unlabelled = "[...document.querySelectorAll('figure')].filter((figure) => \
        !figure.querySelector('h3').textContent || !figure.querySelector('figcaption').textContent \
        || !figure.querySelector('.legend li') || !figure.querySelector('details td')).length";
    assert_eq!(browser.value(unlabelled), 0);
    // Every link of the page has a target.
    let broken = "[...document.querySelectorAll('a[href^=\"#\"]')].filter((link) => \
        !document.getElementById(link.hash.slice(1))).length";
    assert_eq!(browser.value(broken), 0);
    let twice = "(() => { const ids = [...document.querySelectorAll('[id]')].map((e) => e.id); \
        return ids.length - new Set(ids).size; })()";
    assert_eq!(browser.value(twice), 0);
    let text = fs::read_to_string(page).unwrap();
    for outside in ["http://", "https://", "@import", "src=", "url("] {
        assert!(!text.contains(outside), "{outside}");
    }
}

/// The expected position follows from the labels of the axes, as a reader derives it.
#[test]
fn points_match_the_axes() {
    let (mut browser, _) = shown();
    for (transport, times) in [("shm", 1.0), ("verbs", 30.0)] {
        for c in CHUNKS {
            let series = format!(
                "#latency-inserted .series[data-transport=\"{transport}\"][data-c=\"{c}\"]"
            );
            let points = browser.value(&format!(
                "[...document.querySelector('{series} .line polyline').points]\
                 .flatMap((point) => [point.x, point.y])"
            ));
            let points = numbers(&points);
            assert_eq!(points.len(), 2 * LOADS.len());
            let x_ticks = ticks(&mut browser, "#latency-inserted", false);
            let y_ticks = ticks(&mut browser, "#latency-inserted", true);
            for (point, load) in points.chunks(2).zip(LOADS) {
                let x = on_line(&x_ticks, load);
                // The latencies span a wide range, so the axis is logarithmic.
                let y_ticks: Vec<[f64; 2]> =
                    y_ticks.iter().map(|[value, at]| [value.log10(), *at]).collect();
                let y = on_line(&y_ticks, mean_ns(times, c, load).log10());
                assert!((point[0] - x).abs() <= 2.0 * OFF, "x of {load}: {} {x}", point[0]);
                assert!((point[1] - y).abs() <= 4.0 * OFF, "y of {load}: {} {y}", point[1]);
            }
        }
    }
}

/// Returns the numbers along an axis, and their positions.
fn ticks(browser: &mut Browser, figure: &str, up: bool) -> Vec<[f64; 2]> {
    let (anchor, at) = if up { ("end", "y") } else { ("middle", "x") };
    let found = browser.value(&format!(
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
fn everything_drawn_is_within_its_axes() {
    let (mut browser, _) = shown();
    let shapes = browser.value("document.querySelectorAll('.series polyline').length");
    assert!(shapes.as_u64().unwrap() > 30, "{shapes}");
    let outside = browser.value(
        "[...document.querySelectorAll('figure')].flatMap((figure) => {
           const svg = figure.querySelector('svg');
           const [left, top, right, bottom] = svg.dataset.area.split(' ').map(Number);
           const shapes = svg.querySelectorAll('.series polyline, .guide polyline');
           const points = [...shapes].flatMap((shape) => [...shape.points]);
           return points.filter((p) =>
             p.x < left - 60 || p.x > right + 60 || p.y < top - 60 || p.y > bottom + 60)
             .map((p) => `${figure.id}: ${p.x} ${p.y}`);
         })",
    );
    assert_eq!(outside, Value::from(Vec::<Value>::new()));
    // Visible elements fill the area, and no text exceeds its picture.
    let filled = browser.value(
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
        browser.window(width, height, false);
        let clipped = browser.value(
            "[...document.querySelectorAll('figure svg text')].filter((text) => {
               const [a, b] = [text, text.ownerSVGElement].map((e) => e.getBoundingClientRect());
               return a.left < b.left - 1 || a.right > b.right + 1 || a.top < b.top - 1
                 || a.bottom > b.bottom + 1;
             }).map((text) => text.closest('figure').id + ': ' + text.textContent.trim())",
        );
        assert_eq!(clipped, Value::from(Vec::<Value>::new()), "{width}");
    }
}

/// Returns the number of series with this transport or C, and the number of visible ones.
fn seen(browser: &mut Browser, selector: &str) -> (u64, u64) {
    let counts = browser.value(&format!(
        "(() => {{ const all = [...document.querySelectorAll('.series{selector}')]; \
         return [all.length, all.filter((e) => getComputedStyle(e).display !== 'none').length]; }})()"
    ));
    (counts[0].as_u64().unwrap(), counts[1].as_u64().unwrap())
}

#[test]
fn a_line_of_a_legend_is_the_same_in_all_plots() {
    let (mut browser, _) = shown();
    // A legend entry for a dash pattern alone has no colour.
    let lines = browser.value(
        "[...document.querySelectorAll('.legend li')].map((line) => \
           [line.querySelector('svg'), line.textContent.trim()])\
         .filter(([key]) => key.getAttribute('class') === 'key').map(([key, name]) => \
           [name, key.querySelector('.line').getAttribute('stroke-dasharray')])",
    );
    let lines = lines.as_array().unwrap();
    for name in ["shm", "verbs"] {
        let dashes: Vec<&Value> =
            lines.iter().filter(|line| line[0] == name).map(|line| &line[1]).collect();
        assert!(dashes.len() > 3, "{name}: {lines:?}");
        assert!(dashes.iter().all(|dash| *dash == dashes[0]), "{name}: {lines:?}");
    }
}

#[test]
fn series_are_chosen_by_transport_and_by_c() {
    let (mut browser, _) = shown();
    let (all, shown) = seen(&mut browser, "");
    assert!(all > 60 && shown == all, "{shown} of {all}");

    browser.click("[data-filter=transport] input[value=shm]");
    let (of_shm, shown) = seen(&mut browser, "[data-transport=shm]");
    assert!(of_shm > 10 && shown == 0, "{shown} of {of_shm}");
    let (others, shown) = seen(&mut browser, ":not([data-transport=shm])");
    assert_eq!((others, shown), (all - of_shm, others));
    // Its column of the table and its entry of the legend disappear as well.
    let hidden = "[...document.querySelectorAll('#latency-inserted .off')].map((e) => e.tagName)";
    let hidden = browser.value(hidden).to_string();
    for part in ["g", "TD", "TH", "LI"] {
        assert!(hidden.contains(&format!("{part:?}")), "{part}: {hidden}");
    }

    browser.click("[data-filter=c] input[value='8']");
    let (of_8, shown) = seen(&mut browser, "[data-c=\"8\"]");
    assert!(of_8 > 5 && shown == 0, "{shown} of {of_8}");
    let (rest, shown) = seen(&mut browser, "[data-c=\"32\"]:not([data-transport=shm])");
    assert!(rest > 5 && shown == rest, "{shown} of {rest}");
    let (without, shown) = seen(&mut browser, "[data-c=\"\"]:not([data-transport=shm])");
    assert!(without > 2 && shown == without, "{shown} of {without}");
    // If no series is left, the page states it.
    let empty = "document.querySelector('#exploration .empty').hidden";
    assert_eq!(browser.value(empty), false);

    browser.click("#filters button");
    let (all, shown) = seen(&mut browser, "");
    assert_eq!(all, shown);
    assert_eq!(browser.value("document.querySelectorAll('.off').length"), 0);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn the_page_fits_small_and_large_screens_in_light_and_dark() {
    let (mut browser, page) = shown();
    for (width, height, name) in WINDOWS {
        let mut pictures = Vec::new();
        for (dark, time) in [(false, "light"), (true, "dark")] {
            browser.window(width, height, dark);
            browser.load(&page);
            let file = artifacts().join(format!("made-up-{name}-{time}.png"));
            pictures.push(browser.screenshot(&file));
            let ground = browser.value("getComputedStyle(document.body).backgroundColor");
            assert_eq!(ground, if dark { "rgb(18, 21, 25)" } else { "rgb(255, 255, 255)" });
            let line = "getComputedStyle(document.querySelector('.s0 .line polyline')).stroke";
            assert_eq!(
                browser.value(line),
                if dark { "rgb(98, 180, 242)" } else { "rgb(0, 95, 168)" }
            );
        }
        assert_ne!(pictures[0], pictures[1]);
        let letters = "Math.min(...[...document.querySelectorAll('figure svg text')].map((text) => \
             parseFloat(getComputedStyle(text).fontSize) * text.ownerSVGElement.clientWidth \
             / text.ownerSVGElement.viewBox.baseVal.width))";
        let letters = browser.value(letters).as_f64().unwrap();
        assert!(letters >= 10.5, "{name}: letters of {letters} pixels");
        for open in [false, true] {
            browser.value(&format!(
                "document.querySelectorAll('details').forEach((e) => {{ e.open = {open}; }})"
            ));
            let page_width = browser.value("document.documentElement.scrollWidth");
            assert_eq!(page_width, width, "{name}, details open: {open}");
        }
    }
}

#[test]
fn the_page_works_without_scripts() {
    let (mut browser, page) = shown();
    browser.scripts(false);
    browser.load(&page);
    let document = browser.order("DOM.getDocument", serde_json::json!({}));
    let find = |browser: &mut Browser, selector: &str| {
        let ask = serde_json::json!({ "nodeId": document["root"]["nodeId"], "selector": selector });
        let found = browser.order("DOM.querySelectorAll", ask);
        found["nodeIds"].as_array().unwrap().len()
    };
    assert_eq!(find(&mut browser, "form[hidden]"), 1);
    assert!(find(&mut browser, "figure .series") > 60);
    assert_eq!(find(&mut browser, ".off"), 0);
}

#[test]
fn svg_files_are_self_contained() {
    let scratch = Scratch::new();
    let report = Report::read(&scratch.runs(&all())).unwrap();
    let folder = artifacts().join("svg");
    let count = report.write_svgs(&folder).unwrap();
    assert_eq!(count, report.svgs().len());
    assert!(count >= 15, "{count}");
    let mut browser = Browser::start();
    browser.window(800, 600, false);
    for (name, _) in report.svgs() {
        let file = folder.join(format!("{name}.svg"));
        browser.load(&file);
        assert_eq!(browser.complaints(), Vec::<String>::new(), "{name}");
        let root = browser.value("document.documentElement.nodeName");
        assert_eq!(root, "svg", "{name}");
        let outside = browser.value(
            "(() => { const frame = document.documentElement.getBoundingClientRect();
               return [...document.querySelectorAll('text')].filter((text) => {
                 const box = text.getBoundingClientRect();
                 return box.right > frame.right + 1 || box.bottom > frame.bottom + 1;
               }).map((text) => text.textContent); })()",
        );
        assert_eq!(outside, Value::from(Vec::<Value>::new()), "{name}");
        assert!(browser.value("document.querySelectorAll('.series').length").as_u64() > Some(0));
    }
}
