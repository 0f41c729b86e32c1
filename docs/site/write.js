// A policy that the reader writes in JavaScript, planned, timed and graded.
'use strict';
{
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
/// What policy() gets.
function input_of({tasks, streams, capacity}) {
  const before = name => tasks.filter(({after}) => after.includes(name)).map(task => task.name);
  return {tasks: tasks.map(task => ({...task, before: before(task.name)})), streams, capacity};
}

/// `beat` is a policy to be better than on the hidden graphs: an exercise, with a task and a hint.
function mount_write(element, {start = 'round_robin', beat = '', task = '', hint = '', page = false}) {
  const {saved, status, errors, save, say, attempt, on_resize} = game(element, 'write', page);
  let results = null, chosen = 0;
  const code = code_box(`policy.${start}`, 'The policy, in JavaScript', () => grade());
  const grades = make('div'), table = make('div'), drawn = make('div');
  const run = button('Run and grade', () => grade(), {class: 'main'});
  element.replaceChildren(
      ...(task ? [make('p', {class: 'label'}, 'Exercise'), make('p', {}, ...prose(task))] : []),
      make('div', {class: 'game-tools'},
           chooser('Start from', {serial: 'serial', round_robin: 'round robin', critical_path: 'list scheduling, with a gap'}, start,
                   key => load(kTemplates[key])),
           run, make('span', {class: 'game-faint'}, 'or Ctrl + Enter')),
      code.element, ...(hint ? [make('details', {}, make('summary', {}, 'Hint'), make('p', {}, ...prose(hint)))] : []),
      status, errors, grades, table, drawn);

  function clear() {
    results = null;
    for (const part of [grades, table, drawn]) redraw(part);
  }
  function load(text) {
    code.load(text);
    clear();
    say('');
  }
  const grade = newest(() => attempt(async () => {
    save({code: code.text()});
    code.mark();
    clear();
    run.disabled = true;
    say('The policy runs.');
    try {
      const schedules = await run_code(code.text(), 'policy', kGraphs.map(({graph}) => input_of(graph)));
      const judges = await Promise.all(kGraphs.map(({graph}) => judge(graph)));
      const graded = [];
      for (const [i, {title, graph, hidden}] of kGraphs.entries()) {
        const own = await ask('tasks', {graph, schedule: schedules[i]}).catch(error => { throw new Error(`On ${title}: ${error.message}`); });
        graded.push({title, graph, hidden, own, ...judges[i]});
      }
      results = graded;
      say('');
      draw();
    } catch (error) {
      say('');
      code.mark(error.line);
      throw error;
    } finally {
      run.disabled = false;
    }
  }));

  function draw() {
    const mean = numbers => numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
    const score = (result, name) => result.optimum / (name === 'own' ? result.own : result.policies[name]).makespan;
    const of = (name, hidden) => mean(results.filter(result => result.hidden === hidden).map(result => score(result, name)));
    const rows = ['own', ...Object.keys(kPolicies)].map(name => ({
      label: kPolicies[name] ?? 'yours', visible: of(name, false), hidden: of(name, true),
    }));
    const total = row => (row.visible + row.hidden) / 2;
    const [own] = rows, beaten = rows.filter(row => total(row) < total(own) - 1e-9), best = total(own) > 1 - 1e-9;
    const goal = rows.find(row => row.label === kPolicies[beat]), won = goal ? own.hidden > goal.hidden + 1e-9 : beaten.length > 0;
    rows.sort((a, b) => total(b) - total(a) || (b === own) - (a === own));
    const text = goal ? `${won ? 'Solved' : 'Not yet'}: yours reaches ${percent(own.hidden, 1)} on the hidden graphs, ` +
            `${goal.label} ${percent(goal.hidden, 1)}.` :
        best ? 'No policy can be better on these graphs.' :
        beaten.length ? `Yours beats ${list(beaten.map(row => row.label))}.` : 'Yours beats no policy yet.';
    redraw(grades,
        make('p', {class: won ? 'game-verdict won' : 'game-verdict'}, make('b', {}, percent(total(own), 1)),
             ' of the optimum on average. ', text),
        score_table(['policy', 'visible graphs', 'hidden graphs'], rows.map(row => ({
          own: row === own, cells: [row.label, percent(row.visible, 1), percent(row.hidden, 1)],
        }))));
    draw_graphs();
  }
  function draw_graphs() {
    const heads = ['graph', 'yours', 'round robin', 'critical path', 'optimum'];
    redraw(table, score_table(heads, results.map(({title, own, policies, optimum}, i) => ({
      own: i === chosen, cells: [
        button(title, () => { chosen = i; draw_graphs(); }, {'data-key': `graph${i}`, 'aria-pressed': i === chosen}),
        ...[own.makespan, policies.round_robin.makespan, policies.critical_path.makespan, optimum]
            .map(time => ({text: us(time), best: time <= optimum * (1 + 1e-9)}))],
    }))));
    const {title, graph, own, policies, hidden} = results[chosen], until = Math.max(own.makespan, policies.critical_path.makespan);
    const picture = answer => streams_picture(drawn, graph, bars_of(answer), {until, arrows: waits_of(answer.plan.streams)});
    redraw(drawn, make('h4', {}, `${title}: your plan`), picture(own),
           make('h4', {}, `${title}: the plan of critical path`), picture(policies.critical_path),
           hidden ? make('p', {class: 'game-faint'}, 'A random graph, which the page makes from a seed.') :
               graph_picture(drawn, graph, () => ({class: 'ready'})));
  }
  on_resize(() => { if (results) draw_graphs(); });
  return attempt(async () => {
    known(kTemplates, start, 'policy to start from');
    if (beat) known(kPolicies, beat, 'policy to beat');
    const kept = memory.get(`policy.${start}`);
    load(saved.code ?? kept ?? kTemplates[start]);
    if (saved.code && saved.code !== kept) say('This code comes with the link. Read it before you run it.');
  });
}

(window.blocks ??= {}).write = mount_write;
}
