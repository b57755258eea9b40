//! Runs scripts in pages with a headless Chromium.

use std::fs;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The Debian package and its command.
const CHROMIUM: &str = "chromium";
/// Time limit of a browser, in seconds.
const LIMIT_S: &str = "90";
const MAX_STARTS: u32 = 3;
/// A page that loads others in a frame, one after the other, runs a script in each, and shows the
/// results as its last text.
const FRAME: &str =
    "<body style=\"margin:0\"><iframe id=\"frame\"></iframe><pre id=\"results\"></pre>
<script>
const frame = document.getElementById('frame');
frame.style = 'border:0;width:WIDTHpx;height:HEIGHTpx';
const script = Function('page', 'with (page) { return (async () => {' + SCRIPT + '})() }');
const run = async (page) => {
  await new Promise((loaded) => { frame.onload = loaded; frame.src = page; });
  return script(frame.contentWindow);
};
(async () => {
  const results = [];
  for (const page of PAGES) results.push(await run(page));
  return results;
})().catch((error) => 'failed: ' + error).then((results) => {
  document.getElementById('results').textContent = JSON.stringify(results);
});
</script>";

/// The size of a window, and whether it is dark.
#[derive(Clone, Copy)]
pub(crate) struct Window(pub(crate) u32, pub(crate) u32, pub(crate) bool);

/// Opens a page and returns the standard output. A browser that hangs is killed and started again.
#[track_caller]
fn browse(page: &Path, options: &[String]) -> String {
    let ended = (0..MAX_STARTS).find_map(|_| try_browse(page, options));
    let (is_success, output, said) =
        ended.unwrap_or_else(|| panic!("{CHROMIUM} hung {MAX_STARTS} times: {}", page.display()));
    let is_complaint = |line: &&str| line.contains(":CONSOLE");
    let complaints: Vec<&str> = said.lines().filter(is_complaint).collect();
    assert_eq!(complaints, [""; 0], "{}", page.display());
    assert!(is_success, "{said}");
    output
}

/// Runs a browser. Returns whether it succeeded, its standard output and its standard error, or nothing if it
/// ran longer than `LIMIT_S`.
#[track_caller]
fn try_browse(page: &Path, options: &[String]) -> Option<(bool, String, String)> {
    let folder = tempfile::tempdir().unwrap();
    // Files: a pipe stays open as long as any process of the browser does.
    let [output, said] = ["output", "said"].map(|name| folder.path().join(name));
    let status = Command::new("timeout")
        .args(["--kill-after=5", LIMIT_S, CHROMIUM])
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
        .args(["--no-first-run", "--disable-dev-shm-usage", "--force-color-profile=srgb"])
        .args(["--disable-background-networking", "--allow-file-access-from-files"])
        .args(["--virtual-time-budget=20000", "--enable-logging=stderr"])
        .arg(format!("--user-data-dir={}", folder.path().display()))
        .args(options)
        .arg(format!("file://{}", page.display()))
        .stdout(File::create(&output).unwrap())
        .stderr(File::create(&said).unwrap())
        .status()
        .unwrap();
    assert_ne!(status.code(), Some(127), "no command {CHROMIUM}: ci/install installs it");
    // The statuses of timeout(1) after SIGTERM and after SIGKILL.
    if matches!(status.code(), Some(124 | 137)) {
        return None;
    }
    let said = String::from_utf8_lossy(&fs::read(said).unwrap()).into_owned();
    Some((status.success(), fs::read_to_string(output).unwrap(), said))
}

/// Runs the body of an asynchronous function in each page, and returns what it returns.
#[track_caller]
pub(crate) fn run(pages: &[PathBuf], window: Window, script: &str) -> Vec<Value> {
    let Window(width, height, dark) = window;
    let folder = tempfile::tempdir().unwrap();
    let urls: Vec<String> = pages.iter().map(|page| format!("file://{}", page.display())).collect();
    let frame = FRAME
        .replace("WIDTH", &width.to_string())
        .replace("HEIGHT", &height.to_string())
        .replace("PAGES", &Value::from(urls).to_string())
        .replace("SCRIPT", &Value::from(script).to_string());
    let file = folder.path().join("frame.html");
    fs::write(&file, frame).unwrap();
    let dom = browse(&file, &[scheme(dark), "--dump-dom".to_owned()]);
    let (_, rest) = dom.split_once("<pre id=\"results\">").unwrap();
    let text = rest.split_once("</pre>").unwrap().0;
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let results: Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {dom}"));
    results.as_array().unwrap_or_else(|| panic!("{results}")).clone()
}

fn scheme(dark: bool) -> String {
    format!("--blink-settings=preferredColorScheme={}", u8::from(!dark))
}

/// Writes a picture of a page, and returns it.
pub(crate) fn screenshot(page: &Path, Window(width, height, dark): Window, file: &Path) -> Vec<u8> {
    let size = format!("--window-size={width},{height}");
    browse(page, &[scheme(dark), size, format!("--screenshot={}", file.display())]);
    println!("{}", file.display());
    fs::read(file).unwrap()
}

/// Returns the folder for pages and pictures that a person may inspect.
pub(crate) fn artifacts() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let folder = target.join("report");
    fs::create_dir_all(&folder).unwrap();
    folder
}
