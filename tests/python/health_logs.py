"""Makes 200 logs of mixture-of-experts trainings whose truth is known: health_logs.py FOLDER [SEED]. NumPy only.

Each log is FOLDER/KIND_NN.jsonl. FOLDER/truth.json has for each name:
    kind      group of the table that check_health_logs.py prints
    verdicts  verdicts on the router that are right
    findings  {kind of finding: experts of it by layer, {} if not stated}: all of them have to be found and to be ongoing
    allowed   other kinds of findings that may be found
    lost      words of `moescope-cli check` of which one has to be found: the training is lost; empty: it is not
    onset     step at which the fault begins; null: it was there from the start, or there is none
The truth follows from the shares from which a log is drawn, never from a result of the program.

The load of a batch: each expert is chosen by Binomial(tokens, share * top_k / experts) tokens, corrected to their sum."""

import json
import os
import sys

import numpy as np

HEALTHY, NO_VERDICT_YET = ["Healthy"], ["Healthy", "Too early to tell", "Cannot tell"]
SICK, SEVERE = ["Needs attention", "Unhealthy"], ["Unhealthy"]
NOT_HEALTHY = ["Too early to tell", "Cannot tell", "Needs attention", "Unhealthy"]
# Findings that follow from a full or an empty expert and are not a fault of their own.
OF_EMPTY = ["starved", "underused", "uneven", "hot", "collapsed", "uneven-ranks", "uneven-batches", "dead"]


class Shape:
    """Size of a model, and the steps that are logged."""

    def __init__(self, experts, top_k, tokens, layers, steps):
        self.experts, self.top_k, self.tokens, self.layers = experts, top_k, tokens, layers
        self.steps = list(steps)


def shape_of(rng, steps, layers=(1, 2, 3, 5), tokens=(900, 1500, 3000, 6000), experts=(12, 20, 28, 48, 72, 96)):
    count = int(rng.choice(experts))
    return Shape(count, int(rng.choice([k for k in (1, 2, 3, 6) if 4 * k <= count])), int(rng.choice(tokens)),
                 int(rng.choice(layers)), steps)


def spread_shares(rng, shape, spread):
    """Returns lasting shares of all experts, [experts]."""
    shares = np.exp(spread * rng.standard_normal(shape.experts))
    return shares / shares.mean()


def even_bases(rng, shape, spread=0.08):
    """Returns lasting shares of all layers, [layers, experts]."""
    return np.array([spread_shares(rng, shape, spread) for _ in range(shape.layers)])


def at_every_step(shape, bases):
    return np.broadcast_to(bases, (len(shape.steps), shape.layers, shape.experts))


def counts(rng, shape, shares):
    """Returns the tokens of each expert in each batch for shares [..., experts]; their sum is tokens * top_k."""
    chosen = np.minimum(shares / shares.sum(-1, keepdims=True) * shape.top_k, 1)
    drawn = rng.binomial(shape.tokens, chosen)
    while True:
        rest = shape.tokens * shape.top_k - drawn.sum(-1, keepdims=True)
        if not rest.any():
            return drawn
        # The rest is divided in proportion to the variances, and what is left is given to random experts, one each.
        can_change = np.where(rest > 0, drawn < np.where(chosen > 0, shape.tokens, 0), drawn > 0)
        weight = can_change * (chosen * (1.02 - chosen) + 1e-12)
        part = np.trunc(rest * weight / weight.sum(-1, keepdims=True))
        left = np.abs(rest - part.sum(-1, keepdims=True))
        with np.errstate(divide="ignore"):
            order = np.argsort(-np.log(weight) + np.log(-np.log(rng.random(weight.shape))), -1)
        one_each = np.empty(weight.shape)
        np.put_along_axis(one_each, order, np.broadcast_to(np.arange(shape.experts) < left, weight.shape) * 1.0, -1)
        part = part + np.sign(rest) * one_each * can_change
        drawn = np.clip(drawn + part, 0, np.where(chosen > 0, shape.tokens, 0)).astype(int)


