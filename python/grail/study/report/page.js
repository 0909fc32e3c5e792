
/* The page: elements around the drawings of draw.js, and what the reader chooses. Texts of the data become text nodes
 * and values of attributes, never markup. */

const MOST_ROWS = 2000; /* of a table; a browser is slow with more, and a filter finds the others */

/* An HTML element; attributes that are functions are handlers of events. */
function html(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (typeof value === 'function') {
      made.addEventListener(key, value);
    } else {
      made.setAttribute(key, value);
    }
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== false && child !== undefined)
    .map((child) => (child instanceof Node ? child : clean(child))));
  return made;
}

/* A drawing as elements of the document; what hovering shows is kept with the element. */
function svg(node) {
  if (typeof node === 'string') {
    return document.createTextNode(node);
  }
  const made = document.createElementNS('http://www.w3.org/2000/svg', node.name);
  for (const [key, value] of Object.entries(node.attributes)) {
    made.setAttribute(key, value);
  }
  made.append(...node.children.map(svg));
  made.tip = node.tip;
  return made;
}

/* -- tables -------------------------------------------------------------------------------------------------- */

/* columns: [heading, is text]; rows: arrays of cells, each a text, an element or null. A cell of the class "long"
 * may break its lines. The box scrolls sideways by itself, also by keyboard. */
function table(name, columns, rows) {
  const kind = (i) => (columns[i][1] ? {class: 'text long'} : {});
  const body = rows.map((cells) => html('tr', cells.first ? {class: 'first'} : {}, cells.map((cell, i) => (
    cell instanceof Node && /^T[HD]$/.test(cell.nodeName) ? cell
      : html(i === 0 ? 'th' : 'td', i === 0 ? {scope: 'row', ...kind(i)} : kind(i), cell)))));
  return html('div', {class: 'scroll', role: 'region', tabindex: '0', 'aria-label': name}, html('table', {},
    html('thead', {}, html('tr', {}, columns.map(([heading, isLeft]) => html('th',
      isLeft ? {scope: 'col', class: 'text'} : {scope: 'col'}, heading)))),
    html('tbody', {}, body)));
}

function qualityCell(row) {
  if (row === undefined || !isKnown(row.value)) {
    return html('td', {}, row === undefined ? '' : '\u2013');
  }
  const value = quality(row, row.value);
  return html('td', {'data-row': row.index}, row.winner ? html('b', {}, value) : value, isKnown(row.low) && isKnown(row.high) &&
    html('small', {}, `${quality(row, row.low)}\u2013${quality(row, row.high)}`));
}

/* A count and the share of the dense network's that was removed. */
function sizeCell(size, removed) {
  return html('td', {}, scaled(size, ''), isKnown(removed) && html('small', {}, `\u2212${percent(removed)}\u00a0%`));
}

function accuracyTable(model, network) {
  const shown = model.groupsOf(network.name).filter((row) => row.shown);
  const repairs = occurring(model.data.variants, model.groupsOf(network.name), 'repair');
  const rows = occurring(model.data.selectors, shown, 'selector').flatMap((selector) => {
    const own = shown.filter((row) => row.selector === selector);
    const ratios = [...new Set(own.map((row) => row.ratio))].sort((a, b) => a - b)
      .filter((ratio, i, all) => i === 0 || ratio - all[i - 1] > 5e-7);
    return ratios.map((ratio, i) => {
      const at = own.filter((row) => Math.abs(row.ratio - ratio) <= 5e-7);
      const cells = [i === 0 && html('th', {scope: 'rowgroup', rowspan: ratios.length, class: 'text long'}, selector),
        html('td', {}, ratioText(ratio)), repairs.map((repair) => qualityCell(at.find((row) => row.repair === repair))),
        sizeCell(at[0].parameters, at[0].removed), sizeCell(at[0].macs, at[0].removed_macs)].flat().filter(Boolean);
      cells.first = i === 0;
      return cells;
    });
  });
  return [html('h3', {}, `${isText(network) ? 'Perplexity' : 'Top-1 accuracy in %'}, ${start(network.name, 60)}, ` +
    settingText(network)),
  html('p', {class: 'note'}, 'Below each value is its 95 % interval. A value is bold where its interval lies beyond ' +
    'those of all other repairs.'),
  table('Quality by selector and ratio', [['selector', true], ['units removed, %'], ...repairs.map((repair) => [repair]),
    ['parameters'], ['MACs']], rows)];
}

