// Draws DATA (scheduler/plan_page.cpp). Every chart keeps its elements and moves them when the view changes.
'use strict';

addEventListener('error', event => {
  document.title = 'error';
  document.getElementById('errors').textContent += `${event.message} (line ${event.lineno}) `;
});

const $ = id => document.getElementById(id);
const SVG = 'http://www.w3.org/2000/svg';

/// A new SVG element.
function draw(parent, name, attributes = {}, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return parent.appendChild(element);
}
function set(element, attributes) {
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
}

// ---- words for numbers

function time(us, digits = 3) {
  if (us >= 1e6) return `${(us / 1e6).toPrecision(digits)} s`;
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

/// Steps of 1, 2 or 5 times a power of ten, about so many of them in a range.
function ticks(from, to, count) {
  const rough = Math.max(to - from, 1e-9) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(k => k * power).find(s => s >= rough);
  const list = [];
  for (let k = Math.ceil(from / step); k * step <= to; ++k) list.push(k * step);
  return list;
}

// ---- what all charts know

const N = DATA.numbers;
const nodes = new Map(DATA.nodes.map(node => [node.id, node]));
const critical = new Set(DATA.critical);
const runs = [{name: 'planned', key: 'planned', path: critical}];
if (N.measured_us !== undefined) {
  runs.push({name: 'measured', key: 'measured', path: new Set(DATA.measured_critical)});
}
const end = Math.max(...DATA.nodes.flatMap(node => runs.map(run => node[run.key][1])), 1e-9);
const view = {from: 0, to: end};  // of time; shared by the charts that have it
const redraws = [];
const kLeft = 108, kRight = 16;

// ---- head and numbers

$('title').textContent = `Plan: ${DATA.title}`;
document.title = `Plan: ${DATA.title}`;
$('subtitle').textContent = `for ${DATA.device} (${plural(N.capacity, DATA.unit)}), policy ${DATA.policy}, ` +
    `${plural(DATA.nodes.length, 'node')}`;
for (const element of document.querySelectorAll('.unit-plural')) element.textContent = `${DATA.unit}s`;

function card(label, key, text, explanation) {
  const box = document.createElement('div');
  box.innerHTML = `<dt>${label}</dt><dd><b data-number="${key}" data-value="${N[key]}">${text}</b>` +
      `<small>${explanation}</small></dd>`;
  $('cards').append(box);
}
card('Makespan', 'makespan_us', time(N.makespan_us), 'how long the step takes, as planned');
card('Lower bound', 'lower_bound_us', time(N.lower_bound_us),
     `no plan can be faster; this one takes ${ratio(N.makespan_us / N.lower_bound_us)} times as long`);
if (N.measured_us !== undefined) {
  card('Measured', 'measured_us', time(N.measured_us),
       `how long it really took: ${ratio(N.measured_us / N.simulated_us)} times the simulated time`);
}
card('Simulated', 'simulated_us', time(N.simulated_us), 'the plan played event by event');
card('One by one', 'one_by_one_us', time(N.one_by_one_us),
     `the same nodes, one after another; ${ratio(N.one_by_one_us / N.makespan_us)} times as long as the plan`);
card('Depth D', 'depth_us', time(N.depth_us), 'the longest chain of nodes that need each other');
card('Work W', 'work_us', time(N.work_us),
     `of one ${DATA.unit}; W/D: ${(N.work_us / Math.max(N.depth_us, 1e-9)).toPrecision(3)} ${DATA.unit}s could be busy on average`);
card('Streams', 'used_streams', N.used_streams, `in use, of ${N.streams} that the plan could use`);
card('Waits', 'waits', N.waits, 'between streams; all other order is free');
card('Arena', 'arena_bytes', bytes(N.arena_bytes),
     `memory for all results, ${bytes(N.workspace_bytes)} of it workspaces`);
card('Naive', 'naive_bytes', bytes(N.naive_bytes), 'if every result had bytes of its own');
card('In use at most', 'peak_bytes', bytes(N.peak_bytes), 'at any one time: for this order, no arena can be smaller');

const legends = {
  phases: [['forward', '--forward'], ['backward', '--backward'], ['update', '--update'], ['critical path', '--critical']],
  memory: [['input', '--input'], ['activation', '--activation'], ['gradient', '--gradient'],
           ['workspace', '--workspace'], ['size of the arena', '--critical']],
};
for (const legend of document.querySelectorAll('[data-legend]')) {
  legend.innerHTML = legends[legend.dataset.legend]
      .map(([name, color]) => `<span><i style="${
          name === 'critical path' ? `border: 2.5px solid var(${color})` :
          name === 'size of the arena' ? `border-top: 2px dashed var(${color}); border-radius: 0; height: 5px` :
          `background: var(${color})`}"></i>${name}</span>`).join('');
}

// ---- details

function rows(list) {
  return `<table>${list.filter(([, value]) => value !== '' && value !== undefined)
      .map(([name, value]) => `<tr><td>${name}</td><td>${escaped(value)}</td></tr>`).join('')}</table>`;
}
const named = node => `${node.op}${node.layer ? `, ${node.layer}` : ''}`;
const span = ([from, to]) => `${time(from, 4)} to ${time(to, 4)} (${time(to - from)})`;

function node_details(node) {
  return `<b>${escaped(node.op)}</b>` + rows([
    ['layer', node.layer], ['node', node.id], ['pass', node.phase], ['result', node.output],
    ['planned', span(node.planned)], ['measured', node.measured && span(node.measured)], ['stream', node.stream],
    ['uses', plural(node.width, DATA.unit)], ['implementation', node.implementation], ['alone', time(node.alone)],
    ['bottom level', time(node.level)], ['critical path', critical.has(node.id) ? 'yes' : 'no'],
  ]);
}
function memory_details(use) {
  const node = nodes.get(use.node);
  return `<b>${escaped(use.label)}</b>` + rows([
    [use.kind === 'workspace' ? 'used by' : 'written by', node ? named(node) : 'the host, before the step'],
    ['bytes', bytes(use.bytes)], ['addresses', `${use.offset} to ${use.offset + use.bytes}`], ['in use', span(use.time)],
  ]);
}

let lit = [];
function light(id) {
  for (const element of lit) element.classList.remove('lit', 'near');
  lit = id === undefined ? [] : [...document.querySelectorAll(`[data-node="${id}"]`)];
  for (const element of lit) element.classList.add('lit');
  if (id === undefined) return;
  for (const edge of document.querySelectorAll(`[data-from="${id}"], [data-to="${id}"]`)) {
    edge.classList.add('near');
    lit.push(edge);
  }
}
let hovered = null;
addEventListener('mousemove', event => {
  const target = event.target.closest?.('[data-node], [data-use]');
  const tooltip = $('tooltip');
  if (target !== hovered) {
    hovered = target;
    light(target?.dataset.node);
    tooltip.hidden = !target;
    if (target) {
      tooltip.innerHTML = target.dataset.use !== undefined ? memory_details(DATA.memory[target.dataset.use])
                                                           : node_details(nodes.get(+target.dataset.node));
    }
  }
  if (!target) return;
  const box = tooltip.getBoundingClientRect();
  tooltip.style.left = `${Math.max(4, Math.min(event.clientX + 16, innerWidth - box.width - 8))}px`;
  tooltip.style.top = `${event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 12
                                                                       : event.clientY + 18}px`;
});

// ---- zoom and drag

/// Calls zoom(factor, x, y), move(dx, dy) and reset(), in pixels of the chart.
function interact(chart, zoom, move, reset) {
  let last = null;
  chart.addEventListener('wheel', event => {
    event.preventDefault();
    zoom(Math.exp(-event.deltaY * 0.0015), event.offsetX, event.offsetY);
  }, {passive: false});
  chart.addEventListener('pointerdown', event => {
    last = [event.clientX, event.clientY];
    chart.setPointerCapture(event.pointerId);
  });
  chart.addEventListener('pointermove', event => {
    if (!last) return;
    move(event.clientX - last[0], event.clientY - last[1]);
    last = [event.clientX, event.clientY];
  });
  for (const type of ['pointerup', 'pointercancel']) chart.addEventListener(type, () => { last = null; });
  chart.addEventListener('dblclick', reset);
}

const width_of = chart => chart.clientWidth || 1200;
const pixels = chart => width_of(chart) - kLeft - kRight;
const x_of = (chart, t) => kLeft + (t - view.from) / (view.to - view.from) * pixels(chart);

let scheduled = false;
function redraw() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => { scheduled = false; for (const each of redraws) each(); });
}
function look_at(from, to) {
  const length = Math.min(Math.max(to - from, end * 1e-5), end);
  view.from = Math.min(Math.max(from, 0), end - length);
  view.to = view.from + length;
  redraw();
}
function zoom_time(factor, at = (view.from + view.to) / 2) {
  look_at(at - (at - view.from) / factor, at + (view.to - at) / factor);
}
function interact_with_time(chart) {
  interact(chart,
           (factor, x) => zoom_time(factor, view.from + (x - kLeft) / pixels(chart) * (view.to - view.from)),
           dx => {
             const shift = -dx / pixels(chart) * (view.to - view.from);
             look_at(view.from + shift, view.to + shift);
           },
           () => look_at(0, end));
}
for (const button of document.querySelectorAll('[data-zoom]')) {
  button.onclick = () => +button.dataset.zoom ? zoom_time(+button.dataset.zoom) : look_at(0, end);
}

