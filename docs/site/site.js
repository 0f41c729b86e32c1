// What all pages share: elements, the planner's answers, the theme, the search, the blocks of chapters, and which chapters were read.
'use strict';

/// localStorage, where the browser has it: pages from files may not.
const memory = {
  get(key) { try { return localStorage.getItem(`braid.${key}`); } catch { return null; } },
  set(key, value) { try { localStorage.setItem(`braid.${key}`, value); } catch { /* not kept */ } },
};

// ---- elements, numbers, and what the planner answers

const kDrawn = new Set(['svg', 'g', 'rect', 'path', 'line', 'text', 'tspan', 'title']);
/// Attributes whose names begin with "on" are listeners; null, undefined and false are left out, and so are children that are null.
function make(name, attributes = {}, ...children) {
  const made = kDrawn.has(name) ? document.createElementNS('http://www.w3.org/2000/svg', name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value === true ? '' : value);
  }
  made.append(...children.filter(child => child !== null));
  return made;
}

/// Text in which `backticks` quote code, and comments say where numbers come from.
const prose = text => text.replace(/<!--[^>]*-->/g, '').split(/`([^`]+)`/).map((part, i) => i % 2 ? make('code', {}, part) : part);

function time(us) {
  const [unit, divisor] = us >= 1e6 ? ['s', 1e6] : us >= 1e3 ? ['ms', 1e3] : ['µs', 1];
  return `${(us / divisor).toPrecision(3)} ${unit}`;
}
const mebibytes = bytes => `${(bytes / 2 ** 20).toFixed(1)} MiB`;

/// Steps of 1, 2 or 5 times a power of ten, about this many up to `end`.
function ticks(end, count) {
  const power = 10 ** Math.floor(Math.log10(end / count));
  const step = [1, 2, 5, 10].map(k => k * power).find(k => k * count >= end * (1 - 1e-9));
  return Array.from({length: Math.floor(end / step * 1.001) + 1}, (_, i) => i * step);
}

/// The parsed answer of a function of planner.js; throws its message.
async function ask(name, request) {
  const {result, error} = await (window.shared_planner ??= start_planner()).call(name, request);
  if (error) throw new Error(error);
  return typeof result === 'string' ? JSON.parse(result) : result;
}

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
    element.append(make('p', {role: 'alert'}, error.message));
  }
}

// ---- theme

const kThemes = {'': 'System', light: 'Light', dark: 'Dark'};
function apply_theme(theme, page) {
  if (theme) page.documentElement.dataset.theme = theme;
  else delete page.documentElement.dataset.theme;
}
function show_theme(theme) {
  for (const page of [document, ...[...document.querySelectorAll('iframe')].map(frame => frame.contentDocument)]) apply_theme(theme, page);
  const button = document.getElementById('site-theme');
  button.textContent = kThemes[theme];
  button.setAttribute('aria-label', `Theme: ${kThemes[theme]}`);
}
function start_theme() {
  const names = Object.keys(kThemes);
  let theme = memory.get('theme') ?? '';
  if (!(theme in kThemes)) theme = '';
  show_theme(theme);
  document.getElementById('site-theme').onclick = () => {
    theme = names[(names.indexOf(theme) + 1) % names.length];
    memory.set('theme', theme);
    show_theme(theme);
  };
  document.addEventListener('load', ({target}) => {  // the page of a plan has no themes but the system's
    if (target.tagName !== 'IFRAME') return;
    target.contentDocument.head.prepend(make('link', {rel: 'stylesheet', href: `${root()}style.css`}));
    apply_theme(theme, target.contentDocument);
  }, true);
}

// ---- search

const kFound = 12;
const root = () => document.querySelector('.site-header').dataset.root;

/// Loads search.js, once; it is large, and most readers of a page do not search.
const index = () => index.loaded ??= new Promise((done, failed) => {
  const section = (page, title, [anchor, heading, text]) => (
    {address: anchor ? `${page}#${encodeURIComponent(anchor)}` : page, heading, title, text, low: `${title} ${heading} ${text}`.toLowerCase()});
  const onload = () => done(SEARCH.flatMap(entry => {
    if (typeof entry === 'string') return section(`src/${entry}.html`, entry, ['', entry, '']);
    const [page, title, sections] = entry;
    return sections.map(one => section(page, title, one));
  }));
  document.head.append(make('script', {src: `${root()}search.js`, onload, onerror: () => failed(new Error('search.js is missing'))}));
});

