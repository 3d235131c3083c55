#!/usr/bin/python3
"""Measures what the regression gate finds in a plain PyTorch training that is logged with moescope_log.py.

Trains good runs, and runs with a change from half of the steps on, (*): from the start, with the good runs' seed (apart from
a change in the last places of the first weights, as another order of sums makes on a GPU) and with other seeds, and compares
each with two good runs by `check --against`. The changes are the faults of the exhibits, and quiet changes. Prints the share
found and the delays as a table in Markdown, each row when it is complete, then the false alarms. Exits with 77 if PyTorch is
not installed (Debian: python3-torch).
"""

import argparse
import functools
import json
import math
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import urllib.parse
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

try:
    import numpy
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
    from torch.utils.checkpoint import checkpoint
except ImportError as error:
    print("skipped: %s (Debian: python3-torch)" % error)
    sys.exit(77)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "assets", "python"))
from moescope_log import MoeLog  # noqa: E402

DIM, EXPERTS, LAYERS, VOCABULARY, TOKENS = 32, 8, 3, 64, 32
FP8 = (3, -6, 448.0, False)  # mantissa bits, least exponent, largest value, one scale for 32 values in place of the tensor
E2M1 = (1, 0, 6.0, False)
MXFP8, MXFP4 = FP8[:3] + (True,), E2M1[:3] + (True,)
BF16 = torch.bfloat16

RIGHT = {
    "rate": 4e-3, "warmup": 0, "decay": 0.1, "betas": (0.9, 0.95), "eps": 1e-8, "clip": 1.0, "moments lost": False,
    "summed": False, "dropped": False, "expert factor": 1.0, "without": None, "frozen": False, "weights": torch.float32,
    "rows": 4, "length": TOKENS, "shift": 1, "padding": 0.0, "padding counts": False, "repeated": 0,
    "smoothing": 0.0, "dropout": 0.0, "norm eps": 1e-5, "rope": 1e4, "init": 1.0, "tied": False, "reset": False,
    "top_k": 2, "softmax": False, "normalized": True, "scale": 1.0, "capacity": math.inf, "groups": 1, "mask": -math.inf,
    "router": torch.float32, "router outputs": torch.float32, "counts": torch.float32, "recompute": False,
    "bias rate": 0.003, "bias start": 0.0, "bias": torch.float32, "proportional": False, "unbalanced": None,
    "aux": 0.002, "z": 0.0, "linear": None, "attention": None, "experts": None, "head": None}
AT_START = {"init", "tied"}  # settings that cannot change in a run