class Logs:
    def __init__(self, folder, seed):
        self.folder, self.seed, self.truth = folder, seed, {}
        os.makedirs(folder, exist_ok=True)

    def random(self, kind, number):
        return np.random.default_rng([self.seed, *kind.encode(), number])

    def write(self, kind, number, rng, shape, shares, truth, values_of=None):
        """Writes the log of shares [steps, layers, experts]; values_of(step, loss) returns the other values of a step."""
        name = "%s_%02d.jsonl" % (kind, number)
        by_layer = bool(rng.integers(2))  # two forms of logs: an object for each layer, or the counts of all layers
        loads = counts(rng, shape, shares).tolist()
        losses = 2.5 + 8.3 / (1 + np.array(shape.steps) / 30) ** 0.6 + 0.02 * rng.standard_normal(len(shape.steps))
        with open(os.path.join(self.folder, name), "w") as log:
            log.write(json.dumps({"experts": shape.experts, "top_k": shape.top_k, "tokens_per_step": shape.tokens}) + "\n")
            for step, loss, load in zip(shape.steps, losses, loads):
                loss = round(float(loss), 4)
                line = {"step": int(step), **({"loss": loss} if values_of is None else values_of(step, loss))}
                if by_layer:
                    line["routers"] = [{"layer": i, "tokens_per_expert": each} for i, each in enumerate(load)]
                else:
                    line["tokens_per_expert"] = load
                log.write(json.dumps(line) + "\n")
        base = {"kind": kind, "verdicts": HEALTHY, "findings": {}, "allowed": [], "lost": [], "onset": None}
        self.truth[name] = {**base, **truth}

    def save(self):
        with open(os.path.join(self.folder, "truth.json"), "w") as file:
            json.dump(self.truth, file, indent=1)


def healthy(logs):
    for i in range(12):
        rng = logs.random("healthy", i)
        shape = shape_of(rng, range(int(rng.choice([450, 700, 950]))))
        logs.write("healthy", i, rng, shape, at_every_step(shape, even_bases(rng, shape)), {})


def stationary_with_topics(logs):
    """The text of a batch varies, the routing does not change: there is no jump."""
    for i in range(26):
        rng = logs.random("topics", i)
        every = int(rng.choice([1, 3, 7, 15, 20, 30, 45]))
        shape = shape_of(rng, range(0, every * int(rng.choice([160, 220, 300])), every), layers=(1, 2, 3))
        if every == 1:
            shape.steps = list(range(600))
        bases, topics = even_bases(rng, shape, rng.uniform(0, 0.12)), rng.uniform(0.05, 0.28)
        text = np.exp(topics * rng.standard_normal((len(shape.steps), 1, shape.experts)))
        logs.write("topics", i, rng, shape, bases * text, {})


def few_tokens(logs):
    """An even share is 2 to 8 tokens a batch, so that experts without a token in a batch are chance."""
    for i in range(8):
        rng = logs.random("few_tokens", i)
        shape = shape_of(rng, range(700), layers=(1, 2), experts=(24, 40, 60))
        shape.tokens = int(rng.integers(2, 9)) * shape.experts // shape.top_k
        logs.write("few_tokens", i, rng, shape, at_every_step(shape, even_bases(rng, shape, 0.05)), {})
    for i in range(8, 12):  # the same with dead experts
        rng = logs.random("few_tokens", i)
        shape = shape_of(rng, range(700), layers=(1,), experts=(24, 40, 60))
        shape.tokens = int(rng.integers(2, 9)) * shape.experts // shape.top_k
        bases, dead = even_bases(rng, shape, 0.05), sorted(rng.choice(shape.experts, 2, replace=False).tolist())
        bases[0][dead] = 0
        logs.write("few_tokens", i, rng, shape, at_every_step(shape, bases),
                   {"verdicts": SEVERE, "findings": {"dead": {"0": dead}}, "allowed": OF_EMPTY})


