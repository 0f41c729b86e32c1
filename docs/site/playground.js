// The controls, and what the planner says. The plan itself is drawn by the page that 'braid plan --html' writes.
'use strict';

const $ = id => document.getElementById(id);
const controls = $('controls').elements;
addEventListener('error', event => { $('errors').textContent = event.message; });

// ---- the planner: what takes long can be stopped

const kPatience = 5;  // seconds
const planner = (window.shared_planner ??= start_planner());
const pending = new Set();  // when each call began
async function call(name, request) {
  const begin = {at: performance.now()};
  pending.add(begin);
  const answer = await planner.call(name, request);
  pending.delete(begin);
  return answer;
}
setInterval(() => {
  const [oldest] = pending;  // in the order in which they were added
  const seconds = oldest ? Math.floor((performance.now() - oldest.at) / 1000) : 0;
  $('stop').hidden = seconds < kPatience;
  if (seconds >= kPatience) $('status').textContent = `The planner has not answered for ${seconds} s.`;
}, 500);
$('stop').onclick = () => {
  planner.stop();
  if (controls.model.options.length === 0) start();
};

// ---- the state of the controls, which the fragment of the address holds

const kDefaults = {model: 'googlenet', second: '', device: 'h200', cores: 4, batch: 5, streams: 4, policy: 'critical_path', limit: 0,
                   forward: false, sms: 0, bandwidth: 0, launch: 0, wait: 0, ranks: 0, cluster: 'dgx_h100', strategy: 'data'};
function state() {
  return Object.fromEntries(Object.keys(kDefaults).map(key => {
    const control = controls[key];
    return [key, control.type === 'checkbox' ? control.checked : control.type === 'range' ? +control.value : control.value];
  }));
}
function restore() {
  const saved = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  const others = Object.keys(saved).filter(key => !(key in kDefaults) && !(key in kStepDefaults));
  for (const [key, value] of Object.entries({...kDefaults, ...saved})) {
    if (!(key in kDefaults)) continue;
    if (controls[key].type === 'checkbox') controls[key].checked = String(value) === 'true';
    else controls[key].value = value;
    if (String(state()[key]) === String(value)) continue;
    if (controls[key].type !== 'range' || isNaN(value)) controls[key].value = kDefaults[key];  // a number moves to the nearest that is offered
    others.push(key);
  }
  others.push(...restore_steps(saved));
  $('link-errors').textContent = others.length === 0 ? '' : `The link asks for ${others.map(key => `${key} = ${saved[key]}`).join(', ')}: ` +
      'this page has no such choice, and shows what comes closest.';
}
function save() {
  const defaults = {...kDefaults, ...kStepDefaults};
  const changed = Object.entries({...state(), ...steps}).filter(([key, value]) => value !== defaults[key]);
  history.replaceState(null, '', `#${new URLSearchParams(changed)}`);
}

/// From 64 MiB, four steps per doubling; 0 is no limit.
const limit_bytes = step => step === 0 ? 0 : Math.round(2 ** (26 + (step - 1) / 4));
/// From 1, two steps per doubling; 0 is the device's.
const units = step => Math.round(2 ** ((step - 1) / 2));
const factor = step => 2 ** (step / 2);
function show_values() {
  const {cores, batch, streams, limit, device, sms, bandwidth, launch, wait, ranks} = state();
  const values = {cores, batch: 2 ** batch, streams, limit: limit === 0 ? 'none' : mebibytes(limit_bytes(limit)),
                  sms: sms === 0 ? 'as it has' : units(sms), bandwidth: `× ${factor(bandwidth).toPrecision(2)}`,
                  launch: `× ${factor(launch).toPrecision(2)}`, wait: wait === 0 ? 'as it has' : `${wait / 2} µs`, ranks: 2 ** ranks};
  for (const [key, value] of Object.entries(values)) {
    controls[key].parentElement.querySelector('output').textContent = value;
    controls[key].setAttribute('aria-valuetext', value);
  }
  document.querySelector('[data-for=cores]').hidden = device !== 'cpu';
  for (const label of document.querySelectorAll('[data-for=ranks]')) label.hidden = ranks === 0;
  if (['sms', 'bandwidth', 'launch', 'wait', 'ranks'].some(key => controls[key].value !== String(kDefaults[key]))) $('more').open = true;
}

