//! A real Chromium, driven over the pipe of its DevTools protocol. When the tests end, however
//! they end, the pipe closes and Chromium ends with it: it leaves no process and no open port.

use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Write, pipe};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// How long Chromium may take to answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a phone shows, in CSS pixels.
pub(crate) const PHONE: (u32, u32) = (390, 844);

/// mdBook's themes.
pub(crate) const THEMES: [&str; 5] = ["light", "rust", "coal", "navy", "ayu"];

/// The book, bound once for all tests, and the browser it is read in.
pub(crate) struct Browser {
    book: PathBuf,
    wire: Wire,
}

/// The browser with the bound book, or nothing if there is no Chromium and none is required;
/// then the test by this name says that it is skipped.
pub(crate) fn browser(test: &str) -> Option<&'static Browser> {
    static BROWSER: OnceLock<Option<Browser>> = OnceLock::new();
    let browser = BROWSER.get_or_init(|| {
        let chromium = find()?;
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let book = folder.join("browser-book");
        binder::bind::bind_into(Path::new(env!("CARGO_MANIFEST_DIR")), &book)
            .unwrap_or_else(|error| panic!("the book cannot be bound: {error:#}"));
        Some(Browser {
            book,
            wire: Wire::to(&chromium, &folder.join("browser-profile")),
        })
    });
    if browser.is_none() {
        crate::support::skip(test, "no Chromium");
    }
    browser.as_ref()
}

/// The Chromium of the variable `CHROME`, or else the first that is installed.
fn find() -> Option<PathBuf> {
    // The pipe is handed on by a shell, which Windows lacks.
    if cfg!(windows) {
        return None;
    }
    if let Some(chosen) = std::env::var_os("CHROME") {
        return Some(chosen.into());
    }
    let installed = [
        "chromium",
        "chromium-browser",
        "google-chrome",
        "google-chrome-stable",
        "/Applications/Chromium.app/Contents/MacOS/Chromium",
        "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    ];
    let folders: Vec<PathBuf> = std::env::var_os("PATH")
        .map(|path| std::env::split_paths(&path).collect())
        .unwrap_or_default();
    installed
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|program| program.is_file())
}

/// How a page is visited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visit<'a> {
    /// Which of the [`THEMES`] the reader has chosen.
    pub(crate) theme: &'a str,
    /// Width and height of the window in CSS pixels.
    pub(crate) window: (u32, u32),
    /// Whether scripts run.
    pub(crate) scripts: bool,
    /// Media features the reader's system asks for, such as `("prefers-reduced-motion", "reduce")`.
    pub(crate) media: &'a [(&'a str, &'a str)],
}

impl Default for Visit<'_> {
    fn default() -> Self {
        Visit {
            theme: "light",
            window: (1200, 900),
            scripts: true,
            media: &[],
        }
    }
}

impl Browser {
    /// The names of the book's pages. The page for what a server does not find is none of them: it
    /// is made for the root of a site and lies in a folder only by accident.
    pub(crate) fn pages(&self) -> Vec<String> {
        let mut pages: Vec<String> = fs::read_dir(&self.book)
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
            .filter(|name| name.ends_with(".html") && name != "404.html")
            .collect();
        pages.sort();
        assert!(pages.len() > 10, "only {pages:?} were bound");
        pages
    }

    /// The pages with a text of their own: neither the table of contents, which mdBook frames where
    /// scripts do not run, nor the copies of the first page and of all pages.
    pub(crate) fn chapters(&self) -> Vec<String> {
        let copies = ["index.html", "print.html", "toc.html"];
        let mut pages = self.pages();
        pages.retain(|page| !copies.contains(&page.as_str()));
        pages
    }

