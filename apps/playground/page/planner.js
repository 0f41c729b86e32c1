// The planner in WebAssembly (planner.cpp). For the worker of the page, and for tests in Node.
'use strict';

/// {names(), plan(request), page()} of the module; they throw Error with the planner's message.
function load_planner(bytes) {
  const module = new WebAssembly.Module(bytes);
  let memory;
  const view = () => new DataView(memory.buffer);
  // What C++ asks of a system. There are no files: 8 is "no such descriptor", 0 is success.
  const system = {
    clock_time_get: (_, __, at) => { view().setBigUint64(at, BigInt(Math.round(performance.now() * 1e6)), true); return 0; },
    environ_sizes_get: (count, bytes) => { view().setUint32(count, 0, true); view().setUint32(bytes, 0, true); return 0; },
    environ_get: () => 0,
    random_get: (at, size) => { crypto.getRandomValues(new Uint8Array(memory.buffer, at, size)); return 0; },
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
    const at = exports.braid_request(text.length);
    new Uint8Array(memory.buffer, at, text.length).set(text);
    const failed = exports[name]();
    const result = new TextDecoder().decode(new Uint8Array(memory.buffer, exports.braid_result(), exports.braid_result_size()));
    if (failed) throw new Error(result);
    return result;
  };
  return {
    names: () => JSON.parse(call('braid_names')),
    plan: request => call('braid_plan', JSON.stringify(request)),
    page: () => call('braid_page'),
  };
}

if (typeof module !== 'undefined') module.exports = {load_planner, packed: () => PLANNER_GZIP};  // which scripts/site.sh appends
