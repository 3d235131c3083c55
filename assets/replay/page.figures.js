// The figures of each run. All runs use the same scales, so that they can be compared side by side.
const lossOfAll = extent(runs.flatMap(run => [...extent(run.loss), ...extent(run.val_loss)]));
const largestMaxVio = Math.max(0.1, ...runs.flatMap(run => [extent(run.max_vio)[1], extent(run.max_vio_window)[1]]));

function addLoss(run) {
  const margin = 0.03 * (lossOfAll[1] - lossOfAll[0]) || 1, low = lossOfAll[0] - margin, high = lossOfAll[1] + margin;
  const plot = {kind: 'loss', title: 'Loss', height: 200, over: 'steps'};
  plot.words = () => `Cross-entropy of the batch and of held-out batches; ${lossUnit(run)}, ${origin(run)}. ` +
      `Now ${steady(lossAt(run, state.step))}.`;
  plot.draw = context => {
    axes(context, plot, stepTicks(), linearTicks(low, high), 'step', lossUnit(run));
    line(context, plot, run, p => run.loss[p], low, high, colours.a, 1.5);
    line(context, plot, run, p => run.val_loss[p], low, high, colours.b, 2);
    keys(context, plot, [[colours.a, 'batch'], [colours.b, 'held-out']]);
  };
  plot.say = x => {
    const step = stepOfShare(x), p = pointAt(run, step);
    return `step ${step}\nloss ${short(lossAt(run, step))} ${lossUnit(run)}` +
        (p >= 0 && isFinite(run.val_loss[p]) ? `\nheld-out loss ${short(run.val_loss[p])} ${lossUnit(run)}` : '');
  };
  addPlot(run, plot);
}

function addBalance(run) {
  const plot = {kind: 'balance', title: 'Balance over steps', height: 190, over: 'steps'}, high = 1.05 * largestMaxVio;
  plot.words = () => `MaxVio of layer ${state.layer}: load of the fullest expert over the fair share, minus 1; 0 is even; ` +
      `${origin(run)}. Now ${steady(maxVioAt(run, state.layer, state.step))}.`;
  plot.draw = context => {
    axes(context, plot, stepTicks(), linearTicks(0, high), 'step', 'MaxVio (ratio)');
    line(context, plot, run, p => ofLayer(run, run.max_vio, state.layer, p), 0, high, colours.b, 1.2);
    line(context, plot, run, p => ofLayer(run, run.max_vio_window, state.layer, p), 0, high, colours.a, 1.8);
    keys(context, plot, [[colours.b, 'one batch'], [colours.a, run.window ? `last ${run.window} steps` : 'window']]);
  };
  plot.say = x => {
    const step = stepOfShare(x);
    return `step ${step}, layer ${state.layer}\nMaxVio, batch ${short(maxVioAt(run, state.layer, step))}` +
        `\nMaxVio, window ${short(ofLayer(run, run.max_vio_window, state.layer, pointAt(run, step)))}`;
  };
  addPlot(run, plot);
}

function addLoadOverTime(run) {
  const plot = {kind: 'load over steps', title: 'Expert load over steps', height: 230, over: 'steps', shape: () => run.experts};
  plot.words = () => `Layer ${state.layer}, load in fair shares, ${origin(run)}. Black: no token. Steps without load show the ` +
      `newest load before them. Grey: not recorded.`;
  plot.draw = context => {
    if (run.layers.includes(state.layer))
      drawOverSteps(context, plot, keptPicture(run, 'load ' + state.layer, run.points, run.experts, 'load',
                                               (p, e) => loadCode(loadOfPoint(run, state.layer, p, e))));
    axes(context, plot, stepTicks(), [[0, '0'], [1, String(run.experts - 1)]], 'step', 'expert');
    legend(context, plot, 'load', '1/8 and less', '8 and more');
  };
  plot.say = (x, y) => {
    const step = stepOfShare(x), expert = Math.floor(y * run.experts);
    return `step ${step}, layer ${state.layer}, expert ${expert}\nload ${short(loadAt(run, state.layer, step, expert))} fair shares`;
  };
  addPlot(run, plot);
}

