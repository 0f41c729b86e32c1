// A checker of plans that the reader writes (chapter 8). It judges plans of small graphs, as a policy made them and spoiled, and the planner's
// verifier judges it.
'use strict';
{
const kShown = 15, kHidden = 45, kAlignment = 256;
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

// ---- plans, safe and spoiled

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
  const random = random_of(seed), below = bound => Math.floor(random() * bound), graph = random_graph(below), policy = ['critical_path', 'round_robin', 'matching'][below(3)];
  const {plan} = await ask('tasks', {graph, policy}), names = graph.tasks.map(task => task.name);
  const edit = {events: plan.events, streams: plan.streams, offsets: plan.offsets};
  let change = '';
  for (let kind = seed % kSpoil.length; !change; kind = 1 + below(kSpoil.length - 1)) change = kSpoil[kind](edit, {graph, arena: plan.arena_bytes}, below, names);
  const {faults} = await ask('tasks', {graph, policy, edit});
  const tasks = graph.tasks.map(({name, after, bytes}, i) => ({name, needs: after.map(other => names.indexOf(other)), offset: edit.offsets[i], bytes}));
  return {title: `${names.length} tasks on ${graph.streams} streams, ${policy}`, change, plan: {tasks, streams: edit.streams}, faults};
}
let plans;
const all_plans = () => plans ??= Promise.all(Array.from({length: kShown + kHidden}, (_, i) => spoiled_plan(i)));

// ---- the block

function table_of(plans, answers) {
  const row = ({title, change, faults}, i) => {
    const right = (answers[i] === '') === (faults.length === 0);
    return make('tr', {class: right ? null : 'chosen'}, make('th', {scope: 'row'}, `${title}: ${change}`), make('td', {}, faults[0] ?? 'safe'),
                make('td', {}, `${right ? '✓' : '✗'} ${answers[i] || 'safe'}`));
  };
  const head = ['plan', 'the verifier', 'your checker'].map(text => make('th', {scope: 'col'}, text));
  return make('div', {class: 'wide', tabindex: 0}, make('table', {}, make('thead', {}, make('tr', {}, ...head)),
                                                        make('tbody', {}, ...plans.slice(0, kShown).map(row))));
}

function mount_check(element, {task = ''}) {
  const code = code_box('check', 'The checker, in JavaScript', () => check());
  const verdict = make('div', {class: 'verdict', role: 'status'}), results = make('div');
  const say = (outcome, ...parts) => { verdict.className = `verdict ${outcome}`; verdict.replaceChildren(...parts); };
  const run = button('Run', () => check(), {class: 'primary'});
  const reset = button('Start again', () => { code.load(kStart); say(''); results.replaceChildren(); });
  async function check() {
    run.disabled = true;
    code.mark();
    say('', 'The checker runs.');
    try {
      const plans = await all_plans();
      const answers = (await run_code(code.text(), 'check', plans.map(({plan}) => plan))).map(answer => String(answer ?? ''));
      const right = plans.map(({faults}, i) => (answers[i] === '') === (faults.length === 0)), count = list => list.filter(Boolean).length;
      const missed = count(plans.map(({faults}, i) => faults.length > 0 && answers[i] === '')), all = count(right) === plans.length;
      say(all ? 'right' : 'wrong', make('b', {}, `Right on ${count(right.slice(0, kShown))} of ${kShown} plans below and ${count(right.slice(kShown))} of ${kHidden} others.`),
          all ? ' It agrees with the verifier on all of them.' :
          ` It lets ${missed} unsafe plans pass, and refuses ${plans.length - count(right) - missed} safe ones.`);
      results.replaceChildren(table_of(plans, answers));
    } catch (error) {
      say('wrong', error.message);
      code.mark(error.line);
    }
    run.disabled = false;
  }
  code.load(memory.get('check') ?? kStart);
  element.append(make('p', {class: 'label'}, 'Write it'), make('p', {}, ...prose(task)), code.element,
                 make('p', {class: 'buttons'}, run, reset), verdict, results);
}

(window.blocks ??= {}).check = mount_check;
}
