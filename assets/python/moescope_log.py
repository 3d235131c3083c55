"""Logs what the routers of a PyTorch mixture-of-experts model do, for MoEscope to show.

One file, no dependency but PyTorch (1.13 or later): copy it beside your training script.

    from moescope_log import MoeLog

    log = MoeLog("run.jsonl", model, top_k=6)       # finds the routers by name and hooks them
    for step in range(steps):
        ...forward, backward, optimizer.step()...
        log.step(step, loss=loss, grad_norm=norm, lr=lr)
    log.close()

While it runs: moescope --follow run.jsonl. Afterwards: moescope run.jsonl, or moescope-cli import run.jsonl -o run.moescope.

What is hooked, per MoE layer:
  * a module with a buffer `tokens_per_expert` (TorchTitan): what its forward pass adds to that buffer;
  * else a module whose name matches `routers`, by what its forward pass returns: expert indices (an integer tensor
    [..., K]), a routing map (a boolean tensor [..., E]), or scores or logits [..., E], of which the `top_k` largest count.
Of scores or logits also their entropy and the margin between the K-th and the next are logged, every `scores_every`
steps; a buffer or parameter `expert_bias` (or `e_score_correction_bias`) of the module or its parent every `bias_every`.

Counts stay on the device until step(), which writes one line. With torch.distributed they are summed over all ranks and
rank 0 writes; step() is a collective then: call it on every rank. Under activation checkpointing the forward pass runs
twice and every token counts twice: loads as shares of the fair load stay right.
"""

import json
import math
import re
import time

import torch

_BIAS_NAMES = ("expert_bias", "e_score_correction_bias")
_EXPERT_NAMES = ("num_experts", "n_experts", "n_routed_experts", "num_local_experts", "out_features")
_TOP_K_NAMES = ("top_k", "topk", "num_experts_per_tok", "k")


class MoeLog:
    """See the module's description.

    path          file to write, one JSON object a line; an earlier file of that name is replaced unless append=True
    model         any torch.nn.Module
    routers       regular expression over module names; the first group that is digits, or else the first number in the
                  name, is the layer's index
    top_k         experts a token is sent to; needed only where routers return scores (then 1 is assumed without it)
    scores        what scores are, for their entropy: "softmax" or "sigmoid" of logits, or "given" (already positive)
    settings      dict of anything that says what this run is: precision, seed, tokens_per_step, domains, ...
    """

    def __init__(self, path, model, routers=r"(^|\.)(router|gate|moe_gate)$", top_k=None, scores="softmax",
                 scores_every=10, bias_every=10, settings=None, append=False):
        self._start = time.time()
        self._scores_kind, self._scores_every, self._bias_every = scores, scores_every, bias_every
        self._step = 0
        self._layers = []
        self._handles = []
        names = dict(model.named_modules())
        for name, module in names.items():
            if isinstance(getattr(module, "tokens_per_expert", None), torch.Tensor):
                self._add(_BufferLayer(name, module))
        covered = [layer.name for layer in self._layers]
        for name, module in names.items():
            if not re.search(routers, name) or any(name.startswith(c + ".") or name == c for c in covered):
                continue
            parent = names.get(name.rpartition(".")[0])
            self._add(_RouterLayer(name, module, parent, top_k))
        if not self._layers:
            raise ValueError("no router found: no module has a buffer tokens_per_expert, and no name matches %r; "
                             "the names are %s" % (routers, ", ".join(n for n in names if n)[:2000]))
        self._number_layers(routers)
        self._file = open(path, "a" if append else "w") if _rank() == 0 else None
        self._write(self._settings(settings, top_k, model))

    def step(self, step, loss=None, grad_norm=None, lr=None, **more):
        """Writes a line for this training step. `more` goes into the line as it is (numbers, lists, strings)."""
        line = {"step": int(step), "wall_s": round(time.time() - self._start, 6)}
        for key, value in dict(loss=loss, grad_norm=grad_norm, lr=lr, **more).items():
            if value is not None:
                line[key] = _plain(value)
        routers = []
        for layer in self._layers:
            row = layer.take(self._scores_kind, step % max(1, self._bias_every) == 0)
            if row:
                routers.append(row)
        if routers:
            line["routers"] = routers
        self._write(line)
        self._step = int(step) + 1
        for layer in self._layers:
            layer.want_scores = self._scores_every > 0 and self._step % self._scores_every == 0

    def close(self):
        for handle in self._handles:
            handle.remove()
        self._handles = []
        if self._file:
            self._file.close()
            self._file = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _add(self, layer):
        layer.want_scores = self._scores_every > 0
        self._layers.append(layer)
        self._handles += layer.hook()

    def _number_layers(self, routers):
        numbers = []
        for layer in self._layers:
            match = re.search(routers, layer.name)
            groups = [g for g in (match.groups() if match else ()) if g and g.isdigit()]
            found = groups or re.findall(r"\d+", layer.name)
            numbers.append(int(found[0]) if found else None)
        unique = None not in numbers and len(set(numbers)) == len(numbers)
        for place, layer in enumerate(self._layers):
            layer.index = numbers[place] if unique else place
        self._layers.sort(key=lambda layer: layer.index)

    def _settings(self, settings, top_k, model):
        line = {"framework": "PyTorch " + torch.__version__,
                "parameters": sum(p.numel() for p in model.parameters())}
        line["moe_layers"] = [layer.index for layer in self._layers]
        experts = [layer.experts for layer in self._layers if layer.experts]
        if experts:
            line["experts"] = max(experts)
        known = top_k or next((layer.top_k for layer in self._layers if layer.top_k), None)
        if known:
            line["top_k"] = int(known)
        line.update({key: _plain(value) for key, value in (settings or {}).items()})
        return line

    def _write(self, line):
        if self._file:
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()


