// Random changes of JSON, the same for the same seed.
'use strict';
module.exports = seed => {
  let state = seed;
  function random() {  // mulberry32
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }
  const below = bound => Math.floor(random() * bound), any = list => list[below(list.length)];

  const copy = json => JSON.parse(JSON.stringify(json));

  /// Every list and object in it.
  function* inside(json) {
    if (json === null || typeof json !== 'object') return;
    yield json;
    for (const part of Object.values(json)) yield* inside(part);
  }
  /// Changes a part of it in place, perhaps to one of these values.
  function mutate(request, values) {
    const all = [...inside(request)], target = any(all), keys = Object.keys(target), key = any(keys);
    if (key === undefined) return;
    const other = any(all), other_key = any(Object.keys(other));
    switch (below(6)) {
      case 0: target[key] = copy(any(values)); break;
      case 1: if (Array.isArray(target)) target.splice(+key, 1); else delete target[key]; break;
      case 2: if (Array.isArray(target)) target.splice(+key, 0, copy(any(target))); break;
      case 3: if (Array.isArray(target)) target.push(...Array.from({length: 1 + below(70)}, () => copy(target[key]))); break;
      case 4: if (other_key !== undefined) target[key] = copy(other[other_key]); break;
      case 5: if (Array.isArray(target)) { const i = below(target.length); [target[key], target[i]] = [target[i], target[key]]; } break;
    }
  }
  return {below, any, copy, mutate};
};
