//! Every page is quiet, fits a phone, and needs no scripts to be read.

use crate::chromium::{PHONE, THEMES, Visit, browser};
use serde_json::json;

#[test]
fn pages_are_quiet_in_every_theme_and_ask_for_nothing_outside_the_book() {
    let Some(browser) =
        browser("pages_are_quiet_in_every_theme_and_ask_for_nothing_outside_the_book")
    else {
        return;
    };
    let mut complaints = Vec::new();
    // Every theme is one of those that pages open in; in the others, what is open is shown.
    for (name, opened_in) in browser.pages().iter().zip(THEMES.iter().cycle()) {
        let visit = Visit {
            theme: opened_in,
            ..Visit::default()
        };
        let page = browser.open(name, &visit);
        // The table of contents stands in another page, and has no theme of its own.
        if name != "toc.html" {
            assert!(page.wears(opened_in), "{name} does not open in {opened_in}");
            for theme in THEMES {
                page.wear(theme);
            }
        }
        let heard = page.complaints().into_iter();
        complaints.extend(heard.map(|what| format!("{name}, opened in {opened_in}: {what}")));
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// What hangs over the right edge of the page. mdBook lets a box around the text scroll in place of
/// the window, which to a reader is the same.
const OVERHANG: &str = "() => {
    const page = [document.scrollingElement, document.body];
    for (let box = document.querySelector('main'); box; box = box.parentElement) page.push(box);
    const widest = page.filter(Boolean).find(box => box.scrollWidth > Math.min(box.clientWidth, innerWidth));
    if (!widest) return [];
    const over = [...document.querySelectorAll('main *')].filter(element => {
        for (let box = element.parentElement; box.localName !== 'main'; box = box.parentElement)
            if (getComputedStyle(box).overflowX !== 'visible') return false;
        return element.getBoundingClientRect().right > innerWidth + 0.5;
    });
    return [`${widest.localName} is ${widest.scrollWidth} wide in ${widest.clientWidth}`, ...over.slice(0, 5).map(element =>
        `<${element.tagName.toLowerCase()} class=\"${element.className}\"> ${element.textContent.trim().slice(0, 60)}`)];
}";

#[test]
fn pages_never_scroll_sideways_on_a_phone() {
    let Some(browser) = browser("pages_never_scroll_sideways_on_a_phone") else {
        return;
    };
    let mut wide = Vec::new();
    for name in browser.pages() {
        let visit = Visit {
            window: PHONE,
            ..Visit::default()
        };
        let page = browser.open(&name, &visit);
        assert_eq!(
            page.evaluate("innerWidth"),
            json!(PHONE.0),
            "{name} was laid out for a wider window"
        );
        let over = page.call(OVERHANG, &[]);
        if over != json!([]) {
            wide.push(format!("{name}: {over:#}"));
        }
    }
    assert!(wide.is_empty(), "{}", wide.join("\n"));
}

/// What of a page cannot be seen: a text, figure or formula without extent, or one that something
/// else lies upon.
const UNSEEN: &str = "() => {
    const faults = [];
    const main = document.querySelector('main');
    if (main.innerText.trim().length < 300) faults.push(`only ${main.innerText.trim().length} characters`);
    for (const part of main.querySelectorAll('p, h1, h2, pre > code, figure svg, math, figcaption')) {
        // A figure's controls wait for its script.
        if (part.closest('details, html:not(.js) .live-form')) continue;
        const box = part.getBoundingClientRect();
        const says = `${part.localName} ${part.textContent.trim().slice(0, 40)}`;
        if (!part.textContent.trim() && !part.querySelector('img')) continue;
        if (box.width < 2 || box.height < 2) { faults.push(`no extent: ${says}`); continue; }
        part.scrollIntoView({block: 'center', behavior: 'instant'});
        const now = part.getBoundingClientRect();
        const top = document.elementFromPoint(
            Math.min(Math.max(now.left + 1, 1), innerWidth - 2), Math.min(Math.max(now.top + now.height / 2, 0), innerHeight - 2));
        if (!top || !main.contains(top)) faults.push(`covered by ${top?.className}: ${says}`);
    }
    return faults;
}";