/// A time axis above a chart, and a part of the chart that shows only what is within the axis.
function time_axis(chart, top, bottom) {
  const clip = draw(draw(draw(chart, 'defs'), 'clipPath', {id: `${chart.id}-clip`}), 'rect',
                    {x: kLeft, y: 0, height: bottom + 4});
  const grid = draw(chart, 'g', {class: 'axis'});
  const inside = draw(chart, 'g', {'clip-path': `url(#${chart.id}-clip)`});
  redraws.push(() => {
    clip.setAttribute('width', pixels(chart) + 2);
    grid.replaceChildren();
    for (const t of ticks(view.from, view.to, pixels(chart) / 110)) {
      const x = x_of(chart, t);
      draw(grid, 'line', {class: 'grid', x1: x, x2: x, y1: top - 4, y2: bottom});
      draw(grid, 'text', {x, y: top - 9, 'text-anchor': x > width_of(chart) - 40 ? 'end' : 'middle'}, time(t, 6));
    }
  });
  return inside;
}

// ---- the Gantt chart

(function gantt() {
  const chart = $('gantt-chart');
  const kTop = 30, kRow = 46, kGap = 8, kStrip = 16, kUse = 34;
  const used = Math.max(1, ...DATA.nodes.map(node => node.stream + 1));
  const heading = runs.length > 1 ? 22 : 0;
  const panel = heading + used * (kRow + kGap) + kStrip + kGap + kUse + 14;
  const height = kTop + runs.length * panel;
  chart.setAttribute('height', height);
  const inside = time_axis(chart, kTop, height - 8);
  const pieces = [];  // what moves with the view

  runs.forEach((run, r) => {
    const top = kTop + r * panel + heading;
    const row_of = node => top + node.stream * (kRow + kGap);
    const height_of = node => Math.max(0.34, Math.min(1, node.width / N.capacity)) * kRow;
    const top_of = node => row_of(node) + (kRow - height_of(node));
    if (heading) draw(chart, 'text', {class: 'group-name', x: 12, y: top - 6}, run.name);
    for (let s = 0; s < used; ++s) {
      const y = top + s * (kRow + kGap);
      draw(chart, 'text', {class: 'row-name', x: 12, y: y + kRow / 2 + 4}, `stream ${s}`);
      draw(chart, 'line', {class: 'grid', x1: 0, x2: '100%', y1: y + kRow + kGap / 2, y2: y + kRow + kGap / 2});
    }

    for (const node of DATA.nodes) {
      const marked = run.path.has(node.id) ? ' critical' : '';
      const bar = draw(inside, 'rect', {class: `bar ${node.phase}${marked}`, rx: 3, y: top_of(node), height: height_of(node),
                                        'data-node': node.id, 'data-run': run.key});
      const tall = height_of(node) > 30;
      const first = draw(inside, 'text', {class: 'on-bar', y: top_of(node) + (tall ? 18 : 14)});
      const second = tall ? draw(inside, 'text', {class: 'on-bar second', y: top_of(node) + 33}) : null;
      const [begin, finish] = node[run.key];
      pieces.push(() => {
        const x = x_of(chart, begin), width = x_of(chart, finish) - x;
        set(bar, {x, width: Math.max(width, 0.6)});
        bar.classList.toggle('thin', width < 5);
        const left = Math.max(x, kLeft), room = x + width - left;
        set(first, {x: left + 5});
        first.textContent = fits(node.op, room) ? node.op : '';
        if (!second) return;
        set(second, {x: left + 5});
        second.textContent = fits(node.layer, room, 6.2) ? node.layer : '';
      });
    }

    const waits = draw(inside, 'g', {class: 'waits'});
    for (const [before, after] of DATA.waits) {
      const a = nodes.get(before), b = nodes.get(after);
      const line = draw(waits, 'path', {class: 'wait', 'data-before': before, 'data-after': after, 'data-run': run.key});
      const head = draw(waits, 'path', {class: 'wait head', style: 'fill: var(--wait)'});
      const down = b.stream > a.stream;
      const y1 = down ? row_of(a) + kRow : top_of(a), y2 = down ? top_of(b) : row_of(b) + kRow;
      pieces.push(() => {
        const x1 = x_of(chart, a[run.key][1]), x2 = x_of(chart, b[run.key][0]);
        const bend = (down ? 1 : -1) * 12;
        set(line, {d: `M${x1},${y1} C${x1},${y1 + bend} ${x2},${y2 - bend} ${x2},${y2}`});
        set(head, {d: `M${x2},${y2} l-3,${down ? -6 : 6} l6,0 z`});
      });
    }

    const strip = top + used * (kRow + kGap);
    draw(chart, 'text', {class: 'row-name', x: 12, y: strip + 12}, 'critical path');
    for (const id of run.path) {
      const piece = draw(inside, 'rect', {class: 'strip', y: strip + 3, height: kStrip - 8, 'data-node': id});
      const [begin, finish] = nodes.get(id)[run.key];
      pieces.push(() => set(piece, {x: x_of(chart, begin) + 0.5,
                                    width: Math.max(0.5, x_of(chart, finish) - x_of(chart, begin) - 1)}));
    }

    const use = strip + kStrip + kGap;
    draw(chart, 'text', {class: 'row-name', x: 12, y: use + 14}, `${DATA.unit}s in use`);
    draw(chart, 'text', {class: 'faint', x: 12, y: use + 29}, `of ${N.capacity}`);
    const area = draw(inside, 'path', {class: 'in-use'});
    const changes = DATA.nodes.flatMap(node => [[node[run.key][0], node.width], [node[run.key][1], -node.width]])
        .sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    pieces.push(() => {
      let level = 0, d = `M${kLeft},${use + kUse}`;
      const y = () => use + kUse - Math.min(level / N.capacity, 1) * kUse;
      for (const [t, change] of changes) {
        const x = x_of(chart, t);
        d += `L${x},${y()}`;
        level += change;
        d += `L${x},${y()}`;
      }
      set(area, {d: `${d}Z`});
    });
    if (r > 0) draw(chart, 'line', {class: 'grid', x1: 0, x2: '100%', y1: top - heading - 2, y2: top - heading - 2});
  });

  $('show-waits').onchange = event => {
    for (const group of chart.querySelectorAll('.waits')) group.style.display = event.target.checked ? '' : 'none';
  };
  if (DATA.waits.length > 150) $('show-waits').click();
  redraws.push(() => { for (const piece of pieces) piece(); });
  interact_with_time(chart);
})();

