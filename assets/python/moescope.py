"""MoEScope from Python: trains, opens recordings and logs as arrays, checks and compares runs, shows them in Jupyter.

    import moescope

    run = moescope.train("nano", steps=300, **{"router.bias_update_rate": 0})
    run = moescope.open("run.moescope")             # or any training log that the program reads
    run.steps, run.figure("ce_loss")                # [steps]
    run.figure("max_vio"), run.loads                # [steps, layers], [steps, layers, experts]
    moescope.check("run.moescope")["runs"][0]["sentence"]
    run.show()                                      # in Jupyter: the replay page

Needs NumPy, and pandas only for Run.frame(). Everything is done by the program moescope-cli, which a recording is read
with, too: that of the environment variable MOESCOPE_CLI, else that of this wheel, else that in PATH. What the program
refuses is an Error with the program's words.
"""

import builtins
import html
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import weakref

import numpy

try:
    import moescope_program  # of the wheel with the program
except ImportError:
    moescope_program = None

__all__ = ["Error", "Run", "check", "compare", "open", "open_all", "program", "show", "train"]

_CHECK_FOUND, _NOT_CHECKED = 1, 3  # exit statuses of `check`: a finding of --fail-on, a kind that cannot be checked
_EXACT_IN_FLOAT32 = 1 << 24
_BY_EXPERT = ("tokens_per_expert", "expert_bias", "score_mass", "gate_mass")
_NAMES = {"NaN": numpy.nan, "Infinity": numpy.inf, "-Infinity": -numpy.inf, None: numpy.nan}  # of numbers in JSON lines


class Error(RuntimeError):
    """The program ended with an error; the text is the program's."""


# The program.


def program():
    """Returns the path of moescope-cli."""
    found = os.environ.get("MOESCOPE_CLI") or (moescope_program and moescope_program.CLI) or shutil.which("moescope-cli")
    if found is None:
        raise Error("moescope-cli is not installed: install the wheel of MoEScope, put the program into PATH, or set "
                    "MOESCOPE_CLI to its path")
    return found


def _run(*arguments, allowed=(0,)):
    """Runs a command of the program. Returns its output. Interrupting Python interrupts the program, which then keeps
    what it has recorded."""
    words = [program()] + [str(word) for word in arguments]
    environment = moescope_program.environment() if moescope_program else None
    try:
        child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 env=environment, text=True, errors="replace")
    except OSError as error:
        raise Error("%s cannot be started: %s" % (words[0], error.strerror)) from error
    try:
        out, problem = child.communicate()
    except KeyboardInterrupt:
        child.send_signal(signal.SIGINT)
        child.communicate()
        raise
    if child.returncode not in allowed:
        lines = problem.strip().splitlines() or ["%s ended with status %d" % (words[0], child.returncode)]
        errors = [line for line in lines if "error:" in line]
        raise Error("\n".join(errors or lines[-3:]))
    return out


def _file(path):
    """Returns the path for a command, which takes a name that begins with "-" for an option."""
    path = os.fspath(path)
    return os.path.join(".", path) if path.startswith("-") else path


def _options(values):
    words = []
    for key, value in values.items():
        if value is None or value is False:
            continue
        for each in value if isinstance(value, (list, tuple)) else [value]:
            name = "--" + key.replace("_", "-")
            words += [name] if each is True else [name, str(each)]
    return words


def _settings(settings):
    """Returns --set for settings such as {"router.top_k": 4}; as a keyword, "__" stands for the dot: router__top_k=4."""
    words = []
    for key, value in settings.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        words += ["--set", "%s=%s" % (key.replace("__", "."), text)]
    return words


# Runs.


