//! Drives a headless Chromium by its DevTools protocol over two pipes.

// Each test file uses only a part of this module.
#![allow(dead_code)]

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{self, Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};

/// The Debian package and its command.
const CHROMIUM: &str = "chromium";
/// Longer than any response takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
/// The time for all browser processes to exit after the main one.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(20);

/// A browser with one page. Dropping it ends the browser.
pub(crate) struct Browser {
    process: Child,
    orders: ChildStdin,
    messages: Receiver<Value>,
    /// Events that arrived while another message was expected.
    events: Vec<Value>,
    session: Option<String>,
    last: u64,
    profile: PathBuf,
}

impl Browser {
    pub(crate) fn start() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let profile = env::temp_dir().join(format!("probeline-page-{}-{number}", process::id()));
        let data = format!("--user-data-dir={}", profile.display());
        let scratch = profile.join("tmp");
        fs::create_dir_all(&scratch).expect("a folder in the temporary one");
        // The browser reads commands from descriptor 3 and writes responses to 4.
        let mut process = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null", CHROMIUM, &data])
            .args(["--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu"])
            .args(["--no-first-run", "--disable-dev-shm-usage", "--hide-scrollbars"])
            .args(["--force-color-profile=srgb", "--disable-background-networking"])
            .env("TMPDIR", scratch)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("sh starts");
        let orders = process.stdin.take().unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        let (send, messages) = channel();
        thread::spawn(move || {
            for message in answers.split(0) {
                let Ok(message) = message else { break };
                let Ok(message) = serde_json::from_slice(&message) else { continue };
                if send.send(message).is_err() {
                    break;
                }
            }
        });
        let (events, session) = (Vec::new(), None);
        let mut browser = Self { process, orders, messages, events, session, last: 0, profile };
        browser.open();
        browser
    }

    fn open(&mut self) {
        let target = self.order("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = self.order("Target.attachToTarget", attach);
        self.session = Some(session["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.order(&format!("{domain}.enable"), json!({}));
        }
    }

    /// Sends a command and waits for its response.
    #[track_caller]
    pub(crate) fn order(&mut self, method: &str, parameters: Value) -> Value {
        self.last += 1;
        let mut order = json!({ "id": self.last, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            order["sessionId"] = json!(session);
        }
        let mut bytes = order.to_string().into_bytes();
        bytes.push(0);
        let sent = self.orders.write_all(&bytes).and_then(|()| self.orders.flush());
        assert!(sent.is_ok(), "{CHROMIUM} does not run: ci/install installs it");
        let until = Instant::now() + LIMIT;
        loop {
            let message = self.next(until).unwrap_or_else(|| {
                panic!("{CHROMIUM} does not answer to {method}: ci/install installs it")
            });
            if message["id"] == self.last {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            self.events.push(message);
        }
    }

    fn next(&mut self, until: Instant) -> Option<Value> {
        self.messages.recv_timeout(until.saturating_duration_since(Instant::now())).ok()
    }

    /// Sets the size of the window, and whether dark colours are preferred.
    pub(crate) fn window(&mut self, width: u32, height: u32, dark: bool) {
        let metrics = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600
        });
        self.order("Emulation.setDeviceMetricsOverride", metrics);
        let scheme = if dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.order("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// Opens a file and waits until it has loaded.
    pub(crate) fn load(&mut self, file: &Path) {
        self.events.clear();
        let url = format!("file://{}", file.display());
        let gone = self.order("Page.navigate", json!({ "url": url }));
        assert!(gone["errorText"].is_null(), "{gone}");
        let until = Instant::now() + LIMIT;
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let message = self.next(until).expect("the page loads in time");
            self.events.push(message);
        }
    }

    /// Returns the errors of the page, and the requests other than for itself.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let complaint = |event: &Value| {
            let parameters = &event["params"];
            let bad = match event["method"].as_str()? {
                "Runtime.exceptionThrown" => true,
                "Runtime.consoleAPICalled" => {
                    ["error", "warning", "assert"].iter().any(|kind| parameters["type"] == *kind)
                }
                "Log.entryAdded" => {
                    ["error", "warning"].iter().any(|kind| parameters["entry"]["level"] == *kind)
                }
                "Network.requestWillBeSent" => {
                    let url = parameters["request"]["url"].as_str()?;
                    !url.starts_with("file:") && !url.starts_with("data:")
                }
                _ => false,
            };
            bad.then(|| event.to_string())
        };
        self.events.iter().filter_map(complaint).collect()
    }

    /// Returns the number of files that the page requested, including itself.
    pub(crate) fn requests(&self) -> usize {
        let asked = |event: &&Value| {
            let url = event["params"]["request"]["url"].as_str().unwrap_or_default();
            event["method"] == "Network.requestWillBeSent" && !url.starts_with("data:")
        };
        self.events.iter().filter(asked).count()
    }

    /// Evaluates an expression in the page.
    #[track_caller]
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let ask = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.order("Runtime.evaluate", ask);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Clicks at the position of the element with this selector.
    #[track_caller]
    pub(crate) fn click(&mut self, selector: &str) {
        let place = self.value(&format!(
            "(() => {{ const e = document.querySelector({}); if (!e) return null; \
             e.scrollIntoView({{ block: 'center' }}); const r = e.getBoundingClientRect(); \
             return [r.x + r.width / 2, r.y + r.height / 2]; }})()",
            json!(selector)
        ));
        assert!(place.is_array(), "nothing is {selector}");
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({
                "type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1
            });
            self.order("Input.dispatchMouseEvent", event);
        }
        // The page reacts in a separate task.
        self.value("new Promise((done) => setTimeout(done, 30))");
    }

    /// Writes a picture of the whole page to a file.
    pub(crate) fn screenshot(&mut self, file: &Path) -> Vec<u8> {
        let ask = json!({ "format": "png", "captureBeyondViewport": true });
        let picture = self.order("Page.captureScreenshot", ask);
        let png = BASE64_STANDARD.decode(picture["data"].as_str().unwrap()).unwrap();
        assert!(png.starts_with(b"\x89PNG"), "no picture");
        fs::write(file, &png).unwrap();
        println!("{}", file.display());
        png
    }

    /// Sets whether scripts run in pages that are loaded from now on.
    pub(crate) fn scripts(&mut self, run: bool) {
        self.order("Emulation.setScriptExecutionDisabled", json!({ "value": !run }));
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let left = removed(&self.profile).err();
        assert!(left.is_none() || thread::panicking(), "{}: {left:?}", self.profile.display());
    }
}

/// Removes a folder in which exiting browser processes may still write.
fn removed(folder: &Path) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if Instant::now() >= until => return Err(error),
            // Repeats until the folder does not exist: a late process may have created it again.
            _ => thread::sleep(PAUSE),
        }
    }
}

/// Returns the folder for pages and pictures that a person may inspect.
pub(crate) fn artifacts() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let folder = target.join("report");
    fs::create_dir_all(&folder).unwrap();
    folder
}
