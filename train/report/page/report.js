// Draws DATA (train/report/report.cpp).

const percent = share => `${(100 * share).toFixed(2)} %`;
const of_event = (run, event) => run.metrics.filter(record => record.event === event);
const last_of = list => list[list.length - 1];

// ---- results

const validations_of = run => run.metrics.filter(record => 'val_loss' in record);
const last_with = (run, key) => last_of(run.metrics.filter(record => key in record))?.[key];
const columns = [
  ['run', run => run.name], ['model', run => run.model], ['precision', run => run.precision],
  ['batch size', run => run.batch_size], ['epochs', run => `${of_event(run, 'epoch').length} of ${run.epochs}`],
  ['steps', run => last_with(run, 'step') ?? 0],
  ['training loss', run => last_with(run, 'loss')?.toFixed(4)],
  ['validation loss', run => last_with(run, 'val_loss')?.toFixed(4)],
  ['validation accuracy', run => validations_of(run).length ? percent(last_with(run, 'val_accuracy')) : undefined],
  ['best', run => validations_of(run).length ? percent(Math.max(...validations_of(run).map(val => val.val_accuracy))) : undefined],
  ['images/s', run => last_with(run, 'images_per_second')?.toFixed(0)],
];

// ---- curves

/// Steps of an epoch; undefined before the first has ended.
const steps_per_epoch = run => { const end = of_event(run, 'epoch')[0]; return end && end.step / end.epoch; };
/// Whether all runs can be drawn over epochs, which compares runs of different batch sizes.
const over_epochs = () => DATA.runs.every(steps_per_epoch);

/// The values of a member of the records over epochs, or over steps before an epoch has ended. Without `event`, those
/// of steps, or of epochs where steps have none.
function curve(run, job, key, event = run.metrics.some(record => key in record && record.event === 'step') ? 'step' : 'epoch') {
  const points = new Map(), unit = over_epochs() ? steps_per_epoch(run) : 1;
  for (const record of run.metrics) {
    if (key in record && record.event === event) points.set(record.step / unit, record[key]);
  }
  return {name: key.startsWith('val') ? `${run.name}, validation` : run.name, points: [...points], job, val: key.startsWith('val')};
}
const all_curves = (keys, event) => DATA.runs.flatMap((run, job) => keys.map(key => curve(run, job, key, event)))
    .filter(({points}) => points.length > 0);

function show_runs() {
  document.title = `Report: ${DATA.runs.map(run => run.name).join(', ')}`;
  $('title').textContent = document.title;
  $('subtitle').textContent = [...new Set(DATA.runs.map(run => `${run.dataset}${run.device ? ` on ${run.device}` : ''}`))].join('; ');
  $('runs-table').innerHTML = `<tr>${columns.map(([name]) => `<th>${name}</th>`).join('')}</tr>` + DATA.runs.map(
      run => `<tr>${columns.map(([name, cell]) => `<td data-column="${name}">${escaped(cell(run) ?? '–')}</td>`).join('')}</tr>`).join('');
  const keys = [...new Set(DATA.runs.flatMap(run => Object.keys(run.config)))].filter(
      key => new Set(DATA.runs.map(run => run.config[key])).size > 1);
  $('differences').hidden = keys.length === 0;
  $('differences-table').innerHTML = `<tr><th>key</th>${DATA.runs.map(run => `<th>${escaped(run.name)}</th>`).join('')}</tr>` +
      keys.map(key => `<tr data-key="${key}"><td>${key}</td>${
          DATA.runs.map(run => `<td>${escaped(run.config[key] ?? '–')}</td>`).join('')}</tr>`).join('');
  document.querySelector('#curves .legend').innerHTML = DATA.runs.map(
      (run, job) => `<span><i style="background: hsl(${hue(job)} var(--line-tone))"></i>${escaped(run.name)}</span>`).join('');

  redraws.length = 0;
  const axis = over_epochs() ? {unit: 'epoch', first: 0} : {};
  const of_range = {...axis, from_zero: false};
  draw_curves($('loss-chart'), all_curves(['loss', 'val_loss']), of_range);
  draw_curves($('accuracy-chart'), all_curves(['accuracy', 'val_accuracy']), {...of_range, name_of_value: percent});
  draw_curves($('rate-chart'), all_curves(['lr']), axis);
  draw_curves($('throughput-chart'), all_curves(['images_per_second']), axis);
  const waiting = all_curves(['waiting_seconds'], 'epoch');
  $('waiting').hidden = waiting.length === 0;
  if (waiting.length > 0) draw_curves($('waiting-chart'), waiting, axis);
  for (const each of redraws) each();
}
show_runs();
addEventListener('resize', redraw);

// ---- what the trained models confuse

const new_element = (parent, name, attributes, text) => draw(parent, name, attributes, text, document.createElement(name));

