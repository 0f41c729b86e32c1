// What a reader opens, pastes or drops, recognised by its keys. In pages and, for tests, in Node; needs js-yaml.js.
'use strict';

/// What can be opened, by what only such a file has.
const kKinds = {
  trace: {keys: ['traceEvents'], text: "a trace ('braid train --trace FILE')"},
  profile: {keys: ['measurements'], text: "a profile ('braid profile -o FILE')"},
  plan: {keys: ['placements'], text: "a plan ('braid plan --write-plan FILE')"},
  device: {keys: ['flops_per_unit'], text: "a device ('braid devices --json')"},
  network: {keys: ['model', 'jobs'], text: 'a network, as a config in YAML or JSON'},
  cluster: {keys: ['hosts', 'devices', 'inside', 'network'], text: 'a cluster, in YAML or JSON'},
};
/// Files of a kind that the planner knows by their ending.
const kEndings = {device: '.json', cluster: '.yaml'};

/// YAML as train/config/tree.h allows it: {text: the same as JSON, places: {path: [the line of its key, whether it is quoted]}}. Numbers keep their digits, as a
/// plain scalar is read by the key that it belongs to. Throws Error with the line.
function read_yaml(text, source) {
  const yaml = globalThis.jsyaml ?? require('./js-yaml.js');
  const fail = (line, what) => { throw new Error(`${source}:${line}: ${what}`); };
  // A plain scalar becomes a String object, a quoted one remains a string.
  const plain = new yaml.Type('plain', {kind: 'scalar', resolve: scalar => scalar !== null, construct: scalar => new String(scalar)});
  const schema = yaml.FAILSAFE_SCHEMA.extend({implicit: [plain]});
  const open = [[]], kDeepest = 16;
  const listener = (event, state) => {
    if (event === 'open') { open.push([]); return; }
    const inner = open.pop();
    if (state.anchor !== null) fail(state.line + 1, 'anchors are not supported');
    if (state.tag !== null && state.tag !== 'plain') fail(state.line + 1, "tags such as '!!int' are not supported");
    // js-yaml looks for the key of a map first, and keeps what it found if that was none.
    open.at(-1).push(inner.length === 1 && inner[0].value === state.result ? inner[0] : {line: state.line + 1, value: state.result, inner});
  };
  try {
    yaml.load(text, {schema, listener, filename: source});
  } catch (error) {
    if (!(error instanceof yaml.YAMLException)) throw error;
    fail((error.mark?.line ?? 0) + 1, `not valid YAML: ${error.reason}`);
  }
  const places = {}, first_line = node => node.inner.length ? first_line(node.inner[0]) : node.line;
  const place = (path, line, value) => { places[path.join('.')] = [line, typeof value === 'string']; };
  const json = ({line, value, inner}, path) => {
    if (path.length > kDeepest) fail(line, `nested deeper than ${kDeepest} levels`);
    const below = key => [...path, key];
    if (Array.isArray(value)) {
      return `[${inner.map((item, i) => { place(below(i), first_line(item), item.value); return json(item, below(i)); }).join()}]`;
    }
    if (value instanceof String) return /^(-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?|true|false|null)$/.test(value) ? `${value}` :
        /^(~|Null|NULL)$/.test(value) ? 'null' : JSON.stringify(value);
    if (value === null || typeof value !== 'object') return JSON.stringify(value);
    const members = [];
    for (let i = 0; i + 1 < inner.length; i += 2) {
      place(below(inner[i].value), inner[i].line, inner[i + 1].value);
      members.push(`${JSON.stringify(inner[i].value)}:${json(inner[i + 1], below(inner[i].value))}`);
    }
    return `{${members.join()}}`;
  };
  const root = open[0][0];
  return {text: root ? json(root, []) : 'null', places};
}

/// {kind, name: as the planner knows it, text: what it takes, about: a line for the reader, device: what it was measured on}.
/// Throws Error with what is wrong.
function read_opened(name, text) {
  let file, tree;
  try {
    file = JSON.parse(text);
  } catch {
    tree = read_yaml(text, name);
    file = JSON.parse(tree.text);
  }
  const keys = file !== null && typeof file === 'object' ? Object.keys(file) : [];
  const kind = keys.includes('plans') ? undefined : Object.keys(kKinds).find(each => kKinds[each].keys.some(key => keys.includes(key)));
  if (kind === undefined) {
    const found = keys.includes('plans') ? "the numbers that 'braid plan --json' prints" :
        keys.length ? `the keys ${keys.slice(0, 6).join(', ')}` : JSON.stringify(file).slice(0, 40);
    throw new Error(`${name}: expected ${Object.values(kKinds).map(each => each.text).join('; ')}; got ${found}`);
  }
  const ending = kEndings[kind] ?? '';
  const known_as = name.endsWith(ending) ? name : name + ending;
  if (kind === 'network' || kind === 'cluster') {
    tree ??= read_yaml(text, name);
    text = `{"config":${tree.text},"source":${JSON.stringify(name)},"places":${JSON.stringify(tree.places)}}`;
  }
  const size = list => Array.isArray(list) ? list.length : 0;
  const about = {
    trace: () => `a trace of ${file.otherData?.title} on ${file.otherData?.device}`,
    profile: () => `a profile: ${size(file.measurements)} durations on ${file.device}`,
    plan: () => `a plan by ${file.policy}, of ${size(file.placements)} nodes on ${size(file.streams)} streams`,
    device: () => `a device: ${file.name}`,
    network: () => `a network${file.name ? `: ${file.name}` : ''}`,
    cluster: () => `a cluster of ${file.hosts ?? 1} × ${file.devices ?? 1} ${file.device}`,
  }[kind]();
  const device = {trace: file.otherData?.device, profile: file.device, device: file.name}[kind];
  return {kind, name: known_as, text, about, device};
}

if (typeof module !== 'undefined') module.exports = {read_opened};