// ---- the memory map

(function memory() {
  const chart = $('memory-chart');
  const kTop = 30, kHeight = 400, height = kTop + kHeight + 14;
  chart.setAttribute('height', height);
  const most = Math.max(N.arena_bytes, 1) * 1.03;
  const y_of = address => kTop + kHeight - address / most * kHeight;
  const inside = time_axis(chart, kTop, kTop + kHeight);
  const axis = draw(chart, 'g', {class: 'axis'});
  const unit = most >= 2 ** 21 ? 2 ** 20 : most >= 2 ** 11 ? 2 ** 10 : 1;
  for (const tick of ticks(0, most / unit, 6)) {
    const y = y_of(tick * unit);
    draw(axis, 'line', {class: 'grid', x1: kLeft - 5, x2: kLeft, y1: y, y2: y});
    draw(axis, 'text', {x: kLeft - 9, y: y + 4, 'text-anchor': 'end'}, bytes(tick * unit));
  }
  const turned = kTop + kHeight / 2;
  draw(axis, 'text', {x: 18, y: turned, 'text-anchor': 'middle', transform: `rotate(-90 18 ${turned})`}, 'address in the arena');

  const pieces = [];
  DATA.memory.forEach((use, index) => {
    const y = y_of(use.offset + use.bytes), tall = y_of(use.offset) - y;
    const rect = draw(inside, 'rect', {class: `use ${use.kind}`, y, height: Math.max(tall, 0.6), 'data-use': index,
                                       ...(use.node >= 0 && {'data-node': use.node})});
    const text = tall > 14 ? draw(inside, 'text', {class: 'on-bar', y: y + Math.min(tall / 2 + 4, 24)}) : null;
    pieces.push(() => {
      const x = x_of(chart, use.time[0]), width = x_of(chart, use.time[1]) - x;
      set(rect, {x, width: Math.max(width, 0.6)});
      if (!text) return;
      const node = nodes.get(use.node);
      const left = Math.max(x, kLeft), room = Math.min(x + width, kLeft + pixels(chart)) - left;
      const candidates = [node ? `${use.kind === 'workspace' ? 'workspace of ' : ''}${named(node)}` : 'input',
                          node ? node.op : '', use.kind];
      set(text, {x: left + 5});
      text.textContent = candidates.find(candidate => fits(candidate, room)) ?? '';
    });
  });
  const line = draw(inside, 'path', {class: 'bytes-line'});
  draw(inside, 'line', {class: 'limit', x1: 0, x2: '100%', y1: y_of(N.arena_bytes), y2: y_of(N.arena_bytes)});
  redraws.push(() => {
    for (const piece of pieces) piece();
    let d = `M${kLeft},${y_of(0)}`, before = 0;
    for (const [t, amount] of DATA.in_use) {
      const x = x_of(chart, t);
      d += `L${x},${y_of(before)}L${x},${y_of(amount)}`;
      before = amount;
    }
    set(line, {d});
  });
  interact_with_time(chart);
})();