    /// Opens a page of the book, by its name and perhaps a `#fragment`, from the file as a reader
    /// does, in a tab that shares nothing with any other, and waits until it stands.
    pub(crate) fn open(&self, page: &str, visit: &Visit<'_>) -> Page<'_> {
        let context = self.wire.text(
            None,
            "Target.createBrowserContext",
            json!({}),
            "browserContextId",
        );
        let target = self.wire.text(
            None,
            "Target.createTarget",
            json!({"url": "about:blank", "browserContextId": context}),
            "targetId",
        );
        let session = self.wire.text(
            None,
            "Target.attachToTarget",
            json!({"targetId": target, "flatten": true}),
            "sessionId",
        );
        let page_name = page.to_owned();
        let page = Page {
            browser: self,
            name: page_name,
            context,
            events: self.wire.listen(&session),
            session,
            heard: Mutex::default(),
            scripts: visit.scripts,
        };
        for domain in ["Page", "Runtime", "Log", "Network"] {
            page.send(&format!("{domain}.enable"), json!({}));
        }
        let choice = format!("localStorage.setItem('mdbook-theme', '{}')", visit.theme);
        page.send(
            "Page.addScriptToEvaluateOnNewDocument",
            json!({"source": choice}),
        );
        page.prefer(visit.media);
        page.send(
            "Emulation.setScriptExecutionDisabled",
            json!({"value": !visit.scripts}),
        );
        page.resize(visit.window);
        let name = page.name.clone();
        page.go(&name);
        page
    }
}

/// A page in its tab. The tab closes with it.
pub(crate) struct Page<'a> {
    browser: &'a Browser,
    name: String,
    context: String,
    session: String,
    events: Receiver<Value>,
    heard: Mutex<Vec<Value>>,
    scripts: bool,
}

impl Drop for Page<'_> {
    fn drop(&mut self) {
        let close = json!({"browserContextId": self.context});
        let _ = self
            .browser
            .wire
            .call(None, "Target.disposeBrowserContext", close);
        self.browser.wire.forget(&self.session);
    }
}

