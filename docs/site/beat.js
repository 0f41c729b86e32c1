// A small graph to schedule by hand, against the policies and the optimum.
'use strict';
{
function mount_beat(element, {puzzle = 'fork_join', page = false} = {}) {
  const {saved, status, errors, save, say, attempt, on_resize} = game(element, 'beat', page);
  let name, graph, entries, past, chosen, answer, verdict, shown, hints;
  const idea = make('p', {class: 'game-idea'}), tools = make('div', {class: 'game-tools'}), tasks = make('div'), streams = make('div');
  const score = make('div', {class: 'game-score'}), other = make('div'), hint = make('p', {class: 'game-hint', 'aria-live': 'polite'});
  const puzzles = choice('Puzzle', kPuzzles, page, key => attempt(() => start(key)));
  element.replaceChildren(puzzles.element, idea, tasks, tools, status, streams, errors, hint, score, other);

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
    past.push(entries);
    entries = next;
    shown = null;
    hint.textContent = '';
    return update();
  }
  const refuse = task => say(`${graph.tasks[task].name} needs ${name_list(graph, missing(task))} first.`);
  /// Puts a task on a stream, ahead of what is in its middle at the time or later.
  function place(task, stream, time = Infinity) {
    if (missing(task).length) return refuse(task);
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
    else if (missing(task).length) refuse(task);
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
      const reply = await ask('tasks', {graph: {...graph, tasks: parts.map(task => graph.tasks[task])}, schedule});
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
        button('Undo', () => { entries = past.pop(); chosen = null; update(); }, {disabled: !past.length, 'data-key': 'undo'}),
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
    const {plan, makespan} = policies[shown], until = Math.max(answer.makespan, makespan);
    redraw(other, make('h4', {}, `The schedule of ${kPolicies[shown]}`),
           streams_picture(other, graph, bars_of(policies[shown]), {until, arrows: waits_of(plan.streams)}));
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
    puzzles.show(key);
    name = key;
    ({graph} = kPuzzles[key]);
    [entries, past, chosen, shown, hints, answer] = [[], [], null, null, 0, {bars: [], arrows: [], makespan: 0}];
    const units = graph.capacity === graph.streams ? '' : `, ${graph.capacity} units`;
    idea.textContent = `${kPuzzles[key].idea} ${graph.streams} streams${units}.`;
    hint.textContent = '';
    say('Choose a task that is ready, then its stream; or drag it there.');
    verdict = await judge(graph);
    for (const part of plan.split(' ').filter(Boolean)) {  // anyone may have written the address
      const [named, number] = part.split('.'), task = task_of(named), stream = +number;
      const possible = task >= 0 && !placed(task) && !missing(task).length && [...Array(graph.streams).keys()].includes(stream);
      if (!possible) throw new Error(`The address places ${part}, which cannot be.`);
      entries.push({task, stream});
    }
    await update();
    draw();
  }
  on_resize(() => { if (verdict) draw(); });
  return attempt(() => start(saved.puzzle ?? puzzle, saved.plan));
}

(window.blocks ??= {}).beat = mount_beat;
}
