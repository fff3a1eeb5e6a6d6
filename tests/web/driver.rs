//! A browser of its own for each test: chromedriver on a free port, and as much of WebDriver as is needed.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::within;

/// For one command: the browser of a busy machine takes a while to start.
const ANSWER: Duration = Duration::from_secs(90);

pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    /// Its profile, so that nothing of it is left.
    _home: TempDir,
}

impl Browser {
    pub(crate) fn start() -> Self {
        let home = TempDir::new().expect("a folder");
        let mut command = Command::new("chromedriver");
        command.arg("--port=0").env("HOME", home.path()).env("XDG_CONFIG_HOME", home.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut driver = command.spawn().expect("chromedriver, of Debian's package chromium-driver");
        let said = driver.stdout.take().expect("a pipe");
        let mut lines = BufReader::new(said).lines().map_while(Result::ok);
        let port = lines
            .find_map(|line| line.split_once("successfully on port ")?.1.trim_end_matches('.').parse().ok())
            .expect("chromedriver names its port");
        // It goes on writing: somebody has to read.
        std::thread::spawn(move || lines.for_each(drop));
        let mut browser = Self { driver, port, session: String::new(), _home: home };
        let profile = format!("--user-data-dir={}", browser._home.path().join("profile").display());
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--no-first-run",
            "--lang=en",
            "--window-size=1280,900",
            &profile,
        ];
        let options = json!({ "args": arguments, "perfLoggingPrefs": { "enableNetwork": true } });
        let wanted = json!({ "goog:chromeOptions": options, "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" } });
        let reply = browser.call("POST", "/session", &json!({ "capabilities": { "alwaysMatch": wanted } }));
        browser.session = reply["sessionId"].as_str().expect("a session").to_owned();
        browser
    }

    pub(crate) fn open(&self, url: &str) {
        self.command("url", &json!({ "url": url }));
    }

    /// What the script returns.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.command("execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// All that can be read on the page.
    pub(crate) fn text(&self) -> String {
        self.run("return document.body.innerText").as_str().expect("a text").to_owned()
    }

    pub(crate) fn wait_for(&self, what: &str) -> String {
        within(what, || Some(self.text()).filter(|text| text.contains(what)))
    }

    /// As a person does: by keys.
    pub(crate) fn type_into(&self, css: &str, keys: &str) {
        let found = self.command("element", &json!({ "using": "css selector", "value": css }));
        let id =
            found.as_object().and_then(|o| o.values().next()).and_then(Value::as_str).expect("an element");
        self.command(&format!("element/{id}/value"), &json!({ "text": keys }));
    }

    pub(crate) fn press(&self, keys: &str) {
        let actions: Vec<Value> = keys
            .chars()
            .flat_map(|key| {
                ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key.to_string() }))
            })
            .collect();
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": actions });
        self.command("actions", &json!({ "actions": [keyboard] }));
    }

    /// A screen of this size, in this colour scheme.
    pub(crate) fn look_like(&self, (width, height): (u32, u32), scheme: &str) {
        let phone = width < 500;
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": if phone { 2 } else { 1 }, "mobile": phone });
        self.chrome("Emulation.setDeviceMetricsOverride", &size);
        let scheme = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.chrome("Emulation.setEmulatedMedia", &json!({ "features": scheme }));
    }

    pub(crate) fn chrome(&self, command: &str, parameters: &Value) -> Value {
        self.command("goog/cdp/execute", &json!({ "cmd": command, "params": parameters }))
    }

    /// What is on the screen, to be looked at: only where `LVSD_SCREENSHOTS` names a folder.
    pub(crate) fn photograph(&self, name: &str) {
        let Some(folder) = std::env::var_os("LVSD_SCREENSHOTS") else { return };
        let picture = self.call("GET", &format!("/session/{}/screenshot", self.session), &Value::Null);
        let picture = BASE64_STANDARD.decode(picture.as_str().expect("a picture")).expect("base64");
        let path = std::path::Path::new(&folder).join(format!("{name}.png"));
        std::fs::write(&path, picture).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    /// What the page complained of in the console, since it was last asked.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let entries = self.command("se/log", &json!({ "type": "browser" }));
        let entries = entries.as_array().expect("a list");
        entries.iter().map(|entry| entry["message"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// All that was asked of the network, since it was last asked.
    pub(crate) fn requests(&self) -> Vec<String> {
        let entries = self.command("se/log", &json!({ "type": "performance" }));
        let entries = entries.as_array().expect("a list");
        let events = entries.iter().map(|entry| {
            let event: Value =
                serde_json::from_str(entry["message"].as_str().expect("a text")).expect("JSON");
            event["message"].clone()
        });
        let sent = events.filter(|event| event["method"] == "Network.requestWillBeSent");
        sent.map(|event| event["params"]["request"]["url"].as_str().unwrap_or_default().to_owned()).collect()
    }

    fn command(&self, what: &str, body: &Value) -> Value {
        self.call("POST", &format!("/session/{}/{what}", self.session), body)
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("chromedriver listens");
        stream.set_read_timeout(Some(ANSWER)).expect("a limit");
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .expect("sent");
        let (head, body) =
            answer(&mut BufReader::new(stream)).unwrap_or_else(|e| panic!("{method} {path}: {e}"));
        let mut json: Value =
            serde_json::from_slice(&body).unwrap_or_else(|e| panic!("{method} {path}: {e}"));
        assert!(head.starts_with("HTTP/1.1 200"), "{method} {path}: {json:#}");
        json["value"].take()
    }
}

/// Head and body. The driver leaves connections open, whatever it is asked.
fn answer(from: &mut impl BufRead) -> std::io::Result<(String, Vec<u8>)> {
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") {
        let start = head.len();
        if from.read_line(&mut head)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(value) = head[start..].to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().map_err(std::io::Error::other)?;
        }
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    Ok((head, body))
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            // Its browser ends with the session; a driver that is killed would leave it.
            let path = format!("/session/{}", self.session);
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                self.call("DELETE", &path, &Value::Null)
            }));
            drop(ended);
        }
        drop(self.driver.kill());
        drop(self.driver.wait());
    }
}
