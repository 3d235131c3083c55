"""Logs unusual routers, and passes that must not count, with moescope_log.py. Usage: route_edges.py FOLDER [CASE...].
Writes for each case NAME.jsonl and NAME.truth.json, {"layers": indices of the layers, "loads": [step][layer][E] token
counts of the experts, "entropy": entropy of the scores if it is tested}, and names.json. The shapes are those in the
sources of transformers 5.17 and TorchTitan; transformers_moe.py runs the models themselves."""

import copy
import json
import os
import pickle
import sys
import types
import warnings

import torch
import torch.multiprocessing
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "assets", "python"))
import moescope_log  # noqa: E402
from moescope_log import MoeLog  # noqa: E402

DIM, EXPERTS, TOP_K, TOKENS, STEPS = 16, 8, 2, 64, 3
NAMES = []


def load_of(indices, experts=EXPERTS):
    indices = indices.reshape(-1)
    return torch.bincount(indices[(indices >= 0) & (indices < experts)], minlength=experts).tolist()


def entropy_of(scores):
    shares = scores / scores.sum(-1, keepdim=True)
    return -(shares * shares.log()).sum(-1).mean().item()


class Router(nn.Module):
    """returns: function of logits, weights and indices that gives the return value of forward."""

    def __init__(self, returns=None, score=lambda logits: logits.softmax(-1), bias=None, classes=EXPERTS, top_k=TOP_K):
        super().__init__()
        self.num_experts, self.top_k = EXPERTS, top_k
        self.weight = nn.Parameter(torch.randn(classes, DIM))
        self.returns = returns or (lambda logits, weights, indices: (logits, weights, indices))
        self.score = score
        if bias is not None:
            self.register_buffer("e_score_correction_bias", bias)

    def choose(self, logits):
        scores = self.score(logits)
        biased = scores + getattr(self, "e_score_correction_bias", 0)
        indices = biased.topk(self.top_k, dim=-1).indices
        weights = scores.gather(1, indices)
        return scores, weights / weights.sum(-1, keepdim=True), indices

    def forward(self, x):
        logits = F.linear(x, self.weight)
        scores, weights, indices = self.choose(logits)
        self.seen = types.SimpleNamespace(scores=scores.detach(), indices=indices.detach(), weights=weights.detach())
        return self.returns(logits, weights, indices)


class Block(nn.Module):
    def __init__(self, router, name="gate"):
        super().__init__()
        setattr(self, name, router)
        self.name = name

    def router(self):
        return getattr(self, self.name)

    def forward(self, x):
        self.router()(x)
        return x + self.router().seen.weights.sum(-1, keepdim=True) * 0.1 + F.linear(x, self.router().weight).sum() * 0.01


class Net(nn.Module):
    """A dense layer and `layers` blocks."""

    def __init__(self, block, layers=2, config=None, wrap=None):
        super().__init__()
        self.layers = nn.ModuleList([nn.ModuleDict({"mlp": nn.Linear(DIM, DIM)})] +
                                    [nn.ModuleDict({"mlp": block()}) for _ in range(layers)])
        self.wrap = wrap
        if config:
            self.config = types.SimpleNamespace(**config)

    def blocks(self):
        return [layer["mlp"] for layer in list(self.layers)[1:]]

    def forward(self, input, attention_mask=None):
        x = input.reshape(-1, DIM)
        for layer in self.layers:
            x = layer["mlp"](x) if self.wrap is None else self.wrap(layer["mlp"], x)
        return x


def keep(folder, name, layers, loads, **more):
    NAMES.append(name)
    with open(os.path.join(folder, name + ".truth.json"), "w") as file:
        json.dump({"layers": layers, "loads": loads, **more}, file)


def train(folder, name, net, truth=None, prepare=None, layers=None, **options):
    """truth(block): load of its experts in the last pass."""
    truth = truth or (lambda block: load_of(block.router().seen.indices))
    loads, entropy = [], []
    with MoeLog(os.path.join(folder, name + ".jsonl"), net, scores_every=1, **options) as log:
        for step in range(STEPS):
            net.train()
            if prepare:
                prepare(net)
            net(torch.randn(TOKENS, DIM)).square().mean().backward()
            loads.append([truth(block) for block in net.blocks()])
            if hasattr(net.blocks()[0].router(), "seen"):
                entropy.append([entropy_of(block.router().seen.scores) for block in net.blocks()])
            with torch.no_grad():
                net(torch.randn(TOKENS, DIM))  # a pass without gradients does not count, even in train()
            log.step(step)
    keep(folder, name, layers or list(range(1, len(net.blocks()) + 1)), loads, **({"entropy": entropy} if entropy else {}))


