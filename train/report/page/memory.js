// ---- the memory map

(function memory() {
  const chart = $('memory-chart');
  const kTop = 30, kHeight = 400, height = kTop + kHeight + 14;
  chart.setAttribute('height', height);
  const most = Math.max(N.arena_bytes, 1) * 1.03;
  const y_of = address => kTop + kHeight - address / most * kHeight;
  const inside = time_axis(chart, kTop, kTop + kHeight);
  const axis = draw(chart, 'g', {class: 'axis'});
  const unit = most >= 2 ** 31 ? 2 ** 30 : most >= 2 ** 21 ? 2 ** 20 : most >= 2 ** 11 ? 2 ** 10 : 1;
  for (const tick of ticks(0, most / unit, 6)) {
    const y = y_of(tick * unit);
    draw(axis, 'line', {class: 'grid', x1: kLeft - 5, x2: kLeft, y1: y, y2: y});
    draw(axis, 'text', {x: kLeft - 9, y: y + 4, 'text-anchor': 'end'}, bytes(tick * unit));
  }
  const turned = kTop + kHeight / 2;
  draw(axis, 'text', {x: 18, y: turned, 'text-anchor': 'middle', transform: `rotate(-90 18 ${turned})`}, 'address in the arena');

  const pieces = [];
  DATA.memory.forEach((use, index) => {
    const job = use.kind === 'workspace' ? -1 : nodes.get(use.node)?.job ?? -1;
    const y = y_of(use.offset + use.bytes), tall = y_of(use.offset) - y;
    const rect = draw(inside, 'rect', {class: `use ${use.kind}${job_class(job)}`, ...job_style(job), y,
                                       height: Math.max(tall, 0.6), 'data-use': index,
                                       ...(use.node >= 0 && {'data-node': use.node})});
    const text = tall > 14 ? draw(inside, 'text', {class: 'on-bar', y: y + Math.min(tall / 2 + 4, 24)}) : null;
    pieces.push(() => {
      const x = x_of(chart, use.time[0]), width = x_of(chart, use.time[1]) - x;
      set(rect, {x, width: Math.max(width, 0.6)});
      if (!text) return;
      const node = nodes.get(use.node);
      const left = Math.max(x, kLeft), room = Math.min(x + width, kLeft + pixels(chart)) - left;
      const candidates = [node ? `${use.kind === 'workspace' ? 'workspace of ' : ''}${named(node)}` : 'input',
                          node ? node.op : '', use.kind];
      set(text, {x: left + 5});
      text.textContent = candidates.find(candidate => fits(candidate, room)) ?? '';
    });
  });
  const line = draw(inside, 'path', {class: 'bytes-line'});
  draw(inside, 'line', {class: 'limit', x1: 0, x2: '100%', y1: y_of(N.arena_bytes), y2: y_of(N.arena_bytes)});
  redraws.push(() => {
    for (const piece of pieces) piece();
    let d = `M${kLeft},${y_of(0)}`, before = 0;
    for (const [t, amount] of DATA.in_use) {
      const x = x_of(chart, t);
      d += `L${x},${y_of(before)}L${x},${y_of(amount)}`;
      before = amount;
    }
    set(line, {d});
  });
  interact_with_time(chart);
})();
$('memory-run').textContent = runs.at(-1).name;