# Faults of the exhibits: the settings of all runs, and those of the changed run.
BY_LOSS = {"bias rate": 0.0, "aux": 0.02}
EXHIBITS = {
    "one expert and normalized gates": ({"top_k": 1, "normalized": False}, {"normalized": True}),
    "a bias that is never updated": ({}, {"bias rate": 0.0}),
    "bias stored in BF16": ({"bias start": 7.0}, {"bias": BF16}),
    "counts stored in BF16": ({"rows": 16}, {"counts": BF16}),
    "router outputs stored in BF16": ({}, {"router outputs": BF16}),
    "an auxiliary loss that is off": (BY_LOSS, {"aux": 0.0}),
    "an auxiliary loss per microbatch": (BY_LOSS, {"aux": 2 * BY_LOSS["aux"]}),
    "padding that counts": ({"padding": 0.25}, {"padding counts": True}),
    "a group mask of 0": ({"groups": 4, "bias start": -2.0}, {"mask": 0.0}),
    "experts of layer 1 that are not in the optimizer": ({}, {"without": "experts"}),
    "expert gradients times the ranks": ({}, {"expert factor": 8.0}),
    "tokens that are counted twice": ({}, {"recompute": True}),
}
QUIET = {
    "learning rate 2 times as high": {"rate": 2 * RIGHT["rate"]},
    "learning rate 1.1 times as high": {"rate": 1.1 * RIGHT["rate"]},
    "learning rate 0.8 times as high": {"rate": 0.8 * RIGHT["rate"]},
    "learning rate 0.5 times as high": {"rate": 0.5 * RIGHT["rate"]},
    "warm-up of 50 steps anew": {"warmup": 50},
    "weight decay 0": {"decay": 0.0},
    "beta2 = 0.999": {"betas": (0.9, 0.999)},
    "eps of AdamW 1e-4": {"eps": 1e-4},
    "gradient clipping off": {"clip": math.inf},
    "gradient clipping at 0.1": {"clip": 0.1},
    "moments of AdamW lost": {"moments lost": True},
    "gradients of microbatches not divided": {"summed": True},
    "every second microbatch dropped": {"dropped": True},
    "the weights stored in BF16": {"weights": BF16},
    "the data of 10 steps repeated": {"repeated": 10},
    "sequences cut to half": {"length": TOKENS // 2},
    "targets shifted by a token": {"shift": 2},
    "a quarter of the tokens is padding": {"padding": 0.25},
    "label smoothing 0.02": {"smoothing": 0.02},
    "dropout 0.1": {"dropout": 0.1},
    "eps of the norms 0.1": {"norm eps": 0.1},
    "base of RoPE 100": {"rope": 100.0},
    "first weights of layer 1 doubled": {"init": 2.0},
    "embedding and head tied": {"tied": True},
    "layer 1 without balancing": {"unbalanced": 1},
    "top_k - 1": {"top_k": 1},
    "top_k + 1": {"top_k": 3},
    "softmax in place of sigmoid": {"softmax": True},
    "gates not normalized": {"normalized": False},
    "route scale 1.5": {"scale": 1.5},
    "capacity factor 1.25": {"capacity": 1.25},
    "routers in BF16": {"router": BF16},
    "routers frozen": {"without": "routers"},
    "an expert of layer 1 frozen": {"frozen": True},
    "an expert of layer 1 reset": {"reset": True},
    "bias update 0.1 times as large": {"bias rate": 0.0003},
    "bias update with the wrong sign": {"bias rate": -0.003},
    "bias update proportional to the load": {"proportional": True},
    "coefficient of the auxiliary loss doubled": {"aux": 2 * RIGHT["aux"]},
    "z-loss of the routers 0.01": {"z": 0.01},
    "one linear of layer 1 in FP8": {"linear": FP8},
    "one linear of layer 1 in FP4 (E2M1)": {"linear": E2M1},
    "experts in MXFP8": {"experts": MXFP8},
    "experts in MXFP4": {"experts": MXFP4},
    "attention in MXFP4": {"attention": MXFP4},
    "head in MXFP4": {"head": MXFP4},
}
CHANGES = {**EXHIBITS, **{name: ({}, changed) for name, changed in QUIET.items()}}


def rounded(x, form):
    """Rounds to a small floating-point format, None: not; the gradient passes unchanged."""
    if form is None:
        return x
    mantissa_bits, least_exponent, largest, is_mx = form
    value = x.detach()
    if is_mx:
        value = value.unflatten(-1, (-1, 32))
        amax = value.abs().amax(-1, keepdim=True).clamp_min(1e-12)
        scale = torch.exp2(torch.floor(torch.log2(amax)) - math.floor(math.log2(largest)))
    else:
        scale = value.abs().max().clamp_min(1e-12) / largest
    value = value / scale
    exponent = torch.floor(torch.log2(value.abs().clamp_min(2.0 ** (least_exponent - 8)))).clamp_min(least_exponent)
    unit = torch.exp2(exponent - mantissa_bits)
    value = (torch.round(value / unit) * unit).clamp(-largest, largest) * scale
    return x + (value.view_as(x) - x.detach())


@functools.lru_cache()
def rotation(tokens, base):
    """Returns complex numbers [tokens, DIM / 2]."""
    angles = torch.outer(torch.arange(float(tokens)), base ** (-torch.arange(0, DIM, 2) / DIM))
    return torch.polar(torch.ones_like(angles), angles)


def rotated(x, base):
    """Returns x [rows, tokens, DIM] with rotary position embeddings."""
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * rotation(x.shape[1], base)).flatten(-2)


