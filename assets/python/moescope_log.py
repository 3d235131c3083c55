"""Logs the routers of a PyTorch mixture-of-experts model for MoEScope.

One file without dependencies except PyTorch (1.13 or later): copy it beside your training script.

    from moescope_log import MoeLog

    log = MoeLog("run.jsonl", model)                # finds the routers by name and hooks them
    for step in range(steps):
        ...forward, backward, optimizer.step()...
        log.step(step, loss=loss, grad_norm=norm, lr=lr)
    log.close()

While it runs: moescope --follow run.jsonl. Afterwards: moescope run.jsonl, or
moescope-cli import run.jsonl -o run.moescope.
trainer_callback() and lightning_callback() below are callbacks for Hugging Face's Trainer and for Lightning.

Hooks of an MoE layer:
  * a module with a buffer `tokens_per_expert` or `tokens_per_expert_E` (TorchTitan): the hook logs the increase of the
    buffer in the forward pass;
  * otherwise a module whose name matches `routers`: the hook reads the return value of the forward pass, which is
    expert numbers (an integer tensor [..., K]), a map (a boolean or one-hot tensor [..., E]), mixing weights [..., E]
    that are zero for experts that were not chosen, or scores or logits [..., E]. From scores and logits,
    route_tokens_to_experts() of the block chooses the experts; without it the `top_k` largest count.
A router inside another router is not logged separately. K and E come from attributes or from the model's config. If
they are not found, or if the return value is unclear, there is one warning and no row for the layer.
Slots whose expert number is negative or beyond the experts are sent nowhere: `nowhere` of the row counts them, the load
does not.

Only passes that record gradients count, in train() and in eval(). Passes under no_grad(), as in generate(), do not
count, and a pass that activation checkpointing repeats counts once.
Padding is left out if the model is called with an `attention_mask` [batch, tokens] (0: padding) or if mask() was
called. A note at the first step of the log says whether padding was left out.

Every `scores_every` steps the log also has the entropy of the scores, the margin between the K-th and the next biased
score, and each expert's shares of the scores and of the mixing weights (`score_mass`, `gate_mass`), if the router
returns them; every `bias_every` steps it has the expert bias. Every `expert_norms_every` steps it also has, for each
expert, the norm of the gradient of its weights, as the optimizer gets it, and the norm of their update: experts that
get tokens and do not change are not in the optimizer. This needs a copy of the experts' weights during the step. The
weights are found if they are whole on the rank that writes, as parameters [E, ...] of the layer's block or as a list of
E modules. If there are several optimizers, the first one that steps counts.

log_blocks() also logs the low-precision operands of chosen products, such as those of the experts, at every 100th step.

Counts stay on the device until step(), which writes one line. No error stops the training: a failure causes one warning
and a missing row.

With torch.distributed, step() adds up the counts of the ranks of `group`; nothing else communicates. Make the log and
call step() on every rank of the group, once per step, also on a rank that had no batch. Rank 0 writes. Layers are
identified by their names, so the layers of pipeline stages are separate rows. Ranks that saw the same tokens, as under
tensor parallelism, count once.
torch.compile: make the log before the first compiled step. From PyTorch 2.4 on the hooks stay in the graph
(fullgraph=True works); in earlier versions they break it.
"""

import contextlib
import dataclasses
import functools
import importlib
import inspect
import itertools
import json
import math
import os
import re
import sys
import threading
import time
import warnings
import weakref

import torch

_COUNT_BUFFERS = ("tokens_per_expert", "tokens_per_expert_E")
_BIAS_NAMES = ("expert_bias", "expert_bias_E", "e_score_correction_bias", "balancing_biases")
_EXPERT_NAMES = ("num_experts", "n_experts", "n_routed_experts", "num_local_experts", "moe_num_experts",
                 "num_moe_experts", "n_exp", "num_gates")
_TOP_K_NAMES = ("top_k", "topk", "num_experts_per_tok", "k")
# Names in a config, in which `top_k` alone may be the top_k of sampling.
_CONFIG_TOP_K_NAMES = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k", "top_k_experts",
                       "moe_router_topk", "num_selected_experts", "num_activated_experts", "moe_k")
_CONFIG_SCORE_NAMES = ("scoring_func", "score_func", "score_function", "moe_router_score_function",
                       "expert_selection_fn", "router_activation")
_WRAPPERS = re.compile(r"(^|\.)(_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)(?=\.|$)")
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.uint8, torch.int8)
_SCORE_KINDS = {
    "softmax": lambda logits: logits.softmax(-1),
    "sigmoid": torch.sigmoid,
    "sqrtsoftplus": lambda logits: torch.nn.functional.softplus(logits).sqrt(),
    "given": lambda scores: scores.clamp_min(0),
}
_KEYS = itertools.count(1)
_COMPILED = weakref.WeakValueDictionary()  # layers by key
_MOST_KEPT_SLOTS = 1 << 22  # kept slots of all layers on one device (32 MB) before they are counted
_SETTLING_STEPS = 3  # number of steps in which the tokens of the ranks are compared


