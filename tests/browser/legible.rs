//! The figures' text, measured as it is painted.

use crate::chromium::{Browser, Page, THEMES, Visit, browser};
use crate::support::skip;
use binder::han;
use serde_json::{Value, json};

/// Leaves nothing on the page but its figures, and says how high they stand; 0 without figures.
const FIGURES_ALONE: &str = "() => {
    if (!document.querySelector('figure svg text')) return 0;
    const style = document.createElement('style');
    style.textContent = `
        #mdbook-sidebar, #mdbook-menu-bar, #mdbook-menu-bar-hover-placeholder, .nav-wrapper, .nav-wide-wrapper,
        main > :not(figure, :has(figure)) { display: none !important }
        .without-text svg text, .without-text svg text * {
            fill: transparent !important; stroke: transparent !important }`;
    document.head.append(style);
    document.querySelectorAll('details').forEach(details => details.open = true);
    scrollTo(0, 0);
    return Math.ceil(document.querySelector('main').getBoundingClientRect().bottom) + 20;
}";

/// The contrast of every text in the figures, as `[text, contrast, colour, background]`: that of
/// its colour with the palest or darkest thing painted behind one of its strokes.
///
/// The two pictures show the window with the texts and without them. Where they differ there is
/// text, and the second shows what is behind it.
const CONTRASTS: &str = "async (inked, bare) => {
    const pixels = async picture => {
        const image = new Image();
        image.src = `data:image/png;base64,${picture}`;
        await image.decode();
        const canvas = new OffscreenCanvas(image.width, image.height);
        const context = canvas.getContext('2d');
        context.drawImage(image, 0, 0);
        return context.getImageData(0, 0, image.width, image.height);
    };
    const [ink, paper] = [await pixels(inked), await pixels(bare)];
    const at = (image, x, y) => image.data.subarray(4 * (y * image.width + x), 4 * (y * image.width + x) + 3);
    const linear = c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    const luminance = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
    const contrast = (a, b) => {
        const [low, high] = [luminance(a), luminance(b)].sort((a, b) => a - b);
        return (high + 0.05) / (low + 0.05);
    };
    const distance = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
    // Any CSS colour as red, green, blue and opacity.
    const brush = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
    const rgba = colour => {
        brush.clearRect(0, 0, 1, 1);
        brush.fillStyle = colour;
        brush.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = brush.getImageData(0, 0, 1, 1).data;
        return [r, g, b, a / 255];
    };
    const found = [];
    for (const part of document.querySelectorAll('figure svg text, figure svg text tspan')) {
        const words = [...part.childNodes].filter(node => node.nodeType === 3 && node.data.trim());
        if (!words.length) continue;
        const style = getComputedStyle(part);
        const [r, g, b, alpha] = rgba(style.fill);
        let opacity = alpha * style.fillOpacity;
        for (let box = part; box; box = box.parentElement) opacity *= getComputedStyle(box).opacity;
        let [least, behind, painted] = [Infinity, null, 0];
        for (const word of words) {
            const range = document.createRange();
            range.selectNodeContents(word);
            for (const box of range.getClientRects()) {
                const [right, bottom] = [Math.min(box.right, ink.width), Math.min(box.bottom, ink.height)];
                for (let y = Math.max(0, Math.floor(box.top)); y < bottom; y++)
                    for (let x = Math.max(0, Math.floor(box.left)); x < right; x++) {
                        const back = at(paper, x, y);
                        const full = [r, g, b].map((c, i) => c * opacity + back[i] * (1 - opacity));
                        const share = distance(at(ink, x, y), back) / distance(full, back);
                        // An edge that is half covered counts, a blurred one does not.
                        if (!(share > 0.5)) continue;
                        painted++;
                        const here = contrast(full, back);
                        if (here < least) [least, behind] = [here, [...back]];
                    }
            }
        }
        const text = words.map(word => word.data.trim()).join(' ');
        const figure = part.closest('figure').id;
        found.push([`${figure} “${text}”`, painted ? least : 1, [r, g, b], behind]);
    }
    return found;
}";