/// Rows are the true classes, columns the predicted ones.
function draw_confusion(parent, {classes, confusion}) {
  const n = classes.length, cell = Math.max(3, Math.min(46, Math.floor(500 / n)));
  const named = cell > 10;
  const shown = name => name.length > 17 ? `${name.slice(0, 16)}…` : name;
  const kName = named ? 16 + 8 * Math.max(...classes.map(name => shown(name).length)) : 8;
  const chart = draw(parent, 'svg', {class: 'confusion', width: kName + n * cell + 8, height: kName + n * cell + 8});
  draw(chart, 'rect', {x: kName, y: kName, width: n * cell, height: n * cell, style: 'fill: var(--panel)'});
  for (let i = 0; named && i < n; ++i) {
    const middle = kName + i * cell + cell / 2;
    draw(chart, 'text', {x: kName - 6, y: middle + 4, 'text-anchor': 'end'}, shown(classes[i]));
    draw(chart, 'text', {transform: `translate(${middle + 4} ${kName - 6}) rotate(-90)`}, shown(classes[i]));
  }
  const totals = Array(n).fill(0);
  for (const [label, , count] of confusion) totals[label] += count;
  for (const [label, predicted, count] of confusion) {
    const x = kName + predicted * cell, y = kName + label * cell;
    const rect = draw(chart, 'rect', {class: label === predicted ? 'cell right' : 'cell', x, y, width: cell, height: cell,
                                      'fill-opacity': 0.12 + 0.88 * count / totals[label], 'data-label': label,
                                      'data-predicted': predicted, 'data-count': count});
    draw(rect, 'title', {}, `${classes[label]} taken for ${classes[predicted]}: ${count} of ${totals[label]}`);
    if (cell >= 24) {
      draw(chart, 'text', {x: x + cell / 2, y: y + cell / 2 + 4, 'text-anchor': 'middle', 'pointer-events': 'none'}, count);
    }
  }
}

/// For each class: the images of it, how many of those that the model took for it are of it (precision), how many of it
/// the model found (recall), and the harmonic mean of both (F1).
function draw_classes(parent, {classes, confusion}) {
  const sum = holds => confusion.reduce((total, [label, predicted, count]) => total + (holds(label, predicted) ? count : 0), 0);
  const share = (part, whole) => whole > 0 ? percent(part / whole) : '–';
  new_element(parent, 'table', {class: 'top classes'}).innerHTML =
      '<tr><th>class</th><th>images</th><th>precision</th><th>recall</th><th>F1</th></tr>' + classes.map((name, i) => {
    const right = sum((label, predicted) => label === i && predicted === i);
    const images = sum(label => label === i), taken = sum((_, predicted) => predicted === i);
    const cells = [name, images, share(right, taken), share(right, images), share(2 * right, taken + images)];
    return `<tr data-class="${i}">${cells.map(cell => `<td>${escaped(cell)}</td>`).join('')}</tr>`;
  }).join('');
}

for (const run of DATA.runs) {
  const val = run.val;
  if (!val) continue;
  const parts = new_element($('validations'), 'div', {class: 'pairs', 'data-run': run.name});
  const left = new_element(parts, 'div'), right = new_element(parts, 'div');
  new_element(left, 'h2', {}, `What ${run.name} confuses`);
  new_element(left, 'p', {}, `The trained model on ${plural(val.images, 'validation image')}: loss ${val.loss.toFixed(4)}, accuracy ` +
      `${percent(val.accuracy)}. A row is a true class, a column what the model took it for; the darker, the larger the share ` +
      'of the row.');
  if (val.warning) new_element(left, 'p', {class: 'hint'}, val.warning);
  draw_confusion(new_element(left, 'div', {class: 'wide'}), val);
  draw_classes(new_element(left, 'div', {class: 'wide'}), val);
  if (val.mistakes.length === 0) continue;
  new_element(right, 'h2', {}, `The worst mistakes of ${run.name}`);
  new_element(right, 'p', {}, 'The wrongly classified validation images with the highest loss, as the model sees them.');
  const list = new_element(right, 'div', {class: 'mistakes'});
  for (const mistake of val.mistakes) {
    const figure = new_element(list, 'figure', {'data-loss': mistake.loss});
    new_element(figure, 'img', {src: `data:image/png;base64,${mistake.png}`, alt: val.classes[mistake.label]});
    const caption = new_element(figure, 'figcaption');
    new_element(caption, 'b', {}, val.classes[mistake.label]);
    new_element(caption, 'span', {}, `, taken for ${val.classes[mistake.predicted]} (${(100 * mistake.probability).toFixed(0)} %)`);
    new_element(caption, 'div', {class: 'faint'}, `loss ${mistake.loss.toFixed(2)}`);
    if (mistake.file) new_element(caption, 'div', {class: 'faint file', title: mistake.file}, mistake.file.split('/').pop());
  }
}

// ---- the plans, each on a separate page

for (const {name, page} of DATA.plans) {
  new_element($('plans'), 'h2', {}, `A training step of ${name}, as planned and as measured`);
  const frame = new_element($('plans'), 'iframe', {class: 'plan', title: `Plan of ${name}`});
  const fit = () => { frame.style.height = `${frame.contentDocument.documentElement.scrollHeight}px`; };
  frame.onload = () => { fit(); new frame.contentWindow.ResizeObserver(fit).observe(frame.contentDocument.body); };
  frame.srcdoc = page.replace('<html', '<html data-show="gantt"');
  new_element($('plans'), 'button', {}, 'Show the whole plan').onclick = event => {
    frame.srcdoc = page;
    event.target.remove();
  };
}

// ---- runs that still train

let seen;  // when the server last answered
function show_age(answered) {
  if (answered) seen = new Date().toLocaleTimeString();
  const silent = answered ? [] : ['The server does not answer: has braid report ended? The page asks again until it does.'];
  $('refreshed').textContent = [`As of ${seen}.`, ...silent, ...DATA.problems].join(' ');
}
async function refresh() {
  const begin = performance.now();
  if (!document.hidden) {
    const data = await fetch('data.json').then(response => response.json()).catch(() => undefined);
    if (data) {
      Object.assign(DATA, data);
      show_runs();
    }
    show_age(data !== undefined);
  }
  setTimeout(refresh, Math.max(2000, 20 * (performance.now() - begin)));  // a long history is no burden on the training either
}
if (DATA.live) {
  $('live').hidden = false;
  show_age(true);
  setTimeout(refresh, 2000);
}

document.body.dataset.ready = 'yes';
