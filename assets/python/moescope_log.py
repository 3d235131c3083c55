"""Logs what the routers of a PyTorch mixture-of-experts model do, for MoEscope to show.

One file, no dependency but PyTorch (1.13 or later): copy it beside your training script.

    from moescope_log import MoeLog

    log = MoeLog("run.jsonl", model, top_k=6)       # finds the routers by name and hooks them
    for step in range(steps):
        ...forward, backward, optimizer.step()...
        log.step(step, loss=loss, grad_norm=norm, lr=lr)
    log.close()

While it runs: moescope --follow run.jsonl. Afterwards: moescope run.jsonl, or
moescope-cli import run.jsonl -o run.moescope.
For Hugging Face's Trainer and for Lightning there are callbacks: trainer_callback() and lightning_callback() below.

What is hooked, per MoE layer:
  * a module with a buffer `tokens_per_expert` (TorchTitan): what its forward pass adds to that buffer;
  * else a module whose name matches `routers`, by what its forward pass returns: expert indices (an integer tensor
    [..., K]), a routing map (a boolean tensor [..., E]), or scores or logits [..., E]. Of these, those experts count
    that the parent's route_tokens_to_experts() chooses (Hugging Face's DeepSeek, GLM, Nemotron), else the `top_k`
    largest.
So the routers of Hugging Face's Mixtral, Qwen-MoE, OLMoE, DeepSeek and gpt-oss are found by their names.
Every `scores_every` steps also the scores' entropy, the margin between the K-th and the next biased score, and the
share of the mixing weights that each expert got (`gate_mass`) are logged, as far as the router returns them; every
`bias_every` a buffer or parameter `expert_bias` (or `e_score_correction_bias`) of the module or its parent.
Forward passes of a module that is not in training mode, as in an evaluation, do not count.

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
    scores        what the returned scores are: "softmax" or "sigmoid" of logits, or "given" (already positive). None:
                  given where they sum to 1, else sigmoid where there is an expert bias, else softmax
    settings      dict of anything that says what this run is: precision, seed, tokens_per_step, domains, ...
    """

    def __init__(self, path, model, routers=r"(^|\.)(router|gate|moe_gate)$", top_k=None, scores=None,
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
        self._gates = None  # [E] sum of the mixing weights of this step, on the device

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
        if self._gates is not None:
            gates, self._gates = _summed(self._gates), None
            row["gate_mass"] = _plain(gates / gates.sum().clamp_min(1e-20))
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
        if self._before is not None and module.training:
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
        self._kind = None   # as asked for
        self._found = None  # what the first pass was found to return: "given", "sigmoid", "softmax" or "gates"

    def hook(self):
        return [self.module.register_forward_hook(self._post)]

    def take(self, kind, with_bias):
        self._kind = kind
        return super().take(kind, with_bias)

    def _post(self, module, _inputs, output):
        if not module.training:
            return
        with torch.no_grad():
            tensors = [t.detach() for t in _tensors(output)]
            scores = next((t for t in tensors if t.is_floating_point() and t.dim() > 1
                           and (self.experts is None or t.shape[-1] == self.experts)), None)
            if self.experts is None and scores is not None:
                self.experts = scores.shape[-1]
            routing_map = next((t for t in tensors if t.dtype == torch.bool and t.shape[-1] == self.experts), None)
            indices = self._indices(tensors, output, scores) if routing_map is None else None
            if routing_map is not None:
                self._count(routing_map.reshape(-1, self.experts).sum(0))
            elif indices is not None and self.experts:
                self._count(torch.bincount(indices.reshape(-1).long(), minlength=self.experts)[: self.experts])
            if scores is not None:
                scores = scores.reshape(-1, self.experts).float()
                if self._found is None:
                    self._found = self._kind_of(scores)
            if not self.want_scores:
                return
            if scores is not None and self._found != "gates":
                self._judge(scores)
            self._weigh(tensors, indices, scores)

    def _indices(self, tensors, output, scores):
        """The chosen experts [..., K]."""
        found = next((t for t in tensors if t.dtype in (torch.int64, torch.int32, torch.int16) and t.dim() > 1), None)
        if found is not None or scores is None:
            return found
        choose = getattr(self.parent, "route_tokens_to_experts", None)
        if choose is not None and isinstance(output, torch.Tensor):
            return next(t for t in _tensors(choose(output.detach())) if not t.is_floating_point())
        return scores.topk(min(self.top_k or 1, self.experts), dim=-1).indices

    def _kind_of(self, scores):
        """Of scores [T, E], told once, because it waits for the device."""
        if self._kind:
            return self._kind
        if bool((scores >= 0).all()):
            if bool((scores > 0).sum(-1).max() < self.experts) and self.top_k != self.experts:
                return "gates"  # zero where an expert was not chosen: weights of the mixture, not scores
            if bool(((scores.sum(-1) - 1).abs() < 1e-2).all()):
                return "given"
        return "softmax" if self._bias() is None else "sigmoid"

    def _judge(self, scores):
        if self._found == "sigmoid":
            scores = scores.sigmoid()
        elif self._found == "given":
            scores = scores.clamp_min(0)
        else:
            scores = scores.softmax(-1)
        shares = scores / scores.sum(-1, keepdim=True).clamp_min(1e-20)
        entropy = torch.special.entr(shares).sum(-1).mean()
        margin, bias = None, self._bias()
        if bias is not None and bias.numel() == self.experts:
            scores = scores + bias.detach().float()
        if self.top_k and self.top_k < self.experts:
            best = scores.topk(self.top_k + 1, dim=-1).values
            margin = (best[:, -2] - best[:, -1]).mean()
        self._scores.append((entropy, margin, scores.shape[0]))

    def _weigh(self, tensors, indices, scores):
        """Adds up the weights with which experts' outputs are mixed, where the router returns them."""
        if scores is not None and self._found == "gates":
            gates = scores.sum(0)
        else:
            weights = next((t for t in tensors if t.is_floating_point() and indices is not None
                            and t.shape == indices.shape and t.shape[-1] != self.experts), None)
            if weights is None:
                return
            gates = torch.zeros(self.experts, device=weights.device)
            gates.index_add_(0, indices.reshape(-1).long(), weights.reshape(-1).float())
        self._gates = gates if self._gates is None else self._gates + gates


def trainer_callback(path, model, **options):
    """For Hugging Face's Trainer: Trainer(model, args, callbacks=[trainer_callback("run.jsonl", model)]).

    `options` are MoeLog's. A step's line is written when the next begins. Loss and gradient norm stand in the lines of
    the steps that the Trainer logs (args.logging_steps; its loss is the mean of the steps since the last such one).
    """
    from transformers import TrainerCallback

    class MoeLogCallback(TrainerCallback):
        def __init__(self):
            self.log, self.step, self.logged = None, None, {}

        def on_train_begin(self, args, state, control, **_):
            self.log = MoeLog(path, model, **{"append": state.global_step > 0, **options})

        def on_step_end(self, args, state, control, **_):
            self.step = state.global_step - 1  # counts from 1

        def on_log(self, args, state, control, logs=None, **_):
            names = {"loss": "loss", "grad_norm": "grad_norm", "learning_rate": "lr"}
            self.logged.update({names[key]: value for key, value in (logs or {}).items() if key in names})

        def on_step_begin(self, args, state, control, **_):
            self._write()

        def on_train_end(self, args, state, control, **_):
            self._write()
            self.log.close()

        def _write(self):
            if self.step is not None:
                self.log.step(self.step, **self.logged)
            self.step, self.logged = None, {}

    return MoeLogCallback()


def lightning_callback(path, model=None, **options):
    """For Lightning: Trainer(callbacks=[lightning_callback("run.jsonl")]).

    `options` are MoeLog's; `model` is the LightningModule unless something else is given. The loss is what
    training_step returned, of the last micro-batch where gradients are accumulated.
    """
    try:
        from lightning.pytorch import Callback
    except ImportError:
        from pytorch_lightning import Callback

    class MoeLogCallback(Callback):
        def on_train_start(self, trainer, module):
            resumed = {"append": trainer.global_step > 0}
            self.log = MoeLog(path, module if model is None else model, **{**resumed, **options})
            self.steps = trainer.global_step

        def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
            if trainer.global_step == self.steps:
                return  # gradients are still being accumulated
            self.steps = trainer.global_step
            loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
            lr = trainer.optimizers[0].param_groups[0]["lr"] if trainer.optimizers else None
            self.log.step(self.steps - 1, loss=loss, lr=lr)

        def on_train_end(self, trainer, module):
            self.log.close()

    return MoeLogCallback()


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