# Return values of routers.


def one_hot(folder):
    """Switch Transformer: a one-hot map."""
    train(folder, "one_hot", Net(lambda: Block(Router(
        lambda logits, weights, indices: (weights, F.one_hot(indices[:, 0], EXPERTS), logits), top_k=1))))


def two_masks(folder):
    """NLLB: a map of the first expert, weights [T, E] of both experts, logits."""

    def returned(logits, weights, indices):
        gates = torch.zeros_like(logits).scatter(1, indices, weights)
        return F.one_hot(indices[:, 0], EXPERTS), gates, logits

    class Nllb(Router):
        def __init__(self):
            super().__init__(returned)
            del self.top_k
            self.k_of_test = TOP_K

        def choose(self, logits):
            scores = logits.softmax(-1)
            weights, indices = scores.topk(self.k_of_test, dim=-1)
            return scores, weights, indices

    train(folder, "two_masks", Net(lambda: Block(Nllb())))


def routing_map(folder):
    """Megatron and TorchTitan: a boolean map."""
    train(folder, "routing_map", Net(lambda: Block(Router(
        lambda logits, weights, indices: (logits, torch.zeros_like(logits).scatter(1, indices, 1).bool())))))


def dispatch_mask(folder):
    """DeepSpeed: a mask [T, E, places] after a loss."""

    def returned(logits, weights, indices):
        chosen = F.one_hot(indices, EXPERTS).sum(1).bool()
        mask = torch.zeros(*chosen.shape, 5, dtype=torch.bool)
        mask[:, :, 3] = chosen
        return logits.sum(), mask.float(), mask, chosen.sum(0)

    def scoreless(folder):
        net = Net(lambda: Block(Router(returned)))
        loads = []
        with MoeLog(os.path.join(folder, "dispatch_mask.jsonl"), net) as log:
            for step in range(STEPS):
                net(torch.randn(TOKENS, DIM)).sum().backward()
                loads.append([load_of(block.router().seen.indices) for block in net.blocks()])
                log.step(step)
        keep(folder, "dispatch_mask", [1, 2], loads)

    scoreless(folder)


class Unnamed(nn.Module):
    """A router whose number of experts follows from its projection alone. It returns what it sends to the places of the
    experts, [T, E, places] or [1, T, E, places], and mixing weights by place."""

    def __init__(self, batched, dtype):
        super().__init__()
        self.projection = nn.Linear(DIM, EXPERTS, bias=False)
        self.batched, self.dtype = batched, dtype

    @property
    def weight(self):
        return self.projection.weight

    def forward(self, x):
        scores = self.projection(x).softmax(-1)
        weights, indices = scores.topk(TOP_K, dim=-1)
        chosen = F.one_hot(indices, EXPERTS).sum(1)
        sent = torch.zeros(*chosen.shape, 24)
        sent.scatter_(2, (chosen.cumsum(0) - 1).clamp(0, 23).unsqueeze(-1), chosen.unsqueeze(-1).float())
        self.seen = types.SimpleNamespace(scores=scores.detach(), indices=indices.detach(), weights=weights.detach())
        mixing = sent * scores.unsqueeze(-1)
        return tuple(v.unsqueeze(0) if self.batched else v for v in (sent.to(self.dtype), mixing))


def places(folder):
    """nanoMoE, and mixture-of-experts of lucidrains: places in experts, without a name for the number of experts."""
    for name, batched, dtype in (("places", False, torch.bool), ("places_of_batch", True, torch.float32)):
        net = Net(lambda: Block(Unnamed(batched, dtype)))
        loads = []
        with MoeLog(os.path.join(folder, name + ".jsonl"), net) as log:
            for step in range(STEPS):
                net(torch.randn(TOKENS, DIM)).sum().backward()
                loads.append([load_of(block.router().seen.indices) for block in net.blocks()])
                log.step(step)
        keep(folder, name, [1, 2], loads)


def beyond(folder):
    """LongCat: numbers beyond the experts for experts without computation, and -1."""

    def returned(_, weights, indices):
        indices = indices.clone()
        indices[:3] = -1
        return weights, indices

    def truth(block):
        return load_of(block.router().seen.indices[3:])

    class LongCat(Block):
        def forward(self, x):
            return super().forward(x)

    net = Net(lambda: LongCat(Router(returned, classes=EXPERTS + 4)))
    loads = []
    with MoeLog(os.path.join(folder, "beyond.jsonl"), net) as log:
        for step in range(STEPS):
            net(torch.randn(TOKENS, DIM)).sum().backward()
            loads.append([truth(block) for block in net.blocks()])
            log.step(step)
    keep(folder, "beyond", [1, 2], loads)


