// What the games on the planner share: scheduling a small graph by hand (beat.js), a policy in JavaScript (write.js), and plans to break
// (break.js). Each fills an element of a page or a chapter. Tasks are numbers here; a bar is {task, stream, start, finish}.
'use strict';

// ---- elements and text

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
const percent = (share, digits = 0) => `${(Math.floor(share * 100 * 10 ** digits + 1e-6) / 10 ** digits).toFixed(digits)} %`;
const width_of = host => Math.max(host.clientWidth || 640, 280);

/// Enter and the space bar press what looks like a button and is drawn.
const pressed = action => event => {
  if (event.key !== 'Enter' && event.key !== ' ') return;
  event.preventDefault();
  action();
};
/// Calls moved(y) during a drag and drop(element, x, y) after it, and click() after a press without one: x of the pointer, y since the press.
function drag(made, label, {click, drop, moved = () => {}}) {
  made.addEventListener('touchstart', event => event.preventDefault(), {passive: false});  // a finger drags, and does not scroll
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
    const over = new AbortController(), {signal} = over;
    const stop = event => {
      over.abort();
      ghost?.remove();
      if (event.type === 'pointercancel') return moved(0);
      if (!ghost) return click();
      drop(document.elementFromPoint(event.clientX, event.clientY), event.clientX, event.clientY - down.clientY);
    };
    addEventListener('pointermove', move, {signal});
    for (const end of ['pointerup', 'pointercancel']) addEventListener(end, stop, {signal});
  });
}

// ---- the planner

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
    judged.set(key, Promise.all(names.map((policy, i) => ask('tasks', {graph, policy, optimum: i === 0}))).then(answers => ({
      optimum: answers[0].optimum, best: answers[0].best, bound: answers[0].plan.bound,
      policies: Object.fromEntries(names.map((name, i) => [name, answers[i]])),
    })));
  }
  return judged.get(key);
}

// ---- graphs

/// Per event, the task that is launched last before it is recorded.
function recorded_by(streams) {
  const recorded = {};
  for (const commands of streams) {
    let last;
    for (const {launch, record} of commands) {
      last = launch ?? last;
      if (record !== undefined) recorded[record] = last;
    }
  }
  return recorded;
}
/// The waits of command lists: {from, to, stream, place}, for a task that is launched after the wait at a place in a stream.
function waits_of(streams) {
  const recorded = recorded_by(streams);
  return streams.flatMap((commands, stream) => commands.flatMap(({wait}, place) => {
    const from = recorded[wait], to = commands.slice(place).find(({launch}) => launch !== undefined)?.launch;
    return from === undefined || to === undefined ? [] : [{from, to, stream, place}];
  }));
}
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
  const width = width_of(host), left = width < 500 ? 24 : 66, tall = 50, bottom = graph.streams * tall;
  const end = until > 0 ? until : 1, x = time => left + time / end * (width - left - 8);
  const picture = make('svg', {class: 'game-picture', viewBox: `0 0 ${width} ${bottom + 24}`, height: bottom + 24, role: 'group',
                               'aria-label': 'streams over time'});
  for (let stream = 0; stream < graph.streams; ++stream) {
    picture.append(make('g', {'data-stream': stream, ...row(stream)},
        make('rect', {class: 'lane', x: left, y: stream * tall + 3, width: width - left - 8, height: tall - 6, rx: 6}),
        make('text', {x: 4, y: stream * tall + tall / 2 + 5}, width < 500 ? stream : `stream ${stream}`)));
  }
  for (const time of ticks(end, (width - left) / 56)) {
    picture.append(make('line', {class: 'grid', x1: x(time), x2: x(time), y1: 0, y2: bottom}),
                   make('text', {class: 'faint', x: x(time), y: bottom + 17, 'text-anchor': x(time) > width - 20 ? 'end' : 'middle'}, us(time)));
  }
  for (const {task, stream, start, finish} of bars) {
    const {name, width: units = 1} = graph.tasks[task], wide = Math.max(x(finish) - x(start) - 1, 2);
    const text = units > 1 && wide > (name.length + 4) * 8 ? `${name} ×${units}` : name;
    const label = `${name} on stream ${stream}, from ${us(start)} to ${us(finish)}`;
    picture.append(make('g', {class: `task ${hot.has(task) ? 'hot' : ''}`, style: hue(task), 'data-task': task, 'data-stream': stream,
                              'data-key': `bar${task}`, 'aria-label': label, ...bar(task)},
        make('rect', {x: x(start), y: stream * tall + 9, width: wide, height: tall - 18, rx: 4}),
        text.length * 7 < wide ? make('text', {x: x(start) + wide / 2, y: stream * tall + tall / 2 + 4, 'text-anchor': 'middle'}, text) : null));
  }
  const at = new Map(bars.map(each => [each.task, each])), ends = new Map();
  for (const each of arrows) {
    const from = at.get(each.from), to = at.get(each.to);
    if (!from || !to) continue;
    const fan = task => { ends.set(task, (ends.get(task) ?? -1) + 1); return 3 + 7 * ends.get(task); };  // arrows end apart
    const down = to.stream > from.stream, y1 = from.stream * tall + (down ? tall - 9 : 9), y2 = to.stream * tall + (down ? 9 : tall - 9);
    const x1 = Math.max(x(from.start) + 3, x(from.finish) - fan(from)), x2 = Math.min(x(to.start) + fan(to), x(to.finish) - 3);
    const curve = `M${x1},${y1}C${x1},${(y1 + y2) / 2} ${x2},${(y1 + y2) / 2} ${x2},${y2}`;
    picture.append(make('g', {class: 'arrow', ...arrow(each)}, make('path', {class: 'reach', d: curve}), make('path', {class: 'line', d: curve}),
        make('path', {class: 'tip', d: `M${x2},${y2}l-4,${down ? -6 : 6}h8z`})));
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
  const room = Math.min(118, Math.max(62, (width_of(host) - 4) / columns)), wide = room - (room < 80 ? 16 : 30);
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
    const small = us(microseconds) + (width > 1 ? ` ×${width}` : '') + (graph.limit && bytes >= 1024 ? ` ${bytes / 1024}K` : '');
    picture.append(make('g', {class: `task ${kind}`, style: hue(task), 'data-task': task, 'data-key': `box${task}`,
                              'aria-label': `${name}: ${us(microseconds)}` + (width > 1 ? `, ${width} units wide` : '') +
                                  (graph.limit ? `, ${bytes} bytes` : '') + (after.length ? `, after ${list(after)}` : ''), ...attributes},
        make('rect', {x: x - wide / 2, y: y - 19, width: wide, height: 38, rx: 7}),
        make('text', {x, y: y - 3, 'text-anchor': 'middle'}, name),
        make('text', {class: 'small', x, y: y + 12, 'text-anchor': 'middle'}, small)));
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
function chooser(label, names, value, change) {
  const options = Object.entries(names).map(([key, text]) => make('option', {value: key}, text));
  const select = make('select', {onchange: () => change(select.value)}, ...options);
  select.value = value;
  return make('label', {class: 'game-choose'}, `${label} `, select);
}
/// What is played, one of things by name: a page offers all, a chapter has one. show(key) says which.
function choice(what, things, page, start) {
  const titles = Object.fromEntries(Object.entries(things).map(([key, {title}]) => [key, title]));
  const element = page ? chooser(what, titles, '', start) : make('h3');
  return {element, show(key) {
    known(things, key, what.toLowerCase());
    if (page) element.lastChild.value = key;
    else element.textContent = titles[key];
  }};
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