function costTable(model, network) {
  const rows = model.tables.cost.filter((row) => row.network === network.name);
  const stages = [...STAGES, 'total'].filter((stage) => stage !== 'heal' || rows.some((row) => isKnown(row.heal)));
  return [html('h3', {}, `Time per cell and peak memory, ${start(network.name, 60)}`),
    table('Time and memory', [['repair', true], ...stages.map((stage) => [stage]), ['peak memory']],
      rows.map((row) => [row.repair, ...stages.map((stage) => seconds(row[stage])), scaled(row.peak_bytes, 'B')]))];
}

function healingTable(model, network) {
  const rows = rowsOf(model.data, 'healing').filter((row) => row.network === network.name);
  return rows.length > 0 && [
    html('h3', {}, `Healing: steps and held-out loss of a training, and time per cell, ${start(network.name, 60)}`),
    table('Healing', [['repair', true], ['trained', true], ['steps'], ['loss before'], ['loss after'], ['time']],
      rows.map((row) => [row.repair, row.trained, number(row.steps, 0), number(row.loss_before, 4),
        number(row.loss_after, 4), seconds(row.seconds)]))];
}

/* The columns of measures that occur, as [heading, text of a row]. */
function measures(rows) {
  return [
    ['top1', 'top-1, %', (row) => percent(row.top1)], ['interval', '\u00b1', (row) => percent(row.interval)],
    ['top5', 'top-5, %', (row) => percent(row.top5)],
    ['perplexity', 'perplexity', (row) => quality({measure: 'perplexity'}, row.perplexity)],
    ['perplexity_error', '\u00b1', (row) => quality({measure: 'perplexity'}, row.perplexity_error)],
    ['images', 'images', (row) => number(row.images, 0)], ['parameters', 'parameters', (row) => scaled(row.parameters, '')],
    ['macs', 'MACs', (row) => scaled(row.macs, '')], ['total', 'time', (row) => seconds(row.total)],
    ['peak_bytes', 'peak memory', (row) => scaled(row.peak_bytes, 'B')],
  ].filter(([column]) => rows.some((row) => isKnown(row[column])));
}

function denseTable(model) {
  const rows = rowsOf(model.data, 'dense');
  const shown = measures(rows);
  return [html('h3', {}, 'Dense checkpoints'),
    table('Dense checkpoints', [['checkpoint', true], ['architecture', true], ...shown.map(([, heading]) => [heading])],
      rows.map((row) => [row.network, row.architecture === null ? 'not measured' : row.architecture,
        ...shown.map(([, , write]) => write(row))]))];
}

const SETTING_COLUMNS = [['checkpoint', true], ['selector', true], ['removed, %'], ['repair', true], ['samples'],
  ['loop', true], ['setting', true], ['seed']];

function settingCells(row) {
  return [row.network, row.selector, ratioText(row.ratio), row.repair, String(row.samples), row.loop, row.setting,
    String(row.seed)];
}

function failuresTable(model) {
  const rows = rowsOf(model.data, 'failures');
  return rows.length > 0 && html('div', {id: 'failures'}, html('h3', {}, 'Cells that failed'), table('Cells that failed',
    [...SETTING_COLUMNS, ['error', true]], rows.slice(0, MOST_ROWS).map((row) => [...settingCells(row), row.error])));
}

/* All cells, made when they are opened; a filter leaves those that have all of its words. */
function cellsTable(model) {
  const total = model.data.tables.cells.rows.length;
  const place = html('div');
  const found = html('span');
  let cells = null;
  const search = html('input', {type: 'search', 'aria-label': 'Filter of cells', placeholder: 'wanda 50 full',
    input: () => fill()});
  const fill = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = cells.rows.filter(({words: own}) => words.every((word) => own.some((text) => text.includes(word))));
    found.textContent = rows.length > MOST_ROWS ? `${count(rows.length, 'cell')}, the first ${MOST_ROWS} are shown`
      : count(rows.length, 'cell');
    place.replaceChildren(table('All measured cells', [...SETTING_COLUMNS, ...cells.shown.map(([, heading]) => [heading])],
      rows.slice(0, MOST_ROWS).map(({row}) => [...settingCells(row), ...cells.shown.map(([, , write]) => write(row))])));
  };
  const open = () => {
    if (cells === null) {
      const rows = rowsOf(model.data, 'cells');
      cells = {shown: measures(rows),
        rows: rows.map((row) => ({row, words: settingCells(row).map((text) => text.toLowerCase())}))};
      fill();
    }
  };
  return total > 0 && html('details', {toggle: open}, html('summary', {}, `All ${count(total, 'measured cell')}`),
    html('h3', {}, 'All measured cells'), html('label', {class: 'filter'}, 'with the words', search, found), place);
}

