"""Writes codes.safetensors, weights as codes and scales in the layouts of compressed-tensors, ModelOpt and DeepSeek-V4,
and codes_expected.safetensors, their decoded values, which are computed here from the definitions of the formats.

published_codes.safetensors and published_expected.safetensors are not written here. They are parts of checkpoints with
random weights in the layouts of DeepSeek-V3 (FP8 in tiles) and gpt-oss (MXFP4), and the values that transformers 5.17
decodes from them: model.layers.0.mlp.* of [64, 160] and [160, 64], and two experts' down_proj, [expert, in, out].
"""
import json
import os
import struct

import numpy as np

FOLDER = os.path.dirname(os.path.abspath(__file__)) + "/"
RANDOM = np.random.default_rng(7)


def minifloat(code, exponent_bits, mantissa_bits, bias):
    sign = -1.0 if code >> (exponent_bits + mantissa_bits) else 1.0
    exponent = code >> mantissa_bits & ((1 << exponent_bits) - 1)
    mantissa = code & ((1 << mantissa_bits) - 1)
    if exponent == 0:
        return sign * mantissa * 2.0 ** (1 - bias - mantissa_bits)
    return sign * (1 + mantissa / 2**mantissa_bits) * 2.0 ** (exponent - bias)


E4M3 = np.array([minifloat(c, 4, 3, 7) for c in range(256)], "f4")
E2M1 = np.array([minifloat(c, 2, 1, 1) for c in range(16)], "f4")


def e4m3(*shape, low=0):
    codes = RANDOM.integers(low, 0x7F, shape, dtype="u1")  # 0x7F is NaN
    return codes | RANDOM.integers(0, 2, shape, dtype="u1") * 0x80 if low == 0 else codes


def nibbles(*shape):
    codes = RANDOM.integers(0, 16, shape, dtype="u1")
    return codes, codes[..., 0::2] | codes[..., 1::2] << 4


def power(scales):
    return np.ldexp(np.float32(1), scales.astype("i4") - 127)


def spread(scales, *times):
    for axis, count in enumerate(times):
        scales = np.repeat(scales, count, axis)
    return scales


def write(path, tensors):
    header, data = {}, b""
    for name, (dtype, shape, values) in tensors.items():
        raw = np.ascontiguousarray(values).tobytes()
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + data)


files, expected = {}, {}


def put(name, dtype, values, shape=None):
    files[name] = (dtype, shape or values.shape, values)


def expect(name, values):
    assert values.dtype == np.float32
    expected[name] = ("F32", values.shape, values)


def floats(*shape):
    return RANDOM.uniform(1e-3, 1e-2, shape).astype("f4")


codes, scale = e4m3(6, 64), floats(1)  # one scale per tensor: FP8 of ModelOpt
put("fp8_tensor.weight", "F8_E4M3", codes)
put("fp8_tensor.weight_scale", "F32", scale[0], ())
expect("fp8_tensor.weight", E4M3[codes] * scale)

codes, scale = e4m3(6, 64), floats(6, 1)  # one scale per row: FP8_DYNAMIC of compressed-tensors
put("fp8_rows.weight", "F8_E4M3", codes)
put("fp8_rows.weight_scale", "F32", scale)
expect("fp8_rows.weight", E4M3[codes] * scale)

codes, scale = e4m3(3, 4, 40), floats(3)  # one scale per expert of a stack
put("fp8_experts.weight", "F8_E4M3", codes)
put("fp8_experts.weight_scale", "F32", scale)
expect("fp8_experts.weight", E4M3[codes] * scale[:, None, None])

codes = e4m3(4, 300)  # one scale per 128 values of a row
scale = floats(4, 3)
put("fp8_groups.weight", "F8_E4M3", codes)
put("fp8_groups.weight_scale", "F32", scale)
expect("fp8_groups.weight", E4M3[codes] * spread(scale, 1, 128)[:, :300])

codes, scale = e4m3(140, 200), RANDOM.integers(110, 130, (2, 2), dtype="u1")  # one E8M0 scale per tile: DeepSeek-V4
put("fp8_tiles.weight", "F8_E4M3", codes)
put("fp8_tiles.scale", "F8_E8M0", scale)
expect("fp8_tiles.weight", E4M3[codes] * power(spread(scale, 128, 128)[:140, :200]))