impl Page<'_> {
    /// Sends a command of the DevTools protocol for this tab.
    #[track_caller]
    pub(crate) fn send(&self, method: &str, params: Value) -> Value {
        self.browser
            .wire
            .call(Some(&self.session), method, params)
            .unwrap_or_else(|error| panic!("{}: {method}: {error}", self.name))
    }

    /// Goes to another page of the book, and waits until it stands.
    #[track_caller]
    pub(crate) fn go(&self, page: &str) {
        let file = self.browser.book.join(page.split('#').next().unwrap());
        assert!(file.is_file(), "there is no {}", file.display());
        self.heard.lock().unwrap().extend(self.events.try_iter());
        let url = format!("{}{page}", self.root());
        let answer = self.send("Page.navigate", json!({"url": url}));
        assert!(answer["errorText"].is_null(), "{url}: {answer}");
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let event = self.events.recv_timeout(left);
            let event = event.unwrap_or_else(|_| panic!("{url} never finishes loading"));
            let loaded = event["method"] == "Page.loadEventFired";
            self.heard.lock().unwrap().push(event);
            if loaded {
                break;
            }
        }
        self.settle();
    }

    /// Waits until the fonts are there and what changed is painted.
    #[track_caller]
    pub(crate) fn settle(&self) {
        if !self.scripts {
            // No promise is ever kept there. A picture is only taken of what is painted.
            self.wait_until("document.fonts.status === 'loaded'");
            self.picture([0.0, 0.0, 1.0, 1.0]);
            return;
        }
        self.evaluate(
            "document.fonts.ready.then(() => new Promise(painted =>
                requestAnimationFrame(() => requestAnimationFrame(() => painted(null)))))",
        );
    }

    /// The value of a JavaScript expression, or of the promise that it is.
    #[track_caller]
    pub(crate) fn evaluate(&self, expression: &str) -> Value {
        let answer = self.send(
            "Runtime.evaluate",
            json!({"expression": expression, "awaitPromise": true, "returnByValue": true}),
        );
        let exception = &answer["exceptionDetails"];
        assert!(
            exception.is_null(),
            "{}: {expression}\n{exception:#}",
            self.name
        );
        answer["result"]["value"].clone()
    }

    /// The value of a JavaScript function, given these arguments.
    #[track_caller]
    pub(crate) fn call(&self, function: &str, arguments: &[Value]) -> Value {
        let arguments: Vec<String> = arguments.iter().map(Value::to_string).collect();
        self.evaluate(&format!("({function})({})", arguments.join(", ")))
    }

    /// Waits until a JavaScript expression is true.
    #[track_caller]
    pub(crate) fn wait_until(&self, expression: &str) {
        let end = Instant::now() + Duration::from_secs(20);
        while self.evaluate(&format!("Boolean({expression})")) != json!(true) {
            assert!(Instant::now() < end, "{}: never {expression}", self.name);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until whatever slides or fades has come to its end.
    #[track_caller]
    pub(crate) fn rest(&self) {
        self.settle();
        self.evaluate(
            "Promise.allSettled(document.getAnimations().map(moves => moves.finished)).then(() => null)",
        );
        self.settle();
    }

    /// What the reader's system asks for: media features and their values.
    #[track_caller]
    pub(crate) fn prefer(&self, media: &[(&str, &str)]) {
        let features: Vec<Value> = media
            .iter()
            .map(|(name, value)| json!({"name": name, "value": value}))
            .collect();
        self.send("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    /// Gives the window another size, in CSS pixels. A narrow window is a phone's: it has a touch
    /// screen, and its scroll bars take no room.
    #[track_caller]
    pub(crate) fn resize(&self, (width, height): (u32, u32)) {
        let phone = width < 600;
        self.send(
            "Emulation.setDeviceMetricsOverride",
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone}),
        );
        self.send(
            "Emulation.setTouchEmulationEnabled",
            json!({"enabled": phone}),
        );
    }

    /// Shows the page in another theme, without loading it again.
    #[track_caller]
    pub(crate) fn wear(&self, theme: &str) {
        self.call(
            "theme => {
                if (!document.querySelector('#at-once')) {
                    const style = document.createElement('style');
                    style.id = 'at-once';
                    style.textContent = '* { transition: none !important }';
                    document.head.append(style);
                }
                document.getElementById(`mdbook-theme-${theme}`).click();
            }",
            &[json!(theme)],
        );
        assert!(self.wears(theme), "{} does not wear {theme}", self.name);
        self.settle();
    }

    /// Whether the page shows itself in this theme.
    #[track_caller]
    pub(crate) fn wears(&self, theme: &str) -> bool {
        let wears = "theme => document.documentElement.classList.contains(theme)";
        self.call(wears, &[json!(theme)]) == json!(true)
    }

    /// The middle of the first element that matches, after scrolling it into view.
    #[track_caller]
    pub(crate) fn middle(&self, selector: &str) -> (f64, f64) {
        let point = self.call(
            "selector => {
                const element = document.querySelector(selector);
                if (!element) return null;
                element.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'});
                const box = element.getBoundingClientRect();
                return [box.x + box.width / 2, box.y + box.height / 2];
            }",
            &[json!(selector)],
        );
        match (point[0].as_f64(), point[1].as_f64()) {
            (Some(x), Some(y)) => (x, y),
            _ => panic!("{} has no {selector}", self.name),
        }
    }

    #[track_caller]
    fn mouse(&self, kind: &str, (x, y): (f64, f64), pressed: bool) {
        let left = if kind == "mouseMoved" && !pressed {
            "none"
        } else {
            "left"
        };
        self.send(
            "Input.dispatchMouseEvent",
            json!({"type": kind, "x": x, "y": y, "button": left,
                "buttons": u8::from(pressed), "clickCount": 1}),
        );
    }

    /// Moves the mouse to the middle of the first element that matches.
    #[track_caller]
    pub(crate) fn hover(&self, selector: &str) {
        self.mouse("mouseMoved", self.middle(selector), false);
    }

    /// Clicks in the middle of the first element that matches.
    #[track_caller]
    pub(crate) fn click(&self, selector: &str) {
        self.drag(self.middle(selector), (0.0, 0.0));
    }

    /// Presses the mouse at a point of the window, moves it and lets it go.
    #[track_caller]
    pub(crate) fn drag(&self, (x, y): (f64, f64), (right, down): (f64, f64)) {
        self.mouse("mouseMoved", (x, y), false);
        self.mouse("mousePressed", (x, y), true);
        if (right, down) != (0.0, 0.0) {
            for step in 1..=4 {
                let part = f64::from(step) / 4.0;
                self.mouse("mouseMoved", (x + right * part, y + down * part), true);
            }
        }
        self.mouse("mouseReleased", (x + right, y + down), false);
    }

    /// Taps with a finger on the middle of the first element that matches.
    #[track_caller]
    pub(crate) fn tap(&self, selector: &str) {
        let (x, y) = self.middle(selector);
        self.send(
            "Input.dispatchTouchEvent",
            json!({"type": "touchStart", "touchPoints": [{"x": x, "y": y}]}),
        );
        self.send(
            "Input.dispatchTouchEvent",
            json!({"type": "touchEnd", "touchPoints": []}),
        );
    }

    /// Puts the focus on the first element that matches.
    #[track_caller]
    pub(crate) fn focus(&self, selector: &str) {
        let focused = self.call(
            "selector => {
                const element = document.querySelector(selector);
                element.focus();
                return document.activeElement === element;
            }",
            &[json!(selector)],
        );
        assert_eq!(
            focused,
            json!(true),
            "{}: {selector} takes no focus",
            self.name
        );
    }

    /// Presses a key: a character, or a key's name such as `ArrowLeft`, `Tab`, `Shift+Tab`,
    /// `Enter`, `Escape`, `Home`.
    #[track_caller]
    pub(crate) fn press(&self, key: &str) {
        let (modifiers, key) = match key.strip_prefix("Shift+") {
            Some(key) => (8, key),
            None => (0, key),
        };
        let named = [
            ("Backspace", 8, ""),
            ("Tab", 9, ""),
            ("Enter", 13, "\r"),
            ("Escape", 27, ""),
            ("PageUp", 33, ""),
            ("PageDown", 34, ""),
            ("End", 35, ""),
            ("Home", 36, ""),
            ("ArrowLeft", 37, ""),
            ("ArrowUp", 38, ""),
            ("ArrowRight", 39, ""),
            ("ArrowDown", 40, ""),
            ("Delete", 46, ""),
        ];
        let mut event = json!({"type": "keyDown", "key": key, "modifiers": modifiers});
        match named.iter().find(|(name, ..)| *name == key) {
            Some((name, number, text)) => {
                event["code"] = json!(name);
                event["windowsVirtualKeyCode"] = json!(number);
                event["text"] = json!(text);
            }
            None => {
                assert_eq!(key.chars().count(), 1, "there is no key {key}");
                let code = key.to_ascii_uppercase().bytes().next();
                event["windowsVirtualKeyCode"] = json!(code);
                event["text"] = json!(key);
            }
        }
        self.send("Input.dispatchKeyEvent", event.clone());
        event["type"] = json!("keyUp");
        event["text"] = json!("");
        self.send("Input.dispatchKeyEvent", event);
    }

    /// Enters text of any script where the focus is, as an input method does.
    #[track_caller]
    pub(crate) fn enter(&self, text: &str) {
        self.send("Input.insertText", json!({"text": text}));
    }

    /// A picture of the part of the page that starts at a point and is so wide and so high: PNG in
    /// base64.
    #[track_caller]
    pub(crate) fn picture(&self, [x, y, width, height]: [f64; 4]) -> String {
        let picture = self.send(
            "Page.captureScreenshot",
            json!({"captureBeyondViewport": true, "optimizeForSpeed": true,
                "clip": {"x": x, "y": y, "width": width, "height": height, "scale": 1}}),
        );
        picture["data"].as_str().unwrap().to_owned()
    }

    /// What the page has complained of: errors and warnings in the console, exceptions, requests
    /// that fail, and requests for anything outside the book's folder.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let mut heard = self.heard.lock().unwrap();
        heard.extend(self.events.try_iter());
        heard
            .iter()
            .filter_map(|event| complaint(event, &self.root()))
            .collect()
    }

    /// The address of the book's folder.
    fn root(&self) -> String {
        format!("file://{}/", self.browser.book.display())
    }
}

