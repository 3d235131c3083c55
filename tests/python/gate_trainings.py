#!/usr/bin/python3
"""Measures what the regression gate finds in a plain PyTorch training that is logged with moescope_log.py.

Trains good runs and runs with a change from half of the steps on, with the good runs' seed (apart from a change in the last
places of the first weights, as another order of sums makes on a GPU) and with other seeds, and compares each with two good
runs by `check --against`. Prints the share found and the delays as a table in Markdown, each row when it is complete, then
the false alarms. Exits with 77 if PyTorch is not installed (Debian: python3-torch).
"""

import argparse
import json
import math
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

try:
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
except ImportError as error:
    print("skipped: %s (Debian: python3-torch)" % error)
    sys.exit(77)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "assets", "python"))
from moescope_log import MoeLog  # noqa: E402

DIM, EXPERTS, TOP_K, LAYERS, VOCABULARY, TOKENS, ROWS = 32, 8, 2, 3, 64, 32, 4
RATE, CLIP, AUX, BIAS_RATE = 4e-3, 1.0, 0.002, 0.003

# Change: the settings that differ from its step on.
CHANGES = {
    "learning rate twice as high": {"rate": 2 * RATE},
    "every second microbatch dropped": {"drop": True},
    "layer 1 without balancing": {"unbalanced": 1},
    "top_k - 1": {"top_k": TOP_K - 1},
    "one linear of layer 1 in FP8": {"fp8": 1},
    "one linear of layer 1 in E2M1": {"fp4": 1},
    "routers in BF16": {"router": torch.bfloat16},
    "the data of 10 steps repeated": {"repeated": 10},
    "weight decay 0": {"decay": 0.0},
    "gradient clipping off": {"clip": math.inf},
    "coefficient of the auxiliary loss doubled": {"aux": 2 * AUX},
}
RIGHT = {"rate": RATE, "drop": False, "unbalanced": -1, "top_k": TOP_K, "fp8": -1, "fp4": -1, "router": torch.float32,
         "repeated": 0, "decay": 0.1, "clip": CLIP, "aux": AUX}


def rounded(x, mantissa_bits, least_exponent, largest):
    """Rounds to a small floating-point format with one scale for the tensor; the gradient passes unchanged."""
    scale = x.detach().abs().max().clamp_min(1e-12) / largest
    value = x.detach() / scale
    exponent = torch.floor(torch.log2(value.abs().clamp_min(2.0 ** (least_exponent - 8)))).clamp_min(least_exponent)
    unit = torch.pow(2.0, exponent - mantissa_bits)
    return x + (torch.round(value / unit) * unit * scale - x.detach())