/* -- the decision -------------------------------------------------------------------------------------------- */

function limitText(network, limit) {
  return isText(network) ? `${limit}\u00a0%` : count(limit, 'point');
}

function shareText(row) {
  return isKnown(row.removed) ? `${percent(row.removed)}\u00a0% of the parameters` : `${percent(row.ratio)}\u00a0% of the units`;
}

/* Options and their short values stay on one line: a browser breaks lines behind hyphens. */
function commandWords(command) {
  return command.split(/ (?=-)/).flatMap((part, i) => {
    const end = part.length <= 30 || !part.includes(' ') ? part.length : part.indexOf(' ');
    return i === 0 ? part : [' ', html('span', {}, part.slice(0, end)), part.slice(end)];
  });
}

function commandBox(command) {
  const box = html('pre', {class: 'command'}, html('code', {}, commandWords(command)));
  const copy = async (event) => {
    const button = event.currentTarget;
    try {
      await navigator.clipboard.writeText(command);
      button.textContent = 'Copied';
    } catch {
      getSelection().selectAllChildren(box);
      button.textContent = document.execCommand('copy') ? 'Copied' : 'Selected';
    }
    setTimeout(() => { button.textContent = 'Copy'; }, 2000);
  };
  return [box, html('button', {class: 'copy', type: 'button', click: copy}, 'Copy')];
}

function limitName(network, decision) {
  return `at most ${limitText(network, decision.limit)} ${isText(network) ? 'more perplexity' : 'lost'}`;
}

/* `first`: the decision whose card offers the same cut already, or null. */
function cutText(model, network, decision, first) {
  const row = model.tables.groups[decision.row];
  return [
    html('p', {class: 'cut'}, `${shareText(row)} removed`),
    html('p', {}, `${ratioText(row.ratio)}\u00a0% of the units asked for` +
      (isKnown(row.removed_macs) ? `, ${percent(row.removed_macs)}\u00a0% of the MACs removed` : '')),
    html('p', {}, `${row.measure} ${qualityText(row, row)}: ${lossText(row)}`),
    row.lost_high > decision.limit && html('p', {class: 'doubt'}, 'Within its interval it may ' +
      `${isText(network) ? 'exceed' : 'lose more than'} ${limitText(network, decision.limit)}.`),
    html('p', {}, `selector ${start(row.selector, 60)}, repair ${row.repair}, ${settingText(row)}` +
      (decision.alike > 0 ? `; ${count(decision.alike, 'other setting')} of this size cannot be told from it` : '')),
    first !== null ? html('p', {}, `The same cut as under "${limitName(network, first)}", which has its command.`)
      : commandBox(decision.command),
  ];
}

function card(model, network, decision, first) {
  const nearest = decision.nearest === null ? null : model.tables.groups[decision.nearest];
  return html('div', {class: 'card', 'data-row': decision.row === null ? '' : decision.row},
    html('h4', {}, limitName(network, decision)),
    decision.row !== null ? cutText(model, network, decision, first)
      : [html('p', {class: 'cut'}, 'none of the measured cuts'), nearest !== null && html('p', {},
        `The one that comes nearest removes ${shareText(nearest)} and ${lossText(nearest)}.`)]);
}

function denseText(model, network) {
  const checkpoint = rowsOf(model.data, 'dense').find((row) => row.network === network.name);
  const facts = [`Dense: ${network.measure} ${qualityText(network, network.dense)}`];
  if (!network.is_architecture && checkpoint && isKnown(checkpoint.parameters)) {
    facts.push(`${scaled(checkpoint.parameters, '')} parameters`, `${scaled(checkpoint.macs, '')} MACs`);
  }
  if (isKnown(network.dense.latency)) {
    facts.push(`${seconds(network.dense.latency)} per ${isText(network) ? 'window' : 'image'}`);
  }
  return `${facts.join(', ')}.`;
}

function decisionOf(model, network) {
  const cards = (network.decisions || []).map((decision, i, all) => {
    const first = all.find((other) => other.row === decision.row);
    return card(model, network, decision, first === decision ? null : first);
  });
  return [html('h3', {}, start(network.name, 60)), cards.length === 0
    ? html('p', {}, 'The dense network was not measured, so losses are not known.')
    : [html('p', {}, denseText(model, network)), html('div', {class: 'cards'}, cards)]];
}

/* -- sentences ----------------------------------------------------------------------------------------------- */