class Router(nn.Module):
    top_k = property(lambda self: self.now["top_k"])

    def __init__(self, now):
        super().__init__()
        self.now, self.weight = now, nn.Parameter(torch.randn(EXPERTS, DIM) / math.sqrt(DIM))
        self.register_buffer("expert_bias", torch.full((EXPERTS,), now["bias start"]))
        self.register_buffer("tokens_per_expert", torch.zeros(EXPERTS))

    def forward(self, x, is_text):
        now = self.now
        logits = F.linear(x.to(now["router"]), self.weight.to(now["router"])).to(now["router outputs"]).float()
        self.scores = logits.softmax(-1) if now["softmax"] else logits.sigmoid()
        self.logits = logits
        chosen = self.allowed(self.scores + self.expert_bias).topk(self.top_k, -1).indices
        weights = self.scores.gather(-1, chosen)
        if now["normalized"]:
            weights = weights / weights.sum(-1, keepdim=True)
        slots = torch.zeros_like(logits).scatter(-1, chosen, 1.0)
        counted = slots if now["padding counts"] else slots * is_text
        self.counts = counted.sum(0)
        self.tokens_per_expert.copy_((self.tokens_per_expert + self.counts).to(now["counts"]))
        kept = slots * (slots.cumsum(0) <= now["capacity"] * slots.sum() / EXPERTS)
        return kept.scatter(-1, chosen, now["scale"] * weights) * kept

    def allowed(self, biased):
        """Masks the experts that are not in the better half of the groups."""
        groups = self.now["groups"]
        if groups == 1:
            return biased
        best = biased.unflatten(-1, (groups, -1)).amax(-1).topk(groups // 2, -1).indices
        kept = torch.zeros(len(biased), groups).scatter(-1, best, 1.0).repeat_interleave(EXPERTS // groups, -1)
        return biased.masked_fill(kept == 0, self.now["mask"])

    def auxiliary_loss(self):
        shares = self.scores / self.scores.sum(-1, keepdim=True)
        return EXPERTS * (self.counts / self.counts.sum() * shares.mean(0)).sum()

    def z_loss(self):
        return self.logits.logsumexp(-1).square().mean()

    @torch.no_grad()
    def update_bias(self, is_balanced):
        less = self.tokens_per_expert.mean() - self.tokens_per_expert
        update = less / self.tokens_per_expert.mean() if self.now["proportional"] else less.sign()
        if is_balanced:
            self.expert_bias.copy_((self.expert_bias + self.now["bias rate"] * update).to(self.now["bias"]))
        self.tokens_per_expert.zero_()


class Layer(nn.Module):
    def __init__(self, now, index):
        super().__init__()
        self.now, self.index, scale = now, index, now["init"] if index == 1 else 1.0
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM, bias=False), nn.Linear(DIM, DIM, bias=False)
        self.norms, self.router = nn.ParameterList([torch.ones(DIM), torch.ones(DIM)]), Router(now)
        self.up = nn.Parameter(scale * torch.randn(EXPERTS, 2 * DIM, DIM) / math.sqrt(DIM))
        self.down = nn.Parameter(scale * torch.randn(EXPERTS, DIM, 2 * DIM) / math.sqrt(4 * DIM))

    def norm(self, x, index):
        return F.layer_norm(x, (DIM,), self.norms[index], None, self.now["norm eps"])

    def attention(self, x, form):
        q, k, v = F.linear(rounded(x, form), rounded(self.qkv.weight, form)).chunk(3, -1)
        scores = rotated(q, self.now["rope"]) @ rotated(k, self.now["rope"]).transpose(-1, -2) / math.sqrt(DIM)
        y = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1) == 1, -math.inf).softmax(-1) @ v
        form = self.now["linear"] if self.index == 1 and self.now["linear"] else form
        return F.linear(rounded(y, form), rounded(self.out.weight, form))

    def mixture(self, x, is_text, form):
        """Computes every expert for every token, because the model is tiny."""
        gates = self.router(x, is_text)
        hidden = F.silu(F.linear(rounded(x, form), rounded(self.up, form).flatten(0, 1))).unflatten(-1, (EXPERTS, -1))
        weighted = (rounded(hidden, form) * gates.unsqueeze(-1)).flatten(1)
        return weighted @ rounded(self.down, form).transpose(-1, -2).flatten(0, 1)

    def forward(self, x, is_text):
        now = self.now
        x = x + F.dropout(self.attention(self.norm(x, 0), now["attention"]), now["dropout"], now["dropout"] > 0)
        y = self.mixture(self.norm(x, 1).flatten(0, 1), is_text.flatten().unsqueeze(-1), now["experts"]).view_as(x)
        return x + F.dropout(y, now["dropout"], now["dropout"] > 0)


