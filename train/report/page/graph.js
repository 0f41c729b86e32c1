// ---- the graph

/// A place for every node. Every step of every job has its own rows: columns by depth, the forward pass to the right, below it
/// the backward pass back to the left, then the updates; within a column, nodes stand near those they are connected with.
function layout() {
  const before = new Map(DATA.nodes.map(node => [node.id, []])), after = new Map(DATA.nodes.map(node => [node.id, []]));
  for (const [from, to] of DATA.edges) {
    before.get(to).push(from);
    after.get(from).push(to);
  }
  // Nodes come in a topological order. What reads an updated parameter belongs to the next step.
  const step = new Map();
  for (const {id, phase} of DATA.nodes) {
    step.set(id, Math.max(0, ...before.get(id).map(
        other => step.get(other) + (phase !== 'update' && nodes.get(other).phase === 'update' ? 1 : 0))));
  }
  for (const {id} of [...DATA.nodes].reverse()) {
    if (!before.get(id).length && after.get(id).length) step.set(id, Math.min(...after.get(id).map(other => step.get(other))));
  }
  const unit = new Map(DATA.nodes.map(({id, job}) => [id, `${job} ${step.get(id)}`]));

  const depth = new Map(), turn = new Map();
  for (const {id, phase} of DATA.nodes) {
    const near = before.get(id).filter(other => unit.get(other) === unit.get(id));
    depth.set(id, Math.max(-1, ...near.map(other => depth.get(other))) + 1);
    if (phase === 'forward') turn.set(unit.get(id), Math.max(turn.get(unit.get(id)) ?? 0, depth.get(id)));
  }
  const column = new Map();
  for (const {id, phase} of DATA.nodes) {
    const gradients = before.get(id).filter(other => nodes.get(other).phase === 'backward');
    column.set(id, phase === 'forward' ? depth.get(id)
                 : phase === 'update' && gradients.length ? Math.min(...gradients.map(other => column.get(other)))
                                                          : 2 * (turn.get(unit.get(id)) ?? 0) + 1 - depth.get(id));
  }
  for (const {id, phase} of DATA.nodes) {  // what begins the backward pass, as the gradient of the loss does
    if (phase === 'forward' || before.get(id).length || !after.get(id).length) continue;
    column.set(id, Math.max(...after.get(id).map(other => column.get(other))) + 1);
  }

  const place = new Map();
  let top = 0;
  const units = [...new Set(unit.values())].sort((a, b) => a.localeCompare(b, undefined, {numeric: true}));
  for (const [own, phase] of units.flatMap(each => ['forward', 'backward', 'update'].map(phase => [each, phase]))) {
    const columns = new Map();
    for (const node of DATA.nodes.filter(each => each.phase === phase && unit.get(each.id) === own)) {
      const c = column.get(node.id);
      columns.set(c, [...(columns.get(c) ?? []), node.id]);
    }
    if (columns.size === 0) continue;
    const tallest = Math.max(...[...columns.values()].map(list => list.length));
    const arrange = () => {
      for (const [c, list] of columns) {
        list.forEach((id, i) => place.set(id, {column: c, row: top + (tallest - list.length) / 2 + i}));
      }
    };
    arrange();
    const order = [...columns.keys()].sort((a, b) => a - b);
    for (let sweep = 0; sweep < 6; ++sweep) {
      for (const c of sweep % 2 ? [...order].reverse() : order) {
        const wish = id => {
          const near = [...before.get(id), ...after.get(id)]
              .filter(other => nodes.get(other).phase === phase && unit.get(other) === own);
          const sum = near.reduce((total, other) => total + place.get(other).row, 0);
          return near.length ? sum / near.length : place.get(id).row;
        };
        const wishes = new Map(columns.get(c).map(id => [id, wish(id)]));
        columns.get(c).sort((a, b) => wishes.get(a) - wishes.get(b));
        arrange();
      }
    }
    top += tallest + 0.8;
  }
  return place;
}