function remarks(facts) {
  return [
    facts.failed > 0 && [`${count(facts.failed, 'cell')} failed; they are listed `, html('a', {href: '#failures'}, 'below'), '.'],
    facts.superseded > 0 && `${count(facts.superseded, 'line')} of the file ignored, because a later line has the same setting.`,
    facts.cut_line > 0 && `The file ends within line ${facts.cut_line}. The report leaves this line out. The sweep was ` +
      'interrupted or is still running.',
    facts.cells === 0 && 'No cell has been measured yet.',
  ].filter(Boolean).map((remark) => html('p', {class: 'remark'}, remark));
}

function factsList(facts) {
  const images = facts.fewest_images === null ? null : [...new Set([facts.fewest_images, facts.most_images])]
    .map((n) => number(n, 0)).join(' to ');
  return html('dl', {}, [['checkpoints', facts.checkpoints], ['cells measured', facts.cells], ['test images', images],
    ['started', facts.started], ['processor', facts.processor], ['threads', facts.threads || null], ['grail', facts.version]]
    .filter(([, value]) => value !== null && value !== '')
    .map(([name, value]) => html('div', {}, html('dt', {}, name), html('dd', {}, start(value, 120)))));
}

/* Where the network's best repair gains most, and what every repair has at the same place. */
function largestGain(model, network) {
  const row = model.tables.groups[network.largest_gain];
  const same = model.groupsOf(network.name).filter((other) => other.shown && other.selector === row.selector &&
    Math.abs(other.ratio - row.ratio) <= 5e-7 && other.repair !== 'none' && isKnown(other.value));
  const shown = (value) => `${quality(network, value)}${isText(network) ? '' : '\u00a0%'}`;
  return html('p', {}, html('i', {}, start(network.name, 60)),
    isKnown(network.dense.value) && `, ${shown(network.dense.value)} ${network.measure} when dense`,
    `: with ${ratioText(row.ratio)}\u00a0% of the units removed by ${start(row.selector, 60)}, the plain cut ` +
    `${isText(network) ? 'has' : 'keeps'} ${shown(row.plain)}`,
    same.map((other) => `, ${other.repair} ${shown(other.value)}`), '.');
}

function comparisons(data) {
  const parts = data.comparisons.map((c) => `${c.better} beats ${c.worse} in ${c.above} of ${c.of} (by more than ` +
    `chance in ${c.apart}; median difference ${percent(c.median)}${c.measure === 'perplexity' ? '\u00a0% of the perplexity'
      : '\u00a0points'})`);
  return parts.length > 0 && html('p', {}, `Setting by setting, ${parts.join('; ')}.`);
}

/* -- figures ------------------------------------------------------------------------------------------------- */

/* The figures of the page. Each is drawn again when the reader chooses another measure of size or hides an entry of
 * a legend; entries mean the same in all of them. */
function makeFigures(model) {
  const drawn = [];
  const state = {axis: model.firstAxis};

  function legendEntry(entry) {
    const key = html('span', {'aria-hidden': 'true'});
    key.replaceChildren(svg(element('svg', {viewBox: '0 0 30 12', width: '30', height: '12'}, legendKey(entry, 0, 6))));
    const content = [...key.childNodes, start(entry.label, 40)];
    return html('li', {}, entry.filter === undefined ? html('span', {}, content) : html('button', {type: 'button',
      'aria-pressed': String(!model.hidden.has(entry.filter)), title: 'hide or show in all figures',
      click: () => toggle(entry.filter)}, content));
  }

  function draw({figure, index, place}) {
    const own = AGAINST_SIZE.has(figure.kind) ? axesOf(model, figure) : [];
    const one = drawFigure(model, figure, own.length === 0 || own.includes(state.axis) ? state.axis : own[0]);
    const panels = one.panels.map((p) => svg(element('svg', {viewBox: `0 0 ${p.width} ${p.height}`, role: 'img',
      'aria-label': `${one.title}: ${p.title}`}, text('n', 0, 14, p.title), p.content)));
    place.replaceChildren(html('h3', {}, one.title), html('ul', {class: 'legend'}, one.legend.map(legendEntry)),
      html('div', {class: panels.length === 4 ? 'panels four' : 'panels'}, panels.length > 0 ? panels
        : html('p', {class: 'note'}, 'Everything that this figure shows is hidden.')),
      html('figcaption', {}, html('b', {}, `Figure ${index + 1}.`), ` ${one.caption}`));
  }

  function redraw() {
    drawn.forEach(draw);
    document.getElementById('show-all').hidden = model.hidden.size === 0;
  }

  function toggle(entry) {
    if (!model.hidden.delete(entry)) {
      model.hidden.add(entry);
    }
    redraw();
  }

  function add(figure) {
    const index = model.data.figures.indexOf(figure);
    const place = html('figure', {id: `figure-${index + 1}`, class: figure.kind});
    drawn.push({figure, index, place});
    draw(drawn[drawn.length - 1]);
    return place;
  }

  function controls() {
    const choose = (axis) => html('label', {}, html('input', {type: 'radio', name: 'x', id: `x-${axis.name}`,
      ...(axis === state.axis ? {checked: ''} : {}), change: () => { state.axis = axis; redraw(); }}), ` ${axis.choice}`);
    return html('div', {class: 'controls'},
      model.axes.length > 1 && html('fieldset', {}, html('legend', {}, 'Size by'), model.axes.map(choose)),
      html('span', {class: 'hint'}, 'Press an entry of a legend to hide it. '),
      html('button', {id: 'show-all', class: 'copy', type: 'button', hidden: '', click: () => { model.hidden.clear(); redraw(); }},
        'Show all'));
  }

  return {controls, of: (network, kind) => model.data.figures
    .filter((figure) => figure.network === network && (kind === undefined || figure.kind === kind)).map(add)};
}

