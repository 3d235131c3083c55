'use strict';
// Plays the runs of #data. Shapes: L MoE layers, P points, E experts; a point is the mean of the steps
// [edges[p], edges[p + 1]), most often of one.

function bytesOf(base64) {
  const text = atob(base64), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) bytes[i] = text.charCodeAt(i);
  return bytes;
}

function floatsOf(base64) {
  const view = new DataView(bytesOf(base64).buffer), floats = new Float32Array(view.byteLength / 4);
  for (let i = 0; i < floats.length; ++i) floats[i] = view.getFloat32(4 * i, true);
  return floats;
}

const runs = JSON.parse(document.getElementById('data').textContent).runs;
for (const run of runs) {
  for (const key of ['loss', 'val_loss', 'max_vio', 'max_vio_window', 'load_max']) run[key] = floatsOf(run[key]);
  run.load = bytesOf(run.load);
  run.points = run.edges.length - 1;
  run.pictures = new Map();
  // Of every row of load the newest point that has one, since logs leave out steps.
  run.newest = new Int32Array(run.load_max.length);
  for (let i = 0; i < run.newest.length; ++i)
    run.newest[i] = isFinite(run.load_max[i]) || i % run.points === 0 ? i % run.points : run.newest[i - 1];
}
const first = Math.min(...runs.map(run => run.edges[0]));
const last = Math.max(...runs.map(run => run.edges[run.points] - 1));
const layers = [...new Set(runs.flatMap(run => run.layers))].sort((a, b) => a - b);
// One scale for all runs, so that they can be compared side by side.
const largestLoss = Math.max(...runs.flatMap(run => [extent(run.loss)[1], extent(run.val_loss)[1]]));
const smallestLoss = Math.min(...runs.flatMap(run => [extent(run.loss)[0], extent(run.val_loss)[0]]));
const largestMaxVio = Math.max(...runs.flatMap(run => [extent(run.max_vio)[1], extent(run.max_vio_window)[1]]));
const state = {step: last, hover: null, layer: layers[0], playing: false};

// Values, also for other programs that read the page.
function pointAt(run, step) {  // the newest that begins at or before the step; -1: the run begins later
  let low = 0, high = run.points;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (run.edges[middle] <= step) low = middle + 1; else high = middle;
  }
  return low - 1;
}
function lossAt(run, step) {
  const p = pointAt(run, step);
  return p < 0 ? NaN : run.loss[p];
}
function ofLayer(run, values, layer, p) {
  const slot = run.layers.indexOf(layer);
  return slot < 0 || p < 0 ? NaN : values[slot * run.points + p];
}
function maxVioAt(run, layer, step) { return ofLayer(run, run.max_vio, layer, pointAt(run, step)); }
function loadOfPoint(run, layer, at, expert) {
  const p = ofLayer(run, run.newest, layer, at);
  const largest = ofLayer(run, run.load_max, layer, p);
  return largest * run.load[(run.layers.indexOf(layer) * run.points + p) * run.experts + expert] / 255;
}
function loadAt(run, layer, step, expert) { return loadOfPoint(run, layer, pointAt(run, step), expert); }

function extent(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) if (isFinite(value)) { low = Math.min(low, value); high = Math.max(high, value); }
  return [low, high];
}
function short(value) { return isFinite(value) ? String(Number(value.toPrecision(4))) : 'none'; }
function origin(run) { return run.from_log ? 'from the log' : 'measured here by MoEscope'; }

// Our tokens are bytes; a log's loss is in its own unit, most often nats per token.
function lossUnit(run) { return run.from_log ? 'as logged' : 'nats per byte'; }

function css(name) { return getComputedStyle(document.documentElement).getPropertyValue(name); }

// Utilisation 1/8 and less is blue, 1 is the card's colour, 8 and more is orange; an expert without a token is black.
const kBlue = [40, 110, 220], kOrange = [240, 120, 10];
function colourOf(utilisation, neutral) {
  if (!isFinite(utilisation)) return [110, 110, 110];
  if (utilisation === 0) return [0, 0, 0];
  const octaves = Math.max(-3, Math.min(3, Math.log2(utilisation))), end = octaves < 0 ? kBlue : kOrange;
  const share = Math.sqrt(Math.abs(octaves) / 3);
  return neutral.map((value, i) => Math.round(value + share * (end[i] - value)));
}
function neutralColour() { return document.documentElement.classList.contains('dark') ? [58, 63, 72] : [236, 239, 243]; }

function picture(width, height, valueAt) {
  const canvas = document.createElement('canvas');
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext('2d'), image = context.createImageData(width, height), neutral = neutralColour();
  for (let y = 0; y < height; ++y)
    for (let x = 0; x < width; ++x) image.data.set([...colourOf(valueAt(x, y), neutral), 255], 4 * (y * width + x));
  context.putImageData(image, 0, 0);
  return canvas;
}

