"""Trains tiny mixture-of-experts models with the faults of the exhibits (assets/exhibits), each with a right twin, and
logs both with moescope_log.py. Usage: faulty_trainings.py FOLDER [NAME...]. Needs only PyTorch; takes about a minute on a
CPU. Writes NAME-wrong.jsonl, NAME-right.jsonl, and expected.json: {NAME: {"finding": kind that `moescope-cli check` has to
find in the wrong log and not in the right one} or {"none": reason why no log shows it}}. Prints PASS for each pair if the
numbers of the logs show the fault, otherwise FAIL, with exit status 1. `moescope-cli check` is not used for this.

This command makes the logs of tests/data/faulty_trainings:

    python3 tests/python/faulty_trainings.py FOLDER && xz -9e FOLDER/*.jsonl"""

import dataclasses
import json
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "assets", "python"))
from moescope_log import MoeLog  # noqa: E402

VOCABULARY, DIM, HIDDEN, EXPERTS = 64, 32, 32, 8
LENGTH, STEPS, LEARNING_RATE, SEED = 32, 220, 3e-3, 1
PAD = 0


@dataclasses.dataclass
class Setup:
    """Settings of a training; the defaults have no fault."""

    layers: int = 1
    batch: int = 16                  # sequences
    top_k: int = 2
    score: str = "sigmoid"
    route_norm: bool = True          # the K mixing weights are divided by their sum
    bias_rate: float = 0.0           # update rate of the sign rule
    bias_start: float = 0.0
    bias_dtype: torch.dtype = torch.float32
    bias_is_updated: bool = True
    count_dtype: torch.dtype = torch.float32  # type of the counts for the bias update, which are added up part by part
    logits_dtype: torch.dtype = torch.float32
    aux_coeff: float = 0.0
    aux: str = "right"               # "off": configured but never added; "softmax twice"
    aux_is_divided: bool = True      # divided by the number of microbatches
    microbatches: int = 1
    padding: float = 0.0             # share of the tokens that are padding
    padding_counts: bool = False
    groups: int = 1                  # expert groups; a token may use half of them
    mask: float = float("-inf")      # score of the experts of other groups
    without_experts_of: int = -1     # layer whose experts are not in the optimizer
    gradient_factor: float = 1.0     # factor of the experts' gradients
    recompute: bool = False
    own_counts: bool = False         # the routers count in their own buffers, which are logged
    norms_every: int = 0
    gate_scale: float = 1.0          # factor of the gates' initial weights


