// Requests of the playground and the files that it opens (docs/site/files.js), with random changes: each has to end in a plan or a message,
// never in a trap of WebAssembly. Each line of standard input is a request as in playground_test.py; "own" are its files, by name.
// node files_fuzz.js SITE INPUTS [SEED]
'use strict';
const fs = require('fs'), zlib = require('zlib');
const [site, inputs, seed = 1] = process.argv.slice(2);
const {read_opened} = require(`${site}/files.js`), {load_planner, packed} = require(`${site}/planner.js`);
const {below, any, copy, mutate} = require('./mutations.js')(+seed);
const module_bytes = zlib.gunzipSync(Buffer.from(packed(), 'base64'));
const planner = load_planner(module_bytes);

const seeds = fs.readFileSync(0, 'utf8').split('\n').filter(Boolean).map(line => JSON.parse(line));
const values = [null, true, '', 'a', 'x'.repeat(200), '\u0000', '\ud800', 0, 1, 2, -1, 0.5, 1e-300, 1e300, 2 ** 31, 2 ** 32, 2 ** 53, -(2 ** 63),
                64, 65, 4097, [], {}, [[]], [0], 'serial', 'auto', 'relu', 'a100', 'conv', 'same', '1', {launch: 0}, {wait: 1}];
const pieces = [':', ' ', '\n', '  ', '- ', '{', '}', '[', ']', ',', '"', "'", '#', '&a ', '*a', '!!int ', '|', '>', '?', '\t', '\0', '1e999', '~', '0', '-'];

function changed(text) {
  let json;
  try { json = below(3) === 0 ? undefined : JSON.parse(text); } catch { /* YAML */ }
  for (let changes = 1 + below(3); changes > 0; --changes) {
    if (json !== undefined) { mutate(json, values); continue; }
    const at = below(text.length + 1), kept = at + below(3) * below(30);
    text = text.slice(0, at) + (below(2) ? any(pieces) : '') + text.slice(kept);
  }
  return json === undefined ? text : JSON.stringify(json);
}

const told = {plans: 0, messages: 0}, kinds = {};
const unlike = new Set();
let slowest = 0;
for (let i = 0; i < +inputs; ++i) {
  const {own, ...request} = copy(any(seeds)), names = Object.keys(own);
  const about_files = names.length > 0 && below(5) > 0;
  if (about_files) { const name = any(names); own[name] = changed(own[name]); }
  const begin = performance.now();
  try {
    request.files = {};
    for (const name of names) {
      const file = read_opened(name, own[name]);
      kinds[file.kind] = (kinds[file.kind] ?? 0) + 1;
      if (file.kind === 'network') request.models = [file.text];
      else {
        request.files[file.name] = file.text;
        request[file.kind] = file.name;
      }
    }
    if (!about_files) mutate(request, values);
    JSON.parse(planner.plan(request));
    JSON.parse(planner.page_data());
    ++told.plans;
  } catch (error) {
    const trap = error instanceof WebAssembly.RuntimeError || error instanceof RangeError || error instanceof TypeError;
    if (trap || !error.message || /^a page has no|has ended with status/.test(error.message)) {
      console.error(`input ${i}: ${error.stack}\n${JSON.stringify({...request, own}).slice(0, 20000)}`);
      process.exit(1);
    }
    ++told.messages;
    unlike.add(error.message.replace(/got .*/s, '').replace(/[\d.]+/g, '#'));
  }
  slowest = Math.max(slowest, performance.now() - begin);
}
console.log(`${inputs} inputs: ${told.plans} plans, ${told.messages} messages of ${unlike.size} kinds, at most ${slowest.toFixed(0)} ms; ` +
            `files read: ${Object.entries(kinds).map(([kind, count]) => `${count} × ${kind}`).join(', ')}`);
if (told.plans === 0 || unlike.size < 10) process.exit(1);
