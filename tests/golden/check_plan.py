#!/usr/bin/env python3
"""Compares format plans with transformers. Usage: check_plan.py MOESCOPE_CLI [BITS...]

Makes plans for the trained checkpoint of checkpoints/trained.tar.xz, rounds the weights as each plan's config of
compressed-tensors says with a rounding of its own, lets transformers load the result, and compares the loss in FP32 and its
change with those of the plan. Parses the configs of Model-Optimizer and, where it is installed, of torchao. Needs PyTorch,
transformers 5 and PyYAML. Exit status: 1 if something differs.
"""

import glob
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

import torch
import yaml
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

LENGTH, PIECES = 128, 14
E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def to_e2m1(values):
    magnitude = values.abs().clamp(max=6)
    middles = (E2M1[1:] + E2M1[:-1]) / 2
    code = torch.bucketize(magnitude, middles)  # a value in the middle goes down
    to_even = (code < 7) & (magnitude == middles[code.clamp(max=6)]) & (code % 2 == 1)
    return values.sign() * E2M1[torch.where(to_even, code + 1, code)]


def to_e4m3(values):
    return values.clamp(-448, 448).to(torch.float8_e4m3fn).float()


def blocks(weight, size):
    return torch.nn.functional.pad(weight, (0, -weight.shape[1] % size)).reshape(weight.shape[0], -1, size)


def mx(weight, largest, element):
    block = blocks(weight, 32)
    amax = block.abs().amax(-1, keepdim=True)
    scale = torch.where(amax > 0, 2.0 ** torch.ceil(torch.log2(amax.double() / largest)), 1).float()
    return (element(block / scale) * scale).reshape(weight.shape[0], -1)[:, :weight.shape[1]]


def nvfp4(weight):
    block = blocks(weight, 16)
    tensor_scale = weight.abs().max() / (448 * 6)
    scale = to_e4m3((block.abs().amax(-1, keepdim=True) / 6 / tensor_scale).clamp(min=2**-6)) * tensor_scale
    return (to_e2m1(block / scale) * scale).reshape(weight.shape[0], -1)[:, :weight.shape[1]]


ROUNDINGS = {
    "mxfp4": (4.25, lambda w: mx(w, 6, to_e2m1)),
    "nvfp4": (4.5, nvfp4),
    "mxfp8_rceil": (8.25, lambda w: mx(w, 448, to_e4m3)),
    "bf16": (16, lambda w: w.to(torch.bfloat16).float()),
}


def judged_pieces(texts):
    """The pieces by which moescope-cli judges a plan: every second one, of alternating texts."""
    pieces = []
    for first in range(0, max(map(len, texts)), LENGTH):
        pieces += [text[first:first + LENGTH] for text in texts if len(text) > first + 1]
    return pieces[:PIECES][1::2]


def losses(folder, pieces):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        logits = [model(torch.tensor([piece])).logits[0, :-1].double() for piece in pieces]
    return [torch.nn.functional.cross_entropy(part, torch.tensor(piece[1:])).item() for part, piece in zip(logits, pieces)]


def matches(target, module):
    return bool(re.match(target[3:], module)) if target.startswith("re:") else target == module


def rounded_tensors(tensors, config):
    """Rounds each weight by the one target that names it; returns the tensors and the bits per weight."""
    targets = [(name, target) for name, group in config["config_groups"].items() for target in group["targets"]]
    targets += [("bf16", target) for target in config["ignore"]]
    result, bits, count = {}, 0, 0
    for name, weight in tensors.items():
        formats = [form for form, target in targets if matches(target, name.removesuffix(".weight"))]
        expected = 0 if weight.dim() < 2 or "embed_tokens" in name else 1
        assert len(formats) == expected, (name, formats)
        result[name] = weight.float().contiguous()
        if formats:
            bits_per_weight, rounding = ROUNDINGS[formats[0]]
            result[name] = rounding(weight.float()).contiguous()
            bits += bits_per_weight * weight.numel()
            count += weight.numel()
    return result, bits / count


def parse_other_configs(plan):
    entries = yaml.safe_load(plan["modelopt"])["quant_cfg"]
    assert all(-1 in entry["cfg"]["block_sizes"] for entry in entries[1:])
    try:
        from torchao.core.config import config_from_dict
    except ImportError:
        return "torchao is not installed"
    config = config_from_dict(plan["torchao"]["quant_type"]["default"])
    return f"torchao reads {len(config.fqn_to_config)} entries"


def main():
    cli, *budgets = sys.argv[1:]
    differs = False
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(pathlib.Path(__file__).parent / "checkpoints/trained.tar.xz") as archive:
            archive.extractall(folder, filter="data")
        model = os.path.dirname(glob.glob(f"{folder}/**/config.json", recursive=True)[0])
        expected = load_file(f"{model}/expected.safetensors")
        ids = {key.split(".")[0]: value.tolist() for key, value in sorted(expected.items()) if key.endswith("input_ids")}
        sources = []
        for domain, tokens in ids.items():
            pathlib.Path(folder, f"{domain}.txt").write_text(" ".join(map(str, tokens)))
            sources += ["--ids", f"{folder}/{domain}.txt"]
        pieces = judged_pieces(list(ids.values()))
        tensors = {}
        for file in glob.glob(f"{model}/model*.safetensors"):
            tensors.update(load_file(file))
        exact = losses(model, pieces)
        for bits in budgets or ["4.4", "5", "6.5"]:
            path = f"{folder}/{bits}.json"
            subprocess.run([cli, "run", model, *sources, "--length", str(LENGTH), "--twin-pieces", str(PIECES), "--quiet",
                            "--plan-bits", bits, "--write-plan", path], check=True)
            plan = json.load(open(path))
            rounded, bits_per_weight = rounded_tensors(tensors, plan["compressed_tensors"])
            os.makedirs(f"{folder}/rounded", exist_ok=True)
            shutil.copy(f"{model}/config.json", f"{folder}/rounded")
            save_file(rounded, f"{folder}/rounded/model.safetensors", {"format": "pt"})
            change = (sum(losses(f"{folder}/rounded", pieces)) - sum(exact)) / len(pieces)
            figures = plan["plan"]
            planned, interval = figures["effect"]["loss_change"]
            print(f"{bits} bits: {bits_per_weight:.4f} per weight, plan {figures['bits_per_weight']:.4f}; loss "
                  f"{sum(exact) / len(pieces):.5f}, plan {figures['loss_fp32']:.5f}; change {change:.5f}, plan {planned:.5f} "
                  f"+- {interval:.5f}; {parse_other_configs(plan)}")
            differs |= abs(bits_per_weight - figures["bits_per_weight"]) > 1e-9
            differs |= abs(sum(exact) / len(pieces) - figures["loss_fp32"]) > 1e-4
            differs |= abs(change - planned) > 2e-4 + 0.02 * abs(planned)
    sys.exit(int(differs))


if __name__ == "__main__":
    main()