class Run:
    """A run of a recording or log, as arrays.

    name, info  name; what the file states: "layers", "experts", "top_k", "tokens_per_step", "domains", ...
    config      the settings as TOML; empty for logs of other programs
    steps       [steps] numbers of the steps
    layers      [layers] numbers of the MoE layers
    loads       [steps, layers, experts] tokens by expert; NaN where a step has no loads
    figures     names of the figures that figure() knows
    operands    operands with scale histograms, as dicts; see scales()
    path        the file
    """

    def __init__(self, path, info, lines, keep=None):
        self.path, self.info, self._keep = path, info, keep
        self.name, self.config = info.get("name", ""), info.get("config", "")
        self._lines = lines
        self.steps = numpy.array([line["step"] for line in lines], dtype=numpy.int64)
        layers = {router["layer"] for line in lines for router in line.get("routers", ())}
        self.layers = numpy.array(sorted(layers), dtype=numpy.int64)
        self._place = {layer: place for place, layer in enumerate(self.layers.tolist())}
        self._run_keys = {key for line in lines for key, value in line.items() if _is_number(value)} - {"run", "step"}
        self._layer_keys = {key for line in lines for router in line.get("routers", ()) for key, value in router.items()
                          if _is_number(value)} - {"layer"}
        self.figures = sorted(self._run_keys | self._layer_keys)

    def __repr__(self):
        return "<moescope.Run %r: %d steps, %d MoE layers>" % (self.name, len(self.steps), len(self.layers))

    def figure(self, name):
        """Returns a figure: [steps], or [steps, layers] for figures of the routers; NaN where a step has no value."""
        if name in self._layer_keys and name not in self._run_keys:
            values = numpy.full((len(self.steps), len(self.layers)), numpy.nan)
            for step, line in enumerate(self._lines):
                for router in line.get("routers", ()):
                    values[step, self._place[router["layer"]]] = _number(router.get(name))
            return values
        if name not in self._run_keys:
            raise KeyError("%s: no such figure; this run has %s" % (name, ", ".join(self.figures)))
        return numpy.array([_number(line.get(name)) for line in self._lines], dtype=float)

    @property
    def loads(self):
        return self.by_expert("tokens_per_expert")

    def by_expert(self, name):
        """Returns values by expert, [steps, layers, experts]: tokens_per_expert, expert_bias, score_mass, gate_mass."""
        if name not in _BY_EXPERT:
            raise KeyError("%s: allowed are %s" % (name, ", ".join(_BY_EXPERT)))
        rows = [(step, self._place[router["layer"]], router[name]) for step, line in enumerate(self._lines)
                for router in line.get("routers", ()) if router.get(name)]
        experts = max((len(row) for _, _, row in rows), default=int(self.info.get("experts") or 0))
        largest = max((max(map(abs, map(_number, row))) for _, _, row in rows), default=0)
        kind = numpy.float32 if largest < _EXACT_IN_FLOAT32 else numpy.float64
        values = numpy.full((len(self.steps), len(self.layers), experts), numpy.nan, dtype=kind)
        for step, layer, row in rows:
            values[step, layer, :len(row)] = [_number(value) for value in row]
        return values

    @property
    def operands(self):
        found = {}
        for line in self._lines:
            for row in line.get("quants", ()):
                place = {key: row.get(key) for key in ("layer", "gemm_class", "weight", "operand", "direction", "format")}
                found.setdefault(tuple(place.values()), place)
        return list(found.values())

    def operand(self, layer, weight, operand="x", direction="forward", gemm_class=None):
        """Returns the statistics of an operand: a dict with "steps", the figures over these steps (sqnr_db, underflow,
        clipped, ...) and "scales", [steps, 256] blocks by floor(log2 scale) + 127."""
        rows = [(line["step"], row) for line in self._lines for row in line.get("quants", ())
                if (row.get("layer"), row["weight"], row["operand"], row["direction"]) == (layer, weight, operand, direction)
                and gemm_class in (None, row.get("gemm_class"))]
        if not rows:
            raise KeyError("no such operand; run.operands lists those that the run has")
        scales = numpy.zeros((len(rows), 256), dtype=numpy.int64)
        for place, (_, row) in enumerate(rows):
            for code, blocks in (row.get("e8m0_blocks") or {}).items():
                scales[place, int(code)] = blocks
        names = sorted({key for _, row in rows for key, value in row.items() if _is_number(value)} - {"layer"})
        table = {name: numpy.array([_number(row.get(name)) for _, row in rows]) for name in names}
        return {"steps": numpy.array([step for step, _ in rows]), **table, "scales": scales}

    def scales(self, layer, weight, operand="x", direction="forward", gemm_class=None):
        """Returns the histograms of an operand's block scales: steps [S] and counts [S, 256]."""
        found = self.operand(layer, weight, operand, direction, gemm_class)
        return found["steps"], found["scales"]

    @property
    def findings(self):
        """The findings of `moescope-cli check`, as dicts."""
        return self.check()["findings"]

    def check(self):
        """Returns what `moescope-cli check` says of the run: a dict with "sentence", "verdict", "findings", ..."""
        runs = check(self.path)["runs"]
        return next((run for run in runs if run["name"] == self.name), runs[0])

    def frame(self):
        """Returns the figures as a pandas DataFrame with a row for each step; router figures are max_vio_L1, ..."""
        import pandas

        columns = {}
        for name in self.figures:
            values = self.figure(name)
            if values.ndim == 1:
                columns[name] = values
            else:
                columns.update(("%s_L%d" % (name, layer), values[:, place]) for layer, place in self._place.items())
        return pandas.DataFrame(columns, index=pandas.Index(self.steps, name="step"))

    def show(self, height=640):
        """Returns the replay page of the file, which Jupyter displays."""
        return show(self.path, height=height)


def _is_number(value):
    return (isinstance(value, (int, float)) and not isinstance(value, bool)) or value in ("NaN", "Infinity", "-Infinity")


def _number(value):
    return _NAMES[value] if value is None or isinstance(value, str) else value


def _lines_of(path):
    """Yields the lines of a recording or log as the program writes them."""
    if not os.path.exists(path):
        raise Error("%s: no such file" % path)
    with tempfile.TemporaryDirectory(prefix="moescope-") as folder:
        recording = path
        with builtins.open(path, "rb") if os.path.isfile(path) else builtins.open(os.devnull, "rb") as file:
            is_recording = file.read(16) == b"SQLite format 3\0" and path.endswith(".moescope")
        if not is_recording:
            recording = os.path.join(folder, "log.moescope")
            _run("import", path, "--out", recording, "--quiet")
        out = os.path.join(folder, "run.jsonl")
        _run("export", recording, "--to", "jsonl", "--out", out)
        with builtins.open(out, encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)