// A plot: its canvas, its place inside the axes and what the mouse says there. `over` is 'steps' for time axes.
const plots = [];
const kLeft = 52, kRight = 10, kTop = 6, kBottom = 34;
function addPlot(section, plot) {
  const figure = document.createElement('figure'), title = document.createElement('h3'), what = document.createElement('p');
  plot.canvas = document.createElement('canvas');
  plot.canvas.style.height = plot.height + 'px';
  plot.what = what;
  title.textContent = plot.title;
  figure.append(title, what, plot.canvas);
  section.append(figure);
  plot.canvas.addEventListener('mousemove', event => hover(plot, event));
  plot.canvas.addEventListener('mouseleave', () => { state.hover = null; tip.hidden = true; draw(); });
  plot.canvas.addEventListener('click', event => {
    if (plot.over === 'steps') goTo(stepAtX(plot, event.offsetX));
  });
  plots.push(plot);
}
function inside(plot) { return {w: plot.canvas.clientWidth - kLeft - kRight, h: plot.height - kTop - kBottom}; }
function stepX(plot, step) { return kLeft + (step + 0.5 - first) / (last + 1 - first) * inside(plot).w; }
function stepAtX(plot, x) {
  return Math.max(first, Math.min(last, first + Math.floor((x - kLeft) / inside(plot).w * (last + 1 - first))));
}

const tip = document.getElementById('tip');
function hover(plot, event) {
  const {w, h} = inside(plot), x = (event.offsetX - kLeft) / w, y = (event.offsetY - kTop) / h;
  const within = x >= 0 && x < 1 && y >= 0 && y < 1;
  state.hover = within && plot.over === 'steps' ? stepAtX(plot, event.offsetX) : null;
  tip.hidden = !within;
  if (within) {
    tip.textContent = plot.say(x, y);
    tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 4) + 'px';
    tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 4) + 'px';
  }
  draw();
}

function begin(plot) {
  const scale = devicePixelRatio || 1, canvas = plot.canvas, width = canvas.clientWidth;
  if (canvas.width !== Math.round(width * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(plot.height * scale);
  }
  const context = canvas.getContext('2d');
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, plot.height);
  context.font = '11px system-ui, sans-serif';
  return context;
}

function axes(context, plot, xTicks, yTicks, xName, yName) {
  const {w, h} = inside(plot);
  context.strokeStyle = css('--rule');
  context.fillStyle = css('--faint');
  context.lineWidth = 1;
  context.strokeRect(kLeft + 0.5, kTop + 0.5, w, h);
  context.textAlign = 'center';
  for (const [x, text] of xTicks) context.fillText(text, Math.min(Math.max(kLeft + x * w, kLeft + 8), kLeft + w - 12), kTop + h + 14);
  context.fillText(xName, kLeft + w / 2, kTop + h + 29);
  context.textAlign = 'right';
  for (const [y, text] of yTicks) context.fillText(text, kLeft - 5, Math.min(Math.max(kTop + y * h + 4, kTop + 9), kTop + h));
  context.save();
  context.translate(11, kTop + h / 2);
  context.rotate(-Math.PI / 2);
  context.textAlign = 'center';
  context.fillText(yName, 0, 0);
  context.restore();
}
function stepTicks() {
  return [0, 0.25, 0.5, 0.75, 1].map(x => [x, String(Math.round(first + x * (last - first)))])
      .filter(([, text], i, all) => i === 0 || text !== all[i - 1][1]);
}
function linearTicks(low, high) { return [0, 0.5, 1].map(y => [y, short(high - y * (high - low))]); }

function crosshair(context, plot) {
  for (const [step, colour, dash] of [[state.step, '--ink', []], [state.hover, '--faint', [4, 3]]]) {
    if (step === null) continue;
    context.strokeStyle = css(colour);
    context.setLineDash(dash);
    context.beginPath();
    context.moveTo(stepX(plot, step), kTop);
    context.lineTo(stepX(plot, step), kTop + inside(plot).h);
    context.stroke();
  }
  context.setLineDash([]);
}

function line(context, plot, run, valueAt, low, high, colour, width) {
  const h = inside(plot).h;
  context.strokeStyle = css(colour);
  context.fillStyle = css(colour);
  context.lineWidth = width;
  context.beginPath();
  let before = false;
  for (let p = 0; p < run.points; ++p) {
    const value = valueAt(p);
    if (!isFinite(value)) continue;  // steps without a value, another cadence, do not end the line
    const x = stepX(plot, (run.edges[p] + run.edges[p + 1] - 1) / 2), y = kTop + (1 - (value - low) / (high - low)) * h;
    if (before) context.lineTo(x, y); else context.moveTo(x, y);
    before = true;
  }
  context.stroke();
}

