// ---- curves over training steps

/// What a chart shows unless it is told otherwise: steps, which count from 1, and an axis of values that begins at 0.
const kOverSteps = {unit: 'step', first: 1, from_zero: true, name_of_value: value => +value.toPrecision(4)};

/// Draws curves {name, points: [[step or epoch, value], …], job, val} on one chart, in place of those before. Those of
/// validations are dashed, with a circle for every point.
function draw_curves(chart, curves, options = {}) {
  const {unit, first, from_zero, name_of_value} = {...kOverSteps, ...options};
  const kTop = 14, kHeight = 240, kBottom = kTop + kHeight;
  chart.setAttribute('height', kBottom + 34);
  chart.replaceChildren();
  const all = curves.flatMap(({points}) => points);
  const most = all.reduce((a, [, b]) => Math.max(a, b), from_zero ? 0 : -Infinity);
  const least = all.reduce((a, [, b]) => Math.min(a, b), from_zero ? 0 : Infinity);
  const last = all.reduce((a, [b]) => Math.max(a, b), first + 1);
  const x = at => kLeft + (at - first) / (last - first) * pixels(chart);
  const y = value => kBottom - (value - least) / Math.max(most - least, 1e-9) * kHeight;

  const axis = draw(chart, 'g', {class: 'axis'});
  const drawn = curves.map(({points, job, val}) => {
    const own = {class: val ? 'loss val' : 'loss', style: `--hue: ${hue(job)}`, 'data-job': job};
    const dotted = val || points.length === 1;
    return {points, line: draw(chart, 'polyline', own), dots: dotted ? points.map(
        ([at, value]) => draw(chart, 'circle', {...own, r: 4, [`data-${unit}`]: at, 'data-value': value})) : []};
  });
  redraws.push(() => {
    axis.replaceChildren();
    for (const tick of ticks(least, most, 5)) {
      draw(axis, 'line', {class: 'grid', x1: kLeft, x2: kLeft + pixels(chart), y1: y(tick), y2: y(tick)});
      draw(axis, 'text', {x: kLeft - 9, y: y(tick) + 4, 'text-anchor': 'end'}, name_of_value(tick));
    }
    for (const tick of ticks(first, last, pixels(chart) / 110).filter(Number.isInteger)) {
      draw(axis, 'text', {x: x(tick), y: kBottom + 20, 'text-anchor': x(tick) > width_of(chart) - 40 ? 'end' : 'middle'},
           tick === 0 ? '' : `${unit} ${tick}`);
    }
    for (const {points, line, dots} of drawn) {
      set(line, {points: points.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(' ')});
      dots.forEach((dot, i) => set(dot, {cx: x(points[i][0]), cy: y(points[i][1])}));
    }
  });
  chart.onmousemove = event => {
    const here = first + (event.offsetX - kLeft) / pixels(chart) * (last - first);
    const near = curves.map(({name, points}) => {  // what is less than ten pixels away
      const [at, value] = points.reduce((a, b) => Math.abs(b[0] - here) < Math.abs(a[0] - here) ? b : a, [Infinity, 0]);
      return [name, Math.abs(x(at) - x(here)) < 10 ? name_of_value(value) : undefined];
    });
    const tooltip = $('tooltip');
    tooltip.hidden = false;
    tooltip.innerHTML = `<b>${unit} ${unit === 'step' ? Math.round(here) : here.toFixed(2)}</b>${rows(near)}`;
    place_tooltip(event);
  };
  chart.onmouseleave = () => { $('tooltip').hidden = true; };
}