def open_all(path, _keep=None):
    """Opens all runs of a recording or of a training log, in their order."""
    path, infos, lines = _file(path), {}, {}
    for line in _lines_of(path):
        run = line.get("run", 0)
        if "step" in line:
            lines.setdefault(run, []).append(line)
        else:
            infos[run] = line
    return [Run(path, infos.get(run, {}), run_lines, _keep) for run, run_lines in sorted(lines.items())]


def open(path, run=None, _keep=None):
    """Opens a recording (.moescope) or a training log. `run`: the name of the run, if the file has several; without it
    the first."""
    runs = open_all(path, _keep)
    if not runs:
        raise Error("%s: no step" % path)
    if run is None:
        return runs[0]
    for each in runs:
        if each.name == run:
            return each
    raise KeyError("%s: no such run; %s has %s" % (run, path, ", ".join(each.name for each in runs)))


# Commands.

_TRAIN = ("config", "data", "precision", "seed", "steps", "threads", "checkpoint", "every", "resume", "compare",
          "noise_twin", "perturbed_twin", "dense_twin", "epsilon", "overwrite", "matrix_units", "table")


class _Folder:
    """A folder that is deleted with the last run that was recorded in it."""

    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="moescope-")
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def _recording(out):
    """Returns a path to record to, and what keeps it: without `out` a folder that is deleted with the run."""
    if out is not None:
        return _file(out), None
    folder = _Folder()
    return os.path.join(folder.path, "run.moescope"), folder


def _train(preset, out, settings):
    options = {key: settings.pop(key) for key in list(settings) if key in _TRAIN}
    path, keep = _recording(out)
    words = ["--preset", preset] if preset is not None else []
    _run("train", *words, "--out", path, *_options(options), *_settings(settings))
    return path, keep


def train(preset=None, out=None, **settings):
    """Trains a model and returns its Run. `preset`: as for `moescope-cli train`. `out`: the recording; without it a file
    that is deleted with the run. The options of the command (steps, seed, data, precision, threads, checkpoint, config,
    ...) are keywords; all other keywords are settings: train("nano", steps=100, router__top_k=4), or
    **{"router.top_k": 4}."""
    path, keep = _train(preset, out, settings)
    return open(path, None, keep)


def compare(preset, *changes, out=None, noise_twin=True, **settings):
    """Trains a run and twins with changed settings side by side, on the same batches. A change is a dict or the text of
    --compare: compare("nano", {"precision.experts": "mxfp4"}). Returns the runs, and the table of outcomes as a list of
    dicts: loss, gap to the first run with its interval, verdict."""
    texts = [",".join("%s=%s" % item for item in change.items()) if isinstance(change, dict) else change
             for change in changes]
    if not texts:
        raise ValueError("compare() needs a change, such as {\"precision.experts\": \"mxfp4\"}")
    with tempfile.TemporaryDirectory(prefix="moescope-") as folder:
        table = os.path.join(folder, "table.json")
        more = {**settings, "compare": texts, "noise_twin": noise_twin, "table": table}
        path, keep = _train(preset, out, more)
        with builtins.open(table, encoding="utf-8") as file:
            outcomes = json.load(file)
    groups = sorted(pathlib.Path(path).parent.glob(pathlib.Path(path).stem + "-*.moescope"))  # of more than three twins
    return [run for group in groups or [path] for run in open_all(group, keep)], outcomes


def check(path, fail_on=None):
    """Returns the answer of `moescope-cli check --json`: {"failed", "runs": [{"name", "sentence", "findings", ...}]}."""
    more = ["--fail-on", fail_on if isinstance(fail_on, str) else ",".join(fail_on)] if fail_on else []
    return json.loads(_run("check", _file(path), "--json", *more, allowed=(0, _CHECK_FOUND, _NOT_CHECKED)))


class Page:
    """A page that plays the steps of a run, without a network. Jupyter displays it; save() writes it to a file."""

    def __init__(self, text, height):
        self.text, self.height = text, height

    def _repr_html_(self):
        return ('<iframe srcdoc="%s" style="width:100%%;height:%dpx;border:0" sandbox="allow-scripts allow-downloads" '
                'title="MoEScope replay"></iframe>' % (html.escape(self.text, quote=True), self.height))

    def save(self, path):
        with builtins.open(path, "w", encoding="utf-8") as file:
            file.write(self.text)


def show(path, other=None, height=640):
    """Returns the replay page of a recording or log, and of a second one beside it. Jupyter displays the page where it
    is the last value of a cell."""
    with tempfile.TemporaryDirectory(prefix="moescope-") as folder:
        out = os.path.join(folder, "replay.html")
        more = ["--with", _file(other)] if other else []
        _run("export", _file(path), *more, "--to", "replay", "--out", out)
        with builtins.open(out, encoding="utf-8") as file:
            return Page(file.read(), height)