def sick_shares(rng, shape, fault):
    """Returns shares with a fault and its experts; each fault is far beyond every threshold of the program."""
    shares = spread_shares(rng, shape, 0.06)
    if fault == "dead":
        experts = rng.choice(shape.experts, int(rng.integers(1, max(2, shape.experts // 4))), replace=False)
        shares[experts] = 0
    elif fault == "starved":
        experts = rng.choice(shape.experts, int(rng.integers(2, max(3, shape.experts // 4))), replace=False)
        shares[experts] = 0.004
    elif fault == "hot":
        experts = rng.choice(shape.experts, 1)
        shares[experts] = 0
        # six times the fair share, or 95 % of all tokens if that is less
        most = 0.95 * shape.experts / shape.top_k
        wanted = min(6.5, most)
        shares *= (shape.experts - wanted) / shares.sum()
        shares[experts] = wanted
    else:
        experts = rng.choice(shape.experts, shape.top_k + 1, replace=False)
        shares[:] = 2e-6
        shares[experts] = 1
    return shares, sorted(experts.tolist())


SICK_TRUTH = {
    "dead": (SEVERE, ["starved", "underused"]),
    "starved": (SICK, ["underused", "dead"]),
    "hot": (SICK, ["uneven", "uneven-ranks", "uneven-batches"]),
    "collapsed": (SEVERE, ["dead", "starved", "hot", "uneven", "underused", "uneven-ranks"]),
}


def truth_of(fault, layer, experts):
    verdicts, allowed = SICK_TRUTH[fault]
    named = {} if fault == "collapsed" else {str(layer): experts}
    return {"verdicts": verdicts, "findings": {fault: named}, "allowed": allowed}


def sick_from_the_start(logs):
    for fault in SICK_TRUTH:
        for i in range(7):
            rng = logs.random(fault, i)
            every = int(rng.choice([1, 1, 4, 12]))
            shape = shape_of(rng, range(0, 900 if every == 1 else 200 * every, every), layers=(1, 2, 4))
            if fault == "starved":
                shape.tokens = 6000
            bases, layer = even_bases(rng, shape), int(rng.integers(shape.layers))
            bases[layer], experts = sick_shares(rng, shape, fault)
            logs.write(fault, i, rng, shape, at_every_step(shape, bases), truth_of(fault, layer, experts))


def sick_later(logs):
    """A fault begins in the middle of a run, in one of several layers."""
    for i, fault in enumerate(["dead", "hot", "collapsed", "starved"] * 3):
        rng = logs.random("several_layers", i)
        shape = shape_of(rng, range(1100), layers=(3, 4, 6), tokens=(3000, 6000), experts=(12, 20, 28, 48))
        bases, layer, onset = even_bases(rng, shape), int(rng.integers(shape.layers)), int(rng.integers(260, 520))
        sick, experts = sick_shares(rng, shape, fault)
        truth = truth_of(fault, layer, experts)
        truth["allowed"] = truth["allowed"] + ["load-shift", "no-recovery"]
        shares = at_every_step(shape, bases).copy()
        shares[onset:, layer] = sick
        logs.write("several_layers", i, rng, shape, shares, {**truth, "onset": onset})


def two_experts(logs):
    """One of two or three experts gets most of the tokens."""
    for i, share in enumerate([0.8, 0.8, 0.85, 0.9, 0.5, 0.55]):
        rng = logs.random("two_experts", i)
        shape = Shape(2, 1, int(rng.choice([800, 2000])), int(rng.choice([1, 2])), range(0, 1000, int(rng.choice([1, 10]))))
        shares = np.array([share, 1 - share])
        sick = {"verdicts": SICK, "allowed": OF_EMPTY}
        logs.write("two_experts", i, rng, shape, at_every_step(shape, shares), sick if share >= 0.8 else {})


def oscillation(logs):
    """The load of an expert is a wave with a period of 6 to 70 steps; the mean is even."""
    for i, period in enumerate([6, 10, 14, 20, 8, 12, 60, 70, 50]):
        rng = logs.random("oscillation", i)
        shape = shape_of(rng, range(900), layers=(1, 2), tokens=(6000,), experts=(12, 20, 28))
        bases, phase = even_bases(rng, shape, 0.03), rng.uniform(0, 2 * np.pi, shape.experts)
        wave = 1 + 0.95 * np.sin(2 * np.pi * np.array(shape.steps)[:, None, None] / period + phase)
        logs.write("oscillation", i, rng, shape, bases * wave,
                   {"verdicts": SICK, "findings": {"oscillating": {}}, "allowed": ["uneven-batches"]})


def alternating_texts(logs):
    """Two kinds of text alternate at random: uneven batches, whose load does not oscillate."""
    for i in range(5):
        rng = logs.random("alternating", i)
        shape = shape_of(rng, range(800), layers=(1, 2), tokens=(3000,), experts=(20, 28, 48))
        first = spread_shares(rng, shape, 0.35)
        second = 2.02 * first.mean() - first if first.max() < 2 else 1 / first
        is_first = rng.random((len(shape.steps), 1, 1)) < 0.5
        shares = np.where(is_first, first, np.maximum(second, 0.05)) * np.ones((1, shape.layers, 1))
        logs.write("alternating", i, rng, shape, shares, {})


def jump(logs):
    """From one step on all layers prefer other experts; the load stays far more uneven."""
    for i in range(9):
        rng = logs.random("jump", i)
        every = int(rng.choice([1, 1, 2, 5]))
        shape = shape_of(rng, range(0, 900 * every, every), layers=(1, 2, 4), tokens=(6000,), experts=(12, 20, 28, 48))
        before, after = even_bases(rng, shape, 0.06), even_bases(rng, shape, 0.45)
        onset = every * int(rng.integers(300, 500))
        has_jumped = (np.array(shape.steps) >= onset)[:, None, None]
        logs.write("jump", i, rng, shape, np.where(has_jumped, after, before),
                   {"verdicts": HEALTHY + SICK + ["Too early to tell"], "findings": {"load-shift|no-recovery": {}},
                    "allowed": ["uneven", "uneven-ranks", "underused"], "onset": onset})


def sparse(logs):
    """3 to 24 lines, 40 to 150 steps apart."""
    for i in range(26):
        rng = logs.random("sparse", i)
        fault = ["hot", "dead", "collapsed", "starved", "none"][i % 5]
        lines = int(rng.choice([3, 5, 8, 11, 15, 24]))
        shape = shape_of(rng, np.arange(lines) * int(rng.choice([40, 75, 150])), layers=(1, 2), tokens=(6000, 12000))
        bases, layer = even_bases(rng, shape), int(rng.integers(shape.layers))
        if fault == "none":
            truth = {"verdicts": NO_VERDICT_YET}
        else:
            bases[layer], experts = sick_shares(rng, shape, fault)
            truth = truth_of(fault, layer, experts)
            if lines < 10 or fault == "starved":  # fewer need not be found
                truth = {"verdicts": NOT_HEALTHY, "allowed": truth["allowed"] + [fault]}
        logs.write("sparse", i, rng, shape, at_every_step(shape, bases), truth)


def far_apart(logs):
    """Lines 120 to 3,000 steps apart, or numbered by tokens."""
    for i in range(22):
        rng = logs.random("far_apart", i)
        fault = ["hot", "dead", "collapsed", "none"][i % 4]
        lines, gap = int(rng.choice([30, 90, 145, 170])), int(rng.choice([99, 120, 300, 3000, 2_000_000]))
        shape = shape_of(rng, np.arange(lines) * gap, layers=(1, 2), tokens=(1500, 3000))
        bases, layer = even_bases(rng, shape), int(rng.integers(shape.layers))
        if fault == "none":
            truth = {"verdicts": HEALTHY if lines >= 90 else NO_VERDICT_YET}
        else:
            bases[layer], experts = sick_shares(rng, shape, fault)
            truth = truth_of(fault, layer, experts)
        logs.write("far_apart", i, rng, shape, at_every_step(shape, bases), truth)


def one_total(logs):
    """One line with the counts of a whole training or of an evaluation."""
    for i in range(13):
        rng = logs.random("one_total", i)
        fault = ["hot", "dead", "none", "collapsed"][i % 4]
        shape = shape_of(rng, [int(rng.choice([0, 1, 5000]))], layers=(1, 3), tokens=(400_000, 3_000_000, 50_000_000))
        bases, layer = even_bases(rng, shape, 0.1), int(rng.integers(shape.layers))
        truth = {"verdicts": NO_VERDICT_YET}
        if fault != "none":
            bases[layer], experts = sick_shares(rng, shape, fault)
            truth = truth_of(fault, layer, experts)
            if fault == "collapsed":
                truth = {"verdicts": SICK, "allowed": OF_EMPTY}
        logs.write("one_total", i, rng, shape, at_every_step(shape, bases), truth)


def with_norm(step, loss, rng):
    return {"loss": loss, "grad_norm": round(float(0.8 * np.exp(0.15 * rng.standard_normal())), 4)}


def lost_training(logs):
    """The router is healthy, the training is lost at `onset`."""
    names = ["nan", "zero", "nan_gradient", "not_logged", "growing_norm", "diverged"]
    words = {"nan": ["nan"], "zero": ["nan"], "nan_gradient": ["nan"], "not_logged": ["nan", "loss-unlogged"],
             "growing_norm": ["gradient-norm", "diverged", "nan"], "diverged": ["diverged"]}
    for i in range(18):
        rng = logs.random("lost_training", i)
        how, every = names[i % 6], int(rng.choice([1, 1, 5]))
        shape = shape_of(rng, range(0, 900 * every, every), layers=(1, 2), experts=(12, 20, 28))
        onset = every * int(rng.integers(300, 550))

        def values(step, loss, how=how, onset=onset, every=every, rng=rng):
            line, since = with_norm(step, loss, rng), (step - onset) / every
            if step < onset:
                return line
            if how == "nan":
                return {"loss": float("nan"), "grad_norm": float("nan")}
            if how == "zero":
                return {"loss": 0.0, "grad_norm": float("nan")}
            if how == "nan_gradient":
                return {**line, "grad_norm": float("nan")}
            if how == "not_logged":
                return {"grad_norm": line["grad_norm"]}
            if how == "growing_norm":
                return {**line, "grad_norm": float("%.4g" % (line["grad_norm"] * 10 ** min(5.0, since / 40)))}
            return {**line, "loss": round(loss + min(10.0, since / 8), 4)}

        logs.write("lost_training", i, rng, shape, at_every_step(shape, even_bases(rng, shape)),
                   {"lost": words[how], "allowed": ["spike"], "onset": onset}, values)


def ordinary_losses(logs):
    """Nothing is lost: a skipped step, a spike, gaps, a gradient norm that varies or begins high."""
    for i in range(12):
        rng = logs.random("ordinary_losses", i)
        shape = shape_of(rng, range(800), layers=(1, 2), experts=(12, 20, 28))
        event = int(rng.integers(300, 600))

        def values(step, loss, i=i, event=event, rng=rng):
            line = with_norm(step, loss, rng)
            if i % 6 == 0 and step in (event, event + 40):
                line["grad_norm"] = float("nan")             # a step that the loss scaler skips
            elif i % 6 == 1 and step == event:
                line.update(loss=loss + 1.5, grad_norm=9.0)  # a spike
            elif i % 6 == 2 and step % 10 and step > 0:
                del line["loss"]                             # the loss is logged at every tenth step
            elif i % 6 == 3:
                line["grad_norm"] *= 1 + 60 * float(np.exp(-step / 25))  # high at first
            elif i % 6 == 4:
                line["grad_norm"] = round(float(0.5 * np.exp(0.5 * rng.standard_normal())) * (1 + step / 400), 4)
            elif i % 6 == 5:
                line["loss"] = round(loss * 0.02, 5)         # a loss near 0, as of a preference training
            return line

        truth = {"allowed": ["spike"]} if i % 6 == 1 else {}
        logs.write("ordinary_losses", i, rng, shape, at_every_step(shape, even_bases(rng, shape)), truth, values)


GROUPS = [healthy, stationary_with_topics, few_tokens, sick_from_the_start, sick_later, two_experts, oscillation,
          alternating_texts, jump, sparse, far_apart, one_total, lost_training, ordinary_losses]


def make_logs(folder, seed=1):
    """Writes the logs, and returns their truth by name."""
    logs = Logs(folder, seed)
    for group in GROUPS:
        group(logs)
    logs.save()
    return logs.truth


if __name__ == "__main__":
    print("%d logs" % len(make_logs(sys.argv[1], int(sys.argv[2]) if sys.argv[2:] else 1)))