def skipped(folder):
    """Zaya: a class beyond the experts is returned as expert 0 with weight 0."""

    def returned(logits, weights, indices):
        skip = indices == EXPERTS
        return logits, weights.masked_fill(skip, 0), indices.masked_fill(skip, 0)

    net = Net(lambda: Block(Router(returned, classes=EXPERTS + 1)))
    loads = []
    with MoeLog(os.path.join(folder, "skipped.jsonl"), net) as log:
        for step in range(STEPS):
            net(torch.randn(TOKENS, DIM)).sum().backward()
            loads.append([load_of(block.router().seen.indices) for block in net.blocks()])
            log.step(step)
    keep(folder, "skipped", [1, 2], loads)


def weights_and_logits(folder):
    """Llama 4: sigmoid weights [T, E], zero for experts that were not chosen, then logits."""
    train(folder, "weights_and_logits", Net(lambda: Block(Router(
        lambda logits, weights, indices: (torch.zeros_like(logits).scatter(1, indices, logits.gather(1, indices).sigmoid()),
                                          logits), score=torch.sigmoid))), scores="sigmoid")


def other_scores(folder):
    """Score functions that are found from the weights: sqrt(softplus) of DeepSeek-V4, sigmoid without a bias, softmax
    with a bias."""
    train(folder, "sqrtsoftplus", Net(lambda: Block(Router(
        score=lambda logits: F.softplus(logits).sqrt(), bias=torch.linspace(0.1, -0.1, EXPERTS)))))
    train(folder, "sigmoid", Net(lambda: Block(Router(score=torch.sigmoid))))
    train(folder, "softmax_with_bias", Net(lambda: Block(Router(bias=torch.linspace(0.1, -0.1, EXPERTS)))))


def statics(folder):
    """Ernie: the bias [1, E] is in a separate module."""

    class Statics(nn.Module):
        def __init__(self):
            super().__init__()
            self.e_score_correction_bias = nn.Parameter(torch.linspace(0.2, -0.2, EXPERTS).reshape(1, -1), False)

    class Ernie(Router):
        def __init__(self):
            super().__init__()
            self.moe_statics = Statics()

        def choose(self, logits):
            scores = logits.softmax(-1)
            indices = (scores + self.moe_statics.e_score_correction_bias.squeeze()).topk(TOP_K, dim=-1).indices
            return scores, scores.gather(1, indices), indices

    train(folder, "statics", Net(lambda: Block(Ernie())))
    with open(os.path.join(folder, "statics.jsonl")) as file:
        row = json.loads(file.read().split("\n")[1])["routers"][0]
    assert abs(row["expert_bias"][0] - 0.2) < 1e-6, row


def probabilities(folder):
    """Gemma 4: probabilities instead of logits, weights times a scale of each expert, K only in the config."""
    scale = torch.linspace(0.5, 2, EXPERTS)

    class Gemma(Router):
        def __init__(self):
            super().__init__(lambda logits, weights, indices: (logits.softmax(-1), weights * scale[indices], indices))
            del self.num_experts, self.top_k

        def choose(self, logits):
            weights, indices = logits.softmax(-1).topk(TOP_K, dim=-1)
            return logits.softmax(-1), weights, indices

    train(folder, "probabilities", Net(lambda: Block(Gemma(), "router_of_gemma"),
                                       config={"num_experts": EXPERTS, "top_k_experts": TOP_K}),
          routers=r"router_of_gemma$")


def chosen_by_block(folder):
    """Jamba and Aria: a Linear, and a function of the block or of its experts that chooses the experts."""

    class Linear(nn.Linear):
        def forward(self, x):
            logits = super().forward(x)
            self.seen = types.SimpleNamespace(scores=logits.detach().softmax(-1), weights=logits.detach(),
                                              indices=logits.detach().topk(TOP_K, dim=-1).indices)
            return logits

    class Jamba(Block):
        def __init__(self):
            super().__init__(Linear(DIM, EXPERTS, bias=False), "gate")
            self.num_experts = EXPERTS

        def route_tokens_to_experts(self, hidden_states, router_logits):
            weights, indices = router_logits.softmax(-1).topk(TOP_K, dim=-1)
            return indices, weights.to(hidden_states.dtype)

    class Experts(nn.Module):
        def route_tokens_to_experts(self, router_logits):
            weights, indices = router_logits.topk(TOP_K, dim=-1)
            return indices, weights.softmax(-1)

    class Aria(Block):
        def __init__(self):
            super().__init__(Linear(DIM, EXPERTS, bias=False), "gate")
            self.experts = Experts()

    train(folder, "jamba", Net(Jamba))
    train(folder, "aria", Net(Aria))
    config = {"moe_num_experts": EXPERTS, "moe_topk": TOP_K}
    train(folder, "config_top_k", Net(lambda: Block(Linear(DIM, EXPERTS, bias=False)), config=config))


