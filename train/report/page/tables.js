// ---- the slowest nodes, and those whose measured times differ most from the planned ones

(function tables() {
  const kRows = 10;
  const key = runs.at(-1).key;  // measured, if it was
  const whole = measured ? N.measured_us : N.makespan_us;
  const signed = us => `${us < 0 ? '−' : '+'}${time(Math.abs(us))}`;
  const gap = node => length(node.measured) - length(node.planned);

  /// The first nodes by what `value` says, largest first. A column: heading, text of a node, whether it is a number.
  function fill(table, value, columns) {
    const first = [...DATA.nodes].sort((a, b) => value(b) - value(a)).slice(0, kRows);
    const cell = (tag, [name, text, number], node) =>
        `<${tag}${number ? ' class="number"' : ''}>${escaped(node ? text(node) : name)}</${tag}>`;
    table.innerHTML = `<thead><tr>${columns.map(column => cell('th', column)).join('')}</tr></thead><tbody>${
        first.map(node => `<tr data-node="${node.id}" data-value="${value(node)}">${
            columns.map(column => cell('td', column, node)).join('')}</tr>`).join('')}</tbody>`;
  }
  const who = [['node', node => node.op], ['layer', node => node.layer],
               ...(together ? [['job', node => DATA.jobs[node.job]]] : []), ['stream', node => node.stream, true]];
  const times = runs.map(run => [run.name, node => time(length(node[run.key])), true]);
  fill($('slowest-table'), node => length(node[key]), [
    ...who, [`${DATA.unit}s`, node => node.width, true], ...times,
    ['share', node => `${(100 * length(node[key]) / whole).toFixed(1)} %`, true],
  ]);
  if (!measured) return;
  $('gaps').hidden = false;
  fill($('gaps-table'), node => Math.abs(gap(node)), [
    ...who, ...times, ['difference', node => signed(gap(node)), true],
    ['measured / planned', node => ratio(length(node.measured) / Math.max(length(node.planned), 1e-3)), true],
  ]);
})();
