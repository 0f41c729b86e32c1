// Three games on the planner (planner.js, apps/playground/tasks.h): scheduling a small graph by hand (mount_beat), a policy in JavaScript
// (mount_write), and plans to break (mount_break). Each fills an element, of a page or of a block in a chapter. A graph is
// {tasks: [{name, microseconds, width, bytes, after}], streams, capacity, limit}; a bar is {task, stream, start, finish}, where tasks are numbers.
'use strict';

(() => {

// ---- elements and text

const kDrawn = new Set(['svg', 'g', 'rect', 'path', 'line', 'text', 'tspan']);
/// Attributes whose names begin with "on" are listeners; null and false are left out.
function make(name, attributes = {}, ...children) {
  const made = kDrawn.has(name) ? document.createElementNS('http://www.w3.org/2000/svg', name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value === true ? '' : value);
  }
  made.append(...children.filter(child => child !== null));
  return made;
}
/// Replaces what is in an element; what had the focus has it again.
function redraw(host, ...children) {
  const key = host.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  host.replaceChildren(...children);
  if (key !== undefined) host.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus();
}
const button = (label, onclick, attributes = {}) => make('button', {type: 'button', onclick, ...attributes}, label);
const round = microseconds => +microseconds.toFixed(2);
const us = microseconds => `${round(microseconds)} µs`;
const list = (words, last = ' and ') => words.length < 2 ? words.join('') : words.slice(0, -1).join(', ') + last + words.at(-1);
const hue = task => `--hue: ${(205 + task * 137) % 360}`;
const mean = numbers => numbers.reduce((sum, number) => sum + number, 0) / numbers.length;

/// Enter and the space bar press what looks like a button and is drawn.
const pressed = action => event => {
  if (event.key !== 'Enter' && event.key !== ' ') return;
  event.preventDefault();
  action();
};
/// Calls moved(y) during a drag and drop(element, x, y) after it, and click() after a press without one: x of the pointer, y since the press.
function drag(made, label, {click, drop, moved = () => {}}) {
  made.addEventListener('pointerdown', down => {
    if (down.button !== 0) return;
    down.preventDefault();
    made.focus?.();
    let ghost = null;
    const move = event => {
      if (!ghost && Math.hypot(event.clientX - down.clientX, event.clientY - down.clientY) < 6) return;
      ghost ??= document.body.appendChild(make('div', {class: 'game-ghost', hidden: label === ''}, label));
      ghost.style.left = `${event.clientX}px`;
      ghost.style.top = `${event.clientY}px`;
      moved(event.clientY - down.clientY);
    };
    const stop = event => {
      removeEventListener('pointermove', move);
      removeEventListener('pointerup', stop);
      removeEventListener('pointercancel', stop);
      ghost?.remove();
      if (event.type === 'pointercancel') return moved(0);
      if (!ghost) return click();
      drop(document.elementFromPoint(event.clientX, event.clientY), event.clientX, event.clientY - down.clientY);
    };
    addEventListener('pointermove', move);
    addEventListener('pointerup', stop);
    addEventListener('pointercancel', stop);
  });
}

// ---- the planner

async function ask(request) {
  const {result, error} = await (window.shared_planner ??= start_planner()).call('tasks', request);
  if (error) throw new Error(error);
  return JSON.parse(result);
}
const kPolicies = {
  serial: 'serial', round_robin: 'round robin', matching: 'matching (Nimble)', stages: 'stages (IOS)',
  resource_order: 'resource order (Opara)', critical_path: 'critical path (Braid)',
};
const bars_of = ({plan, runs}) => runs.map((run, task) => ({task, stream: plan.placements[task].stream, ...run}));

/// {policies: {name: answer}, optimum, best: a schedule that has it, bound}.
const judged = new Map();
function judge(graph) {
  const key = JSON.stringify(graph);
  if (!judged.has(key)) {
    const names = Object.keys(kPolicies);
    judged.set(key, Promise.all(names.map((policy, i) => ask({graph, policy, optimum: i === 0}))).then(answers => ({
      optimum: answers[0].optimum, best: answers[0].best, bound: answers[0].plan.bound,
      policies: Object.fromEntries(names.map((name, i) => [name, answers[i]])),
    })));
  }
  return judged.get(key);
}

// ---- graphs

/// "a:2 b:3*2@512<a": b takes 3 microseconds, is 2 wide, has a result of 512 bytes, and needs a.
function graph_of(text, streams, capacity = streams, limit = 0) {
  const tasks = text.trim().split(/\s+/).map(task => {
    const [, name, microseconds, width, bytes, after] = task.match(/^(\w+):([\d.]+)(?:\*(\d+))?(?:@(\d+))?(?:<(.*))?$/);
    return {name, microseconds: +microseconds, width: +(width ?? 1), bytes: +(bytes ?? 0), after: after ? after.split(',') : []};
  });
  return {tasks, streams, capacity, limit};
}
const kPuzzles = {
  fork_join: {
    title: 'Fork and join', graph: graph_of('split:1 a:1<split b:2<split c:3<split d:6<split join:1<a,b,c,d', 2),
    idea: 'Four branches of unequal length lie between a fork and a join, as in an inception block. The join waits for the last of them.',
  },
  chains: {
    title: 'Two chains', graph: graph_of('b1:3 a1:2 a2:2<a1 a3:2<a2 a4:2<a3 b2:1<b1 c:2', 2),
    idea: 'A long chain is urgent from its first task on. What is not in it has time.',
  },
  graham: {
    title: 'Graham’s anomaly', graph: graph_of('t1:3 t2:2 t3:2 t4:2 t5:4<t4 t6:4<t4 t7:4<t4 t8:4<t4 t9:9<t1', 4),
    idea: 'Graham’s example of 1969. Whenever a stream is free, the next task of the list that is ready starts: three streams take 12 µs. ' +
        'The same rule on four streams takes 15 µs. Do better on four.',
  },
  wide: {
    title: 'Wide against narrow', graph: graph_of('a:4 b:2*2 wide:4*3 c:2*2 d:4*2 e:2*2<wide', 3, 4),
    idea: 'The machine has four units, and a task holds as many as it is wide. Which of them fit together?',
  },
  patience: {
    title: 'Patience', graph: graph_of('first:1 wide:4*2<first last:4<wide long:6', 2),
    idea: 'A task that is ready may still be the wrong one to start. The wide task needs both units at once.',
  },
  backward: {
    title: 'Backward', graph: graph_of('f1:1 f2:2<f1 f3:2<f2 d3:2<f3 w3:2<f3 d2:2<d3 w2:2<d3 w1:1<d2 u3:1<w3 u2:1<w2 u1:1<w1', 2),
    idea: 'A network of three layers trains: f is the forward pass, d the gradient of a layer’s input, w that of its weights, u their update. ' +
        'Only the d’s hold up other layers.',
  },
  inception: {
    title: 'An inception block',
    graph: graph_of('stem:1 one:3*2<stem r3:1<stem three:5*2<r3 r5:1<stem five:3*2<r5 pool:2<stem proj:1<pool cat:1<one,three,five,proj',
                    3, 4),
    idea: 'GoogLeNet’s block: four branches of convolutions, some of which take half of the machine, and their concatenation.',
  },
  memory: {
    title: 'Too little memory', graph: graph_of('in:1@256 a:2@1024<in x:1@256<a b:2@1024<in y:1@256<b c:3<in out:1@256<x,y,c', 3, 3, 2048),
    idea: 'The results have to fit into 2048 bytes, and a and b are large. Bytes are free again once the last reader has finished.',
  },
};

const readers_of = (graph, task) => graph.tasks.flatMap((other, i) => other.after.includes(graph.tasks[task].name) ? [i] : []);
const needs_of = (graph, task) => graph.tasks[task].after.map(name => graph.tasks.findIndex(other => other.name === name));
/// The longest chain of tasks.
function longest_chain(graph) {
  const chains = graph.tasks.map(() => null);
  for (let task = graph.tasks.length - 1; task >= 0; --task) {
    const tails = readers_of(graph, task).map(reader => chains[reader]);
    const tail = tails.reduce((a, b) => b.time > a.time ? b : a, {time: 0, tasks: []});
    chains[task] = {time: tail.time + graph.tasks[task].microseconds, tasks: [task, ...tail.tasks]};
  }
  return chains.reduce((a, b) => b.time > a.time ? b : a);
}
const name_list = (graph, tasks, last) => list(tasks.map(task => graph.tasks[task].name), last);

// ---- pictures

/// The streams of a plan over time: a bar per task, an arrow per wait. The options give attributes of bars, rows and arrows; `hot` tasks are
/// outlined. The picture has time_at(x) of a pointer, and at(time), which covers what is later.
function streams_picture(host, graph, bars, {until, arrows = [], bar = () => ({}), row = () => ({}), arrow = () => ({}), hot = new Set()}) {
  const width = Math.max(host.clientWidth || 640, 280), left = width < 500 ? 24 : 66, tall = 50, bottom = graph.streams * tall;
  const end = until > 0 ? until : 1, x = time => left + time / end * (width - left - 8);
  const picture = make('svg', {class: 'game-picture', viewBox: `0 0 ${width} ${bottom + 24}`, height: bottom + 24, role: 'group',
                               'aria-label': 'streams over time'});
  for (let stream = 0; stream < graph.streams; ++stream) {
    picture.append(make('g', {'data-stream': stream, ...row(stream)},
        make('rect', {class: 'lane', x: left, y: stream * tall + 3, width: width - left - 8, height: tall - 6, rx: 6}),
        make('text', {x: 4, y: stream * tall + tall / 2 + 5}, width < 500 ? stream : `stream ${stream}`)));
  }
  const least = end / ((width - left) / 56), power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map(factor => factor * power).find(size => size >= least);
  for (let time = 0; time <= end * 1.001; time += step) {
    picture.append(make('line', {class: 'grid', x1: x(time), x2: x(time), y1: 0, y2: bottom}),
                   make('text', {class: 'faint', x: x(time), y: bottom + 17, 'text-anchor': time + step > end ? 'end' : 'middle'}, us(time)));
  }
  for (const {task, stream, start, finish} of bars) {
    const {name, width: units = 1} = graph.tasks[task], wide = Math.max(x(finish) - x(start) - 1, 2);
    const text = units > 1 && wide > (name.length + 4) * 8 ? `${name} ×${units}` : name;
    picture.append(make('g', {class: `task ${hot.has(task) ? 'hot' : ''}`, style: hue(task), 'data-task': task, 'data-stream': stream,
                              'data-key': `bar${task}`, 'aria-label': `${name} on stream ${stream}, from ${us(start)} to ${us(finish)}`, ...bar(task)},
        make('rect', {x: x(start), y: stream * tall + 9, width: wide, height: tall - 18, rx: 4}),
        text.length * 7 < wide ? make('text', {x: x(start) + wide / 2, y: stream * tall + tall / 2 + 4, 'text-anchor': 'middle'}, text) : null));
  }
  const at = new Map(bars.map(each => [each.task, each])), ends = new Map();
  for (const each of arrows) {
    const from = at.get(each.from), to = at.get(each.to);
    if (!from || !to) continue;
    const fan = task => { ends.set(task, (ends.get(task) ?? -1) + 1); return 3 + 7 * ends.get(task); };  // arrows end apart
    const down = to.stream > from.stream, y1 = from.stream * tall + (down ? tall - 9 : 9), y2 = to.stream * tall + (down ? 9 : tall - 9);
    const x1 = Math.max(x(from.start) + 3, x(from.finish) - fan(from)), x2 = Math.min(x(to.start) + fan(to), x(to.finish) - 3), tip = down ? -6 : 6;
    const curve = `M${x1},${y1}C${x1},${(y1 + y2) / 2} ${x2},${(y1 + y2) / 2} ${x2},${y2}`;
    picture.append(make('g', {class: 'arrow', ...arrow(each)}, make('path', {class: 'reach', d: curve}), make('path', {class: 'line', d: curve}),
        make('path', {class: 'tip', d: `M${x2},${y2}l-4,${tip}h8z`})));
  }
  picture.time_at = client_x => (client_x - picture.getBoundingClientRect().left - left) / (width - left - 8) * end;
  picture.at = time => {
    picture.cover ??= picture.appendChild(make('rect', {class: 'cover', y: 0, height: bottom}));
    picture.cover.setAttribute('x', x(Math.min(time, end)));
    picture.cover.setAttribute('width', Math.max(width - x(time), 0));
  };
  return picture;
}

/// The graph, from left to right: a box per task, with a class and further attributes.
function graph_picture(host, graph, box) {
  const levels = [];
  graph.tasks.forEach((_, task) => { levels[task] = Math.max(-1, ...needs_of(graph, task).map(before => levels[before])) + 1; });
  const columns = Math.max(...levels) + 1;
  const rows = levels.map((level, task) => levels.slice(0, task).filter(other => other === level).length);
  const count = level => levels.filter(other => other === level).length, tallest = Math.max(...levels.map(count));
  const room = Math.min(118, Math.max(62, (Math.max(host.clientWidth || 640, 280) - 4) / columns)), wide = room - (room < 80 ? 16 : 30);
  const center = task => ({x: levels[task] * room + wide / 2 + 2, y: (rows[task] + (tallest - count(levels[task])) / 2) * 46 + 23});
  const picture = make('svg', {class: 'game-picture graph', width: columns * room, height: tallest * 46, role: 'group',
                               'aria-label': 'tasks and what they need'});
  graph.tasks.forEach((_, task) => {
    for (const before of needs_of(graph, task)) {
      const a = center(before), b = center(task), x1 = a.x + wide / 2, x2 = b.x - wide / 2;
      picture.append(make('path', {class: 'edge', d: `M${x1},${a.y}C${x1 + 12},${a.y} ${x2 - 12},${b.y} ${x2},${b.y}`}));
    }
  });
  graph.tasks.forEach(({name, microseconds, width = 1, bytes, after}, task) => {
    const {x, y} = center(task), {class: kind = '', ...attributes} = box(task);
    const small = us(microseconds) + (width > 1 ? ` ×${width}` : '');
    picture.append(make('g', {class: `task ${kind}`, style: hue(task), 'data-task': task, 'data-key': `box${task}`,
                              'aria-label': `${name}: ${us(microseconds)}` + (width > 1 ? `, ${width} units wide` : '') +
                                  (graph.limit ? `, ${bytes} bytes` : '') + (after.length ? `, after ${list(after)}` : ''), ...attributes},
        make('rect', {x: x - wide / 2, y: y - 19, width: wide, height: 38, rx: 7}),
        make('text', {x, y: y - 3, 'text-anchor': 'middle'}, name),
        make('text', {class: 'small', x, y: y + 12, 'text-anchor': 'middle'}, graph.limit && bytes >= 1024 ? `${small} ${bytes / 1024}K` : small)));
  });
  return make('div', {class: 'game-wide'}, picture);
}

/// A game that fills an element: says errors in place, redraws when the width changes, keeps its state in the address if it has a page.
function game(element, name, page) {
  element.classList.add('game', name);
  const status = make('p', {class: 'game-status', role: 'status'}), errors = make('div', {class: 'game-errors', role: 'alert'});
  const saved = page ? Object.fromEntries(new URLSearchParams(location.hash.slice(1))) : {};
  let width = 0;
  if (page) addEventListener('hashchange', () => location.reload());  // another link to the same page
  return {
    saved, status, errors,
    save(state) { if (page) history.replaceState(null, '', `#${new URLSearchParams(state)}`); },
    say(text) { status.textContent = text; },
    /// Runs work, and says what it throws.
    async attempt(work) {
      try {
        errors.textContent = '';
        await work();
      } catch (error) {
        errors.textContent = error.message;
      }
    },
    on_resize(draw) {
      new ResizeObserver(() => {
        const now = element.clientWidth;
        if (now === width || now === 0) return;  // 0: it is hidden
        width = now;
        draw();
      }).observe(element);
    },
  };
}
/// Calls act() with the newest state, one call at a time.
function newest(act) {
  let running = null, again = false;
  return () => {
    again = true;
    running ??= (async () => {
      while (again) {
        again = false;
        await act();
      }
      running = null;
    })();
    return running;
  };
}
const titles = things => Object.fromEntries(Object.entries(things).map(([key, {title}]) => [key, title]));
function chooser(label, names, value, change) {
  const options = Object.entries(names).map(([key, text]) => make('option', {value: key}, text));
  const select = make('select', {onchange: () => change(select.value)}, ...options);
  select.value = value;
  return make('label', {class: 'game-choose'}, `${label} `, select);
}
/// A table of rows {own, cells}, of which the first cell names its row.
function score_table(heads, rows) {
  const body = rows.map(({own, cells: [label, ...cells]}) => make('tr', {class: own ? 'own' : ''}, make('th', {scope: 'row'}, label),
      ...cells.map(cell => make('td', {class: cell.best ? 'number best' : 'number'}, cell.text ?? cell))));
  const head = make('tr', {}, ...heads.map(text => make('th', {scope: 'col'}, text)));
  return make('div', {class: 'game-wide'}, make('table', {class: 'game-scores'}, make('thead', {}, head), make('tbody', {}, ...body)));
}
/// Throws unless one of the things has this name, which may come from an address or a chapter.
function known(things, name, what) {
  if (!Object.hasOwn(things, name)) throw new Error(`There is no ${what} ${name}; there are ${list(Object.keys(things))}.`);
}
const percent = (share, digits = 0) => `${(Math.floor(share * 100 * 10 ** digits + 1e-6) / 10 ** digits).toFixed(digits)} %`;

// ---- beat it

function mount_beat(element, {puzzle = 'fork_join', page = false} = {}) {
  const {saved, status, errors, save, say, attempt, on_resize} = game(element, 'beat', page);
  let name, graph, entries, history_, chosen, answer, verdict, shown, hints;
  const idea = make('p', {class: 'game-idea'}), tools = make('div', {class: 'game-tools'}), tasks = make('div'), streams = make('div');
  const score = make('div', {class: 'game-score'}), other = make('div'), hint = make('p', {class: 'game-hint', 'aria-live': 'polite'});
  const choose_puzzle = page ? chooser('Puzzle', titles(kPuzzles), puzzle, key => attempt(() => start(key))) : make('h3');
  element.replaceChildren(choose_puzzle, idea, tasks, tools, status, streams, errors, hint, score, other);

  const placed = task => entries.some(entry => entry.task === task);
  const missing = task => needs_of(graph, task).filter(before => !placed(before));
  const task_of = named => graph.tasks.findIndex(task => task.name === named);
  const complete = () => entries.length === graph.tasks.length;
  const won = () => complete() && answer.fits && answer.makespan <= verdict.optimum * (1 + 1e-9);
  /// The same entries, each after those that it needs.
  function in_order(from) {
    const left = [...from], ordered = [];
    while (left.length) {
      const next = left.findIndex(({task}) => needs_of(graph, task).every(before => ordered.some(entry => entry.task === before)));
      ordered.push(...left.splice(next, 1));
    }
    return ordered;
  }
  function change(next) {
    if (JSON.stringify(next) === JSON.stringify(entries)) return draw();
    history_.push(entries);
    entries = next;
    shown = null;
    hint.textContent = '';
    return update();
  }
  /// Puts a task on a stream, ahead of what is in its middle at the time or later.
  function place(task, stream, time = Infinity) {
    if (missing(task).length) {
      say(`${graph.tasks[task].name} needs ${name_list(graph, missing(task))} first.`);
      return;
    }
    const rest = entries.filter(entry => entry.task !== task);
    const later = rest.findIndex(entry => {
      if (entry.stream !== stream) return false;
      const {start, finish} = answer.bars.find(each => each.task === entry.task);
      return (start + finish) / 2 > time;
    });
    rest.splice(later < 0 ? rest.length : later, 0, {task, stream});
    chosen = null;
    say('');
    return change(in_order(rest))?.then(() => {
      const {start, finish} = answer.bars.find(each => each.task === task);
      say(`${graph.tasks[task].name} runs on stream ${stream} from ${us(start)} to ${us(finish)}.`);
    });
  }
  function remove(task) {
    const gone = new Set([task]);
    entries.forEach(entry => { if (needs_of(graph, entry.task).some(before => gone.has(before))) gone.add(entry.task); });
    chosen = null;
    return change(entries.filter(entry => !gone.has(entry.task)));
  }
  /// Moves a task by one place in its stream.
  function shift(task, by) {
    const {stream} = entries.find(entry => entry.task === task), mine = entries.filter(entry => entry.stream === stream);
    const neighbour = mine[mine.findIndex(entry => entry.task === task) + by];
    if (!neighbour) return;
    const next = entries.filter(entry => entry.task !== task), at = next.indexOf(neighbour);
    next.splice(by < 0 ? at : at + 1, 0, {task, stream});
    return change(in_order(next));
  }
  function choose(task) {
    chosen = chosen === task ? null : task;
    if (chosen === null) say('');
    else if (missing(task).length) say(`${graph.tasks[task].name} needs ${name_list(graph, missing(task))} first.`);
    else say(`Put ${graph.tasks[task].name} on which stream? Press its number, choose it, or drag the task there.`);
    draw();
  }
  function drop(task, onto, client_x) {
    const row = onto?.closest?.('[data-stream]');
    if (row && streams.contains(row)) return place(task, +row.dataset.stream, streams.firstChild.time_at(client_x));
    if (placed(task)) remove(task);
  }
  function on_key(task, event) {
    const digit = +event.key;
    if (event.key >= '0' && event.key <= '9' && digit < graph.streams) place(task, digit);
    else if ((event.key === 'Delete' || event.key === 'Backspace') && placed(task)) remove(task);
    else if (event.key === 'ArrowLeft' && placed(task)) shift(task, -1);
    else if (event.key === 'ArrowRight' && placed(task)) shift(task, 1);
    else if (event.key === 'Enter' || event.key === ' ') choose(task);
    else return;
    event.preventDefault();
  }
  /// Makes a box or a bar a button that can be dragged.
  function enliven(picture) {
    for (const made of picture.querySelectorAll('.task')) {
      const task = +made.dataset.task;
      drag(made, graph.tasks[task].name, {click: () => choose(task), drop: (onto, x) => drop(task, onto, x)});
    }
    return picture;
  }
  const interactive = task => ({tabindex: 0, role: 'button', 'aria-pressed': chosen === task, onkeydown: event => on_key(task, event)});

  const update = newest(() => attempt(async () => {
    save({puzzle: name, plan: entries.map(({task, stream}) => `${graph.tasks[task].name}.${stream}`).join(' ')});
    const parts = graph.tasks.flatMap((_, task) => placed(task) ? [task] : []);
    if (parts.length) {
      const schedule = entries.map(({task, stream}) => ({task: graph.tasks[task].name, stream}));
      const reply = await ask({graph: {...graph, tasks: parts.map(task => graph.tasks[task])}, schedule});
      answer = {...reply, bars: bars_of(reply).map(bar => ({...bar, task: parts[bar.task]})),
                arrows: waits_of(reply.plan.streams).map(({from, to}) => ({from: parts[from], to: parts[to]}))};
    } else {
      answer = {bars: [], arrows: [], makespan: 0};
    }
    draw();
  }));

  function draw() {
    const serial = graph.tasks.reduce((sum, task) => sum + task.microseconds, 0);
    redraw(tasks, enliven(graph_picture(tasks, graph, task => ({
      ...interactive(task), class: `${placed(task) ? 'placed' : missing(task).length ? 'blocked' : 'ready'} ${chosen === task ? 'chosen' : ''}`,
    }))));
    redraw(streams, enliven(streams_picture(streams, graph, answer.bars, {
      until: Math.max(answer.makespan, Math.min(serial, 1.15 * verdict.policies.round_robin.makespan)), arrows: answer.arrows,
      bar: interactive, hot: new Set([chosen]),
      row: stream => ({onclick: () => { if (chosen !== null) place(chosen, stream); }}),
    })));
    const ready = chosen !== null && !missing(chosen).length;
    redraw(tools,
        ...Array.from({length: graph.streams}, (_, stream) =>
            button(`→ stream ${stream}`, () => place(chosen, stream), {disabled: !ready, 'data-key': `to${stream}`})),
        button('Take away', () => remove(chosen), {disabled: chosen === null || !placed(chosen), 'data-key': 'away'}),
        make('span', {class: 'gap'}),
        button('Undo', () => { entries = history_.pop(); chosen = null; update(); }, {disabled: !history_.length, 'data-key': 'undo'}),
        button('Clear', () => change([]), {disabled: !entries.length, 'data-key': 'clear'}),
        button('Hint', give_hint, {'data-key': 'hint'}),
        button('Show the best', () => change(verdict.best.map(({task, stream}) => ({task: task_of(task), stream}))),
               {'data-key': 'best'}));
    draw_score();
  }
  function draw_score() {
    const {optimum, policies} = verdict;
    if (!complete()) {
      const used = graph.limit && entries.length ? ` The results placed so far take ${answer.plan.arena_bytes} of ${graph.limit} bytes.` : '';
      redraw(score, make('p', {class: 'game-faint'}, `${entries.length} of ${graph.tasks.length} tasks placed.${used} ` +
          'The score appears once all are.'));
      redraw(other);
      return;
    }
    const slower = ({makespan, fits}) => !fits || makespan > answer.makespan * (1 + 1e-9);
    const beaten = Object.keys(policies).filter(policy => slower(policies[policy])).map(policy => kPolicies[policy]);
    const rows = Object.entries({own: answer, ...policies}).sort(([, a], [, b]) => a.makespan - b.makespan);
    const longest = rows.at(-1)[1].makespan;
    const show = policy => { shown = shown === policy ? null : policy; draw_score(); };
    const text = !answer.fits ? `The arena takes ${answer.plan.arena_bytes} bytes, and there are ${graph.limit}.` :
        won() ? 'No schedule is faster.' : `The best schedule takes ${us(optimum)}.`;
    redraw(score,
        make('p', {class: won() ? 'game-verdict won' : 'game-verdict'}, make('b', {}, `${us(answer.makespan)}`),
             answer.fits ? ` Score ${percent(optimum / answer.makespan)}. ` : ' ', text,
             answer.fits && beaten.length ? ` Yours beats ${list(beaten)}.` : ''),
        score_table(['schedule', 'makespan', 'score', ''], rows.map(([policy, {makespan, fits}]) => ({
          own: policy === 'own', cells: [
            policy === 'own' ? 'yours' : button(kPolicies[policy], () => show(policy), {'data-key': policy, 'aria-pressed': shown === policy}),
            us(makespan), fits ? percent(optimum / makespan) : 'too large', make('i', {style: `width: ${100 * makespan / longest}%`})],
        }))));
    if (!shown) return redraw(other);
    const {plan, makespan} = policies[shown];
    redraw(other, make('h4', {}, `The schedule of ${kPolicies[shown]}`),
           streams_picture(other, graph, bars_of(policies[shown]), {until: Math.max(answer.makespan, makespan), arrows: waits_of(plan.streams)}));
  }

  const chain = () => name_list(graph, longest_chain(graph).tasks, ', ');
  /// First what bounds every schedule, then what is wrong with this one.
  function give_hint() {
    const {bound: {depth, work, bound}} = verdict, each = work / graph.capacity;
    const why = bound <= depth * (1 + 1e-9) ? `the chain ${chain()} takes as long` :
        bound <= each * (1 + 1e-9) ? `the tasks take ${round(work)} unit-microseconds together, and there are ${graph.capacity} units` :
        'somewhere between a fork and a join the tasks do not fill all units, or a stream is short: ' +
            `the longest chain takes ${us(depth)}, and the work, spread over all units, ${us(each)}`;
    hint.textContent = won() ? 'No schedule is faster than yours.' :
        hints++ % 2 === 0 ? `Lower bound: no schedule takes less than ${us(bound)}, because ${why}.` : idle_hint();
  }
  /// A time at which a task is ready and could run.
  function idle_hint() {
    const {bars} = answer, finish = new Map(bars.map(bar => [bar.task, bar.finish]));
    for (const time of [0, ...bars.map(bar => bar.finish)].sort((a, b) => a - b)) {
      const running = bars.filter(bar => bar.start <= time && time < bar.finish);
      const free = graph.capacity - running.reduce((sum, bar) => sum + graph.tasks[bar.task].width, 0);
      const could = graph.tasks.findIndex(({width}, task) => width <= free && !bars.some(bar => bar.task === task && bar.start <= time) &&
          needs_of(graph, task).every(before => finish.get(before) <= time));
      if (running.length < graph.streams && could >= 0 && time < Math.max(answer.makespan, 1e-9)) {
        return `At ${us(time)} a stream is idle although ${graph.tasks[could].name} could run. Is that on purpose?`;
      }
    }
    return complete() ? `No stream is idle while a task could run. Ask which task should go first: the longest chain is ${chain()}.` :
        `Start with what the longest chain needs: ${chain()}.`;
  }

  async function start(key, plan = '') {
    known(kPuzzles, key, 'puzzle');
    name = key;
    ({graph} = kPuzzles[key]);
    [entries, history_, chosen, shown, hints, answer] = [[], [], null, null, 0, {bars: [], arrows: [], makespan: 0}];
    idea.textContent = kPuzzles[key].idea + ` ${graph.streams} streams` + (graph.capacity === graph.streams ? '.' : `, ${graph.capacity} units.`);
    if (!page) choose_puzzle.textContent = kPuzzles[key].title;
    hint.textContent = '';
    say('');
    verdict = await judge(graph);
    for (const part of plan.split(' ').filter(Boolean)) {  // from an address, which anyone may have written
      const [named, number] = part.split('.'), task = task_of(named), stream = +number;
      const possible = task >= 0 && !placed(task) && !missing(task).length && stream in Array(graph.streams).fill(0);
      if (!possible) throw new Error(`The address places ${part}, which cannot be.`);
      entries.push({task, stream});
    }
    await update();
    draw();
  }
  on_resize(() => { if (verdict) draw(); });
  return attempt(async () => {
    const key = saved.puzzle ?? puzzle;
    if (page && Object.hasOwn(kPuzzles, key)) choose_puzzle.querySelector('select').value = key;
    await start(key, saved.plan);
  });
}

/// The waits of command lists: {from, to, stream, place}, for a task that is launched after the wait at a place in a stream.
function waits_of(streams) {
  const recorded = {}, waits = [];
  for (const commands of streams) {
    let last = null;
    for (const {launch, record} of commands) {
      if (launch !== undefined) last = launch;
      if (record !== undefined) recorded[record] = last;
    }
  }
  streams.forEach((commands, stream) => commands.forEach(({wait}, place) => {
    const to = commands.slice(place).find(({launch}) => launch !== undefined)?.launch;
    if (wait !== undefined && to !== undefined && recorded[wait] !== null) waits.push({from: recorded[wait], to, stream, place});
  }));
  return waits;
}

// ---- break it

const kPlans = {
  block: {
    title: 'An inception block', policy: 'matching',
    graph: graph_of('stem:1@512 one:3@512<stem r3:1@256<stem three:4@768<r3 r5:1@256<stem five:3@512<r5 cat:1@2048<one,three,five ' +
                    'head:2@256<cat', 3),
    idea: 'The planner’s own plan of a small inception block: every wait that it has is necessary, and results share bytes where the waits allow.',
  },
  chains: {
    title: 'Bytes used again', policy: 'matching',
    graph: graph_of('a:2@512 b:3@512<a c:2@512<b d:2@512<c x:2@512<a y:3@512<x z:2@512<y out:1@256<d,z', 2),
    idea: 'Two chains between a fork and a join. Few bytes serve many results, one after another.',
  },
  redundant: {
    title: 'Find all redundant waits', policy: 'critical_path', full: true,
    graph: graph_of('a:1@256 b:2@512<a c:3@256<a d:3@256<a e:2@256<a,b,c f:3@512<a,c,d g:2@256<a,b,d h:2@256<b,e,f ' +
                    'i:2@256<c,f,g j:1@256<d,h,i,g', 3),
    idea: 'A wait for every edge between streams, as a cautious programmer would write. Delete as many as the verifier accepts.',
  },
};
const kReads = /^node (\d+) .* reads value (\d+) but is not ordered after node (\d+) /;
const kOverwrites = /^node (\d+) .* writes value (\d+) over value (\d+) but is not ordered after node (\d+) /;
/// The race that a fault of the verifier names: `second` should come after `first`, and does not have to; null for other faults.
function race_of(fault) {
  const reads = fault.match(kReads)?.map(Number), overwrites = fault.match(kOverwrites)?.map(Number);
  return reads ? {second: reads[1], first: reads[3], values: [reads[2]], writes: false} :
      overwrites ? {second: overwrites[1], first: overwrites[4], values: [overwrites[2], overwrites[3]], writes: true} : null;
}
const waits_in = streams => streams.flat().filter(command => 'wait' in command).length;
/// Commands with an event after every task, and a wait for every edge between streams.
function all_waits(graph, plan) {
  const stream_of = task => plan.placements[task].stream;
  return {
    events: graph.tasks.length, offsets: plan.offsets,
    streams: plan.streams.map((commands, stream) => commands.flatMap(({launch}) => launch === undefined ? [] : [
      ...needs_of(graph, launch).filter(before => stream_of(before) !== stream).map(wait => ({wait})), {launch}, {record: launch}])),
  };
}

function mount_break(element, {plan: chosen_plan = 'block', page = false} = {}) {
  const {saved, status, errors, save, say, attempt, on_resize} = game(element, 'break', page);
  let name, graph, base, first, edit, history_, answer, bars, selected, running = 0;
  const idea = make('p', {class: 'game-idea'}), tools = make('div', {class: 'game-tools'});
  const streams = make('div'), commands = make('div'), memory = make('div');
  const verdict = make('div', {class: 'game-faults', 'aria-live': 'polite'}), run = make('div', {class: 'game-run'});
  const choose_plan = page ? chooser('Plan', titles(kPlans), chosen_plan, key => attempt(() => start(key))) : make('h3');
  element.replaceChildren(choose_plan, idea, make('h4', {}, 'Streams and waits'), streams, tools, status, errors, verdict, run,
      make('h4', {}, 'Commands'), commands, make('h4', {}, 'Memory'), memory);

  const task_name = task => graph.tasks[task].name;
  const bytes_of = value => ({from: edit.offsets[value], to: edit.offsets[value] + graph.tasks[value].bytes});
  const request = () => ({graph, policy: kPlans[name].policy, edit});
  function change(next) {
    history_.push(edit);
    edit = next;
    return update();
  }
  const with_stream = (stream, list_) => ({...edit, streams: edit.streams.map((old, i) => i === stream ? list_ : old)});
  function delete_command(stream, place) {
    const {wait} = edit.streams[stream][place];
    if (wait === undefined) return say('Only waits can be deleted: every task has to run, and every event is recorded once.');
    say('');
    selected = null;
    return change(with_stream(stream, edit.streams[stream].toSpliced(place, 1)));
  }
  function swap(stream, place, by) {
    const list_ = [...edit.streams[stream]], other = place + by;
    if (other < 0 || other >= list_.length) return;
    [list_[place], list_[other]] = [list_[other], list_[place]];
    selected = `${stream}.${other}`;
    const done = change(with_stream(stream, list_));
    return done.then(() => commands.querySelector(`[data-key="${selected}"]`)?.focus());
  }
  function move(value, offset) {
    const most = answer.plan.arena_bytes - graph.tasks[value].bytes, to = Math.min(Math.max(256 * Math.round(offset / 256), 0), most);
    if (to !== edit.offsets[value]) return change({...edit, offsets: edit.offsets.map((old, i) => i === value ? to : old)});
    draw_memory();
  }

  const update = newest(() => attempt(async () => {
    save({plan: name, ...(edit === first ? {} : {edit: JSON.stringify(edit)})});
    ++running;  // ends the animation of an older plan
    redraw(run);
    answer = await ask(request());
    if (answer.runs) bars = bars_of(answer);
    draw();
  }));

  function draw() {
    const races = answer.faults.map(race_of).filter(Boolean), hot = new Set(races.flatMap(({first: a, second: b}) => [a, b]));
    redraw(tools,
        button('Undo', () => { edit = history_.pop(); selected = null; update(); }, {disabled: !history_.length, 'data-key': 'undo'}),
        button('Reset', () => { selected = null; change(first); }, {disabled: edit === first, 'data-key': 'reset'}));
    redraw(streams, streams_picture(streams, graph, bars, {
      until: Math.max(...bars.map(bar => bar.finish)), arrows: waits_of(edit.streams), hot,
      arrow: ({from, to, stream, place}) => {
        const remove = () => delete_command(stream, place);
        return {tabindex: 0, role: 'button', 'data-key': `wait${stream}.${place}`, 'data-wait': `${task_name(from)} ${task_name(to)}`,
                'aria-label': `${task_name(to)} waits for ${task_name(from)}: delete this wait`, onclick: remove,
                onkeydown: event => event.key === 'Delete' || event.key === 'Backspace' ? remove() : pressed(remove)(event)};
      },
    }));
    draw_commands();
    draw_memory();
    draw_verdict();
  }
  function draw_commands() {
    const recorded = {};
    edit.streams.forEach(list_ => {
      let last = null;
      for (const {launch, record} of list_) {
        if (launch !== undefined) last = launch;
        if (record !== undefined) recorded[record] = last === null ? 'nothing' : task_name(last);
      }
    });
    redraw(commands, ...edit.streams.map((list_, stream) => make('div', {class: 'game-commands'}, make('span', {}, `stream ${stream}`),
        ...list_.map((command, place) => {
          const key = `${stream}.${place}`, [kind] = Object.keys(command);
          const event = recorded[command[kind]] ?? 'an event';
          const text = {launch: () => task_name(command.launch), record: () => `record ${event}`, wait: () => `wait for ${event}`}[kind]();
          return button(text, () => { selected = selected === key ? null : key; draw_commands(); }, {
            class: kind, 'data-key': key, 'aria-pressed': selected === key, style: kind === 'launch' ? hue(command.launch) : null,
            onkeydown: event => {
              if (event.key === 'Delete' || event.key === 'Backspace') delete_command(stream, place);
              else if (event.key === 'ArrowLeft') swap(stream, place, -1);
              else if (event.key === 'ArrowRight') swap(stream, place, 1);
              else return;
              event.preventDefault();
            },
          });
        }))), chosen_command());
  }
  function chosen_command() {
    if (selected === null) return make('p', {class: 'game-faint'}, 'Choose a command to move or delete it; with the keyboard: ← → Delete.');
    const [stream, place] = selected.split('.').map(Number);
    return make('div', {class: 'game-tools'},
        button('← Earlier', () => swap(stream, place, -1), {disabled: place === 0, 'data-key': 'earlier'}),
        button('Later →', () => swap(stream, place, 1), {disabled: place + 1 === edit.streams[stream].length, 'data-key': 'later'}),
        button('Delete the wait', () => delete_command(stream, place),
               {disabled: !('wait' in edit.streams[stream][place]), 'data-key': 'delete'}));
  }
  function draw_memory() {
    const until = Math.max(...bars.map(bar => bar.finish)), arena = answer.plan.arena_bytes;
    const width = Math.max(memory.clientWidth || 640, 280);
    const left = 48, tall = 220, x = time => left + time / until * (width - left - 8), y = offset => 4 + offset / arena * tall;
    const picture = make('svg', {class: 'game-picture', viewBox: `0 0 ${width} ${tall + 8}`, height: tall + 8, role: 'group',
                                 'aria-label': 'bytes of the arena over time'});
    for (let offset = 0; offset <= arena; offset += 256 * Math.ceil(arena / 256 / 8)) {
      picture.append(make('line', {class: 'grid', x1: left, x2: width - 8, y1: y(offset), y2: y(offset)}),
                     make('text', {class: 'faint', x: left - 6, y: y(offset) + (offset ? 4 : 9), 'text-anchor': 'end'}, offset));
    }
    const raced = new Set(answer.faults.flatMap(fault => race_of(fault)?.values ?? []));
    graph.tasks.forEach(({name: text, bytes}, value) => {
      const readers = readers_of(graph, value), {from, to} = bytes_of(value);
      const start = bars[value].start, end = readers.length ? Math.max(...readers.map(reader => bars[reader].finish)) : until;
      const rect = make('g', {class: `task value ${raced.has(value) ? 'hot' : ''}`, style: hue(value), tabindex: 0, role: 'button',
                              'data-value': text, 'data-key': `value${value}`,
                              'aria-label': `result of ${text}: bytes ${from} to ${to}; arrow keys move it`,
                              onkeydown: event => {
                                const by = {ArrowUp: -256, ArrowDown: 256}[event.key];
                                if (!by) return;
                                event.preventDefault();
                                move(value, from + by);
                              }},
          make('rect', {x: x(start), y: y(from), width: Math.max(x(end) - x(start) - 1, 2), height: y(to) - y(from) - 1, rx: 3}),
          make('text', {x: x(start) + 6, y: (y(from) + y(to)) / 2 + 4}, text));
      drag(rect, '', {click: () => {}, moved: by => rect.setAttribute('transform', `translate(0 ${by})`),
                      drop: (onto, at, by) => move(value, from + by / tall * arena)});
      picture.append(rect);
    });
    redraw(memory, picture, make('p', {class: 'game-faint'},
        'A result is a block from its write to its last read. Drag it to other bytes, or move it with ↑ and ↓.'));
  }
  function draw_verdict() {
    const {faults} = answer, safe = faults.length === 0, rows = [];
    if (kPlans[name].full) {
      const all = waits_in(first.streams), spare = all - waits_in(base.streams), deleted = all - waits_in(edit.streams);
      const won = safe && deleted >= spare;
      rows.push(make('p', {class: won ? 'game-verdict won' : 'game-verdict'}, make('b', {}, `${deleted} of ${spare}`),
          won ? ' redundant waits are deleted, and the plan is safe. As many remain as the planner itself would keep.' :
                ` waits deleted; ${spare} of the ${all} are redundant.`));
    }
    if (safe) rows.push(make('p', {class: 'game-safe'}, 'The verifier finds the plan safe: whatever the tasks take, every run computes the same.'));
    const boxes = faults.map((fault, i) => {
      const race = race_of(fault);
      const bytes = race?.values.map(bytes_of) ?? [];
      const from = Math.max(...bytes.map(range => range.from)), to = Math.min(...bytes.map(range => range.to));
      return make('div', {class: 'game-fault'},
          race ? make('p', {}, make('b', {}, `${task_name(race.first)} and ${task_name(race.second)} race on bytes ${from} to ${to}. `),
                      button('Show a run that goes wrong', () => attempt(() => show_run(race, from, to)), {'data-key': `run${i}`})) : null,
          make('p', {}, `${fault[0].toUpperCase()}${fault.slice(1)}`));
    });
    const more = boxes.slice(2);
    redraw(verdict, ...rows, ...boxes.slice(0, 2),
           more.length ? make('details', {}, make('summary', {}, `${more.length} more fault${more.length > 1 ? 's' : ''}`), ...more) : '',
           answer.runs ? '' : make('p', {class: 'game-faint'}, 'The plan never ends. The pictures show the times before this change.'));
  }

  /// Simulates the plan with `first` so slow that `second` does not find it finished, and plays the run.
  async function show_run(race, from, to) {
    const number = ++running, {first: slow, second} = race, longest = Math.max(...bars.map(bar => bar.finish));
    const microseconds = graph.tasks.map((task, i) => task.microseconds + (i === slow ? longest : 0));
    const unlucky = await ask({...request(), microseconds}), played = bars_of(unlucky);
    const [a, b] = [played[slow], played[second]], until = Math.max(a.finish, b.finish) * 1.05;
    const arrows = waits_of(edit.streams), hot = new Set([slow, second]);
    const picture = streams_picture(run, graph, played, {until: unlucky.makespan, arrows, hot});
    const clock = make('p', {class: 'game-clock'}), bytes = make('div'), words = make('p', {class: 'game-verdict lost', role: 'status'});
    redraw(run, make('h4', {}, `A run in which ${task_name(slow)} is slow`), picture, bytes, clock, words);
    run.scrollIntoView({block: 'nearest'});
    const story = race.writes ?
        `At ${us(b.start)} ${task_name(second)} writes bytes ${from} to ${to} while ${task_name(slow)}, which uses what was there, ` +
            (a.start < b.finish ? `runs until ${us(a.finish)}. ` : `starts only at ${us(a.start)}. `) + `${task_name(slow)} computes with the wrong version.` :
        `At ${us(b.start)} ${task_name(second)} reads bytes ${from} to ${to}, but ${task_name(slow)} ` +
            (a.start <= b.start ? `writes them until ${us(a.finish)}. ` : `starts to write them only at ${us(a.start)}. `) +
            `${task_name(second)} computes with ${stale(played, slow, from, to, b.start)}.`;
    const still = matchMedia('(prefers-reduced-motion: reduce)').matches, begin = performance.now(), seconds = 5;
    return new Promise(done => {
      const frame = now => {
        if (number !== running) return done();
        const time = still ? until : Math.min((now - begin) / 1000 / seconds, 1) * until;
        picture.at(time);
        clock.textContent = `${us(time)}: what the arena holds`;
        bytes.replaceChildren(contents_picture(run, played, time, b.start <= time ? {from, to} : null));
        if (time < until) return requestAnimationFrame(frame);
        words.textContent = story;
        done();
      };
      frame(begin);
    });
  }
  /// What lies in these bytes instead of a result that is not yet written.
  function stale(played, slow, from, to, time) {
    const there = graph.tasks.map((_, value) => value).filter(
        value => value !== slow && played[value].start < time && bytes_of(value).from < to && bytes_of(value).to > from);
    const newest_ = there.sort((a, b) => played[b].start - played[a].start)[0];
    return newest_ === undefined ? 'what the step before left there' : `the old bytes, the result of ${task_name(newest_)}`;
  }
  /// The arena at a time of a run: who wrote which bytes last. A task that runs has written a part of its result.
  function contents_picture(host, played, time, read) {
    const width = Math.max(host.clientWidth || 640, 280), arena = answer.plan.arena_bytes, x = offset => 4 + offset / arena * (width - 8);
    const picture = make('svg', {class: 'game-picture', viewBox: `0 0 ${width} 52`, height: 52, 'aria-hidden': 'true'},
        make('rect', {class: 'lane', x: 4, y: 6, width: width - 8, height: 40}));
    const written = graph.tasks.map((_, value) => value).filter(value => played[value].start <= time && graph.tasks[value].bytes > 0);
    for (const value of written.sort((a, b) => played[a].start - played[b].start)) {
      const {start, finish} = played[value], {from, to} = bytes_of(value), part = Math.min((time - start) / (finish - start || 1), 1);
      picture.append(make('g', {class: 'task', style: hue(value)}, make('rect', {x: x(from), y: 6, width: part * (x(to) - x(from)), height: 40}),
          part > 0.5 ? make('text', {x: x(from) + 5, y: 31}, task_name(value)) : null));
    }
    if (read) picture.append(make('rect', {class: 'read', x: x(read.from), y: 3, width: x(read.to) - x(read.from), height: 46, rx: 3}));
    return picture;
  }

  async function start(key, changed) {
    known(kPlans, key, 'plan');
    name = key;
    ({graph} = kPlans[key]);
    idea.textContent = kPlans[key].idea;
    if (!page) choose_plan.textContent = kPlans[key].title;
    say('');
    const planned = await ask({graph, policy: kPlans[key].policy});
    base = planned.plan;
    bars = bars_of(planned);
    first = kPlans[key].full ? all_waits(graph, base) : {events: base.events, streams: base.streams, offsets: base.offsets};
    [edit, history_, selected] = [first, [], null];
    if (changed) {  // from an address: the planner says what is wrong with it
      const read = JSON.parse(changed);
      await ask({graph, policy: kPlans[key].policy, edit: read});
      [edit, history_] = [read, [first]];
    }
    await update();
  }
  on_resize(() => { if (answer) draw(); });
  return attempt(async () => {
    const key = saved.plan ?? chosen_plan;
    if (page && Object.hasOwn(kPlans, key)) choose_plan.querySelector('select').value = key;
    try {
      await start(key, saved.edit);
    } catch (error) {
      if (!saved.edit) throw error;
      await start(key);
      throw new Error(`The change in the address does not fit this plan: ${error.message}`);
    }
  });
}

// ---- write it

const kTemplates = {
  serial: `// Everything on stream 0, in the order of the list, in which every task comes after those that it needs.
function policy({tasks, streams, capacity}) {
  return tasks.map(task => ({task: task.name, stream: 0}));
}
`,
  round_robin: `// Breadth first: deals the tasks of each level over the streams in rotation, whatever they take.
function policy({tasks, streams, capacity}) {
  const level = {};
  for (const task of tasks) level[task.name] = Math.max(-1, ...task.after.map(name => level[name])) + 1;
  const order = [...tasks].sort((a, b) => level[a.name] - level[b.name]);
  let stream = 0;
  return order.map((task, i) => {
    const same = i > 0 && level[task.name] === level[order[i - 1].name];
    stream = same ? (stream + 1) % streams : 0;
    return {task: task.name, stream};
  });
}
`,
  critical_path: `// List scheduling: the task that can start first goes next; among several, the one with the highest priority.
function policy({tasks, streams, capacity}) {
  const named = Object.fromEntries(tasks.map(task => [task.name, task]));
  const finish = {};                            // of every task placed, by name
  const free = Array(streams).fill(0);          // when each stream is free
  const placed = [];

  function priority(task) {
    // Fill in: how long is the longest chain from this task to the end? task.before has the names of the tasks that need it.
    return 0;
  }

  while (placed.length < tasks.length) {
    let best = null;
    for (const task of tasks) {
      if (task.name in finish || !task.after.every(name => name in finish)) continue;
      for (let stream = 0; stream < streams; ++stream) {
        const start = Math.max(free[stream], ...task.after.map(name => finish[name]));
        const sooner = best === null || start < best.start;
        const urgent = best !== null && start === best.start && priority(task) > priority(best.task);
        if (sooner || urgent) best = {task, stream, start};
      }
    }
    finish[best.task.name] = free[best.stream] = best.start + best.task.microseconds;
    placed.push({task: best.task.name, stream: best.stream});
  }
  return placed;
}
`,
};
/// A function of numbers from 0 to 1, the same for the same seed (mulberry32).
function random_of(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
function random_graph(seed) {
  const random = random_of(seed), below = bound => Math.floor(random() * bound);
  const streams = 2 + below(2), capacity = streams * (1 + below(2));
  const tasks = Array.from({length: 7 + below(5)}, (_, i) => ({
    name: `t${i}`, microseconds: 1 + below(8), width: random() < 0.7 ? 1 : 1 + below(capacity), bytes: 256 * below(5),
    after: [...new Set(Array.from({length: Math.min(i, below(3))}, () => `t${i - 1 - below(Math.min(i, 4))}`))],
  }));
  return {tasks, streams, capacity, limit: 0};
}
const kGraphs = [
  ...Object.values(kPuzzles).filter(({graph}) => !graph.limit).map(({title, graph}) => ({title, graph, hidden: false})),
  ...Array.from({length: 8}, (_, i) => ({title: `Hidden ${i + 1}`, graph: random_graph(1000 + i), hidden: true})),
];
const kMilliseconds = 2000;

/// What policy() of the code returns for every graph, computed in a worker that has a time limit.
function run_policy(code, graphs) {
  const inputs = graphs.map(({tasks, streams, capacity}) => ({
    tasks: tasks.map(task => ({...task, before: tasks.filter(other => other.after.includes(task.name)).map(other => other.name)})), streams, capacity,
  }));
  const source = `${code}\n;onmessage = ({data}) => postMessage(JSON.stringify(data.map(graph => policy(graph) ?? null)));`;
  const address = URL.createObjectURL(new Blob([source], {type: 'text/javascript'})), worker = new Worker(address);
  return new Promise((done, fail) => {
    const late = `The policy has not answered after ${kMilliseconds / 1000} seconds: does a loop never end?`;
    const timer = setTimeout(() => fail(new Error(late)), kMilliseconds);
    worker.onmessage = ({data}) => { clearTimeout(timer); done(data); };
    worker.onerror = event => {
      event.preventDefault();
      clearTimeout(timer);
      const lines = code.split('\n').length, message = event.message.replace(/^Uncaught /, '');
      const after = event.lineno > lines;  // the line that calls it
      const text = after ? `There is no function policy, or the code does not end properly: ${message}` : `Line ${event.lineno}: ${message}`;
      fail(Object.assign(new Error(text), {line: after ? 0 : event.lineno}));
    };
    worker.postMessage(inputs);
  }).finally(() => { worker.terminate(); URL.revokeObjectURL(address); }).then(text => {
    let answers = null;
    try { answers = JSON.parse(text); } catch { /* the code sent something else */ }
    if (!Array.isArray(answers) || answers.length !== graphs.length) throw new Error('The policy must return a list of {task, stream}.');
    return answers;
  });
}

function mount_write(element, {start = 'round_robin', page = false} = {}) {
  const {saved, status, errors, save, say, attempt, on_resize} = game(element, 'write', page);
  const stored = `braid.policy.${start}`;
  let results = null, chosen = 0;
  const code = make('textarea', {
    spellcheck: 'false', autocapitalize: 'off', autocomplete: 'off', wrap: 'off', rows: 16, 'aria-label': 'The policy, in JavaScript',
    oninput: () => number_lines(), onscroll: () => { lines.scrollTop = code.scrollTop; },
    onkeydown: event => {  // the tab key indents; Escape, then Tab, leaves the box
      if (event.key === 'Escape') leaving = true;
      else if (event.key === 'Tab' && !event.shiftKey && !leaving) {
        event.preventDefault();
        code.setRangeText('  ', code.selectionStart, code.selectionEnd, 'end');
        number_lines();
      } else if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        grade();
      } else if (event.key !== 'Tab') leaving = false;
    },
  });
  let leaving = false;
  const lines = make('pre', {class: 'lines', 'aria-hidden': 'true'});
  const grades = make('div'), table = make('div'), drawn = make('div');
  const run = button('Run and grade', () => grade(), {class: 'main'});
  element.replaceChildren(
      make('div', {class: 'game-tools'},
           chooser('Start from', {serial: 'serial', round_robin: 'round robin', critical_path: 'list scheduling, with a gap'}, start,
                   key => load(kTemplates[key])),
           run, make('span', {class: 'game-faint'}, 'or Ctrl + Enter')),
      make('div', {class: 'game-code'}, lines, code), status, errors, grades, table, drawn);

  function number_lines(wrong = 0) {
    lines.replaceChildren(...code.value.split('\n').map((_, i) => make('span', {class: i + 1 === wrong ? 'wrong' : ''}, `${i + 1}\n`)));
    try { localStorage.setItem(stored, code.value); } catch { /* it is kept in the address only */ }
  }
  function load(text) {
    code.value = text;
    number_lines();
    results = null;
    say('');
    redraw(grades);
    redraw(table);
    redraw(drawn);
  }
  const grade = newest(() => attempt(async () => {
    save({code: code.value});
    number_lines();
    run.disabled = true;
    say('The policy runs.');
    try {
      const schedules = await run_policy(code.value, kGraphs.map(({graph}) => graph));
      const judges = await Promise.all(kGraphs.map(({graph}) => judge(graph)));
      results = [];
      for (const [i, {title, graph, hidden}] of kGraphs.entries()) {
        const own = await ask({graph, schedule: schedules[i]}).catch(error => { throw new Error(`On ${title}: ${error.message}`); });
        results.push({title, graph, hidden, own, ...judges[i]});
      }
      say('');
      draw();
    } catch (error) {
      say('');
      if (error.line) number_lines(error.line);
      throw error;
    } finally {
      run.disabled = false;
    }
  }));

  function draw() {
    const score = (result, name) => result.optimum / (name === 'own' ? result.own : result.policies[name]).makespan;
    const of = (name, hidden) => mean(results.filter(result => result.hidden === hidden).map(result => score(result, name)));
    const rows = ['own', ...Object.keys(kPolicies)].map(name => ({
      label: kPolicies[name] ?? 'yours', visible: of(name, false), hidden: of(name, true),
    }));
    const total = row => (row.visible + row.hidden) / 2;
    const [own] = rows, beaten = rows.filter(row => total(row) < total(own) - 1e-9), best = total(own) > 1 - 1e-9;
    rows.sort((a, b) => total(b) - total(a) || (b === own) - (a === own));
    const text = best ? 'No policy can be better on these graphs.' :
        beaten.length ? `Yours beats ${list(beaten.map(row => row.label))}.` : 'Yours beats no policy yet.';
    redraw(grades,
        make('p', {class: beaten.length ? 'game-verdict won' : 'game-verdict'}, make('b', {}, percent(total(own), 1)), ' of the optimum on average. ', text),
        score_table(['policy', 'visible graphs', 'hidden graphs'], rows.map(row => ({
          own: row === own, cells: [row.label, percent(row.visible, 1), percent(row.hidden, 1)],
        }))));
    draw_graphs();
  }
  function draw_graphs() {
    redraw(table, score_table(['graph', 'yours', 'round robin', 'critical path', 'optimum'], results.map(({title, own, policies, optimum}, i) => ({
      own: i === chosen, cells: [
        button(title, () => { chosen = i; draw_graphs(); }, {'data-key': `graph${i}`, 'aria-pressed': i === chosen}),
        ...[own.makespan, policies.round_robin.makespan, policies.critical_path.makespan, optimum]
            .map(time => ({text: us(time), best: time <= optimum * (1 + 1e-9)}))],
    }))));
    const {title, graph, own, policies, hidden} = results[chosen], until = Math.max(own.makespan, policies.critical_path.makespan);
    const picture = answer => streams_picture(drawn, graph, bars_of(answer), {until, arrows: waits_of(answer.plan.streams)});
    redraw(drawn, make('h4', {}, `${title}: your plan`), picture(own),
           make('h4', {}, `${title}: the plan of critical path`), picture(policies.critical_path),
           hidden ? make('p', {class: 'game-faint'}, 'A random graph, which the page makes from a seed.') : graph_picture(drawn, graph, () => ({class: 'ready'})));
  }
  on_resize(() => { if (results) draw_graphs(); });
  return attempt(async () => {
    known(kTemplates, start, 'policy to start from');
    let kept = null;
    try { kept = localStorage.getItem(stored); } catch { /* a page without storage */ }
    load(saved.code ?? kept ?? kTemplates[start]);
    if (saved.code) await grade();
  });
}

Object.assign(window, {mount_beat, mount_write, mount_break});
Object.assign(window.blocks ??= {}, {
  beat: mount_beat,
  write: mount_write,
  break: mount_break,
});

})();