# Which modules are routers.


def nested(folder):
    """AFMoE: router and router.gate are one router."""

    class Afmoe(Router):
        def __init__(self):
            super().__init__(score=torch.sigmoid)
            self.gate = nn.Linear(DIM, EXPERTS, bias=False)

        def forward(self, x):
            self.gate(x)
            return super().forward(x)

    train(folder, "nested", Net(lambda: Block(Afmoe(), "moe_gate")))


def titan(folder):
    """TorchTitan since May 2026: buffers with a suffix in the router, which contains a gate."""

    class TitanRouter(Router):
        def __init__(self):
            super().__init__(lambda logits, weights, indices: (weights, indices))
            self.gate = nn.Linear(DIM, EXPERTS, bias=False)
            self.register_buffer("tokens_per_expert_E", torch.zeros(EXPERTS))

        def forward(self, x):
            self.gate(x)
            result = super().forward(x)
            with torch.no_grad():
                self.tokens_per_expert_E.add_(F.one_hot(self.seen.indices, EXPERTS).sum((0, 1)))
            return result

    class Titan(Block):
        def __init__(self):
            super().__init__(TitanRouter(), "gate")
            self.register_buffer("expert_bias_E", torch.linspace(-0.1, 0.1, EXPERTS))

    net = Net(Titan)
    loads = []
    with MoeLog(os.path.join(folder, "titan.jsonl"), net) as log:
        for step in range(STEPS):
            net(torch.randn(TOKENS, DIM)).sum().backward()
            loads.append([load_of(block.router().seen.indices) for block in net.blocks()])
            for block in net.blocks():
                block.router().tokens_per_expert_E.zero_()
            log.step(step)
    keep(folder, "titan", [1, 2], loads)
    with open(os.path.join(folder, "titan.jsonl")) as file:
        row = json.loads(file.read().split("\n")[1])["routers"][0]
    assert abs(row["expert_bias"][7] - 0.1) < 1e-6, row


def two_in_a_layer(folder):
    """JetMoE: experts in attention, too; their layers are numbered after the others."""

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.self_attention = Block(Router())
            self.moe = Block(Router())

        def forward(self, x):
            return self.moe(self.self_attention(x))

    net = nn.Module()
    net.layers = nn.ModuleList([Both(), Both()])
    loads = []
    with MoeLog(os.path.join(folder, "two_in_a_layer.jsonl"), net) as log:
        for step in range(STEPS):
            x = torch.randn(TOKENS, DIM)
            for layer in net.layers:
                x = layer(x)
            blocks = [net.layers[0].moe, net.layers[1].moe, net.layers[0].self_attention, net.layers[1].self_attention]
            loads.append([load_of(block.router().seen.indices) for block in blocks])
            log.step(step)
    keep(folder, "two_in_a_layer", [0, 1, 2, 3], loads)


# Which passes count.


def from_pretrained(folder):
    train(folder, "eval_mode", Net(lambda: Block(Router())), prepare=lambda net: net.eval())


def recomputed(folder):
    for reentrant in (False, True):
        train(folder, "reentrant" if reentrant else "checkpoint",
              Net(lambda: Block(Router()), wrap=lambda block, x, r=reentrant: checkpoint(
                  block, x.requires_grad_() if x.is_leaf else x, use_reentrant=r)))