function addLoadNow(run) {
  const n = run.layers.length, height = 70 + Math.max(60, Math.min(260, 22 * n));
  const plot = {kind: 'load at step', title: 'Expert load at the step', height, over: 'experts', shape: () => `${n} ${run.experts}`};
  plot.words = () => `All MoE layers at step ${state.step}, load in fair shares, ${origin(run)}; colours as in the plot above.`;
  plot.draw = context => {
    const {w, h} = inside(plot), p = pointAt(run, state.step);
    if (p >= 0)
      context.drawImage(picture(run.experts, n, luts.load, (e, l) => loadCode(loadOfPoint(run, run.layers[l], p, e))), kLeft, kTop, w, h);
    axes(context, plot, [[0, '0'], [1, String(run.experts - 1)]], rowTicks(run.layers.map(String)), 'expert', 'layer');
    legend(context, plot, 'load', '1/8 and less', '8 and more');
  };
  plot.say = (x, y) => {
    const layer = run.layers[Math.floor(y * n)], expert = Math.floor(x * run.experts);
    return `step ${state.step}, layer ${layer}, expert ${expert}\nload ${short(loadAt(run, layer, state.step, expert))} fair shares`;
  };
  plot.choose = (x, y) => chooseLayer(run.layers[Math.floor(y * n)]);
  addPlot(run, plot);
}

function addMaxVioOfLayers(run) {
  const n = run.layers.length, height = 70 + Math.max(60, Math.min(260, 22 * n));
  const plot = {kind: 'MaxVio of layers', title: 'MaxVio of all layers', height, over: 'steps', shape: () => n};
  plot.words = () => `MaxVio of the batch in every MoE layer, 0 is even, ${origin(run)}. Steps without load show the newest load before them.`;
  plot.draw = context => {
    drawOverSteps(context, plot, keptPicture(run, 'MaxVio', run.points, n, 'amount', (p, l) => {
      const kept = l * run.points + run.newest[l * run.points + p];
      return vioCode(run.max_vio[kept]);
    }));
    axes(context, plot, stepTicks(), rowTicks(run.layers.map(String)), 'step', 'layer');
    legend(context, plot, 'amount', '0', `${kHighestVio} and more`);
  };
  plot.say = (x, y) => {
    const step = stepOfShare(x), layer = run.layers[Math.floor(y * n)];
    return `step ${step}, layer ${layer}\nMaxVio, batch ${short(maxVioAt(run, layer, step))}`;
  };
  plot.choose = (x, y) => chooseLayer(run.layers[Math.floor(y * n)]);
  addPlot(run, plot);
}

function addAllToAll(run) {
  const {ranks, per_node, dim, steps} = run.matrices, tall = 70 + Math.max(140, Math.min(300, 24 * ranks));
  const plot = {kind: 'all-to-all', title: 'All-to-all', height: tall, over: 'ranks', shape: () => ranks};
  const bytes = copies => dim > 0 ? `, ${byteText(2 * dim * copies)} in BF16` : '';
  let largest = 0, largestOf = null;
  plot.words = () => {
    const m = newestAt(steps, state.step), when = m < 0 ? `Not counted up to step ${state.step}. ` : `Step ${steps[m]}, layer ${state.layer}: `;
    const one = state.exchange === 'copies' ? 'one per chosen expert (standard)' : 'one per rank of the chosen experts (DeepEP)';
    return when + `token copies that dispatch sends from rank to rank, ${one}, counted from the routing` +
        `${dim > 0 ? `; a copy is ${2 * dim} bytes in BF16` : ''}. Copies on the pale diagonal stay on their rank. Lines separate nodes.`;
  };
  plot.draw = context => {
    if (largestOf !== state.layer) {
      largest = Math.max(1, ...runs.map(each => largestCopies(each, state.layer)));
      largestOf = state.layer;
    }
    const {w, h} = inside(plot), names = Array.from({length: ranks}, (_, r) => String(r));
    context.drawImage(picture(ranks, ranks, luts.amount, (to, from) => {
      const copies = copiesAt(run, state.exchange, state.layer, state.step, from, to);
      return copies === 0 ? 0 : codeOf(copies / largest);
    }), kLeft, kTop, w, h);
    context.fillStyle = colours.surface;
    context.globalAlpha = 0.5;
    for (let r = 0; r < ranks; ++r) context.fillRect(kLeft + r / ranks * w, kTop + r / ranks * h, w / ranks, h / ranks);
    context.globalAlpha = 1;
    context.strokeStyle = colours.ink;
    context.lineWidth = 1;
    for (let r = per_node; per_node > 0 && r < ranks; r += per_node)
      for (const [width, height] of [[Math.round(r / ranks * w), h], [w, Math.round(r / ranks * h)]])
        context.strokeRect(kLeft + 0.5, kTop + 0.5, width, height);
    axes(context, plot, rowTicks(names), rowTicks(names), 'to rank', 'from rank');
    legend(context, plot, 'amount', '0', `${short(largest)} copies`);
  };
  plot.say = (x, y) => {
    const from = Math.floor(y * ranks), to = Math.floor(x * ranks), copies = copiesAt(run, state.exchange, state.layer, state.step, from, to);
    const m = newestAt(steps, state.step);
    return `step ${m < 0 ? state.step : steps[m]}, layer ${state.layer}\nrank ${from} to ${from === to ? 'itself: not moved' : `rank ${to}`}\n` +
        (isFinite(copies) ? `${short(Math.round(copies))} copies${bytes(copies)}, ${state.exchange === 'copies' ? 'standard' : 'DeepEP'}` : 'not counted');
  };
  addPlot(run, plot);
}

