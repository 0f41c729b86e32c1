// ---- the page

for (const part of document.querySelectorAll('.together')) part.hidden = !together;
for (const each of redraws) each();
addEventListener('resize', redraw);
// As plan.html?show=gantt,graph: these parts alone, for pictures. As <html data-show="gantt">: within another page.
const pictured = new URLSearchParams(location.search).get('show');
const wanted = (pictured ?? document.documentElement.dataset.show)?.split(',');
for (const part of wanted ? document.querySelectorAll('header, section') : []) part.hidden = !wanted.includes(part.id);
if (pictured) {
  document.body.classList.add('picture');
  for (const part of document.querySelectorAll('.hint, .buttons, section > p')) part.hidden = true;
}
document.body.dataset.ready = 'yes';
