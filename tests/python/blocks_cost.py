#!/usr/bin/env python3
"""Cost of MoeLog.log_blocks() on a GPU, and a training whose log has blocks.

    tests/python/blocks_cost.py FOLDER [--every 100]

Writes FOLDER/blocks_cost.txt: the median step of a model of 1.1 billion weights (16 layers, 8 experts of 1024, top 2, 16,384
tokens a step, BF16) without the log, with the log, and the steps that log operands; and FOLDER/gpu_blocks.jsonl, the log of
300 steps of a small one. Needs PyTorch 2.8 or later with torch._grouped_mm.
"""

import argparse
import functools
import json
import pathlib
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "assets" / "python"))
from moescope_log import MoeLog  # noqa: E402


class Experts(nn.Module):
    """Grouped experts as in TorchTitan: one parameter for each weight of all experts."""

    def __init__(self, width, hidden, experts):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(experts, hidden, width) * width ** -0.5)
        self.w2 = nn.Parameter(torch.randn(experts, width, hidden) * hidden ** -0.5)
        self.w3 = nn.Parameter(torch.randn(experts, hidden, width) * width ** -0.5)

    def forward(self, x, ends):
        gate = torch._grouped_mm(x, self.w1.bfloat16().transpose(-2, -1), offs=ends)
        up = torch._grouped_mm(x, self.w3.bfloat16().transpose(-2, -1), offs=ends)
        return torch._grouped_mm(functional.silu(gate) * up, self.w2.bfloat16().transpose(-2, -1), offs=ends)