#[test]
fn pages_can_be_read_without_scripts() {
    let Some(browser) = browser("pages_can_be_read_without_scripts") else {
        return;
    };
    let mut faults = Vec::new();
    for name in browser.chapters() {
        let visit = Visit {
            scripts: false,
            ..Visit::default()
        };
        let page = browser.open(&name, &visit);
        assert_eq!(
            page.evaluate("document.documentElement.classList.contains('js')"),
            json!(false),
            "scripts run"
        );
        for window in [visit.window, PHONE] {
            page.resize(window);
            page.settle();
            for fault in page.call(UNSEEN, &[]).as_array().unwrap() {
                faults.push(format!("{name}, {} wide: {fault}", window.0));
            }
        }
        let heard = page.complaints().into_iter();
        faults.extend(heard.map(|what| format!("{name}: {what}")));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// What would be cut off on paper, or is too pale for it.
const UNPRINTED: &str = "() => {
    const faults = [];
    const brush = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
    const luminance = (...colours) => {
        brush.fillStyle = '#fff';
        brush.fillRect(0, 0, 1, 1);
        for (const colour of colours) {
            brush.fillStyle = colour;
            brush.fillRect(0, 0, 1, 1);
        }
        const [r, g, b] = [...brush.getImageData(0, 0, 1, 1).data].map(c =>
            (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    for (const part of document.querySelectorAll('main *')) {
        if (!part.checkVisibility() || part.closest('svg, .buttons')) continue;
        const says = `<${part.localName} class=\"${part.className}\"> ${part.textContent.trim().slice(0, 50)}`;
        const style = getComputedStyle(part);
        if (part.getBoundingClientRect().right > innerWidth + 1
            || style.overflowX !== 'visible' && part.scrollWidth > part.clientWidth + 1)
            faults.push(`cut off: ${says}`);
        if (![...part.childNodes].some(node => node.nodeType === 3 && node.data.trim())) continue;
        const behind = [];
        for (let box = part; box; box = box.parentElement) behind.unshift(getComputedStyle(box).backgroundColor);
        const [low, high] = [luminance(...behind), luminance(...behind, style.color)].sort((a, b) => a - b);
        const contrast = (high + 0.05) / (low + 0.05);
        if (contrast < 4.5) faults.push(`contrast ${contrast.toFixed(2)}: ${says}`);
        if (luminance(...behind) < 0.5) faults.push(`dark: ${says}`);
    }
    return faults;
}";

#[test]
fn pages_print_black_on_white_and_whole() {
    let Some(browser) = browser("pages_print_black_on_white_and_whole") else {
        return;
    };
    let mut faults = Vec::new();
    for name in browser.chapters() {
        // A4 at 96 dots per inch, within Chromium's margins.
        let visit = Visit {
            window: (718, 1000),
            ..Visit::default()
        };
        let page = browser.open(&name, &visit);
        page.send("Emulation.setEmulatedMedia", json!({"media": "print"}));
        for theme in ["light", "navy"] {
            page.wear(theme);
            for fault in page.call(UNPRINTED, &[]).as_array().unwrap() {
                faults.push(format!("{name} in {theme}: {fault}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn chinese_words_are_found_by_the_search() {
    let Some(browser) = browser("chinese_words_are_found_by_the_search") else {
        return;
    };
    // A word of the text, one that stands in none, and a word of another script as before.
    for (word, is_there) in [
        ("注意力", true),
        ("遮罩", true),
        ("天气", true),
        ("龘龘", false),
        ("softmax", true),
    ] {
        let page = browser.open("preface.html", &Visit::default());
        page.press("s");
        page.wait_until("document.activeElement.id === 'mdbook-searchbar'");
        page.enter(word);
        // The book asks its index when a key is released, once that is loaded.
        page.wait_until("!document.querySelector('#mdbook-searchbar-outer.searching')");
        page.evaluate("document.activeElement.dispatchEvent(new KeyboardEvent('keyup'))");
        page.wait_until(
            "/result/.test(document.querySelector('#mdbook-searchresults-header').innerText)",
        );
        let found = page.evaluate(
            "[...document.querySelectorAll('#mdbook-searchresults li a')].map(link => link.href)",
        );
        let found = found.as_array().unwrap();
        assert_eq!(!found.is_empty(), is_there, "{word}: {found:?}");
        assert_eq!(page.complaints(), [""; 0], "{word}");
    }
}
