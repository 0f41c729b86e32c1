// ---- the Gantt chart

/// Whether the next node of the chain needs this node's result; the end of the step needs the last one's.
const is_needed = (pace, i) => i + 1 === pace.length || edges.has(`${pace[i]} ${pace[i + 1]}`);

(function gantt() {
  const chart = $('gantt-chart');
  const kTop = 30, kRow = 46, kGap = 8, kStrip = 16, kUse = 34;
  const used = Math.max(1, ...DATA.nodes.map(node => node.stream + 1));
  const heading = runs.length > 1 ? 22 : 0;
  const panel = heading + used * (kRow + kGap) + kStrip + kGap + kUse + 14;
  const height = kTop + runs.length * panel;
  chart.setAttribute('height', height);
  const inside = time_axis(chart, kTop, height - 8);
  const pieces = [];  // what moves with the view

  runs.forEach((run, r) => {
    const top = kTop + r * panel + heading;
    const row_of = node => top + node.stream * (kRow + kGap);
    const height_of = node => Math.max(0.34, Math.min(1, node.width / N.capacity)) * kRow;
    const top_of = node => row_of(node) + (kRow - height_of(node));
    if (heading) draw(chart, 'text', {class: 'group-name', x: 12, y: top - 6}, run.name);
    for (let s = 0; s < used; ++s) {
      const y = top + s * (kRow + kGap);
      draw(chart, 'text', {class: 'row-name', x: 12, y: y + kRow / 2 + 4},
           s < N.streams - N.links ? `stream ${s}` : `link ${s - N.streams + N.links}`);
      draw(chart, 'line', {class: 'grid', x1: 0, x2: '100%', y1: y + kRow + kGap / 2, y2: y + kRow + kGap / 2});
    }

    for (const node of DATA.nodes) {
      const marked = critical.has(node.id) ? ' critical' : '';
      const bar = draw(inside, 'rect', {class: `bar ${node.phase}${marked}${job_class(node.job)}`, ...job_style(node.job), rx: 3,
                                        y: top_of(node), height: height_of(node), 'data-node': node.id, 'data-run': run.key});
      const mark = marked ? draw(inside, 'rect', {class: 'mark', y: top_of(node), height: 4}) : null;
      const tall = height_of(node) > 30;
      const first = draw(inside, 'text', {class: 'on-bar', y: top_of(node) + (tall ? 19 : 14)});
      const second = tall ? draw(inside, 'text', {class: 'on-bar second', y: top_of(node) + 33}) : null;
      const [begin, finish] = node[run.key];
      pieces.push(() => {
        const x = x_of(chart, begin), width = x_of(chart, finish) - x;
        for (const rect of mark ? [bar, mark] : [bar]) set(rect, {x, width: Math.max(width, 0.6)});
        const left = Math.max(x, kLeft), room = x + width - left;
        set(first, {x: left + 5});
        first.textContent = fits(node.op, room) ? node.op : '';
        if (!second) return;
        set(second, {x: left + 5});
        second.textContent = fits(node.layer, room, 6.2) ? node.layer : '';
      });
    }

    const waits = draw(inside, 'g', {class: 'waits'});
    for (const [before, after] of DATA.waits) {
      const a = nodes.get(before), b = nodes.get(after);
      const line = draw(waits, 'path', {class: 'wait', 'data-before': before, 'data-after': after, 'data-run': run.key});
      const head = draw(waits, 'path', {class: 'wait head', style: 'fill: var(--wait)'});
      const down = b.stream > a.stream;
      const y1 = down ? row_of(a) + kRow : top_of(a), y2 = down ? top_of(b) : row_of(b) + kRow;
      pieces.push(() => {
        const x1 = x_of(chart, a[run.key][1]), x2 = x_of(chart, b[run.key][0]);
        const bend = (down ? 1 : -1) * 12;
        set(line, {d: `M${x1},${y1} C${x1},${y1 + bend} ${x2},${y2 - bend} ${x2},${y2}`});
        set(head, {d: `M${x2},${y2} l-3,${down ? -6 : 6} l6,0 z`});
      });
    }

    const strip = top + used * (kRow + kGap);
    draw(chart, 'text', {class: 'row-name', x: 12, y: strip + 12}, 'sets the pace');
    for (const [i, id] of run.pace.entries()) {
      const by = is_needed(run.pace, i) ? 'result' : 'device';
      const piece = draw(inside, 'rect', {class: `strip ${by}`, y: strip + 3, height: kStrip - 8, 'data-node': id,
                                          'data-run': run.key});
      const [begin, finish] = nodes.get(id)[run.key];
      pieces.push(() => set(piece, {x: x_of(chart, begin) + 0.5,
                                    width: Math.max(0.5, x_of(chart, finish) - x_of(chart, begin) - 1)}));
    }

    const use = strip + kStrip + kGap;
    draw(chart, 'text', {class: 'row-name', x: 12, y: use + 14}, `${DATA.unit}s in use`);
    draw(chart, 'text', {class: 'faint', x: 12, y: use + 29}, `of ${N.capacity}`);
    const area = draw(inside, 'path', {class: 'in-use'});
    const changes = DATA.nodes.flatMap(node => [[node[run.key][0], node.width], [node[run.key][1], -node.width]])
        .sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    pieces.push(() => {
      let level = 0, d = `M${kLeft},${use + kUse}`;
      const y = () => use + kUse - Math.min(level / N.capacity, 1) * kUse;
      for (const [t, change] of changes) {
        const x = x_of(chart, t);
        d += `L${x},${y()}`;
        level += change;
        d += `L${x},${y()}`;
      }
      set(area, {d: `${d}Z`});
    });
    if (r > 0) draw(chart, 'line', {class: 'grid', x1: 0, x2: '100%', y1: top - heading - 2, y2: top - heading - 2});
  });

  $('show-waits').onchange = event => {
    for (const group of chart.querySelectorAll('.waits')) group.style.display = event.target.checked ? '' : 'none';
  };
  if (DATA.waits.length > 150) $('show-waits').click();
  redraws.push(() => { for (const piece of pieces) piece(); });
  interact_with_time(chart);
})();

// How much of a step passes while the next node of the chain waits for a result.
$('pace').textContent = runs.map(run => {
  const own = id => length(nodes.get(id)[run.key]);
  const needed = run.pace.filter((id, i) => is_needed(run.pace, i)).reduce((sum, id) => sum + own(id), 0);
  const total = run.pace.reduce((sum, id) => sum + own(id), 0);
  return `${run.name === 'planned' ? 'As planned' : 'As measured'}, nodes wait for results during ${
      Math.round(100 * needed / Math.max(total, 1e-9))} % of the time, and for a stream or ${DATA.unit}s during the rest.`;
}).join(' ');
