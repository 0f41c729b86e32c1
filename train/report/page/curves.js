// ---- curves over training steps

/// Draws curves {name, points: [[step, value], …], job, val} on one chart, in place of those before. Those of validations
/// are dashed, with a circle for every point.
function draw_curves(chart, curves, name_of_value = value => +value.toPrecision(4)) {
  const kTop = 14, kHeight = 240, kBottom = kTop + kHeight;
  chart.setAttribute('height', kBottom + 34);
  chart.replaceChildren();
  const all = curves.flatMap(({points}) => points);
  const most = all.reduce((a, [, b]) => Math.max(a, b), 0), least = all.reduce((a, [, b]) => Math.min(a, b), 0);
  const last = all.reduce((a, [b]) => Math.max(a, b), 2);  // steps count from 1
  const x = step => kLeft + (step - 1) / (last - 1) * pixels(chart);
  const y = value => kBottom - (value - least) / Math.max(most - least, 1e-9) * kHeight;

  const axis = draw(chart, 'g', {class: 'axis'});
  const drawn = curves.map(({points, job, val}) => {
    const own = {class: val ? 'loss val' : 'loss', style: `--hue: ${hue(job)}`, 'data-job': job};
    const dotted = val || points.length === 1;
    return {points, line: draw(chart, 'polyline', own), dots: dotted ? points.map(
        ([step, value]) => draw(chart, 'circle', {...own, r: 4, 'data-step': step, 'data-value': value})) : []};
  });
  redraws.push(() => {
    axis.replaceChildren();
    for (const tick of ticks(least, most, 5)) {
      draw(axis, 'line', {class: 'grid', x1: kLeft, x2: kLeft + pixels(chart), y1: y(tick), y2: y(tick)});
      draw(axis, 'text', {x: kLeft - 9, y: y(tick) + 4, 'text-anchor': 'end'}, name_of_value(tick));
    }
    for (const tick of ticks(1, last, pixels(chart) / 110).filter(Number.isInteger)) {
      draw(axis, 'text', {x: x(tick), y: kBottom + 20, 'text-anchor': x(tick) > width_of(chart) - 40 ? 'end' : 'middle'},
           tick === 0 ? '' : `step ${tick}`);
    }
    for (const {points, line, dots} of drawn) {
      set(line, {points: points.map(([step, value]) => `${x(step).toFixed(1)},${y(value).toFixed(1)}`).join(' ')});
      dots.forEach((dot, i) => set(dot, {cx: x(points[i][0]), cy: y(points[i][1])}));
    }
  });
  chart.onmousemove = event => {
    const step = Math.min(last, Math.max(1, Math.round(1 + (event.offsetX - kLeft) / pixels(chart) * (last - 1))));
    const near = curves.map(({name, points}) => {  // what is less than ten pixels away
      const [at, value] = points.reduce((a, b) => Math.abs(b[0] - step) < Math.abs(a[0] - step) ? b : a, [Infinity, 0]);
      return [name, Math.abs(x(at) - x(step)) < 10 ? name_of_value(value) : undefined];
    });
    const tooltip = $('tooltip');
    tooltip.hidden = false;
    tooltip.innerHTML = `<b>step ${step}</b>${rows(near)}`;
    place_tooltip(event);
  };
  chart.onmouseleave = () => { $('tooltip').hidden = true; };
}
