//! The book without a mouse, and as a machine reads it out.

use crate::chromium::{PHONE, Page, THEMES, Visit, browser};
use crate::support;
use serde_json::{Value, json};
use std::fs;
use std::time::Duration;

/// What axe-core finds on a page that it has been loaded into, as `rule: elements`.
const VIOLATIONS: &str = "async (rules, others) => {
    const run = await axe.run({exclude: others}, {
        runOnly: rules, resultTypes: ['violations'], elementRef: false });
    return run.violations.map(({id, help, nodes}) => `${id} (${help}): ${nodes.length} × ` +
        nodes.slice(0, 4).map(({target, any, all, none}) =>
            `${target.join(' ')} ${[...any, ...all, ...none].map(({message}) => message).join(' ')}`).join('; '));
}";

/// What mdBook puts around the pages that does not keep to the rules, and why it is left alone.
const OTHERS: [(&str, &str); 1] = [(
    "#mdbook-sidebar-toggle",
    "a label that acts as a button: its aria-label and aria-expanded are not for labels",
)];

/// The tags of the rules that are WCAG 2.2 AA.
const WCAG: [&str; 5] = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];

fn violations(page: &Page<'_>, rules: Value) -> Vec<String> {
    let others = OTHERS.map(|(selector, _)| selector);
    let found = page.call(VIOLATIONS, &[rules, json!(others)]);
    let texts = found.as_array().unwrap().iter();
    texts
        .map(|text| text.as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn pages_keep_to_wcag_2_2_aa() {
    let test = "pages_keep_to_wcag_2_2_aa";
    let Some(browser) = browser(test) else {
        return;
    };
    let Some(axe) = std::env::var_os("BOOK_AXE") else {
        return support::skip(test, "BOOK_AXE does not name axe-core's axe.min.js");
    };
    let axe = fs::read_to_string(&axe).unwrap_or_else(|error| panic!("{}: {error}", axe.display()));
    let mut faults = Vec::new();
    let mut look = |page: &Page<'_>, rules: Value, place: String| {
        let found = violations(page, rules).into_iter();
        faults.extend(found.map(|what| format!("{place}: {what}")));
    };
    for name in browser.chapters() {
        let page = browser.open(&name, &Visit::default());
        page.evaluate(&axe);
        look(&page, json!({"type": "tag", "values": WCAG}), name.clone());
        // What the other themes change is the colours, and what a phone changes is the sizes.
        for theme in &THEMES[1..] {
            page.wear(theme);
            let rules = json!({"type": "rule", "values": ["color-contrast"]});
            look(&page, rules, format!("{name} in {theme}"));
        }
        let phone = Visit {
            window: PHONE,
            ..Visit::default()
        };
        let page = browser.open(&name, &phone);
        page.evaluate(&axe);
        let sizes = ["target-size", "scrollable-region-focusable"];
        let rules = json!({"type": "rule", "values": sizes});
        look(&page, rules, format!("{name} on a phone"));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The boxes of a page that can scroll sideways and do, and those that can and do not: how each is
/// called and whether the keyboard reaches it and it has a name.
const SCROLLERS: &str = "() => {
    const [scrolling, still] = [[], []];
    for (const box of document.querySelectorAll('main *')) {
        if (!/auto|scroll/.test(getComputedStyle(box).overflowX) || !box.checkVisibility()) continue;
        const name = `<${box.localName} class=\"${box.className}\"> ${box.textContent.trim().slice(0, 40)}`;
        const reached = box.tabIndex === 0;
        const named = box.hasAttribute('role') && box.hasAttribute('aria-label');
        (box.scrollWidth > box.clientWidth ? scrolling : still).push([name, reached, named]);
    }
    return [scrolling, still];
}";

#[test]
fn what_scrolls_is_reached_by_the_keyboard_and_nothing_else_is() {
    let Some(browser) = browser("what_scrolls_is_reached_by_the_keyboard_and_nothing_else_is")
    else {
        return;
    };
    let (mut faults, mut scrolling, mut still) = (Vec::new(), 0, 0);
    for name in browser.chapters() {
        let page = browser.open(&name, &Visit::default());
        // A turned phone: what scrolled no longer does, and the other way round.
        for window in [Visit::default().window, PHONE, Visit::default().window] {
            page.resize(window);
            // The table of contents slides away, and the boxes grow as it does.
            page.rest();
            let found = page.call(SCROLLERS, &[]);
            for (boxes, scrolls) in [(&found[0], true), (&found[1], false)] {
                for scroller in boxes.as_array().unwrap() {
                    *(if scrolls { &mut scrolling } else { &mut still }) += 1;
                    if scroller[1] != json!(scrolls) || scroller[2] != json!(scrolls) {
                        faults.push(format!(
                            "{name}, {} wide: {} scrolls: {scrolls}, is reached: {}, has a name: {}",
                            window.0, scroller[0], scroller[1], scroller[2]
                        ));
                    }
                }
            }
        }
    }
    assert!(
        scrolling > 20 && still > 20,
        "{scrolling} boxes scroll, {still} do not"
    );
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Whether this key leads away from the page at hand.
fn turns(page: &Page<'_>, key: &str) -> bool {
    page.evaluate("window.here = true; null");
    page.press(key);
    // Leaving begins with the key: a page that is still there after a moment stays.
    std::thread::sleep(Duration::from_millis(150));
    page.evaluate("window.here") != json!(true)
}

#[test]
fn arrow_keys_turn_the_page_only_when_nothing_else_needs_them() {
    let Some(browser) = browser("arrow_keys_turn_the_page_only_when_nothing_else_needs_them")
    else {
        return;
    };
    let page = browser.open("ch05-multihead.html", &Visit::default());
    page.evaluate("document.querySelector('main').style.width = '150px'; null");
    for kind in ["pre > code", ".table-wrapper", ".math-block"] {
        page.call(
            "kind => {
                document.querySelector('#scroller')?.removeAttribute('id');
                [...document.querySelectorAll(`main ${kind}`)].find(box => box.checkVisibility() &&
                    box.scrollWidth > box.clientWidth + 20).id = 'scroller';
            }",
            &[json!(kind)],
        );
        page.wait_until("document.querySelector('#scroller').tabIndex === 0");
        page.focus("#scroller");
        assert!(!turns(&page, "ArrowRight"), "→ turns the page from {kind}");
        page.wait_until("document.querySelector('#scroller').scrollLeft > 0");
        assert!(!turns(&page, "ArrowLeft"), "← turns the page from {kind}");
    }

    let page = browser.open("ch02-softmax.html", &Visit::default());
    let controls = [
        "<input type=range id=control>",
        "<input id=control value=two>",
        "<select id=control><option>1<option>2</select>",
        "<textarea id=control></textarea>",
        "<figure><button id=control>Reset</button></figure>",
        "<figure><div tabindex=0 role=slider id=control></div></figure>",
        "<p contenteditable id=control>two</p>",
    ];
    for control in controls {
        page.call(
            "html => {
                document.querySelector('#control')?.remove();
                document.querySelector('main').insertAdjacentHTML('afterbegin', html);
            }",
            &[json!(control)],
        );
        page.focus("#control");
        for key in ["ArrowLeft", "ArrowRight"] {
            assert!(!turns(&page, key), "{key} turns the page from {control}");
        }
    }
    page.evaluate("document.activeElement.blur()");
    assert!(turns(&page, "ArrowRight"), "→ no longer turns the page");
}
