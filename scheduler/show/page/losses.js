// ---- the losses of a training

(function losses() {
  const runs_of = DATA.losses ?? [];
  if (runs_of.length === 0) return;
  $('losses').hidden = false;
  const chart = $('loss-chart');
  const kTop = 14, kHeight = 240, kBottom = kTop + kHeight;
  chart.setAttribute('height', kBottom + 34);
  const all = runs_of.flatMap(({steps, tests}) => [...steps, ...tests.map(([, loss]) => loss)]);
  const most = all.reduce((a, b) => Math.max(a, b), 0), least = all.reduce((a, b) => Math.min(a, b), 0);
  const last = Math.max(2, ...runs_of.map(({steps}) => steps.length));  // steps count from 1
  const x = step => kLeft + (step - 1) / (last - 1) * pixels(chart);
  const y = loss => kBottom - (loss - least) / Math.max(most - least, 1e-9) * kHeight;

  const axis = draw(chart, 'g', {class: 'axis'});
  const curves = runs_of.map((run, job) => {
    const own = together ? {style: `--hue: ${hue(job)}`, 'data-job': job} : {'data-job': job};
    const line = draw(chart, 'polyline', {class: 'loss', ...own}), tests = draw(chart, 'polyline', {class: 'loss test', ...own});
    const dots = run.tests.map(
        ([step, loss]) => draw(chart, 'circle', {class: 'loss test', ...own, r: 4, 'data-step': step, 'data-loss': loss}));
    return {run, line, tests, dots};
  });
  redraws.push(() => {
    axis.replaceChildren();
    for (const tick of ticks(least, most, 5)) {
      draw(axis, 'line', {class: 'grid', x1: kLeft, x2: kLeft + pixels(chart), y1: y(tick), y2: y(tick)});
      draw(axis, 'text', {x: kLeft - 9, y: y(tick) + 4, 'text-anchor': 'end'}, +tick.toPrecision(6));
    }
    for (const tick of ticks(1, last, pixels(chart) / 110).filter(Number.isInteger)) {
      draw(axis, 'text', {x: x(tick), y: kBottom + 20, 'text-anchor': x(tick) > width_of(chart) - 40 ? 'end' : 'middle'},
           tick === 0 ? '' : `step ${tick}`);
    }
    for (const {run, line, tests, dots} of curves) {
      set(line, {points: run.steps.map((loss, i) => `${x(i + 1).toFixed(1)},${y(loss).toFixed(1)}`).join(' ')});
      set(tests, {points: run.tests.map(([step, loss]) => `${x(step).toFixed(1)},${y(loss).toFixed(1)}`).join(' ')});
      dots.forEach((dot, i) => set(dot, {cx: x(run.tests[i][0]), cy: y(run.tests[i][1])}));
    }
  });
  chart.addEventListener('mousemove', event => {
    const step = Math.min(last, Math.max(1, Math.round(1 + (event.offsetX - kLeft) / pixels(chart) * (last - 1))));
    const lines = runs_of.flatMap(({steps, tests}, job) => {
      const test = tests.find(([at]) => at === step);
      return [[DATA.jobs[job] ?? 'training loss', steps[step - 1]?.toPrecision(4)],
              [together ? `${DATA.jobs[job]}, test` : 'test loss', test?.[1].toPrecision(4)]];
    });
    const tooltip = $('tooltip');
    tooltip.hidden = false;
    tooltip.innerHTML = `<b>step ${step}</b>${rows(lines)}`;
    place_tooltip(event);
  });
  chart.addEventListener('mouseleave', () => { $('tooltip').hidden = true; });
})();
