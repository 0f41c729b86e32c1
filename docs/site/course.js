// The blocks of the course: a plan that the reader changes (live), questions with a score (predict, exercise), and a streaming
// multiprocessor (sm). site.js mounts them.
'use strict';
{
// ---- words and numbers

const list_of = text => (text ?? '').split(/[|\n]/).map(item => item.trim()).filter(Boolean);
const streams_text = count => `${count} stream${count === 1 ? '' : 's'}`;
const words_of = text => (text ?? '').split(/\s+/).filter(Boolean);

// ---- what a spec or a command asks of the planner

const kNoRequest = {device: 'a100', streams: 4, policy: '', batch_size: 32, memory_limit: 0, forward: false, files: {}};

/// `cpu` is docs/two-cores.json with any number of cores.
function on_device(device, cores = 2) {
  if (device !== 'cpu') return {device};
  return {device: 'cpu.json', files: {'cpu.json': JSON.stringify({...CPU, capacity: cores, max_width: cores})}};
}

/// The request that asks what 'braid plan MODEL --device …' does.
function request_of_command(command) {
  const [name, model, ...rest] = words_of(command);
  if (name !== 'plan') throw new Error(`a page plans only, and cannot run 'braid ${command}'`);
  const request = {...kNoRequest, models: [model]};
  for (let i = 0; i < rest.length; ++i) {
    const value = () => rest[++i];
    const set = {
      '--device': () => { const device = value(); return on_device(device.endsWith('two-cores.json') ? 'cpu' : device); },
      '--streams': () => ({streams: +value()}), '--policy': () => ({policy: value()}), '--batch-size': () => ({batch_size: +value()}),
      '--memory-limit': () => ({memory_limit: +value() * 2 ** 20}), '--forward': () => ({forward: true}),
    }[rest[i]];
    if (!set) throw new Error(`a page does not know the option ${rest[i]}`);
    Object.assign(request, set());
  }
  return request;
}

/// The value of an expression over the configured row of a plan: names, dots, + - * / ( ) and numbers.
function evaluate(expression, report) {
  if (!/^[\w.+\-*/() ]+$/.test(expression)) throw new Error(`not an expression: ${expression}`);
  const scope = {...report.plans[report.configured], serial: report.plans[0], report};
  return new Function(...Object.keys(scope), `'use strict'; return ${expression};`)(...Object.values(scope));
}

// ---- pictures of a plan; each is drawn at the width of its frame, in which it scrolls where it has to be wider

function legend(entries) {
  return make('p', {class: 'legend'}, ...entries.map(([kind, text]) => make('span', {}, make('i', {class: kind}), text)));
}
function chart(width, height, label) {
  return make('svg', {width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': label, class: 'picture'});
}
function axis(picture, end, left, width, bottom) {
  for (const at of ticks(end, Math.max(2, width / 90))) {
    const x = left + width * at / end;
    picture.append(make('line', {class: 'tick', x1: x, x2: x, y1: 0, y2: bottom}),
                   make('text', {x, y: bottom + 15, class: 'faint', 'text-anchor': at === 0 ? 'start' : 'middle'}, at === 0 ? '0' : time(at)));
  }
}
const title_of = node => `${node.id} ${node.op}${node.layer ? ` (${node.layer})` : ''}`;

function draw_gantt({nodes, critical, numbers}, width) {
  const rows = numbers.streams, left = 26, row = 34, end = numbers.makespan_us, wide = width - left - 24;
  const picture = chart(width, rows * row + 24, `${nodes.length} nodes on ${streams_text(rows)}, ${time(end)} in all`);
  axis(picture, end, left, wide, rows * row);
  const urgent = new Set(critical);
  for (let s = 0; s < rows; ++s) picture.append(make('text', {x: 4, y: s * row + 21, class: 'faint'}, s));
  for (const node of nodes.filter(node => node.planned)) {
    const [from, to] = node.planned, x = left + wide * from / end, w = Math.max(0.6, wide * (to - from) / end), y = node.stream * row + 4;
    const bar = make('g', {}, make('rect', {x, y, width: w, height: row - 9, class: `bar ${node.phase}`}),
                    make('title', {}, `${title_of(node)}, ${time(from)} to ${time(to)}`));
    if (urgent.has(node.id)) bar.append(make('rect', {x, y: y + row - 9, width: w, height: 3, class: 'critical-mark'}));
    if (w > 26) bar.append(make('text', {x: x + 4, y: y + 17, class: 'on-bar'}, node.id));
    picture.append(bar);
  }
  return [picture];
}

function draw_memory({memory, numbers}, width) {
  const left = 6, height = 220, end = numbers.makespan_us, wide = width - left - 24, arena = numbers.arena_bytes;
  const picture = chart(width, height + 24, `Where ${memory.length} values lie in an arena of ${mebibytes(arena)}`);
  axis(picture, end, left, wide, height);
  for (const {kind, label, offset, bytes, time: [from, to]} of memory) {
    picture.append(make('rect', {class: `use ${kind}`, x: left + wide * from / end, width: Math.max(0.6, wide * (to - from) / end),
                                y: height * (1 - (offset + bytes) / arena), height: Math.max(0.6, height * bytes / arena)},
                       make('title', {}, `${label}, ${mebibytes(bytes)}, ${time(from)} to ${time(to)}`)));
  }
  return [picture];
}

/// Nodes in columns by the longest path to them, critical ones in the first row.
function draw_graph({nodes, edges, critical}, width) {
  const urgent = new Set(critical), shown = nodes.filter(node => node.planned), level = new Map(shown.map(node => [node.id, 0]));
  const kept = edges.filter(([from, to]) => level.has(from) && level.has(to));
  for (const [from, to] of kept.sort((a, b) => a[1] - b[1] || a[0] - b[0])) level.set(to, Math.max(level.get(to), level.get(from) + 1));
  const columns = [];
  for (const node of shown.sort((a, b) => urgent.has(b.id) - urgent.has(a.id) || a.id - b.id)) (columns[level.get(node.id)] ??= []).push(node);
  const dx = Math.max(46, Math.min(80, (width - 12) / columns.length)), dy = 36, rows = Math.max(...columns.map(column => column.length));
  const place = new Map();
  columns.forEach((column, x) => column.forEach((node, y) => place.set(node.id, [8 + x * dx, 8 + y * dy])));
  const picture = chart(Math.max(width, columns.length * dx + 12), rows * dy + 10,
                        `${shown.length} nodes in ${columns.length} columns; ${urgent.size} on the critical path`);
  for (const [from, to] of kept) {
    const [x1, y1] = place.get(from), [x2, y2] = place.get(to), bend = dx / 2, around = y1 === y2 && x2 - x1 > dx + 1 ? dy / 2 : 0;
    const on_path = urgent.has(from) && critical.indexOf(to) === critical.indexOf(from) + 1;
    picture.append(make('path', {class: on_path ? 'edge critical' : 'edge',
                                d: `M${x1 + 34} ${y1 + 12}C${x1 + 34 + bend} ${y1 + 12 + around} ${x2 - bend} ${y2 + 12 + around} ${x2} ${y2 + 12}`}));
  }
  for (const node of shown) {
    const [x, y] = place.get(node.id);
    picture.append(make('g', {}, make('title', {}, `${title_of(node)}, ${time(node.alone)} alone`),
                       make('rect', {x, y, width: 34, height: 24, rx: 5, class: `bar ${node.phase}${urgent.has(node.id) ? ' on-path' : ''}`}),
                       make('text', {x: x + 17, y: y + 16, class: 'on-bar', 'text-anchor': 'middle'}, node.id)));
  }
  return [picture];
}

const kPhases = [['forward', 'forward'], ['backward', 'backward'], ['update', 'update']];
const kPictures = {
  gantt: {title: 'When each node runs, by stream', draw: draw_gantt,
          legend: [...kPhases, ['critical-mark', 'critical path']]},
  graph: {title: 'The graph, from left to right', draw: draw_graph, legend: [...kPhases, ['critical-mark', 'critical path']]},
  memory: {title: 'Where values lie in the arena, over time', draw: draw_memory,
           legend: [['input', 'input'], ['activation', 'activation'], ['gradient', 'gradient'], ['workspace', 'workspace']]},
};

/// A picture, drawn again when its frame has another width.
function picture_frame(name) {
  const {title, draw, legend: entries} = kPictures[name];
  const frame = make('div', {class: 'wide', tabindex: 0, role: 'group', 'aria-label': title});
  let data, drawn;
  const redraw = () => {
    if (!data || frame.clientWidth === drawn || frame.clientWidth === 0) return;
    drawn = frame.clientWidth;
    frame.replaceChildren(...draw(data, drawn));
  };
  new ResizeObserver(redraw).observe(frame);
  return {element: make('figure', {}, make('figcaption', {}, title), frame, legend(entries)),
          show: given => { data = given; drawn = 0; redraw(); }};
}

// ---- live

const kLive = {model: 'googlenet', second: '', device: 'a100', cores: 2, batch: 32, streams: 4, policy: 'critical_path', limit: 0,
               forward: false};
const kLabels = {model: 'Network', second: 'Trained together with', device: 'Device', cores: 'Cores', batch: 'Batch size', streams: 'Streams',
                 policy: 'Policy', limit: 'Memory limit, MiB', forward: 'Forward pass only'};
const kRanges = {batch: [0, 8], streams: [1, 16], cores: [1, 16], limit: [0, 64]};
const kPowers = {batch: true};  // the slider has the exponent

function live_control(name, value, names) {
  const output = make('output');
  let input;
  if (kRanges[name]) {
    const [min, max] = kRanges[name];
    input = make('input', {type: 'range', min, max, value: kPowers[name] ? Math.log2(value) : name === 'limit' ? value / 32 : value});
  } else if (name === 'forward') {
    input = make('input', {type: 'checkbox'});
    input.checked = value;
  } else {
    const options = {model: names.models.map(model => model.name), second: ['', ...names.models.map(model => model.name)],
                     device: [...names.devices, 'cpu'], policy: names.policies}[name];
    input = make('select', {}, ...options.map(option => new Option(option || 'nothing else', option, false, option === value)));
  }
  input.name = name;
  const read = () => name === 'forward' ? input.checked : !kRanges[name] ? input.value :
      kPowers[name] ? 2 ** input.value : name === 'limit' ? 32 * input.value : +input.value;
  const show = () => {
    const text = kRanges[name] ? String(name === 'limit' && read() === 0 ? 'none' : read()) : '';
    output.textContent = text;
    if (text) input.setAttribute('aria-valuetext', text);
  };
  show();
  input.addEventListener('input', show);
  return {read, element: make('label', {class: name === 'forward' ? 'flag' : ''}, make('span', {}, kLabels[name]), output, input)};
}

function playground_link(state) {
  const fragment = new URLSearchParams({...state, batch: Math.log2(state.batch), limit: 0});
  return make('a', {href: `../playground.html#${fragment}`}, 'open in the playground');
}

function cards_of(report) {
  const row = report.plans[report.configured], serial = report.plans[0];
  const card = (label, text, more) => make('div', {}, make('dt', {}, label), make('dd', {}, make('b', {}, text), make('small', {}, more)));
  return [
    card('Step', time(row.makespan_us), `on ${row.used_streams} of ${streams_text(row.streams)}, simulated`),
    card('Speedup', (serial.makespan_us / row.makespan_us).toFixed(2), `over one stream, ${time(serial.makespan_us)}`),
    card('Lower bound', time(row.lower_bound_us), `the plan takes ${(row.makespan_us / row.lower_bound_us).toFixed(2)} times as long`),
    card('Critical path', time(row.depth_us), 'the longest chain of dependent nodes'),
    card('Waits', row.waits, 'between streams'),
    card('Arena', mebibytes(row.arena_bytes), `${mebibytes(row.naive_bytes)} if no values shared bytes`),
  ];
}
function policies_of(report, chosen) {
  const head = ['policy', 'step', '× bound', '× serial', 'waits', 'arena'];
  const row = (tag, cells, attributes) =>
      make('tr', attributes, ...cells.map((cell, i) => make(tag, i ? {class: 'number'} : tag === 'th' ? {} : {scope: 'row'}, cell)));
  const serial = report.plans[0].makespan_us;
  return make('table', {class: 'policies'}, make('thead', {}, row('th', head, {})), make('tbody', {}, ...report.plans.map(each => row('td', [
    each.policy, time(each.makespan_us), (each.makespan_us / each.lower_bound_us).toFixed(2), (serial / each.makespan_us).toFixed(2),
    each.waits, mebibytes(each.arena_bytes)], each.policy === chosen ? {class: 'chosen'} : {}))));
}

async function mount_live(element, spec) {
  const state = {...kLive};
  for (const [key, fallback] of Object.entries(kLive)) {
    if (key in spec) state[key] = typeof fallback === 'number' ? +spec[key] : typeof fallback === 'boolean' ? spec[key] === 'yes' : spec[key];
  }
  const shown = words_of(spec.show ?? 'cards gantt'), named = words_of(spec.controls);
  const status = make('p', {class: 'hint', role: 'status'}, 'The planner is starting.');
  const form = make('form', {class: 'controls', 'aria-label': 'What to plan'});
  const cards = make('dl', {class: 'cards'}), table = make('div', {class: 'wide'});
  const pictures = shown.filter(name => kPictures[name]).map(picture_frame);
  element.append(form, ...(shown.includes('cards') ? [cards] : []), ...pictures.map(picture => picture.element),
                 ...(shown.includes('policies') ? [table] : []), status);
  const names = named.some(name => ['model', 'second', 'device', 'policy'].includes(name)) ? await ask('names') : {};
  const controls = Object.fromEntries(named.map(name => [name, live_control(name, state[name], names)]));
  form.append(...Object.values(controls).map(control => control.element));
  form.onsubmit = event => event.preventDefault();

  const plan_once = async () => {
    for (const [name, control] of Object.entries(controls)) state[name] = control.read();
    const request = {...kNoRequest, ...on_device(state.device, state.cores), models: [state.model, state.second].filter(Boolean),
                     streams: state.streams, policy: state.policy, batch_size: state.batch, memory_limit: state.limit * 2 ** 20,
                     forward: state.forward};
    const [report, data] = await Promise.all([ask('plan', request), ask('page_data')]);  // answered in order: the page is of this plan
    cards.replaceChildren(...cards_of(report));
    for (const picture of pictures) picture.show(data);
    if (shown.includes('policies')) table.replaceChildren(policies_of(await ask('plan', {...request, policy: ''}), state.policy));
    status.replaceChildren(`${[state.model, state.second].filter(Boolean).join(' and ')}, batch ${state.batch}, ${report.device}, ` +
                           `${streams_text(state.streams)}, ${state.policy}${state.forward ? ', forward pass' : ''}: ${report.nodes} nodes; `,
                           playground_link(state));
  };
  let busy = false, again = false;
  const replan = async () => {
    again = busy;
    if (busy) return;
    busy = true;
    try {
      do { again = false; await plan_once(); } while (again);
    } catch (error) {
      status.replaceChildren(error.message);
    }
    busy = false;
  };
  form.addEventListener('input', replan);
  await replan();
}

// ---- questions

/// What the reader has answered in this chapter: {question: 'right', 'wrong' or 'shown'}.
const chapter = `answers ${location.pathname.split('/').pop().replace(/\.html$/, '')}`;
const answers = JSON.parse(memory.get(chapter) ?? '{}');
const questions = [];
let score_line;
function record(question, outcome) {
  if (answers[question] === 'right' || answers[question] === 'shown') return;
  answers[question] = outcome;
  memory.set(chapter, JSON.stringify(answers));
  show_score();
}
function show_score() {
  const heading = document.querySelector('h1');
  if (!score_line && heading) {
    const again = make('button', {type: 'button'}, 'Answer again');
    again.onclick = () => {
      memory.set(chapter, '{}');
      location.reload();
    };
    score_line = make('p', {class: 'score'}, make('span', {role: 'status'}), make('progress', {'aria-hidden': 'true'}), again);
    heading.after(score_line);
  }
  const count = outcome => questions.filter(question => answers[question] === outcome).length, right = count('right');
  const open = questions.length - right - count('wrong') - count('shown'), [text, bar, again] = score_line.children;
  text.textContent = `${right} of ${questions.length} answered right${open ? `, ${open} open` : ''}`;
  bar.max = questions.length;
  bar.value = right;
  again.hidden = open === questions.length;
}

/// The fields of a question: {element, given() or a string that says what is missing, is_right(given), right (text), mark()}.
const kFields = {
  choices(spec, name) {
    const right = words_of(spec.correct).map(Number), texts = list_of(spec.choices), many = right.length > 1;
    const labels = texts.map((text, i) => make('label', {class: 'choice'}, make('input', {type: many ? 'checkbox' : 'radio', name, value: i + 1}),
                                               make('span', {}, ...prose(text))));
    return {
      element: make('div', {}, ...labels),
      given() {
        const picked = labels.flatMap((label, i) => label.firstChild.checked ? [i + 1] : []);
        return picked.length ? picked : many ? 'Choose at least one.' : 'Choose one.';
      },
      is_right: given => String(given) === String(right),
      right: () => right.map(i => texts[i - 1].replaceAll('`', '')).join('; '),
      mark() {
        for (const [i, label] of labels.entries()) {
          label.classList.toggle('right', right.includes(i + 1));
          label.classList.toggle('wrong', label.firstChild.checked && !right.includes(i + 1));
        }
      },
    };
  },
  number(spec, name) {
    let value = spec.answer === undefined ? undefined : +spec.answer;
    const loaded = value === undefined ? ask('plan', request_of_command(spec.command)).then(report => { value = evaluate(spec.value, report); }) : null;
    const input = make('input', {name, inputmode: 'decimal', autocomplete: 'off', size: 9, 'aria-label': 'Your answer'});
    const decimals = () => Math.abs(value) >= 100 || Number.isInteger(value) ? 0 : 2;
    return {
      element: make('p', {class: 'number-field'}, make('label', {}, 'Your answer ', input, ` ${spec.unit ?? ''}`)),
      loaded,
      given() {
        const text = input.value.trim(), plain = /^\d{1,3}(,\d{3})+$/.test(text) ? text.replaceAll(',', '') : text.replace(',', '.');
        return plain === '' || Number.isNaN(+plain) ? 'Enter a number.' : +plain;
      },
      is_right: given => Math.abs(given - value) <= Math.abs(value) * (spec.tolerance ?? 1) / 100 + 1e-9,
      right: () => `${value.toFixed(decimals())} ${spec.unit ?? ''}`.trim(),
      mark() {},
    };
  },
  /// `items` are in the right order; shown first is another one, the same on every visit.
  order(spec) {
    const right = list_of(spec.items), list = make('ol', {class: 'order'});
    const shuffled = right.map((item, i) => [((i + 1) * 7) % (right.length + 3), item]).sort(([a], [b]) => a - b).map(([, item]) => item);
    if (String(shuffled) === String(right)) shuffled.reverse();
    const move = (item, step) => {
      const other = step < 0 ? item.previousElementSibling : item.nextElementSibling;
      if (other) step < 0 ? other.before(item) : other.after(item);
    };
    for (const text of shuffled) {
      const item = make('li', {}, make('span', {}, ...prose(text)));
      item.dataset.item = text;
      for (const [step, sign, label] of [[-1, '↑', 'Earlier'], [1, '↓', 'Later']]) {
        const button = make('button', {type: 'button', 'aria-label': `${label}: ${text}`}, sign);
        button.onclick = () => { move(item, step); button.focus(); };
        item.append(button);
      }
      list.append(item);
    }
    return {
      element: list,
      given: () => [...list.children].map(item => item.dataset.item),
      is_right: given => String(given) === String(right),
      right: () => right.join(', '),
      mark() {},
    };
  },
};

/// The form of a question, with a field, a button to check, and what the page says to an answer.
function question_form(spec, check_label) {
  const kind = spec.kind ?? (spec.choices ? 'choices' : 'number');
  if (!kFields[kind]) throw new Error(`there is no kind of question '${kind}'`);
  if (!spec.question) throw new Error('a question lacks its text');
  questions.push(spec.question);
  const field = kFields[kind](spec, `question-${questions.length}`);
  const check = make('button', {type: 'submit', class: 'primary'}, check_label);
  const buttons = make('p', {class: 'buttons'}, check), verdict = make('div', {class: 'verdict', role: 'status'});
  const form = make('form', {}, make('fieldset', {}, make('legend', {}, ...prose(spec.question)), field.element), buttons, verdict);
  const say = (outcome, ...parts) => {
    verdict.className = `verdict ${outcome}`;
    verdict.replaceChildren(...parts);
  };
  form.addEventListener('input', () => { if (!check.disabled) say(''); });
  form.onsubmit = async event => {
    event.preventDefault();
    await field.loaded;
    const given = field.given();
    if (typeof given === 'string') say('', given);
    else form.answered(given, field.is_right(given));
  };
  show_score();
  return {form, field, buttons, say, close() { field.mark(); form.querySelectorAll('input, .order button').forEach(input => { input.disabled = true; }); check.hidden = true; }};
}

/// Puts what follows a block, up to the next heading or prediction, behind a veil; returns what lifts it.
function veil_after(block) {
  const veil = make('div', {class: 'veil', inert: true});
  let next;
  while ((next = block.nextElementSibling) && !next.matches('h1, h2, h3, .block[data-kind=predict], footer, nav')) veil.append(next);
  block.after(veil);
  return () => { veil.inert = false; veil.className = ''; };
}

async function mount_predict(element, spec) {
  const reveal = veil_after(element), {form, field, buttons, say, close} = question_form(spec, 'Predict');
  const end = async (outcome, text) => {
    await field.loaded;
    close();
    buttons.remove();
    say(outcome, make('p', {}, make('b', {}, text), ` The answer: `, ...prose(field.right()), '.'), make('p', {}, ...prose(spec.explain ?? '')));
    record(spec.question, outcome);
    reveal();
  };
  const kTexts = {right: 'Right.', wrong: 'Not this time.', shown: 'Shown without a prediction.'};
  form.answered = (_, is_right) => end(is_right ? 'right' : 'wrong', is_right ? kTexts.right : kTexts.wrong);
  const show = make('button', {type: 'button'}, 'Show anyway');
  show.onclick = () => end('shown', kTexts.shown);
  buttons.append(show);
  element.append(make('p', {class: 'label'}, 'Predict first'), form);
  if (answers[spec.question]) await end(answers[spec.question], kTexts[answers[spec.question]]);
  else await field.loaded;
}

async function mount_exercise(element, spec) {
  const {form, field, buttons, say, close} = question_form(spec, 'Check');
  const done = (...parts) => {
    close();
    buttons.remove();
    say('right', make('p', {}, make('b', {}, 'Right.'), ...parts), make('p', {}, ...prose(spec.solution ?? '')));
    record(spec.question, 'right');
  };
  form.answered = (_, is_right) => {
    if (is_right) return done();
    say('wrong', make('b', {}, 'Not yet.'), ' Try again.');
    if (!answers[spec.question]) record(spec.question, 'wrong');
  };
  const uncover = (label, text, note) => {
    const button = make('button', {type: 'button', 'aria-expanded': 'false'}, label);
    button.onclick = () => {
      button.setAttribute('aria-expanded', 'true');
      button.disabled = true;
      form.append(make('p', {class: 'note', role: 'status'}, ...prose(text)));
      note();
    };
    buttons.append(button);
  };
  if (spec.hint) uncover('Hint', spec.hint, () => {});
  if (spec.solution) uncover('Solution', spec.solution, () => record(spec.question, 'shown'));
  element.append(make('p', {class: 'label'}, 'Exercise'), form);
  await field.loaded;
  if (answers[spec.question] === 'right') done(' The answer: ', ...prose(field.right()), '.');
}

// ---- a streaming multiprocessor

/// What an SM of an H100 or H200 has (docs/gpu.md, core/device/block_needs.h): a quarter of it has its own registers.
const kSM = {threads: 2048, registers: 65536, shared: 228 * 1024, slots: 32};
const kWarp = 32, kQuarters = 4;
const up = (value, multiple) => Math.ceil(value / multiple) * multiple;
const warps_of = kernel => Math.ceil(kernel.threads / kWarp);
/// What one block takes of each resource, in the units in which the hardware gives it out.
const needs_of = kernel => ({threads: warps_of(kernel) * kWarp, registers: warps_of(kernel) * up(kernel.registers * kWarp, 256),
                             shared: up(kernel.shared, 128) + 1024, slots: 1});

/// How many more blocks each resource allows, where `resident` are [kernel, blocks] on the SM. As resident_blocks() in C++.
function room_for(kernel, resident = []) {
  const needs = needs_of(kernel);
  const used = name => resident.reduce((sum, [other, blocks]) => sum + blocks * needs_of(other)[name], 0);
  const room = {};
  for (const name of ['threads', 'shared', 'slots']) room[name] = Math.floor((kSM[name] - used(name)) / needs[name]);
  const free = kSM.registers / kQuarters - used('registers') / kQuarters;
  room.registers = Math.floor(Math.floor(free / up(kernel.registers * kWarp, 256)) * kQuarters / warps_of(kernel));
  return room;
}
const kResources = {registers: 'registers', shared: 'shared memory', threads: 'threads', slots: 'block slots'};
const blocks_in = room => Math.max(0, Math.min(...Object.values(room)));
const binding = room => Object.keys(kResources).filter(name => room[name] === blocks_in(room)).map(name => kResources[name]).join(' and ');

/// Runs launches in order on some SMs: a kernel's blocks go to the SM that has the fewest of them and room for one more, and no block of
/// a later kernel starts before all of the earlier one's have. Returns {kernel, sm, lane, from, to} of every block.
function run_blocks(launches, sms) {
  const runs = [], on = Array.from({length: sms}, () => []);
  let now = 0;
  for (const kernel of launches) {
    for (let left = kernel.blocks; left > 0;) {
      const fitting = on.map((blocks, sm) => ({blocks, sm}))
          .filter(({blocks}) => blocks_in(room_for(kernel, blocks.map(run => [run.kernel, 1]))) > 0).sort((a, b) => a.blocks.length - b.blocks.length);
      if (fitting.length === 0) {
        now = Math.min(...on.flat().map(run => run.to));
        for (const [sm, blocks] of on.entries()) on[sm] = blocks.filter(run => run.to > now);
        continue;
      }
      const {blocks, sm} = fitting[0], taken = new Set(blocks.map(run => run.lane));
      let lane = 0;
      while (taken.has(lane)) ++lane;
      const run = {kernel, sm, lane, from: now, to: now + kernel.us};
      blocks.push(run);
      runs.push(run);
      --left;
    }
  }
  return runs;
}
const end_of = runs => Math.max(...runs.map(run => run.to));

function draw_sm(kernels, resident, width) {
  const picture = chart(width, 4 * 44, `One SM with ${resident.map(([kernel, count]) => `${count} blocks of ${kernel.letter}`).join(' and ')}`);
  const left = 0, wide = width - 2;
  Object.keys(kResources).forEach((name, row) => {
    const y = row * 44 + 18, used = resident.reduce((sum, [kernel, count]) => sum + count * needs_of(kernel)[name], 0);
    const amount = value => name === 'shared' ? `${(value / 1024).toFixed(0)} KiB` : value.toLocaleString('en');
    picture.append(make('text', {x: left, y: y - 5}, `${kResources[name]}: ${amount(used)} of ${amount(kSM[name])}`),
                   make('rect', {x: left + 1, y, width: wide, height: 18, class: 'tank'}));
    let x = left + 1;
    for (const [kernel, count] of resident) {
      for (let i = 0; i < count; ++i) {
        const w = wide * needs_of(kernel)[name] / kSM[name];
        picture.append(make('rect', {x, y, width: w, height: 18, class: `bar ${kernel.tone}`}));
        if (w > 14) picture.append(make('text', {x: x + w / 2, y: y + 13, class: 'on-bar', 'text-anchor': 'middle'}, kernel.letter));
        x += w;
      }
    }
  });
  return picture;
}
function draw_blocks(runs, sms, width) {
  const lanes = Math.max(...runs.map(run => run.lane)) + 1, lane = Math.max(4, Math.min(14, 56 / lanes)), row = lanes * lane + 12;
  const left = 42, wide = width - left - 24, end = end_of(runs);
  const picture = chart(width, sms * row + 24, `${runs.length} blocks on ${sms} SMs, ${time(end)} in all`);
  axis(picture, end, left, wide, sms * row);
  for (let sm = 0; sm < sms; ++sm) picture.append(make('text', {x: 0, y: sm * row + row / 2 + 4, class: 'faint'}, `SM ${sm}`));
  for (const {kernel, sm, lane: at, from, to} of runs) {
    picture.append(make('rect', {x: left + wide * from / end, width: wide * (to - from) / end, y: sm * row + 6 + at * lane, height: lane - 1,
                                class: `bar ${kernel.tone}`}, make('title', {}, `a block of ${kernel.letter}, ${time(from)} to ${time(to)}`)));
  }
  return picture;
}

const kSliders = {threads: ['Threads per block', 32, 1024, 32], registers: ['Registers per thread', 16, 255, 1],
                  shared: ['Shared memory, KiB', 0, 227, 1], blocks: ['Blocks', 1, 96, 1], us: ['Time of a block, µs', 1, 100, 1]};
/// Kernels by name, from lines "name: threads registers bytes of shared memory".
function kernels_of(text) {
  return Object.fromEntries(list_of(text).map(line => {
    const [name, needs] = line.split(/: (?=[\d ]+$)/), [threads, registers, shared] = words_of(needs).map(Number);
    return [name, {threads, registers, shared}];
  }));
}

/// sms: N; kernels: lines; a and b: name | blocks | µs of a block.
function mount_sm(element, spec) {
  const known = kernels_of(spec.kernels), sms = +(spec.sms ?? 4);
  const kernels = ['a', 'b'].map((key, i) => {
    const [name, blocks, us] = list_of(spec[key]);
    if (!known[name]) throw new Error(`there is no kernel '${name}'`);
    return {letter: key.toUpperCase(), tone: i ? 'backward' : 'forward', name, ...known[name], blocks: +blocks, us: +us};
  });
  const said = make('div', {role: 'status'}), swap = make('input', {type: 'checkbox', name: 'swap'});
  const tanks = make('div', {class: 'wide'}), timeline = make('div', {class: 'wide'});
  const draw = () => {
    const [first, second] = swap.checked ? [kernels[1], kernels[0]] : kernels, width = Math.max(280, tanks.clientWidth);
    const alone = kernels.map(kernel => room_for(kernel));
    const counts = new Map([[first, Math.min(Math.ceil(first.blocks / sms), blocks_in(room_for(first)))]]);
    const after = room_for(second, [[first, counts.get(first)]]);
    counts.set(second, Math.min(Math.ceil(second.blocks / sms), blocks_in(after)));
    const impossible = kernels.filter((_, i) => blocks_in(alone[i]) === 0);
    if (impossible.length > 0) {
      said.replaceChildren(`A block of ${impossible[0].letter} needs more than an SM has: it never starts.`);
      tanks.replaceChildren();
      timeline.replaceChildren();
      return;
    }
    const together = run_blocks([first, second], sms), apart = end_of(run_blocks([first], sms)) + end_of(run_blocks([second], sms));
    const most = kernels.map((kernel, i) => make('li', {}, `Alone, ${blocks_in(alone[i])} of ${kernel.letter} fit on an SM: ${binding(alone[i])} are the limit.`));
    const left = blocks_in(after), there = `With ${counts.get(first)} of ${first.letter} on it, `;
    said.replaceChildren(
        make('ul', {}, ...most, make('li', {}, there + (left > 0 ? `${left} of ${second.letter} fit as well.` :
                                                        `no block of ${second.letter} fits: the ${binding(after)} are taken.`))),
        make('p', {class: 'outcome'}, 'Together ', make('b', {}, time(end_of(together))), `, one after the other ${time(apart)}: `,
             make('b', {}, `${(apart / end_of(together)).toFixed(2)}×`)));
    tanks.replaceChildren(draw_sm(kernels, [first, second].map(kernel => [kernel, counts.get(kernel)]), width));
    timeline.replaceChildren(draw_blocks(together, sms, width));
  };
  const forms = kernels.map(kernel => {
    const preset = make('select', {name: `${kernel.letter}-kernel`}, ...[...Object.keys(known), 'custom'].map(name => new Option(name, name, false, name === kernel.name)));
    const sliders = Object.entries(kSliders).map(([name, [label, min, max, step]]) => {
      const output = make('output'), input = make('input', {type: 'range', name: `${kernel.letter}-${name}`, min, max, step});
      const show = () => {
        input.value = name === 'shared' ? Math.round(kernel.shared / 1024) : kernel[name];
        output.textContent = name === 'shared' ? +(kernel.shared / 1024).toFixed(1) : kernel[name];
      };
      show();
      input.oninput = () => {
        kernel[name] = name === 'shared' ? input.value * 1024 : +input.value;
        if (['threads', 'registers', 'shared'].includes(name)) preset.value = 'custom';
        show();
        draw();
      };
      return {show, element: make('label', {}, make('span', {}, label), output, input)};
    });
    preset.onchange = () => {
      Object.assign(kernel, known[preset.value]);
      for (const slider of sliders) slider.show();
      draw();
    };
    return make('fieldset', {class: `controls ${kernel.tone}`}, make('legend', {}, make('i', {class: kernel.tone}), `Kernel ${kernel.letter}`),
                make('label', {}, make('span', {}, 'Kernel'), preset), ...sliders.map(slider => slider.element));
  });
  swap.onchange = draw;
  element.append(...forms, make('label', {class: 'flag'}, swap, make('span', {}, 'Launch B first')), said,
                 make('figure', {}, make('figcaption', {}, 'One SM, filled in the order of the launches'), tanks),
                 make('figure', {}, make('figcaption', {}, `Blocks on ${sms} SMs over time`), timeline));
  let width = 0;
  new ResizeObserver(() => { if (width !== (width = element.clientWidth)) draw(); }).observe(element);
}

Object.assign(window.blocks ??= {}, {live: mount_live, predict: mount_predict, exercise: mount_exercise, sm: mount_sm});
window.course = {evaluate, request_of_command, kernels_of, room_for, blocks_in};  // for other blocks and tests
}
