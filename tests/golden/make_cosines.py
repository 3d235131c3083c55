#!/usr/bin/env python3
"""Writes FOLDER/cosines.safetensors: for texts of FOLDER/expected.safetensors the cosine of the outputs of each pair of
experts for the same token, mean over the tokens, as TEXT.cosine.LAYER [E, E] F32. FOLDER has a deepseek_v3 model with
plain queries and one group. The pass uses only NumPy, in FP64, and must give the losses and the experts of
transformers.

    make_cosines.py FOLDER TEXT ...
"""
import json
import pathlib
import struct
import sys

import numpy as np

folder, texts = pathlib.Path(sys.argv[1]), sys.argv[2:]


def read(path):
    data = path.read_bytes()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    for name, tensor in json.loads(data[8:start]).items():
        if name == "__metadata__":
            continue
        piece = data[start + tensor["data_offsets"][0]:start + tensor["data_offsets"][1]]
        if tensor["dtype"] == "BF16":
            values = (np.frombuffer(piece, "<u2").astype("<u4") << 16).view("<f4").astype(float)
        else:
            values = np.frombuffer(piece, {"F32": "<f4", "I64": "<i8"}[tensor["dtype"]])
        yield name, values.reshape(tensor["shape"])


weights = {name: values for path in folder.glob("model*.safetensors") for name, values in read(path)}
expected = dict(read(folder / "expected.safetensors"))
config = json.loads((folder / "config.json").read_text())
heads, nope, rope = config["num_attention_heads"], config["qk_nope_head_dim"], config["qk_rope_head_dim"]
rank, experts, top_k = config["kv_lora_rank"], config["n_routed_experts"], config["num_experts_per_tok"]


def linear(x, name):
    return x @ weights[name + ".weight"].T


def norm(x, name):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * weights[name + ".weight"]


def rotated(x):
    angle = np.arange(len(x))[:, None] * config["rope_parameters"]["rope_theta"] ** (-2 * np.arange(rope // 2) / rope)
    pairs = (x[:, 0::2] + 1j * x[:, 1::2]) * np.exp(1j * angle)
    return np.stack([pairs.real, pairs.imag], -1).reshape(x.shape)


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def attention(h, name):
    low = linear(h, name + "kv_a_proj_with_mqa")
    kv = linear(norm(low[:, :rank], name + "kv_a_layernorm"), name + "kv_b_proj").reshape(len(h), heads, -1)
    q, shared = linear(h, name + "q_proj").reshape(len(h), heads, -1), rotated(low[:, rank:])
    outputs = []
    for i in range(heads):
        scores = q[:, i, :nope] @ kv[:, i, :nope].T + rotated(q[:, i, nope:]) @ shared.T
        visible = np.tri(len(h), dtype=bool)
        outputs.append(softmax(np.where(visible, scores / np.sqrt(nope + rope), -np.inf)) @ kv[:, i, nope:])
    return linear(np.concatenate(outputs, 1), name + "o_proj")


def feed_forward(h, name):
    gate = linear(h, name + "gate_proj")
    return linear(gate / (1 + np.exp(-gate)) * linear(h, name + "up_proj"), name + "down_proj")


def cosines(text):
    ids = expected[text + ".input_ids"]
    x = weights["model.embed_tokens.weight"][ids]
    for layer in range(config["num_hidden_layers"]):
        name = f"model.layers.{layer}."
        x = x + attention(norm(x, name + "input_layernorm"), name + "self_attn.")
        h = norm(x, name + "post_attention_layernorm")
        if layer < config["first_k_dense_replace"]:
            x = x + feed_forward(h, name + "mlp.")
            continue
        outputs = np.stack([feed_forward(h, f"{name}mlp.experts.{e}.") for e in range(experts)], 1)
        score = 1 / (1 + np.exp(-linear(h, name + "mlp.gate")))
        chosen = np.argsort(-score - weights[name + "mlp.gate.e_score_correction_bias"])[:, :top_k]
        assert (np.sort(chosen) == np.sort(expected[f"{text}.topk_index.{layer}"])).all()
        mix = np.take_along_axis(score, chosen, 1)
        mix *= config["routed_scaling_factor"] / mix.sum(1, keepdims=True)
        mixed = (mix[..., None] * np.take_along_axis(outputs, chosen[..., None], 1)).sum(1)
        x = x + mixed + feed_forward(h, name + "mlp.shared_experts.")
        unit = outputs / np.linalg.norm(outputs, axis=-1, keepdims=True)
        yield f"{text}.cosine.{layer}", np.einsum("tid,tjd->ij", unit, unit) / len(ids)
    probability = softmax(linear(norm(x, "model.norm"), "lm_head"))[np.arange(len(ids) - 1), ids[1:]]
    assert abs(-np.log(probability).mean() - expected[text + ".loss"][0]) < 1e-5


header, values = {}, b""
for text in texts:
    for name, matrix in cosines(text):
        piece = matrix.astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": matrix.shape, "data_offsets": [len(values), len(values) + len(piece)]}
        values += piece
head = json.dumps(header).encode()
(folder / "cosines.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + values)
