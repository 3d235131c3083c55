#!/usr/bin/python3
"""Executes the blocks of Python that the exhibits (assets/exhibits) give as a check for one's own training, on the tiny
models of faulty_trainings.py: each must fail in the wrong run and pass in the right one. Comments "#NAME = PATH" below
the name of a program in a block are executed before it, on a layer that has the attributes of that program alone. The
command `moescope-cli check` of an exhibit must find the wrong run, too; test faulty_logs covers those that have a log there.
Usage: check_exhibit_lines.py MOESCOPE_CLI. Exit status 77: PyTorch is missing."""

import dataclasses
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from types import SimpleNamespace

HERE = os.path.dirname(os.path.abspath(__file__))
EXHIBIT_FILES = sorted(glob.glob(os.path.join(HERE, "..", "..", "assets", "exhibits", "*.toml")))
PATH = re.compile(r"^#( *\w+ = .*)", re.M)
sys.path.insert(0, HERE)


def blocks_of(text, language):
    return re.findall(r"^```%s\n(.*?)^```$" % language, text, re.M | re.S)


def reveal_of(path):
    with open(path, "rb") as file:
        return tomllib.load(file)["step"][0]["reveal"]


for exhibit_file in EXHIBIT_FILES:  # every line runs as it stands when its # is taken
    for lines in blocks_of(reveal_of(exhibit_file), "python"):
        compile(PATH.sub(r"\1", lines), exhibit_file, "exec")
try:
    import torch
    import torch.nn.functional as F
except ImportError:
    sys.exit(77)
import faulty_trainings as tiny  # noqa: E402


class Training:
    """A tiny model, its optimizer and its batches."""

    def __init__(self, setup):
        torch.manual_seed(tiny.SEED)
        self.setup, self.model = setup, tiny.Model(setup)
        self.optimizer = tiny.optimizer_of(self.model, setup)
        self.batches = tiny.batches(setup.batch, setup.padding)
        self.block = self.model.layers[-1]
        self.block.gate.register_forward_hook(self.keep)

    def keep(self, gate, inputs, outputs):
        self.x, (self.logits, _, self.ids) = inputs[0], outputs

    def backward(self, batch=None):
        self.batch = batch or next(self.batches)
        return tiny.gradients(self.model, self.setup, self.batch)

    def train(self, steps):
        for _ in range(steps):
            self.optimizer.zero_grad()
            self.aux = self.backward()[1][-1]
            self.optimizer.step()
            tiny.update_biases(self.model, self.setup)


def layers_of(block):
    """Returns the layer of a block as each program has it. gate(x) returns what the linear of the gate does."""
    def gate(x):
        return block.gate(x)[0]

    def router(**names):
        return SimpleNamespace(weight=block.gate.weight, **names)

    bias, counts = block.gate.expert_bias, block.counts_of_step()
    return {
        "Megatron-LM": SimpleNamespace(mlp=SimpleNamespace(
            router=router(expert_bias=bias, local_tokens_per_expert=counts, gating=gate))),
        "TorchTitan": SimpleNamespace(moe=SimpleNamespace(
            expert_bias=bias, tokens_per_expert=counts, router=SimpleNamespace(gate=Linear(gate, block.gate.weight)))),
        "transformers": SimpleNamespace(mlp=SimpleNamespace(gate=router(e_score_correction_bias=bias))),
    }


class Linear:
    def __init__(self, product, weight):
        self.product, self.weight = product, weight

    def __call__(self, x):
        return self.product(x)


def one_expert(setup):
    run = Training(setup)
    run.backward()
    return dict(block=run.block)


def stale_bias(setup):
    run = Training(setup)
    return dict(block=run.block, train=run.train)


def stored(setup):
    run = Training(setup)
    run.train(2)  # moves the biases, which begin at 0
    run.backward()
    return dict(block=run.block, x=run.x, tokens=setup.batch * tiny.LENGTH, top_k=setup.top_k)


def auxiliary(setup):
    run = Training(setup)
    run.train(1)
    return dict(n=torch.bincount(run.ids.flatten(), minlength=tiny.EXPERTS).float(), logits=run.logits, aux=run.aux,
                factor=setup.aux_coeff)


def microbatches(setup):
    def norm(microbatches):
        run = Training(dataclasses.replace(setup, microbatches=microbatches, aux_coeff=10.0))
        run.backward()
        return torch.cat([p.grad.flatten() for p in run.model.parameters()]).norm()

    return dict(norm_with_1=norm(1), norm_with_8=norm(8))


def padding(setup):
    run = Training(setup)
    run.backward()
    return dict(block=run.block, ids=run.batch[0][:, :-1], pad_id=tiny.PAD, top_k=setup.top_k)