class Model(nn.Module):
    def __init__(self, now):
        super().__init__()
        self.now, self.embedding = now, nn.Embedding(VOCABULARY, DIM)
        self.layers = nn.ModuleList(Layer(now, index) for index in range(LAYERS))
        self.head = nn.Linear(DIM, VOCABULARY, bias=False)
        if now["tied"]:
            self.embedding.weight = self.head.weight

    def forward(self, tokens, is_text):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = checkpoint(layer, x, is_text, use_reentrant=False) if self.now["recompute"] else layer(x, is_text)
        return F.linear(rounded(x, self.now["head"]), rounded(self.head.weight, self.now["head"]))

    def left_out(self):
        """Returns the parameters that the optimizer does not get."""
        layer = self.layers[1]
        return {None: [], "experts": [layer.up, layer.down],
                "routers": [layer.router.weight for layer in self.layers]}[self.now["without"]]


def tokens_of(generator, successors, rows):
    """[rows, TOKENS + 1] tokens: each is one of four successors of the token before, or any in one case of ten."""
    tokens = torch.randint(VOCABULARY, (rows, TOKENS + 1), generator=generator).numpy()
    choice = torch.randint(4, tokens.shape, generator=generator).numpy()
    is_free = (torch.rand(tokens.shape, generator=generator) < 0.1).numpy()
    for t in range(1, TOKENS + 1):
        tokens[:, t] = numpy.where(is_free[:, t], tokens[:, t], successors[tokens[:, t - 1], choice[:, t]])
    return torch.from_numpy(tokens)


def loss_of(model, tokens):
    """Returns the logged loss, and the loss with those of the routers."""
    now = model.now
    inputs, targets = tokens[:, :-now["shift"]][:, :now["length"]], tokens[:, now["shift"]:][:, :now["length"]]
    is_text = torch.arange(inputs.shape[1]).expand_as(inputs) < round((1 - now["padding"]) * inputs.shape[1])
    logits = model(inputs * is_text, is_text)
    loss = F.cross_entropy(logits.flatten(0, 1), targets.masked_fill(~is_text, -100).flatten(),
                           label_smoothing=now["smoothing"])
    routers = [layer.router for index, layer in enumerate(model.layers) if index != now["unbalanced"]]
    return loss, loss + sum(now["aux"] * router.auxiliary_loss() + now["z"] * router.z_loss() for router in routers)