/// The contrasts of all text in the figures of a page that shows nothing else.
fn contrasts(page: &Page<'_>, window: (u32, u32)) -> Vec<Value> {
    let window = [0.0, 0.0, f64::from(window.0), f64::from(window.1)];
    let inked = page.picture(window);
    let texts = |show: bool| {
        page.call(
            "without => document.documentElement.classList.toggle('without-text', without)",
            &[json!(!show)],
        );
        page.settle();
    };
    texts(false);
    let bare = page.picture(window);
    texts(true);
    let found = page.call(CONTRASTS, &[json!(inked), json!(bare)]);
    found.as_array().unwrap().clone()
}

/// What is illegible on a page, and how many texts were measured.
fn illegible(browser: &Browser, name: &str, visit: &Visit<'_>) -> (Vec<String>, usize) {
    let page = browser.open(name, visit);
    // What the page's own scripts would have done on loading they have not; ours may run now.
    page.send(
        "Emulation.setScriptExecutionDisabled",
        json!({"value": false}),
    );
    let high = page.call(FIGURES_ALONE, &[]);
    let high = u32::try_from(high.as_u64().unwrap_or(0)).unwrap();
    if high == 0 {
        return (Vec::new(), 0);
    }
    let window = (visit.window.0, high);
    page.resize(window);
    // Without scripts, the reader's system chooses.
    let themes = if visit.scripts {
        &THEMES[..]
    } else {
        &["light", "dark"]
    };
    let (mut faults, mut measured) = (Vec::new(), 0);
    for theme in themes {
        if visit.scripts {
            page.wear(theme);
        } else {
            page.prefer(&[("prefers-color-scheme", theme)]);
            page.settle();
        }
        for found in contrasts(&page, window) {
            measured += 1;
            let contrast = found[1].as_f64().unwrap();
            let is_chinese = !han::named(found[0].as_str().unwrap()).is_empty();
            if is_chinese && found[3].is_null() {
                skip(
                    &format!("the contrast of {}", found[0]),
                    "no font has its glyphs",
                );
            } else if contrast < 4.5 {
                faults.push(format!(
                    "{name} in {theme}: {} has {contrast:.2}, {} on {}",
                    found[0], found[2], found[3]
                ));
            }
        }
    }
    (faults, measured)
}

/// Fails if any text of any figure, visited so, is illegible, or if there are not so many.
fn assert_legible(browser: &Browser, visit: &Visit<'_>, least: usize) {
    let (mut faults, mut measured) = (Vec::new(), 0);
    for name in browser.chapters() {
        let (found, texts) = illegible(browser, &name, visit);
        faults.extend(found);
        measured += texts;
    }
    assert!(measured >= least, "only {measured} texts were measured");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_text_of_every_figure_has_contrast_in_every_theme() {
    let test = "every_text_of_every_figure_has_contrast_in_every_theme";
    if let Some(browser) = browser(test) {
        assert_legible(browser, &Visit::default(), 5000);
    }
}

#[test]
fn every_text_of_every_figure_has_contrast_without_scripts() {
    let test = "every_text_of_every_figure_has_contrast_without_scripts";
    let Some(browser) = browser(test) else {
        return;
    };
    let visit = Visit {
        scripts: false,
        ..Visit::default()
    };
    assert_legible(browser, &visit, 2000);
}

#[test]
fn every_text_of_every_figure_has_contrast_in_the_systems_own_colours() {
    let test = "every_text_of_every_figure_has_contrast_in_the_systems_own_colours";
    let Some(browser) = browser(test) else {
        return;
    };
    for scheme in ["light", "dark"] {
        let visit = Visit {
            scripts: false,
            media: &[
                ("forced-colors", "active"),
                ("prefers-color-scheme", scheme),
            ],
            ..Visit::default()
        };
        assert_legible(browser, &visit, 1000);
    }
}