class Gate(nn.Module):
    def __init__(self, setup):
        super().__init__()
        self.setup, self.num_experts, self.top_k = setup, EXPERTS, setup.top_k
        self.weight = nn.Parameter(setup.gate_scale * torch.randn(EXPERTS, DIM) / DIM**0.5)
        self.register_buffer("expert_bias", torch.full((EXPERTS,), setup.bias_start, dtype=setup.bias_dtype))

    def forward(self, x):
        setup = self.setup
        logits = F.linear(x, self.weight).to(setup.logits_dtype).float()
        scores = logits.sigmoid() if setup.score == "sigmoid" else logits.softmax(-1)
        indices = self.allowed(scores + self.expert_bias.float()).topk(setup.top_k, dim=-1).indices
        weights = scores.gather(1, indices)
        if setup.route_norm:
            weights = weights / (weights.sum(-1, keepdim=True) + 1e-20)
        return logits, weights, indices

    def allowed(self, biased):
        """Masks all groups except the best half."""
        groups = self.setup.groups
        if groups == 1:
            return biased
        of_group = biased.view(len(biased), groups, -1).max(-1).values
        kept = torch.zeros_like(of_group).scatter(1, of_group.topk(groups // 2, dim=-1).indices, 1).bool()
        return biased.masked_fill(~kept.repeat_interleave(EXPERTS // groups, dim=1), self.setup.mask)


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(EXPERTS, DIM, HIDDEN) / DIM**0.5)
        self.w2 = nn.Parameter(torch.randn(EXPERTS, HIDDEN, DIM) / HIDDEN**0.5)

    def forward(self, x, weights, indices):
        """Computes every expert for every token, because the models are tiny."""
        mixing = torch.zeros(len(x), EXPERTS).scatter(1, indices, weights)
        hidden = F.silu(torch.einsum("td,edh->teh", x, self.w1))
        return torch.einsum("teh,ehd,te->td", hidden, self.w2, mixing)


class Block(nn.Module):
    def __init__(self, setup):
        super().__init__()
        self.setup, self.norm, self.gate, self.experts = setup, nn.LayerNorm(DIM), Gate(setup), Experts()
        name = "tokens_per_expert" if setup.own_counts else "counts"
        self.register_buffer(name, torch.zeros(EXPERTS, dtype=setup.count_dtype))
        self.aux = torch.zeros(())

    def counts_of_step(self):
        return self.tokens_per_expert if self.setup.own_counts else self.counts

    def forward(self, x, is_text):
        h = self.norm(x)
        logits, weights, indices = self.gate(h)
        counted = torch.ones_like(is_text) if self.setup.padding_counts else is_text
        counts = torch.bincount(indices[counted].flatten(), minlength=EXPERTS)
        self.counts_of_step().add_(counts.to(self.setup.count_dtype))
        self.aux = self.auxiliary(logits[is_text], torch.bincount(indices[is_text].flatten(), minlength=EXPERTS))
        return x + self.experts(h, weights, indices)

    def auxiliary(self, logits, counts):
        shares = logits.softmax(-1)
        if self.setup.aux == "softmax twice":
            shares = shares.softmax(-1)
        return self.setup.aux_coeff * EXPERTS * (shares.mean(0) * counts / counts.sum()).sum()


class Model(nn.Module):
    """Model that predicts a token from the two previous tokens."""

    def __init__(self, setup):
        super().__init__()
        self.setup = setup
        self.now, self.before = nn.Embedding(VOCABULARY, DIM), nn.Embedding(VOCABULARY, DIM)
        self.layers = nn.ModuleList([Block(setup) for _ in range(setup.layers)])
        self.norm, self.head = nn.LayerNorm(DIM), nn.Linear(DIM, VOCABULARY)

    def forward(self, ids, attention_mask):
        before = torch.cat([ids[:, :1], ids[:, :-1]], dim=1)
        is_text = attention_mask.reshape(-1) != 0
        x = (self.now(ids) + self.before(before)).reshape(-1, DIM)
        x = x * is_text.unsqueeze(-1) + ~is_text.unsqueeze(-1) * self.now.weight[PAD]
        for layer in self.layers:
            x = checkpoint(layer, x, is_text, use_reentrant=False) if self.setup.recompute else layer(x, is_text)
        return self.head(self.norm(x))


def batches(size, padding):
    """Yields token numbers [size, LENGTH + 1] and their masks. Three of four tokens follow from the two previous tokens,
    the others are drawn by Zipf's law."""
    generator = torch.Generator().manual_seed(SEED)
    follower = torch.randperm(VOCABULARY - 1, generator=generator) + 1
    zipf = 1 / torch.arange(1, VOCABULARY, dtype=torch.float)
    while True:
        ids = torch.multinomial(zipf, size * (LENGTH + 1), replacement=True, generator=generator) + 1
        ids = ids.view(size, LENGTH + 1)
        follows = torch.rand(size, LENGTH + 1, generator=generator) < 0.75
        for place in range(2, LENGTH + 1):
            next_ids = follower[(ids[:, place - 1] + ids[:, place - 2]) % (VOCABULARY - 1)]
            ids[:, place] = torch.where(follows[:, place], next_ids, ids[:, place])
        mask = torch.ones_like(ids)
        mask[:, round((1 - padding) * LENGTH) + 1:] = 0
        yield ids.masked_fill(mask == 0, PAD), mask


def optimizer_of(model, setup):
    left_out = set()
    if setup.without_experts_of >= 0:
        left_out = set(model.layers[setup.without_experts_of].experts.parameters())
    return torch.optim.AdamW([p for p in model.parameters() if p not in left_out], lr=LEARNING_RATE)


def settings_of(setup, name):
    return {"run": name, "seed": SEED, "tokens_per_step": setup.batch * LENGTH, "score_func": setup.score,
            "bias_update_rate": setup.bias_rate, "aux_coeff": setup.aux_coeff, "route_norm": setup.route_norm}


def gradients(model, setup, batch):
    """Computes the gradients of a step in microbatches. Returns (cross-entropy, auxiliary loss by layer)."""
    ce, aux = 0.0, [0.0] * setup.layers
    for ids, mask in zip(*(each.chunk(setup.microbatches) for each in batch)):
        logits = model(ids[:, :-1], attention_mask=mask[:, :-1])
        targets = ids[:, 1:].masked_fill(mask[:, 1:] == 0, -100).reshape(-1)
        loss = F.cross_entropy(logits, targets) / setup.microbatches
        losses = [block.aux for block in model.layers]
        divisor = setup.microbatches if setup.aux_is_divided else 1
        total = loss if setup.aux == "off" else loss + sum(losses) / divisor
        total.backward()
        ce += loss.item()
        aux = [a + (0.0 if setup.aux == "off" else b.item() / setup.microbatches) for a, b in zip(aux, losses)]
    for block in model.layers:
        for parameter in block.experts.parameters():
            parameter.grad *= setup.gradient_factor
    return ce, aux


@torch.no_grad()
def update_biases(model, setup):
    for block in model.layers:
        counts = block.counts_of_step()
        if setup.bias_is_updated and setup.bias_rate > 0:
            step = setup.bias_rate * torch.sign(counts.float().mean() - counts.float())
            block.gate.expert_bias += step.to(setup.bias_dtype)
        counts.zero_()


def train(path, name, setup):
    torch.manual_seed(SEED)
    model = Model(setup)
    optimizer = optimizer_of(model, setup)
    log = MoeLog(path, model, settings=settings_of(setup, name), count_padding=setup.padding_counts,
                 expert_norms_every=setup.norms_every, scores_every=20, bias_every=20)
    with log:
        for step, batch in zip(range(STEPS), batches(setup.batch, setup.padding)):
            optimizer.zero_grad()
            ce, aux = gradients(model, setup, batch)
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            update_biases(model, setup)
            more = {"aux_loss": aux} if setup.aux_coeff > 0 else {}
            log.step(step, loss=round(ce, 3), grad_norm=round(float(norm), 3), lr=LEARNING_RATE, **more)


# Figures from the logs.


def read(path):
    with open(path) as file:
        return [json.loads(line) for line in file][1:]


def column(lines, key, layer=0):
    """Returns the values of a layer's rows, for the steps that have them."""
    return [line["routers"][layer][key] for line in lines if key in line["routers"][layer]]


def max_vio(lines, layer=0):
    """Computed over the newest 50 steps together."""
    loads = torch.tensor(column(lines[-50:], "tokens_per_expert", layer), dtype=torch.float).sum(0)
    return float(loads.max() / loads.mean() - 1)


def norms(lines, key, layer):
    return torch.tensor([row[key] for line in lines for row in line.get("specialisation", []) if row["layer"] == layer])


def sums(lines):
    return sorted({sum(row["tokens_per_expert"]) for line in lines for row in line["routers"]})


def constant_weights(lines):
    """Returns the largest difference between an expert's share of the mixing weights and its share of the slots."""
    return max(abs(gate - n / sum(row["tokens_per_expert"])) for line in lines for row in line["routers"]
               if "gate_mass" in row for gate, n in zip(row["gate_mass"], row["tokens_per_expert"]))


# Pairs of runs: setting of the wrong run, common settings, expected finding, and a test of the fault on the logs.


@dataclasses.dataclass
class Pair:
    name: str
    both: dict
    wrong: dict
    finding: str = ""    # "": no log shows the fault
    because: str = ""    # reason why no log shows it
    fault: object = None  # (wrong lines, right lines) -> (fault is present, measured values)


def one_expert(wrong, right):
    a, b = constant_weights(wrong), constant_weights(right)
    return a < 1e-6 and b > 1e-3, "mixing weights from the load: wrong %.2g, right %.2g" % (a, b)


def still_bias(wrong, right):
    spread = [max(max(bias) - min(bias) for bias in column(lines, "expert_bias")) for lines in (wrong, right)]
    vio = [max_vio(lines) for lines in (wrong, right)]
    return spread[0] == 0 and spread[1] > 0.01 and vio[0] > 0.5, "largest spread of the bias %.3g, %.3g; MaxVio %.2f, %.2f" % (
        *spread, *vio)


def uneven_by_loss(wrong, right):
    vio = [max_vio(lines) for lines in (wrong, right)]
    aux = column(wrong, "aux_loss")
    return vio[0] > 0.5 and vio[0] > 1.5 * vio[1], "MaxVio %.2f, %.2f; auxiliary loss from %.5f to %.5f" % (
        *vio, min(aux[50:]), max(aux[50:]))


def padding_in(wrong, right):
    loads = torch.tensor(column(wrong[-50:], "tokens_per_expert"), dtype=torch.float).sum(0)
    best = (loads / loads.mean()).sort(descending=True).values.tolist()
    return best[1] - best[2] > 0.3 and sums(right)[-1] < sums(wrong)[0], "loads %s, MaxVio without padding %.2f" % (
        ", ".join("%.2f" % share for share in best), max_vio(right))


def unchanged(wrong, right):
    updates, gradients_ = norms(wrong, "update_norm", 1), norms(wrong, "gradient_norm", 1)
    other = norms(right, "update_norm", 1)
    return (bool((updates == 0).all()) and bool((gradients_ > 0).any()) and bool((other > 0).all()),
            "update norms of layer 1: wrong %.3g, right %.3g; gradient %.3g" % (
                updates.max(), other.mean(), gradients_.mean()))


def scaled(wrong, right):
    first = [norms(lines[:1], "gradient_norm", 0) for lines in (wrong, right)]
    ratio = float((first[0] / first[1]).median())
    clipped = [lines[0]["grad_norm"] for lines in (wrong, right)]
    return clipped[0] > 1.5 * clipped[1], "gradient norm of step 0: %.3g, %.3g; of experts, after clipping: %.3g times" % (
        *clipped, ratio)


def counted_once(wrong, right):
    return sums(wrong) == sums(right) == [2 * Setup.batch * LENGTH], "slots of a step: %s, %s" % (sums(wrong), sums(right))


def counts_in_bf16(wrong, right):
    return sums(right) == [2 * 64 * LENGTH] and len(sums(wrong)) > 1, "slots of a step: %d to %d, %s" % (
        sums(wrong)[0], sums(wrong)[-1], sums(right))


def differ(wrong, right):
    loads = [column(lines, "tokens_per_expert") for lines in (wrong, right)]
    first = next((step for step, (a, b) in enumerate(zip(*loads)) if a != b), -1)
    return first >= 0, "loads differ from step %d on; MaxVio %.2f, %.2f; loss %.3f, %.3f" % (
        first, max_vio(wrong), max_vio(right), wrong[-1]["loss"], right[-1]["loss"])


ONE_OF_8 = dict(top_k=1, route_norm=False, gate_scale=3.0)  # gives an uneven load without balancing
BALANCED = dict(bias_rate=0.01)
PAIRS = [
    Pair("one-expert", dict(top_k=1, **BALANCED, route_norm=False), dict(route_norm=True), "no-gradient",
         fault=one_expert),
    Pair("stale-bias", dict(**ONE_OF_8, **BALANCED), dict(bias_is_updated=False), "stale-bias", fault=still_bias),
    Pair("bias-in-bf16", dict(**ONE_OF_8, bias_rate=0.004, bias_start=7.0), dict(bias_dtype=torch.bfloat16), "stale-bias",
         fault=still_bias),
    Pair("counts-in-bf16", dict(**BALANCED, batch=64, microbatches=4, own_counts=True), dict(count_dtype=torch.bfloat16),
         because="one log has no number of tokens that its counts must add up to, unless it is stated and nothing is "
                 "dropped or padded; the load is as even as that of a right run", fault=counts_in_bf16),
    Pair("gate-output-in-bf16", dict(**BALANCED), dict(logits_dtype=torch.bfloat16),
         because="load and loss differ from those of the right run as by chance", fault=differ),
    Pair("softmax-twice", dict(**ONE_OF_8, score="softmax", aux_coeff=0.1),
         dict(aux="softmax twice"), "flat-auxiliary", fault=uneven_by_loss),
    Pair("no-auxiliary-loss", dict(**ONE_OF_8, score="softmax", aux_coeff=0.1), dict(aux="off"), "flat-auxiliary",
         fault=uneven_by_loss),
    Pair("aux-times-microbatches", dict(score="softmax", aux_coeff=0.05, microbatches=4), dict(aux_is_divided=False),
         because="the value in the log is right; a training with another number of microbatches beside it shows it",
         fault=differ),
    Pair("counted-padding", dict(score="softmax", aux_coeff=0.05, padding=0.4), dict(padding_counts=True),
         "shared-excess", fault=padding_in),
    Pair("group-mask", dict(groups=4, bias_start=-2.0, bias_rate=0.001), dict(mask=0.0),
         because="a log has sums over tokens, not the groups that each token used", fault=differ),
    Pair("missing-experts", dict(**BALANCED, layers=2, norms_every=20), dict(without_experts_of=1), "unchanged-experts",
         fault=unchanged),
    Pair("expert-gradients", dict(**BALANCED, norms_every=20), dict(gradient_factor=8.0),
         because="a factor is seen only beside a log of one rank, in its gradient norms", fault=scaled),
    Pair("counted-twice", dict(**BALANCED), dict(recompute=True),
         because="moescope_log.py counts a pass that is repeated once, as this log shows", fault=counted_once),
]


def main():
    torch.set_num_threads(1)
    folder, wanted = sys.argv[1], sys.argv[2:]
    os.makedirs(folder, exist_ok=True)
    failed, expected = 0, {}
    for pair in PAIRS:
        if wanted and pair.name not in wanted:
            continue
        lines = []
        for kind, setup in (("wrong", Setup(**{**pair.both, **pair.wrong})), ("right", Setup(**pair.both))):
            path = os.path.join(folder, "%s-%s.jsonl" % (pair.name, kind))
            train(path, "%s, %s" % (pair.name, kind), setup)
            lines.append(read(path))
        is_there, seen = pair.fault(*lines)
        failed += not is_there
        print("%s %-22s %s" % ("PASS" if is_there else "FAIL", pair.name, seen), flush=True)
        expected[pair.name] = {"finding": pair.finding} if pair.finding else {"none": pair.because}
    with open(os.path.join(folder, "expected.json"), "w") as file:
        json.dump(expected, file, indent=1)
        file.write("\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