def changed(folder):
    """A change of the kind of checkpointing within a run may cause a step without rows, but no wrong row."""
    net = Net(lambda: Block(Router()))
    kinds, given = [None, False, False, True, True, False, False, None], []
    path = os.path.join(folder, "changed.jsonl")
    with MoeLog(path, net) as log:
        for step, reentrant in enumerate(kinds):
            net.wrap = None if reentrant is None else lambda block, x: checkpoint(
                block, x.requires_grad_() if x.is_leaf else x, use_reentrant=reentrant)
            net(torch.randn(TOKENS, DIM)).square().mean().backward()
            given.append([load_of(block.router().seen.indices) for block in net.blocks()])
            log.step(step)
    with open(path) as file:
        rows = [json.loads(line).get("routers", []) for line in list(file)[1:]]
    logged = [[row["tokens_per_expert"] for row in step] for step in rows]
    assert [step for step in range(len(kinds)) if not logged[step]] == [3, 5], logged
    assert all(not a or a == b for a, b in zip(logged, given)), (logged, given)


def between(folder):
    """step() before the backward pass, and before it a pass of the same model without gradients, as with preference
    losses: repeated passes still do not count."""
    net = Net(lambda: Block(Router()), wrap=lambda block, x: checkpoint(
        block, x.requires_grad_() if x.is_leaf else x, use_reentrant=False))
    loads = []
    with MoeLog(os.path.join(folder, "between.jsonl"), net) as log:
        for step in range(STEPS):
            loss = net(torch.randn(TOKENS, DIM)).square().mean()
            loads.append([load_of(block.router().seen.indices) for block in net.blocks()])
            with torch.no_grad():
                net(torch.randn(TOKENS, DIM))
            log.step(step, loss=loss)
            loss.backward()
    keep(folder, "between", [1, 2], loads)


def not_a_number(folder):
    """NaN scores in one step affect only that step."""
    net = Net(lambda: Block(Router(lambda logits, weights, indices: (logits * net.factor, weights * net.factor, indices))))
    loads, rows = [], []
    with MoeLog(os.path.join(folder, "not_a_number.jsonl"), net, scores_every=1) as log:
        for step in range(STEPS):
            net.factor = float("nan") if step == 1 else 1.0
            net(torch.randn(TOKENS, DIM))
            loads.append([load_of(block.router().seen.indices) for block in net.blocks()])
            log.step(step)
    keep(folder, "not_a_number", [1, 2], loads)
    with open(os.path.join(folder, "not_a_number.jsonl")) as file:
        rows = [json.loads(line)["routers"][0] for line in list(file)[1:]]
    assert rows[1]["score_entropy"] != rows[1]["score_entropy"] and "gate_mass" not in rows[1], rows[1]
    assert 0 < rows[2]["score_entropy"] < 3 and abs(sum(rows[2]["gate_mass"]) - 1) < 1e-4, rows[2]


