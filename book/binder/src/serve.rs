//! Serving the book on this machine, and binding it again when something changes.

use crate::cargo;
use anyhow::{Context, Result, anyhow};
use notify_debouncer_mini::new_debouncer;
use notify_debouncer_mini::notify::RecursiveMode;
use percent_encoding::percent_decode_str;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, SystemTime};
use tiny_http::{Method, Request, Server};

/// What the pages are made of.
const WATCHED: [&str; 5] = [
    "book",
    "chapters",
    "tests/snapshots",
    "book.toml",
    "Cargo.toml",
];

/// Where a page asks whether there is a newer book.
const VERSION: &str = "/.version";

/// The book on a port of this machine.
pub struct Site {
    server: Server,
    book: PathBuf,
    version: Arc<Version>,
}

impl Site {
    /// A site that shows the book bound in `book`.
    ///
    /// # Errors
    /// If the port is not free.
    pub fn open(book: &Path, port: u16) -> Result<Self> {
        let server = Server::http(("127.0.0.1", port))
            .map_err(|error| anyhow!("{error}"))
            .with_context(|| {
                format!("cannot serve on port {port}; another one is chosen with --port")
            })?;
        Ok(Site {
            server,
            book: book.to_owned(),
            version: Arc::default(),
        })
    }

    /// The site's address.
    pub fn address(&self) -> String {
        match self.server.server_addr().to_ip() {
            Some(address) => format!("http://{address}/"),
            None => String::new(),
        }
    }

    /// What to tell when there is a newer book.
    pub fn version(&self) -> Arc<Version> {
        Arc::clone(&self.version)
    }

    /// Answers requests until the program ends.
    pub fn run(self) {
        for request in self.server.incoming_requests() {
            let (book, version) = (self.book.clone(), Arc::clone(&self.version));
            // A slow reader keeps nobody waiting.
            thread::spawn(move || {
                // A browser that has gone away needs no answer.
                let _ = answer(request, &book, &version);
            });
        }
    }
}

/// The number of times that the book has been bound.
#[derive(Debug, Default)]
pub struct Version {
    number: AtomicU64,
}

impl Version {
    /// Tells all pages to load themselves again.
    pub fn advance(&self) {
        self.number.fetch_add(1, Ordering::Relaxed);
    }

    fn current(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }
}

fn answer(request: Request, book: &Path, version: &Version) -> std::io::Result<()> {
    if !matches!(request.method(), Method::Get | Method::Head) {
        return send(request, "405 Method Not Allowed", "text/plain", Vec::new());
    }
    let url = request.url().to_owned();
    let path = url.split_once('?').map_or(&*url, |(path, _)| path);
    if path == VERSION {
        let text = version.current().to_string();
        return send(request, "200 OK", "text/plain", text.into_bytes());
    }
    let found = file(book, path).and_then(|file| Some((read(&file)?, content_type(&file))));
    let (status, (mut body, kind)) = match found {
        Some(found) => ("200 OK", found),
        None => {
            let page = fs::read(book.join("404.html"));
            let page = page.unwrap_or_else(|_| b"<body><p>There is no such page.</body>".to_vec());
            ("404 Not Found", (page, content_type(Path::new("404.html"))))
        }
    };
    if kind.starts_with("text/html") {
        body = with_reload(body, version.current());
    }
    send(request, status, kind, body)
}

/// Answers and has the browser close the connection. tiny_http can leave a new connection waiting for
/// a thread until an old one is closed, and browsers keep theirs open as long as they may.
fn send(request: Request, status: &str, kind: &str, body: Vec<u8>) -> std::io::Result<()> {
    let without_body = *request.method() == Method::Head;
    let length = body.len();
    let mut writer = request.into_writer();
    write!(
        writer,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )?;
    if !without_body {
        writer.write_all(&body)?;
    }
    writer.flush()
}

/// The file of the book that an address names; nothing if it lies outside.
fn file(book: &Path, path: &str) -> Option<PathBuf> {
    let path = percent_decode_str(path).decode_utf8().ok()?;
    let mut file = book.to_owned();
    for part in path.split('/').filter(|part| !part.is_empty()) {
        if part == "." || part == ".." || part.contains(['\\', ':', '\0']) {
            return None;
        }
        file.push(part);
    }
    if path.ends_with('/') {
        file.push("index.html");
    }
    Some(file)
}

/// A file's content. While a newer book takes the place of the older there is none for a moment.
fn read(file: &Path) -> Option<Vec<u8>> {
    if let Ok(content) = fs::read(file) {
        return Some(content);
    }
    thread::sleep(Duration::from_millis(50));
    fs::read(file).ok()
}