class MoeLog:
    """See the module's description.

    path          file to write, one JSON object per line; an earlier file is replaced unless append=True
    model         any torch.nn.Module
    routers       regular expression over module names; the index of the layer is the first group that consists of
                  digits, or else the number in the name in which the layers differ
    top_k         experts per token; needed only if routers return scores and no config has it
    scores        function that makes scores of the returned values: "softmax", "sigmoid" or "sqrtsoftplus" of logits,
                  or "given" (scores already). None: "given" if no value is negative and they sum to 1, else the
                  function that agrees with the returned weights, else the config's, else "sigmoid" with an expert
                  bias and "softmax" without
    settings      dict that describes the run: precision, seed, tokens_per_step, domains, ...
    group         process group whose ranks are added up; None: all ranks. Rank 0 of all ranks writes and has to be in
                  the group. "alone": writes this rank's counts into its own file, without communication
    first_layer   added to the indices of the layers, for a pipeline stage that numbers its layers from 0
    count_padding True: padding counts, with any attention mask
    expert_norms_every  steps between two logs of gradient and update norms of the experts; 0: never
    blocks        arguments of log_blocks() as a dict, {"modules": "experts"}, for callbacks of trainers
    Raises ValueError if no router is found, and OSError if the file cannot be written.
    """

    def __init__(self, path, model, routers=r"(^|\.)(router|gate|moe_gate)$", top_k=None, scores=None,
                 scores_every=10, bias_every=10, settings=None, append=False, group=None, first_layer=0,
                 count_padding=False, expert_norms_every=0, blocks=None):
        if scores is not None and scores not in _SCORE_KINDS:
            raise ValueError("scores=%r: allowed: %s" % (scores, ", ".join(_SCORE_KINDS)))
        self._start = time.time()
        self._scores_every, self._bias_every = scores_every, bias_every
        self._given_settings, self._top_k, self._routers = settings, top_k, routers
        self._first_layer, self._count_padding = first_layer, count_padding
        self._model = weakref.ref(model)
        self.scores_kind = scores
        self._ranks = _Ranks(group)
        self._said, self._notes = set(), []
        self._mask, self._masks, self._given_mask = None, {}, None
        self._trainable = None
        self._rows = None  # rows of all ranks, from the first step on
        self._handles, self._file, self._closed = [], None, False
        self._slots = _Slots()
        self._layers = _find_layers(self, model, routers, top_k)
        if not self._layers and self._ranks.alone():
            raise ValueError("no router found: no module has a buffer tokens_per_expert, and no name matches %r; "
                             "the names are %s" % (routers, ", ".join(n for n, _ in model.named_modules() if n)[:2000]))
        self._want_scores(0)
        norms = expert_norms_every > 0 and self._ranks.writes()
        self._norms = _ExpertNorms(self, model, self._layers, expert_norms_every) if norms else None
        self._blocks = None
        if self._ranks.writes():
            self._file = open(path, "a" if append else "w")
        for layer in self._layers:
            self._handles += layer.hook()
        self._handles += _hook_masks(self, model, self._layers)
        if self._norms:
            self._handles += self._norms.hook()
        if blocks:
            self.log_blocks(**blocks)

    def step(self, step, loss=None, grad_norm=None, lr=None, **more):
        """Writes a line for this training step. The values of `more` are written unchanged (numbers, lists, strings).
        `aux_loss` and `z_loss` may be lists with a value for each logged layer, in the order of the layers."""
        if self._closed:
            return
        try:
            self._step(int(step), dict(loss=loss, grad_norm=grad_norm, lr=lr, **more))
        except Exception as error:
            self.warn("step", "step %s is not logged: %s" % (step, _words(error)))

    def mask(self, attention_mask):
        """Sets the padding of the following passes: [batch, tokens], 0 is padding; None: no padding. Needed only if the
        model is not called with an `attention_mask`, which takes precedence."""
        self._given_mask = attention_mask

    def log_blocks(self, modules, every=100, formats="mxfp8_e4m3", what_if=("nvfp4", "mxfp4_e2m1"),
                   directions=("forward", "dgrad"), names=None, most=1 << 20, samples=64):
        """Logs at every `every`-th step the low-precision operands of chosen products: histograms of block scales,
        shares of values that become zero or are clipped, SQNR, and blocks for the microscope. Needs moescope_blocks.py
        and moescope_formats.py beside this file.

        modules     regular expression over the names of modules: linears, and modules with grouped weights of experts
        formats     number format of the operands (names: moescope_formats.py), or a dict {"x": ..., "W": ..., "dY": ...}
                    with the operands to log. A BF16 training is logged as if it quantized. Weights that torchao or
                    TransformerEngine keeps quantized are read as they are, in their own format
        what_if     further formats whose SQNR is logged
        directions  of "forward" (x and W), "dgrad" (dY and W) and "wgrad" (x and dY of linears, blocks along tokens)
        names       {regular expression: "class weight"} for weights whose names are not known, such as
                    {"k_proj$": "attention wkv_a"}
        most        values of an operand that are quantized; of larger ones bands of 128 rows, evenly spread
        samples     blocks of an operand that are kept, each with the block before and the block after it; 0: none
        Only the first microbatch of the step counts, and the part of a weight on the rank that writes. A compiled model
        runs the logged steps without compilation (PyTorch 2.6).
        Raises ValueError if an argument is wrong or no module is found."""
        if not self._ranks.writes():
            return
        from moescope_blocks import BlockLog
        self._blocks = BlockLog(self._model(), modules, every, formats, what_if, directions, names, most, samples,
                                self.warn)
        self._blocks.begin(0)

    def close(self):
        if self._closed:
            return
        if self._blocks:
            self._blocks.close()
        for handle in self._handles:
            handle.remove()
        self._handles = []
        if self._rows is None and self._ranks.alone():
            self._write(self._settings())
        self._norms = None  # frees its copies of weights
        if self._file:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None
        self._closed = True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # Called by hooks.

    def padding_mask(self, device=None):
        """Returns the mask of the running pass; with DataParallel, of the pass on that device."""
        if self._count_padding:
            return None
        mask = self._masks.get(device) if len(self._masks) > 1 else self._mask
        return self._given_mask if mask is None else mask

    def saw_mask(self, mask):
        self._mask = mask
        if _is_compiling():
            return
        if mask is None:
            self._masks.clear()
        else:
            self._masks[mask.device] = mask

    def trainable(self):
        """True if the model has a trainable parameter. Computed once per step: a model may have many parameters."""
        if self._trainable is None:
            model = self._model()
            self._trainable = model is None or any(p.requires_grad for p in model.parameters())
        return self._trainable

    def keep_slots(self, layer, places):
        self._slots.keep(layer, places)

    def comparing(self):
        """True until it is known which ranks see the same tokens."""
        return self._ranks.comparing()

    def warn(self, key, text):
        """Prints the text on this rank's stderr and adds it to the log, once per key."""
        if key in self._said:
            return
        self._said.add(key)
        self._notes.append(text)
        try:
            warnings.warn("moescope_log: " + text, RuntimeWarning, stacklevel=2)
        except Warning:  # warnings are errors in this process
            print("moescope_log: " + text, file=sys.stderr)

    def _step(self, step, values):
        self._trainable = None
        own = self._own_totals(step)
        first = self._rows is None
        if first:
            self._rows = self._ranks.rows(self._own_rows())
            _number(self._rows, self._routers)
        totals = self._ranks.total(step, self._rows, own)
        self._want_scores(step + 1)
        if first:
            self._write(self._settings())
        line = {"step": step, "wall_s": round(time.time() - self._start, 6)}
        line.update((key, _plain(value)) for key, value in values.items() if value is not None)
        if totals is None:
            self.warn("ranks", "the ranks called step() with different steps, so that no load is logged")
        else:
            self._add_routers(line, totals, first)
        self._share_out(line)
        if self._norms:
            self._add_norms(line, step)
        markers = self._add_blocks(line, step)
        markers += [{"kind": "event", "text": note} for note in self._notes]
        self._notes = []
        if markers:
            line["markers"] = markers
        self._write(line)

    def _want_scores(self, step):
        for layer in self._layers:
            layer.want_scores = self._scores_every > 0 and step % self._scores_every == 0

    def _own_rows(self):
        return [_Row(layer.name, layer.number, self._first_layer, layer.experts or 0, layer.top_k or 0)
                for layer in self._layers]

    def _own_totals(self, step):
        """Returns the values of a _Total, or None, by key of the layer. Copies once from each device."""
        with_bias = step % max(1, self._bias_every) == 0
        taken = [layer.take(with_bias) for layer in self._layers]
        counted = self._slots.take()
        lists = iter(_on_host([tensor for _, tensors in taken for tensor in tensors] + [each for _, each in counted]))
        lists_of = [list(itertools.islice(lists, len(tensors))) for _, tensors in taken]
        slots = _Slots.by_layer(counted, lists)
        own = {}
        for layer, (host, _), values in zip(self._layers, taken, lists_of):
            key = _Row.key_of(layer.name, layer.number, self._first_layer)
            own[key] = None if host is None else layer.total(host, values, slots.get(layer, []))
            fingerprint = layer.take_fingerprint()
            if self.comparing():
                own["fingerprint", key] = fingerprint
        return own

    def _add_routers(self, line, totals, first):
        rows = [(row, total) for row, total in zip(self._rows, totals) if total.is_known()]
        sizes = [total.experts for _, total in rows]
        usual = max(set(sizes), key=sizes.count) if sizes else 0
        others = ", ".join(row.name for row, total in rows if total.experts != usual)
        if others:
            self.warn("sizes", "only routers with %d experts are logged, not %s" % (usual, others))
        routers = [total.row(row.index) for row, total in rows if total.experts == usual]
        if routers:
            line["routers"] = sorted(routers, key=lambda router: router["layer"])
        same = self._ranks.news()
        if same:
            self._notes.append(same)
        if first:
            self._say_what_was_seen(totals)

    def _share_out(self, line):
        """Writes losses by layer into the rows of the layers, and their sum into the line."""
        for name in ("aux_loss", "z_loss"):
            values, rows = line.get(name), line.get("routers", [])
            if not isinstance(values, (list, tuple)):
                continue
            del line[name]
            values = [_plain(value) for value in values]
            if len(values) != len(rows):
                self.warn(name, "%s has %d values, but %d layers are logged: it is left out" % (
                    name, len(values), len(rows)))
                continue
            line[name] = _plain(float(sum(values)))
            for row, value in zip(rows, values):
                row[name] = value

    def _add_norms(self, line, step):
        try:
            index_of = {row.key(): row.index for row in self._rows}
            rows = self._norms.rows(lambda layer: index_of[_Row.key_of(layer.name, layer.number, self._first_layer)])
            experts = {len(row["tokens_per_expert"]) for row in line.get("routers", [])}
            rows = [row for row in rows if not experts or len(row["update_norm"]) in experts]
            if rows:
                line["specialisation"] = sorted(rows, key=lambda row: row["layer"])
            self._norms.begin(step + 1)
        except Exception as error:
            self._norms = None
            self.warn("norms", "the norms of experts are not logged: " + _words(error))

    def _add_blocks(self, line, step):
        """Writes the rows of the operands into the line, and returns the markers with their samples."""
        if not self._blocks:
            return []
        try:
            rows, markers = self._blocks.take()
            self._blocks.begin(step + 1)
        except Exception as error:
            self._blocks.close()
            self._blocks = None
            self.warn("blocks", "operands are not logged: " + _words(error))
            return []
        if rows:
            line["quants"] = rows
        return markers

    def _say_what_was_seen(self, totals):
        unseen = [row.name for row, total in zip(self._rows, totals) if total.is_empty()]
        if unseen and all(total.is_empty() for total in totals):
            self.warn("unseen", "no router was seen in the first step, but these were found: %s. Only passes that "
                      "record gradients count. If the model or another model of its class was compiled and ran before "
                      "the log was made, set torch._dynamo.config.skip_nnmodule_hook_guards = False"
                      % ", ".join(unseen)[:500])
        elif unseen:
            self._notes.append("Not called in the first step: " + ", ".join(unseen)[:500])
        tokens = sum(total.tokens for total in totals)
        left_out = sum(total.left_out for total in totals)
        unmasked = sum(total.unmasked for total in totals)
        if not tokens:
            return
        if unmasked == 0:
            self._notes.append("Padding is left out: %.3g %% of the first step's tokens" % (100 * left_out / tokens))
        elif unmasked == tokens:
            self._notes.append("Padding, if there is any, is counted: " + (
                "count_padding is set" if self._count_padding else "no attention mask [batch, tokens] was seen"))
        else:
            self._notes.append("Padding is left out if an attention mask fits: for %.3g %% of the first step's tokens"
                               % (100 - 100 * unmasked / tokens))

    def _settings(self):
        rows = self._rows
        if rows is None:
            rows = self._own_rows()
            _number(rows, self._routers)
        model = self._model()
        line = {"framework": "PyTorch " + torch.__version__}
        if model is not None:
            line["parameters"] = sum(p.numel() for p in model.parameters())
        line["moe_layers"] = [row.index for row in rows]
        line["router_names"] = [row.name for row in rows]
        experts = [row.experts for row in rows if row.experts]
        if experts:
            line["experts"] = max(experts, key=experts.count)
        known = self._top_k or next((row.top_k for row in rows if row.top_k), None)
        if known:
            line["top_k"] = int(known)
        line.update({key: _plain(value) for key, value in (self._given_settings or {}).items()})
        return line

    def _write(self, line):
        if not self._file:
            return
        try:
            self._file.write(json.dumps(line, default=_plain_or_text) + "\n")
            self._file.flush()
        except Exception as error:
            self.warn("write", "a line cannot be written: " + _words(error))