const kCpu = ' the page.json';  // no file has this name
/// What planner.cpp takes.
function request_of({model, second, device, cores, batch, streams, policy, limit, forward, sms, bandwidth, launch, wait, ranks, cluster, strategy}) {
  const texts = Object.fromEntries([...opened.values()].map(file => [file.name, file.text]));
  const cpu = {...CPU, name: `a CPU with ${cores} core${cores === 1 ? '' : 's'}`, capacity: cores, max_width: cores};
  return {
    models: [model, second].filter(Boolean).map(name => opened.get(name)?.text ?? name),
    device: device === 'cpu' ? kCpu : device, streams, policy,
    batch_size: 2 ** batch, memory_limit: limit_bytes(limit), forward, files: {...texts, [kCpu]: JSON.stringify(cpu)},
    sms: sms === 0 ? 0 : units(sms), scale_bandwidth: factor(bandwidth), scale_launch: factor(launch), wait: wait / 2,
    ...(ranks === 0 ? {} : {ranks: 2 ** ranks, cluster, strategy}),
    ...Object.fromEntries(['profile', 'plan', 'trace'].map(kind => [kind, the_open(kind)?.name ?? ''])),
  };
}

// ---- the files of the reader, which files.js recognises

const opened = new Map();  // by the name that the planner knows
const kChoices = {network: controls.model, device: controls.device, cluster: controls.cluster};
/// The open file of a kind of which there is one at a time.
const the_open = kind => [...opened.values()].find(file => file.kind === kind);
function take_file(name, text) {
  let file;
  try {
    file = read_opened(name, text);
  } catch (error) {
    $('own-errors').textContent = error.message;
    return;
  }
  const choice = kChoices[file.kind], old = opened.get(file.name) ?? (choice ? undefined : the_open(file.kind));
  if (old) forget(old);
  opened.set(file.name, file);
  if (choice) {
    choice.append(new Option(file.name));
    choice.value = file.name;
  }
  if (file.kind === 'network') descriptions[file.name] = file.about;
  if (file.kind === 'cluster') controls.ranks.value = Math.max(1, controls.ranks.value);
  const measured_on = the_open('trace')?.device ?? the_open('profile')?.device;
  for (const each of opened.values()) {
    if (each.kind === 'device' && each.device === measured_on) controls.device.value = each.name;
  }
}
function forget(file) {
  opened.delete(file.name);
  const choice = kChoices[file.kind];
  if (!choice) return;
  const chosen = choice.value;
  for (const option of [...choice.options]) if (option.value === file.name) option.remove();
  if (chosen === file.name) choice.value = kDefaults[choice.name];
}
function take_files(files) {
  $('own-errors').textContent = '';
  $('more').open = true;
  for (const {name, text} of files) take_file(name, text);
  list_files();
  shows_errors = true;
  plan();
}
function list_files() {
  const remove = file => { forget(file); list_files(); controls.file.focus(); plan(); };
  $('opened').replaceChildren(...[...opened.values()].map(file => make('li', {},
      make('span', {}, make('b', {}, file.name), `: ${file.about}`),
      make('button', {type: 'button', 'aria-label': `Remove ${file.name}`, onclick: () => remove(file)}, 'Remove'))));
}
const texts_of = files => Promise.all([...files].map(async file => ({name: file.name, text: await file.text()})));
for (const control of [controls.file, controls.pasted, controls.local]) {
  control.oninput = event => event.stopPropagation();  // nothing to plan until it is read
}
controls.file.onchange = async () => {
  take_files(await texts_of(controls.file.files));
  controls.file.value = '';
};
let pastes = 0, shows_errors = false;  // an error of the next plan scrolls into view
$('take').onclick = () => {
  if (!controls.pasted.value.trim()) { $('own-errors').textContent = 'There is no text yet.'; return; }
  take_files([{name: `pasted-${++pastes}`, text: controls.pasted.value}]);
  if (!$('own-errors').textContent) controls.pasted.value = '';
};
addEventListener('dragover', event => { event.preventDefault(); document.body.classList.add('dropping'); });
addEventListener('dragleave', event => { if (!event.relatedTarget) document.body.classList.remove('dropping'); });
addEventListener('drop', async event => {
  event.preventDefault();
  document.body.classList.remove('dropping');
  const text = event.dataTransfer.getData('text'), files = await texts_of(event.dataTransfer.files);
  take_files(files.length || !text ? files : [{name: `dropped-${++pastes}`, text}]);
});

