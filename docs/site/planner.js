// The planner in WebAssembly (apps/playground/planner.cpp): in a worker for the pages, which then scroll while it plans, and in Node for
// tests. scripts/make_site.py appends the constants PLANNER_GZIP, the packed module, and CPU, a device file.
'use strict';

/// The page of a plan: page_template() with page_data(), as train/report/plan/plan_page.cpp fills it.
const filled_page = (template, data) => template.replace('/*DATA*/', () => data.replaceAll('<', '\\u003c'));

/// {names(), plan(request), page(), explain(request), …} of the module; they throw Error with the planner's message.
function load_planner(bytes) {
  if (typeof WebAssembly === 'undefined') throw new Error('This browser has no WebAssembly, to which the planner is compiled.');
  const module = new WebAssembly.Module(bytes);
  let memory;
  const view = () => new DataView(memory.buffer);
  // What C++ asks of a system. There are no files: 8 is "no such descriptor", 0 is success.
  const system = {
    clock_time_get: (_, __, at) => { view().setBigUint64(at, BigInt(Math.round(performance.now() * 1e6)), true); return 0; },
    environ_sizes_get: (count, bytes) => { view().setUint32(count, 0, true); view().setUint32(bytes, 0, true); return 0; },
    environ_get: () => 0,
    random_get: (at, size) => { crypto.getRandomValues(new Uint8Array(memory.buffer, at >>> 0, size)); return 0; },
    proc_exit: code => { throw new Error(`the planner has ended with status ${code}`); },
  };
  const imports = {};
  for (const {module: from, name} of WebAssembly.Module.imports(module)) {
    const absent = from === 'wasi_snapshot_preview1' ? () => 8 : () => { throw new Error(`a page has no ${name}`); };
    (imports[from] ??= {})[name] = system[name] ?? absent;
  }
  const exports = new WebAssembly.Instance(module, imports).exports;
  memory = exports.memory;
  exports._initialize();

  const call = (name, request = '') => {
    const text = new TextEncoder().encode(request);
    const at = exports.braid_request(text.length) >>> 0;  // an address, of which WebAssembly makes a signed number
    new Uint8Array(memory.buffer, at, text.length).set(text);
    const failed = exports[name]();
    const result = new TextDecoder().decode(new Uint8Array(memory.buffer, exports.braid_result() >>> 0, exports.braid_result_size()));
    if (failed) throw new Error(result);
    return result;
  };
  return {
    names: () => JSON.parse(call('braid_names')),
    plan: request => call('braid_plan', JSON.stringify(request)),
    page_data: () => call('braid_page_data'),
    page_template: () => call('braid_page_template'),
    page: () => filled_page(call('braid_page_template'), call('braid_page_data')),
    explain: request => call('braid_explain', JSON.stringify(request)),
    tasks: request => call('braid_tasks', JSON.stringify(request)),
  };
}

/// The planner in a worker, which stop() starts again. call(name, request) promises {result, milliseconds} of a function of load_planner, or {error}.
function start_planner() {
  const source = `const filled_page = ${filled_page};
  ${load_planner}
  const packed = Uint8Array.from(atob('${PLANNER_GZIP}'), letter => letter.charCodeAt(0));
  const unpacked = new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'))).arrayBuffer();
  const loaded = unpacked.then(load_planner);
  onmessage = async ({data: {id, call, request}}) => {
    try {
      const planner = await loaded, begin = performance.now();
      const result = planner[call](request);
      postMessage({id, result, milliseconds: performance.now() - begin});
    } catch (error) {
      postMessage({id, error: error.message});
    }
  };`;
  const address = URL.createObjectURL(new Blob([source], {type: 'text/javascript'}));
  const waiting = new Map();
  let calls = 0, worker;
  const fail = error => {
    for (const done of waiting.values()) done({error});
    waiting.clear();
  };
  const start = () => {
    worker = new Worker(address);
    worker.onmessage = ({data}) => { waiting.get(data.id)(data); waiting.delete(data.id); };
    worker.onerror = event => fail(`The planner does not start: ${event.message}`);
  };
  start();
  return {
    /// Ends all calls with an error. The planner that starts next knows no last plan.
    stop() {
      worker.terminate();
      fail('The planner was stopped.');
      start();
    },
    call: (name, request) => new Promise(done => {
      waiting.set(++calls, done);
      worker.postMessage({id: calls, call: name, request});
    }),
  };
}

if (typeof module !== 'undefined') module.exports = {load_planner, packed: () => PLANNER_GZIP};
