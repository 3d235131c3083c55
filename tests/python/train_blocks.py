#!/usr/bin/python3
"""Trains a small mixture of experts with MoeLog.log_blocks(), for test_python_log.cpp, and writes the operands of step 0 as
its own code saw them.

    tests/python/train_blocks.py FOLDER     writes blocks.jsonl, and "layer 0, experts w1, x forward.npy", ...
"""

import pathlib
import sys

import numpy
import torch
from torch import nn
from torch.nn import functional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "assets" / "python"))
from moescope_log import MoeLog  # noqa: E402

WIDTH, HIDDEN, EXPERTS, TOP_K, WORDS = 64, 96, 8, 2, 100
seen = {}


def keep(name, tensor):
    """Keeps an operand; the parts of one operand are joined below each other."""
    seen.setdefault(name, []).append(tensor.detach().reshape(-1, tensor.shape[-1]).clone())


class Experts(nn.Module):
    """Weights of all experts in one parameter, multiplied expert by expert, as transformers does."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        self.gate_up_proj = nn.Parameter(torch.randn(EXPERTS, 2 * HIDDEN, WIDTH) * 0.1)
        self.down_proj = nn.Parameter(torch.randn(EXPERTS, WIDTH, HIDDEN) * 0.1)

    def forward(self, x, chosen, weights):
        result = torch.zeros_like(x)
        for expert in range(EXPERTS):
            token, slot = (chosen == expert).nonzero(as_tuple=True)
            if len(token) == 0:
                continue
            keep("layer %d, experts w1, x forward" % self.layer, x[token])
            keep("layer %d, experts w1, W dgrad" % self.layer, self.gate_up_proj[expert].t())
            gate, up = functional.linear(x[token], self.gate_up_proj[expert]).chunk(2, -1)
            hidden = functional.silu(gate) * up
            keep("layer %d, experts w2, x forward" % self.layer, hidden)
            keep("layer %d, experts w2, W forward" % self.layer, self.down_proj[expert])
            out = functional.linear(hidden, self.down_proj[expert])
            if out.requires_grad:
                out.register_hook(lambda grad: keep("layer %d, experts w2, dY dgrad" % self.layer, grad))
            result = result.index_add(0, token, out * weights[token, slot, None])
        return result


class Moe(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.gate = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.experts = Experts(layer)
        self.top_k = TOP_K

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(TOP_K, -1)
        return x + self.experts(x, chosen, weights)


class Block(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        self.o_proj = nn.Linear(WIDTH, WIDTH)
        self.mlp = Moe(layer)

    def forward(self, x):
        keep("layer %d, attention wo, x forward" % self.layer, x)
        keep("layer %d, attention wo, W forward" % self.layer, self.o_proj.weight)
        keep("layer %d, attention wo, x wgrad" % self.layer, x.t())
        projected = self.o_proj(x)
        projected.register_hook(lambda grad: keep("layer %d, attention wo, dY dgrad" % self.layer, grad))
        return self.mlp(x + projected)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Block(layer) for layer in range(2))
        self.lm_head = nn.Linear(WIDTH, WORDS)

    def forward(self, words):
        x = self.embedding(words).reshape(-1, WIDTH)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(x)


def main():
    folder = pathlib.Path(sys.argv[1])
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    log = MoeLog(folder / "blocks.jsonl", model, top_k=TOP_K, settings={"run": "blocks", "seed": 0}, blocks={
        "modules": r"experts|o_proj|lm_head", "every": 5, "directions": ("forward", "dgrad", "wgrad")})
    for step in range(11):
        words = torch.randint(0, WORDS, (4, 65))
        loss = functional.cross_entropy(model(words[:, :-1]), words[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log.step(step, loss=loss)
        if step == 0:
            for name, parts in seen.items():
                numpy.save(folder / (name + ".npy"), torch.cat(parts).numpy())
    log.close()


if __name__ == "__main__":
    main()
