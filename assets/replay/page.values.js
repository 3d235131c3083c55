'use strict';
// The runs of #data and their values, which other programs may also read from the page. Shapes: L MoE layers, P points, E
// experts; a point is the mean of the steps [edges[p], edges[p + 1]), usually of one step. Matrices and operands have M
// measured steps, R ranks, O operands; a step shows the newest measured step up to it.

function bytesOf(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
  const text = atob(base64), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) bytes[i] = text.charCodeAt(i);
  return bytes;
}
function floatsOf(base64) {
  const view = new DataView(bytesOf(base64).buffer), floats = new Float32Array(view.byteLength / 4);
  for (let i = 0; i < floats.length; ++i) floats[i] = view.getFloat32(4 * i, true);
  return floats;
}
function decibelsOf(base64) {  // int16 hundredths; the largest number is an exact operand, the smallest no value
  const view = new DataView(bytesOf(base64).buffer), values = new Float32Array(view.byteLength / 2);
  for (let i = 0; i < values.length; ++i) {
    const hundredths = view.getInt16(2 * i, true);
    values[i] = hundredths === 32767 ? Infinity : hundredths === -32768 ? NaN : hundredths / 100;
  }
  return values;
}
// Decodes the value at its first use, so that the first picture does not wait for all data.
function decodeLater(object, key, decode) {
  const text = object[key];
  let value = null;
  Object.defineProperty(object, key, {get: () => value ??= decode(text)});
}

const page = JSON.parse(document.getElementById('data').textContent), runs = page.runs;
for (const run of runs) {
  for (const key of ['loss', 'val_loss', 'max_vio', 'max_vio_window', 'load_max']) run[key] = floatsOf(run[key]);
  decodeLater(run, 'load', bytesOf);
  run.points = run.edges.length - 1;
  run.pictures = new Map();
  // For every point of a layer the newest point with a load, because logs leave out steps.
  run.newest = new Int32Array(run.load_max.length);
  for (let i = 0; i < run.newest.length; ++i)
    run.newest[i] = isFinite(run.load_max[i]) || i % run.points === 0 ? i % run.points : run.newest[i - 1];
  if (run.matrices) {
    for (const exchange of ['copies', 'distinct']) {
      decodeLater(run.matrices, exchange + '_largest', floatsOf);
      decodeLater(run.matrices, exchange, bytesOf);
    }
  }
  if (run.operands) {
    decodeLater(run.operands, 'sqnr', decibelsOf);
    for (const key of ['format', 'underflow', 'clipped', 'nan_blocks', 'least_blocks', 'blocks']) decodeLater(run.operands, key, bytesOf);
    let at = 0;
    run.operands.list = run.operands.list.map(([layer, gemms, gemm, operand, direction, first, bins], o) => {
      at += bins;
      return {o, layer, gemms, gemm, operand, direction, first, bins, begin: at - bins, name: `${gemm} ${operand} ${direction}`};
    });
    run.operands.row = at;
    run.operands.byName = new Map(run.operands.list.map(each => [`${each.gemms} ${each.layer} ${each.name}`, each]));
  }
}
const first = Math.min(...runs.map(run => run.edges[0]));
const last = Math.max(...runs.map(run => run.edges[run.points] - 1));
const layers = [...new Set(runs.flatMap(run => run.layers))].sort((a, b) => a - b);

function extent(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) if (isFinite(value)) { low = Math.min(low, value); high = Math.max(high, value); }
  return [low, high];
}
function pointAt(run, step) {  // index of the newest point that begins at or before the step; -1: the run begins later
  let low = 0, high = run.points;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (run.edges[middle] <= step) low = middle + 1; else high = middle;
  }
  return low - 1;
}
function newestAt(steps, step) {  // index of the newest of `steps` at or before the step; -1: none
  let low = 0, high = steps.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (steps[middle] <= step) low = middle + 1; else high = middle;
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

// Returns the token copies that the dispatch of a layer sends from rank to rank; NaN: not counted. `exchange`: 'copies'
// (standard all-to-all) or 'distinct' (DeepEP).
function copiesAt(run, exchange, layer, step, from, to) {
  if (!run.matrices) return NaN;
  const m = newestAt(run.matrices.steps, step), slot = run.layers.indexOf(layer), ranks = run.matrices.ranks;
  if (m < 0 || slot < 0) return NaN;
  const row = m * run.layers.length + slot;
  return run.matrices[exchange + '_largest'][row] * run.matrices[exchange][(row * ranks + from) * ranks + to] / 255;
}
// Returns the largest entry for the standard all-to-all, which never sends fewer copies than DeepEP: both share a scale.
function largestCopies(run, layer) {
  const slot = run.layers.indexOf(layer);
  return !run.matrices || slot < 0 ? 0 : extent(run.matrices.copies_largest.filter((_, row) => row % run.layers.length === slot))[1];
}

// Returns an operand of a layer by the name of its GEMM, operand and direction; undefined: the run does not quantize it.
function operandOf(run, gemms, layer, name) {
  return run.operands?.byName.get(`${gemms} ${layer} ${name}`);
}
function shareOf(code) { return code === 0 ? 0 : code === 255 ? NaN : 10 ** (-5 * (254 - code) / 253); }
function operandAt(run, operand, step) {  // undefined if it is not measured up to the step
  const table = run.operands, m = newestAt(table.steps, step);
  if (m < 0) return undefined;
  const at = m * table.list.length + operand.o;
  if (table.format[at] === 255) return undefined;
  return {step: table.steps[m], sqnr: table.sqnr[at], underflow: shareOf(table.underflow[at]), clipped: shareOf(table.clipped[at]),
          nan_blocks: shareOf(table.nan_blocks[at]), least_blocks: shareOf(table.least_blocks[at]), format: table.formats[table.format[at]]};
}
// Returns the code of the share of the operand's blocks with the scale 2^(byte - 127), or with scales from there to below
// twice this value.
function scaleCodeAt(run, operand, m, byte) {
  const bin = byte - operand.first;
  return m < 0 || bin < 0 || bin >= operand.bins ? 0 : run.operands.blocks[m * run.operands.row + operand.begin + bin];
}
function scaleShareAt(run, operand, step, byte) {
  return shareOf(scaleCodeAt(run, operand, newestAt(run.operands.steps, step), byte));
}

function short(value) { return isFinite(value) ? String(Number(value.toPrecision(4))) : value === Infinity ? 'exact' : 'none'; }
// Text of constant width for a value that changes during playback.
function steady(value) { return isFinite(value) ? value.toPrecision(4) : short(value); }
function percent(share) { return isFinite(share) ? `${Number((100 * share).toPrecision(3))} %` : 'none'; }
function byteText(bytes) {
  const unit = bytes >= 1e9 ? [1e9, 'GB'] : bytes >= 1e6 ? [1e6, 'MB'] : bytes >= 1e3 ? [1e3, 'kB'] : [1, 'bytes'];
  return `${Number((bytes / unit[0]).toPrecision(3))} ${unit[1]}`;
}
function sentence(text) { return text[0].toUpperCase() + text.slice(1); }
function letter(i) { return String.fromCharCode(65 + i); }
function origin(run) { return run.from_log ? 'from the log' : 'measured here by MoEScope'; }
// The loss of a log is in the unit of the log, usually nats/token.
function lossUnit(run) { return run.from_log ? 'as logged' : 'nats/token'; }