def take_step(model, optimizer, batch, warmth):
    """Returns the loss and the norm of the gradient."""
    now, losses = model.now, []
    optimizer.param_groups[0].update(lr=warmth * now["rate"], weight_decay=now["decay"], betas=now["betas"],
                                     eps=now["eps"])
    optimizer.zero_grad()
    for microbatch, tokens in enumerate(batch):
        loss, total = loss_of(model, tokens)
        if microbatch == 0 or not now["dropped"]:
            (total if now["summed"] else total / len(batch)).backward()
        losses.append(loss.item())
    for layer in model.layers:
        layer.up.grad *= now["expert factor"]
        layer.down.grad *= now["expert factor"]
    norm = nn.utils.clip_grad_norm_(model.parameters(), now["clip"])
    for parameter in model.left_out():
        parameter.grad = None
    kept = [weight.data[3].clone() for weight in (model.layers[1].up, model.layers[1].down)]
    optimizer.step()
    if now["frozen"]:
        model.layers[1].up.data[3], model.layers[1].down.data[3] = kept
    for parameter in model.parameters():
        parameter.data = parameter.data.to(now["weights"]).float()
    for index, layer in enumerate(model.layers):
        layer.router.update_bias(index != now["unbalanced"])
    return sum(losses) / len(batch), norm


def change(model, optimizer, changed):
    model.now.update(changed)
    if model.now["moments lost"]:
        optimizer.state.clear()
    if model.now["reset"]:
        fresh = Layer(model.now, 1)
        model.layers[1].up.data[3], model.layers[1].down.data[3] = fresh.up.data[3], fresh.down.data[3]


def train(path, seed, nudge, both, changed, steps, changed_at):
    torch.manual_seed(seed)
    now = {**RIGHT, **both, **{key: value for key, value in changed.items() if key in AT_START}}
    model = Model(now)
    chance = torch.Generator().manual_seed(nudge)
    for parameter in model.parameters():
        parameter.data *= 1 + 2e-7 * torch.randn(parameter.shape, generator=chance)
    optimizer = torch.optim.AdamW(model.parameters(), lr=now["rate"])
    data = torch.Generator().manual_seed(seed)
    successors = torch.randint(VOCABULARY, (VOCABULARY, 4), generator=torch.Generator().manual_seed(1)).numpy()
    batches = []
    with MoeLog(path, model, settings={"tokens_per_step": 2 * now["rows"] * TOKENS, "seed": seed}) as log:
        for step in range(steps):
            if step == changed_at:
                change(model, optimizer, changed)
            batches.append(tokens_of(data, successors, 2 * now["rows"]).chunk(2))
            warmth = min(1.0, (step - changed_at + 1) / now["warmup"]) if now["warmup"] else 1.0
            batch = batches[step % now["repeated"] if now["repeated"] else step]
            loss, norm = take_step(model, optimizer, batch, warmth)
            log.step(step, loss=loss, grad_norm=norm, lr=warmth * now["rate"])


def train_log(path, *how):
    if not os.path.exists(path):
        train(path + ".part", *how)
        os.rename(path + ".part", path)