// ---- the graph

/// A place for every node: columns by depth, the forward pass to the right, below it the backward pass back to the left,
/// then the updates; within a column, nodes stand near those they are connected with.
function layout() {
  const before = new Map(DATA.nodes.map(node => [node.id, []])), after = new Map(DATA.nodes.map(node => [node.id, []]));
  for (const [from, to] of DATA.edges) {
    before.get(to).push(from);
    after.get(from).push(to);
  }
  const depth = new Map();  // nodes come in a topological order
  for (const {id} of DATA.nodes) depth.set(id, Math.max(-1, ...before.get(id).map(other => depth.get(other))) + 1);

  const turn = Math.max(0, ...DATA.nodes.filter(node => node.phase === 'forward').map(node => depth.get(node.id)));
  const column = new Map();
  for (const {id, phase} of DATA.nodes) {
    const gradients = before.get(id).filter(other => nodes.get(other).phase === 'backward');
    column.set(id, phase === 'forward' ? depth.get(id)
                 : phase === 'update' && gradients.length ? Math.min(...gradients.map(other => column.get(other)))
                                                          : 2 * turn + 1 - depth.get(id));
  }

  const place = new Map();
  let top = 0;
  for (const phase of ['forward', 'backward', 'update']) {
    const columns = new Map();
    for (const node of DATA.nodes.filter(each => each.phase === phase)) {
      const c = column.get(node.id);
      columns.set(c, [...(columns.get(c) ?? []), node.id]);
    }
    if (columns.size === 0) continue;
    const tallest = Math.max(...[...columns.values()].map(list => list.length));
    const arrange = () => {
      for (const [c, list] of columns) {
        list.forEach((id, i) => place.set(id, {column: c, row: top + (tallest - list.length) / 2 + i}));
      }
    };
    arrange();
    const order = [...columns.keys()].sort((a, b) => a - b);
    for (let sweep = 0; sweep < 6; ++sweep) {
      for (const c of sweep % 2 ? [...order].reverse() : order) {
        const wish = id => {
          const near = [...before.get(id), ...after.get(id)].filter(other => nodes.get(other).phase === phase);
          const sum = near.reduce((total, other) => total + place.get(other).row, 0);
          return near.length ? sum / near.length : place.get(id).row;
        };
        const wishes = new Map(columns.get(c).map(id => [id, wish(id)]));
        columns.get(c).sort((a, b) => wishes.get(a) - wishes.get(b));
        arrange();
      }
    }
    top += tallest + 0.8;
  }
  return place;
}

