// What pages with charts share: the page of a plan and the report of runs.
'use strict';

addEventListener('error', event => {
  document.title = 'error';
  document.getElementById('errors').textContent += `${event.message} (line ${event.lineno}) `;
});

const $ = id => document.getElementById(id);
const SVG = 'http://www.w3.org/2000/svg';

/// A new SVG element.
function draw(parent, name, attributes = {}, text, element = document.createElementNS(SVG, name)) {
  set(element, attributes);
  if (text !== undefined) element.textContent = text;
  return parent.appendChild(element);
}
function set(element, attributes) {
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
}

// ---- numbers as text

function time(us, digits = 3) {
  if (us >= 1e6) return `${+(us / 1e6).toPrecision(digits)} s`;
  if (us >= 1e3) return `${+(us / 1e3).toPrecision(digits)} ms`;
  return `${+us.toPrecision(digits)} µs`;
}
function bytes(count) {
  const units = ['B', 'KiB', 'MiB', 'GiB'];
  let unit = 0;
  for (; count >= 1024 && unit < 3; ++unit) count /= 1024;
  return `${unit === 0 ? count : +count.toPrecision(count >= 1000 ? 4 : 3)} ${units[unit]}`;
}
const ratio = number => number.toFixed(2);
const escaped = text => String(text).replace(/[&<>]/g, c => ({'&': '&amp;', '<': '&lt;', '>': '&gt;'}[c]));
const fits = (text, pixels, perLetter = 7) => text.length * perLetter + 8 <= pixels;
const plural = (count, word) => `${count} ${word}${count === 1 ? '' : 's'}`;

/// Steps of 1, 2 or 5 times a power of ten, about this many of them in a range.
function ticks(from, to, count) {
  const rough = Math.max(to - from, 1e-9) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(k => k * power).find(s => s >= rough);
  const list = [];
  for (let k = Math.ceil(from / step); k * step <= to; ++k) list.push(k * step);
  return list;
}

// ---- charts

const kHues = [210, 145, 275, 25, 320, 180, 95, 245];
const hue = job => job < kHues.length ? kHues[job] : (job * 137.5) % 360;
const kLeft = 108, kRight = 16;
const width_of = chart => chart.clientWidth || 1200;
const pixels = chart => width_of(chart) - kLeft - kRight;
const redraws = [];
let scheduled = false;
function redraw() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => { scheduled = false; for (const each of redraws) each(); });
}

// ---- details

function rows(list) {
  return `<table>${list.filter(([, value]) => value !== '' && value !== undefined)
      .map(([name, value]) => `<tr><td>${name}</td><td>${escaped(value)}</td></tr>`).join('')}</table>`;
}
function place_tooltip(event) {
  const tooltip = $('tooltip'), box = tooltip.getBoundingClientRect();
  tooltip.style.left = `${Math.max(4, Math.min(event.clientX + 16, innerWidth - box.width - 8))}px`;
  tooltip.style.top = `${event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 12
                                                                       : event.clientY + 18}px`;
}