class Study:
    """Trains in processes of their own, and compares as soon as the logs of a comparison are there."""

    def __init__(self, given, folder):
        self.cli, self.folder, self.length = given.cli, folder, (given.steps, given.steps // 2)
        os.makedirs(folder, exist_ok=True)
        self.trainers = ProcessPoolExecutor(given.jobs, multiprocessing.get_context("spawn"), torch.set_num_threads, (1,))
        self.judges = ThreadPoolExecutor(given.jobs)
        self.logs = {}  # the training that writes a log, by its path

    def log(self, seed, nudge, name=None, good=False):
        """Returns the path of the log of a run with the change, or of a good run for it; None: for no change."""
        both, changed = CHANGES[name] if name else ({}, {})
        title = name if name and not good else "good" + "".join("-%s-%s" % pair for pair in both.items())
        path = os.path.join(self.folder, "%s-%d-%d.jsonl" % (urllib.parse.quote(title, ""), seed, nudge))
        if path not in self.logs:
            how = (path, seed, nudge, both, {} if good else changed, *self.length)
            self.logs[path] = self.trainers.submit(train_log, *how)
        return path

    def comparison(self, run, good):
        return self.judges.submit(self.exits, run, good)

    def exits(self, run, good):
        """Returns (first step, figure, layer) of each figure outside the band, by step."""
        for path in (run, *good):
            self.logs[path].result()
        answer = subprocess.run([self.cli, "check", run, "--against", *good, "--json"], stdout=subprocess.PIPE,
                                env=dict(os.environ, OMP_NUM_THREADS="1"))
        if answer.returncode not in (0, 1):
            raise RuntimeError("check --against failed")
        return [(exit["steps"][0], exit["name"], exit["layer"]) for exit in json.loads(answer.stdout)["exits"]]

    def comparisons_of(self, name, trials):
        """Returns those beside good runs of the same seed, and of other seeds."""
        same, other = [], []
        for trial in range(trials):
            run = self.log(trial, 1, name)
            same.append(self.comparison(run, [self.log(trial, nudge, name, True) for nudge in (2, 3)]))
            other.append(self.comparison(run, [self.log(seed + trial, 1, name, True) for seed in (100, 200)]))
        return same, other

    def equal_comparisons(self, count):
        return [[self.comparison(runs[0], runs[1:]) for runs in (
                    [self.log(first, n) if same_seed else self.log(first + n, 1) for n in range(3)]
                    for first in range(1000, 1000 + 3 * count, 3))] for same_seed in (True, False)]


def print_row(name, comparisons, changed_at):
    cells, figures = [], []
    for kind in comparisons:
        delays = []
        for comparison in kind:
            exits = [exit for exit in comparison.result() if exit[0] >= changed_at - 5]
            if exits:
                delays.append(max(0, exits[0][0] - changed_at))
                figures.append("%s, layer %s" % exits[0][1:] if exits[0][2] is not None else exits[0][1])
        cells.append("%d of %d" % (len(delays), len(kind)))
        cells.append("%g" % statistics.median(delays) if delays else "–")
    print("| %s | %s | %s |" % (name, " | ".join(cells), statistics.mode(figures) if figures else ""), flush=True)


def print_false_alarms(kind, comparisons):
    alarms = 0
    for judged, comparison in enumerate(comparisons, 1):
        alarms += bool(comparison.result())
        if judged == len(comparisons) or judged % 20 == 0:
            print("Equal runs of %s: %d of %d comparisons had a figure outside." % (kind, alarms, judged), flush=True)


def measure(given, study):
    comparisons = {name: study.comparisons_of(name, given.trials) for name in CHANGES if given.only in name}
    same, other = study.equal_comparisons(given.equal)
    print("| change | same seed: found | delay | other seeds: found | delay | figure that leaves first |")
    print("|---|---|---|---|---|---|", flush=True)
    for name, kinds in comparisons.items():
        at_start = AT_START & CHANGES[name][1].keys()
        print_row(name + (" (*)" if at_start else ""), kinds, 0 if at_start else study.length[1])
    print_false_alarms("the same seed", same)
    print_false_alarms("other seeds", other)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("cli", metavar="MOESCOPE_CLI")
    arguments.add_argument("--folder", help="keeps the logs there; those that are there already are not made again")
    arguments.add_argument("--trials", type=int, default=1, help="runs of each change, of other seeds")
    arguments.add_argument("--equal", type=int, default=0, help="comparisons of runs without a change, of each kind")
    arguments.add_argument("--steps", type=int, default=300, help="the change comes at half of them")
    arguments.add_argument("--only", default="", metavar="TEXT", help="changes whose name has this text")
    arguments.add_argument("--jobs", type=int, default=os.cpu_count(), help="trainings at a time, one thread each")
    given = arguments.parse_args()
    if not any(given.only in name for name in CHANGES):
        arguments.error("no change has %r in its name" % given.only)
    with tempfile.TemporaryDirectory() as temporary:
        measure(given, Study(given, given.folder or temporary))


if __name__ == "__main__":
    main()
