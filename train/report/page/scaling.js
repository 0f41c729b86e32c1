// ---- the step on fewer and more ranks

(function scaling() {
  if (!DATA.scaling) return;
  $('scaling').hidden = false;
  $('scaling-picture').innerHTML = DATA.scaling.picture;
  const alone = DATA.scaling.rows[0].makespan_us;
  const columns = [['ranks', row => row.ranks], ['step', row => time(row.makespan_us)],
                   ['efficiency', row => `${Math.round(100 * row.efficiency)} %`], ['speedup', row => +(row.ranks * row.efficiency).toPrecision(3)],
                   ['communicating', row => time(row.communicating_us)], ['not hidden', row => time(row.makespan_us - alone)],
                   ['buckets', row => row.buckets]];
  const line = (tag, cells) => `<tr>${cells.map(cell => `<${tag} class="number">${cell}</${tag}>`).join('')}</tr>`;
  $('scaling-table').innerHTML = `<thead>${line('th', columns.map(([name]) => name))}</thead><tbody>${
      DATA.scaling.rows.map(row => line('td', columns.map(([, text]) => text(row)))).join('')}</tbody>`;
})();