class Router(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(EXPERTS, DIM) / math.sqrt(DIM))
        self.register_buffer("expert_bias", torch.zeros(EXPERTS))
        self.top_k, self.dtype = TOP_K, torch.float32

    def forward(self, x):
        scores = torch.sigmoid(F.linear(x.to(self.dtype), self.weight.to(self.dtype)))
        self.scores = scores.float()
        chosen = (self.scores + self.expert_bias).topk(self.top_k, -1).indices
        weights = self.scores.gather(-1, chosen)
        self.counts = F.one_hot(chosen, EXPERTS).sum((0, 1)).float()
        return weights / weights.sum(-1, keepdim=True), chosen

    def auxiliary_loss(self):
        shares = self.scores / self.scores.sum(-1, keepdim=True)
        return EXPERTS * (self.counts / self.counts.sum() * shares.mean(0)).sum()


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM, bias=False), nn.Linear(DIM, DIM, bias=False)
        self.norms = nn.ModuleList([nn.LayerNorm(DIM), nn.LayerNorm(DIM)])
        self.router = Router()
        self.up = nn.Parameter(torch.randn(EXPERTS, DIM, 2 * DIM) / math.sqrt(DIM))
        self.down = nn.Parameter(torch.randn(EXPERTS, 2 * DIM, DIM) / math.sqrt(4 * DIM))
        self.round = None

    def forward(self, x):
        q, k, v = self.qkv(self.norms[0](x)).chunk(3, -1)
        scores = q @ k.transpose(-1, -2) / math.sqrt(DIM)
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        y = scores.masked_fill(mask, -math.inf).softmax(-1) @ v
        x = x + (F.linear(self.round(y), self.round(self.out.weight)) if self.round else self.out(y))
        flat = self.norms[1](x).flatten(0, 1)
        weights, chosen = self.router(flat)
        gates = torch.zeros(flat.shape[0], EXPERTS).scatter(-1, chosen, weights)
        hidden = F.silu(torch.einsum("td,edf->etf", flat, self.up))
        return x + torch.einsum("etf,efd,te->td", hidden, self.down, gates).view_as(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, DIM)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.head = nn.Linear(DIM, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def tokens_of(generator, successors):
    """[ROWS, TOKENS + 1] tokens: each is one of four successors of the token before, or any in one case of ten."""
    tokens = torch.randint(VOCABULARY, (ROWS, TOKENS + 1), generator=generator)
    choice = torch.randint(4, tokens.shape, generator=generator)
    is_free = torch.rand(tokens.shape, generator=generator) < 0.1
    for t in range(1, TOKENS + 1):
        tokens[:, t] = torch.where(is_free[:, t], tokens[:, t], successors[tokens[:, t - 1], choice[:, t]])
    return tokens


def apply(now, model, optimizer):
    optimizer.param_groups[0].update(lr=now["rate"], weight_decay=now["decay"])
    for index, layer in enumerate(model.layers):
        layer.router.top_k, layer.router.dtype = now["top_k"], now["router"]
        if index == now["fp8"]:
            layer.round = lambda x: rounded(x, 3, -6, 448.0)
        if index == now["fp4"]:
            layer.round = lambda x: rounded(x, 1, 0, 6.0)


def train(path, seed, nudge, change, steps, changed_at):
    torch.manual_seed(seed)
    model = Model()
    chance = torch.Generator().manual_seed(nudge)
    for parameter in model.parameters():
        parameter.data *= 1 + 2e-7 * torch.randn(parameter.shape, generator=chance)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.95), weight_decay=RIGHT["decay"])
    data = torch.Generator().manual_seed(seed)
    successors = torch.randint(VOCABULARY, (VOCABULARY, 4), generator=torch.Generator().manual_seed(1))
    kept, now = [], RIGHT
    with MoeLog(path, model, settings={"tokens_per_step": 2 * ROWS * TOKENS, "seed": seed}) as log:
        for step in range(steps):
            if step == changed_at:
                now = dict(RIGHT, **change)
                apply(now, model, optimizer)
            kept.append([tokens_of(data, successors) for _ in range(2)])
            batch = kept[step % now["repeated"] if now["repeated"] else step]
            losses, counts = [], [torch.zeros(EXPERTS) for _ in model.layers]
            optimizer.zero_grad()
            for microbatch, tokens in enumerate(batch):
                loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
                balanced = [layer for index, layer in enumerate(model.layers) if index != now["unbalanced"]]
                total = loss + now["aux"] * sum(layer.router.auxiliary_loss() for layer in balanced)
                if microbatch == 0 or not now["drop"]:
                    (total / 2).backward()
                losses.append(loss.item())
                for count, layer in zip(counts, model.layers):
                    count += layer.router.counts
            norm = nn.utils.clip_grad_norm_(model.parameters(), now["clip"])
            optimizer.step()
            for index, (count, layer) in enumerate(zip(counts, model.layers)):
                if index != now["unbalanced"]:
                    layer.router.expert_bias += BIAS_RATE * torch.sign(count.mean() - count)
            log.step(step, loss=sum(losses) / 2, grad_norm=norm, lr=now["rate"])


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

    def log(self, seed, nudge, name=None):
        path = os.path.join(self.folder, "%s-%d-%d.jsonl" % ((name or "good").replace(" ", "_"), seed, nudge))
        if path not in self.logs:
            self.logs[path] = self.trainers.submit(train_log, path, seed, nudge, CHANGES[name] if name else {}, *self.length)
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
            same.append(self.comparison(run, [self.log(trial, 2), self.log(trial, 3)]))
            other.append(self.comparison(run, [self.log(100 + trial, 1), self.log(200 + trial, 1)]))
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
        print_row(name, kinds, study.length[1])
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