(function graph() {
  const chart = $('graph-chart');
  const kBox = [156, 38], kStep = [196, 54], kMargin = 24;
  const place = layout();
  const first = Math.min(0, ...[...place.values()].map(p => p.column));
  const x = id => kMargin + (place.get(id).column - first) * kStep[0];
  const y = id => kMargin + place.get(id).row * kStep[1];
  const full = {x: 0, y: 0,
                width: 2 * kMargin + kBox[0] + Math.max(0, ...DATA.nodes.map(node => x(node.id) - kMargin)),
                height: 2 * kMargin + kBox[1] + Math.max(0, ...DATA.nodes.map(node => y(node.id) - kMargin))};

  const pairs = new Map();  // of consecutive nodes on the critical path: whether an edge has drawn them
  DATA.critical.slice(1).forEach((id, i) => pairs.set(`${DATA.critical[i]} ${id}`, false));
  const curve = (a, b) => {
    const right = place.get(b).column > place.get(a).column, left = place.get(b).column < place.get(a).column;
    if (!right && !left) {
      const down = y(b) > y(a), x1 = x(a) + kBox[0] / 2, x2 = x(b) + kBox[0] / 2;
      const y1 = y(a) + (down ? kBox[1] : 0), y2 = y(b) + (down ? 0 : kBox[1]);
      const far = Math.abs(y2 - y1) > kStep[1] ? kBox[0] / 2 + 14 : 0;  // around what stands between
      return far ? `M${x(a) + kBox[0]},${y(a) + 19} C${x1 + far + 20},${y(a) + 19} ${x1 + far + 20},${y(b) + 19} ${x(b) + kBox[0]},${y(b) + 19}`
                 : `M${x1},${y1} L${x2},${y2}`;
    }
    const x1 = x(a) + (right ? kBox[0] : 0), x2 = x(b) + (right ? 0 : kBox[0]);
    const bend = (right ? 1 : -1) * Math.min(Math.abs(x2 - x1) / 2 + 10, 120);
    return `M${x1},${y(a) + 19} C${x1 + bend},${y(a) + 19} ${x2 - bend},${y(b) + 19} ${x2},${y(b) + 19}`;
  };
  for (const [from, to] of DATA.edges) {
    const marked = pairs.has(`${from} ${to}`);
    if (marked) pairs.set(`${from} ${to}`, true);
    draw(chart, 'path', {class: `edge${marked ? ' critical' : ''}`, d: curve(from, to), 'data-from': from, 'data-to': to});
  }
  for (const [pair, drawn] of pairs) {
    const [from, to] = pair.split(' ').map(Number);
    if (!drawn) draw(chart, 'path', {class: 'edge critical waited', d: curve(from, to)});
  }
  const shortened = (text, letters) => text.length <= letters ? text : `…${text.slice(text.length - letters + 1)}`;
  for (const node of DATA.nodes) {
    const marked = critical.has(node.id) ? ' critical' : '';
    draw(chart, 'rect', {class: `box ${node.phase}${marked}`, x: x(node.id), y: y(node.id), width: kBox[0], height: kBox[1],
                         'data-node': node.id});
    draw(chart, 'text', {class: 'on-bar', x: x(node.id) + 8, y: y(node.id) + (node.layer ? 16 : 23)}, shortened(node.op, 23));
    draw(chart, 'text', {class: 'on-bar second', x: x(node.id) + 8, y: y(node.id) + 31}, shortened(node.layer, 24));
  }

  // The chart shows a rectangle of the drawing. A small graph is shown whole, of a large one the beginning.
  const kTallest = 760;
  const scale = Math.min(1, Math.max(width_of(chart) / full.width, 0.4));
  chart.setAttribute('height', Math.min(kTallest, Math.max(160, full.height * scale)));
  const shown = {};
  const show = box => { Object.assign(shown, box); chart.setAttribute('viewBox', `${box.x} ${box.y} ${box.width} ${box.height}`); };
  const size = () => [width_of(chart), +chart.getAttribute('height')];
  const whole = () => show(full);
  const factor = () => Math.max(shown.width / size()[0], shown.height / size()[1]);  // units in a pixel
  const zoom = (by, px, py) => {
    // First the rectangle that is really on screen, then the same point under the pointer.
    const [w, h] = size(), old = factor(), now = Math.min(Math.max(old / by, 0.3), 40);
    const left = shown.x + (shown.width - w * old) / 2, top = shown.y + (shown.height - h * old) / 2;
    show({x: left + px * (old - now), y: top + py * (old - now), width: w * now, height: h * now});
  };
  const beginning = () => {
    const [w, h] = size();
    if (full.width * scale <= w + 1 && full.height * scale <= h + 1) return whole();
    const start = Math.max(0, x(DATA.nodes[0].id) - kStep[0]);
    show({x: Math.min(start, Math.max(0, full.width - w / scale)), y: 0, width: w / scale, height: h / scale});
  };
  beginning();
  interact(chart, zoom, (dx, dy) => show({...shown, x: shown.x - dx * factor(), y: shown.y - dy * factor()}), whole);
  for (const button of document.querySelectorAll('[data-graph-zoom]')) {
    button.onclick = () => +button.dataset.graphZoom ? zoom(+button.dataset.graphZoom, size()[0] / 2, size()[1] / 2) : whole();
  }
})();

// ---- the page

for (const each of redraws) each();
addEventListener('resize', redraw);
// As plan.html?show=gantt,graph: these parts alone, for pictures.
const wanted = new URLSearchParams(location.search).get('show')?.split(',');
for (const part of wanted ? document.querySelectorAll('header, section') : []) part.hidden = !wanted.includes(part.id);
if (wanted) {
  document.body.classList.add('picture');
  for (const part of document.querySelectorAll('.hint, .buttons, section > p')) part.hidden = true;
}
document.body.dataset.ready = 'yes';