/// What 'braid playground' says of its machine; other servers have an empty list.
async function offer_local_files() {
  if (!location.protocol.startsWith('http')) return;
  const {files, runs} = await (await fetch('local.json')).json(), names = Object.keys(files);
  $('local').hidden = names.length === 0;
  controls.local.append(new Option('choose a file', ''), ...names.map(name => new Option(name)));
  controls.local.onchange = () => {
    const name = controls.local.value;
    if (name) take_files([{name, text: files[name]}]);
    controls.local.value = '';
  };
  $('runs').hidden = runs.length === 0;
  const address = run => run.split('/').map(encodeURIComponent).join('/');
  $('runs').append(...runs.flatMap((run, i) => [i ? ', ' : '', make('a', {href: `${address(run)}/`}, run)]));
}

// ---- planning

let descriptions = {};
let busy = false, again = false;
async function plan() {
  save();
  show_values();
  if (busy) { again = true; return; }  // the newest state is planned next
  busy = true;
  do {
    again = false;
    await plan_once();
  } while (again);
  busy = false;
}
async function plan_once() {
  const chosen = state();
  $('description').textContent = [chosen.model, chosen.second].filter(Boolean).map(name => `${name}: ${descriptions[name]}`).join('; ');
  const answer = await call('plan', request_of(chosen));
  $('errors').textContent = answer.error ?? '';
  if (answer.error && shows_errors) $('errors').scrollIntoView({block: 'center'});
  shows_errors = false;
  if (answer.error) { $('status').textContent = ''; return; }
  const report = JSON.parse(answer.result);
  show(report, chosen);
  const {result: data} = await call('page_data'), parsed = JSON.parse(data);
  show_overview(parsed);
  show_sources(parsed, report);
  draw_when_idle(data);
  refresh_steps(true);
  refresh_comparison();
  $('status').textContent = `${report.nodes} nodes, recorded and planned in ${answer.milliseconds.toFixed(0)} ms.` +
      (report.fits ? '' : ' The plan does not fit the device or the limit.');
}