def padded(folder):
    net = Net(lambda: Block(Router()))
    for name in ("padding", "padding_told", "padding_counted"):
        loads = []
        with MoeLog(os.path.join(folder, name + ".jsonl"), net, count_padding=name == "padding_counted") as log:
            for step in range(STEPS):
                mask = torch.ones(4, TOKENS // 4, dtype=torch.long)
                mask[:, 5 + step:] = 0
                if name == "padding_told":
                    log.mask(mask)
                    net(torch.randn(4, TOKENS // 4, DIM))
                else:
                    net(torch.randn(4, TOKENS // 4, DIM), attention_mask=mask)
                kept = (mask if name != "padding_counted" else torch.ones_like(mask)).reshape(-1) != 0
                loads.append([load_of(block.router().seen.indices[kept]) for block in net.blocks()])
                log.step(step)
        keep(folder, name, [1, 2], loads)


def micro_batches(folder):
    """Microbatches of different sizes, with more slots than are kept to be counted together."""
    net, most = Net(lambda: Block(Router()), layers=3), moescope_log._MOST_KEPT_SLOTS
    moescope_log._MOST_KEPT_SLOTS = 5 * TOKENS * TOP_K
    loads = []
    with MoeLog(os.path.join(folder, "micro_batches.jsonl"), net, scores_every=2) as log:
        for step in range(STEPS):
            total = [[0] * EXPERTS for _ in net.blocks()]
            for tokens in (TOKENS, TOKENS // 2, TOKENS, 1):
                net(torch.randn(tokens, DIM)).square().mean().backward()
                total = [[a + b for a, b in zip(load, load_of(block.router().seen.indices))]
                         for load, block in zip(total, net.blocks())]
            loads.append(total)
            log.step(step)
    moescope_log._MOST_KEPT_SLOTS = most
    keep(folder, "micro_batches", [1, 2, 3], loads)


def copies(folder):
    net = Net(lambda: Block(Router()))
    with MoeLog(os.path.join(folder, "copies.jsonl"), net) as log:
        loads = []
        for step in range(STEPS):
            net(torch.randn(TOKENS, DIM))
            loads.append([load_of(block.router().seen.indices) for block in net.blocks()])
            twin = copy.deepcopy(net)
            twin(torch.randn(TOKENS, DIM))
            log.step(step)
        held = pickle.dumps(net.blocks()[0].router()._forward_hooks)
        assert b"moescope" not in held and pickle.loads(held)
    keep(folder, "copies", [1, 2], loads)


class Fused(Block):
    """Block with experts as parameters [E, ...]."""

    def __init__(self):
        super().__init__(Router())
        self.experts = nn.Module()
        self.experts.w = nn.Parameter(torch.randn(EXPERTS, DIM, DIM) / DIM)
        self.experts.bias = nn.Parameter(torch.zeros(EXPERTS, DIM))

    def weights(self):
        """Returns a list of weights for each expert, [E]."""
        return [[self.experts.w[e], self.experts.bias[e]] for e in range(EXPERTS)]

    def gradients(self):
        return [[self.experts.w.grad[e], self.experts.bias.grad[e]] for e in range(EXPERTS)]

    def forward(self, x):
        return super().forward(x) + torch.einsum("td,edf->tf", x, self.experts.w) + self.experts.bias.sum(0)


class Listed(Block):
    """Block with experts as a list of modules, one of them without a gradient."""

    def __init__(self):
        super().__init__(Router())
        self.experts = nn.ModuleList([nn.Linear(DIM, DIM) for _ in range(EXPERTS)])

    def weights(self):
        return [list(expert.parameters()) for expert in self.experts]

    def gradients(self):
        return [[torch.zeros(1) if p.grad is None else p.grad for p in expert.parameters()] for expert in self.experts]

    def forward(self, x):
        return super().forward(x) + sum(expert(x) for expert in list(self.experts)[1:]) / EXPERTS


def lengths(tensors_of_experts):
    return [sum(t.detach().double().square().sum() for t in tensors).sqrt().item() for tensors in tensors_of_experts]


def expert_norms(folder):
    """Gradient and update norms of each expert; the experts of the second layer are not in the optimizer."""
    for name, block in (("norms_fused", Fused), ("norms_listed", Listed)):
        net, loads, expected = Net(block), [], []
        left_out = set(net.blocks()[1].experts.parameters())
        optimizer = torch.optim.SGD([p for p in net.parameters() if p not in left_out], lr=0.1)
        path = os.path.join(folder, name + ".jsonl")
        with MoeLog(path, net, expert_norms_every=2) as log:
            for step in range(STEPS):
                net.zero_grad()
                net(torch.randn(TOKENS, DIM)).square().mean().backward()
                before = [[[p.detach().clone() for p in expert] for expert in b.weights()] for b in net.blocks()]
                optimizer.step()
                changes = [[[p - q for p, q in zip(now, then)] for now, then in zip(b.weights(), old)]
                           for b, old in zip(net.blocks(), before)]
                expected.append([(lengths(b.gradients()), lengths(c)) for b, c in zip(net.blocks(), changes)])
                loads.append([load_of(b.router().seen.indices) for b in net.blocks()])
                log.step(step, lr=0.1)
        keep(folder, name, [1, 2], loads)
        with open(path) as file:
            lines = [json.loads(line) for line in file][1:]
        assert [step for step, line in enumerate(lines) if "specialisation" in line] == [0, 2], lines
        for step in (0, 2):
            for row, (gradient, update) in zip(lines[step]["specialisation"], expected[step]):
                logged = row["gradient_norm"] + row["update_norm"]
                assert all(abs(a - b) <= 1e-5 * b for a, b in zip(logged, gradient + update)), (row, gradient, update)
            assert max(lines[step]["specialisation"][1]["update_norm"]) == 0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        net = Net(lambda: Block(Router()))  # without experts
        with MoeLog(os.path.join(folder, "no_norms.jsonl"), net, expert_norms_every=1) as log:
            for step in range(STEPS):
                net(torch.randn(TOKENS, DIM)).sum().backward()
                torch.optim.SGD(net.parameters(), lr=0.1).step()
                log.step(step)
    said = [str(w.message) for w in caught if "moescope_log" in str(w.message)]
    assert len(said) == 1 and "weights of the experts are not found" in said[0], said


def losses_by_layer(folder):
    """Losses by layer are written into the rows; a list of another length is left out with a warning."""
    net = Net(lambda: Block(Router()))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with MoeLog(os.path.join(folder, "losses.jsonl"), net) as log:
            for aux in ([0.25, torch.tensor(0.5)], 0.75, [1.0] * 3):
                net(torch.randn(TOKENS, DIM))
                log.step(0, aux_loss=aux)
    with open(os.path.join(folder, "losses.jsonl")) as file:
        lines = [json.loads(line) for line in file][1:]
    assert [line.get("aux_loss") for line in lines] == [0.75, 0.75, None], lines
    assert [[row.get("aux_loss") for row in line["routers"]] for line in lines] == [[0.25, 0.5], [None] * 2, [None] * 2]
    assert len([w for w in caught if "aux_loss has 3 values" in str(w.message)]) == 1


# Errors that must not stop a training.


def unreadable(folder):
    """A router with a meaningless return value, and one whose K is unknown: one warning each, and no row."""

    class Nonsense(Router):
        def forward(self, x):
            super().forward(x)
            return {"gate": "open"}, 3, torch.zeros(2, 5, 5)

    class Linear(nn.Linear):
        def forward(self, x):
            self.seen = types.SimpleNamespace(weights=torch.ones(len(x), 1))
            return super().forward(x)

    class Mixed(Net):
        def __init__(self):
            super().__init__(lambda: Block(Router()), layers=1)
            self.layers.append(nn.ModuleDict({"mlp": Block(Nonsense())}))
            self.layers.append(nn.ModuleDict({"mlp": Block(Linear(DIM, EXPERTS, bias=False))}))

    net = Mixed()
    loads = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with MoeLog(os.path.join(folder, "unreadable.jsonl"), net) as log:
            for step in range(STEPS):
                net(torch.randn(TOKENS, DIM)).sum().backward()
                loads.append([load_of(net.blocks()[0].router().seen.indices)])
                log.step(step, loss=1.0, remark=object())
    said = [str(w.message) for w in caught if "moescope_log" in str(w.message)]
    assert len(said) == 2 and "layers.2.mlp.gate" in said[0] and "give top_k=" in said[1], said
    keep(folder, "unreadable", [1], loads)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a training may turn warnings into errors
        with MoeLog(os.path.join(folder, "errors.jsonl"), net) as log:
            net(torch.randn(TOKENS, DIM)).sum().backward()
            log.step(0)


def of_this_rank(folder):
    """Routers that return only this rank's experts, or experts that choose tokens: one warning each, and no row."""

    def local(logits, weights, indices):
        elsewhere = indices >= EXPERTS // 2
        return logits, weights.masked_fill(elsewhere, 0), indices.masked_fill(elsewhere, EXPERTS // 2)

    def expert_choice(logits, weights, _):
        return weights, logits.t().topk(4, dim=-1).indices

    for returned, word in ((local, "expert parallelism"), (expert_choice, "choose tokens")):
        net = Net(lambda: Block(Router(returned)))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with MoeLog(os.path.join(folder, "of_this_rank.jsonl"), net) as log:
                net(torch.randn(TOKENS, DIM)).sum().backward()
                log.step(0, loss=1.0)
        assert len(caught) == 1 and word in str(caught[0].message), [str(w.message) for w in caught]
        with open(os.path.join(folder, "of_this_rank.jsonl")) as file:
            assert "routers" not in json.loads(file.read().split("\n")[1])


def unseen(folder):
    """No counted pass in the first step: one warning."""
    net = Net(lambda: Block(Router()))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with MoeLog(os.path.join(folder, "unseen.jsonl"), net) as log:
            for step in range(STEPS):
                with torch.no_grad():
                    net(torch.randn(TOKENS, DIM))
                log.step(step, loss=2.0)
    said = [str(w.message) for w in caught if "moescope_log" in str(w.message)]
    assert len(said) == 1 and "no router was seen in the first step" in said[0], said
    with open(os.path.join(folder, "unseen.jsonl")) as file:
        lines = [json.loads(line) for line in file]
    assert len(lines) == STEPS + 1 and not any("routers" in line for line in lines)
    try:
        MoeLog(os.path.join(folder, "none.jsonl"), net, scores="hardmax")
    except ValueError as error:
        assert "sqrtsoftplus" in str(error)
    else:
        raise AssertionError("an unknown kind of scores must be refused")


def full_disk(folder):
    if not os.path.exists("/dev/full"):
        return
    net = Net(lambda: Block(Router()))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with MoeLog("/dev/full", net) as log:
            for step in range(STEPS):
                net(torch.randn(TOKENS, DIM))
                log.step(step)
    assert len([w for w in caught if "cannot be written" in str(w.message)]) == 1


def interrupted(folder):
    """The callback of a Trainer that is interrupted and trains again starts a new log."""
    if "transformers" not in sys.modules:
        sys.modules["transformers"] = types.ModuleType("transformers")
    sys.modules["transformers"].TrainerCallback = type("TrainerCallback", (), {})
    net = Net(lambda: Block(Router()))
    callback = moescope_log.trainer_callback(os.path.join(folder, "interrupted.jsonl"), net)
    state, loads = types.SimpleNamespace(global_step=0), []
    for steps in (2, STEPS):
        state.global_step, loads = 0, []
        callback.on_train_begin(None, state, None)
        for _ in range(steps):
            callback.on_step_begin(None, state, None)
            net(torch.randn(TOKENS, DIM))
            loads.append([load_of(block.router().seen.indices) for block in net.blocks()])
            state.global_step += 1
            callback.on_step_end(None, state, None)
            callback.on_log(None, state, None, logs={"loss": 1.0})
    callback.on_train_end(None, state, None)
    assert not any(block.router()._forward_hooks for block in net.blocks())
    keep(folder, "interrupted", [1, 2], loads)


# Ranks.


RANK_MODES = ("two_ranks", "without_a_batch", "stages", "same_tokens", "numbered_stages", "first_layers", "dense_stage")
STAGES = ("stages", "numbered_stages", "first_layers")


def rank_work(rank, folder):
    import torch.distributed as dist

    dist.init_process_group("gloo", "file://" + os.path.join(folder, "meeting"), rank=rank, world_size=2)
    for mode in RANK_MODES:
        work_in_mode(rank, folder, mode, dist)
    dist.barrier()
    dist.destroy_process_group()


def work_in_mode(rank, folder, mode, dist):
    torch.manual_seed(0)
    net = Net(lambda: Block(Router()))
    if mode == "stages":  # the second stage has layers 3 and 4 and no dense layer
        net.layers = nn.ModuleDict({str(3 + i): layer for i, layer in enumerate(list(net.layers)[1:])}) if rank else net.layers
    loads = []
    if mode == "numbered_stages":  # Megatron: names begin at 0 on each stage, layer_number counts all layers from 1
        for place, block in enumerate(net.blocks()):
            block.layer_number = 2 + place + 2 * rank
    if mode == "dense_stage" and rank == 1:
        net.layers = nn.ModuleList([nn.ModuleDict({"mlp": nn.Linear(DIM, DIM)})])
    log = MoeLog(os.path.join(folder, mode + ".jsonl"), net, first_layer=2 * rank if mode == "first_layers" else 0)
    for step in range(STEPS):
        torch.manual_seed(step if mode == "same_tokens" else 10 * rank + step)
        modules = list(net.layers.values() if isinstance(net.layers, nn.ModuleDict) else net.layers)
        blocks = [module["mlp"] for module in modules if isinstance(module["mlp"], Block)]
        if not (mode == "without_a_batch" and rank == 1 and step == 0):
            x = torch.randn(TOKENS, DIM)
            for block in blocks:
                x = block(x)
            loads.append([load_of(block.router().seen.indices) for block in blocks])
        else:
            loads.append([[0] * EXPERTS for _ in blocks])
        log.step(step)
    log.close()
    everywhere = [None, None]
    dist.all_gather_object(everywhere, loads)
    if rank == 0:
        first, second = everywhere
        if mode in STAGES:
            together = [a + b for a, b in zip(first, second)]
        elif mode in ("same_tokens", "dense_stage"):
            together = first
        else:
            together = [[[p + q for p, q in zip(a, b)] for a, b in zip(left, right)] for left, right in zip(first, second)]
        keep(folder, mode, [1, 2, 3, 4] if mode in STAGES else [1, 2], together)


def ranks(folder):
    torch.multiprocessing.spawn(rank_work, (folder,), nprocs=2)
    NAMES.extend(RANK_MODES)


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(1)
    for case in (one_hot, two_masks, routing_map, dispatch_mask, beyond, skipped, weights_and_logits, other_scores, statics,
                 probabilities, chosen_by_block, nested, titan, two_in_a_layer, from_pretrained, recomputed, changed, between,
                 not_a_number, padded, micro_batches, copies, expert_norms, losses_by_layer,
                 unreadable, of_this_rank, unseen, full_disk, interrupted, ranks, places):
        if not sys.argv[2:] or case.__name__ in sys.argv[2:]:
            case(sys.argv[1])
    with open(os.path.join(sys.argv[1], "names.json"), "w") as file:
        json.dump(NAMES, file)