codes, scale = e4m3(5, 96), RANDOM.integers(110, 130, (5, 3), dtype="u1")  # MXFP8
put("mxfp8.weight", "F8_E4M3", codes)
put("mxfp8.weight_scale", "U8", scale)
expect("mxfp8.weight", E4M3[codes] * power(spread(scale, 1, 32)))

codes, packed = nibbles(5, 96)  # MXFP4 in the packing of compressed-tensors
scale = RANDOM.integers(110, 130, (5, 3), dtype="u1")
put("mxfp4.weight_packed", "U8", packed)
put("mxfp4.weight_scale", "U8", scale)
expect("mxfp4.weight", E2M1[codes] * power(spread(scale, 1, 32)))

codes, packed = nibbles(2, 5, 96)  # MXFP4 of a stack of experts, in F4
scale = RANDOM.integers(110, 130, (2, 5, 3), dtype="u1")
put("f4.weight", "F4", packed, (2, 5, 96))
put("f4.scale", "F8_E8M0", scale)
expect("f4.weight", E2M1[codes] * power(spread(scale, 1, 1, 32)))

codes, packed = nibbles(5, 96)  # NVFP4 of ModelOpt: (scale * scale_2) * code
scale, second = e4m3(5, 6, low=1), floats(1)
put("nvfp4_modelopt.weight", "U8", packed)
put("nvfp4_modelopt.weight_scale", "F8_E4M3", scale)
put("nvfp4_modelopt.weight_scale_2", "F32", second[0], ())
put("nvfp4_modelopt.input_scale", "F32", second[0], ())
expect("nvfp4_modelopt.weight", E2M1[codes] * spread(E4M3[scale] * second, 1, 16))

codes, packed = nibbles(5, 96)  # NVFP4 of compressed-tensors: (scale / global) * code
scale, second = e4m3(5, 6, low=1), floats(1) * 1e5
put("nvfp4_compressed.weight_packed", "U8", packed)
put("nvfp4_compressed.weight_scale", "F8_E4M3", scale)
put("nvfp4_compressed.weight_global_scale", "F32", second.astype("f4"))
expect("nvfp4_compressed.weight", E2M1[codes] * spread(E4M3[scale] / second.astype("f4"), 1, 16))

codes, scale = RANDOM.integers(-127, 128, (6, 64), dtype="i1"), floats(6, 1)  # INT8 of compressed-tensors
put("int8.weight", "I8", codes)
put("int8.weight_scale", "F32", scale)
expect("int8.weight", codes.astype("f4") * scale)

# Codes without scales, in no known layout.
put("odd_shape.weight", "F8_E4M3", e4m3(6, 64))
put("odd_shape.weight_scale", "F32", floats(5, 7))
put("no_second.weight_packed", "U8", nibbles(5, 96)[1])
put("no_second.weight_scale", "F8_E4M3", e4m3(5, 6, low=1))
put("zero_point.weight", "F8_E4M3", e4m3(6, 64))
put("zero_point.weight_scale", "F32", floats(6, 1))
put("zero_point.weight_zero_point", "F32", floats(6, 1))
put("two_scales.weight", "F8_E4M3", e4m3(6, 64))
put("two_scales.weight_scale", "F32", floats(6, 1))
put("two_scales.weight_scale_inv", "F32", floats(6, 1))
put("gptq.qweight", "I32", RANDOM.integers(0, 1 << 30, (8, 16), dtype="i4"))
put("gptq.qzeros", "I32", RANDOM.integers(0, 1 << 30, (2, 2), dtype="i4"))
put("gptq.scales", "F32", floats(2, 16))
put("only_second.weight", "U8", nibbles(5, 96)[1])
put("only_second.weight_scale_2", "F32", floats(1)[0], ())
# Codes without scales, and a tensor with a name similar to that of scales.
put("bare.weight", "F8_E4M3", e4m3(6, 64))
put("logit_scale", "F32", floats(4))
write(FOLDER + "codes.safetensors", files)
write(FOLDER + "codes_expected.safetensors", expected)