fn content_type(file: &Path) -> &'static str {
    match file.extension().and_then(|ending| ending.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("json") => "application/json",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("ico") => "image/x-icon",
        Some("woff2") => "font/woff2",
        Some("woff") => "font/woff",
        Some("wasm") => "application/wasm",
        Some("txt" | "md") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

/// The page with a script that loads it again when there is a newer book. It asks again and again, and
/// only while it can be seen: a browser keeps few connections to one place, and a question that stayed
/// open in each of many tabs would leave none for their pages.
fn with_reload(page: Vec<u8>, version: u64) -> Vec<u8> {
    let Ok(page) = String::from_utf8(page) else {
        return Vec::new();
    };
    let script = format!(
        "<script>(async () => {{ for (;;) {{ \
         await new Promise(done => setTimeout(done, 500)); \
         if (document.hidden) continue; \
         try {{ const answer = await fetch('{VERSION}'); \
         if (answer.ok && await answer.text() !== '{version}') return location.reload(); \
         }} catch {{}} }} }})();</script>"
    );
    match page.rfind("</body>") {
        Some(end) => format!("{}{script}{}", &page[..end], &page[end..]).into_bytes(),
        None => format!("{page}{script}").into_bytes(),
    }
}

/// Binds the book at `root` again whenever something has changed that it is made of. That is left
/// to cargo, so that a change of the code arrives as well. Returns when it cannot watch any more.
///
/// # Errors
/// If the files cannot be watched.
pub fn rebind_on_change(root: &Path, version: &Version) -> Result<()> {
    let (sender, changes) = mpsc::channel();
    let mut watcher = new_debouncer(Duration::from_millis(200), sender)?;
    // The root for the files in it, which an editor may replace and not only change.
    let mut watched = vec![(root.to_owned(), RecursiveMode::NonRecursive)];
    let folders = WATCHED.iter().map(|path| root.join(path));
    watched.extend(
        folders
            .filter(|path| path.is_dir())
            .map(|path| (path, RecursiveMode::Recursive)),
    );
    for (path, mode) in watched {
        watcher
            .watcher()
            .watch(&path, mode)
            .with_context(|| format!("cannot watch {}", path.display()))?;
    }
    let mut bound = state(root);
    while changes.recv().is_ok() {
        // Being read is an event to some systems; only what differs is a change.
        let now = state(root);
        if now == bound {
            continue;
        }
        bound = now;
        let mut rebind = cargo::command(root);
        rebind.args(["run", "--quiet"]);
        if cfg!(windows) {
            // Windows does not let cargo replace a program that is running: this one.
            rebind.args(["--target-dir", "target/serve"]);
        }
        if rebind.status().context("cannot run cargo")?.success() {
            version.advance();
        }
    }
    Ok(())
}

/// When each of the watched files was changed.
fn state(root: &Path) -> BTreeMap<PathBuf, (SystemTime, u64)> {
    let mut state = BTreeMap::new();
    let mut paths: Vec<PathBuf> = WATCHED.iter().map(|path| root.join(path)).collect();
    while let Some(path) = paths.pop() {
        // A link may lead back to a folder that it lies in: only its own time is looked at.
        let is_link = fs::symlink_metadata(&path).is_ok_and(|data| data.is_symlink());
        if !is_link && let Ok(entries) = fs::read_dir(&path) {
            paths.extend(entries.flatten().map(|entry| entry.path()));
        } else if let Ok(data) = fs::metadata(&path) {
            let changed = data.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            state.insert(path, (changed, data.len()));
        }
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    fn get(address: &str, path: &str) -> String {
        let host = address.trim_start_matches("http://").trim_end_matches('/');
        let mut stream = TcpStream::connect(host).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn pages_are_served_and_load_themselves_again() {
        let folder = tempfile::tempdir().unwrap();
        let book = folder.path().join("book");
        fs::create_dir(&book).unwrap();
        fs::write(folder.path().join("secret.txt"), "secret").unwrap();
        fs::write(book.join("index.html"), "<body>hello</body>").unwrap();
        fs::write(book.join("a b.css"), "p {}").unwrap();
        let site = Site::open(&book, 0).unwrap();
        let (address, version) = (site.address(), site.version());
        assert!(address.starts_with("http://127.0.0.1:"));
        thread::spawn(|| site.run());

        let page = get(&address, "/");
        assert!(
            page.contains("200 OK") && page.contains("hello<script>"),
            "{page}"
        );
        assert!(page.contains("text/html"));
        let style = get(&address, "/a%20b.css?v=1");
        assert!(
            style.contains("text/css") && style.ends_with("p {}"),
            "{style}"
        );
        for path in [
            "/../secret.txt",
            "/%2e%2e/secret.txt",
            "/..%5csecret.txt",
            "/none",
        ] {
            let answer = get(&address, path);
            assert!(
                answer.contains("404") && !answer.contains("secret"),
                "{answer}"
            );
        }
        // Answered at once, old or new.
        assert!(get(&address, "/.version").ends_with('0'));
        version.advance();
        assert!(get(&address, "/.version").ends_with('1'));
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_links_to_itself_is_seen_once() {
        let root = tempfile::tempdir().unwrap();
        let chapters = root.path().join("chapters");
        fs::create_dir(&chapters).unwrap();
        fs::write(chapters.join("a.rs"), "").unwrap();
        std::os::unix::fs::symlink(&chapters, chapters.join("again")).unwrap();
        let files: Vec<_> = state(root.path()).into_keys().collect();
        assert_eq!(files, [chapters.join("a.rs"), chapters.join("again")]);
    }

    #[test]
    fn a_port_that_is_taken_is_an_error() {
        let book = Path::new(".");
        let site = Site::open(book, 0).unwrap();
        let port = site.server.server_addr().to_ip().unwrap().port();
        let error = Site::open(book, port).err().unwrap();
        assert!(format!("{error:#}").contains("--port"));
    }
}
