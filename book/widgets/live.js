// The live figures. What a reader changes goes to the chapters' own Rust, compiled to WebAssembly, and
// what it answers takes the place of what stood there. The wire is described in book/widgets/src/page.rs.
(() => {
  'use strict';
  const UNIT = '\x1f', RECORD = '\x1e', GROUP = '\x1d';
  const SVG = 'http://www.w3.org/2000/svg';
  const figures = [...document.querySelectorAll('figure[data-live]')];
  if (figures.length === 0 || window.bookLive) return;
  window.bookLive = true;

  const unpack = async (packed) => {
    const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  };

  const table = (text) => text.split(RECORD).map((record) => record.split(UNIT));

  const enliven = (figure) => {
    const find = (selector) => figure.querySelector(selector);
    const [form, fields, picture] = ['.live-form', '.live-controls', '.live-picture'].map(find);
    const [said, news, numbers] = ['.live-said', '.live-news', '.live-numbers table'].map(find);
    const controls = [...form.querySelectorAll('[data-control]')];
    const outputs = controls.map((control) => form.querySelector(`output[for="${control.id}"]`));
    const spots = document.createElement('div');
    spots.className = 'live-spots';
    spots.setAttribute('role', 'group');
    spots.setAttribute('aria-label', 'Places in the picture');
    let buttons = [], places = [], waiting = 0, speaking = 0, dragged = null;

    const read = (control) => {
      if (control.type === 'checkbox') return control.checked ? 'on' : '';
      if (control.type === 'button') return control.dataset.count;
      // What parts the fields of a message cannot be part of one.
      return control.value.replace(/[\x00-\x1f]/g, ' ');
    };
    const write = (control, value) => {
      if (control.type === 'checkbox') control.checked = value === 'on';
      else if (control.type === 'button') control.dataset.count = value;
      else if (control.value !== value && control !== typed()) control.value = value;
    };
    // A text that is being written is not changed under the writer's hands.
    const typed = () => {
      const field = document.activeElement;
      return field && (field.type === 'text' || field.type === 'number') ? field : null;
    };

    const tell = (text, wrong) => {
      said.textContent = text;
      said.classList.toggle('live-wrong', wrong);
      clearTimeout(speaking);
      speaking = setTimeout(() => { news.textContent = text; }, 700);
    };

    const draw = (quiet) => {
      const start = performance.now();
      let answer;
      try {
        answer = wasm_bindgen.draw(figure.dataset.live, controls.map(read).join(UNIT));
      } catch (error) {
        console.error(error);
        answer = '!The figure has stopped. Load the page again to go on.';
      }
      if (answer[0] !== '=') return tell(answer.slice(1), true);
      const [svg, text, values, shown, idle, rows, places] = answer.slice(1).split(GROUP);
      show(svg);
      values.split(UNIT).forEach((value, i) => write(controls[i], value));
      shown.split(UNIT).forEach((text, i) => {
        if (!outputs[i]) return;
        outputs[i].textContent = text;
        controls[i].setAttribute('aria-valuetext', text);
      });
      idle.split(UNIT).forEach((idle, i) => { controls[i].disabled = idle !== ''; });
      fill(table(rows));
      place(places ? table(places) : []);
      if (!quiet) tell(text, false);
      performance.measure('live ' + figure.dataset.live, { start });
    };

    // Of several changes before the next frame only the last is drawn.
    const redraw = () => {
      cancelAnimationFrame(waiting);
      waiting = requestAnimationFrame(() => draw(false));
    };

    const show = (text) => {
      const named = text.replace('<svg ', `<svg xmlns="${SVG}" `);
      const svg = new DOMParser().parseFromString(named, 'image/svg+xml').documentElement;
      picture.querySelector('svg').replaceWith(document.adoptNode(svg));
    };

    const fill = (rows) => {
      const filled = rows.map((cells, row) => {
        const tr = document.createElement('tr');
        cells.forEach((text, column) => {
          const head = row === 0 || column === 0;
          const cell = document.createElement(head ? 'th' : 'td');
          if (head) cell.scope = row === 0 ? 'col' : 'row';
          // A text of the reader's may run from right to left.
          cell.dir = 'auto';
          cell.textContent = text;
          tr.append(cell);
        });
        return tr;
      });
      const body = document.createElement('tbody');
      body.append(...filled);
      numbers.replaceChildren(body);
    };

    const set = (place) => {
      for (let i = 9; i + 1 < place.length; i += 2) controls[place[i]].value = place[i + 1];
    };

    // One button for each place; those that stay keep the focus.
    const place = (next) => {
      const { width, height } = picture.querySelector('svg').viewBox.baseVal;
      places = next;
      while (buttons.length > places.length) buttons.pop().remove();
      while (buttons.length < places.length) buttons.push(button(buttons.length));
      places.forEach(([used, x, y, w, h, , , , label], i) => {
        const it = buttons[i];
        const whole = [width, height, ...places[i]].join(UNIT);
        if (it.whole === whole) return;
        it.whole = whole;
        const share = (part, whole) => (100 * part) / whole + '%';
        Object.assign(it.style, {
          left: share(x, width), top: share(y, height), width: share(w, width), height: share(h, height),
        });
        it.className = used === 'drag' ? 'live-drag' : '';
        it.setAttribute('aria-label', label);
        if (used === 'on' || used === 'off') it.setAttribute('aria-pressed', used === 'on');
        if (used === 'drag') it.setAttribute('aria-hidden', 'true');
      });
      roam(Math.max(0, buttons.findIndex((it) => it.tabIndex === 0)));
    };

    // Tab reaches one of the places, arrow keys the others.
    const roam = (i) => buttons.forEach((it, j) => {
      it.tabIndex = i === j && places[j][0] !== 'drag' ? 0 : -1;
    });

    const button = (i) => {
      const it = document.createElement('button');
      it.type = 'button';
      it.addEventListener('focus', () => { roam(i); if (places[i][0] === 'point') pick(); });
      it.addEventListener('click', () => pick());
      it.addEventListener('pointerenter', (event) => {
        if (event.pointerType === 'mouse' && places[i][0] === 'point') pick();
      });
      it.addEventListener('keydown', (event) => {
        const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
        if (!step) return;
        event.preventDefault();
        const at = places[i].slice(5, 8).map(Number);
        const near = (grid, row, column) => places.findIndex((p) => +p[5] === grid && +p[6] === row && +p[7] === column);
        let next = near(at[0], at[1] + step[0], at[2] + step[1]);
        // Beyond the edge of a grid lies the next one.
        if (next < 0 && step[1] > 0) next = near(at[0] + 1, at[1], 0);
        if (next < 0 && step[1] < 0) {
          next = places.findLastIndex((p) => +p[5] === at[0] - 1 && +p[6] === at[1]);
        }
        if (next >= 0) buttons[next].focus();
      });
      it.addEventListener('pointerdown', (event) => {
        if (places[i][0] !== 'drag') return;
        event.preventDefault();
        it.setPointerCapture(event.pointerId);
        dragged = event.pointerId;
      });
      it.addEventListener('pointermove', (event) => {
        if (dragged !== event.pointerId) return;
        const svg = picture.querySelector('svg');
        const [box, { width, height }] = [svg.getBoundingClientRect(), svg.viewBox.baseVal];
        const x = ((event.clientX - box.left) / box.width) * width;
        const y = ((event.clientY - box.top) / box.height) * height;
        controls[places[i][9]].value = `${x} ${y}`;
        redraw();
      });
      for (const end of ['pointerup', 'pointercancel']) it.addEventListener(end, () => { dragged = null; });
      const pick = () => {
        if (places[i][0] === 'drag') return;
        set(places[i]);
        redraw();
      };
      spots.append(it);
      return it;
    };

    // A slider runs from its start to its end, or jumps there for those who want nothing to move.
    const run = (button, slider) => {
      const still = matchMedia('(prefers-reduced-motion: reduce)').matches;
      clearInterval(button.running);
      slider.value = still ? slider.max : slider.min;
      redraw();
      if (still) return;
      let at = slider.value;
      button.running = setInterval(() => {
        // The figure may hold it before its end, and the reader may take it.
        if (slider.value !== at || at === slider.max) return clearInterval(button.running);
        slider.stepUp();
        at = slider.value;
        redraw();
      }, 450);
    };

    form.addEventListener('input', redraw);
    form.addEventListener('submit', (event) => event.preventDefault());
    form.addEventListener('click', ({ target }) => {
      if (target.dataset.runs) run(target, document.getElementById(target.dataset.runs));
      if (target.dataset.count !== undefined) {
        target.dataset.count = +target.dataset.count + 1;
        redraw();
      }
    });
    form.addEventListener('reset', () => {
      for (const button of form.querySelectorAll('[data-count]')) button.dataset.count = 0;
      for (const button of form.querySelectorAll('[data-runs]')) clearInterval(button.running);
      // The fields have their values again only after this event.
      setTimeout(redraw);
    });
    picture.append(spots);
    draw(true);
    fields.disabled = false;
    figure.classList.add('live-ready');
  };

  // In a figure the arrow keys are the figure's: they do not turn the page.
  for (const figure of figures) figure.addEventListener('keydown', (event) => event.stopPropagation());

  const start = async () => {
    await wasm_bindgen({ module_or_path: await unpack(window.bookWasm) });
    if (window.bookWeights) {
      const wrong = wasm_bindgen.keep_weights(await unpack(window.bookWeights));
      if (wrong) throw new Error(wrong);
    }
    figures.forEach(enliven);
  };
  start().catch((error) => {
    console.error(error);
    for (const figure of figures) {
      if (figure.classList.contains('live-ready')) continue;
      const hint = figure.querySelector('.live-hint');
      if (hint) hint.textContent = 'This browser cannot run the live figure; the picture and its numbers stay as printed.';
    }
  });
})();