function card(label, text, explanation) {
  $('cards').append(make('div', {}, make('dt', {}, label), make('dd', {}, make('b', {}, text), make('small', {}, explanation))));
}
function show(report, chosen) {
  $('results').hidden = false;
  const row = report.plans[report.configured], serial = report.plans[0];
  $('cards').replaceChildren();
  card('Step', time(row.makespan_us), `on ${row.used_streams} of ${row.streams} streams, simulated`);
  card('Speedup', (serial.makespan_us / row.makespan_us).toFixed(2), `over one stream, ${time(serial.makespan_us)}`);
  if (chosen.ranks === 0 || chosen.strategy !== 'pipeline') {  // one stage's bound says nothing of the step of all
    card('Lower bound', time(row.lower_bound_us), 'no plan on as many streams is faster; this one takes ' +
         `${(row.makespan_us / row.lower_bound_us).toFixed(2)} times as long`);
  }
  card('Critical path', time(row.depth_us), 'the longest chain of dependent nodes');
  card('Arena', mebibytes(row.arena_bytes), `${mebibytes(row.naive_bytes)} if no results shared bytes`);
  card('Parameters', mebibytes(report.memory.persistent_bytes), 'with the state of the optimizer');
  const scaled = report.scaling.at(-1);
  if (chosen.ranks > 0 && scaled) {
    card('Efficiency', `${(100 * scaled.efficiency).toFixed(0)} %`, `of ${scaled.ranks} ranks: ${time(scaled.makespan_us)} per step, ` +
         `of which ${time(scaled.communicating_us)} communicate`);
  }
  fill(report.plans, chosen.policy);
  $('compare').hidden = report.plans.length > (the_open('plan') ? 3 : 2);
}
/// What comes from files: the durations, the plan that is drawn, the measured times.
function show_sources({numbers}, report) {
  const profile = the_open('profile'), plan = the_open('plan'), trace = the_open('trace');
  const own = plan && report.plans.at(-2), shown = report.plans[report.configured];
  if (trace) card('Measured', time(numbers.measured_us), `from ${trace.name}, where ${time(numbers.simulated_us)} were planned`);
  $('sources').textContent = [
    profile && `The durations of ${report.measured_nodes} nodes come from ${profile.name}, the others from the model of the device.`,
    plan && `${plan.name} is a plan of this step, and no fault was found in it: ${time(shown.makespan_us)}, simulated; ` +
        `by ${own.policy} ${time(own.makespan_us)}. The charts show the plan of the file.`,
    trace && `The charts show the run of ${trace.name}, as planned and as measured.`].filter(Boolean).join(' ');
}
function fill(plans, policy) {
  const traded = plans.some(row => row.traded.length > 0) ? 'traded for memory' : '';
  const names = ['policy', 'streams', 'makespan', '× bound', '× serial', 'waits', 'arena', traded];
  const align = column => ({class: column > 1 && column < 7 ? 'number' : null});
  const line = (row, i) => {
    const name = row.policy.split(' ')[0], of_file = the_open('plan') && i === plans.length - 1;
    const label = of_file ? row.policy : make('button', {type: 'button', 'aria-pressed': String(name === policy)}, row.policy);
    const cells = [label, `${row.used_streams} of ${row.streams}`, time(row.makespan_us), (row.makespan_us / row.lower_bound_us).toFixed(2),
                   (plans[0].makespan_us / row.makespan_us).toFixed(2), row.waits, mebibytes(row.arena_bytes), row.traded.join('; ')];
    const choose = () => { controls.policy.value = name; plan(); };
    return make('tr', of_file ? {} : {class: name === policy ? 'chosen' : null, onclick: choose},
                ...cells.map((cell, column) => make('td', align(column), cell)));
  };
  $('policies').replaceChildren(make('thead', {}, make('tr', {}, ...names.map((name, column) => make('th', align(column), name)))),
                                make('tbody', {}, ...plans.map(line)));
}
$('compare').onclick = async () => {
  $('status').textContent = 'Planning with every policy.';
  const chosen = state();
  const answer = await call('plan', {...request_of(chosen), policy: ''});
  if (answer.error) { $('errors').textContent = answer.error; return; }
  fill(JSON.parse(answer.result).plans, chosen.policy);
  $('compare').hidden = true;
  $('status').textContent = `Planned with every policy in ${answer.milliseconds.toFixed(0)} ms.`;
};

/// The chart that follows every change at once. The page with everything else takes longer to draw.
function show_overview(data) {
  const bars = data.nodes.map(node => ({node: {...node, node: node.id}, row: node.stream, start: node.planned[0], finish: node.planned[1],
                                        width: node.width, class: node.phase}));
  const rows = Math.max(...bars.map(bar => bar.row)) + 1;
  draw_gantt($('overview'), `When each node runs on ${rows} streams, until ${time(data.numbers.simulated_us)}`, bars, rows,
             data.numbers.capacity, data.numbers.simulated_us, undefined, data.numbers.streams - data.numbers.links);
}
let idle = 0, template = '';
function draw_when_idle(data) {
  const kIdle = 400;  // milliseconds without a change
  clearTimeout(idle);
  idle = setTimeout(async () => {
    template ||= (await call('page_template')).result;
    draw(filled_page(template, data));
  }, kIdle);
}

