// What scrolls sideways can be reached and scrolled with the keyboard, and its arrow keys are its
// own: mdBook would turn the page.
(() => {
    "use strict";

    const main = document.querySelector("main");
    const kinds = [
        ["pre > code.language-text", "Output"],
        ["pre > code:not(.language-text)", "Code"],
        [".table-wrapper", "Table"],
        [".math-block", "Formula"],
        [".diagram", "Diagram"],
    ];

    const scrolls = box =>
        box.scrollWidth > box.clientWidth && /auto|scroll/.test(getComputedStyle(box).overflowX);

    // Only while it scrolls: a stop where nothing can be done would be in the way.
    const mark = (box, name) => {
        if (scrolls(box)) {
            box.tabIndex = 0;
            box.setAttribute("role", "group");
            box.setAttribute("aria-label", `${name}, scrolls sideways`);
        } else {
            box.removeAttribute("tabindex");
            box.removeAttribute("role");
            box.removeAttribute("aria-label");
        }
    };

    const boxes = new Map();
    for (const [selector, name] of kinds) {
        for (const box of main.querySelectorAll(selector)) boxes.set(box, name);
    }
    const resized = new ResizeObserver(entries => {
        for (const { target } of entries) mark(target, boxes.get(target));
    });
    for (const box of boxes.keys()) resized.observe(box);
    // A face that arrives makes lines longer in boxes that stay as they are.
    document.fonts.addEventListener("loadingdone", () => boxes.forEach((name, box) => mark(box, name)));

    main.addEventListener("keydown", event => {
        if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
        let box = event.target;
        const isOwn = box.closest("figure, input, select, textarea, [contenteditable]");
        while (box !== main && !scrolls(box)) box = box.parentElement;
        if (isOwn || box !== main) event.stopPropagation();
    });
})();