/// Sections with all words: first those whose headings have them, and documents before headers before sources.
function matches(sections, words) {
  const found = [];
  for (const section of sections) {
    if (!words.every(word => section.low.includes(word))) continue;
    const heading = section.heading.toLowerCase();
    let rank = section.address.startsWith('api/') ? 1 : section.address.startsWith('src/') ? 0 : 3;
    if (heading === words.join(' ')) rank += 8;
    for (const word of words) rank += heading.startsWith(word) ? 4 : heading.includes(word) ? 3 : 0;
    found.push({section, rank});
  }
  return found.sort((a, b) => b.rank - a.rank).slice(0, kFound).map(({section}) => section);
}

function shown(section, words, number) {
  const at = Math.max(0, section.text.toLowerCase().indexOf(words[0]) - 40);
  const excerpt = `${section.title === section.heading ? '' : `${section.title}: `}${at ? '…' : ''}${section.text.slice(at, at + 150).trim()}`;
  const pattern = new RegExp(`(${words.map(word => word.replace(/[^\w\s]/g, '\\$&')).join('|')})`, 'i');
  return make('li', {id: `found-${number}`, role: 'option'}, make('a', {href: root() + section.address, tabindex: -1},
      make('b', {}, section.heading), ...excerpt.split(pattern).map((part, i) => i % 2 ? make('mark', {}, part) : part)));
}

function start_search() {
  const input = document.getElementById('site-search'), list = document.getElementById('site-found');
  let chosen = 0;
  const choose = number => {
    chosen = Math.max(0, Math.min(number, list.children.length - 1));
    for (const [i, item] of [...list.children].entries()) item.setAttribute('aria-selected', i === chosen);
    if (list.children.length) input.setAttribute('aria-activedescendant', list.children[chosen].id);
    list.children[chosen]?.scrollIntoView({block: 'nearest'});
  };
  const open = is_open => { list.hidden = !is_open; input.setAttribute('aria-expanded', is_open); };
  const find = async () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const sections = words.length ? matches(await index(), words) : [];
    if (words.join() !== input.value.toLowerCase().split(/\s+/).filter(Boolean).join()) return;  // typed meanwhile
    list.replaceChildren(...sections.map((section, i) => shown(section, words, i)));
    if (words.length && !sections.length) list.innerHTML = '<li role="option">Nothing found</li>';
    choose(0);
    open(words.length > 0);
  };
  input.onfocus = () => { index(); find(); };
  input.oninput = find;
  input.onkeydown = event => {
    const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
    if (step) { choose(chosen + step); event.preventDefault(); }
    else if (event.key === 'Enter') list.children[chosen]?.querySelector('a')?.click();
    else if (event.key === 'Escape') { open(false); input.blur(); }
  };
  addEventListener('keydown', event => {
    if (event.key !== '/' || event.ctrlKey || event.metaKey || event.target.closest?.('input, textarea, select, [contenteditable]')) return;
    event.preventDefault();
    input.focus();
  });
  addEventListener('pointerdown', event => { if (!event.target.closest('.find')) open(false); });
  list.onclick = () => open(false);
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
  start_search();
  start_progress();
  const side = document.querySelector('.side'), current = side?.querySelector('[aria-current]');
  if (current) side.scrollTop = current.offsetTop - side.clientHeight / 2;
  const blocks = [...document.querySelectorAll('.block[data-kind]')];
  await Promise.all(blocks.map(mount));
  if (document.body.classList.contains('site')) document.body.dataset.ready = 'yes';
});