(function graph() {
  const chart = $('graph-chart');
  const kBox = [164, 38], kStep = [196, 54], kMargin = 14, kTallest = 620, kLargest = 1.5;
  const place = layout();
  const x = id => place.get(id).column * kStep[0];
  const y = id => place.get(id).row * kStep[1];

  const curve = (a, b) => {
    const right = place.get(b).column > place.get(a).column, left = place.get(b).column < place.get(a).column;
    if (!right && !left) {
      const down = y(b) > y(a), x1 = x(a) + kBox[0] / 2, x2 = x(b) + kBox[0] / 2;
      const y1 = y(a) + (down ? kBox[1] : 0), y2 = y(b) + (down ? 0 : kBox[1]);
      const far = Math.abs(y2 - y1) > kStep[1] ? kBox[0] / 2 + 14 : 0;  // around what stands between
      return far ? `M${x(a) + kBox[0]},${y(a) + 19} C${x1 + far + 20},${y(a) + 19} ${x1 + far + 20},${y(b) + 19} ${x(b) + kBox[0]},${y(b) + 19}`
                 : `M${x1},${y1} L${x2},${y2}`;
    }
    const x1 = x(a) + (right ? kBox[0] : 0), x2 = x(b) + (right ? 0 : kBox[0]);
    const bend = (right ? 1 : -1) * Math.min(Math.abs(x2 - x1) / 2 + 10, 120);
    return `M${x1},${y(a) + 19} C${x1 + bend},${y(a) + 19} ${x2 - bend},${y(b) + 19} ${x2},${y(b) + 19}`;
  };
  // Boxes and lines are drawn once, and then scaled and moved as a whole; their names are not scaled.
  const drawing = draw(chart, 'g', {id: 'graph-drawing'});
  const pairs = new Set(DATA.critical.slice(1).map((id, i) => `${DATA.critical[i]} ${id}`));
  for (const [from, to] of DATA.edges) {
    const marked = pairs.has(`${from} ${to}`) ? ' critical' : '';
    draw(drawing, 'path', {class: `edge${marked}`, d: curve(from, to), 'data-from': from, 'data-to': to});
  }
  const names = draw(chart, 'g', {id: 'graph-names'});
  const labels = [];
  for (const node of DATA.nodes) {
    const marked = critical.has(node.id) ? ' critical' : '';
    draw(drawing, 'rect', {class: `box ${node.phase}${marked}${job_class(node.job)}`, ...job_style(node.job), x: x(node.id),
                           y: y(node.id), width: kBox[0], height: kBox[1], 'data-node': node.id});
    labels.push([node, draw(names, 'text', {class: 'on-bar'}), draw(names, 'text', {class: 'on-bar second'})]);
  }
  const full = drawing.getBBox();
  const height = Math.min(kTallest, Math.max(120, full.height + 2 * kMargin));
  chart.setAttribute('height', height);

  // A point of the drawing is at (x * scale[0] + shift[0], y * scale[1] + shift[1]) of the chart. Across and down have a scale
  // each, because graphs are long: the whole one fits into the chart, and boxes are still tall enough to be seen.
  const sizes = () => [width_of(chart), height];
  const extent = [full.width, full.height], origin = [full.x, full.y];
  const fitting = axis => Math.min(1, (sizes()[axis] - 2 * kMargin) / Math.max(extent[axis], 1));
  let scale = [1, 1], shift = [0, 0], whole = true;
  const pen = document.createElement('canvas').getContext('2d');
  const shortened = (text, room, style) => {
    pen.font = `${style.fontSize} ${style.fontFamily}`;
    const wide = pen.measureText(text).width, letters = Math.floor(text.length * room / wide) - 1;
    return wide <= room ? text : letters < 3 ? '' : `${text.slice(0, letters)}…`;
  };
  const place_drawing = () => {
    for (const axis of [0, 1]) {
      if (whole) scale[axis] = fitting(axis);
      // What is smaller than the chart stands in its middle; what is larger leaves no room at its ends.
      const room = sizes()[axis] - 2 * kMargin - extent[axis] * scale[axis], start = kMargin - origin[axis] * scale[axis];
      shift[axis] = room >= 0 ? start + room / 2 : Math.min(start, Math.max(start + room, shift[axis]));
    }
    set(drawing, {transform: `matrix(${scale[0]} 0 0 ${scale[1]} ${shift[0]} ${shift[1]})`});
    const [wide, tall] = [kBox[0] * scale[0], kBox[1] * scale[1]];
    const readable = wide >= 58 && tall >= 15;
    chart.classList.toggle('far', !readable);
    names.style.display = readable ? '' : 'none';
    if (!readable || labels.length === 0) return;
    const styles = labels[0].slice(1).map(text => getComputedStyle(text));
    for (const [node, first, second] of labels) {
      const left = x(node.id) * scale[0] + shift[0] + 6, top = y(node.id) * scale[1] + shift[1];
      const seen = left > -wide && left < sizes()[0] && top > -tall && top < height;
      const lines = node.layer && tall >= 30 ? 2 : 1;
      set(first, {x: left, y: top + tall / 2 + (lines === 2 ? -3 : 4)});
      set(second, {x: left, y: top + tall / 2 + 12});
      first.textContent = seen ? shortened(node.op, wide - 10, styles[0]) : '';
      second.textContent = seen && lines === 2 ? shortened(node.layer, wide - 10, styles[1]) : '';
    }
  };
  const zoom = (by, px, py) => {
    whole = false;
    [px, py].forEach((at, axis) => {
      const now = Math.min(Math.max(scale[axis] * by, fitting(axis)), kLargest);
      shift[axis] = at - (at - shift[axis]) * now / scale[axis];
      scale[axis] = now;
    });
    redraw();
  };
  const move = (dx, dy) => {
    whole = false;
    shift = [shift[0] + dx, shift[1] + dy];
    redraw();
  };
  const show_all = () => {
    whole = true;
    redraw();
  };
  redraws.push(place_drawing);
  interact(chart, zoom, move, show_all);
  for (const button of document.querySelectorAll('[data-graph-zoom]')) {
    const by = +button.dataset.graphZoom;
    button.onclick = () => by ? zoom(by, sizes()[0] / 2, sizes()[1] / 2) : show_all();
  }
})();