# Finding routers.


def _find_layers(log, model, routers, top_k):
    """Returns the hooked layers, in the order of the model's modules."""
    modules = dict(model.named_modules())
    layers, covered = [], []

    def is_inside(name):
        return any(name == outer or name.startswith(outer + ".") or not outer for outer in covered)

    for name, module in modules.items():
        if _count_buffer(module) is not None and not is_inside(name):
            layers.append(_BufferLayer(log, name, module, _above(modules, name), top_k))
            covered.append(name)
    found = []
    for name, module in modules.items():
        if not re.search(routers, name) or is_inside(name) or _holds_only(module):
            continue
        if any(inner.startswith(name + ".") for inner in covered):
            continue  # a block of that name around a layer that counts its own tokens
        found.append(_RouterLayer(log, name, module, _above(modules, name), top_k))
        covered.append(name)
    layers += [layer for layer in found if layer.may_be_a_router()]
    order = {name: place for place, name in enumerate(modules)}
    layers.sort(key=lambda layer: order[layer.full_name])
    return layers


def _holds_only(module):
    return isinstance(module, (torch.nn.ModuleList, torch.nn.ModuleDict))


def _above(modules, name):
    """Returns the modules that contain the module, nearest first, without module lists."""
    above = []
    while name:
        name = name.rpartition(".")[0]
        if not _holds_only(modules[name]):
            above.append(modules[name])
    return above


def _count_buffer(module):
    for name in _COUNT_BUFFERS:
        if isinstance(getattr(module, name, None), torch.Tensor):
            return getattr(module, name)
    return None


