// Draws DATA (train/report/plan/plan_page.cpp). Every chart keeps its elements and moves them when the view changes.
// This file: what all parts of the page share, beyond basics.js. ready.js comes last.

// ---- what all charts know

const N = DATA.numbers;
const nodes = new Map(DATA.nodes.map(node => [node.id, node]));
const critical = new Set(DATA.critical);
const edges = new Set(DATA.edges.map(([before, after]) => `${before} ${after}`));
const runs = [{name: 'planned', key: 'planned', pace: DATA.pace}];
const measured = N.measured_us !== undefined;
if (measured) runs.push({name: 'measured', key: 'measured', pace: DATA.measured_pace});
const length = ([from, to]) => to - from;
const end = Math.max(...DATA.nodes.flatMap(node => runs.map(run => node[run.key][1])), 1e-9);
const view = {from: 0, to: end};  // of time; shared by the charts that have it

// Jobs that train together have a colour each.
const together = DATA.jobs.length > 1;
const job_class = job => together && job >= 0 ? ' job' : '';
const job_style = job => together && job >= 0 ? {style: `--hue: ${hue(job)}`, 'data-job': job} : {};

// ---- head and numbers

document.title = `${measured ? 'Training' : 'Plan'}: ${DATA.title}`;
$('title').textContent = document.title;
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
       `how long the step really took, by ${DATA.clock}: ${ratio(N.measured_us / N.simulated_us)} times the simulated time`);
}
card('Simulated', 'simulated_us', time(N.simulated_us), 'the plan simulated event by event');
card('One stream', 'one_stream_us', time(N.one_stream_us),
     `the serial plan simulated: ${ratio(N.one_stream_us / N.makespan_us)} times as long as this plan`);
card('Depth D', 'depth_us', time(N.depth_us), 'the longest chain of dependent nodes');
card('Work W', 'work_us', time(N.work_us),
     `of one ${DATA.unit}; W/D: ${(N.work_us / Math.max(N.depth_us, 1e-9)).toPrecision(3)} ${DATA.unit}s could be busy on average`);
card('Streams', 'used_streams', N.used_streams, `in use, of ${N.streams} that the plan could use`);
card('Waits', 'waits', N.waits, 'between streams; order within a stream costs nothing');
card('Arena', 'arena_bytes', bytes(N.arena_bytes),
     `memory for all results, ${bytes(N.workspace_bytes)} of it workspaces`);
card('Naive', 'naive_bytes', bytes(N.naive_bytes), 'if no two results shared bytes');
card('In use at most', 'peak_bytes', bytes(N.peak_bytes), 'at any one time; no arena can be smaller for this order');

// A legend's entry: name, and the style of its mark.
const filled = (name, color) => [name, `background: var(${color})`];
const shade = (name, opacity) => [name, `background: var(--faint); opacity: ${opacity}`];
const jobs = DATA.jobs.map((name, job) => [name, `background: hsl(${hue(job)} var(--job-tone))`]);
const path = ['critical path', 'border-top: 4px solid var(--critical); border-radius: 0; height: 4px; vertical-align: 2px'];
const limit = ['size of the arena', 'border-top: 2px dashed var(--critical); border-radius: 0; height: 5px'];
const legends = {
  phases: together ? [...jobs, shade('forward', 1), shade('backward', 0.62), shade('update', 0.36), path]
                   : [filled('forward', '--forward'), filled('backward', '--backward'), filled('update', '--update'), path],
  pace: [filled('next node waits for a result', '--critical'), filled(`next node waits for a stream or ${DATA.unit}s`, '--faint')],
  memory: together ? [filled('input', '--input'), ...jobs, shade('activation', 1), shade('gradient', 0.62),
                      filled('workspace', '--workspace'), limit]
                   : [filled('input', '--input'), filled('activation', '--activation'), filled('gradient', '--gradient'),
                      filled('workspace', '--workspace'), limit],
  jobs: jobs,
};
for (const legend of document.querySelectorAll('[data-legend]')) {
  legend.innerHTML = legend.dataset.legend.split(' ').flatMap(name => legends[name])
      .map(([name, style]) => `<span><i style="${style}"></i>${escaped(name)}</span>`).join('');
}

// ---- details

const named = node => `${node.op}${node.layer ? `, ${node.layer}` : ''}`;
const span = ([from, to]) => `${time(from, 4)} to ${time(to, 4)} (${time(to - from)})`;

function node_details(node) {
  return `<b>${escaped(node.op)}</b>` + rows([
    ['attributes', node.attributes], ['layer', node.layer], ['job', together ? DATA.jobs[node.job] : ''], ['node', node.id], ['pass', node.phase],
    ['result', node.output], ['planned', span(node.planned)], ['measured', node.measured && span(node.measured)],
    ['stream', node.stream], ['uses', plural(node.width, DATA.unit)], ['implementation', node.implementation], ['alone', time(node.alone)],
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
  if (target) place_tooltip(event);
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

const x_of = (chart, t) => kLeft + (t - view.from) / (view.to - view.from) * pixels(chart);

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
