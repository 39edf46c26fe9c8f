//! The book without a mouse, and as a machine reads it out.

use crate::chromium::{PHONE, Page, THEMES, Visit, browser};
use crate::support;
use serde_json::{Value, json};
use std::fs;

/// What axe-core finds on a page that it has been loaded into, as `rule: elements`.
const VIOLATIONS: &str = "async (rules, others) => {
    const run = await axe.run({exclude: others}, {
        runOnly: rules, resultTypes: ['violations'], elementRef: false });
    return run.violations.map(({id, help, nodes}) => `${id} (${help}): ${nodes.length} × ` +
        nodes.slice(0, 4).map(({target, any, all, none}) =>
            `${target.join(' ')} ${[...any, ...all, ...none].map(({message}) => message).join(' ')}`).join('; '));
}";

/// The tags of the rules that are WCAG 2.2 AA.
const WCAG: [&str; 5] = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];

fn violations(page: &Page<'_>, rules: Value) -> Vec<String> {
    let found = page.call(VIOLATIONS, &[rules, json!([])]);
    let texts = found.as_array().unwrap().iter();
    texts.map(|text| text.as_str().unwrap().to_owned()).collect()
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
    for name in browser.chapters() {
        for window in [Visit::default().window, PHONE] {
            let page = browser.open(&name, &Visit { window, ..Visit::default() });
            page.evaluate(&axe);
            let found = violations(&page, json!({"type": "tag", "values": WCAG}));
            faults.extend(found.into_iter().map(|what| format!("{name}, {} wide: {what}", window.0)));
            if window == PHONE {
                continue;
            }
            for theme in &THEMES[1..] {
                page.wear(theme);
                let found = violations(&page, json!({"type": "rule", "values": ["color-contrast"]}));
                faults.extend(found.into_iter().map(|what| format!("{name} in {theme}: {what}")));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The boxes of a page that can scroll sideways and do, and those that can and do not: how each is
/// called and whether the keyboard reaches it and it has a name.
const SCROLLERS: &str = "() => {
    const [scrolling, still] = [[], []];
    for (const box of document.querySelectorAll('main *')) {
        if (!/auto|scroll/.test(getComputedStyle(box).overflowX) || !box.clientWidth) continue;
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
            page.settle();
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
    assert!(scrolling > 20 && still > 20, "{scrolling} boxes scroll, {still} do not");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Whether this key leads away from the page at hand.
fn turns(page: &Page<'_>, key: &str) -> bool {
    page.evaluate("window.here = true; null");
    page.press(key);
    // Leaving begins with the key: a page that is still there after a moment stays.
    std::thread::sleep(std::time::Duration::from_millis(150));
    page.evaluate("window.here") != json!(true)
}

#[test]
fn arrow_keys_turn_the_page_only_when_nothing_else_needs_them() {
    let Some(browser) = browser("arrow_keys_turn_the_page_only_when_nothing_else_needs_them")
    else {
        return;
    };
    // On a phone's width every kind of box scrolls somewhere in these.
    let visit = Visit { window: PHONE, ..Visit::default() };
    let mut kinds = ["pre > code", ".table-wrapper", ".math-block"].map(|kind| (kind, false));
    for name in browser.chapters() {
        let page = browser.open(&name, &visit);
        for (kind, seen) in &mut kinds {
            let scrolling = page.call(
                "kind => {
                    const box = [...document.querySelectorAll(`main ${kind}`)]
                        .find(box => box.scrollWidth > box.clientWidth + 60);
                    if (box) box.id = 'scroller';
                    return Boolean(box);
                }",
                &[json!(kind)],
            );
            if *seen || scrolling == json!(false) {
                continue;
            }
            *seen = true;
            page.focus("#scroller");
            assert!(!turns(&page, "ArrowRight"), "{name}: → turns the page from {kind}");
            page.wait_until("document.querySelector('#scroller').scrollLeft > 0");
            assert!(!turns(&page, "ArrowLeft"), "{name}: ← turns the page from {kind}");
            page.evaluate("document.querySelector('#scroller').removeAttribute('id'); null");
        }
    }
    assert!(kinds.iter().all(|(_, seen)| *seen), "on no page scroll: {kinds:?}");

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