def groups(setup):
    run = Training(setup)
    run.backward()
    return dict(ids=run.ids, experts_per_group=tiny.EXPERTS // setup.groups, topk_group=setup.groups // 2)


def optimizer(setup):
    run = Training(setup)
    return dict(optimizer=run.optimizer, model=run.model, train=run.train,
                w=run.block.experts.w1[0])


def gradients(setup):
    def norm(ranks):
        run = Training(dataclasses.replace(setup, gradient_factor=ranks if setup.gradient_factor > 1 else 1.0))
        run.backward()
        return run, run.block.experts.w1.grad.norm()

    run, norm_of_1 = norm(1)
    return dict(expert=SimpleNamespace(weight=run.block.experts.w1), printed_with_1=norm_of_1, printed_with_8=norm(8)[1])


def recomputed(setup):
    run = Training(setup)
    run.backward()
    return dict(block=run.block, tokens=setup.batch * tiny.LENGTH, top_k=setup.top_k)


# Name of an exhibit: names of its lines, settings of both runs, settings of each wrong run.
COUNTED = dict(batch=64, microbatches=32, own_counts=True)
EXHIBITS = {
    "one-expert": (one_expert, dict(top_k=1, route_norm=False), [dict(route_norm=True)]),
    "stale-bias": (stale_bias, dict(bias_rate=0.01), [dict(bias_is_updated=False)]),
    "stored-in-bf16": (stored, dict(**COUNTED, bias_rate=0.001),
                       [dict(bias_dtype=torch.bfloat16), dict(count_dtype=torch.bfloat16),
                        dict(logits_dtype=torch.bfloat16)]),
    "softmax-twice": (auxiliary, dict(top_k=1, route_norm=False, gate_scale=3.0, score="softmax", aux_coeff=0.1),
                      [dict(aux="softmax twice"), dict(aux="off")]),
    "aux-times-microbatches": (microbatches, dict(score="softmax", aux_coeff=0.03), [dict(aux_is_divided=False)]),
    "counted-padding": (padding, dict(padding=0.4, own_counts=True), [dict(padding_counts=True)]),
    "group-mask": (groups, dict(groups=4, top_k=4, bias_start=-0.5), [dict(mask=0.0)]),
    "missing-experts": (optimizer, dict(layers=2), [dict(without_experts_of=1)]),
    "expert-gradients": (gradients, dict(), [dict(gradient_factor=8.0)]),
    "counted-twice": (recomputed, dict(own_counts=True), [dict(recompute=True)]),
}


def paths_of(blocks):
    """Yields for each block the lines NAME = PATH of each program that it names, those of earlier blocks before them."""
    known = {}
    for block in blocks:
        named, program = [], None
        for line in block.splitlines():
            if match := re.match(r"# (Megatron-LM|TorchTitan|transformers)\b", line):
                program = match[1]
                named.append(program)
            elif match := PATH.match(line):
                known[program] = known.get(program, []) + [match[1]]
        yield {program: known[program] for program in named if program in known}


def passes(check, names, paths):
    """Executes a block on a run, once for each program that has paths. All programs must give the same."""
    names = dict(names)
    layers = layers_of(names.pop("block")) if "block" in names else {}
    results = set()
    for program, lines in paths.items() or [(None, [])]:
        scope = {"torch": torch, "F": F, **names}
        exec("\n".join(lines), scope | {"layer": layers.get(program)}, scope)
        try:
            exec(check, scope)
            results.add(True)
        except AssertionError:
            results.add(False)
    if len(results) != 1:
        sys.exit("not the same in all programs:\n" + check)
    return results.pop()


def settings(values, prefix=""):
    for key, value in values.items():
        if isinstance(value, dict):
            yield from settings(value, prefix + key + ".")
        else:
            yield "--set=%s%s=%s" % (prefix, key, str(value).lower() if isinstance(value, bool) else value)


def status(cli, exhibit, twin, options, folder):
    """Returns the exit status of `moescope-cli check` on the log of a run of an exhibit."""
    runs, log = exhibit["runs"], os.path.join(folder, "log.jsonl")
    steps = exhibit["step"][0]["do"][-1]["run_until"]
    subprocess.run([cli, "train", "--preset", runs["preset"], "--steps", str(steps), "--jsonl", log, "--overwrite",
                    *settings(runs["set"]), *settings(twin)], check=True, stdout=subprocess.DEVNULL)
    return subprocess.run([cli, "check", log, *options], stdout=subprocess.DEVNULL).returncode


def main():
    torch.set_num_threads(1)
    cli, failed, seen = sys.argv[1], 0, set()
    with open(os.path.join(HERE, "..", "data", "faulty_trainings", "expected.json")) as file:
        in_logs = {name: expected["finding"] for name, expected in json.load(file).items() if "finding" in expected}
    for path in EXHIBIT_FILES:
        with open(path, "rb") as file:
            exhibit = tomllib.load(file)
        name = os.path.basename(path)[3:-5]
        names, both, wrongs = EXHIBITS[name]
        seen.add(name)
        reveal = exhibit["step"][0]["reveal"]
        checks = [block for block in blocks_of(reveal, "python") if "assert " in block]
        paths = list(paths_of(checks))
        results = [[passes(check, names(tiny.Setup(**{**both, **fault})), of_check)
                    for check, of_check in zip(checks, paths)] for fault in [{}, *wrongs]]
        right, wrong = results[0], results[1:]
        # Each wrong run fails a check, and each check fails in a wrong run.
        ok = bool(checks) and all(right) and not any(map(all, wrong)) and not any(map(all, zip(*wrong)))
        print("%s %s: right run %s, wrong runs %s" % ("ok  " if ok else "FAIL", name, right, wrong))
        failed += not ok
        commands = [block.replace("\\\n", "").split() for block in blocks_of(reveal, "sh")]
        for options in (" ".join(words[3:]) for words in commands if words[:3] == ["moescope-cli", "check", "LOG"]):
            if name in in_logs:
                continue  # test_exhibits compares the finding's name
            with tempfile.TemporaryDirectory() as folder:
                ends = [status(cli, exhibit, twin, options.split(), folder)
                        for twin in ({}, exhibit["runs"]["run"][0]["set"])]
            failed += ends != [0, 1]
            print("     moescope-cli check: status %d of the right run, %d of the wrong run" % tuple(ends))
    if seen != set(EXHIBITS):
        sys.exit("no exhibit: %s" % ", ".join(set(EXHIBITS) - seen))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