class Moe(nn.Module):
    def __init__(self, width, hidden, experts, top_k):
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)
        self.experts, self.top_k, self.n_experts = Experts(width, hidden, experts), top_k, experts

    def forward(self, x):
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        weights, chosen = self.gate(x).float().softmax(-1).topk(self.top_k, -1)
        order = chosen.reshape(-1).argsort(stable=True)
        ends = torch.bincount(chosen.reshape(-1), minlength=self.n_experts).cumsum(0).int()
        out = self.experts(x[order // self.top_k], ends)
        scaled = out * weights.reshape(-1)[order, None].to(out.dtype)
        return torch.zeros_like(x).index_add(0, order // self.top_k, scaled).reshape(shape)


class Layer(nn.Module):
    def __init__(self, width, heads, hidden, experts, top_k):
        super().__init__()
        self.heads = heads
        self.attention_norm, self.ffn_norm = nn.RMSNorm(width), nn.RMSNorm(width)
        self.wq, self.wo = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.moe = Moe(width, hidden, experts, top_k)

    def forward(self, x):
        q, k, v = self.wq(self.attention_norm(x)).chunk(3, -1)
        q, k, v = (each.unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in (q, k, v))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.wo(mixed.transpose(1, 2).flatten(2))
        return x + self.moe(self.ffn_norm(x))


class Model(nn.Module):
    def __init__(self, layers, width, heads, hidden, experts, top_k, words):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Layer(width, heads, hidden, experts, top_k) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, words):
        x = self.embedding(words)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def step_of(model, optimizer, words):
    logits = model(words[:, :-1])
    loss = functional.cross_entropy(logits.flatten(0, 1).float(), words[:, 1:].flatten())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss


class Report:
    """Lines that are printed and kept as they come, so that a time limit does not lose them."""

    def __init__(self, path):
        self.file = path.open("w")

    def add(self, line):
        for stream in (self.file, sys.stdout):
            print(line, file=stream, flush=True)


def timed(work):
    torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def measure(folder, every):
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = Model(16, 2048, 16, 1024, 8, 2, 32768).bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    words = torch.randint(0, 32768, (8, 2049), device="cuda")
    report = Report(folder / "blocks_cost.txt")
    report.add("%s, PyTorch %s, %.2f billion weights, 16,384 tokens a step" % (
        torch.cuda.get_device_name(), torch.__version__, 1e-9 * sum(p.numel() for p in model.parameters())))
    for _ in range(5):
        step_of(model, optimizer, words)
    plain = statistics.median(timed(lambda: step_of(model, optimizer, words)) for _ in range(15))
    report.add("step without a log: %.1f ms" % (1e3 * plain))
    for name, modules in (("experts of 8 layers", r"layers\.\d?[02468]\..*experts$"), ("experts of 16 layers", "experts$"),
                          ("all linears and experts", r"wq|wo|experts$")):
        log = MoeLog(folder / "cost.jsonl", model, top_k=2)
        log.log_blocks(modules, every=10)
        ordinary, logged = [], []
        for step in range(31):
            size = (folder / "cost.jsonl").stat().st_size

            def work(step=step):
                log.step(step, loss=step_of(model, optimizer, words))

            (logged if step % 10 == 0 else ordinary).append(timed(work))
            if step % 10 == 0:
                written = (folder / "cost.jsonl").stat().st_size - size
        log.close()
        (folder / "cost.jsonl").unlink()
        usual, dear = statistics.median(ordinary), statistics.median(logged[1:])
        report.add("%s: step %.1f ms with the log; logged step %.1f ms, %.1f MB; at every %dth step %.2f %% of the time" % (
            name, 1e3 * usual, 1e3 * dear, 1e-6 * written, every, 100 * (dear - usual) / (every * usual)))
    report.add(compare_compiled(folder))


def logged_places(path):
    """Returns the operands of each step that has some."""
    places = {}
    for line in map(json.loads, path.read_text().splitlines()):
        for row in line.get("quants", ()):
            places.setdefault(line["step"], set()).add(tuple(list(row.values())[:5]))
    return places


def compare_compiled(folder):
    """Compiled and checkpointed trainings log the operands that an eager one logs; a model that is compiled after the log
    began may lack the first step."""
    from torch.utils.checkpoint import checkpoint

    found = {}
    for kind in ("eager", "checkpointed", "compiled before", "compiled after"):
        torch.manual_seed(2)
        with torch.device("cuda"):
            model = Model(2, 256, 4, 256, 8, 2, 512).bfloat16()
        if kind == "checkpointed":
            for layer in model.layers:
                layer.forward = functools.partial(checkpoint, layer.forward, use_reentrant=False)
        run = torch.compile(model) if kind == "compiled before" else model
        path = folder / "kinds.jsonl"
        log = MoeLog(path, run, top_k=2)
        log.log_blocks(r"wq|wo$|experts$", every=2, samples=0)
        run = torch.compile(model) if kind == "compiled after" else run
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
        for step in range(4):
            log.step(step, loss=step_of(run, optimizer, torch.randint(0, 512, (8, 65), device="cuda")))
        log.close()
        found[kind] = logged_places(path)
        path.unlink()
    return "operands by step: " + "; ".join("%s %s%s" % (
        kind, {step: len(of_step) for step, of_step in places.items()},
        "" if all(of_step == found["eager"][step] for step, of_step in places.items()) else " (others than eager)")
        for kind, places in found.items())


def train_small(folder):
    torch.manual_seed(1)
    with torch.device("cuda"):
        model = Model(3, 256, 4, 256, 8, 2, 512).bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    successor = torch.randint(0, 512, (512,), device="cuda")
    with MoeLog(folder / "gpu_blocks.jsonl", model, top_k=2, settings={"run": "gpu-bf16", "seed": 1}) as log:
        log.log_blocks(r"wo$|experts$", every=50)
        for step in range(301):
            words = torch.randint(0, 512, (16, 129), device="cuda")
            for place in range(1, 129):  # a text in which a word mostly determines the next
                follows = torch.rand(16, device="cuda") < 0.9
                words[:, place] = torch.where(follows, successor[words[:, place - 1]], words[:, place])
            log.step(step, loss=step_of(model, optimizer, words), lr=1e-3)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("folder", type=pathlib.Path)
    arguments.add_argument("--every", type=int, default=100)
    arguments.add_argument("--kinds", action="store_true", help="only compare compiled and checkpointed trainings with eager ones")
    given = arguments.parse_args()
    if given.kinds:
        return print(compare_compiled(given.folder))
    train_small(given.folder)
    measure(given.folder, given.every)


if __name__ == "__main__":
    main()
