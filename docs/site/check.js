// A checker of plans that the reader writes (chapter 8). It judges plans of small graphs, as a policy made them and spoiled, and the planner's
// verifier judges it.
'use strict';
{
const kMilliseconds = 3000, kShown = 15, kHidden = 45, kAlignment = 256;
const kStart = `// tasks[i]: {name, needs: [numbers of the tasks whose results it reads], offset, bytes}
//   Task i writes its result to the bytes from offset to offset + bytes.
// streams[s]: commands in order, each {launch: i}, {record: e} or {wait: e}
// Returns why the plan is not safe, as a sentence, or nothing if it is safe.
function check({tasks, streams}) {
  // Rule 1: play the commands, with a clock per stream. No stream may wait forever.
  // Rule 2: a task comes after those that it needs.
  // Rule 3: of two results whose bytes overlap, one is written after all uses of the other.
}
`;

const html = (tag, attributes = {}, ...parts) => {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...parts);
  return made;
};

async function ask(request) {
  const {result, error} = await (window.shared_planner ??= start_planner()).call('tasks', request);
  if (error) throw new Error(error);
  return JSON.parse(result);
}

// ---- plans, safe and spoiled

/// Whole numbers below a bound, the same for the same seed (Park and Miller, 1988).
function numbers_of(seed) {
  let state = 1 + seed * 7919;
  return bound => (state = state * 48271 % 2147483647) % bound;
}
function random_graph(below) {
  const tasks = Array.from({length: 6 + below(4)}, (_, i) => ({
    name: 'abcdefghij'[i], microseconds: 1 + below(8), bytes: kAlignment * (1 + below(4)),
    after: [...new Set(Array.from({length: i ? below(3) : 0}, () => 'abcdefghij'[i - 1 - below(Math.min(i, 4))]))],
  }));
  return {tasks, streams: 2 + below(2), capacity: 64};
}

/// Ways to spoil commands and offsets: each changes them, and says what it did, or nothing if it found nothing to do.
const kSpoil = [
  () => 'as planned',
  ({streams}, _, below, names) => {
    const waits = streams.flatMap((commands, s) => commands.flatMap(({wait}, at) => wait === undefined ? [] : [{s, at, wait}]));
    if (waits.length === 0) return '';
    const {s, at, wait} = waits[below(waits.length)];
    const next = streams[s].slice(at).find(({launch}) => launch !== undefined);
    streams[s].splice(at, 1);
    return `stream ${s} no longer waits for event ${wait}${next ? ` ahead of ${names[next.launch]}` : ''}`;
  },
  ({streams}, _, below, names) => {
    const s = below(streams.length), at = below(Math.max(1, streams[s].length - 1)), pair = streams[s].slice(at, at + 2);
    if (pair.length < 2) return '';
    streams[s].splice(at, 2, ...pair.toReversed());
    const text = ({launch, record, wait}) => launch !== undefined ? names[launch] : record !== undefined ? `record ${record}` : `wait ${wait}`;
    return `stream ${s}: ${pair.map(text).join(' and ')} swapped`;
  },
  ({streams}) => {
    const s = streams.findIndex(commands => commands.findLastIndex(({wait}) => wait !== undefined) > 0);
    if (s < 0) return '';
    const [moved] = streams[s].splice(streams[s].findLastIndex(({wait}) => wait !== undefined), 1);
    streams[s].unshift(moved);
    return `stream ${s} waits for event ${moved.wait} before all else`;
  },
  ({offsets}, {graph, arena}, below, names) => {
    const moved = below(offsets.length), onto = below(offsets.length);
    if (offsets[moved] === offsets[onto] || offsets[onto] + graph.tasks[moved].bytes > arena) return '';
    offsets[moved] = offsets[onto];
    return `the result of ${names[moved]} moved to where that of ${names[onto]} begins`;
  },
];

/// {title, change, plan: what check() gets, faults: what the verifier says}.
async function spoiled_plan(seed) {
  const below = numbers_of(seed), graph = random_graph(below), policy = ['critical_path', 'round_robin', 'matching'][below(3)];
  const {plan} = await ask({graph, policy}), names = graph.tasks.map(task => task.name);
  const edit = {events: plan.events, streams: plan.streams, offsets: plan.offsets};
  let change = '';
  for (let kind = seed % kSpoil.length; !change; kind = 1 + below(kSpoil.length - 1)) change = kSpoil[kind](edit, {graph, arena: plan.arena_bytes}, below, names);
  const {faults} = await ask({graph, policy, edit});
  const tasks = graph.tasks.map(({name, after, bytes}, i) => ({name, needs: after.map(other => names.indexOf(other)), offset: edit.offsets[i], bytes}));
  return {title: `${names.length} tasks on ${graph.streams} streams, ${policy}`, change, plan: {tasks, streams: edit.streams}, faults};
}
let plans;
const all_plans = () => plans ??= Promise.all(Array.from({length: kShown + kHidden}, (_, i) => spoiled_plan(i)));

