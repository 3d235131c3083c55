// Controls: step, playback, layer, operand, theme and keys.

let asked = false;
function draw() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => drawNow());
}
// Writes the link that opens these runs in the program at the current step and layer.
function showSetup() {
  const seen = `layer=${state.layer ?? 0}&step=${state.step}&`;
  const link = page.setup.replace(/(layer|expert|step)=\d+&/g, '').replace('config=', seen + 'config=');
  document.querySelector('#setup input').value = link;
  document.querySelector('#setup a').href = link;
}
// Draws the visible plots; `all`: all plots, for printing.
function drawNow(all = false) {
  asked = false;
  document.getElementById('scrub').value = state.step;
  document.getElementById('step').textContent = `step ${state.step} of ${first} to ${last}`;
  if (page.setup) showSetup();
  for (const plot of plots) {
    const words = plot.words();
    if (plot.what.textContent !== words) plot.what.textContent = words;
    plot.canvas.hidden = Boolean(plot.isEmpty?.());
  }
  for (const plot of plots) {
    const box = plot.canvas.getBoundingClientRect();
    if (plot.canvas.hidden || !all && (box.bottom < 0 || box.top > innerHeight)) continue;
    const context = begin(plot);
    plot.draw(context);
    crosshair(context, plot);
  }
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
  readColours();
  draw();
}

function chooseLayer(layer) {
  state.layer = layer;
  document.getElementById('layer').value = layer;
  if (runs.some(run => operandOf(run, state.gemms, layer, state.operand?.name))) state.operand = {layer, name: state.operand.name};
  draw();
}
function layerBy(places) {
  const at = layers.indexOf(state.layer) + places;
  if (at >= 0 && at < layers.length) chooseLayer(layers[at]);
}
function chooseExchange(exchange) {
  state.exchange = exchange;
  document.getElementById('exchange').value = exchange;
  draw();
}
function chooseOperand(layer, name) {
  state.operand = {layer, name};
  draw();
}
// Keeps the chosen layer and operand if the class has them; otherwise chooses its first operand.
function chooseGemms(gemms) {
  state.gemms = gemms;
  const list = runs.flatMap(run => run.operands?.list ?? []).filter(each => each.gemms === gemms);
  const found = list.find(each => each.layer === state.layer && each.name === state.operand?.name) ??
      list.find(each => each.layer === state.layer) ?? list[0];
  state.operand = found ? {layer: found.layer, name: found.name} : null;
  draw();
}

function onKey(event) {
  if (event.target.tagName === 'SELECT' || event.target.readOnly && event.target.type === 'text' || event.ctrlKey || event.altKey || event.metaKey) return;
  const actions = {
    ' ': () => play(!state.playing), ArrowLeft: () => goTo(state.step - stride()), ArrowRight: () => goTo(state.step + stride()),
    Home: () => goTo(first), End: () => goTo(last), n: () => layerBy(1), p: () => layerBy(-1), l: changeTheme,
    d: () => chooseExchange(state.exchange === 'copies' ? 'distinct' : 'copies')
  };
  const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!action) return;
  event.preventDefault();
  action();
}

function addHead(run, i) {
  const head = document.createElement('div'), name = document.createElement('h2'), source = document.createElement('p');
  name.textContent = runs.length > 1 ? `${letter(i)}: ${run.name}` : run.name;
  source.textContent = `${run.source}; ${run.layers.length} MoE layers, ${run.experts} experts, ${run.top_k} for each token`;
  head.className = 'run';
  head.append(name, source);
  if (run.lacks.length) {
    const lacks = document.createElement('p');
    lacks.textContent = `Not in this recording: ${run.lacks.join(', ')}.`;
    head.append(lacks);
  }
  document.getElementById('plots').append(head);
}
function addVerdicts() {
  for (const verdict of page.verdicts) {
    const paragraph = document.createElement('p');
    paragraph.className = 'verdict ' + verdict.severity;
    paragraph.textContent = verdict.sentence;
    document.getElementById('verdicts').append(paragraph);
  }
}

function how() {
  const points = runs.map((run, i) => {
    const widest = Math.ceil(run.logged / run.points);
    return letter(i) + (widest > 1 ? `: ${run.points} points, each the mean of up to ${widest} steps` : ': every step');
  });
  const measured = (name, table) => {
    const found = runs.map((run, i) => run[table] ? `${letter(i)} ${run[table].steps.length}` : '').filter(text => text);
    return found.length ? ` ${name}, measured steps: ${found.join(', ')}.` : '';
  };
  return `Data in this page: ${points.join('; ')}.${measured('All-to-all', 'matrices')}${measured('Quantization', 'operands')} ` +
      `Loss and MaxVio are stored as float32. Load is stored in 8 bits relative to the largest expert of its layer and step, token ` +
      `copies in 8 bits relative to the largest entry of their matrix: the error is at most 0.2 % of the largest. SQNR is stored to ` +
      `0.005 dB, shares of values and blocks in 8 bits as logarithms: the error is at most 2.4 %, and less than 0.001 % is shown as ` +
      `0.001 %. If several points share a pixel, one of them is drawn. ` +
      `A fair share is the load of an expert if all experts had the same load.`;
}

function fill(id, names, choose) {
  const select = document.getElementById(id);
  for (const name of names) select.add(Array.isArray(name) ? new Option(name[1], name[0]) : new Option(String(name), String(name)));
  select.addEventListener('change', () => choose(select.value));
  select.parentElement.hidden = names.length === 0;
}

function start() {
  if (matchMedia('(prefers-color-scheme: dark)').matches) document.documentElement.classList.add('dark');
  readColours();
  document.title = `MoEScope replay: ${runs.map(run => run.name).join(', ')}`;
  document.getElementById('how').textContent = how();
  fill('layer', layers, value => chooseLayer(Number(value)));
  const exchanges = runs.some(run => run.matrices) ? [['copies', 'standard'], ['distinct', 'DeepEP']] : [];
  fill('exchange', exchanges, chooseExchange);
  fill('gemms', page.gemms, chooseGemms);
  if (page.gemms.length) {
    const has_scales = gemms => runs.some(run => run.operands?.list.some(each => each.gemms === gemms && each.bins > 0));
    document.getElementById('gemms').value = page.gemms.find(has_scales) ?? page.gemms[0];
    chooseGemms(document.getElementById('gemms').value);
  }
  const scrub = document.getElementById('scrub');
  scrub.min = first;
  scrub.max = last;
  scrub.addEventListener('input', () => goTo(Number(scrub.value)));
  document.getElementById('play').addEventListener('click', () => play(!state.playing));
  document.getElementById('theme').addEventListener('click', changeTheme);
  addEventListener('keydown', onKey);
  addEventListener('resize', draw);
  addEventListener('scroll', draw, {passive: true});
  addEventListener('beforeprint', () => drawNow(true));
  document.getElementById('setup').hidden = !page.setup;
  document.querySelector('#setup input').addEventListener('focus', event => event.target.select());
  addVerdicts();
  const plots = document.getElementById('plots');  // up to four runs: the plots of a kind are beside each other
  plots.classList.toggle('aligned', runs.length > 1 && runs.length < 5);
  plots.style.setProperty('--columns', runs.length === 3 ? 3 : 2);
  runs.forEach(addHead);
  addFigures();
  drawNow();
  // Time from the start of loading until the first picture is on the screen.
  requestAnimationFrame(() => setTimeout(() => { document.documentElement.dataset.firstPictureMs = performance.now().toFixed(0); }));
}
start();
