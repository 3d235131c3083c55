// Plots: position on the page, axes, colours, crosshair and the text at the pointer.

const state = {step: last, layer: layers[0], exchange: 'copies', gemms: '', operand: null, hover: null, playing: false};
const plots = [], colours = {};
const kLeft = 58, kRight = 10, kTop = 22, kBottom = 34;

function dark() { return document.documentElement.classList.contains('dark'); }
function readColours() {
  const style = getComputedStyle(document.documentElement);
  const value = name => style.getPropertyValue('--' + name).trim();
  for (const name of ['window', 'surface', 'ink', 'ink2', 'grid', 'a', 'b', 'type', 'caption']) colours[name] = value(name);
  for (const name of ['load', 'matrix', 'no-data', 'zero-load']) scales[name] = value(name).split(' ').map(channels);
  for (const name of Object.keys(kScales)) luts[name] = lutOf(kScales[name]());
}

// Colour scales by code: 0 is none, 1 to 254 are along the scale, 255 is unknown. The strong end of a matrix scale means
// more copies, or a lower SQNR.
const scales = {};
const kScales = {
  // A load of 1/8 fair share and less is blue, 8 fair shares and more is orange.
  load: () => ({zero: scales['zero-load'][0], along: share => between(scales.load, share)}),
  amount: () => ({zero: scales.matrix[0], along: share => between(scales.matrix, share)}),
  quality: () => ({zero: scales['zero-load'][0], along: share => between(scales.matrix, 1 - share)})
};
function channels(hex) { return [1, 3, 5].map(at => parseInt(hex.slice(at, at + 2), 16)); }
const luts = {};
function between(anchors, share) {
  const at = share * (anchors.length - 1), i = Math.min(anchors.length - 2, Math.floor(at));
  return anchors[i].map((value, k) => value + (at - i) * (anchors[i + 1][k] - value));
}
function lutOf({zero, along}) {
  const lut = [zero.map(Math.round)];
  for (let code = 1; code < 255; ++code) lut.push(along((code - 1) / 253).map(Math.round));
  lut.push(scales['no-data'][0]);
  return lut;
}
function codeOf(share) { return Number.isNaN(share) ? 255 : 1 + Math.round(253 * Math.max(0, Math.min(1, share))); }
function loadCode(utilisation) { return utilisation === 0 ? 0 : codeOf((Math.log2(utilisation) + 3) / 6); }
const kHighestVio = 8;
function vioCode(vio) { return codeOf(Math.log2(1 + Math.max(0, vio)) / Math.log2(1 + kHighestVio)); }

function picture(width, height, lut, codeAt) {
  const canvas = document.createElement('canvas');
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext('2d'), image = context.createImageData(width, height), data = image.data;
  for (let y = 0, i = 0; y < height; ++y)
    for (let x = 0; x < width; ++x, i += 4) {
      const colour = lut[codeAt(x, y)];
      data[i] = colour[0];
      data[i + 1] = colour[1];
      data[i + 2] = colour[2];
      data[i + 3] = 255;
    }
  context.putImageData(image, 0, 0);
  return canvas;
}
// Returns a picture that is kept for all steps; `key` identifies its content.
function keptPicture(run, key, width, height, scale, codeAt) {
  const full = `${key} ${dark()}`;
  if (!run.pictures.has(full)) run.pictures.set(full, picture(width, height, luts[scale], codeAt));
  return run.pictures.get(full);
}

// Adds a plot of a run. `kind` is the same for all runs; plots of the same kind and `shape` share the hover position. `over`
// is 'steps' for time axes. words() returns the description, draw(context) paints, say(x, y) returns lines of text for a
// position, 0 to 1 from the left and the top. If there is nothing to draw, isEmpty() is true and words() gives the reason.
function addPlot(run, plot) {
  const figure = document.createElement('figure'), title = document.createElement('h3'), what = document.createElement('p');
  title.textContent = runs.length > 1 ? `${letter(runs.indexOf(run))}: ${plot.title}` : plot.title;
  figure.dataset.plot = `${plot.kind} ${letter(runs.indexOf(run))}`;
  figure.append(title, what);
  document.getElementById('plots').append(figure);
  if (plot.lacks) {
    what.textContent = plot.lacks;
    return;
  }
  Object.assign(plot, {run, what, bottom: plot.bottom ?? kBottom, canvas: document.createElement('canvas')});
  plot.canvas.style.height = plot.height + 'px';
  figure.append(plot.canvas);
  for (const name of ['pointermove', 'pointerdown']) plot.canvas.addEventListener(name, event => hover(plot, event));
  plot.canvas.addEventListener('pointerleave', event => { if (event.pointerType === 'mouse') endHover(); });
  plot.canvas.addEventListener('click', event => {
    const {x, y, within} = placeOf(plot, event);
    if (!within) return;
    if (plot.over === 'steps') goTo(stepOfShare(x));
    plot.choose?.(x, y);
  });
  plots.push(plot);
}
function inside(plot) { return {w: plot.canvas.clientWidth - kLeft - kRight, h: plot.height - kTop - plot.bottom}; }
function placeOf(plot, event) {
  const {w, h} = inside(plot), x = (event.offsetX - kLeft) / w, y = (event.offsetY - kTop) / h;
  return {x, y, within: x >= 0 && x < 1 && y >= 0 && y < 1};
}
function stepX(plot, step) { return kLeft + (step + 0.5 - first) / (last + 1 - first) * inside(plot).w; }
function stepOfShare(x) { return Math.max(first, Math.min(last, first + Math.floor(x * (last + 1 - first)))); }