// Returns the layers and operands of the chosen class of GEMMs.
function operandGrid(run) {
  const list = run.operands.list.filter(each => each.gemms === state.gemms);
  return {rows: [...new Set(list.map(each => each.layer))].sort((a, b) => a - b), columns: [...new Set(list.map(each => each.name))]};
}
function layerName(layer) { return layer < 0 ? 'head' : String(layer); }

function addQuantizationError(run) {
  const deepest = Math.max(1, ...page.gemms.map(gemms => new Set(run.operands.list.filter(each => each.gemms === gemms).map(each => each.layer)).size));
  const height = 100 + Math.max(60, Math.min(300, 24 * deepest));
  const plot = {kind: 'quantization error', title: 'Quantization error', height, bottom: 64, over: 'operands'};
  plot.shape = () => { const {rows, columns} = operandGrid(run); return `${state.gemms} ${rows} ${columns}`; };
  const [strong, pale] = page.sqnr_scale;  // dB, the same for all runs
  plot.words = () => {
    const m = newestAt(run.operands.steps, state.step);
    return (m < 0 ? `Not measured up to step ${state.step}. ` : `Step ${run.operands.steps[m]}: `) +
        `SQNR of every operand of ${state.gemms} in dB, ${origin(run)}. A strong colour is a large error. A click chooses the operand.`;
  };
  plot.draw = context => {
    const {rows, columns} = operandGrid(run), {w, h} = inside(plot);
    const cellW = w / columns.length, cellH = h / rows.length;
    context.textAlign = 'center';
    rows.forEach((layer, r) => columns.forEach((name, c) => {
      const operand = operandOf(run, state.gemms, layer, name), now = operand && operandAt(run, operand, state.step);
      const colour = now ? luts.quality[now.sqnr === Infinity ? 254 : codeOf((now.sqnr - strong) / (pale - strong))] : luts.quality[255];
      context.fillStyle = `rgb(${colour.join()})`;
      context.fillRect(kLeft + c * cellW, kTop + r * cellH, Math.max(1, cellW - 1), Math.max(1, cellH - 0.5));
      if (!now || cellW < 27 || cellH < 13) return;
      context.fillStyle = colour[0] + colour[1] + colour[2] > 330 ? '#000' : '#fff';
      context.fillText(now.sqnr === Infinity ? 'exact' : now.sqnr.toFixed(1), kLeft + (c + 0.5) * cellW, kTop + (r + 0.5) * cellH + 4);
    }));
    axes(context, plot, [], rowTicks(rows.map(layerName)), '', 'layer');
    operandNames(context, plot, columns);
    outlineChosen(context, plot, rows, columns);
    legend(context, plot, 'quality', `${strong} dB`, `${pale} dB`);
  };
  plot.say = (x, y) => {
    const {rows, columns} = operandGrid(run), layer = rows[Math.floor(y * rows.length)], name = columns[Math.floor(x * columns.length)];
    const operand = operandOf(run, state.gemms, layer, name), now = operand && operandAt(run, operand, state.step);
    const where = `layer ${layerName(layer)}, ${state.gemms} ${name}`;
    return now ? `step ${now.step}, ${where}, ${now.format}\nSQNR ${short(now.sqnr)} dB\nunderflow ${percent(now.underflow)} of values\n` +
        `clipped ${percent(now.clipped)} of values` : `${where}\nnot measured`;
  };
  plot.choose = (x, y) => {
    const {rows, columns} = operandGrid(run);
    chooseOperand(rows[Math.floor(y * rows.length)], columns[Math.floor(x * columns.length)]);
  };
  addPlot(run, plot);
}

