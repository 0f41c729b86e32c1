// The schedule step by step, and two policies side by side: what 'braid explain --json' says of the last plan, drawn by hand.
'use strict';

// ---- the state that the address holds; playground.js reads and writes it

const kStepDefaults = {part: '', search: false, step: -1, against: ''};  // step -1: closed
const steps = {...kStepDefaults};
const kNodesDrawn = 150;  // of a graph; more would be too small to see

/// Takes what the address says, and returns the keys of what it may not say.
function restore_steps(saved) {
  Object.assign(steps, kStepDefaults, {part: saved.part ?? '', search: saved.search === 'true'});
  const wrong = 'search' in saved && !['true', 'false'].includes(saved.search) ? ['search'] : [];
  if (/^\d+$/.test(saved.step ?? '')) steps.step = +saved.step;
  else if ('step' in saved) wrong.push('step');
  $('against').value = saved.against ?? '';
  if ($('against').value !== (saved.against ?? '')) wrong.push('against');
  steps.against = $('against').value = $('against').value || '';
  $('steps').open = steps.step >= 0;
  return wrong;
}

const escaped = text => String(text).replace(/[&<>]/g, letter => ({'&': '&amp;', '<': '&lt;', '>': '&gt;'}[letter]));

// ---- charts

function restart(chart, width, height, label) {
  chart.replaceChildren();
  for (const [key, value] of Object.entries({viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': label})) chart.setAttribute(key, value);
}
const redraws = new Map();  // per chart: for another width
const row_name = (row, streams) => row < streams ? `stream ${row}` : `link ${row - streams}`;
/// Bars {node, row, start, finish, width, class} on a row for each stream, then for each link, all of them `capacity` high at most.
function draw_gantt(chart, label, bars, rows, capacity, end, mark, streams = rows) {
  redraws.set(chart, () => draw_gantt(chart, label, bars, rows, capacity, end, mark, streams));
  const kLeft = 66, kTop = 24, kRow = 30, kGap = 6, width = chart.clientWidth || 900, bottom = kTop + rows * (kRow + kGap);
  const x = time => kLeft + time / end * (width - kLeft - 12);
  restart(chart, width, bottom, label);
  chart.setAttribute('height', bottom);
  for (const at of ticks(end, Math.max(2, width / 120))) {
    chart.append(make('line', {class: 'grid', x1: x(at), x2: x(at), y1: kTop - 5, y2: bottom}),
                 make('text', {class: 'faint', x: x(at), y: kTop - 9, 'text-anchor': x(at) > width - 30 ? 'end' : 'middle'}, at === 0 ? '0' : time(at)));
  }
  for (let row = 0; row < rows; ++row) {
    chart.append(make('text', {class: 'row-name', x: 4, y: kTop + row * (kRow + kGap) + 20}, row_name(row, streams)));
  }
  for (const bar of bars) {
    const height = kRow * Math.max(0.4, Math.min(1, bar.width / capacity)), y = kTop + bar.row * (kRow + kGap) + kRow - height;
    const length = Math.max(0.8, x(bar.finish) - x(bar.start)), name = `${bar.node.node} ${bar.node.op}`;
    const shown = [name, String(bar.node.node)].find(text => text.length * 7 + 8 < length);
    chart.append(make('rect', {class: `bar ${bar.class}`, x: x(bar.start), y, width: length, height, rx: 3, 'data-node': bar.node.node},
                      make('title', {}, `${name} ${bar.node.layer}: ${time(bar.start)} to ${time(bar.finish)}`)),
                 shown ? make('text', {class: 'on-bar', x: x(bar.start) + 4, y: kTop + bar.row * (kRow + kGap) + kRow - 5}, shown) : '');
  }
  if (mark !== undefined) chart.append(make('line', {class: 'now', x1: x(mark), x2: x(mark), y1: kTop - 5, y2: bottom}));
}

/// Columns by the longest path of nodes before; `state(node)` is a class.
function draw_graph(chart, nodes, state) {
  const kColumn = 46, kRow = 30, places = new Map(), rows = [];
  for (const node of nodes) {  // in topological order
    const column = Math.max(-1, ...node.after.map(before => places.get(before)?.column ?? -1)) + 1;
    rows[column] = (rows[column] ?? 0) + 1;
    places.set(node.node, {column, row: rows[column] - 1});
  }
  const most = Math.max(...rows), width = rows.length * kColumn, height = most * kRow;
  const at = id => {
    const {column, row} = places.get(id);
    return {x: (column + 0.5) * kColumn, y: (row + 0.5 + (most - rows[column]) / 2) * kRow};
  };
  restart(chart, width, height, 'The graph: nodes that are done, running, ready and not ready');
  chart.style.maxWidth = `${width * 1.6}px`;
  for (const node of nodes) {
    for (const before of node.after) {
      const from = at(before), to = at(node.node), middle = (from.x + to.x) / 2;
      chart.append(make('path', {class: 'edge', d: `M${from.x + 15},${from.y}C${middle},${from.y} ${middle},${to.y} ${to.x - 15},${to.y}`}));
    }
  }
  for (const node of nodes) {
    const {x, y} = at(node.node);
    const box = {class: `box ${node.pass} ${state(node.node)}`, x: x - 15, y: y - 10, width: 30, height: 20, 'data-node': node.node};
    chart.append(make('rect', box, make('title', {}, `${node.node} ${node.op} ${node.layer}`)),
                 make('text', {class: state(node.node), x, y: y + 4, 'text-anchor': 'middle'}, node.node));
  }
}

// ---- step by step

let told = null;        // the parsed answer of 'explain'
let told_of = null;     // the part that it explains
let playing = 0, has_plan = false;
const nodes_by_id = explanation => new Map(explanation.nodes.map(node => [node.node, node]));
const bar_of = (node, row, {implementation, start_us, finish_us}, is_chosen) => ({
  node, row, start: start_us, finish: finish_us, width: node.implementations[implementation].width, class: node.pass + (is_chosen ? ' chosen' : '')});

const is_open = () => $('steps').open;
const step_slider = () => $('step');

/// Asks for what the section shows, if it is open and shows something else.
async function refresh_steps(planned) {
  if (planned) { has_plan = true; told_of = null; }
  if (!has_plan || !is_open() || told_of === steps.part) return;
  stop_playing();
  told_of = steps.part;
  $('step-text').textContent = 'Explaining.';
  const answer = await call('explain', {block: steps.part, policies: ['list', 'critical_path']});
  if (answer.error) {
    told = null;
    $('step-errors').textContent = answer.error;
    $('step-text').textContent = '';
    return;
  }
  $('step-errors').textContent = '';
  told = JSON.parse(answer.result);
  for (const plan of told.plans) plan.decisions = decisions_of(plan.picks ?? []);
  const parts = $('part');
  if (steps.part === '' || parts.options.length === 1) {
    parts.replaceChildren(new Option('the whole step', ''), ...told.blocks.map(name => new Option(name)));
  }
  parts.value = steps.part;
  show_steps();
}

/// The starts, each with the nodes that were then passed over at the same time.
function decisions_of(picks) {
  const decisions = [];
  let ready = [];
  for (const pick of picks) {
    ready = pick.ready ?? ready;  // only changes are listed
    if (pick.started || decisions.at(-1)?.time_us !== pick.time_us) decisions.push({...pick, ready, refused: []});
    if (!pick.started) decisions.at(-1).refused.push(pick);
  }
  return decisions;
}
function shown_plan() {
  const plan = told.plans[steps.search ? 1 : 0];
  return plan.picks ? plan : told.plans[0];
}

/// Draws the state after as many decisions as the slider says.
function show_steps() {
  if (!told) return;
  const plan = shown_plan(), count = plan.decisions.length;
  steps.step = Math.max(0, Math.min(steps.step, count));
  step_slider().max = count;
  step_slider().value = steps.step;
  const pick = steps.step > 0 ? plan.decisions[steps.step - 1] : null;
  $('step-count').textContent = `${steps.step} of ${count}`;
  step_slider().setAttribute('aria-valuetext', `decision ${steps.step} of ${count}`);
  for (const [id, name] of [['plain', false], ['searched', true]]) $(id).setAttribute('aria-pressed', String(steps.search === name));
  $('step-back').disabled = $('step-first').disabled = steps.step === 0;
  $('step-next').disabled = $('step-last').disabled = steps.step === count;
  show_decision(plan, pick);
  show_ready(plan, pick);
  show_growth(plan, pick);
  show_search(plan);
  save();
}

/// Why the step that is planned may take another time than a schedule of an explanation.
const other_times = ({links}) =>
    (links > 0 ? 'These are the times of one rank, as if it never waited for another; the step above includes such waits. ' : '') +
    (+controls.limit.value > 0 ? 'To keep the memory limit, the plan may run fewer nodes at a time than these decisions do. ' : '');

const unit_name = count => `${count} ${told.unit}${count === 1 ? '' : 's'}`;
const sentence = text => text.charAt(0).toUpperCase() + text.slice(1) + (text.endsWith('.') ? '' : '.');
const in_words = us => us.replace(/([\d.]+) us/g, '$1 µs');

/// Nodes with the same reason are listed together.
function refusals(picks) {
  const kShown = 6, by_reason = new Map();
  for (const {node, why} of picks) by_reason.set(why, [...(by_reason.get(why) ?? []), node]);
  return [...by_reason].map(([why, nodes]) => {
    const more = nodes.length > kShown ? ` and ${nodes.length - kShown} more` : '';
    return `${nodes.slice(0, kShown).join(', ')}${more}: ${why}`;
  }).join('; ');
}

function show_decision(plan, pick) {
  const rows = [], by_id = nodes_by_id(told), name = node => `${node.node} ${node.op}${node.layer ? ` (${node.layer})` : ''}`;
  if (!pick) {
    const {nodes, capacity, streams} = told;
    $('step-text').innerHTML = `<b>Before the first decision.</b> ${nodes.length} nodes wait to be scheduled on ${unit_name(capacity)} and ${streams} streams: ` +
        `${escaped(plan.rule)}. ${steps.search ? '' : other_times(told)}`;
    return;
  }
  const node = by_id.get(pick.node), place = plan.placements.find(each => each.node === pick.node);
  rows.push(['Free', `${unit_name(Math.max(0, pick.free_units))} and ${pick.free_streams} stream${pick.free_streams === 1 ? '' : 's'}`]);
  if (pick.started) {
    rows.push(['Why this node', pick.why]);
    if (place.stream < told.streams) rows.push(['Why this width', pick.width], ['Why this stream', `stream ${place.stream}${place.why ? `, ${place.why}` : ''}`]);
    else rows.push(['Where', `${row_name(place.stream, told.streams)}, as the node communicates`]);
  }
  if (pick.refused.length > 0) rows.push(['Not now', refusals(pick.refused)]);
  $('step-text').innerHTML = `<b>At ${time(pick.time_us)}, node ${escaped(name(node))} ` +
      `${pick.started ? `starts, until ${time(pick.finish_us)}` : 'and others are ready, but none starts'}.</b>` +
      `<dl>${rows.map(([what, text]) => `<dt>${what}</dt><dd>${escaped(sentence(in_words(text)))}</dd>`).join('')}</dl>`;
}

function show_ready(plan, pick) {
  const kShown = 10, by_id = nodes_by_id(told);
  const ready = pick?.ready ?? plan.decisions[0]?.ready ?? [];
  const most = Math.max(...ready.map(id => plan.priorities[id]), 1e-9);
  let shown = ready.slice(0, kShown);
  if (pick && !shown.includes(pick.node)) shown = [...shown.slice(0, kShown - 1), pick.node];
  const entries = shown.map(id => `<li${id === pick?.node ? ' class="chosen" aria-current="true"' : ''} data-ready="${id}">` +
      `<span>${id} ${escaped(by_id.get(id).op)}</span><i style="width: ${(100 * plan.priorities[id] / most).toFixed(1)}%"></i>` +
      `<b>${time(plan.priorities[id])}</b></li>`);
  $('ready').innerHTML = entries.join('') + (ready.length > shown.length ? `<li class="more">and ${ready.length - shown.length} less urgent</li>` : '');
}

function show_growth(plan, pick) {
  const by_id = nodes_by_id(told), places = new Map(plan.placements.map(place => [place.node, place]));
  const started = plan.decisions.slice(0, steps.step).filter(each => each.started);
  const all = plan.decisions.filter(each => each.started), end = Math.max(...all.map(each => each.finish_us), 1e-9);
  const bars = started.map(each => bar_of(by_id.get(each.node), places.get(each.node).stream, each, each === pick));
  const rows = told.streams + told.links;
  draw_gantt($('step-gantt'), `When nodes run, after ${steps.step} decisions`, bars, rows, told.capacity, end, pick?.time_us ?? 0, told.streams);

  const chart = $('step-graph'), draws = told.nodes.length <= kNodesDrawn;
  chart.toggleAttribute('hidden', !draws);
  $('step-graph-hint').hidden = draws;
  if (!draws) return;
  const now = pick?.time_us ?? 0, finish = new Map(started.map(each => [each.node, each.finish_us]));
  const ready = new Set(pick?.ready ?? plan.decisions[0]?.ready ?? []);
  draw_graph(chart, told.nodes, id => {
    if (id === pick?.node) return 'chosen';
    if (finish.has(id)) return finish.get(id) <= now ? 'done' : 'running';
    return ready.has(id) ? 'ready' : 'later';
  });
}

function show_search(plan) {
  const [plain, searched] = told.plans, {difference} = told, box = $('search-text');
  box.hidden = !steps.search;
  if (!steps.search) return;
  const gain = 1 - searched.makespan_us / plain.makespan_us, kept = searched.attempts[searched.kept];
  const words = [`Simulated, the plain plan takes ${time(plain.makespan_us)}, that of search ${time(searched.makespan_us)}, ` +
                 `${gain > 0.0005 ? `${(100 * gain).toFixed(1)} % less` : 'which gains nothing here'}. No plan is faster than ` +
                 `${time(told.lower_bound_us)}. Braid tries several rules, then improves the best from the end and by small changes. ${other_times(told)}`];
  if (difference.node >= 0) {
    const node = nodes_by_id(told).get(difference.node);
    words.push(`The first decision in which they differ, at ${time(difference.time_us)}: node ${node.node} ${escaped(node.op)} runs ` +
               `in the plain plan ${escaped(in_words(difference.first))}; in the other, ${escaped(in_words(difference.second))}.`);
  }
  if (plan === plain || plan.shown !== plan.kept) {
    words.push(`Kept is the schedule “${escaped(kept.rule)}”, whose decisions are not logged; the steps are those of ` +
               `“${escaped(plan === plain ? plain.attempts[0].rule : plan.attempts[plan.shown].rule)}”.`);
  }
  const longest = Math.max(...searched.attempts.map(each => each.makespan_us));
  box.innerHTML = words.map(text => `<p>${text}</p>`).join('') + '<div class="attempts" tabindex="0" role="group" aria-label="Schedules that competed"><ol>' +
      searched.attempts.map((each, i) => `<li${i === searched.kept ? ' class="chosen"' : ''}><span>${escaped(each.rule)}${i === searched.kept ? ', kept' : ''}</span>` +
          `<i style="width: ${(100 * each.makespan_us / longest).toFixed(1)}%"></i><b>${time(each.makespan_us)}</b></li>`).join('') + '</ol></div>';
  const list = box.querySelector('.attempts'), chosen = box.querySelector('.chosen');
  list.scrollTop = chosen.offsetTop - list.offsetTop - list.clientHeight / 2;
}

function go_to(step) {
  steps.step = step;
  show_steps();
}
function stop_playing() {
  clearInterval(playing);
  playing = 0;
  $('step-play').textContent = 'Play';
}
function play() {
  if (playing) { stop_playing(); return; }
  if (steps.step >= shown_plan().decisions.length) steps.step = 0;
  $('step-play').textContent = 'Pause';
  playing = setInterval(() => {
    if (!told || steps.step >= shown_plan().decisions.length) stop_playing();
    else go_to(steps.step + 1);
  }, 700);
}

// ---- two policies side by side

let compared = 0;  // counts, so that only the newest answer is drawn
async function refresh_comparison() {
  const {against} = steps, policy = controls.policy.value, mine = ++compared;
  $('comparison').hidden = against === '';
  if (against === '') return;
  const answer = await call('explain', {block: '', policies: [policy, against]});
  if (mine !== compared) return;
  $('comparison-errors').textContent = answer.error ?? '';
  if (!answer.error) show_comparison(JSON.parse(answer.result));
}
function show_comparison(both) {
  const by_id = nodes_by_id(both), {difference} = both, end = Math.max(...both.plans.map(plan => plan.makespan_us));
  both.plans.forEach((plan, i) => {
    $(`against-name-${i}`).textContent = `${plan.policy}: ${time(plan.makespan_us)}, ${plan.waits} waits, arena ${mebibytes(plan.arena_bytes)}`;
    $(`against-rule-${i}`).textContent = sentence(plan.rule);
    const bars = plan.placements.map(place => bar_of(by_id.get(place.node), place.stream, place, place.node === difference.node));
    const rows = Math.max(...plan.placements.map(place => place.stream)) + 1;
    draw_gantt($(`against-gantt-${i}`), `When each node runs by ${plan.policy}`, bars, rows, both.capacity, end,
               difference.node < 0 ? undefined : difference.time_us, both.streams);
  });
  const node = by_id.get(difference.node);
  $('difference').innerHTML = node ? `<b>The first decision in which they differ</b>, at ${time(difference.time_us)}: node ${node.node} ${escaped(node.op)}` +
      `${node.layer ? ` (${escaped(node.layer)})` : ''} runs by ${escaped(both.plans[0].policy)} ${escaped(in_words(difference.first))}; by ` +
      `${escaped(both.plans[1].policy)}, ${escaped(in_words(difference.second))}.`
    : 'The plans start the same nodes at the same times, equally wide, in the same streams.';
  $('difference').append(` ${other_times(both)}`);
}

// ---- controls

/// Once $ and call of playground.js are there.
function start_steps() {
  $('steps').addEventListener('toggle', () => {
    if (is_open() && steps.step < 0) steps.step = 0;
    if (!is_open()) { stop_playing(); steps.step = -1; save(); }
    refresh_steps(false);
  });
  step_slider().addEventListener('input', () => { stop_playing(); go_to(+step_slider().value); });
  for (const [id, next] of Object.entries({'step-first': () => 0, 'step-back': () => steps.step - 1, 'step-next': () => steps.step + 1,
                                           'step-last': () => Infinity})) {
    $(id).addEventListener('click', () => { stop_playing(); go_to(next()); });
  }
  $('step-play').addEventListener('click', play);
  for (const [id, search] of [['plain', false], ['searched', true]]) {
    $(id).addEventListener('click', () => { steps.search = search; stop_playing(); go_to(0); });
  }
  $('part').addEventListener('change', () => { steps.part = $('part').value; steps.step = 0; refresh_steps(false); });
  $('steps').addEventListener('keydown', event => {
    const by = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (!by || !told || ['INPUT', 'SELECT'].includes(event.target.tagName)) return;
    event.preventDefault();
    stop_playing();
    go_to(steps.step + by);
  });
  $('against').addEventListener('change', () => { steps.against = $('against').value; save(); refresh_comparison(); });
  addEventListener('resize', () => { for (const redraw of redraws.values()) redraw(); });
}
