"""Logs with moescope_log.py routers that have the return values of Hugging Face's models (sources of transformers 4.55
to 5.15: Mixtral, Qwen-MoE, DeepSeek-V3, gpt-oss), and calls its callbacks in the order of the Trainer and of Lightning.
Needs neither library; real_programs.py tests the libraries themselves. Usage: route_like_hf.py FOLDER. Writes
NAME.jsonl and NAME.truth.json, which the test compares."""

import json
import os
import sys
import types

import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "assets", "python"))
import moescope_log  # noqa: E402

DIM, EXPERTS, TOP_K, TOKENS, STEPS = 16, 8, 2, 64, 4


class Gate(nn.Module):
    """Returns the value of `kind`; chosen(logits) is the choice of experts by the model."""

    def __init__(self, kind):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(EXPERTS, DIM))
        self.kind, self.top_k = kind, TOP_K
        if kind.startswith("deepseek"):
            self.register_buffer("e_score_correction_bias", torch.linspace(0.5, -0.5, EXPERTS))

    def chosen(self, logits):
        if self.kind.startswith("deepseek"):  # two groups of experts; the better one is used
            scores = logits.sigmoid()
            biased = scores + self.e_score_correction_bias
            groups = biased.view(-1, 2, EXPERTS // 2).topk(2, dim=-1).values.sum(-1)
            best = F.one_hot(groups.argmax(-1), 2).bool().repeat_interleave(EXPERTS // 2, dim=-1)
            indices = biased.masked_fill(~best, float("-inf")).topk(TOP_K, dim=-1).indices
            return indices, scores.gather(1, indices)
        if self.kind.startswith("gpt_oss"):
            values, indices = logits.topk(TOP_K, dim=-1)
            return indices, values.softmax(-1)
        values, indices = logits.softmax(-1).topk(TOP_K, dim=-1)
        return indices, values / values.sum(-1, keepdim=True)

    def forward(self, x):
        logits = F.linear(x, self.weight)
        indices, weights = self.chosen(logits)
        return {
            "mixtral_4": logits,
            "mixtral_5": (logits, weights, indices),
            "qwen_5": (logits.softmax(-1), weights, indices),
            "deepseek_4": (indices, weights),
            "deepseek_5": logits,
            "gpt_oss_4": (torch.zeros_like(logits).scatter(1, indices, weights), indices),
            "gpt_oss_5": (logits, weights, indices),
        }[self.kind]


class Block(nn.Module):
    def __init__(self, kind):
        super().__init__()
        name = "router" if kind.startswith("gpt_oss") else "gate"
        setattr(self, name, Gate(kind))
        self.name = name
        if kind == "deepseek_5":
            self.route_tokens_to_experts = lambda logits: self.gate.chosen(logits)
        self.shared_expert_gate = nn.Linear(DIM, 1)  # Qwen's, which is not a router
        self.gate_proj = nn.Linear(DIM, DIM)
        self.truth = []

    def forward(self, x):
        gate = getattr(self, self.name)
        gate(x)
        logits = F.linear(x, gate.weight)
        indices, weights = gate.chosen(logits)
        if torch.is_grad_enabled():
            mass = torch.zeros(EXPERTS).index_add_(0, indices.reshape(-1), weights.reshape(-1))
            scores = logits.sigmoid() if gate.kind.startswith("deepseek") else logits.softmax(-1)
            shares = scores / scores.sum(-1, keepdim=True)
            self.truth.append({"load": F.one_hot(indices, EXPERTS).sum((0, 1)).tolist(),
                               "gate_mass": (mass / mass.sum()).tolist(), "score_mass": shares.mean(0).tolist(),
                               "entropy": -(shares * shares.log()).sum(-1).mean().item()})
        return x + self.gate_proj(x) * weights.sum(-1, keepdim=True)


class Model(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.model = nn.ModuleDict({"layers": nn.ModuleList(
            [nn.ModuleDict({"mlp": nn.Linear(DIM, DIM)})] + [nn.ModuleDict({"mlp": Block(kind)}) for _ in range(2)])})

    def forward(self, x):
        for layer in self.model["layers"]:
            x = layer["mlp"](x)
        return x

    def truth(self):
        return [layer["mlp"].truth for layer in list(self.model["layers"])[1:]]


def write_truth(folder, name, model):
    with open(os.path.join(folder, name + ".truth.json"), "w") as file:
        json.dump(model.truth(), file)


def train(folder, kind):
    torch.manual_seed(1)
    model = Model(kind)
    options = {"top_k": TOP_K} if kind == "mixtral_4" else {}
    with moescope_log.MoeLog(os.path.join(folder, kind + ".jsonl"), model, scores_every=1, **options) as log:
        for step in range(STEPS):
            loss = model(torch.randn(TOKENS, DIM)).square().mean()
            with torch.no_grad():
                model(torch.randn(TOKENS, DIM))  # an evaluation, which does not count
            log.step(step, loss=loss)
    write_truth(folder, kind, model)


def module_named(name, **members):
    module = types.ModuleType(name)
    for key, value in members.items():
        setattr(module, key, value)
    sys.modules[name] = module
    return module


def train_by_trainer(folder):
    """Two microbatches per step; the Trainer logs every second step."""
    events = ("on_init_end", "on_train_begin", "on_epoch_begin", "on_step_begin", "on_substep_end", "on_step_end", "on_log",
              "on_evaluate", "on_epoch_end", "on_train_end")
    nothing = {event: lambda self, args, state, control, **_: None for event in events}
    module_named("transformers", TrainerCallback=type("TrainerCallback", (), nothing))
    torch.manual_seed(1)
    model = Model("qwen_5")
    callback = moescope_log.trainer_callback(os.path.join(folder, "trainer.jsonl"), model, scores_every=1)
    state = types.SimpleNamespace(global_step=0)
    callback.on_init_end(None, state, None, model=model)
    callback.on_train_begin(None, state, None, model=model)
    for step in range(STEPS):
        callback.on_step_begin(None, state, None, model=model)
        for _ in range(2):
            model(torch.randn(TOKENS, DIM))
            callback.on_substep_end(None, state, None, model=model)
        state.global_step += 1
        callback.on_step_end(None, state, None, model=model)
        if step % 2 == 1:
            callback.on_log(None, state, None, logs={"loss": step + 0.5, "learning_rate": 1e-3, "epoch": 1.0})
            with torch.no_grad():
                model(torch.randn(TOKENS, DIM))
            callback.on_log(None, state, None, logs={"eval_loss": 3.0})
    callback.on_log(None, state, None, logs={"train_loss": 1.0})
    callback.on_train_end(None, state, None, model=model)
    write_truth(folder, "trainer", model)


def train_by_lightning(folder):
    module_named("lightning").pytorch = module_named("lightning.pytorch", Callback=type("Callback", (), {}))
    torch.manual_seed(1)
    model = Model("mixtral_5")
    callback = moescope_log.lightning_callback(os.path.join(folder, "lightning.jsonl"), scores_every=1)
    optimizer = types.SimpleNamespace(param_groups=[{"lr": 1e-3}])
    trainer = types.SimpleNamespace(global_step=0, optimizers=[optimizer])
    callback.on_train_start(trainer, model)
    for step in range(STEPS):
        for half in range(2):
            model(torch.randn(TOKENS, DIM))
            trainer.global_step += half
            callback.on_train_batch_end(trainer, model, {"loss": torch.tensor(step + 0.5)}, None, 2 * step + half)
    callback.on_train_end(trainer, model)
    write_truth(folder, "lightning", model)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for kind in ("mixtral_4", "mixtral_5", "qwen_5", "deepseek_4", "deepseek_5", "gpt_oss_4", "gpt_oss_5"):
        train(sys.argv[1], kind)
    train_by_trainer(sys.argv[1])
    train_by_lightning(sys.argv[1])
