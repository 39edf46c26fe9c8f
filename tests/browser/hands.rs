//! What the other tests rely on: that hands reach the page, and that its complaints are heard.

use crate::chromium::{PHONE, Visit, browser};
use serde_json::json;

/// Puts a field, a slider and a board on the page, and writes down what happens to them.
const PROBE: &str = "() => {
    document.querySelector('main').innerHTML = `<input id=field>
        <input id=slider type=range min=0 max=10 value=5>
        <div id=board style='width: 200px; height: 100px'></div>`;
    window.happened = [];
    for (const kind of ['pointerover', 'pointerdown', 'pointerup', 'click', 'touchstart'])
        document.querySelector('#board').addEventListener(kind, event =>
            happened.push(`${kind} ${Math.round(event.offsetX ?? 0)}`));
}";

#[test]
fn hands_reach_the_page() {
    let Some(browser) = browser("hands_reach_the_page") else {
        return;
    };
    let page = browser.open("preface.html", &Visit::default());
    page.call(PROBE, &[]);
    page.hover("#board");
    page.click("#board");
    let (x, y) = page.middle("#board");
    page.drag((x, y), (40.0, 0.0));
    page.settle();
    assert_eq!(
        page.evaluate("happened"),
        json!([
            "pointerover 100",
            "pointerdown 100",
            "pointerup 100",
            "click 100",
            "pointerdown 100",
            "pointerup 140",
            "click 140"
        ])
    );

    page.focus("#field");
    page.enter("今天");
    page.press("a");
    page.press("Backspace");
    page.press("b");
    page.press("Tab");
    page.press("ArrowRight");
    assert_eq!(
        page.evaluate("[field.value, slider.value, document.activeElement.id]"),
        json!(["今天b", "6", "slider"])
    );
    page.press("Shift+Tab");
    assert_eq!(page.evaluate("document.activeElement.id"), json!("field"));

    let phone = Visit {
        window: PHONE,
        ..Visit::default()
    };
    let page = browser.open("preface.html", &phone);
    page.call(PROBE, &[]);
    page.tap("#board");
    page.wait_until("happened.some(what => what.startsWith('touchstart'))");
    page.wait_until("happened.some(what => what.startsWith('click'))");
}

#[test]
fn complaints_of_a_page_are_heard() {
    let Some(browser) = browser("complaints_of_a_page_are_heard") else {
        return;
    };
    let faults = [
        ("console.error('oh')", "console: "),
        ("console.warn('oh')", "console: "),
        ("setTimeout(() => { throw new Error('oh') })", "exception: "),
        ("Promise.reject(new Error('oh'))", "exception: "),
        ("new Image().src = 'missing.png'", "failed: "),
        (
            "new Image().src = 'https://example.com/a.png'",
            "request: https://example.com/a.png",
        ),
        ("new Image().src = '../outside.png'", "request: file://"),
    ];
    for (fault, complaint) in faults {
        let page = browser.open("preface.html", &Visit::default());
        assert_eq!(page.complaints(), [""; 0]);
        page.evaluate(&format!("{fault}; null"));
        let heard = (0..100).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            let heard = page.complaints();
            heard.iter().any(|heard| heard.starts_with(complaint))
        });
        assert!(heard, "{fault}: {:?}", page.complaints());
    }
}