class _Layer:
    def __init__(self, name, module, parent=None):
        self.name, self.module, self.parent = name, module, parent
        self.index, self.experts, self.top_k = 0, None, None
        self.want_scores = True
        self._counts = None
        self._scores = []  # (entropy, margin, tokens) of the passes of this step, on the device

    def _count(self, counts):
        counts = counts.detach().to(torch.float64 if counts.device.type == "cpu" else torch.float32)
        self._counts = counts if self._counts is None else self._counts + counts

    def take(self, kind, with_bias):
        if self._counts is None:
            return None
        counts, self._counts = _summed(self._counts), None
        row = {"layer": self.index, "tokens_per_expert": [int(round(n)) for n in counts.tolist()]}
        if self._scores:
            total = sum(tokens for _, _, tokens in self._scores)
            entropy = sum(e * tokens for e, _, tokens in self._scores) / total
            margins = [(m, tokens) for _, m, tokens in self._scores if m is not None]
            row["score_entropy"] = _plain(entropy)
            if margins:
                row["margin"] = _plain(sum(m * tokens for m, tokens in margins) / sum(t for _, t in margins))
            self._scores = []
        bias = self._bias()
        if with_bias and bias is not None and bias.numel() == len(row["tokens_per_expert"]):
            row["expert_bias"] = _plain(bias)
        return row

    def _bias(self):
        for owner in (self.module, self.parent):
            for name in _BIAS_NAMES:
                value = getattr(owner, name, None)
                if isinstance(value, torch.Tensor):
                    return value
        return None


class _BufferLayer(_Layer):
    """A module that counts by itself, in a buffer that somebody else zeroes."""

    def __init__(self, name, module):
        super().__init__(name, module)
        self.experts = module.tokens_per_expert.numel()
        self.top_k = next((int(getattr(owner, key)) for owner in (module, getattr(module, "router", None))
                           for key in _TOP_K_NAMES if isinstance(getattr(owner, key, None), int)), None)
        self._before = None

    def hook(self):
        return [self.module.register_forward_pre_hook(self._pre), self.module.register_forward_hook(self._post)]

    def _pre(self, module, _inputs):
        self._before = module.tokens_per_expert.detach().clone()

    def _post(self, module, _inputs, _output):
        if self._before is not None:
            self._count((module.tokens_per_expert.detach() - self._before).flatten())
            self._before = None


class _RouterLayer(_Layer):
    """A router, judged by what it returns."""

    def __init__(self, name, module, parent, top_k):
        super().__init__(name, module, parent)
        owners = [owner for owner in (module, parent) if owner is not None]
        self.experts = next((int(getattr(owner, key)) for owner in owners for key in _EXPERT_NAMES
                             if isinstance(getattr(owner, key, None), int)), None)
        if self.experts is None and isinstance(getattr(module, "weight", None), torch.Tensor):
            self.experts = module.weight.shape[0]
        self.top_k = top_k or next((int(getattr(owner, key)) for owner in owners for key in _TOP_K_NAMES
                                    if isinstance(getattr(owner, key, None), int)), None)
        self._kind = "softmax"

    def hook(self):
        return [self.module.register_forward_hook(self._post)]

    def take(self, kind, with_bias):
        self._kind = kind
        return super().take(kind, with_bias)

    def _post(self, _module, _inputs, output):
        with torch.no_grad():
            tensors = [t.detach() for t in _tensors(output)]
            scores = next((t for t in tensors if t.is_floating_point() and t.dim() > 1
                           and (self.experts is None or t.shape[-1] == self.experts)), None)
            if self.experts is None and scores is not None:
                self.experts = scores.shape[-1]
            routing_map = next((t for t in tensors if t.dtype == torch.bool and t.shape[-1] == self.experts), None)
            indices = next((t for t in tensors if t.dtype in (torch.int64, torch.int32, torch.int16)
                            and t.dim() > 1), None)
            if routing_map is not None:
                self._count(routing_map.reshape(-1, self.experts).sum(0))
            elif indices is not None and self.experts:
                self._count(torch.bincount(indices.reshape(-1).long(), minlength=self.experts)[: self.experts])
            elif scores is not None:
                chosen = scores.reshape(-1, self.experts).topk(min(self.top_k or 1, self.experts), dim=-1).indices
                self._count(torch.bincount(chosen.reshape(-1), minlength=self.experts))
            if scores is not None and self.want_scores:
                self._judge(scores.reshape(-1, self.experts).float())

    def _judge(self, scores):
        if self._kind == "sigmoid":
            shares = scores.sigmoid()
        elif self._kind == "given":
            shares = scores.clamp_min(0)
        else:
            shares = scores.softmax(-1)
        shares = shares / shares.sum(-1, keepdim=True).clamp_min(1e-20)
        entropy = torch.special.entr(shares).sum(-1).mean()
        margin = None
        if self.top_k and self.top_k < self.experts:
            best = scores.topk(self.top_k + 1, dim=-1).values
            margin = (best[:, -2] - best[:, -1]).mean()
        self._scores.append((entropy, margin, scores.shape[0]))


def _tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _tensors(each)
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _tensors(each)


def _plain(value):
    """Numbers out of tensors; NaN and infinities stay, as Python's JSON writes them."""
    if isinstance(value, torch.Tensor):
        value = value.detach().float().cpu()
        return value.item() if value.numel() == 1 else value.tolist()
    if isinstance(value, float) and math.isfinite(value):
        return float("%.7g" % value)
    return value


def _rank():
    distributed = torch.distributed
    return distributed.get_rank() if distributed.is_available() and distributed.is_initialized() else 0


def _summed(counts):
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1:
        counts = counts.clone()
        distributed.all_reduce(counts)
    return counts.cpu()