// Writes the operand below each column, and below groups of columns the direction and the GEMM.
const kBriefly = {forward: 'fwd', dgrad: 'dx', wgrad: 'dw', dispatch: 'disp', combine: 'comb'};
function operandNames(context, plot, columns) {
  const {w, h} = inside(plot), cellW = w / columns.length;
  context.fillStyle = colours.ink2;
  const words = columns.map(name => name.split(' '));  // GEMM, operand, direction
  words.forEach(([, operand], c) => context.fillText(operand, kLeft + (c + 0.5) * cellW, kTop + h + 13));
  for (const [line, same, text] of [[1, (a, b) => a[0] === b[0] && a[2] === b[2], of => of[2]], [2, (a, b) => a[0] === b[0], of => of[0]]])
    for (let c = 0; c < words.length;) {
      let end = c + 1;
      while (end < words.length && same(words[c], words[end])) ++end;
      const name = text(words[c]), room = (end - c) * cellW - 3;
      const fitting = [name, kBriefly[name] ?? name, name[0]].find(part => context.measureText(part).width < room) ?? '';
      context.fillText(fitting, kLeft + (c + end) / 2 * cellW, kTop + h + 13 + 16 * line);
      c = end;
    }
}
function outlineChosen(context, plot, rows, columns) {
  const {w, h} = inside(plot), r = rows.indexOf(state.operand?.layer), c = columns.indexOf(state.operand?.name);
  if (r < 0 || c < 0) return;
  context.strokeStyle = colours.ink;
  context.lineWidth = 2;
  context.strokeRect(kLeft + c / columns.length * w, kTop + r / rows.length * h, w / columns.length - 1, h / rows.length - 0.5);
}

function chosenOperand(run) { return state.operand ? operandOf(run, state.gemms, state.operand.layer, state.operand.name) : undefined; }
function chosenName() { return state.operand ? `layer ${layerName(state.operand.layer)}, ${state.gemms} ${state.operand.name}` : 'no operand'; }
// Returns the range of the scale bytes of the chosen operand over all runs; null without scales.
function scaleBytes() {
  const found = runs.map(chosenOperand).filter(operand => operand?.bins);
  if (!found.length) return null;
  return [Math.min(...found.map(each => each.first)), Math.max(...found.map(each => each.first + each.bins - 1))];
}
function scaleText(run, operand, byte) {
  const now = operandAt(run, operand, state.step);
  return now && run.operands.powers_of_two.includes(now.format) ? `scale 2^${byte - 127} (byte ${byte})`
                                                                : `scales from 2^${byte - 127} to under 2^${byte - 126}`;
}
function exponentTicks([low, high]) {
  const every = Math.max(1, Math.ceil((high - low + 1) / 8)), ticks = [];
  for (let byte = low; byte <= high; ++byte)
    if ((byte - 127) % every === 0) ticks.push([(byte - low + 0.5) / (high - low + 1), String(byte - 127)]);
  return ticks;
}
function whyNoScales(run) {
  const operand = chosenOperand(run);
  return operand?.bins ? '' : sentence(`${chosenName()} ${operand ? 'has no block scales' : 'is not quantized'} in this run.`);
}

function addScalesOverSteps(run) {
  const plot = {kind: 'scales over steps', title: 'Block scales over steps', height: 220, over: 'steps', shape: () => String(scaleBytes())};
  plot.isEmpty = () => whyNoScales(run) !== '';
  plot.words = () => whyNoScales(run) ||
      `${sentence(chosenName())}: share of blocks by log2 of the scale, ${origin(run)}. Between two measured steps the earlier one is shown.`;
  plot.draw = context => {
    const bytes = scaleBytes(), operand = chosenOperand(run);
    const [low, high] = bytes, steps = run.operands.steps;
    drawOverSteps(context, plot, keptPicture(run, `scales ${operand.o} ${bytes}`, run.points, high - low + 1, 'amount', (p, row) => {
      const m = newestAt(steps, run.edges[p + 1] - 1);
      return m < 0 || run.operands.format[m * run.operands.list.length + operand.o] === 255 ? 255 : scaleCodeAt(run, operand, m, high - row);
    }));
    axes(context, plot, stepTicks(), exponentTicks(bytes).map(([at, text]) => [1 - at, text]), 'step', 'log2 of the scale');
    legend(context, plot, 'amount', '0.001 %', '100 % of blocks');
  };
  plot.say = (x, y) => {
    const why = whyNoScales(run);
    if (why) return why;
    const [low, high] = scaleBytes(), byte = high - Math.floor(y * (high - low + 1)), step = stepOfShare(x), operand = chosenOperand(run);
    const now = operandAt(run, operand, step);
    return `${chosenName()}\n${now ? `step ${now.step}, ${now.format}` : 'not measured'}\n${scaleText(run, operand, byte)}: ` +
        `${percent(scaleShareAt(run, operand, step, byte))} of blocks`;
  };
  addPlot(run, plot);
}

