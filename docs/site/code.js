// A box in which readers write a function, how it runs, and numbers for the graphs that test it.
'use strict';

/// {element, text(), load(text), mark(line)}. It keeps what is written under a key of the browser's memory; Ctrl + Enter runs it.
function code_box(key, label, run) {
  const lines = make('pre', {class: 'lines', 'aria-hidden': 'true'});
  const mark = (wrong = 0) => lines.replaceChildren(
      ...code.value.split('\n').map((_, i) => make('span', {class: i + 1 === wrong ? 'wrong' : ''}, `${i + 1}\n`)));
  const keep = () => {
    mark();
    memory.set(key, code.value);
  };
  let leaving = false;
  const code = make('textarea', {
    spellcheck: 'false', autocapitalize: 'off', autocomplete: 'off', wrap: 'off', rows: 18, 'aria-label': label,
    oninput: keep, onscroll: () => { lines.scrollTop = code.scrollTop; },
    onkeydown: event => {  // the tab key indents; Escape, then Tab, leaves the box
      if (event.key === 'Escape') leaving = true;
      else if (event.key === 'Tab' && !event.shiftKey && !leaving) {
        event.preventDefault();
        code.setRangeText('  ', code.selectionStart, code.selectionEnd, 'end');
        keep();
      } else if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        run();
      } else if (event.key !== 'Tab') leaving = false;
    },
  });
  const load = text => {
    code.value = text;
    mark();
  };
  return {element: make('div', {class: 'code-box'}, lines, code), text: () => code.value, load, mark};
}

/// What the function `name` of the code returns for each input, null for nothing, computed in a worker that has a time limit. An error has
/// the `line` of the code, if there is one.
async function run_code(code, name, inputs) {
  const kSeconds = 3;
  const source = `${code}\n;onmessage = ({data}) => postMessage(JSON.stringify(data.map(input => ${name}(input) ?? null)));`;
  const address = URL.createObjectURL(new Blob([source], {type: 'text/javascript'})), worker = new Worker(address);
  try {
    return await new Promise((done, fail) => {
      setTimeout(() => fail(new Error(`${name}() has not answered after ${kSeconds} seconds: does a loop never end?`)), 1000 * kSeconds);
      worker.onmessage = ({data}) => {
        try { done(JSON.parse(data)); } catch { fail(new Error('The code must not call postMessage().')); }
      };
      worker.onerror = event => {
        event.preventDefault();
        const message = event.message.replace(/^Uncaught /, ''), in_code = event.lineno <= code.split('\n').length;
        fail(in_code ? Object.assign(new Error(`Line ${event.lineno}: ${message}`), {line: event.lineno}) :
            new Error(`There is no function ${name}, or the code does not end properly: ${message}`));
      };
      worker.postMessage(inputs);
    });
  } finally {
    worker.terminate();
    URL.revokeObjectURL(address);
  }
}

/// A function of numbers from 0 to 1, the same for the same seed (mulberry32).
function random_of(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
