// ---- which rank has which part of the layers

(function division() {
  if (!DATA.division) return;
  const {ranks, has_stages, groups} = DATA.division;
  const kMost = 8;  // parts drawn along a dimension
  $('division').hidden = false;
  $('division-words').textContent = has_stages
      ? 'Each rank runs some of the layers, its stage, on one micro-batch after another. A band is as long as its stage computes per ' +
        'step; below is the plan of stage 0. Point at stage 0 for its nodes.'
      : `The outputs of a layer have samples (n), a height (h), a width (w) and channels (c). Each of the ${ranks} ranks computes a part; ` +
        'that of rank 0, whose plan is below, is blue. Point at a row for its nodes.';

  const span = ({layers}) => layers.length > 1 ? `${layers[0]} … ${layers.at(-1)}` : layers[0] ?? '';
  const count_of = (parts, dimension) => parts.filter(([name]) => name === dimension).reduce((product, [, count]) => product * count, 1);
  const words = parts => {
    const divided = parts.filter(([name, count]) => name !== '_' && count > 1);
    const copies = ranks / divided.reduce((product, [, count]) => product * count, 1);
    if (!divided.length) return `all of it on each of ${ranks} ranks`;
    return divided.map(([name, count]) => `${name} ${count}`).join(' × ') + (copies > 1 ? `, each part on ${copies} ranks` : '');
  };

  /// Samples next to each other, each with its channels one behind the other, cut along height and width.
  function picture(parts) {
    const [n, h, w, c] = ['n', 'h', 'w', 'c'].map(name => Math.min(kMost, count_of(parts, name)));
    const kSide = 28, kBehind = 4, step = kSide + kBehind * (c - 1) + 6;
    const svg = document.createElementNS(SVG, 'svg');
    set(svg, {width: n * step, height: kSide + kBehind * (c - 1) + 2});
    for (let i = 0; i < n; ++i) {
      for (let k = c - 1; k >= 0; --k) {
        for (let y = 0; y < h; ++y) {
          for (let x = 0; x < w; ++x) {
            draw(svg, 'rect', {class: i + k + y + x ? 'part' : 'part own', x: i * step + kBehind * k + 1 + x * kSide / w,
                               y: kBehind * (c - 1 - k) + 1 + y * kSide / h, width: kSide / w, height: kSide / h});
          }
        }
      }
    }
    return svg.outerHTML;
  }

  const columns = has_stages
      ? [['stage', (group, i) => `<i class="band" style="--hue: ${hue(i)}"></i>${i}`], ['layers', group => escaped(span(group))],
         ['number', group => group.layers.length, true], ['computing', group => time(group.computing_us), true]]
      : [['layers', group => escaped(span(group))], ['number', group => group.layers.length, true],
         ['parts', group => escaped(words(group.parts))], ['', group => picture(group.parts)]];
  const cell = ([, text, number], group, i) => `<td${number ? ' class="number"' : ''}>${text(group, i)}</td>`;
  $('division-table').innerHTML =
      `<thead><tr>${columns.map(([name, , number]) => `<th${number ? ' class="number"' : ''}>${name}</th>`).join('')}</tr></thead><tbody>${
          groups.map((group, i) => `<tr data-group="${i}">${columns.map(column => cell(column, group, i)).join('')}</tr>`).join('')}</tbody>`;

  const bands = $('division-bands');
  if (has_stages) {
    bands.toggleAttribute('hidden', false);
    bands.setAttribute('height', 40);
    const total = groups.reduce((sum, group) => sum + group.computing_us, 0);
    redraws.push(() => {
      bands.replaceChildren();
      let x = 8;
      for (const [i, group] of groups.entries()) {
        const width = group.computing_us / total * (width_of(bands) - 16);
        draw(bands, 'rect', {class: 'band', style: `--hue: ${hue(i)}`, 'data-group': i, x, y: 8, width, height: 24, rx: 3});
        if (fits(`stage ${i}`, width)) draw(bands, 'text', {class: 'on-bar', x: x + 6, y: 24}, `stage ${i}`);
        x += width;
      }
    });
  }

  // Nodes of a group light up in the other charts.
  let lit = [];
  $('division').addEventListener('mouseover', event => {
    for (const element of lit) element.classList.remove('lit');
    const group = groups[event.target.closest('[data-group]')?.dataset.group];
    const ids = group ? DATA.nodes.filter(node => group.layers.includes(node.layer)).map(node => node.id) : [];
    lit = ids.flatMap(id => [...document.querySelectorAll(`.bar[data-node="${id}"], .box[data-node="${id}"]`)]);
    for (const element of lit) element.classList.add('lit');
  });
  $('division').addEventListener('mouseleave', () => {
    for (const element of lit) element.classList.remove('lit');
  });
})();
