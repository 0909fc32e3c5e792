'use strict';
/* Drawing: from the data of the page to trees of SVG elements. Nothing here knows a browser, so the same functions
 * draw the page and, in node, the files of grail report --svg. An element is {name, attributes, children, tip};
 * children are elements and texts, and tip() gives the text that hovering shows. */

const PANEL = {width: 340, height: 244, left: 40, right: 326, top: 46, bottom: 204};

/* What plots have on their x axis: a column of the table of groups, times a factor. */
const AXES = [
  {name: 'cut', column: 'ratio', factor: 100, choice: 'units asked for', label: 'units removed, %'},
  {name: 'parameters', column: 'removed', factor: 100, choice: 'parameters removed', label: 'parameters removed, %'},
  {name: 'macs', column: 'removed_macs', factor: 100, choice: 'MACs removed', label: 'multiply-accumulates removed, %'},
  {name: 'time', column: 'latency', factor: 1000, choice: 'time', label: 'time per image, ms',
    labelOfText: 'time per window, ms'},
];
const SAMPLES_AXIS = {column: 'samples', factor: 1, label: 'calibration samples'};

/* A colour (a class) and a dash mean a repair, a marker means a selector, in every figure. For healed repairs
 * the colour and the gaps of the dash tell what is healed, the dash tells the form. */
const FORM_DASHES = ['1.5 3', '5 3', '10 3', '7 3 1.5 3', '', '3 3', '12 4', '2 5'];
const OWN_FORMS = 6; /* the forms from here on have the colours behind those of healing */
const HEALED_GAPS = ['', '1.5', '4', '5.5'];
const MARKERS = [['circle', true], ['circle', false], ['square', true], ['up', false], ['diamond', false],
  ['diamond', true], ['down', false], ['cross', false], ['up', true], ['down', true], ['plus', false], ['bow', false],
  ['right', false], ['bow', true], ['right', true], ['left', false], ['left', true]];
const DENSE_STYLE = {colour: 'd', dash: '', shape: 'square', hollow: false};

function repairStyle(index) {
  const form = index % FORM_DASHES.length;
  const heal = Math.floor(index / FORM_DASHES.length);
  if (heal === 0) {
    return {colour: `v${form < OWN_FORMS ? form : form + 3}`, dash: FORM_DASHES[form]};
  }
  const dashes = ['1.5', '5', '10', '7', '20', '3', '12', '2'];
  const gap = HEALED_GAPS[heal];
  return {colour: `v${5 + heal}`, dash: form === 3 ? `7 ${gap} 1.5 ${gap}` : `${dashes[form]} ${gap}`};
}

function selectorStyle(index) {
  const [shape, hollow] = MARKERS[index % MARKERS.length];
  return {colour: 'd', dash: '', shape, hollow};
}

/* -- text ---------------------------------------------------------------------------------------------------- */

/* Control characters, separators of lines, and marks that turn the direction of following text become U+FFFD: a
 * name must not change how the rest of the page reads. */
const UNSAFE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufffe\uffff]/g;

function clean(text) {
  return String(text).replace(UNSAFE, '\ufffd');
}

function start(text, most) {
  const characters = Array.from(clean(text));
  return characters.length <= most ? characters.join('') : `${characters.slice(0, most - 1).join('')}\u2026`;
}

function isKnown(value) {
  return typeof value === 'number' && Number.isFinite(value);
}

/* A number with that many decimals; a dash where it was not measured. */
function number(value, decimals) {
  if (!isKnown(value)) {
    return '\u2013';
  }
  if (Math.abs(value) >= 1e12) {
    return value.toExponential(1).replace('e+', 'e');
  }
  const text = value.toFixed(decimals);
  return /[1-9]/.test(text) ? text : text.replace('-', '');
}

function percent(share) {
  return number(isKnown(share) ? 100 * share : share, 1);
}

/* "30" or "12.5". */
function ratioText(share) {
  return number(100 * share, Math.abs(100 * share - Math.round(100 * share)) < 0.05 ? 0 : 1);
}