function addLoss(section, run) {
  const margin = 0.03 * (largestLoss - smallestLoss) || 1, low = smallestLoss - margin, high = largestLoss + margin;
  const plot = {title: 'Loss', height: 190, over: 'steps'};
  plot.draw = context => {
    plot.what.textContent = `Blue: cross-entropy of the batch, orange: of held-out batches; ${lossUnit(run)}, ${origin(run)}. ` +
        `Now ${short(lossAt(run, state.step))}. All runs have one scale.`;
    axes(context, plot, stepTicks(), linearTicks(low, high), 'step', lossUnit(run));
    line(context, plot, run, p => run.loss[p], low, high, '--a', 1.5);
    line(context, plot, run, p => run.val_loss[p], low, high, '--b', 2);
    crosshair(context, plot);
  };
  plot.say = x => {
    const step = first + Math.floor(x * (last + 1 - first)), p = pointAt(run, step);
    return `step ${step}\nloss ${short(lossAt(run, step))} ${lossUnit(run)}` +
        (p >= 0 && isFinite(run.val_loss[p]) ? `\nheld-out loss ${short(run.val_loss[p])} ${lossUnit(run)}` : '');
  };
  addPlot(section, plot);
}

function addBalance(section, run) {
  const plot = {title: 'Balance over steps', height: 170, over: 'steps'};
  plot.draw = context => {
    const high = 1.05 * Math.max(0.1, largestMaxVio);
    plot.what.textContent = `MaxVio of layer ${state.layer}: load of the fullest expert over the fair share, minus 1; 0 is even; ` +
        `${origin(run)}. Orange: one batch, blue: the last ${run.window || 'few'} steps. Now ${short(maxVioAt(run, state.layer, state.step))}.`;
    axes(context, plot, stepTicks(), linearTicks(0, high), 'step', 'MaxVio (ratio)');
    line(context, plot, run, p => ofLayer(run, run.max_vio, state.layer, p), 0, high, '--b', 1.2);
    line(context, plot, run, p => ofLayer(run, run.max_vio_window, state.layer, p), 0, high, '--a', 1.8);
    crosshair(context, plot);
  };
  plot.say = x => {
    const step = first + Math.floor(x * (last + 1 - first)), p = pointAt(run, step);
    return `step ${step}, layer ${state.layer}\nMaxVio, batch ${short(maxVioAt(run, state.layer, step))}` +
        `\nMaxVio, window ${short(ofLayer(run, run.max_vio_window, state.layer, p))}`;
  };
  addPlot(section, plot);
}

function addLoadOverTime(section, run) {
  const plot = {title: 'Expert load over steps', height: 210, over: 'steps'};
  plot.draw = context => {
    plot.what.textContent = `Layer ${state.layer}, load in fair shares, ${origin(run)}. Blue: 1/8 and less, grey: 1, ` +
        `orange: 8 and more, black: no token. Steps without load show the newest before them; dark grey: there is none.`;
    const {w, h} = inside(plot), key = state.layer + ' ' + document.documentElement.className;
    if (run.layers.includes(state.layer)) {
      if (!run.pictures.has(key))
        run.pictures.set(key, picture(run.points, run.experts, (p, e) => loadOfPoint(run, state.layer, p, e)));
      const x = kLeft + (run.edges[0] - first) / (last + 1 - first) * w;
      context.imageSmoothingEnabled = false;
      context.drawImage(run.pictures.get(key), x, kTop, (run.edges[run.points] - run.edges[0]) / (last + 1 - first) * w, h);
    }
    axes(context, plot, stepTicks(), [[0, '0'], [1, String(run.experts - 1)]], 'step', 'expert');
    crosshair(context, plot);
  };
  plot.say = (x, y) => {
    const step = first + Math.floor(x * (last + 1 - first)), expert = Math.floor(y * run.experts);
    return `step ${step}, layer ${state.layer}, expert ${expert}\nload ${short(loadAt(run, state.layer, step, expert))} fair shares`;
  };
  addPlot(section, plot);
}

function addLoadNow(section, run) {
  const plot = {title: 'Expert load at the step', height: 60 + Math.max(60, Math.min(260, 22 * run.layers.length)), over: 'experts'};
  plot.draw = context => {
    plot.what.textContent = `All MoE layers at step ${state.step}, load in fair shares, ${origin(run)}; colours as above.`;
    const {w, h} = inside(plot), p = pointAt(run, state.step), n = run.layers.length;
    context.imageSmoothingEnabled = false;
    if (p >= 0 && n) context.drawImage(picture(run.experts, n, (e, l) => loadOfPoint(run, run.layers[l], p, e)), kLeft, kTop, w, h);
    axes(context, plot, [[0, '0'], [1, String(run.experts - 1)]],
         run.layers.map((layer, l) => [(l + 0.5) / n, String(layer)]).filter((tick, l) => l % Math.ceil(n / 10) === 0), 'expert', 'layer');
  };
  plot.say = (x, y) => {
    const layer = run.layers[Math.floor(y * run.layers.length)], expert = Math.floor(x * run.experts);
    return `step ${state.step}, layer ${layer}, expert ${expert}\nload ${short(loadAt(run, layer, state.step, expert))} fair shares`;
  };
  addPlot(section, plot);
}

