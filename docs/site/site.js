// What all pages share: the theme, the search, the blocks of chapters, and which chapters were read.
'use strict';

/// localStorage, where the browser has it: pages from files may not.
const memory = {
  get(key) { try { return localStorage.getItem(`braid.${key}`); } catch { return null; } },
  set(key, value) { try { localStorage.setItem(`braid.${key}`, value); } catch { /* not kept */ } },
};

// ---- blocks

/// A block of lines `key: value`, where a line that starts with two spaces continues the value before it, as an object of texts.
function parse_block(text) {
  const spec = {};
  let key = null;
  for (const line of text.split('\n')) {
    const found = /^([\w-]+):\s*(.*)$/.exec(line);
    if (found) spec[key = found[1]] = found[2].trimEnd();
    else if (line.startsWith('  ') && key) spec[key] += `\n${line.slice(2).trimEnd()}`;
    else if (line.trim()) throw new Error(`a block has a line without a key: ${line}`);
  }
  for (const name of Object.keys(spec)) spec[name] = spec[name].replace(/^\n/, '');
  return spec;
}

/// Hands an element's block to the script that shows blocks of its kind.
async function mount(element) {
  const source = element.querySelector('script'), {kind} = element.dataset;
  try {
    if (!window.blocks?.[kind]) throw new Error(`this page has no script for blocks of kind ${kind}`);
    await window.blocks[kind](element, parse_block(source.textContent.replaceAll('<\\/', '</')));
  } catch (error) {
    const message = element.appendChild(document.createElement('p'));
    message.setAttribute('role', 'alert');
    message.textContent = error.message;
  }
}

// ---- theme

const kThemes = {'': 'System', light: 'Light', dark: 'Dark'};
function show_theme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  const button = document.getElementById('theme');
  button.textContent = kThemes[theme];
  button.setAttribute('aria-label', `Theme: ${kThemes[theme]}`);
}
function start_theme() {
  const names = Object.keys(kThemes);
  let theme = memory.get('theme') ?? '';
  if (!(theme in kThemes)) theme = '';
  show_theme(theme);
  document.getElementById('theme').onclick = () => {
    theme = names[(names.indexOf(theme) + 1) % names.length];
    memory.set('theme', theme);
    show_theme(theme);
  };
}

// ---- chapters that were read to their end

function start_progress() {
  const done = new Set(JSON.parse(memory.get('read') ?? '[]'));
  const show = () => {
    for (const item of document.querySelectorAll('[data-chapter]')) item.classList.toggle('done', done.has(item.dataset.chapter));
  };
  show();
  const current = document.querySelector('[data-chapter] [aria-current]')?.closest('[data-chapter]').dataset.chapter;
  const end = document.querySelector('.around');
  if (!current || !end) return;
  new IntersectionObserver(([entry]) => {
    if (!entry.isIntersecting) return;
    done.add(current);
    memory.set('read', JSON.stringify([...done]));
    show();
  }).observe(end);
}

addEventListener('DOMContentLoaded', async () => {
  start_theme();
  start_progress();
  const blocks = [...document.querySelectorAll('.block[data-kind]')];
  await Promise.all(blocks.map(mount));
  if (document.body.classList.contains('site')) document.body.dataset.ready = 'yes';
});