/* Three digits, or all before the point. */
function digits(value) {
  const size = Math.abs(value);
  return number(value, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

function seconds(value) {
  const units = [[0.0009995, 1e6, '\u00b5s'], [0.9995, 1e3, 'ms'], [599.5, 1, 's'], [7170, 1 / 60, 'min'],
    [Infinity, 1 / 3600, 'h']];
  if (!isKnown(value) || value === 0) {
    return value === 0 ? '0\u00a0s' : '\u2013';
  }
  const [, factor, unit] = units.find(([below]) => Math.abs(value) < below);
  return `${digits(value * factor)}\u00a0${unit}`;
}

/* "5.60 M", "1.24 GB". */
function scaled(value, unit) {
  const scales = ['', 'k', 'M', 'G', 'T', 'P'];
  let scale = 0;
  if (!isKnown(value)) {
    return '\u2013';
  }
  while (value >= 999.5 && scale + 1 < scales.length) {
    value /= 1000;
    scale++;
  }
  return `${scale === 0 ? number(value, 0) : digits(value)}\u00a0${scales[scale]}${unit}`.trim();
}

function count(value, noun) {
  return `${number(value, 0)} ${noun}${value === 1 ? '' : 's'}`;
}

function isText(measured) {
  return measured.measure === 'perplexity';
}

function perplexity(value) {
  return value < 999.95 ? number(value, value < 9.9995 ? 3 : value < 99.995 ? 2 : 1)
    : number(value, 0).replace(/\B(?=(\d{3})+$)/g, ',');
}

/* A quality as it is shown, without a unit. */
function quality(measured, value) {
  return isText(measured) ? perplexity(value) : percent(value);
}

/* "94.5 % (92.9 to 95.8)" */
function qualityText(measured, e) {
  const text = `${quality(measured, e.value)}${isText(measured) ? '' : '\u00a0%'}`;
  return isKnown(e.low) && isKnown(e.high)
    ? `${text} (${quality(measured, e.low)} to ${quality(measured, e.high)})` : text;
}

/* "loses 1.4 points (0.2 to 2.6)", "has 3.4 % (2.6 to 4.2) more". What rounds to zero is no gain. */
function lossText(row) {
  const better = row.lost < -0.05;
  const sign = better ? -1 : 1;
  const [low, high] = better ? [row.lost_high, row.lost_low] : [row.lost_low, row.lost_high];
  const reach = isKnown(low) && isKnown(high) ? ` (${number(sign * low, 1)} to ${number(sign * high, 1)})` : '';
  return isText(row)
    ? `has ${number(sign * row.lost, 1)}\u00a0%${reach} ${better ? 'less' : 'more'}`
    : `${better ? 'gains' : 'loses'} ${number(sign * row.lost, 1)} points${reach}`;
}

function settingText(row) {
  return [`${count(row.samples, 'sample')}${/^of /.test(row.setting) ? ` ${start(row.setting, 120)}` : ''}`, `${row.loop} loop`,
    row.setting && !/^of /.test(row.setting) && start(row.setting, 120)].filter(Boolean).join(', ');
}

/* "+31.0 points on the plain cut, 49.2 %", "40.1 % less than the plain cut, 26.83" */
function gainText(row) {
  return isText(row)
    ? `${percent(Math.abs(row.gain))} % ${row.gain < 0 ? 'more' : 'less'} than the plain cut, ${quality(row, row.plain)}`
    : `${row.gain < 0 ? '' : '+'}${percent(row.gain)} points on the plain cut, ${percent(row.plain)} %`;
}

/* Everything about a group, one fact per line. */
function describe(row) {
  const removed = (share) => (isKnown(share) ? ` (${percent(share)} % removed)` : '');
  return [
    `${start(row.network, 60)}, ${start(row.selector, 60)}, ${ratioText(row.ratio)} %`,
    `${row.repair}, ${settingText(row)}`,
    `${row.measure} ${qualityText(row, row)}${row.runs > 1 ? `, ${row.runs} runs` : ''}` +
      (isKnown(row.top5) ? `, top-5 ${percent(row.top5)} %` : ''),
    isKnown(row.lost) && `against the dense network: ${lossText(row)}`,
    isKnown(row.gain) && gainText(row),
    isKnown(row.heal) && `healed in ${seconds(row.heal)}`,
    isKnown(row.parameters) && `${scaled(row.parameters, '')} parameters${removed(row.removed)}`,
    isKnown(row.macs) && `${scaled(row.macs, '')} MACs${removed(row.removed_macs)}`,
    isKnown(row.latency) && `${seconds(row.latency)} per sample`,
  ].filter(Boolean).join('\n');
}

/* Names that fit beside a plot and can still be told apart: without the beginning that all share up to a dot, and
 * without the middle of what is longer than `most` characters, cut where those that differ still differ. */
function shortNames(names, most) {
  let common = names.length > 1 ? names[0] : '';
  for (const name of names) {
    while (!name.startsWith(common)) {
      common = common.slice(0, -1);
    }
  }
  const all = names.map((name) => Array.from(clean(name.slice(common.lastIndexOf('.') + 1))));
  const cut = (name, head) => (name.length <= most ? name.join('')
    : `${name.slice(0, head).join('')}\u2026${name.slice(name.length - (most - 1 - head)).join('')}`);
  const distinct = new Set(names).size;
  const middle = Math.floor((most - 1) / 2);
  for (let away = 0; away <= middle; away++) {
    for (const head of [middle + away, middle - away]) {
      const shortened = all.map((name) => cut(name, head));
      if (new Set(shortened).size === distinct) {
        return shortened;
      }
    }
  }
  return all.map((name, i) => `${i + 1}\u2026${name.slice(-(most - 6)).join('')}`);
}

/* -- data ---------------------------------------------------------------------------------------------------- */

/* The rows of a table as objects. */
function rowsOf(data, name) {
  const {columns, rows} = data.tables[name];
  return rows.map((values) => Object.fromEntries(columns.map((column, i) => [column, values[i]])));
}

/* The data with rows as objects; `hidden` holds the selectors and repairs that the reader hides. */
function readData(data) {
  const model = {data, hidden: new Set(), tables: {}};
  for (const name of ['groups', 'sites', 'cost']) {
    model.tables[name] = rowsOf(data, name);
    model.tables[name].forEach((row, i) => { row.index = i; });
  }
  model.network = (name) => data.networks.find((network) => network.name === name);
  model.groupsOf = (name) => model.tables.groups.filter((row) => row.network === name);
  model.axes = AXES.filter((axis) => model.tables.groups.some((row) => isKnown(row[axis.column])));
  model.firstAxis = model.axes.find((axis) => axis.name === 'parameters') || model.axes[0];
  return model;
}

function isShown(model, row) {
  return !model.hidden.has(`selector ${row.selector}`) && !model.hidden.has(`repair ${row.repair}`);
}

function styleOf(model, row) {
  return {...selectorStyle(model.data.selectors.indexOf(row.selector)),
    ...repairStyle(model.data.variants.indexOf(row.repair))};
}

/* Selectors or repairs that occur, in the order of the page. */
function occurring(names, rows, column) {
  const found = new Set(rows.map((row) => row[column]));
  return names.filter((name) => found.has(name));
}

function axisValue(axis, row) {
  return isKnown(row[axis.column]) ? axis.factor * row[axis.column] : NaN;
}

function axisOfDense(axis, network) {
  return axis.name === 'time' ? axisValue(axis, network.dense) : axis === SAMPLES_AXIS ? NaN : 0;
}

/* A value and its interval in the unit of its axis: percent, points, or perplexities as they are. */
function inUnit(measured, value, low, high) {
  const factor = isText(measured) ? 1 : 100;
  const times = (x) => (isKnown(x) ? factor * x : NaN);
  return {value: times(value), low: times(low), high: times(high)};
}

function qualityOf(row) {
  return inUnit(row, row.value, row.low, row.high);
}

function gainOf(row) {
  return inUnit({}, row.gain, row.gain_low, row.gain_high);
}

function denseOf(network) {
  return inUnit(network, network.dense.value, network.dense.low, network.dense.high);
}

/* -- scales -------------------------------------------------------------------------------------------------- */

function roundStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  const parts = least / power;
  /* 1 % of slack: a range of exactly 10 steps must not become 5 by rounding */
  return power * (parts <= 1.01 ? 1 : parts <= 2.02 ? 2 : parts <= 5.05 ? 5 : 10);
}

/* Ticks at 1, 2 or 5 times a power of ten, about `intervals` of them; the scale ends at ticks. */
function linearScale(least, most, intervals, begin, end) {
  const magnitude = Math.max(Math.abs(least), Math.abs(most));
  if (!(most - least > 1e-9 * magnitude && most - least > 1e-12)) {
    most = least + Math.max(1, 1e-3 * magnitude);
  }
  const step = roundStep((most - least) / intervals);
  const first = Math.floor(least / step + 1e-6);
  const last = Math.ceil(most / step - 1e-6);
  const ticks = [];
  for (let at = first; at <= last; at++) {
    ticks.push(at * step);
  }
  const decimals = step < 0.999 ? Math.ceil(-Math.log10(step) - 1e-6) : 0;
  return {from: first * step, to: last * step, ticks, decimals, begin, end, map: (x) => x};
}

/* A scale that begins below its first tick where that leaves no empty band. */
function beginAt(scale, least) {
  return scale.ticks.length > 2 && least > scale.from && least < scale.ticks[1]
    ? {...scale, from: least, ticks: scale.ticks.slice(1)} : scale;
}

function doublingScale(least, most, begin, end) {
  const first = Math.floor(Math.log2(least) + 1e-9);
  const last = Math.max(Math.ceil(Math.log2(most) - 1e-9), first + 1);
  const stride = Math.ceil((last - first) / 8);
  const ticks = [];
  for (let at = first; at <= last; at += stride) {
    ticks.push(2 ** at);
  }
  const decimals = first < 0 ? Math.min(-first, 4) : 0;
  return {from: 2 ** first, to: 2 ** last, ticks, decimals, begin, end, map: Math.log2, logarithmic: true};
}

/* The place of a value; what lies outside stands at the end. */
function place(scale, value) {
  const from = scale.map(scale.from);
  const share = (scale.map(value) - from) / (scale.map(scale.to) - from);
  return scale.begin + Math.min(Math.max(share, 0), 1) * (scale.end - scale.begin);
}

function known(values) {
  return values.filter(Number.isFinite);
}

function sizeScale(axis, network, rows, begin, end) {
  return linearScale(0, Math.max(0, ...known([axisOfDense(axis, network), ...rows.map((row) => axisValue(axis, row))])),
    5, begin, end);
}

/* Accuracies from 0; perplexities from the least to 64 times it at most, since worse is as bad as none. */
function qualityScale(network, rows, begin, end) {
  const values = known([denseOf(network).value, ...rows.map((row) => qualityOf(row).value)]);
  const most = Math.max(...values);
  const least = Math.min(...values);
  if (!isText(network)) {
    return linearScale(0, values.length === 0 ? 0 : most, 5, begin, end);
  }
  return values.length === 0 ? doublingScale(1, 2, begin, end)
    : doublingScale(least, Math.min(most, 64 * least), begin, end);
}

/* -- elements ------------------------------------------------------------------------------------------------ */

function element(name, attributes, ...children) {
  return {name, attributes, children: children.flat(Infinity).filter((child) => child !== null && child !== false)};
}

/* A coordinate or a length. */
function fixed(value) {
  return value.toFixed(1);
}

function line(kind, x1, y1, x2, y2) {
  return element('line', {class: kind, x1: fixed(x1), y1: fixed(y1), x2: fixed(x2), y2: fixed(y2)});
}

function rectangle(kind, x, y, width, height) {
  return element('rect', {class: kind, x: fixed(x), y: fixed(y), width: fixed(width), height: fixed(height)});
}

function text(kind, x, y, content) {
  return element('text', {class: kind, x: fixed(x), y: fixed(y)}, clean(content));
}

/* points: pairs, and null where the pen is lifted. */
function path(kind, points, dash) {
  let down = false;
  const d = points.map((point) => {
    const part = point === null ? '' : `${down ? 'L' : 'M'}${fixed(point[0])} ${fixed(point[1])}`;
    down = point !== null;
    return part;
  }).join('');
  return element('path', dash ? {class: kind, 'stroke-dasharray': dash, d} : {class: kind, d});
}

function marker(style, x, y, r) {
  const kind = style.hollow ? 'm o' : 'm';
  const corners = {
    square: [[-0.85, -0.85], [0.85, -0.85], [0.85, 0.85], [-0.85, 0.85]],
    diamond: [[0, -1.2], [1.2, 0], [0, 1.2], [-1.2, 0]],
    up: [[0, -1.15], [1.1, 0.85], [-1.1, 0.85]],
    down: [[0, 1.15], [1.1, -0.85], [-1.1, -0.85]],
    right: [[1.15, 0], [-0.85, 1.1], [-0.85, -1.1]],
    left: [[-1.15, 0], [0.85, 1.1], [0.85, -1.1]],
    bow: [[-1.1, -0.9], [1.1, 0.9], [1.1, -0.9], [-1.1, 0.9]],
  }[style.shape];
  if (style.shape === 'circle') {
    return element('circle', {class: kind, cx: fixed(x), cy: fixed(y), r: fixed(r)});
  }
  if (style.shape === 'cross') {
    return path('m', [[x - r, y - r], [x + r, y + r], null, [x - r, y + r], [x + r, y - r]]);
  }
  if (style.shape === 'plus') {
    return path('m', [[x - 1.2 * r, y], [x + 1.2 * r, y], null, [x, y - 1.2 * r], [x, y + 1.2 * r]]);
  }
  const drawn = path(kind, corners.map(([dx, dy]) => [x + r * dx, y + r * dy]));
  drawn.attributes.d += 'Z';
  return drawn;
}

function group(kind, ...children) {
  return element('g', {class: kind}, ...children);
}

/* -- charts: a panel with two axes --------------------------------------------------------------------------- */

function xAxis(chart) {
  const {x, y} = chart;
  const top = Math.min(y.begin, y.end);
  const bottom = Math.max(y.begin, y.end);
  const atTicks = x.ticks.map((tick) => {
    const at = place(x, tick);
    return [y.ticks.length === 0 && line('g', at, top, at, bottom), line('a', at, bottom, at, bottom + 4),
      text('t c', at, bottom + 17, number(tick, x.decimals))];
  });
  /* with values below zero the line at zero is the axis */
  return [atTicks, line(y.from < 0 ? 'g' : 'a', x.begin, bottom, x.end, bottom),
    text('u c', (x.begin + x.end) / 2, bottom + 34, chart.xLabel)];
}

function yAxis(chart) {
  const {x, y} = chart;
  const atTicks = y.ticks.map((tick) => {
    const at = place(y, tick);
    return [line(tick === 0 && y.from < 0 ? 'a' : 'g', x.begin, at, x.end, at),
      text('t e', x.begin - 6, at + 3.8, number(tick, y.decimals))];
  });
  return [atTicks, text('u', 0, Math.min(y.begin, y.end) - 14, chart.yLabel)];
}

function interval(chart, x, e) {
  if (!isKnown(e.low) || !isKnown(e.high)) {
    return null;
  }
  const at = place(chart.x, x);
  const low = place(chart.y, e.low);
  const high = place(chart.y, e.high);
  const half = 2.5;
  return path('i', [[at, low], [at, high], null, [at - half, low], [at + half, low], null,
    [at - half, high], [at + half, high]]);
}

/* A marker with its interval, in an area for the pointer. x and e.value stand in it as numbers, too. */
function point(chart, style, x, e, tip, row) {
  const [cx, cy] = [place(chart.x, x), place(chart.y, e.value)];
  const node = element('g', {class: `h ${style.colour}`, 'data-row': String(row), 'data-x': String(x),
    'data-y': String(e.value)}, interval(chart, x, e),
  element('circle', {class: 'p', cx: fixed(cx), cy: fixed(cy), r: '8'}), marker(style, cx, cy, 3.2));
  node.tip = tip;
  return node;
}

/* A line across the panel with a label at its right end. */
function reference(chart, value, label, behind, dy) {
  const at = place(chart.y, value);
  return [line('r', chart.x.begin, at, chart.x.end, at),
    text(behind ? 't' : 't e y', behind ? chart.x.end + 5 : chart.x.end, at + dy, label)];
}

/* The dense network as a line across the panel, and as a point where it is on the axis. */
function dense(chart, network, axis) {
  const e = denseOf(network);
  const x = axisOfDense(axis, network);
  if (!isKnown(e.value)) {
    return null;
  }
  return [reference(chart, e.value, `dense ${quality(network, network.dense.value)}`, false, isText(network) ? 12 : -5),
    isKnown(x) && group('d', interval(chart, x, e), marker(DENSE_STYLE, place(chart.x, x), place(chart.y, e.value), 3.2))];
}

/* The line of one selector and repair through its rows, from `origin` (null: none), with markers. */
function curve(model, chart, rows, axis, valueOf, origin) {
  const drawn = rows.filter((row) => isKnown(axisValue(axis, row)) && isKnown(valueOf(row).value) && isShown(model, row));
  if (drawn.length === 0) {
    return null;
  }
  const style = styleOf(model, drawn[0]);
  const places = drawn.map((row) => [axisValue(axis, row), valueOf(row).value]);
  const through = (origin !== null && origin.every(isKnown) ? [origin, ...places] : places)
    .map(([x, y]) => [place(chart.x, x), place(chart.y, y)]);
  return group(style.colour, path('l', through, style.dash),
    drawn.map((row) => point(chart, style, axisValue(axis, row), valueOf(row), () => describe(row), row.index)));
}

function qualityLabel(network) {
  return isText(network) ? 'perplexity' : 'top-1 accuracy, %';
}

function axisLabel(axis, network) {
  return isText(network) && axis.labelOfText ? axis.labelOfText : axis.label;
}

function panel(title, chart, content, height = PANEL.height) {
  return {title, width: PANEL.width, height, content: [yAxis(chart), xAxis(chart), content]};
}

function repairKeys(model, rows, key) {
  return occurring(model.data.variants, rows, 'repair').map((label) => (
    {style: repairStyle(model.data.variants.indexOf(label)), key, label, filter: `repair ${label}`}));
}

function selectorKeys(model, rows) {
  return occurring(model.data.selectors, rows, 'selector').map((label) => (
    {style: selectorStyle(model.data.selectors.indexOf(label)), key: 'marker', label, filter: `selector ${label}`}));
}

/* What the means of a network are over. */
function members(network) {
  return network.is_architecture ? 'checkpoints and seeds' : 'seeds';
}

/* -- figures: {title, caption, legend, panels}; `axis` is the measure of size that the reader chose ----------- */

/* A panel shows what lies on its scale. Perplexities beyond a logarithmic scale stand at its end. */
function isInside(chart, y) {
  return y >= chart.y.from - 1e-9 && (y <= chart.y.to + 1e-9 || chart.y.logarithmic === true);
}

/* The settings that no other beats, and the dense network if it is one, joined; cut at the ends of the panel. */
function paretoLine(chart, network, rows, axis) {
  const column = `pareto_${axis.column}`;
  const points = rows.filter((row) => row[column]).map((row) => [axisValue(axis, row), qualityOf(row).value]);
  if (network.dense[column]) {
    points.push([axisOfDense(axis, network), denseOf(network).value]);
  }
  points.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const drawn = [];
  points.forEach(([x, y], i) => {
    const before = i > 0 ? points[i - 1] : null;
    const inside = isInside(chart, y);
    const insideBefore = before !== null && isInside(chart, before[1]);
    if (before !== null && inside !== insideBefore) {
      const [within, outside] = inside ? [[x, y], before] : [before, [x, y]];
      const edge = outside[1] < chart.y.from ? chart.y.from : chart.y.to;
      const share = (edge - within[1]) / (outside[1] - within[1]);
      const at = [place(chart.x, within[0] + share * (outside[0] - within[0])), place(chart.y, edge)];
      drawn.push(...(inside ? [null, at] : [at, null]));
    }
    if (inside) {
      drawn.push([place(chart.x, x), place(chart.y, y)]);
    }
  });
  return points.length > 1 ? path('z', drawn) : null;
}

function limitLines(chart, network) {
  const value = denseOf(network).value;
  return (network.decisions || []).map(({limit}) => (isText(network)
    ? reference(chart, value * (1 + limit / 100), `+${limit} %`, true, 3.8)
    : reference(chart, value - limit, `\u2212${limit}`, true, 3.8)));
}

function tradeoffPanel(model, network, rows, axis, scales, near) {
  const chart = {...scales, xLabel: axisLabel(axis, network), yLabel: qualityLabel(network)};
  const points = rows.filter((row) => isKnown(axisValue(axis, row)) && isInside(chart, qualityOf(row).value) &&
    isShown(model, row));
  return panel(`${start(network.name, 30)}${near ? ', near the dense network' : ''}`, chart, [
    dense(chart, network, axis), near && limitLines(chart, network), paretoLine(chart, network, rows, axis),
    points.map((row) => point(chart, styleOf(model, row), axisValue(axis, row), qualityOf(row), () => describe(row),
      row.index)),
  ]);
}

/* Down to twice the largest loss of the decision; null where nothing is near the dense network. */
function nearScales(network, rows, axis) {
  const value = denseOf(network).value;
  if (!isKnown(value) || !network.decisions) {
    return null;
  }
  const reach = 2 * Math.max(...network.decisions.map(({limit}) => limit));
  const values = known([value, ...rows.map((row) => qualityOf(row).value)]);
  const ends = isText(network) ? [Math.min(...values), value * (1 + reach / 100)] : [value - reach, Math.max(...values)];
  const y = linearScale(Math.min(...ends), Math.max(...ends), 5, PANEL.bottom, PANEL.top);
  const sizes = known(rows.filter((row) => qualityOf(row).value >= y.from && qualityOf(row).value <= y.to)
    .map((row) => axisValue(axis, row)));
  if (sizes.length === 0) {
    return null;
  }
  sizes.push(...known([axisOfDense(axis, network)]));
  const room = isText(network) ? 26 : 14; /* for the labels of limits */
  return {x: linearScale(axis.name === 'time' ? Math.min(...sizes) : 0, Math.max(...sizes), 5, PANEL.left,
    PANEL.right - room), y};
}

function drawTradeoff(model, figure, rows, axis) {
  const panels = model.data.networks.flatMap((network) => {
    const own = rows.filter((row) => row.network === network.name);
    if (!own.some((row) => isKnown(axisValue(axis, row)))) {
      return [];
    }
    const all = {x: sizeScale(axis, network, own, PANEL.left, PANEL.right),
      y: qualityScale(network, own, PANEL.bottom, PANEL.top)};
    const near = nearScales(network, own, axis);
    return [tradeoffPanel(model, network, own, axis, all, false),
      ...(near === null ? [] : [tradeoffPanel(model, network, own, axis, near, true)])];
  });
  const texts = model.data.networks.some(isText);
  const images = model.data.networks.some((network) => !isText(network));
  return {
    title: `${texts && images ? 'Quality' : texts ? 'Perplexity' : 'Accuracy'} against size`,
    caption: 'Every setting of the sweep: the colour tells the repair, the shape the selector, bars are 95 % intervals. ' +
      'The square is the dense network. The line joins the settings that no other beats in both size and quality ' +
      '(Pareto); a setting on it need not be better than its neighbours within the intervals. The second panel of a ' +
      'network shows what is near the dense one, with lines at the losses of the decision.',
    legend: [...repairKeys(model, rows, 'colour'), ...selectorKeys(model, rows)],
    panels,
  };
}

function drawScatter(model, figure, rows) {
  const repaired = rows.filter((row) => isKnown(row.plain));
  const most = Math.max(0, ...known(model.tables.groups.filter((row) => !isText(row)).map((row) => qualityOf(row).value)));
  const panels = occurring(model.data.variants, repaired, 'repair').map((repair) => {
    const chart = {x: linearScale(0, most, 5, PANEL.left, PANEL.right), y: linearScale(0, most, 5, PANEL.bottom, PANEL.top),
      xLabel: 'top-1 of the plain cut, %', yLabel: 'top-1 with this repair, %'};
    const own = repaired.filter((row) => row.repair === repair && isShown(model, row));
    return own.length > 0 && panel(repair, chart, [
      line('r', place(chart.x, 0), place(chart.y, 0), place(chart.x, chart.x.to), place(chart.y, chart.y.to)),
      own.map((row) => point(chart, styleOf(model, row), 100 * row.plain, qualityOf(row), () => describe(row), row.index)),
    ]);
  });
  return {
    title: 'Before and after',
    caption: 'Accuracy without and with repair for every setting of the sweep. Settings above the diagonal gained ' +
      'accuracy. Each repair has a panel, each selector a marker; bars are 95 % intervals of the accuracy with repair.',
    legend: selectorKeys(model, repaired),
    panels: panels.filter(Boolean),
  };
}

function drawAccuracy(model, figure, rows, axis) {
  const network = model.network(figure.network);
  const own = model.groupsOf(figure.network);
  const origin = [axisOfDense(axis, network), denseOf(network).value];
  const panels = occurring(model.data.selectors, rows, 'selector').map((selector) => {
    const chart = {x: sizeScale(axis, network, own, PANEL.left, PANEL.right),
      y: qualityScale(network, own, PANEL.bottom, PANEL.top),
      xLabel: axisLabel(axis, network), yLabel: qualityLabel(network)};
    const lines = rows.filter((row) => row.selector === selector);
    return !model.hidden.has(`selector ${selector}`) && panel(start(selector, 40), chart, [dense(chart, network, axis),
      occurring(model.data.variants, lines, 'repair').map((repair) => curve(model, chart,
        lines.filter((row) => row.repair === repair), axis, qualityOf, origin))]);
  });
  const what = isText(network) ? 'Perplexity' : 'Accuracy';
  return {
    title: `${what} against size, ${start(network.name, 60)}`,
    caption: `${isText(network) ? what : 'Top-1 accuracy'} against what was removed, one panel per selector, with ` +
      `${settingText(network)}. Lines are means over ${members(network)} and begin at the dense network; bars are ` +
      `95 % intervals.${isText(network) ? ' Perplexities above 64 times the lowest are drawn at the top.' : ''}`,
    legend: repairKeys(model, rows, 'line'),
    panels: panels.filter(Boolean),
  };
}

function gainLabel(network) {
  return isText(network) ? 'less perplexity, %' : 'gain in top-1, points';
}

/* What a figure of gains shows. */
function gainCaption(network) {
  return isText(network) ? 'How much less perplexity there is than after the plain cut, in percent'
    : 'Top-1 accuracy minus that of the plain cut';
}

/* The y axis of gains, the same in all panels of a figure. */
function gainScale(rows) {
  const values = known(rows.flatMap((row) => [gainOf(row).value, gainOf(row).low, gainOf(row).high]));
  const least = Math.min(0, ...values);
  return beginAt(linearScale(least, Math.max(0, ...values), 6, PANEL.bottom, PANEL.top), least);
}

function drawGain(model, figure, rows, axis) {
  const network = model.network(figure.network);
  const own = model.groupsOf(figure.network);
  const y = gainScale(rows);
  const panels = occurring(model.data.variants, rows, 'repair').map((repair) => {
    const chart = {x: sizeScale(axis, network, own, PANEL.left, PANEL.right), y, xLabel: axisLabel(axis, network),
      yLabel: gainLabel(network)};
    const lines = rows.filter((row) => row.repair === repair);
    return !model.hidden.has(`repair ${repair}`) && panel(repair, chart,
      occurring(model.data.selectors, lines, 'selector').map((selector) => curve(model, chart,
        lines.filter((row) => row.selector === selector), axis, gainOf, [axisOfDense(axis, network), 0])));
  });
  return {
    title: `Gain against size, ${start(network.name, 60)}`,
    caption: `${gainCaption(network)} with the same selector, ratio and seed, one panel per repair. ` +
      `Lines are means over ${members(network)}; bars are 95 % intervals.`,
    legend: selectorKeys(model, rows),
    panels: panels.filter(Boolean),
  };
}

function drawSamples(model, figure, rows) {
  const network = model.network(figure.network);
  const samples = rows.map((row) => row.samples);
  const y = gainScale(rows);
  const choices = [...new Set(rows.map((row) => row.setting))].filter((setting) => setting !== network.setting);
  const panels = occurring(model.data.selectors, rows, 'selector').map((selector) => {
    const lines = rows.filter((row) => row.selector === selector);
    const chart = {x: doublingScale(Math.min(...samples), Math.max(...samples), PANEL.left, PANEL.right), y,
      xLabel: SAMPLES_AXIS.label, yLabel: gainLabel(network)};
    return !model.hidden.has(`selector ${selector}`) && panel(`${start(selector, 30)}, ${ratioText(lines[0].ratio)} %`,
      chart, occurring(model.data.variants, lines, 'repair').map((repair) => curve(model, chart,
        lines.filter((row) => row.repair === repair), SAMPLES_AXIS, gainOf, null)));
  });
  return {
    title: `Gain against calibration samples, ${start(network.name, 60)}`,
    caption: `${gainCaption(network)}, against the number of calibration samples, at the ratio with ` +
      `the most sample counts${choices.length > 0 ? ` (${start(choices.join('; '), 120)})` : ''}. Lines are means over ${members(network)}; bars are 95 % intervals.`,
    legend: repairKeys(model, rows, 'line'),
    panels: panels.filter(Boolean),
  };
}

/* The two errors of a site that are shown: on the held-out part where there is one. An output of zeros has error 1. */
const LARGEST_ERROR = 2;

function siteErrors(row) {
  return {before: isKnown(row.held_before) ? row.held_before : row.fit_before,
    after: isKnown(row.held_after) ? row.held_after : row.fit_after};
}

function siteRow(model, chart, row, at, name) {
  const {before, after} = siteErrors(row);
  const y = place(chart.y, at);
  const mark = (value, repair) => isKnown(value) && group(styleOf(model, {...row, repair}).colour,
    marker(styleOf(model, {...row, repair}), place(chart.x, value), y, 3.2));
  const node = element('g', {class: 'h', 'data-row': String(row.index), 'data-before': String(before),
    'data-after': String(after)},
  isKnown(before) && isKnown(after) && line('w', place(chart.x, before), y, place(chart.x, after), y),
  [before, after].filter(isKnown).map((value) => element('circle',
    {class: 'p', cx: fixed(place(chart.x, value)), cy: fixed(y), r: '8'})),
  mark(before, 'none'), mark(after, row.repair));
  node.tip = () => `${start(row.site, 100)}\n${number(row.kept, 0)} of ${number(row.units, 0)} units kept\n` +
    `held out: ${number(row.held_before, 4)} to ${number(row.held_after, 4)}\n` +
    `fit: ${number(row.fit_before, 4)} to ${number(row.fit_after, 4)}`;
  return [name !== null && text('t e', chart.x.begin - 8, y + 3.8, name), node];
}

function drawSites(model, figure, rows) {
  const network = model.network(figure.network);
  const errors = known(rows.flatMap((row) => Object.values(siteErrors(row))));
  const most = Math.min(Math.max(0.01, ...errors), LARGEST_ERROR);
  const panels = occurring(model.data.selectors, rows, 'selector').map((selector) => {
    const sites = rows.filter((row) => row.selector === selector);
    const pitch = Math.min(14, 560 / sites.length);
    const labelEvery = Math.ceil(12 / pitch);
    const names = shortNames(sites.map((row) => row.site), 19);
    const chart = {x: linearScale(0, most, 4, 132, PANEL.right),
      y: {from: 0, to: sites.length, ticks: [], begin: 28, end: 28 + pitch * sites.length, map: (v) => v},
      xLabel: 'relative error of the output', yLabel: ''};
    return !model.hidden.has(`selector ${selector}`) && panel(`${start(selector, 30)}, ${ratioText(sites[0].ratio)} %`,
      chart, sites.map((row, i) => siteRow(model, chart, row, i + 0.5, i % labelEvery === 0 ? names[i] : null)),
      68 + pitch * sites.length);
  });
  return {
    title: `Error of every site before and after, ${start(network.name, 60)}`,
    caption: `Relative error of the output that reads each site, before and after the fit (${network.best}), at the ` +
      'ratio nearest to 50 %, measured on held-out calibration data where there is some. Sites that were cut are in ' +
      `the order of the network${network.is_architecture ? ' and come from the first checkpoint and seed' : ''}. An ` +
      'output of zeros has an error of 1. Errors above 2 are drawn at 2.',
    legend: [['none', 'before'], [network.best, 'after']].map(([repair, label]) => (
      {style: repairStyle(model.data.variants.indexOf(repair)), key: 'colour', label})),
    panels: panels.filter(Boolean),
  };
}

const STAGES = ['calibrate', 'compensate', 'heal', 'evaluate'];

/* Rows with names; draw(row, at) returns the elements of one and the end of its bar. */
function barPanel(title, unit, most, rows, draw) {
  const pitch = 24;
  const left = Math.max(108, ...rows.map((row) => 10 + 5.8 * row.repair.length));
  const chart = {x: linearScale(0, most, 4, left, PANEL.width - 58),
    y: {from: 0, to: rows.length, ticks: [], begin: 28, end: 28 + pitch * rows.length, map: (v) => v},
    xLabel: unit, yLabel: ''};
  return panel(title, chart, rows.map((row, i) => {
    const y = place(chart.y, i + 0.5);
    const {nodes, end, label} = draw(chart, row, y);
    return [text('t e', chart.x.begin - 8, y + 3.8, row.repair), nodes, text('t y', place(chart.x, end) + 6, y + 3.8, label)];
  }), 68 + pitch * rows.length);
}

function bar(chart, colour, from, to, y, attributes, tip) {
  const node = element('g', {class: `h ${colour}`, ...attributes},
    rectangle('q', place(chart.x, from), y - 7, place(chart.x, to) - place(chart.x, from), 14));
  node.tip = tip;
  return node;
}

function stageBars(chart, row, y) {
  let end = 0;
  const nodes = STAGES.map((stage, i) => {
    const spent = row[stage];
    if (!isKnown(spent)) {
      return null;
    }
    end += spent;
    return bar(chart, `q${i}`, end - spent, end, y, {'data-row': String(row.index), 'data-x': String(spent)},
      () => `${row.repair}\n${stage}: ${seconds(spent)} on average`);
  });
  return {nodes, end, label: seconds(end)};
}

function drawCost(model, figure, rows) {
  const shown = rows.filter((row) => !model.hidden.has(`repair ${row.repair}`));
  const total = (row) => STAGES.reduce((sum, stage) => sum + (isKnown(row[stage]) ? row[stage] : 0), 0);
  const measured = shown.filter((row) => total(row) > 0 || isKnown(row.peak_bytes));
  const mostSeconds = Math.max(0, ...measured.map(total));
  const mostBytes = Math.max(0, ...known(measured.map((row) => row.peak_bytes)));
  const [size, unit] = mostBytes < 0.95e9 ? [1e6, 'MB'] : [1e9, 'GB'];
  const peak = (chart, row, y) => {
    const bytes = isKnown(row.peak_bytes) ? row.peak_bytes : 0;
    const {colour} = repairStyle(model.data.variants.indexOf(row.repair));
    return {end: bytes / size, label: scaled(bytes, 'B'), nodes: bar(chart, colour, 0, bytes / size, y,
      {'data-row': String(row.index), 'data-x': String(bytes)}, () => `${row.repair}\npeak memory: ${scaled(bytes, 'B')}`)};
  };
  const heals = rows.some((row) => isKnown(row.heal));
  return {
    title: `Time and memory, ${start(figure.network, 60)}`,
    caption: 'Mean seconds per cell in each stage, over selectors, ratios and seeds, and the highest peak memory, for ' +
      'each repair.',
    legend: STAGES.map((stage, i) => ({style: {colour: `q${i}`}, key: 'colour', label: stage}))
      .filter(({label}) => label !== 'heal' || heals),
    panels: [mostSeconds > 0 && barPanel('Time', 'seconds', mostSeconds, measured, stageBars),
      mostBytes > 0 && barPanel('Peak memory', unit, mostBytes / size, measured, peak)].filter(Boolean),
  };
}

const FIGURES = {tradeoff: drawTradeoff, scatter: drawScatter, accuracy: drawAccuracy, gain: drawGain, samples: drawSamples,
  sites: drawSites, cost: drawCost};
const AGAINST_SIZE = new Set(['tradeoff', 'accuracy', 'gain']);

/* The measures of size that a figure's rows have. */
function axesOf(model, figure) {
  return AXES.filter((axis) => figure.rows.some((i) => isKnown(model.tables[figure.table][i][axis.column])));
}

function drawFigure(model, figure, axis) {
  return FIGURES[figure.kind](model, figure, figure.rows.map((i) => model.tables[figure.table][i]), axis);
}

/* The sample of a legend entry, 30 wide; its left end in the middle is at the point. */
function legendKey(entry, x, y) {
  const drawn = entry.key === 'line' ? path('l', [[x, y], [x + 30, y]], entry.style.dash)
    : entry.key === 'colour' ? rectangle('q', x + 8, y - 5, 18, 10) : marker(entry.style, x + 20, y, 3.8);
  return group(entry.style.colour, drawn);
}

/* -- files ----------------------------------------------------------------------------------------------------- */

/* An element as text; what hovering shows becomes a title. */
function toText(node) {
  const escape = (content) => clean(content).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
  if (typeof node === 'string') {
    return escape(node);
  }
  const attributes = Object.entries(node.attributes).map(([name, value]) => ` ${name}="${escape(value)}"`).join('');
  const tip = node.tip ? `<title>${escape(node.tip())}</title>` : '';
  return `<${node.name}${attributes}>${tip}${node.children.map(toText).join('')}</${node.name}>`;
}

/* The rules of figures from the page's style sheet, with the light colours in place of variables. */
function fileStyle(css) {
  const rules = css.slice(css.indexOf('/* figures */'), css.indexOf('/* end of figures */'));
  return rules.replace(/var\(--(\w+)\)/g, (all, name) => (new RegExp(`--${name}:\\s*([^;]+);`).exec(css) || [all, all])[1]);
}

/* Panels in at most three columns below the title and the legend. */
function drawSheet(drawn, css) {
  const [margin, gap, titleHeight, legendLine] = [20, 28, 34, 20];
  const columns = drawn.panels.length === 4 ? 2 : Math.min(drawn.panels.length, 3);
  const width = Math.max(2 * margin + columns * (PANEL.width + gap) - gap, 420);
  let [x, y] = [margin, margin + titleHeight];
  const legend = drawn.legend.map((entry) => {
    const label = start(entry.label, 40);
    const needed = 56 + 6.4 * label.length; /* there is no font to measure it with */
    if (x > margin && x + needed > width - margin) {
      [x, y] = [margin, y + legendLine];
    }
    x += needed;
    return [legendKey(entry, x - needed, y), text('k', x - needed + 36, y + 4, label)];
  });
  y += legend.length > 0 ? legendLine : 0;
  const panels = drawn.panels.map(({title, content, height}, i) => {
    const row = drawn.panels.slice(i - i % columns, i - i % columns + columns);
    const node = element('g', {transform: `translate(${fixed(margin + i % columns * (PANEL.width + gap))} ${fixed(y)})`},
      text('n', 0, 14, title), content);
    y += i % columns === columns - 1 || i === drawn.panels.length - 1
      ? Math.max(...row.map((one) => one.height)) + gap : 0;
    return node;
  });
  const height = y - gap + margin;
  return element('svg', {xmlns: 'http://www.w3.org/2000/svg', role: 'img', width: fixed(width), height: fixed(height),
    viewBox: `0 0 ${fixed(width)} ${fixed(height)}`}, element('title', {}, drawn.title),
  element('desc', {}, drawn.caption), element('style', {}, fileStyle(css)), rectangle('bg', 0, 0, width, height),
  text('f', margin, margin + 8, drawn.title), legend, panels);
}

/* JSON of file names and texts, in ASCII and without characters of markup: a browser prints it as it is. */
function drawFiles(data, css) {
  const model = readData(data);
  const files = {};
  for (const figure of data.figures) {
    const views = AGAINST_SIZE.has(figure.kind)
      ? axesOf(model, figure).map((axis) => [axis, `-by-${axis.name}`]) : [[null, '']];
    for (const [axis, suffix] of views) {
      const drawn = drawFigure(model, figure, axis);
      if (drawn.panels.length > 0) {
        files[`${figure.file}${suffix}.svg`] = `<?xml version="1.0" encoding="UTF-8"?>\n${toText(drawSheet(drawn, css))}\n`;
      }
    }
  }
  return JSON.stringify(files).replace(/[^\x20-\x7e]|[<>&]/g,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