const tip = document.getElementById('tip');
function hover(plot, event) {
  const {x, y, within} = placeOf(plot, event);
  if (!within) return endHover();
  state.hover = {kind: plot.kind, shape: plot.shape?.(), over: plot.over, x, y};
  tip.textContent = plots.filter(other => isHovered(other))
      .map(other => (runs.length > 1 ? letter(runs.indexOf(other.run)) + ': ' : '') + other.say(x, y)).join('\n\n');
  tip.hidden = false;
  tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 4)) + 'px';
  tip.style.top = Math.max(4, Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 4)) + 'px';
  draw();
}
function endHover() {
  state.hover = null;
  tip.hidden = true;
  draw();
}
function isHovered(plot) { return state.hover?.kind === plot.kind && state.hover.shape === plot.shape?.(); }

function begin(plot) {
  const scale = devicePixelRatio || 1, canvas = plot.canvas, width = canvas.clientWidth;
  if (canvas.width !== Math.round(width * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(plot.height * scale);
  }
  const context = canvas.getContext('2d');
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, plot.height);
  context.font = `${colours.caption} ${colours.type}`;
  context.imageSmoothingEnabled = false;
  return context;
}

function axes(context, plot, xTicks, yTicks, xName, yName) {
  const {w, h} = inside(plot);
  context.strokeStyle = colours.grid;
  context.fillStyle = colours.ink2;
  context.lineWidth = 1;
  context.strokeRect(kLeft + 0.5, kTop + 0.5, w, h);
  context.textAlign = 'center';
  for (const [x, text] of xTicks) context.fillText(text, Math.min(Math.max(kLeft + x * w, kLeft + 8), kLeft + w - 12), kTop + h + 14);
  context.textAlign = 'right';
  context.fillText(xName, kLeft + w, kTop + h + plot.bottom - 5);
  context.textAlign = 'right';
  for (const [y, text] of yTicks) context.fillText(text, kLeft - 5, Math.min(Math.max(kTop + y * h + 4, kTop + 9), kTop + h));
  context.textAlign = 'left';
  context.fillText(yName, 0, 14);
}
function stepTicks() {
  return [0, 0.25, 0.5, 0.75, 1].map(x => [x, String(Math.round(first + x * (last - first)))])
      .filter(([, text], i, all) => i === 0 || text !== all[i - 1][1]);
}
function linearTicks(low, high) { return [0, 0.5, 1].map(y => [y, short(high - y * (high - low))]); }
function rowTicks(names) {
  return names.map((name, i) => [(i + 0.5) / names.length, name]).filter((tick, i) => i % Math.ceil(names.length / 10) === 0);
}

// Draws the colour scale at the top right of the plot, with the texts of its ends.
function legend(context, plot, scale, low, high) {
  const right = kLeft + inside(plot).w, width = 84;
  context.fillStyle = colours.ink2;
  context.textAlign = 'right';
  context.fillText(high, right, 14);
  const end = right - context.measureText(high).width - 5;
  context.fillText(low, end - width - 5, 14);
  for (let i = 0; i < width; ++i) {
    context.fillStyle = `rgb(${luts[scale][codeOf(i / (width - 1))].join()})`;
    context.fillRect(end - width + i, 6, 1.5, 9);
  }
}

// Draws the legend of the lines in the same place.
function keys(context, plot, names) {
  let right = kLeft + inside(plot).w;
  context.textAlign = 'right';
  for (const [colour, name] of [...names].reverse()) {
    context.fillStyle = colours.ink2;
    context.fillText(name, right, 14);
    right -= context.measureText(name).width + 5;
    context.fillStyle = colour;
    context.fillRect(right - 16, 9, 16, 3);
    right -= 28;
  }
}

function crosshair(context, plot) {
  const {w, h} = inside(plot);
  const stroke = (x0, y0, x1, y1) => {
    context.beginPath();
    context.moveTo(x0, y0);
    context.lineTo(x1, y1);
    context.stroke();
  };
  context.lineWidth = 1;
  if (plot.over === 'steps') {
    context.strokeStyle = colours.ink;
    stroke(stepX(plot, state.step), kTop, stepX(plot, state.step), kTop + h);
  }
  if (!state.hover) return;
  context.strokeStyle = colours.ink2;
  context.setLineDash([4, 3]);
  if (plot.over === 'steps' && state.hover.over === 'steps') {
    const x = stepX(plot, stepOfShare(state.hover.x));
    stroke(x, kTop, x, kTop + h);
  } else if (isHovered(plot)) {
    stroke(kLeft + state.hover.x * w, kTop, kLeft + state.hover.x * w, kTop + h);
  }
  if (isHovered(plot)) stroke(kLeft, kTop + state.hover.y * h, kLeft + w, kTop + state.hover.y * h);
  context.setLineDash([]);
}

function line(context, plot, run, valueAt, low, high, colour, width) {
  const h = inside(plot).h;
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.beginPath();
  let before = false;
  for (let p = 0; p < run.points; ++p) {
    const value = valueAt(p);
    if (!isFinite(value)) continue;  // steps without a value (another cadence) do not end the line
    const x = stepX(plot, (run.edges[p] + run.edges[p + 1] - 1) / 2), y = kTop + (1 - (value - low) / (high - low)) * h;
    if (before) context.lineTo(x, y); else context.moveTo(x, y);
    before = true;
  }
  context.stroke();
}

// Draws a picture with a column for each point at its position on the time axis.
function drawOverSteps(context, plot, image) {
  const {w, h} = inside(plot), run = plot.run, all = last + 1 - first;
  context.drawImage(image, kLeft + (run.edges[0] - first) / all * w, kTop, (run.edges[run.points] - run.edges[0]) / all * w, h);
}