// ---- the reader's code

/// What check() returns for each plan, as text, computed in a worker that has a time limit.
function run_check(code, inputs) {
  const source = `${code}\n;onmessage = ({data}) => postMessage(data.map(plan => String(check(plan) ?? '')));`;
  const address = URL.createObjectURL(new Blob([source], {type: 'text/javascript'})), worker = new Worker(address);
  return new Promise((done, fail) => {
    const timer = setTimeout(() => fail(new Error(`The checker has not answered after ${kMilliseconds / 1000} seconds: does a loop never end?`)), kMilliseconds);
    const settle = act => value => { clearTimeout(timer); act(value); };
    worker.onmessage = settle(({data}) => done(data));
    worker.onerror = settle(event => {
      event.preventDefault();
      fail(new Error(event.lineno > code.split('\n').length ? `There is no function check, or the code does not end properly: ${event.message}`
                                                            : `Line ${event.lineno}: ${event.message}`));
    });
    worker.postMessage(inputs);
  }).finally(() => { worker.terminate(); URL.revokeObjectURL(address); });
}

function table_of(plans, answers) {
  const row = ({title, change, faults}, i) => {
    const right = (answers[i] === '') === (faults.length === 0);
    return html('tr', right ? {} : {class: 'chosen'}, html('th', {scope: 'row'}, `${title}: ${change}`), html('td', {}, faults[0] ?? 'safe'),
                html('td', {}, `${right ? '✓' : '✗'} ${answers[i] || 'safe'}`));
  };
  return html('div', {class: 'wide', tabindex: 0}, html('table', {}, html('thead', {}, html('tr', {}, ...['plan', 'the verifier', 'your checker']
      .map(text => html('th', {scope: 'col'}, text)))), html('tbody', {}, ...plans.slice(0, kShown).map(row))));
}

function mount_check(element) {
  const code = html('textarea', {rows: 20, spellcheck: 'false', autocapitalize: 'off', autocomplete: 'off', wrap: 'off', class: 'code',
                                 'aria-label': 'The checker, in JavaScript'});
  const run = html('button', {type: 'button', class: 'primary'}, 'Run'), reset = html('button', {type: 'button'}, 'Start again');
  const verdict = html('div', {class: 'verdict', role: 'status'}), results = html('div');
  const keep = text => { try { localStorage.setItem('braid.check', text); } catch { /* not kept */ } };
  const say = (outcome, ...parts) => { verdict.className = `verdict ${outcome}`; verdict.replaceChildren(...parts); };
  try { code.value = localStorage.getItem('braid.check') ?? kStart; } catch { code.value = kStart; }
  code.oninput = () => keep(code.value);
  reset.onclick = () => { code.value = kStart; keep(kStart); say(''); results.replaceChildren(); };
  run.onclick = async () => {
    run.disabled = true;
    say('', 'The checker runs.');
    try {
      const plans = await all_plans(), answers = await run_check(code.value, plans.map(({plan}) => plan));
      const right = plans.map(({faults}, i) => (answers[i] === '') === (faults.length === 0)), count = list => list.filter(Boolean).length;
      const missed = count(plans.map(({faults}, i) => faults.length > 0 && answers[i] === '')), all = count(right) === plans.length;
      say(all ? 'right' : 'wrong', html('b', {}, `Right on ${count(right.slice(0, kShown))} of ${kShown} plans below and ${count(right.slice(kShown))} of ${kHidden} others.`),
          all ? ' It agrees with the verifier on all of them.' :
          ` It lets ${missed} unsafe plans pass, and refuses ${plans.length - count(right) - missed} safe ones.`);
      results.replaceChildren(table_of(plans, answers));
    } catch (error) {
      say('wrong', error.message);
    }
    run.disabled = false;
  };
  element.append(html('p', {class: 'label'}, 'Write it'), code, html('p', {class: 'buttons'}, run, reset), verdict, results);
}

(window.blocks ??= {}).check = mount_check;
}