fn complaint(event: &Value, root: &str) -> Option<String> {
    let params = &event["params"];
    let text = match event["method"].as_str()? {
        "Runtime.consoleAPICalled" => {
            if !["error", "warning", "assert"].contains(&params["type"].as_str()?) {
                return None;
            }
            format!("console: {}", params["args"])
        }
        "Runtime.exceptionThrown" => format!("exception: {}", params["exceptionDetails"]),
        "Log.entryAdded" => {
            let entry = &params["entry"];
            if !["error", "warning"].contains(&entry["level"].as_str()?) {
                return None;
            }
            format!("log: {} {}", entry["text"], entry["url"])
        }
        "Network.requestWillBeSent" => {
            let url = params["request"]["url"].as_str()?;
            if [root, "data:", "blob:"]
                .iter()
                .any(|start| url.starts_with(start))
            {
                return None;
            }
            format!("request: {url}")
        }
        "Network.loadingFailed" if params["canceled"] != true => {
            format!("failed: {}", params["errorText"])
        }
        _ => return None,
    };
    Some(text)
}

/// The wire to a running Chromium: commands go one way, answers and events come back.
struct Wire {
    to: Mutex<PipeWriter>,
    ends: Arc<Ends>,
    next: AtomicU64,
}

/// Who waits at this end of the wire: for the answer to a command, for the events of a session.
#[derive(Default)]
struct Ends {
    answers: Mutex<HashMap<u64, Sender<Value>>>,
    events: Mutex<HashMap<String, Sender<Value>>>,
}

