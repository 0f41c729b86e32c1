// Requests of the games (apps/playground/tasks.h) with random changes: each has to end in an answer or a message, never in a trap of
// WebAssembly, and be what PROGRAM, built from plan_tasks.cpp, says natively. node tasks_fuzz.js SITE INPUTS [SEED [PROGRAM]]
'use strict';
const {execFileSync} = require('child_process'), zlib = require('zlib');
const [site, inputs, seed = 1, program] = process.argv.slice(2);
const mutations = require('./mutations.js'), {load_planner, packed} = require(`${site}/planner.js`);
const planner = load_planner(zlib.gunzipSync(Buffer.from(packed(), 'base64')));

const {below, any, copy, mutate} = mutations(+seed);

const tasks = [
  {name: 'a', microseconds: 1, bytes: 256}, {name: 'b', microseconds: 3, width: 2, bytes: 512, after: ['a']},
  {name: 'c', microseconds: 2, bytes: 256, after: ['a']}, {name: 'd', microseconds: 0.5, after: ['a', 'b']},
  {name: 'e', microseconds: 2, bytes: 512, after: ['c']}, {name: 'f', microseconds: 1, bytes: 256, after: ['d', 'e']},
];
const graph = {tasks, streams: 2, capacity: 3}, schedule = tasks.map(({name}, i) => ({task: name, stream: i % 2}));
const {plan} = JSON.parse(planner.tasks({graph, schedule}));
const edit = {events: plan.events, streams: plan.streams, offsets: plan.offsets};
const seeds = [
  {graph, policy: 'critical_path', optimum: true}, {graph: {...graph, limit: 1024}, policy: 'stages', optimum: true}, {graph, schedule},
  {graph, schedule, edit}, {graph, schedule, edit, microseconds: [9, 1, 1, 1, 1, 1]}, {graph, policy: 'matching', optimum: true},
];
const values = [null, true, '', 'a', 'f', 'x'.repeat(200), '\u0000', '\ud800', 0, 1, 2, 3, -1, 0.5, 1e-300, 1e300, 2 ** 31, 2 ** 32, 2 ** 53,
                -(2 ** 63), 64, 65, 4096, 4097, [], {}, [[]], [0], {launch: 0}, {record: 0}, {wait: 0}, {wait: 1}, 'serial', 'auto'];

/// Fails with the first request whose answers in WebAssembly and by the program differ.
function compare(requests, said) {
  const native = execFileSync(program, {input: requests.join(''), encoding: 'utf8', maxBuffer: 2 ** 30}).split('\n');
  const at = said.findIndex((text, i) => text !== native[i]);
  if (at < 0) return;
  console.error(`WebAssembly: ${said[at]}\nnatively: ${native[at]}\n${requests[at]}`);
  process.exit(1);
}

let answers = 0, messages = 0, slowest = 0, requests = [], said = [];
const unlike = new Set();
for (let i = 0; i < +inputs; ++i) {
  const request = copy(any(seeds));
  for (let changes = 1 + below(4); changes > 0; --changes) mutate(request, values);
  const begin = performance.now();
  try {
    requests.push(`${JSON.stringify(request)}\n`);
    said.push(planner.tasks(request));
    const answer = JSON.parse(said.at(-1));
    if (!Array.isArray(answer.faults) || !answer.plan) throw new WebAssembly.RuntimeError('an answer without a plan');
    ++answers;
  } catch (error) {
    const trap = error instanceof WebAssembly.RuntimeError || error instanceof RangeError;
    if (trap || !error.message || /^a page has no|has ended with status/.test(error.message)) {
      console.error(`input ${i}: ${error.stack}\n${JSON.stringify(request)}`);
      process.exit(1);
    }
    said.push(JSON.stringify(error.message));
    ++messages;
    unlike.add(error.message.replace(/got .*/s, '').replace(/[\d.]+/g, '#'));
  }
  slowest = Math.max(slowest, performance.now() - begin);
  if (requests.length < 1000 && i + 1 < +inputs) continue;
  if (program) compare(requests, said);
  [requests, said] = [[], []];
}
console.log(`${inputs} inputs: ${answers} answers, ${messages} messages of ${unlike.size} kinds, at most ${slowest.toFixed(0)} ms`);
if (answers === 0 || unlike.size < 10) process.exit(1);