/* What lies under the pointer is told beside it. */
function showTips() {
  const tip = document.getElementById('tip');
  addEventListener('pointerover', (event) => {
    const marked = event.target.closest ? event.target.closest('.h') : null;
    tip.hidden = !(marked && marked.tip);
    if (tip.hidden) {
      return;
    }
    tip.textContent = marked.tip();
    const box = marked.getBoundingClientRect();
    const left = box.left + box.width / 2 - tip.offsetWidth / 2;
    tip.style.left = `${Math.max(6, Math.min(innerWidth - tip.offsetWidth - 6, left))}px`;
    const above = box.top - tip.offsetHeight - 8;
    tip.style.top = `${above < 4 ? box.bottom + 8 : above}px`;
  });
  addEventListener('scroll', () => { tip.hidden = true; }, true);
}

/* -- the page ------------------------------------------------------------------------------------------------ */

function report(model) {
  const {data} = model;
  const figures = makeFigures(model);
  const gains = model.tables.groups.some((row) => isKnown(row.gain));
  const networks = data.networks.map((network, i) => html('section', {},
    html('h2', {id: `section-${i + 1}`}, network.name),
    network.is_architecture && html('p', {}, `Means over ${count(network.checkpoints, 'checkpoint')} of this architecture.`),
    figures.of(network.name), accuracyTable(model, network), costTable(model, network), healingTable(model, network)));
  return [
    data.networks.length > 0 && html('section', {class: 'decision'}, html('h2', {id: 'decision'}, 'How far can it be cut?'),
      html('p', {}, 'The largest measured cut within each loss, with the command that makes it. Numbers in brackets are ' +
        '95 % intervals.'), data.networks.map((network) => decisionOf(model, network))),
    data.networks.length > 0 && figures.controls(), figures.of(null, 'tradeoff'), factsList(data.facts),
    gains && html('section', {}, html('h2', {id: 'repairs'}, 'What repair gives back'),
      data.networks.filter((network) => network.largest_gain !== null).map((network) => largestGain(model, network)),
      comparisons(data), figures.of(null, 'scatter')),
    networks,
    html('section', {}, html('h2', {id: 'numbers'}, 'Numbers'), denseTable(model), failuresTable(model), cellsTable(model),
      data.recipe !== null && html('details', {}, html('summary', {}, 'Recipe'),
        html('pre', {}, JSON.stringify(data.recipe, null, 2)))),
  ].flat(Infinity).filter(Boolean);
}

/* Links to the headings, in their order. */
function contents() {
  const names = {decision: 'decision', repairs: 'repairs', numbers: 'numbers'};
  return [...document.querySelectorAll('h2[id]')].flatMap((heading) => [
    html('a', {href: `#${heading.id}`}, names[heading.id] || start(heading.textContent, 40)), ' ']);
}

function main() {
  const data = JSON.parse(document.getElementById('data').textContent);
  if (location.hash === '#svg-files') { /* grail report --svg reads them from the printed document */
    const files = drawFiles(data, document.querySelector('style').textContent);
    document.documentElement.replaceChildren(document.createTextNode(files));
    return;
  }
  const model = readData(data);
  if (model.tables.cost.some((row) => isKnown(row.heal))) {
    document.getElementById('subtitle').textContent =
      'Results of a grail sweep: narrowed networks before and after closed-form repair and healing.';
  }
  document.getElementById('remarks').append(...remarks(data.facts));
  document.getElementById('report').append(...report(model));
  document.getElementById('contents').append(...contents());
  showTips();
}

if (typeof document !== 'undefined') {
  main();
}