function addScalesNow(run) {
  const plot = {kind: 'scales at step', title: 'Block scale histogram at the step', height: 200, over: 'scales', shape: () => String(scaleBytes())};
  plot.isEmpty = () => !measured();
  const measured = () => whyNoScales(run) ? undefined : operandAt(run, chosenOperand(run), state.step);
  plot.words = () => {
    const now = measured();
    return whyNoScales(run) || (now ? `Step ${now.step}, ${chosenName()}, ${now.format}, ${origin(run)}. Not shown: blocks with NaN or Inf ` +
        `(${percent(now.nan_blocks)}), and blocks with the smallest scale, 2^-127, mostly zeros (${percent(now.least_blocks)}).` : `Not measured up to step ${state.step}.`);
  };
  plot.draw = context => {
    const bytes = scaleBytes(), operand = chosenOperand(run);
    const [low, high] = bytes, {w, h} = inside(plot), n = high - low + 1;
    const shares = Array.from({length: n}, (_, i) => scaleShareAt(run, operand, state.step, low + i)), top = Math.min(1, 1.1 * Math.max(0.01, ...shares));
    context.fillStyle = colours.a;
    shares.forEach((share, i) => context.fillRect(kLeft + i / n * w + 1, kTop + h * (1 - share / top), Math.max(1, w / n - 2), h * share / top));
    axes(context, plot, exponentTicks(bytes), [0, 0.5, 1].map(y => [y, `${Number(((1 - y) * 100 * top).toPrecision(2))} %`]), 'log2 of the scale', 'share of blocks');
  };
  plot.say = x => {
    const why = whyNoScales(run);
    if (why) return why;
    const [low, high] = scaleBytes(), byte = low + Math.floor(x * (high - low + 1)), operand = chosenOperand(run);
    return `${scaleText(run, operand, byte)}\n${percent(scaleShareAt(run, operand, state.step, byte))} of blocks`;
  };
  addPlot(run, plot);
}

function addFindings(run) {
  const figure = document.createElement('figure'), title = document.createElement('h3'), list = document.createElement('ul');
  title.textContent = (runs.length > 1 ? letter(runs.indexOf(run)) + ': ' : '') + (run.findings.length ? 'Findings' : 'No findings');
  for (const finding of run.findings) {
    const item = document.createElement('li'), button = document.createElement('button'), small = document.createElement('small');
    button.textContent = `${finding.severity}: ${finding.title}`;
    small.textContent = `steps ${finding.first} to ${finding.last}. ${finding.observation} ${finding.why}`;
    button.append(small);
    button.addEventListener('click', () => goTo(finding.first));
    item.append(button);
    list.append(item);
  }
  figure.append(title, list);
  document.getElementById('plots').append(figure);
}

// Adds figure by figure, so that the figures of two runs are side by side. One line says which data a run lacks.
const kHasLoad = [run => run.layers.length && run.experts, 'This recording has no expert load.'];
const kHasMatrices = [run => run.matrices, 'This recording has no copies between ranks.'];
const kHasOperands = [run => run.operands, 'This recording has no quantization statistics.'];
const kFigures = [
  [addLoss, 'Loss', () => true], [addLoadOverTime, 'Expert load over steps', ...kHasLoad],
  [addLoadNow, 'Expert load at the step', ...kHasLoad], [addBalance, 'Balance over steps', ...kHasLoad],
  [addMaxVioOfLayers, 'MaxVio of all layers', ...kHasLoad], [addAllToAll, 'All-to-all', ...kHasMatrices],
  [addQuantizationError, 'Quantization error', ...kHasOperands], [addScalesOverSteps, 'Block scales over steps', ...kHasOperands],
  [addScalesNow, 'Block scale histogram at the step', ...kHasOperands], [addFindings, 'Findings', () => true]
];
function addFigures() {
  for (const [add, title, has, lacks] of kFigures)
    if (runs.some(has)) runs.forEach(run => has(run) ? add(run) : addPlot(run, {kind: 'nothing', title, lacks}));
}
