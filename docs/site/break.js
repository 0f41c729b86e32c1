// A plan to break: the verifier says what is wrong with it, and a simulated run shows it.
'use strict';
{
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
  let name, graph, base, first, edit, past, answer, bars, selected, running = 0;
  const idea = make('p', {class: 'game-idea'}), tools = make('div', {class: 'game-tools'});
  const streams = make('div'), commands = make('div'), memory = make('div');
  const verdict = make('div', {class: 'game-faults', 'aria-live': 'polite'}), run = make('div', {class: 'game-run'});
  const plans = choice('Plan', kPlans, page, key => attempt(() => start(key)));
  element.replaceChildren(plans.element, idea, make('h4', {}, 'Streams and waits'), streams, tools, status, errors, verdict, run,
      make('h4', {}, 'Commands'), commands, make('h4', {}, 'Memory'), memory);

  const task_name = task => graph.tasks[task].name;
  const bytes_of = value => ({from: edit.offsets[value], to: edit.offsets[value] + graph.tasks[value].bytes});
  const request = () => ({graph, policy: kPlans[name].policy, edit});
  function change(next) {
    past.push(edit);
    edit = next;
    return update();
  }
  const with_stream = (stream, sequence) => ({...edit, streams: edit.streams.map((old, i) => i === stream ? sequence : old)});
  function delete_command(stream, place) {
    const {wait} = edit.streams[stream][place];
    if (wait === undefined) return say('Only waits can be deleted: every task has to run, and every event is recorded once.');
    say('');
    selected = null;
    return change(with_stream(stream, edit.streams[stream].toSpliced(place, 1)));
  }
  function swap(stream, place, by) {
    const sequence = [...edit.streams[stream]], other = place + by;
    if (other < 0 || other >= sequence.length) return;
    [sequence[place], sequence[other]] = [sequence[other], sequence[place]];
    selected = `${stream}.${other}`;
    const done = change(with_stream(stream, sequence));
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
    answer = await ask('tasks', request());
    if (answer.runs) bars = bars_of(answer);
    draw();
  }));

  function draw() {
    const races = answer.faults.map(race_of).filter(Boolean), hot = new Set(races.flatMap(({first: a, second: b}) => [a, b]));
    redraw(tools,
        button('Undo', () => { edit = past.pop(); selected = null; update(); }, {disabled: !past.length, 'data-key': 'undo'}),
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
    const recorded = recorded_by(edit.streams);
    redraw(commands, ...edit.streams.map((sequence, stream) => make('div', {class: 'game-commands'}, make('span', {}, `stream ${stream}`),
        ...sequence.map((command, place) => {
          const key = `${stream}.${place}`, [kind] = Object.keys(command);
          const last = recorded[command[kind]], event = last === undefined ? 'nothing' : task_name(last);
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
    const width = width_of(memory), left = 48, tall = 220, x = time => left + time / until * (width - left - 8), y = offset => 4 + offset / arena * tall;
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
    if (safe) rows.push(make('p', {class: 'game-safe'}, 'The verifier finds the plan safe: every run computes the same, whatever the tasks take.'));
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
    const unlucky = await ask('tasks', {...request(), microseconds}), played = bars_of(unlucky);
    const [a, b] = [played[slow], played[second]], until = Math.max(a.finish, b.finish) * 1.05;
    const arrows = waits_of(edit.streams), hot = new Set([slow, second]);
    const picture = streams_picture(run, graph, played, {until: unlucky.makespan, arrows, hot});
    const clock = make('p', {class: 'game-clock'}), bytes = make('div'), words = make('p', {class: 'game-verdict lost', role: 'status'});
    redraw(run, make('h4', {}, `A run in which ${task_name(slow)} is slow`), picture, bytes, clock, words);
    run.scrollIntoView({block: 'nearest'});
    const story = race.writes ?
        `At ${us(b.start)} ${task_name(second)} writes bytes ${from} to ${to} while ${task_name(slow)}, which uses what was there, ` +
            (a.start < b.finish ? `runs until ${us(a.finish)}. ` : `starts only at ${us(a.start)}. `) +
            `${task_name(slow)} computes with the wrong version.` :
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
    const writer = there.sort((a, b) => played[b].start - played[a].start)[0];
    return writer === undefined ? 'what the step before left there' : `the old bytes, the result of ${task_name(writer)}`;
  }
  /// The arena at a time of a run: who wrote which bytes last. A task that runs has written a part of its result.
  function contents_picture(host, played, time, read) {
    const width = width_of(host), arena = answer.plan.arena_bytes, x = offset => 4 + offset / arena * (width - 8);
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
    plans.show(key);
    name = key;
    ({graph} = kPlans[key]);
    idea.textContent = kPlans[key].idea;
    say('');
    const planned = await ask('tasks', {graph, policy: kPlans[key].policy});
    base = planned.plan;
    bars = bars_of(planned);
    first = kPlans[key].full ? all_waits(graph, base) : {events: base.events, streams: base.streams, offsets: base.offsets};
    [edit, past, selected] = [first, [], null];
    if (changed) {  // anyone may have written the address: the planner says what is wrong with it
      const read = JSON.parse(changed);
      await ask('tasks', {graph, policy: kPlans[key].policy, edit: read});
      [edit, past] = [read, [first]];
    }
    await update();
  }
  on_resize(() => { if (answer) draw(); });
  return attempt(async () => {
    const key = saved.plan ?? chosen_plan;
    try {
      await start(key, saved.edit);
    } catch (error) {
      if (!saved.edit) throw error;
      await start(key);
      throw new Error(`The change in the address does not fit this plan: ${error.message}`);
    }
  });
}

(window.blocks ??= {}).break = mount_break;
}