def _whole(owner, names):
    """Returns the first of these attributes that is a positive integer."""
    for name in names:
        value = getattr(owner, name, None)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def _numbers_of_tokens(inputs):
    """Returns the numbers of tokens that the inputs may have: rows of hidden states, or token ids."""
    return {n for x in inputs if isinstance(x, torch.Tensor) and x.numel()
            for n in (x.numel(), x.numel() // max(1, x.shape[-1] if x.dim() else 1))}


def _configs(owners):
    """Yields the configs of the owners, nearest first; for a model of texts and images the text config first."""
    for owner in owners:
        config = getattr(owner, "config", None)
        for name in ("text_config", "ffn_config"):
            if getattr(config, name, None) is not None:
                yield getattr(config, name)
        if config is not None:
            yield config


def _number(rows, pattern):
    """Sets the layer index of each row. Rows whose names differ only in numbers are one kind of layer, for example the
    layers of an encoder; the numbers of the next kind, for example of a decoder, follow those of the first kind."""
    kinds = {}
    for row in rows:
        kinds.setdefault(re.sub(r"\d+", "#", row.name), []).append(row)
    taken = set()
    # Experts of an attention layer come last.
    for kind in sorted(kinds.values(), key=lambda kind: re.search("att(n|ention)", kind[0].name) is not None):
        indices = {}
        for first in sorted({row.first_layer for row in kind}):
            part = [row for row in kind if row.first_layer == first]
            indices.update((row.key(), first + index) for row, index in zip(part, _indices_of(part, pattern)))
        if len(set(indices.values())) < len(kind):
            indices = {row.key(): place for place, row in enumerate(kind)}
        offset = max(taken) + 1 if taken.intersection(indices.values()) else 0
        for row in kind:
            row.index = offset + indices[row.key()]
        taken.update(row.index for row in kind)
    rows.sort(key=lambda row: row.index)


def _indices_of(rows, pattern):
    """Returns distinct indices for the layers of one kind."""
    choices = [[row.number for row in rows]]
    matches = [re.search(pattern, row.name) for row in rows]
    choices.append([next((int(g) for g in (m.groups() if m else ()) if g and g.isdigit()), None) for m in matches])
    for expression in (r"(?:(?<=\.)|^)\d+(?=\.|$)", r"\d+"):
        columns = zip(*[[int(n) for n in re.findall(expression, row.name)] for row in rows])
        choices += [list(column) for column in columns]
    for numbers in choices:
        if None not in numbers and len(set(numbers)) == len(numbers):
            return numbers
    return list(range(len(rows)))


# Layers.


class _Row:
    """Identity of a layer on all ranks. Pipeline stages may number their own layers from 0; `number` or `first_layer`
    then distinguishes them."""

    def __init__(self, name, number, first_layer, experts, top_k):
        self.name, self.number, self.first_layer, self.index = name, number, first_layer, None
        self.experts, self.top_k = experts, top_k

    @staticmethod
    def key_of(name, number, first_layer):
        return name, number, first_layer

    def key(self):
        return _Row.key_of(self.name, self.number, self.first_layer)


class _Total:
    """Sums of a layer in a step, over all ranks."""

    HEAD = 12      # values of the layer, before the values by expert
    BY_EXPERT = 4  # values of each expert

    def __init__(self, experts, values):
        self.experts = experts
        (self.passes, self.failures, self.tokens, self.unmasked, self.nowhere, self.left_out, self._entropy,
         self._margin, self._scored, self._judged, self._otherwise, self._biased) = values[: self.HEAD]
        by_expert = values[self.HEAD:]
        self._counts, self._gates, self._mass, self._bias = (
            by_expert[i * experts: (i + 1) * experts] for i in range(self.BY_EXPERT))

    @staticmethod
    def size(experts):
        return _Total.HEAD + _Total.BY_EXPERT * experts

    @staticmethod
    def experts_of(values):
        return (len(values) - _Total.HEAD) // _Total.BY_EXPERT

    def is_empty(self):
        return not self.failures and not self.nowhere and not sum(self._counts)

    def is_known(self):
        return not self.failures and not self.is_empty()

    def row(self, layer):
        row = {"layer": layer, "tokens_per_expert": [int(round(n)) for n in self._counts]}
        if self.nowhere:
            row["nowhere"] = int(round(self.nowhere))
        if self._scored:
            row["score_entropy"] = _plain(self._entropy / self._scored)
            row["score_mass"] = [_plain(mass / self._scored) for mass in self._mass]
        # The margin has no meaning for routers that do not choose the largest scores, for example routers with groups.
        if self._judged and self._otherwise < 0.01 * self._judged:
            row["margin"] = _plain(self._margin / self._judged)
        weights = sum(self._gates)
        if weights > 0:
            row["gate_mass"] = [_plain(weight / weights) for weight in self._gates]
        if self._biased:
            row["expert_bias"] = [_plain(bias / self._biased) for bias in self._bias]
        return row


class _Slots:
    """The chosen experts of all tokens since the last step. A device call takes the host equal time for any number of
    values, so the slots of all layers are counted together, once per step or when there are too many."""

    def __init__(self):
        self._kept, self._size, self._counted, self._lock = {}, {}, [], threading.Lock()

    def keep(self, layer, places):
        """Keeps slots: 0 to E - 1 is an expert, -1 and E are no expert, E + 1 is padding."""
        where = places.device, places.numel()
        with self._lock:  # DataParallel has several threads
            self._kept.setdefault(where, []).append((layer, places))
            self._size[places.device] = self._size.get(places.device, 0) + places.numel()
            if self._size[places.device] > _MOST_KEPT_SLOTS:
                self._count()

    def take(self):
        """Returns [(layers, counts of the values from -1 on, layer after layer)]."""
        with self._lock:
            self._count()
            counted, self._counted = self._counted, []
        return counted

    @staticmethod
    def by_layer(counted, lists):
        """Returns {layer: sum of its counts}."""
        found = {}
        for layers, counts in zip((layers for layers, _ in counted), lists):
            width = len(counts) // len(layers)
            for place, layer in enumerate(layers):
                own = counts[place * width: place * width + layer.experts + 2]
                before = found.get(layer)
                found[layer] = own if before is None else [a + b for a, b in zip(before, own)]
        return found

    def _count(self):
        kept, self._kept, self._size = self._kept, {}, {}
        for entries in kept.values():
            layers = [layer for layer, _ in entries]
            width = max(layer.experts for layer in layers) + 3
            places = torch.stack([places.reshape(-1) for _, places in entries])
            self._counted.append((layers, _histograms(places, width).reshape(-1)))


class _Layer:
    """One hooked module and its sums since the last step, on its device: slots that _Slots does not keep, padding, sums
    over scores, weights by expert."""

    def __init__(self, log, name, module, above, top_k):
        self.log, self.module, self.above = log, module, above
        self.full_name, self.name = name, _WRAPPERS.sub("", name).lstrip(".")
        self.experts, self.top_k = None, None
        self.number = next((n - 1 for n in (_whole(o, ("layer_number",)) for o in [module] + above[:3]) if n), None)
        self.want_scores, self.needs_inputs = True, False
        # Argument of the operator in a compiled graph, which declares that it changes it. It is a tensor, because a
        # graph is compiled again for another number.
        self.token = torch.tensor([next(_KEYS)])
        _COMPILED[int(self.token)] = self
        self.fingerprint = None
        self._sums = {}         # by device; not set to zero at each step, which saves calls
        self._before_step = {}  # values of _sums at the last step, on the host
        self._went_forward, self._repeats_count = False, None
        self._forgot()

    def _forgot(self):
        self.passes, self.failures, self.tokens, self.unmasked = 0, 0, 0, 0
        self._forwards, self._repeats = 0, 0

    def owners(self):
        return [self.module] + self.above[:1]

    def bias(self):
        owners = [self.module, getattr(self.module, "moe_statics", None)] + self.above[:1]
        for owner in owners:
            for name in _BIAS_NAMES:
                value = getattr(owner, name, None)
                if isinstance(value, torch.Tensor):
                    value = _local(value.detach())
                    if value is not None and self.experts and value.numel() >= self.experts:
                        return value.flatten()[: self.experts]
        return None

    def see(self, when, values, inputs, mask, recording):
        """Called after a forward pass, or before it with when == "before"."""
        try:
            if _is_only_traced(values):
                return
            if self._counts_now(when, recording):
                with torch.no_grad():
                    self._see(when, values, inputs, mask)
        except Exception as error:
            self.failures += 1
            self.log.warn((type(self), type(error), str(error)[:60]),
                          "%s is not logged: %s" % (self.name, _words(error)))

    def _counts_now(self, when, recording):
        if not recording or not self.log.trainable():
            return False
        if _is_repeated():
            # The first pass counts. In reentrant checkpointing it records no gradients, and the second pass counts.
            if self._repeats_count is None:
                self._repeats_count = not self._went_forward
            self._repeats += when == "after"
            return self._repeats_count
        if when == "after":
            self._went_forward = True
            self._forwards += 1
        return True

    def sums(self, device):
        if device not in self._sums:
            exact = torch.float32 if device.type == "mps" else torch.float64
            self._sums[device] = torch.zeros(3 * self.experts + 8, dtype=exact, device=device)
        return self._sums[device]

    def mask_of(self, tokens, mask, device):
        """Returns [tokens], True for tokens that are not padding; None if there is no mask of that size."""
        self.tokens += tokens
        if mask is None or mask.numel() != tokens:
            self.unmasked += tokens
            return None
        kept = (mask.reshape(-1) != 0).to(device)
        self.sums(device)[self.experts + 2] += (~kept).sum()
        return kept

    def take(self, with_bias):
        """Returns what was summed since the last call: values on the host (None if there is nothing), and tensors."""
        self._follow_change_of_checkpointing()
        host = [self.passes, self.failures, self.tokens, self.unmasked]
        self._forgot()
        if not any(host):
            return None, []
        bias = self.bias() if with_bias and host[0] else None
        return host, list(self._sums.values()) + ([] if bias is None else [bias])

    def _follow_change_of_checkpointing(self):
        """Detects a change to or from reentrant checkpointing during a run; the step of the change gets no row."""
        if not self._repeats:
            return
        if not self._forwards and not self._repeats_count:
            self._repeats_count = True
        elif self._forwards and self._repeats_count:
            self._repeats_count = False
            self.failures += 1

    def total(self, host, lists, slots):
        """Returns the values of a _Total from those of take(), with tensors as lists, and the counts of kept slots."""
        experts = self.experts or 0
        if not self._sums and not slots:
            return host + [0.0] * (_Total.size(experts) - len(host))
        bias = lists[-1] if len(lists) > len(self._sums) else None
        sums = self._since_last_step(lists)
        for place, count in enumerate(slots):
            sums[place] += count
        return (host + [sums[0] + sums[experts + 1]] + sums[experts + 2: experts + 8] + [0.0 if bias is None else 1.0] +
                sums[1: experts + 1] + sums[experts + 8:] + (bias or [0.0] * experts))

    def _since_last_step(self, lists):
        sums = [0.0] * (3 * self.experts + 8)
        for device, now in zip(self._sums, lists):
            before = self._before_step.pop(device, None)
            sums = [s + n for s, n in zip(sums, now)]
            if before is not None:
                sums = [s - b for s, b in zip(sums, before)]
            if math.isfinite(sum(now)):
                self._before_step[device] = now
            else:
                self._sums[device].zero_()  # NaN would stay in the sum
        return sums

    def take_fingerprint(self):
        value, self.fingerprint = self.fingerprint, None
        return 0.0 if value is None else float(value)

    def _remember(self, values):
        """Adds to the fingerprint of this rank's tokens, by which ranks are compared."""
        tensor = next((v for v in values if v.is_floating_point()), values[0] if values else None)
        if tensor is not None:
            total = tensor.double().sum() if tensor.device.type != "mps" else tensor.float().sum()
            self.fingerprint = total if self.fingerprint is None else self.fingerprint + total


class _BufferLayer(_Layer):
    """A module that counts its tokens in a buffer that other code sets to zero."""

    def __init__(self, log, name, module, above, top_k):
        super().__init__(log, name, module, above, top_k)
        self.experts = _count_buffer(module).numel()
        owners = [module, getattr(module, "router", None)] + above[:1]
        self.top_k = top_k or next((k for k in (_whole(owner, _TOP_K_NAMES) for owner in owners) if k), None)
        self._before = None

    def hook(self):
        return [self.module.register_forward_pre_hook(_Hook(self, "before")),
                self.module.register_forward_hook(_Hook(self, "after"))]

    def values(self, _output):
        return [_count_buffer(self.module)]

    def _see(self, when, values, _inputs, _mask):
        counts = _local(values[0])
        if when == "before":
            self._before = None if counts is None else counts.clone()
            return
        before, self._before = self._before, None
        if counts is None or before is None:
            raise ValueError("its buffer %s is not whole on this rank" % "tokens_per_expert")
        added = (counts - before).flatten()
        sums = self.sums(added.device)
        sums[1: self.experts + 1] += added
        self.passes += 1
        if self.log.comparing():
            self._remember([added * torch.arange(1, added.numel() + 1, device=added.device)])


class _Reading:
    """Meaning of a router's return value: indices into the list of its tensors."""

    def __init__(self):
        self.indices = self.map = self.gates = self.scores = self.weights = None
        self.skips = False  # weight 0 means that the additional class "no expert" was chosen


class _RouterLayer(_Layer):
    """A router that is logged from its return value."""

    def __init__(self, log, name, module, above, top_k):
        super().__init__(log, name, module, above, top_k)
        in_config = [(_whole(c, _EXPERT_NAMES), _whole(c, _CONFIG_TOP_K_NAMES)) for c in _configs([module] + above)]
        self._experts_of_config = next((experts for experts, _ in in_config if experts), None)
        self.experts = next((n for n in (_whole(o, _EXPERT_NAMES) for o in self.owners()) if n), None)
        out = _whole(module, ("out_features",))
        if _whole(module, _EXPERT_NAMES) is None and out:
            self.experts = out  # a plain Linear; its parent may have only this rank's number of experts
        if self.experts is None:
            self.experts = self._experts_of_config
        if self.experts is None and isinstance(getattr(module, "weight", None), torch.Tensor):
            self.experts = module.weight.shape[0]
        if self.experts is None:
            widths = {_whole(child, ("out_features",)) for child in module.children()} - {None}
            self.experts = widths.pop() if len(widths) == 1 else None
        self.top_k = top_k or next((k for k in (_whole(o, _TOP_K_NAMES) for o in self.owners()) if k), None)
        if self.top_k is None:
            self.top_k = next((k for _, k in in_config if k), None)
        self._readings, self._judges = {}, True
        self._found = log.scores_kind
        self._route = self._route_function()
        self.needs_inputs = self._route is not None

    def may_be_a_router(self):
        """False for gates of other purposes, as in gated attention, whose width is not the number of experts."""
        out = _whole(self.module, ("out_features",))
        known = self._experts_of_config
        return not out or not known or _whole(self.module, _EXPERT_NAMES) is not None or out in (known, known + 1)

    def hook(self):
        return [self.module.register_forward_hook(_Hook(self, "after"))]

    def values(self, output):
        found = []
        _collect(output, found)
        return found

    def _route_function(self):
        for owner in self.above[:1] + [getattr(o, "experts", None) for o in self.above[:1]]:
            choose = getattr(owner, "route_tokens_to_experts", None)
            if callable(choose):
                return weakref.WeakMethod(choose) if inspect.ismethod(choose) else (lambda: choose)
        return None

    def _see(self, _when, values, inputs, mask):
        values = [_local(v) for v in values]
        if any(v is None for v in values):
            raise ValueError("its return value is not whole on this rank")
        if not any(v.numel() for v in values if v.dim() > 1):
            return  # a pass without tokens
        form = tuple((v.dtype, v.dim(), v.shape[-1] if v.dim() else 0) for v in values)
        if form not in self._readings:
            if _is_captured(values):
                return  # the decision waits for the device, which is not possible in a CUDA graph
            try:
                self._readings[form] = self._read(values, inputs)
            except ValueError as error:
                self._readings[form] = error
        reading = self._readings[form]
        if isinstance(reading, ValueError):
            raise reading
        indices, weights = self._chosen(reading, values, inputs)
        scores = None if reading.scores is None else values[reading.scores].reshape(-1, self.experts)
        tokens, places = self._add_counts(reading, values, indices, weights, mask)
        self.passes += 1
        if self.log.comparing():
            self._remember(values)
        if self.want_scores and self._judges:
            gates = None if reading.gates is None else self._by_expert(values[reading.gates]).float()
            try:
                self._look_at_scores(scores, indices, weights, gates, tokens, places)
            except Exception as error:
                self._judges = False  # the counts are still right
                self.log.warn(("scores", type(error)), "scores of %s are not logged: %s" % (self.name, _words(error)))

    def _look_at_scores(self, scores, indices, weights, gates, tokens, places):
        if indices is not None:
            indices = indices.reshape(-1, indices.shape[-1])
        if scores is not None:
            self._judge(scores.float(), indices, weights, tokens)
        if weights is not None:
            self._weigh(weights.reshape(places.shape).float(), places)
        elif gates is not None:
            self._add_gates(gates, tokens)

    def _read(self, values, inputs):
        reading, wide = _Reading(), [i for i, v in enumerate(values) if v.dim() > 1]
        floats = [i for i in wide if values[i].is_floating_point()]
        tokens = _numbers_of_tokens(inputs)
        if self.experts is None:  # the width of a value of each token
            self.experts = next((values[i].shape[-1] for i in floats if values[i].shape[-1] != self.top_k and
                                 (not tokens or values[i].numel() // max(1, values[i].shape[-1]) in tokens)), None)
        if self.experts is None:
            raise ValueError("its number of experts is not known: set num_experts on it or in the model's config")
        full = [i for i in floats if self._places(values[i], tokens)]
        sparse = [i for i in full if self._is_sparse(values[i])]
        mixed = [i for i in sparse if bool(((values[i] != 0) & (values[i] != 1)).any())]  # the others are 0 or 1
        reading.gates = next(iter(mixed + sparse), None)
        reading.scores = next((i for i in full if i not in sparse and values[i].shape[-1] == self.experts), None)
        reading.map = next((i for i in wide if values[i].dtype == torch.bool and self._is_map(values[i])), None)
        integers = [i for i in wide if values[i].dtype in _INTEGERS]
        if reading.map is None:
            reading.indices = next((i for i in integers if self._are_numbers(values[i], inputs)), None)
        if reading.map is None and reading.indices is None and reading.gates is None:
            reading.map = next((i for i in integers if self._is_map(values[i])), None)
        if reading.map is None and reading.indices is None and reading.gates is None and reading.scores is None:
            if any(values[i].shape[-2] == self.experts and bool((values[i] >= self.experts).any()) for i in integers):
                raise ValueError("its experts choose tokens, so that each expert has as many")
            raise ValueError("its return value is not understood: " + ", ".join(
                "%s%s" % (str(v.dtype)[6:], list(v.shape)) for v in values))
        if reading.indices is not None:
            shape = values[reading.indices].shape
            reading.weights = next((i for i in floats if values[i].shape == shape and i != reading.scores), None)
            reading.skips = reading.weights is not None and any(
                values[i].shape[-1] == self.experts + 1 for i in floats)
            self._refuse_local_numbers(values, reading)
        if self.top_k is None and reading.indices is not None:
            self.top_k = values[reading.indices].shape[-1]
        elif self.top_k is None and (reading.map is not None or reading.gates is not None):
            chosen = values[reading.map if reading.map is not None else reading.gates]
            self.top_k = int((self._by_token(chosen)).sum(-1).max()) or None
        return reading

    def _by_token(self, chosen):
        """Returns [T, E], True if a map or weights choose the expert."""
        return self._by_expert(chosen) != 0

    def _by_expert(self, values):
        """Returns [T, E], summed over the places in an expert, if there are any."""
        if values.shape[-1] == self.experts:
            return values.reshape(-1, self.experts)
        return values.reshape(-1, self.experts, values.shape[-1]).sum(-1)

    def _places(self, values, tokens):
        """Returns how many values an expert has for each token: 0 if the shape is neither [..., E] nor, for a router
        with a capacity, [T, E, places] or [batch, T, E, places]."""
        if values.shape[-1] == self.experts:
            return 1
        is_by_place = values.dim() > 2 and values.shape[-2] == self.experts
        return values.shape[-1] if is_by_place and values[..., 0, 0].numel() in tokens else 0

    def _is_sparse(self, values):
        """True if the values [..., E] are weights that are zero for experts that were not chosen."""
        if self.top_k == self.experts:
            return False
        most = int(self._by_token(values).sum(-1).max()) if values.numel() else self.experts
        return most < self.experts and bool((values >= 0).all()) and most <= (self.top_k or self.experts)

    def _is_map(self, values):
        if values.dim() == 3 and values.shape[1] == self.experts and values.dtype == torch.bool:
            return True  # [T, E, places in the expert]
        if values.shape[-1] != self.experts:
            return False
        return values.dtype == torch.bool or bool(((values == 0) | (values == 1)).all())

    def _are_numbers(self, values, inputs):
        """True if the integers [..., K] are expert numbers, not a map of ones and zeros."""
        width = values.shape[-1]
        tokens = _numbers_of_tokens(inputs)
        if width == 0:
            return False
        if tokens and values.numel() // width not in tokens:
            return False
        beyond = float((values >= self.experts).float().mean())
        if beyond > 0.75 or not bool(((values >= 0) & (values < self.experts)).any()):
            return False  # for example token numbers, if experts choose tokens
        if width < self.experts:
            return True
        return width == self.experts == self.top_k and bool((values > 1).any() | (values.sum(-1) != width).any())

    def _refuse_local_numbers(self, values, reading):
        """Raises ValueError for routers that, under expert parallelism, number only this rank's experts from 0 and give
        all other experts the next number."""
        if reading.weights is None or reading.skips:
            return
        numbers, elsewhere = values[reading.indices], values[reading.weights] == 0
        if not bool(elsewhere.any()):
            return
        mark = int(numbers[elsewhere].max())
        if 0 < mark < self.experts and bool((numbers[elsewhere] == mark).all()) and bool(
                (numbers[~elsewhere] < mark).all()):
            raise ValueError("it returns the numbers of this rank's experts only (expert parallelism)")

    def _chosen(self, reading, values, inputs):
        """Returns expert numbers [..., K] and their weights, each None if the router does not give them."""
        if reading.indices is not None:
            return values[reading.indices], None if reading.weights is None else values[reading.weights]
        if reading.map is not None or reading.gates is not None:
            return None, None
        scores = values[reading.scores]
        choose = self._route and self._route()
        if choose is not None:
            chosen = []
            _collect(_call_route(choose, scores, inputs), chosen)
            indices = next(c for c in chosen if not c.is_floating_point())
            return indices, next((c for c in chosen if c.is_floating_point() and c.shape == indices.shape), None)
        if not self.top_k:
            raise ValueError("it returns scores, and the number of experts per token is not known: give top_k=")
        return scores.topk(min(self.top_k, self.experts), dim=-1).indices, None

    def _add_counts(self, reading, values, indices, weights, mask):
        """Returns [T], True for tokens that count (None: all), and [T, K], the experts of the slots: -1 and E for no
        expert, E + 1 for padding."""
        experts = self.experts
        if indices is None:
            chosen = self._by_token(values[reading.map if reading.map is not None else reading.gates])
            tokens = self.mask_of(chosen.shape[0], mask, chosen.device)
            chosen = chosen if tokens is None else chosen & tokens.unsqueeze(-1)
            self.sums(chosen.device)[1: experts + 1] += chosen.sum(0)
            return tokens, None
        places = indices.reshape(-1, indices.shape[-1]).long().clamp(-1, experts)
        if reading.skips and weights is not None:
            places = places.masked_fill(weights.reshape(places.shape) == 0, experts)
        tokens = self.mask_of(places.shape[0], mask, places.device)
        if tokens is not None:
            places = places.masked_fill(~tokens.unsqueeze(-1), experts + 1)
        if _is_captured([places]):  # a replay of the graph runs only captured operations, not this function
            counts = _histograms(places.reshape(1, -1), experts + 3)[0]
            self.sums(places.device)[: experts + 2] += counts[: experts + 2]
        else:
            self.log.keep_slots(self, places)
        return tokens, places

    def _judge(self, scores, indices, weights, tokens):
        """Adds up entropy and margin of scores [T, E]."""
        if self._found is None:
            if _is_captured([scores]):
                return
            self._found = self._kind_of(scores, indices, weights)
        scores = _SCORE_KINDS[self._found](scores)
        shares = scores if self._found == "softmax" else scores / scores.sum(-1, keepdim=True).clamp_min(1e-20)

        def total(values):
            return values.sum() if tokens is None else (values * tokens).sum()

        sums = self.sums(scores.device)
        count = sums.new_full((), scores.shape[0]) if tokens is None else tokens.sum()
        found = [total(torch.special.entr(shares).sum(-1))]
        margin, otherwise = self._margins(scores, indices)
        none = torch.zeros_like(count)
        found += [none, count, none, none] if margin is None else [
            total(margin), count, count, none if otherwise is None else total(otherwise)]
        sums[self.experts + 3: self.experts + 8] += torch.stack([f.to(sums.dtype) for f in found])
        kept = shares if tokens is None else shares * tokens.unsqueeze(-1)
        sums[2 * self.experts + 8:] += kept.sum(0, dtype=sums.dtype)

    def _margins(self, scores, indices):
        """Returns [T], K-th minus next biased score, and [T], True if the chosen scores are not the largest."""
        if not self.top_k or self.top_k >= self.experts:
            return None, None
        bias = self.bias()
        if bias is not None:
            scores = scores + bias.to(scores)
        best = scores.topk(self.top_k + 1, dim=-1).values
        otherwise = None
        if indices is not None and indices.shape[-1] == self.top_k:
            otherwise = scores.gather(-1, indices.long().clamp(0, self.experts - 1)).amin(-1) < best[:, -1]
        return best[:, -2] - best[:, -1], otherwise

    def _kind_of(self, scores, indices, weights):
        """Returns the function that makes scores of `scores` [T, E]. Called once, because it waits for the device."""
        if bool((scores >= 0).all()) and bool(((scores.sum(-1) - 1).abs() < 1e-2).all()):
            return "given"
        if indices is not None and weights is not None:
            kind = _agreeing_kind(scores, indices, weights.reshape(indices.shape).float())
            if kind:
                return kind
        for owner in [self.module] + [c for c in _configs([self.module] + self.above)]:
            for name in _CONFIG_SCORE_NAMES:
                stated = str(getattr(owner, name, "")).lower()
                for kind in ("sqrtsoftplus", "sigmoid", "softmax"):
                    if kind in stated:
                        return kind
        return "softmax" if self.bias() is None else "sigmoid"

    def _weigh(self, weights, places):
        """Adds up the mixing weights [T, K] by expert."""
        gates = weights.new_zeros(places.shape[0], self.experts + 3).scatter_add_(1, places + 1, weights)
        self._add_gates(gates[:, 1: self.experts + 1], None)

    def _add_gates(self, gates, tokens):
        sums = self.sums(gates.device)
        kept = gates if tokens is None else gates * tokens.unsqueeze(-1)
        sums[self.experts + 8: 2 * self.experts + 8] += kept.sum(0, dtype=sums.dtype)


class _ExpertNorms:
    """Norms of the gradient and of the update of each expert's weights, every `every` steps. Optimizers of PyTorch 2
    call a hook before their step. Without such a call step() reads the gradients, if they still exist, and the earlier
    weights are those at the end of the previous step."""

    def __init__(self, log, model, layers, every):
        self._log, self._layers, self._every = weakref.ref(log), layers, every
        self._model = weakref.ref(model)
        self._columns = {}  # by layer
        self._told = True   # optimizers call before_step()
        self._wanted, self._gradients, self._before = True, None, None

    def hook(self):
        optimizers = importlib.import_module("torch.optim.optimizer")
        register = getattr(optimizers, "register_optimizer_step_pre_hook", None)
        if register is None:
            self._told = False
            self.begin(0)
            return []
        this = weakref.ref(self)

        def before_step(optimizer, _args, _kwargs):
            norms = this()
            if norms is not None and not _is_compiling():
                norms.before_step(optimizer)

        return [register(before_step)]

    def begin(self, step):
        self._wanted, self._gradients, self._before = step % self._every == 0, None, None
        if self._wanted and not self._told:
            self._before = self._copies()

    def before_step(self, optimizer):
        if not self._wanted or self._gradients is not None:
            return
        try:
            if not self._is_of_model(optimizer) or _is_captured([p for c in self._all() for p in _parts(c)][:1]):
                return
            with torch.no_grad():
                self._gradients = self._gradient_norms()
            if self._before is None:
                self._before = self._copies()
        except Exception as error:
            self._wanted = False
            log = self._log()
            if log is not None:
                log.warn("norms", "the norms of experts are not logged: " + _words(error))

    def rows(self, index_of):
        """Returns [{"layer", "gradient_norm", "update_norm"}] for the step that ends."""
        if not self._wanted:
            return []
        if self._gradients is None:
            self._told = False  # this optimizer does not call before_step()
        if self._before is None:
            return []
        with torch.no_grad():
            gradients = self._gradient_norms() if self._gradients is None else self._gradients
            updates = {layer: _norms_of([_difference(now, before) for now, before in zip(columns, self._before[layer])])
                       for layer, columns in self._columns.items() if columns and self._before.get(layer)}
        rows = []
        for layer, norms in updates.items():
            row = {"layer": index_of(layer)}
            if self._gradients is not None or _has_gradients(self._columns[layer]):
                row["gradient_norm"] = [_plain(norm) for norm in gradients[layer].tolist()]
            row["update_norm"] = [_plain(norm) for norm in norms.tolist()]
            rows.append(row)
        return rows

    def _is_of_model(self, optimizer):
        model = self._model()
        own = set() if model is None else {id(p) for p in model.parameters()}
        return any(id(p) in own for group in optimizer.param_groups for p in group["params"])

    def _all(self):
        """Returns the columns of all layers, and finds them if the number of experts is known."""
        for layer in self._layers:
            if layer not in self._columns and layer.experts:
                self._columns[layer] = _expert_weights(layer, self._layers)
        log = self._log()
        missing = [layer.name for layer, columns in self._columns.items() if not columns]
        if missing and log is not None:
            log.warn("no weights", "whole weights of the experts are not found, so that their norms are not logged: "
                     + ", ".join(missing)[:500])
        return [column for columns in self._columns.values() for column in columns]

    def _copies(self):
        self._all()
        return {layer: [_like(column, lambda p: p.detach().clone()) for column in columns]
                for layer, columns in self._columns.items()}

    def _gradient_norms(self):
        self._all()
        return {layer: _norms_of([_like(column, _gradient_of) for column in columns])
                for layer, columns in self._columns.items() if columns}


def _expert_weights(layer, layers):
    """Returns the columns of the weights of a layer's experts: each is a parameter [E, ...], or a list of E parameters.
    They come from the nearest block around the router that has expert weights and contains no other router."""
    others = {other.module for other in layers if other is not layer}
    for owner in [layer.module] + layer.above[:2]:
        inside = set(owner.modules())
        if inside & others:
            break
        columns = _columns_of(owner, layer)
        if columns:
            return columns
    return []


def _columns_of(owner, layer):
    columns, taken = [], set()
    for module in owner.modules():
        if module in taken:
            continue
        children = list(module.children())
        if _holds_only(module) and len(children) == layer.experts and layer.module not in set(module.modules()):
            child_parameters = [list(child.parameters()) for child in children]
            shapes = {tuple(p.shape for p in parameters) for parameters in child_parameters}
            if len(shapes) == 1 and child_parameters[0]:
                columns += [list(column) for column in zip(*child_parameters)]
                taken.update(module.modules())
                continue
        own = [p for p in module.parameters(recurse=False) if p.dim() > 1 and p.shape[0] == layer.experts]
        if any(p.dim() > 2 for p in own):  # includes biases [E, n]
            columns += own
    whole = [c for c in columns if all(p.is_floating_point() and _is_whole(p) for p in _parts(c))]
    return whole if len(whole) == len(columns) else []


def _is_whole(tensor):
    return all(placement.is_replicate() for placement in getattr(tensor, "placements", None) or ())


def _parts(column):
    return column if isinstance(column, list) else [column]


def _like(column, function):
    return [function(p) for p in column] if isinstance(column, list) else function(column)


def _gradient_of(parameter):
    gradient = parameter.grad
    return torch.zeros_like(parameter) if gradient is None else gradient.detach()


def _has_gradients(columns):
    return any(p.grad is not None for column in columns for p in _parts(column))


def _difference(now, before):
    if isinstance(now, list):
        return [a.detach() - b for a, b in zip(now, before)]
    return now.detach() - before


def _norms_of(columns):
    """Returns the norm of each expert over all columns, [E]."""
    squares = 0
    for column in columns:
        exact = torch.float32 if _parts(column)[0].device.type == "mps" else torch.float64
        if isinstance(column, list):
            norms = torch.stack([torch.linalg.vector_norm(_local(p), dtype=exact) for p in column])
        else:
            norms = torch.linalg.vector_norm(_local(column).flatten(1), dim=1, dtype=exact)
        squares = norms.square() + squares
    return squares.sqrt()


def _histograms(rows, size):
    """Returns [rows, size]: how often each number from -1 to size - 2 is in a row. Does not wait for the device."""
    if rows.device.type != "cpu" and (not rows.is_cuda or torch.are_deterministic_algorithms_enabled()):
        numbers = torch.arange(-1, size - 1, device=rows.device)
        return torch.stack([(row.unsqueeze(-1) == numbers).sum(0) for row in rows])
    bins = rows.shape[0] * size
    places = rows + torch.arange(1, bins, size, device=rows.device).unsqueeze(-1)
    if rows.is_cuda:
        return torch.histc(places.int(), bins=bins, min=0, max=bins - 1).reshape(-1, size)
    return torch.bincount(places.reshape(-1), minlength=bins).reshape(-1, size)


def _call_route(choose, scores, inputs):
    """Calls route_tokens_to_experts(), which takes the scores, and in some models also the input of the block."""
    names = list(inspect.signature(choose).parameters)
    if len(names) == 1:
        return choose(scores)
    return choose(**{name: inputs[0] if "hidden" in name else scores for name in names})


def _agreeing_kind(scores, indices, weights):
    """Returns the function of `scores` [T, E] that gives the mixing weights [T, K] up to a factor per token; None if
    unclear."""
    indices = indices.long().clamp(0, scores.shape[-1] - 1)
    errors = []
    for kind in ("softmax", "sigmoid", "sqrtsoftplus"):
        ratio = weights / _SCORE_KINDS[kind](scores).gather(-1, indices).clamp_min(1e-20)
        if ratio.shape[-1] == 1:
            ratio = ratio.t()  # with one expert per token: one factor for all tokens
            if bool((weights - weights[0]).abs().max() < 1e-3):
                return None  # normalised: each weight is 1
        spread = (ratio.amax(-1) - ratio.amin(-1)) / ratio.mean(-1).abs().clamp_min(1e-20)
        errors.append((float(spread.mean()), kind))  # the mean, because returned logits may be rounded
    (best, kind), (second, _) = sorted(errors)[:2]
    return kind if best < 0.05 and second > 3 * best else None


# Hooks.


class _Hook:
    """Callable that PyTorch calls before or after a layer's forward pass. A copy or pickle of the model has a function
    that does nothing in its place, and does not need moescope_log."""

    def __init__(self, layer, when):
        self.layer, self.when = layer, when

    def __call__(self, module, inputs, output=None):
        layer = self.layer
        if _is_compiling():
            _send(layer, self.when == "before", layer.values(output), inputs)
        else:
            _see_eagerly(layer, self.when, inputs, output)

    def __deepcopy__(self, _memo):
        return _do_nothing

    def __reduce__(self):
        return getattr, (contextlib.nullcontext(), "__exit__")


def _do_nothing(*_):
    return None


def _see_eagerly(layer, when, inputs, output):
    if torch.jit.is_tracing():
        return
    try:
        values = [value.detach() for value in layer.values(output)]
        mask = layer.log.padding_mask(values[0].device if values else None)
    except Exception as error:
        layer.failures += 1
        layer.log.warn(type(error), "%s is not logged: %s" % (layer.name, _words(error)))
        return
    layer.see(when, values, inputs, mask, torch.is_grad_enabled())


_is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)
def _send(layer, before, values, inputs):
    """Adds an operator to the graph that is being compiled; it calls layer.see() whenever the graph runs."""
    if getattr(torch.compiler, "_is_exporting_flag", False):
        return  # is_exporting() is true whenever a graph is traced
    mask = layer.log.padding_mask()
    _OPERATOR([v.detach() for v in values], [inputs[0].detach()] if layer.needs_inputs and inputs else [],
              [] if mask is None else [mask], layer.token, before, torch.is_grad_enabled())


def _see_in_graph(values, inputs, masks, token, before, recording):
    layer = _COMPILED.get(int(token))
    if layer is not None:
        layer.see("before" if before else "after", values, inputs, masks[0] if masks else None, recording)


def _define_operator():
    """Returns the operator and the library that keeps it alive. The operator declares that it changes `token`, so that
    no compiler removes it."""
    library = torch.library.Library("moescope_log", "FRAGMENT")
    tag = getattr(torch.Tag, "cudagraph_unsafe", None)  # because a replayed CUDA graph would not call it
    for number in itertools.count():  # a second copy of this file has its own operators
        name = "see_%d" % number
        if hasattr(torch.ops.moescope_log, name):
            continue
        library.define(name + "(Tensor[] values, Tensor[] inputs, Tensor[] masks, Tensor(a!) token, bool before, "
                       "bool recording) -> ()", tags=() if tag is None else (tag,))
        library.impl(name, _see_in_graph, "CompositeExplicitAutograd")
        torch.library.register_fake("moescope_log::" + name, lambda *_: None, lib=library)
        return getattr(torch.ops.moescope_log, name).default, library


if hasattr(torch.library, "register_fake"):  # PyTorch 2.4
    _OPERATOR, _LIBRARY = _define_operator()
elif hasattr(torch, "_dynamo"):
    _see_eagerly = torch._dynamo.disable(_see_eagerly)
    _is_compiling = lambda: False  # noqa: E731


class _MaskHook:
    """Keeps the attention mask that a part of the model is called with."""

    def __init__(self, log, place, is_root):
        self.log, self.place, self.is_root = log, place, is_root

    def __call__(self, module, inputs, kwargs=None):
        if kwargs is None:  # before PyTorch 2.0 hooks do not get keyword arguments
            kwargs = sys._getframe(1).f_locals.get("kwargs") or {}
        if _is_compiling():
            self._look(inputs, kwargs)
            return
        try:
            self._look(inputs, kwargs)
        except Exception as error:
            self.log.warn("mask", "the attention mask is not read: " + _words(error))

    def _look(self, inputs, kwargs):
        mask = kwargs.get("attention_mask")
        if mask is None and self.place is not None and self.place < len(inputs):
            mask = inputs[self.place]
        if mask is None:
            self.log.saw_mask(None)
        elif isinstance(mask, torch.Tensor) and mask.dim() == 2 and not mask.is_floating_point():
            self.log.saw_mask(mask.detach())
        elif self.is_root:
            self.log.saw_mask(None)

    def __deepcopy__(self, _memo):
        return _do_nothing

    def __reduce__(self):
        return getattr, (contextlib.nullcontext(), "__exit__")


def _hook_masks(log, model, layers):
    """Hooks the model, and its parts around the layers that take an attention mask, for example encoder and decoder."""
    handles = []
    for name, module in model.named_modules():
        is_around = not name or any(layer.full_name.startswith(name + ".") for layer in layers)
        if not is_around or re.search(r"(^|\.)\d+(\.|$)", name) or _holds_only(module):
            continue
        with contextlib.suppress(TypeError, ValueError):
            names = list(inspect.signature(module.forward).parameters)
            if name and "attention_mask" not in names:
                continue
            place = names.index("attention_mask") if "attention_mask" in names else None
            hook = _MaskHook(log, place, not name)
            if "with_kwargs" in inspect.signature(module.register_forward_pre_hook).parameters:
                handles.append(module.register_forward_pre_hook(hook, with_kwargs=True))
            else:
                handles.append(module.register_forward_pre_hook(hook))
    return handles


# Ranks.


class _Ranks:
    """The processes whose counts are added up. Decisions to communicate depend only on values that are equal on all
    ranks, so that no rank waits for a call that another rank does not make."""

    def __init__(self, group):
        self._group = group
        self._counts, self._classes, self._steps, self._news = True, None, 0, None
        self._experts_known, self._broken, self._with_routers = False, False, []

    def alone(self):
        distributed = torch.distributed
        if self._group == "alone" or not (distributed.is_available() and distributed.is_initialized()):
            return True
        return distributed.get_world_size(self._process_group()) <= 1

    def writes(self):
        if self._group == "alone":
            return True
        distributed = torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank() == 0
        return os.environ.get("RANK", "0") in ("", "0")

    def comparing(self):
        return self._steps < _SETTLING_STEPS and not self.alone()

    def rows(self, own):
        """Returns the layers of all ranks."""
        if self.alone():
            return own
        everywhere = [None] * self._size()
        torch.distributed.all_gather_object(everywhere, [vars(row) for row in own], group=self._process_group())
        self._with_routers = [bool(rank_rows) for rank_rows in everywhere]
        rows = {}
        for rank_rows in everywhere:
            for row_values in rank_rows:
                row = _Row(row_values["name"], row_values["number"], row_values["first_layer"], 0, 0)
                row = rows.setdefault(row.key(), row)
                row.experts, row.top_k = max(row.experts, row_values["experts"]), max(row.top_k, row_values["top_k"])
        return list(rows.values())

    def total(self, step, rows, own):
        """Returns a _Total for each row; None if the ranks are not at the same step."""
        if self._broken:
            return None
        if self.alone():
            return [self._total_of(row, own.get(row.key())) for row in rows]
        try:
            return self._total_of_all(step, rows, own)
        except Exception:
            self._broken = True
            raise

    def news(self):
        news, self._news = self._news, None
        return news

    def _total_of(self, row, values):
        values = [0.0] * _Total.size(row.experts) if values is None else values
        row.experts = _Total.experts_of(values)
        return _Total(row.experts, values)

    def _total_of_all(self, step, rows, own):
        self._agree_on_experts(rows, own)
        if self.comparing():
            self._compare(rows, own)
        parts = [1.0, step, float(step) ** 2]
        for row in rows:
            values = own.get(row.key())
            zeros = [0.0] * _Total.size(row.experts)
            if values is not None and len(values) != len(zeros):
                values = [0.0, 1.0] + zeros[2:]  # the number of experts changed: a failure
            parts += zeros if values is None or not self._counts else values
        total = torch.tensor(parts, dtype=torch.float64, device=self._device())
        torch.distributed.all_reduce(total, group=self._process_group())
        total = total.tolist()
        ranks, steps, squares = total[:3]
        if steps != ranks * step or squares != ranks * float(step) ** 2:
            return None
        totals, at = [], 3
        for row in rows:
            end = at + _Total.size(row.experts)
            totals.append(_Total(row.experts, total[at:end]))
            at = end
        return totals

    def _agree_on_experts(self, rows, own):
        if self._experts_known:
            return
        here = [max(row.experts, _Total.experts_of(own.get(row.key()) or [0.0] * _Total.HEAD)) for row in rows]
        experts = torch.tensor(here or [1], device=self._device())
        torch.distributed.all_reduce(experts, op=torch.distributed.ReduceOp.MAX, group=self._process_group())
        for row, count in zip(rows, experts.tolist()):
            row.experts = count
        self._experts_known = bool((experts > 0).all())

    def _compare(self, rows, own):
        """Finds the ranks that saw the same tokens; only the first of them counts."""
        mine = torch.tensor([own.get(("fingerprint", row.key()), 0.0) for row in rows] or [0.0], dtype=torch.float64,
                            device=self._device())
        everywhere = [torch.zeros_like(mine) for _ in range(self._size())]
        torch.distributed.all_gather(everywhere, mine, group=self._process_group())
        prints = [tuple(each.tolist()) for each in everywhere]
        first = [prints.index(each) if any(each) else place for place, each in enumerate(prints)]
        rank = torch.distributed.get_rank(self._process_group())
        if self._classes is not None and first != self._classes:
            first, self._steps = list(range(len(first))), _SETTLING_STEPS  # equal by chance
        self._counts = first[rank] == rank
        if not all(any(each) or not has for each, has in zip(prints, self._with_routers)):
            return  # a rank had no pass; its tokens are compared later
        if self._classes is None and len(set(first)) < len(first):
            self._news = "%d of %d ranks saw the same tokens as another rank and are left out" % (
                len(first) - len(set(first)), len(first))
        self._classes = first
        self._steps += 1

    def _process_group(self):
        return None if self._group == "alone" else self._group

    def _size(self):
        return torch.distributed.get_world_size(self._process_group())

    def _device(self):
        backend = str(torch.distributed.get_backend(self._process_group()))
        return torch.device("cuda" if "nccl" in backend and "gloo" not in backend else "cpu")


# Callbacks.


def trainer_callback(path, model=None, **options):
    """For Hugging Face's Trainer: Trainer(model, args, callbacks=[trainer_callback("run.jsonl", model)]).

    `options` are the arguments of MoeLog; `model` is by default the Trainer's model. The line of a step is written when
    the next step begins. Loss and gradient norm are in the lines of the steps that the Trainer logs
    (args.logging_steps; its loss is the mean since the last logged step). Raises ValueError if the given model
    has no router.
    """
    from transformers import TrainerCallback

    if model is not None:
        MoeLog(os.devnull, model, **{**options, "group": "alone"}).close()

    class MoeLogCallback(TrainerCallback):
        def __init__(self):
            self.log, self.step, self.logged = None, None, {}

        @_only_warns
        def on_train_begin(self, args, state, control, **more):
            self._end()  # closes the log of an earlier, interrupted training
            trained = model if model is not None else more.get("model")
            self.log = _log_or_warning(path, trained, {"append": state.global_step > 0, **options})

        @_only_warns
        def on_step_end(self, args, state, control, **_):
            self.step = state.global_step - 1  # global_step counts from 1

        @_only_warns
        def on_log(self, args, state, control, logs=None, **_):
            names = {"loss": "loss", "grad_norm": "grad_norm", "learning_rate": "lr"}
            self.logged.update({names[key]: value for key, value in (logs or {}).items() if key in names})

        @_only_warns
        def on_step_begin(self, args, state, control, **_):
            self._write()

        @_only_warns
        def on_train_end(self, args, state, control, **_):
            self._write()
            self._end()

        def _write(self):
            if self.step is not None and self.log is not None:
                self.log.step(self.step, **self.logged)
            self.step, self.logged = None, {}

        def _end(self):
            if self.log is not None:
                self.log.close()
            self.log, self.step, self.logged = None, None, {}

    return MoeLogCallback()


def lightning_callback(path, model=None, **options):
    """For Lightning: Trainer(callbacks=[lightning_callback("run.jsonl")]).

    `options` are the arguments of MoeLog; `model` is by default the LightningModule. The loss is the return value of
    training_step, for the last microbatch if gradients are accumulated.
    """
    try:
        from lightning.pytorch import Callback
    except ImportError:
        from pytorch_lightning import Callback

    class MoeLogCallback(Callback):
        moe_log = None  # not `log`, which Lightning sets

        @_only_warns
        def on_train_start(self, trainer, module):
            self._end()
            resumed = {"append": trainer.global_step > 0}
            self.moe_log = _log_or_warning(path, module if model is None else model, {**resumed, **options})
            self.steps = trainer.global_step

        @_only_warns
        def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
            if self.moe_log is None or trainer.global_step == self.steps:
                return  # gradients are still being accumulated
            self.steps = trainer.global_step
            loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
            lr = trainer.optimizers[0].param_groups[0]["lr"] if trainer.optimizers else None
            self.moe_log.step(self.steps - 1, loss=loss, lr=lr)

        @_only_warns
        def on_train_end(self, trainer, module):
            self._end()

        @_only_warns
        def on_exception(self, trainer, module, exception):
            self._end()

        def _end(self):
            if self.moe_log is not None:
                self.moe_log.close()
            self.moe_log = None

    return MoeLogCallback()


def _only_warns(method):
    """Decorator for methods that a training calls: prints an error instead of raising it."""

    @functools.wraps(method)
    def guarded(self, *args, **more):
        try:
            return method(self, *args, **more)
        except Exception as error:
            print("moescope_log: %s: %s" % (method.__name__, _words(error)), file=sys.stderr)
            return None

    return guarded


def _log_or_warning(path, model, options):
    try:
        try:
            return MoeLog(path, model, **options)
        except OSError as error:  # the other ranks wait for this rank in step()
            print("moescope_log: nothing is written: " + _words(error), file=sys.stderr)
            return MoeLog(os.devnull, model, **options)
    except Exception as error:
        print("moescope_log: nothing is logged: " + _words(error), file=sys.stderr)
        return None


# Tensors.


def _collect(value, found):
    """Appends all tensors in a nested value to `found`, in order."""
    if isinstance(value, torch.Tensor):
        found.append(value)
    elif isinstance(value, dict):
        for each in value.values():
            _collect(each, found)
    elif isinstance(value, (tuple, list)):
        for each in value:
            _collect(each, found)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            _collect(getattr(value, field.name), found)


def _local(tensor):
    """Returns this rank's rows of a distributed tensor; None if they are not whole rows."""
    placements = getattr(tensor, "placements", None)
    if placements is None or not hasattr(tensor, "to_local"):
        return tensor
    for placement in placements:
        if placement.is_partial() or (placement.is_shard() and placement.dim % tensor.dim() == tensor.dim() - 1):
            return None
    return tensor.to_local()


def _is_only_traced(values):
    """True if the tensors have no values: tensors on the device "meta" and fake tensors."""
    return any(v.device.type == "meta" or type(v).__name__ in ("FakeTensor", "FunctionalTensor") for v in values)


def _is_captured(values):
    return any(v.is_cuda for v in values) and torch.cuda.is_current_stream_capturing()


_graph_task = getattr(torch._C, "_current_graph_task_id", None)


def _is_repeated():
    """True if this forward pass runs within a backward pass, as in activation checkpointing."""
    if _graph_task is not None:
        return _graph_task() != -1
    frame = sys._getframe(1)  # before PyTorch 2.0
    while frame is not None:
        code = frame.f_code
        if code.co_name in ("backward", "unpack") and code.co_filename.endswith(os.path.join("utils", "checkpoint.py")):
            return True
        frame = frame.f_back
    return False


def _plain(value):
    """Converts tensors to numbers and rounds numbers; NaN and infinities stay, as Python's JSON writes them."""
    if isinstance(value, torch.Tensor):
        value = value.detach().float().cpu()
        return value.item() if value.numel() == 1 else value.tolist()
    if isinstance(value, float) and math.isfinite(value):
        return float("%.7g" % value)
    return value


def _plain_or_text(value):
    """Converts values that JSON does not have: tensors, NumPy numbers and arrays to numbers, others to text."""
    if isinstance(value, torch.Tensor):
        return _plain(value)
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _on_host(tensors):
    """Returns the tensors as lists of numbers, with one copy from each device and type."""
    lists, devices = [None] * len(tensors), {}
    for place, tensor in enumerate(tensors):
        devices.setdefault((tensor.device, tensor.dtype), []).append(place)
    for places in devices.values():
        numbers = iter(torch.cat([tensors[place] for place in places]).tolist())
        for place in places:
            lists[place] = list(itertools.islice(numbers, tensors[place].numel()))
    return lists


def _words(error):
    return "%s: %s" % (type(error).__name__, str(error).strip().split("\n")[0][:300])
