// ---- the losses of a training

(function losses() {
  const runs_of = DATA.losses ?? [];
  if (runs_of.length === 0) return;
  $('losses').hidden = false;
  draw_curves($('loss-chart'), runs_of.flatMap(({steps, val}, job) => [
    {name: DATA.jobs[job] ?? 'training loss', points: steps.map((loss, i) => [i + 1, loss]), job},
    {name: together ? `${DATA.jobs[job]}, validation` : 'validation loss', points: val, job, val: true},
  ]));
})();
