"""Trains three small mixtures of experts in plain PyTorch, logs them with moescope_log.py, and writes the counts of the
models themselves next to each log. Usage: train_moe.py FOLDER STEPS. The test compares both."""

import json
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "assets", "python"))
from moescope_log import MoeLog  # noqa: E402

DIM, EXPERTS, TOP_K, TOKENS = 16, 8, 2, 64


class Router(nn.Module):
    """Returns logits, or weights and indices, as `returns` says."""

    def __init__(self, returns):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(EXPERTS, DIM) * 0.1)
        self.returns, self.top_k = returns, TOP_K
        self.register_buffer("expert_bias", torch.linspace(-0.1, 0.1, EXPERTS))

    def forward(self, x):
        logits = F.linear(x, self.weight)
        if self.returns == "logits":
            return logits
        scores, indices = logits.softmax(-1).topk(TOP_K, dim=-1)
        return scores, indices


class MoE(nn.Module):
    def __init__(self, returns, counted):
        super().__init__()
        self.router = Router(returns)
        self.w = nn.Parameter(torch.randn(EXPERTS, DIM, DIM) * 0.1)
        self.truth = None
        if counted:
            self.register_buffer("tokens_per_expert", torch.zeros(EXPERTS))

    def forward(self, x):
        out = self.router(x)
        if self.router.returns == "logits":
            scores, indices = out.softmax(-1).topk(TOP_K, dim=-1)
        else:
            scores, indices = out
        counts = F.one_hot(indices, EXPERTS).sum((0, 1))
        self.truth = counts.tolist()
        if hasattr(self, "tokens_per_expert"):
            with torch.no_grad():
                self.tokens_per_expert.add_(counts)
        y = torch.einsum("td,edf->tef", x, self.w)
        return x + (scores.unsqueeze(-1) * y.gather(1, indices.unsqueeze(-1).expand(-1, -1, DIM))).sum(1)


class Model(nn.Module):
    def __init__(self, returns, counted):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(DIM, DIM)] + [nn.ModuleDict({"moe": MoE(returns, counted)}) for _ in range(2)])

    def forward(self, x):
        x = self.layers[0](x)
        for layer in list(self.layers)[1:]:
            x = layer["moe"](x)
        return x


def train(folder, name, steps, returns, counted):
    torch.manual_seed(1)
    model = Model(returns, counted)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    target = torch.randn(DIM, DIM)
    truth = []
    with MoeLog(os.path.join(folder, name + ".jsonl"), model, scores_every=5,
                settings={"run": name, "layers": 3, "tokens_per_step": TOKENS, "seed": 1}) as log:
        for step in range(steps):
            x = torch.randn(TOKENS, DIM)
            loss = (model(x) - x @ target).square().mean()
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            for layer in list(model.layers)[1:]:
                if counted:
                    layer["moe"].tokens_per_expert.zero_()  # as TorchTitan's optimizer hook does
            log.step(step, loss=loss, grad_norm=norm, lr=1e-2)
            truth.append({"loss": loss.item(), "loads": [layer["moe"].truth for layer in list(model.layers)[1:]]})
    with open(os.path.join(folder, name + ".truth.json"), "w") as file:
        json.dump(truth, file)


if __name__ == "__main__":
    folder, steps = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    train(folder, "indices", steps, "indices", False)
    train(folder, "logits", steps, "logits", False)
    train(folder, "buffers", steps, "indices", True)
    try:
        MoeLog(os.path.join(folder, "none.jsonl"), nn.Linear(2, 2))
    except ValueError as error:
        assert "no router found" in str(error)
    else:
        raise AssertionError("a model without routers must be refused")