/// Replaces the drawn plan once the new one is ready, so that nothing flickers.
function draw(page) {
  const old = [...$('plan').children];
  const frame = document.createElement('iframe');
  frame.className = 'next';
  frame.title = 'The plan: when each node runs, what depends on what, where results lie in memory';
  frame.onload = () => {
    const fit = () => { frame.style.height = `${frame.contentDocument.documentElement.scrollHeight}px`; };
    frame.className = '';
    for (const each of old) each.remove();
    fit();
    new frame.contentWindow.ResizeObserver(fit).observe(frame.contentDocument.body);
    document.body.dataset.ready = 'yes';
  };
  frame.srcdoc = page.replace('<html', '<html data-show="gantt,graph,memory,slowest,words"').replace('padding: 24px 28px 60px', 'padding: 0');
  $('plan').append(frame);
}

// ---- the picture of the plan, as a file

/// A chart that needs no style sheet: its elements carry what the page's says of them.
function standalone(chart) {
  const kProperties = ['fill', 'fill-opacity', 'stroke', 'stroke-width', 'stroke-dasharray', 'opacity', 'font-family', 'font-size', 'font-weight',
                       'visibility'];
  const copy = chart.cloneNode(true), style = element => chart.ownerDocument.defaultView.getComputedStyle(element);
  const copies = [...copy.querySelectorAll('*')];
  for (const [i, element] of [...chart.querySelectorAll('*')].entries()) {
    const all = style(element);
    if (all.display === 'none') copies[i].dataset.hidden = '';
    else for (const property of kProperties) copies[i].style.setProperty(property, all.getPropertyValue(property));
  }
  for (const hidden of copy.querySelectorAll('[data-hidden]')) hidden.remove();
  const {width, height} = chart.getBoundingClientRect();
  for (const [key, value] of Object.entries({xmlns: 'http://www.w3.org/2000/svg', width, height})) copy.setAttribute(key, value);
  copy.style.background = style(chart).backgroundColor;
  return {text: new XMLSerializer().serializeToString(copy), width, height};
}
function save_file(name, blob) {
  const link = document.createElement('a');
  link.download = name;
  link.href = URL.createObjectURL(blob);
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
/// The file's name, without its ending, and the drawn chart; nothing until a plan is drawn.
function drawn() {
  const chart = document.querySelector('#plan iframe:not(.next)')?.contentDocument.getElementById('gantt-chart');
  const {model, device, policy} = state();
  return chart && {name: `${model}-${device}-${policy}`, ...standalone(chart)};
}
$('save-svg').onclick = () => {
  const picture = drawn();
  if (picture) save_file(`${picture.name}.svg`, new Blob([picture.text], {type: 'image/svg+xml'}));
};
$('save-png').onclick = async () => {
  const picture = drawn();
  if (!picture) return;
  const kSharper = 2, image = new Image(), canvas = document.createElement('canvas');
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(picture.text)}`;
  await image.decode();
  canvas.width = kSharper * picture.width;
  canvas.height = kSharper * picture.height;
  canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
  canvas.toBlob(blob => save_file(`${picture.name}.png`, blob));
};

// ---- start

async function start() {
  const {result, error} = await call('names');
  $('errors').textContent = error ?? '';
  if (error) { $('status').textContent = ''; return; }
  const options = (select, values) => select.append(...values.map(([value, text]) => new Option(text ?? value, value)));
  descriptions = Object.fromEntries(result.models.map(({name, description}) => [name, description]));
  options(controls.model, result.models.map(({name}) => [name]));
  options(controls.second, [['', 'nothing else'], ...result.models.map(({name}) => [name])]);
  options(controls.device, [...result.devices.map(name => [name, `${name.toUpperCase()}`]), ['cpu', 'CPU']]);
  options(controls.policy, result.policies.map(name => [name]));
  options(controls.cluster, result.clusters.map(name => [name]));
  options($('against'), [['', 'no other'], ['list', 'list, without search'], ...result.policies.map(name => [name])]);
  restore();
  plan();
}
$('controls').addEventListener('input', () => { $('link-errors').textContent = ''; plan(); });
addEventListener('hashchange', () => { restore(); plan(); });
start_steps();
start();
offer_local_files();
