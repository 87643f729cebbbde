//! A headless Chromium, told what to do over its debugging pipe: messages of the DevTools protocol,
//! each ended by a zero byte.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::{Value, json};

use crate::Running;

/// A browser with one page.
#[derive(Debug)]
pub struct Browser {
    _running: Running,
    _folder: tempfile::TempDir,
    to: File,
    from: BufReader<File>,
    /// Messages that were sent.
    sent: u64,
    /// The page's session, once there is one.
    session: Option<String>,
}

/// Notes what the page's policy forbids and what goes wrong in its script.
const WATCH: &str = "window.faults = [];
addEventListener('securitypolicyviolation', (e) => faults.push(`${e.violatedDirective}: ${e.blockedURI}`));
addEventListener('error', (e) => faults.push(e.message));
addEventListener('unhandledrejection', (e) => faults.push(String(e.reason)));";

impl Browser {
    /// Whether there is one on this machine.
    pub fn is_there() -> bool {
        let asked = Command::new("chromium")
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        asked.is_ok_and(|status| status.success())
    }

    /// Starts the browser with an empty page.
    pub fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let [to, from] = ["to", "from"].map(|name| folder.path().join(name));
        for pipe in [&to, &from] {
            mkfifo(pipe, Mode::S_IRUSR | Mode::S_IWUSR).expect("a named pipe");
        }
        let mut command = Command::new("sh");
        let flags = "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \
                     --disable-background-networking --hide-scrollbars --remote-debugging-pipe";
        command
            .args([
                "-c",
                &format!("exec chromium {flags} --user-data-dir=profile 3<to 4>from"),
            ])
            .current_dir(folder.path());
        let running = Running::start(command, None);
        // In the shell's order: opening a pipe waits for its other end.
        let to = OpenOptions::new().write(true).open(&to).expect("the browser's");
        let from = File::open(&from).expect("the browser's");
        let mut browser = Browser {
            _running: running,
            _folder: folder,
            to,
            from: BufReader::new(from),
            sent: 0,
            session: None,
        };
        let page = browser.command("Target.createTarget", json!({ "url": "about:blank" }));
        let to_page = json!({ "targetId": page["targetId"], "flatten": true });
        let attached = browser.command("Target.attachToTarget", to_page);
        browser.session = attached["sessionId"].as_str().map(String::from);
        browser.command("Page.enable", json!({}));
        browser.command(
            "Page.addScriptToEvaluateOnNewDocument",
            json!({ "source": WATCH }),
        );
        browser
    }

    /// Sends a command, and waits for its result.
    fn command(&mut self, method: &str, params: Value) -> Value {
        self.sent += 1;
        let mut message = json!({ "id": self.sent, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        let sent = self.to.write_all(format!("{message}\0").as_bytes());
        sent.expect("the browser listens");
        loop {
            let mut answer = vec![];
            let read = self.from.read_until(0, &mut answer).expect("the browser answers");
            assert!(read > 0, "{method}: the browser ended");
            let answer: Value = serde_json::from_slice(&answer[..read - 1]).expect("messages are JSON");
            // Events have no id.
            if answer["id"] == self.sent {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    /// Opens an address, as if typed in.
    pub fn open(&mut self, address: &str) {
        // Of an address with another fragment alone nothing would be loaded.
        self.command("Page.navigate", json!({ "url": "about:blank" }));
        let opened = self.command("Page.navigate", json!({ "url": address }));
        assert!(opened["errorText"].is_null(), "{opened}");
    }

    /// Gives the window a size in CSS pixels.
    pub fn resize(&mut self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.command("Emulation.setDeviceMetricsOverride", size);
    }

    /// The value of an expression in the page; a promise is waited for.
    #[track_caller]
    pub fn value(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let result = self.command("Runtime.evaluate", params);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Waits until a condition holds in the page. Panics with the page's text after half a minute.
    #[track_caller]
    pub fn until(&mut self, condition: &str) {
        let script = format!(
            "new Promise((done) => {{ let left = 600; const look = () => {{ let held = false; \
             try {{ held = Boolean({condition}); }} catch {{}} \
             if (held || left-- === 0) done(held); else setTimeout(look, 50); }}; look(); }})"
        );
        if self.value(&script) != true {
            let text = self.value("document.body.innerText");
            panic!("{condition} does not come to hold: {text}");
        }
    }

    /// Draws all of the page into a PNG.
    pub fn draw(&mut self, path: &Path) {
        let params = json!({ "format": "png", "captureBeyondViewport": true });
        let drawn = self.command("Page.captureScreenshot", params);
        let png = STANDARD.decode(drawn["data"].as_str().expect("a picture"));
        std::fs::write(path, png.expect("base64")).expect("writable");
    }
}