function addFindings(section, run) {
  const figure = document.createElement('figure'), title = document.createElement('h3'), list = document.createElement('ul');
  title.textContent = run.findings.length ? 'Findings' : 'No findings';
  for (const finding of run.findings) {
    const item = document.createElement('li'), button = document.createElement('button'), small = document.createElement('small');
    button.textContent = `${finding.severity}: ${finding.title}`;
    small.textContent = `steps ${finding.first} to ${finding.last}. ${finding.saw} ${finding.why}`;
    button.append(small);
    button.addEventListener('click', () => goTo(finding.first));
    item.append(button);
    list.append(item);
  }
  figure.append(title, list);
  section.append(figure);
}

function addRun(run, i) {
  const section = document.createElement('section'), name = document.createElement('h2'), source = document.createElement('p');
  name.textContent = `${String.fromCharCode(65 + i)}: ${run.name}`;
  source.textContent = `${run.source}; ${run.layers.length} MoE layers, ${run.experts} experts, ${run.top_k} for each token`;
  section.append(name, source);
  addLoss(section, run);
  addLoadOverTime(section, run);
  addLoadNow(section, run);
  addBalance(section, run);
  addFindings(section, run);
  document.getElementById('runs').append(section);
}

function how() {
  const points = runs.map((run, i) => {
    const widest = Math.ceil((run.edges[run.points] - run.edges[0]) / run.points);
    return String.fromCharCode(65 + i) + (widest > 1 ? `: ${run.points} points, each the mean of up to ${widest} steps` : ': every step');
  });
  return `What is written: ${points.join('; ')}. Loss and MaxVio as float32; load as 8 bits of the largest expert of its layer ` +
      `and step, so off by at most 0.2 % of that. A plot narrower than its points draws one of those that share a pixel. ` +
      `A fair share is the load of an expert if all had as much.`;
}

let asked = false;
function draw() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(drawNow);
}
function drawNow() {
  asked = false;
  document.getElementById('scrub').value = state.step;
  document.getElementById('step').textContent = `step ${state.step} of ${first} to ${last}`;
  for (const plot of plots) plot.draw(begin(plot));
}
function goTo(step) {
  state.step = Math.max(first, Math.min(last, step));
  draw();
}
function stride() { return Math.max(1, Math.round((last + 1 - first) / Math.max(...runs.map(run => run.points)))); }

let due = 0;
function playOn(now) {
  if (!state.playing) return;
  const points = Math.floor((now - due) * Number(document.getElementById('speed').value) / 1000);
  if (points > 0) {
    due = now;
    goTo(state.step + points * stride());
  }
  if (state.step >= last) play(false); else requestAnimationFrame(playOn);
}
function play(on) {
  state.playing = on;
  document.getElementById('play').textContent = on ? 'Pause' : 'Play';
  if (!on) return;
  if (state.step >= last) goTo(first);
  due = performance.now();
  requestAnimationFrame(playOn);
}
function changeTheme() {
  document.documentElement.classList.toggle('dark');
  draw();
}

function onKey(event) {
  if (event.target.tagName === 'SELECT' || event.ctrlKey || event.altKey || event.metaKey) return;
  const actions = {
    ' ': () => play(!state.playing), ArrowLeft: () => goTo(state.step - stride()), ArrowRight: () => goTo(state.step + stride()),
    Home: () => goTo(first), End: () => goTo(last), l: changeTheme, L: changeTheme
  };
  if (!actions[event.key]) return;
  event.preventDefault();
  actions[event.key]();
}

function start() {
  if (matchMedia('(prefers-color-scheme: dark)').matches) document.documentElement.classList.add('dark');
  document.title = `MoEscope replay: ${runs.map(run => run.name).join(', ')}`;
  document.getElementById('how').textContent = how();
  const choice = document.getElementById('layer'), scrub = document.getElementById('scrub');
  for (const layer of layers) choice.add(new Option(String(layer), String(layer)));
  choice.addEventListener('change', () => { state.layer = Number(choice.value); draw(); });
  scrub.min = first;
  scrub.max = last;
  scrub.addEventListener('input', () => goTo(Number(scrub.value)));
  document.getElementById('play').addEventListener('click', () => play(!state.playing));
  document.getElementById('theme').addEventListener('click', changeTheme);
  addEventListener('keydown', onKey);
  addEventListener('resize', draw);
  runs.forEach(addRun);
  drawNow();
}
start();