impl Wire {
    /// Starts a Chromium with a fresh profile in this folder.
    fn to(chromium: &Path, profile: &Path) -> Wire {
        if profile.exists() {
            fs::remove_dir_all(profile).unwrap();
        }
        fs::create_dir_all(profile).unwrap();
        let (their_commands, to) = pipe().unwrap();
        let (from, their_answers) = pipe().unwrap();
        let log = profile.join("chromium.log");
        // Chromium reads commands from descriptor 3 and answers on 4.
        let mut program = Command::new("sh")
            .arg("-c")
            .arg(r#"exec "$0" "$@" 3<&0 4>&1 0</dev/null 1>&2"#)
            .arg(chromium)
            .arg(format!("--user-data-dir={}", profile.display()))
            // It shows nothing but this book, and in a container it cannot have its sandbox.
            .args(["--headless", "--no-sandbox", "--remote-debugging-pipe"])
            .args(["--no-first-run", "--disable-gpu", "--disable-dev-shm-usage"])
            .args([
                "--disable-background-networking",
                "--disable-component-update",
            ])
            .args([
                "--disable-sync",
                "--disable-extensions",
                "--disable-lcd-text",
            ])
            .args([
                "--disable-renderer-backgrounding",
                "--disable-background-timer-throttling",
            ])
            .args([
                "--disable-backgrounding-occluded-windows",
                "--force-color-profile=srgb",
            ])
            .arg("--host-resolver-rules=MAP * ~NOTFOUND")
            .arg("about:blank")
            .stdin(Stdio::from(their_commands))
            .stdout(Stdio::from(their_answers))
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap_or_else(|error| panic!("{} cannot be started: {error}", chromium.display()));
        let wire = Wire {
            to: Mutex::new(to),
            ends: Arc::default(),
            next: AtomicU64::new(1),
        };
        let ends = Arc::clone(&wire.ends);
        std::thread::spawn(move || {
            ends.read(from);
            let _ = program.wait();
        });
        if let Err(error) = wire.call(None, "Browser.getVersion", json!({})) {
            let log = fs::read_to_string(&log).unwrap_or_default();
            panic!("{} does not answer: {error}\n{log}", chromium.display());
        }
        wire
    }

    /// Sends a command and waits for the answer.
    fn call(&self, session: Option<&str>, method: &str, params: Value) -> Result<Value, String> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut command = json!({"id": id, "method": method, "params": params});
        if let Some(session) = session {
            command["sessionId"] = json!(session);
        }
        let (sender, answer) = channel();
        self.ends.answers.lock().unwrap().insert(id, sender);
        let mut line = command.to_string().into_bytes();
        line.push(0);
        self.to
            .lock()
            .unwrap()
            .write_all(&line)
            .map_err(|error| format!("Chromium has gone: {error}"))?;
        let answer = answer
            .recv_timeout(PATIENCE)
            .map_err(|_| format!("no answer within {PATIENCE:?}, or Chromium has gone"))?;
        match answer.get("error") {
            Some(error) => Err(error.to_string()),
            None => Ok(answer["result"].clone()),
        }
    }

    /// As [`Wire::call`]; one text of the answer.
    #[track_caller]
    fn text(&self, session: Option<&str>, method: &str, params: Value, key: &str) -> String {
        let answer = self.call(session, method, params);
        let answer = answer.unwrap_or_else(|error| panic!("{method}: {error}"));
        answer[key].as_str().unwrap().to_owned()
    }

    fn listen(&self, session: &str) -> Receiver<Value> {
        let (sender, events) = channel();
        self.ends
            .events
            .lock()
            .unwrap()
            .insert(session.to_owned(), sender);
        events
    }

    fn forget(&self, session: &str) {
        self.ends.events.lock().unwrap().remove(session);
    }
}

impl Ends {
    /// Hands on what arrives until the wire is cut; then nobody waits any longer.
    fn read(&self, from: PipeReader) {
        let mut from = BufReader::new(from);
        let mut message = Vec::new();
        while from
            .read_until(0, &mut message)
            .is_ok_and(|length| length > 0)
        {
            message.pop();
            if let Ok(value) = serde_json::from_slice::<Value>(&message) {
                self.hand_on(value);
            }
            message.clear();
        }
        self.answers.lock().unwrap().clear();
        self.events.lock().unwrap().clear();
    }

    fn hand_on(&self, message: Value) {
        if let Some(id) = message["id"].as_u64() {
            if let Some(sender) = self.answers.lock().unwrap().remove(&id) {
                let _ = sender.send(message);
            }
        } else if let Some(session) = message["sessionId"].as_str()
            && let Some(sender) = self.events.lock().unwrap().get(session)
        {
            let _ = sender.send(message);
        }
    }
}
