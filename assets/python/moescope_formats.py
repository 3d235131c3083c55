"""Statistics of low-precision operands, computed where the tensors are, with plain PyTorch (1.13 or later).

MoeLog.log_blocks() uses this file; it can be used alone:

    from moescope_formats import Sums, format_named, quantize
    sums = Sums(weight.device)
    decoded = quantize(weight.float(), format_named("mxfp8_e4m3"), sums)    # blocks along the last axis
    print(sums.figures(sums.values.tolist()))

The names of formats are those of `moescope-cli quantize`, and the rules are the same, bit for bit: codes, scales,
decoded values and counts are equal (tests/python/check_blocks.py). Sums of squares are added in another order, so that
the SQNR agrees to about 1e-4 dB.

    bf16
    mxfp8_e4m3 mxfp8_e5m2 mxfp6_e3m2 mxfp6_e2m3 mxfp4_e2m1 mxint8, and _floor _rceil _even _ceil; without: rceil
    nvfp4 (divided scales)  nvfp4_te (TransformerEngine)  nvfp4_ao (torchao)  nvfp4_ao1 (torchao, no tensor scale)
    fp8_e4m3_SHARE fp8_e5m2_SHARE  one FP32 scale for SHARE: tensor row 1x128 128x128
"""

import functools
import math

import torch

_LARGEST = 3.4028234663852886e38
_HEAD = ("amax", "x2", "q2", "err2", "elements", "nonzero", "underflow", "clipped", "blocks", "clipped_blocks", "crest",
         "crest_blocks")  # of Sums.values, before the 256 counts of blocks by scale


class Element:
    """A format of single values: bits of exponent and mantissa, exponents of the largest and the least normal value."""

    def __init__(self, exponent_bits, mantissa_bits, top, least, largest):
        self.exponent_bits, self.mantissa_bits, self.top, self.largest = exponent_bits, mantissa_bits, top, largest
        self.least_bits = (least + 127) << 23
        self.magic = (23 - mantissa_bits) << 23


ELEMENTS = {
    "e4m3": Element(4, 3, 8, -6, 448.0), "e5m2": Element(5, 2, 15, -14, 57344.0), "e3m2": Element(3, 2, 4, -2, 28.0),
    "e2m3": Element(2, 3, 2, 0, 7.5), "e2m1": Element(2, 1, 2, 0, 6.0), "int8": Element(0, 6, 0, 0, 127.0 / 64),
}
_MX_NAMES = {"mxfp8_e4m3": "e4m3", "mxfp8_e5m2": "e5m2", "mxfp6_e3m2": "e3m2", "mxfp6_e2m3": "e2m3",
             "mxfp4_e2m1": "e2m1", "mxint8": "int8"}
_RULES = ("floor", "rceil", "even", "ceil")
_NVFP4_NAMES = {"nvfp4": "divided", "nvfp4_te": "transformer_engine", "nvfp4_ao": "torchao",
                "nvfp4_ao1": "torchao_one_level"}
_SHARES = ("tensor", "row", "1x128", "128x128")


class Format:
    """scheme: "bf16", "mx", "nvfp4" or "fp8"; rule: of the scales; share: values that share an FP8 scale."""

    def __init__(self, name, scheme, element=None, rule=None, share=None):
        self.name, self.scheme, self.rule, self.share = name, scheme, rule, share
        self.element = ELEMENTS.get(element)
        self.block = {"bf16": 0, "mx": 32, "nvfp4": 16, "fp8": 128}[scheme]
        self.has_tensor_scale = share == "tensor" or (scheme == "nvfp4" and rule != "torchao_one_level")


def format_named(name):
    """Returns the Format; raises ValueError with the allowed names."""
    name = str(name)
    if name == "bf16":
        return Format(name, "bf16")
    if name in _NVFP4_NAMES:
        return Format(name, "nvfp4", "e2m1", _NVFP4_NAMES[name])
    base, _, rule = name.rpartition("_")
    if name in _MX_NAMES:
        base, rule = name, "rceil"
    if base in _MX_NAMES and rule in _RULES:
        return Format("%s_%s" % (base, rule), "mx", _MX_NAMES[base], rule)
    parts = name.split("_")
    if len(parts) == 3 and parts[0] == "fp8" and parts[1] in ("e4m3", "e5m2") and parts[2] in _SHARES:
        return Format(name, "fp8", parts[1], share=parts[2])
    raise ValueError("format %r: allowed are bf16; %s with _floor, _rceil, _even or _ceil; %s; fp8_e4m3_SHARE and "
                     "fp8_e5m2_SHARE with SHARE of %s" % (name, ", ".join(_MX_NAMES), ", ".join(_NVFP4_NAMES),
                                                         ", ".join(_SHARES)))


# Rounding and scales. All in float32, in the order of operations of core/numerics.


def _bits(values):
    return values.view(torch.int32)


def _floats(bits):
    return bits.to(torch.int32).view(torch.float32)


def _ratio(dividend, divisor):
    """Divides, one of them a number. PyTorch multiplies by the reciprocal where a number is not a tensor on the device."""
    tensor = dividend if isinstance(dividend, torch.Tensor) else divisor
    as_tensor = [value if isinstance(value, torch.Tensor) else torch.full((), value, dtype=tensor.dtype,
                                                                          device=tensor.device)
                 for value in (dividend, divisor)]
    return as_tensor[0] / as_tensor[1]


def _power(code):
    """Returns 2^(code - 127) for codes 0 to 254."""
    return _floats(torch.where(code == 0, torch.full_like(code, 0x00400000), code << 23))


def _rounded(magnitude, element):
    """Rounds magnitudes to the nearest value of the format, ties to even, saturating."""
    held = magnitude.clamp(max=2 * element.largest)
    magic = _floats((_bits(held) & 0x7F800000).clamp(min=element.least_bits) + element.magic)
    return ((held + magic) - magic).clamp(max=element.largest)


def scale_codes(amax, element, rule):
    """Returns the E8M0 codes of MX blocks from their largest magnitudes, as int32; 255: not finite."""
    half_unit = 1 << (22 - element.mantissa_bits)
    carry, subnormal_carry, subtract, overflow = {
        "floor": (0, 0, element.top, 255), "ceil": (0x7FFFFF, 0x7FFFFF, element.top, 256),
        "even": (half_unit, half_unit, element.top, 255), "rceil": (0x7FFFFF, 0x3FFFFF, 0, 255)}[rule]
    scaled = amax
    if rule == "rceil":
        scaled = amax * _ratio(torch.ones((), device=amax.device), element.largest)
    bits = _bits(scaled).long()
    carried = bits + torch.where(bits < 0x00800000, torch.full_like(bits, subnormal_carry),
                                 torch.full_like(bits, carry))
    exponent = carried >> 23
    finite = torch.isfinite(amax) & (exponent < overflow)
    return torch.where(finite, (exponent - subtract).clamp(0, 254), torch.full_like(exponent, 255)).int()


class _Scales:
    """Scales of blocks: `divide`: values are divided by `decode` instead of multiplied by `encode`. exponent: index in
    the counts of blocks by scale, 255: not finite."""

    def __init__(self, encode, decode, exponent, limit, divide=False):
        self.encode, self.decode, self.exponent, self.limit, self.divide = encode, decode, exponent, limit, divide
        self.amax = None  # [blocks, 1] largest magnitudes

    def scaled(self, magnitude):
        return magnitude / self.decode if self.divide else magnitude * self.encode


def _mx_scales(form, amax):
    code = scale_codes(amax, form.element, form.rule)
    held = code.clamp(max=254)
    return _Scales(_power(254 - held), _power(held), code, form.element.largest)


def _fp8_scales(form, amax):
    finite = torch.isfinite(amax)
    held = torch.where(finite, amax, torch.ones_like(amax)).clamp(min=torch.tensor(1e-12, dtype=torch.float32).item())
    encode = _ratio(form.element.largest, held.double()).float()
    decode = _ratio(1.0, encode)
    exponent = torch.where(finite, _bits(decode) >> 23, torch.full_like(_bits(decode), 255))
    return _Scales(encode, decode, exponent, form.element.largest * (1 + 2.0 ** -20))


def _e4m3(scale):
    return _rounded(scale, ELEMENTS["e4m3"])


def _nvfp4_scales(form, amax, tensor_amax):
    least, most, divide, limit = 2.0 ** -6, 448.0, False, 6.0 * (1 + 2.0 ** -20)
    six_of_448 = 6.0 * 448.0
    finite = torch.isfinite(amax)
    if form.has_tensor_scale:
        finite = finite & torch.isfinite(tensor_amax)
        tensor_amax = torch.where(torch.isfinite(tensor_amax), tensor_amax, torch.ones_like(tensor_amax))
    amax = torch.where(finite, amax, torch.ones_like(amax))
    if form.rule == "divided":
        tensor = _ratio(tensor_amax, six_of_448).clamp(min=2.0 ** -120)
        decode = tensor * _e4m3((_ratio(amax, 6.0) / tensor).clamp(least, most))
        encode, divide, limit = decode, True, 6.0
    elif form.rule == "transformer_engine":
        tensor = _ratio(six_of_448, tensor_amax).clamp(max=_LARGEST)
        sixth = _ratio(torch.ones((), device=amax.device), 6.0)
        s = _e4m3(amax * (tensor * sixth))
        reciprocal = _ratio(1.0, s * _ratio(1.0, tensor)).clamp(max=_LARGEST)
        encode = torch.where(s == 0, torch.zeros_like(s), reciprocal)
        decode = (s.double() * _ratio(tensor_amax.double(), six_of_448)).float()
    else:
        tensor = torch.ones_like(amax)
        if form.rule == "torchao":
            tensor = torch.where(tensor_amax == 0, torch.ones_like(tensor_amax), _ratio(tensor_amax, six_of_448))
        s = _e4m3((_ratio(amax, 6.0) / tensor).clamp(min=least))
        encode = _ratio(1.0, tensor) / s
        decode = (s.double() * tensor.double()).float()
    exponent = torch.where(finite, _bits(decode.contiguous()) >> 23, torch.full_like(_bits(decode.contiguous()), 255))
    return _Scales(encode, decode, exponent, limit, divide)


# Quantization.


class Sums:
    """Sums on the device from which the figures of an operand follow, as in core/numerics/block_quantize.h. With `count`
    they are of so many operands of one shape, which are quantized together, one below the other."""

    def __init__(self, device, count=None):
        exact = torch.float32 if torch.device(device).type == "mps" else torch.float64
        self.shape = () if count is None else (count,)
        self.values = torch.zeros(*self.shape, len(_HEAD) + 256, dtype=exact, device=device)

    def by_operand(self, values):
        """Returns the values as [..., values of an operand]."""
        return values.reshape(*self.shape, -1)

    def add(self, values):
        """Adds the sums of other values of the same operands, [..., 268]."""
        self.values[..., 1:] += values[..., 1:]
        self.values[..., 0] = torch.maximum(self.values[..., 0], values[..., 0])

    def _add_head(self, largest, added):
        """`largest`, `added`: of each operand, in the order of _HEAD."""
        wide = self.values.dtype
        self.values[..., 0] = torch.maximum(self.values[..., 0], largest.to(wide))
        self.values[..., 1:1 + len(added)] += torch.stack([value.to(wide) for value in added], -1)

    def add_blocks(self, blocks, scaled, rounded, decoded, scales, sizes):
        """blocks, scaled, rounded, decoded: magnitudes [blocks, values]; sizes: values of each block without padding;
        scales: [blocks, 1]."""
        finite = (scales.exponent != 255).reshape(-1)
        amax, wide = scales.amax.reshape(-1), self.values.dtype
        x2, q2, err2 = _squares(finite, amax, (blocks, decoded, blocks - decoded), wide)
        nonzero = blocks != 0
        above = scales.scaled(scales.amax).reshape(-1) > scales.limit
        measured = finite & (amax != 0)
        crest = torch.where(measured, amax.to(wide) / (x2 / sizes).sqrt(), torch.zeros_like(x2))
        added = [self.by_operand(value).sum(-1) for value in (
            x2, q2, err2, sizes, nonzero, nonzero & (rounded == 0) & finite[:, None],
            (scaled > scales.limit) & finite[:, None], torch.ones_like(finite), above & finite, crest, measured)]
        largest = self.by_operand(blocks.nan_to_num(0.0, 0.0, 0.0)).amax(-1)  # also in blocks that are not finite
        self._add_head(largest, added)
        self.count_scales(scales.exponent)

    def count_scales(self, exponents):
        codes = self.by_operand(exponents)[..., None]
        for part in codes.split(max(1, (1 << 18) // self.shape[0] if self.shape else 1 << 18), -2):
            same = part == torch.arange(256, device=codes.device, dtype=codes.dtype)
            self.values[..., len(_HEAD):] += same.sum(-2).to(self.values.dtype)

    def add_unscaled(self, x, q):
        """x, q: magnitudes before and after rounding, of a format without blocks."""
        wide = self.values.dtype
        finite = torch.isfinite(x)
        x = torch.where(finite, x, torch.zeros_like(x))
        largest = self.by_operand(x).amax(-1)
        q = torch.where(finite, q, torch.zeros_like(q)).to(wide)
        x = x.to(wide)
        self._add_head(largest, [self.by_operand(value).sum(-1) for value in (
            x * x, q * q, (x - q) ** 2, torch.ones_like(finite), (x != 0) | ~finite, (x != 0) & (q == 0))])

    def figures(self, values):
        """Returns the figures as keys of a `quants` row of the log. `values`: self.values on the host, as a list."""
        sums = dict(zip(_HEAD, values))

        def share(part, whole):
            return sums[part] / sums[whole] if sums[whole] else 0.0

        row = {"amax": sums["amax"]}
        all_nan = sums["x2"] == 0 and sums["nonzero"] > 0
        if sums["elements"] and not all_nan:
            exact = sums["err2"] == 0
            row["sqnr_db"] = math.inf if exact else 10 * math.log10(sums["x2"] / sums["err2"])
            row["relative_l2"] = 0.0 if exact else math.sqrt(sums["err2"] / sums["x2"])
            product = math.sqrt(sums["x2"]) * math.sqrt(sums["q2"])
            row["cosine"] = (sums["x2"] + sums["q2"] - sums["err2"]) / 2 / product if product else math.nan
            row["underflow"] = share("underflow", "nonzero")
            row["clipped"] = share("clipped", "elements")
        if sums["blocks"]:
            row["clipped_blocks"] = share("clipped_blocks", "blocks")
            row["crest"] = share("crest", "crest_blocks")
        counts = {str(code): int(count) for code, count in enumerate(values[len(_HEAD):]) if count}
        if counts:
            row["e8m0_blocks"] = counts
        return row


def _squares(finite, amax, matrices, wide):
    """Returns the sums of squares of the rows, [matrices, rows]; 0 for blocks that are not finite."""
    unit = _power((254 - (_bits(amax) >> 23)).clamp(0, 254))[:, None]  # so that no square is too large or too small
    norms = torch.stack([torch.linalg.vector_norm(matrix * unit, dim=1) for matrix in matrices]).to(wide)
    return ((norms / unit.reshape(-1).to(wide)) ** 2).masked_fill(~finite, 0)


def _blocked(matrix, block):
    """Returns [rows, blocks, block], padded with zeros."""
    rows, cols = matrix.shape
    missing = -cols % block
    padded = torch.nn.functional.pad(matrix, (0, missing)) if missing else matrix
    return padded.reshape(rows, -1, block)


def _lengths(length, block, device):
    """Returns the numbers of values of the blocks of a row, without padding."""
    return (length - torch.arange(0, length, block, device=device)).clamp(max=block)


def _sizes(form, rows, cols, device):
    """Returns the numbers of values of all blocks of a matrix, without padding."""
    if form.share == "128x128":
        return (_lengths(rows, 128, device)[:, None] * _lengths(cols, 128, device)).reshape(-1)
    return _lengths(cols, cols if form.share in ("row", "tensor") else form.block, device).repeat(rows)


def quantize(values, form, sums=None, tensor_amax=None):
    """Rounds a float32 matrix [rows, cols] to a format and decodes it again. Blocks run along rows of the matrix, whose
    last axis is the contracting dimension. `sums` gets the statistics. `tensor_amax`: [rows, 1] or one value, for
    formats with a scale for the tensor, if the matrix is a part of one. Elements are rounded to the nearest."""
    if values.numel() == 0:
        return values.clone()
    if form.scheme == "bf16":
        decoded = values.to(torch.bfloat16).to(torch.float32)
        if sums is not None:
            sums.add_unscaled(values.abs(), decoded.abs())
        return decoded
    blocks, scales = _in_blocks(values.abs(), form, tensor_amax)
    scaled = scales.scaled(blocks)
    rounded = _rounded(scaled, form.element)
    decoded = rounded * scales.decode
    if sums is not None:
        sums.add_blocks(blocks, scaled, rounded, decoded, scales, _sizes(form, *values.shape, values.device))
        if form.share == "tensor":
            _count_as_one_block(sums)
    decoded = torch.where(scales.exponent == 255, torch.full_like(decoded, math.nan), decoded)
    return _with_signs(_as_rows(decoded, values.shape, form), values, form)


def squared_errors(values, form, tensor_amax=None, count=None):
    """Returns [sum of squares, sum of squared errors] of what quantize() gives, which takes half the time of all
    statistics; with `count` as [count, 2] of so many operands."""
    sums = Sums(values.device, count)
    if form.scheme == "bf16":
        quantize(values, form, sums)
        return sums.values[..., [1, 3]]
    blocks, scales = _in_blocks(values.abs(), form, tensor_amax)
    error = blocks - _rounded(scales.scaled(blocks), form.element) * scales.decode
    squares = _squares((scales.exponent != 255).reshape(-1), scales.amax.reshape(-1), (blocks, error), sums.values.dtype)
    return torch.stack([sums.by_operand(square).sum(-1) for square in squares], -1)


def _in_blocks(magnitudes, form, tensor_amax):
    """Returns the magnitudes [blocks, values], padded with zeros, and their scales."""
    rows, cols = magnitudes.shape
    blocks = _blocked(magnitudes, cols if form.share in ("row", "tensor") else form.block)
    if form.share == "128x128":
        blocks = torch.nn.functional.pad(blocks, (0, 0, 0, 0, 0, -rows % 128))
        blocks = blocks.reshape(-1, 128, blocks.shape[1], 128).transpose(1, 2)
        blocks = blocks.reshape(-1, 128 * 128)
    else:
        blocks = blocks.reshape(-1, blocks.shape[2])
    amax = blocks.amax(1, keepdim=True)
    if form.has_tensor_scale:
        tensor_amax = amax.amax() if tensor_amax is None else tensor_amax
        tensor_amax = torch.as_tensor(tensor_amax, dtype=torch.float32, device=magnitudes.device).expand(rows, 1)
        tensor_amax = tensor_amax.repeat_interleave(len(blocks) // rows, 0)
    scales = _scales(form, amax, tensor_amax)
    scales.amax = amax
    return blocks, scales


def _as_rows(blocks, shape, form):
    """Undoes _in_blocks()."""
    rows, cols = shape
    if form.share == "128x128":
        high, wide = -(-rows // 128), -(-cols // 128)
        blocks = blocks.reshape(high, wide, 128, 128).transpose(1, 2).reshape(high * 128, -1)
    return blocks.reshape(blocks.shape[0] if form.share == "128x128" else rows, -1)[:rows, :cols]


def _scales(form, amax, tensor_amax):
    if form.scheme == "mx":
        return _mx_scales(form, amax)
    if form.scheme == "nvfp4":
        return _nvfp4_scales(form, amax, tensor_amax)
    return _fp8_scales(form, tensor_amax if form.share == "tensor" else amax)


def _count_as_one_block(sums):
    """A scale of the whole tensor makes the tensor one block."""
    sums.values[..., len(_HEAD):].clamp_(max=1)
    head = {name: sums.values[..., i] for i, name in enumerate(_HEAD)}
    for name in ("blocks", "clipped_blocks", "crest_blocks"):
        head[name].clamp_(max=1)
    crest = head["amax"] / (head["x2"] / head["elements"]).sqrt()
    head["crest"].copy_(torch.where(head["crest_blocks"] > 0, crest, torch.zeros_like(crest)))


def _with_signs(decoded, values, form):
    signed = torch.where(_bits(values) < 0, -decoded, decoded)
    return signed + 0.0 if form.element is ELEMENTS["int8"] else signed


# Tensors that torchao and TransformerEngine have quantized, from their own codes and scales.


@functools.lru_cache(maxsize=None)
def _table(element, device):
    """Returns the values of all codes of a format, [256]; codes that are not finite are NaN or infinity."""
    traits = ELEMENTS[element]
    bits = 1 + traits.exponent_bits + traits.mantissa_bits
    bias = 127 - (traits.least_bits >> 23) + 1
    values = []
    for code in range(256):
        low = code & ((1 << (bits - 1)) - 1)
        exponent, mantissa = low >> traits.mantissa_bits, low & ((1 << traits.mantissa_bits) - 1)
        fraction = mantissa / (1 << traits.mantissa_bits)
        value = math.ldexp(fraction + (exponent > 0), max(exponent, 1) - bias)
        if value > traits.largest:
            value = math.inf if element == "e5m2" and mantissa == 0 else math.nan
        values.append(-value if code >> (bits - 1) & 1 else value)
    return torch.tensor(values, dtype=torch.float32, device=device)


def _decoded(codes, element):
    return _table(element, codes.device)[codes.long()]


def _bytes(tensor):
    return tensor if tensor.dtype == torch.uint8 else tensor.view(torch.uint8)


def _unpacked(codes):
    """Two codes of four bits in each byte, the first in the low bits."""
    return torch.stack([codes & 15, codes >> 4], -1).reshape(*codes.shape[:-1], -1)


def _unswizzled(scales, rows, cols):
    """Undoes the order of scales that cuBLAS reads: tiles of 128 x 4, in each 32 rows of 4 x 4."""
    high, wide = -(-rows // 128), -(-cols // 4)
    tiles = scales.reshape(high, wide, 32, 4, 4).permute(0, 3, 2, 1, 4)
    return tiles.reshape(high * 128, wide * 4)


def _first(tensor, *names):
    return next((getattr(tensor, name) for name in names if getattr(tensor, name, None) is not None), None)


class Stored:
    """A tensor of codes and scales. decoded: float32 [rows, cols], blocks along the last axis; scales: float32 value of
    one unit of an element for each block; name: its format, "e4m3" alone where the scales are of no known rule."""

    def __init__(self, name, decoded, scales, block):
        self.name, self.decoded, self.scales, self.block = name, decoded, scales, block

    def row(self):
        """Returns sums that hold what codes and scales tell: largest value and scales. Errors are not known."""
        sums = Sums(self.decoded.device)
        finite = torch.where(torch.isfinite(self.decoded), self.decoded, torch.zeros_like(self.decoded))
        if finite.numel():
            sums.values[0] = finite.abs().amax().to(sums.values.dtype)
        scales = self.scales.float().contiguous()
        sums.count_scales(torch.where(torch.isfinite(scales), _bits(scales) >> 23, torch.full_like(_bits(scales), 255)))
        return sums


def stored(tensor):
    """Returns a Stored of a quantized tensor of torchao (MXTensor, NVFP4Tensor) or of TransformerEngine (MXFP8Tensor,
    NVFP4Tensor, Float8BlockwiseQTensor, Float8Tensor), rows and last axis as the tensor stores them; None for other
    tensors."""
    if getattr(tensor, "qdata", None) is not None:
        return _stored_by_torchao(tensor)
    if getattr(tensor, "_rowwise_data", None) is not None:
        return _stored_by_transformer_engine(tensor)
    if getattr(tensor, "_data", None) is not None and getattr(tensor, "_scale_inv", None) is not None:
        codes = _bytes(tensor._data)
        element = _element_of(tensor._fp8_dtype)
        scale = tensor._scale_inv.float().reshape(1)
        values = _decoded(codes.reshape(-1, codes.shape[-1]), element) * scale
        return Stored("fp8_%s_tensor" % element, values, scale, 128)
    return None


def _element_of(dtype):
    text = str(dtype).lower()
    return next((name for name in ELEMENTS if name in text), "e4m3")


def _stored_by_torchao(tensor):
    scales, codes = _first(tensor, "scale", "_scale_e8m0", "_scale_e4m3"), tensor.qdata
    block = int(_first(tensor, "block_size", "_block_size") or 32)
    if codes.dim() >= 2 and codes.stride(-2) < codes.stride(-1):  # transposed: blocks run down the columns
        codes, scales = codes.transpose(-2, -1), scales.transpose(-2, -1) if scales.dim() >= 2 else scales
    codes = _bytes(codes.contiguous())
    element = _element_of(_first(tensor, "elem_dtype", "_elem_dtype") or "e2m1")
    if element == "e2m1":
        codes = _unpacked(codes)
    elif element in ("e3m2", "e2m3") and bool(_first(tensor, "pack_fp6", "_pack_fp6")):
        raise ValueError("packed FP6 codes")
    codes = codes.reshape(-1, codes.shape[-1])
    rows, wide = codes.shape[0], codes.shape[1] // block
    scales = _bytes(scales.contiguous())
    swizzle = _first(tensor, "is_swizzled_scales", "_is_swizzled_scales", "swizzle_type")
    if swizzle is True or type(swizzle).__name__ == "Swizzle_32_4_4":
        scales = _unswizzled(scales, rows, wide)[:rows, :wide]
    scales = scales.reshape(rows, wide)
    if block == 16:
        one = _first(tensor, "per_tensor_scale", "_per_tensor_scale")
        units = _decoded(scales, "e4m3") * (1.0 if one is None else one.float().reshape(1))
        name = "nvfp4_ao1" if one is None else "nvfp4_ao"
    else:
        units = torch.where(scales == 255, torch.full(scales.shape, math.nan, device=scales.device),
                            _power(scales.int().clamp(max=254)))
        name = next(name for name, mx_element in _MX_NAMES.items() if mx_element == element)
        name = "%s_%s" % (name, "rceil") if block == 32 else element
    values = _decoded(codes, element) * units.repeat_interleave(block, 1)
    return Stored(name, values, units, block)


def _stored_by_transformer_engine(tensor):
    codes, scales = _bytes(tensor._rowwise_data), tensor._rowwise_scale_inv
    codes = codes.reshape(-1, codes.shape[-1])
    swizzled = bool(getattr(tensor, "_with_gemm_swizzled_scales", False))
    if hasattr(tensor, "_is_2D_scaled"):
        return _stored_in_blocks_of_128(codes, scales, tensor)
    if hasattr(tensor, "_fp4_dtype"):
        codes, block, element = _unpacked(codes), 16, "e2m1"
    else:
        block, element = 32, _element_of(tensor._fp8_dtype)
    rows, wide = codes.shape[0], -(-codes.shape[1] // block)
    scales = _bytes(scales)
    scales = (_unswizzled(scales, rows, wide) if swizzled else scales)[:rows, :wide]
    if block == 16:
        units = (_decoded(scales, "e4m3").double() * (tensor._amax_rowwise.double().reshape(-1, 1) / (6 * 448))).float()
        name = "nvfp4_te"
    else:
        units = torch.where(scales == 255, torch.full(scales.shape, math.nan, device=scales.device),
                            _power(scales.int().clamp(max=254)))
        name = "mxfp8_%s_rceil" % element
    values = _decoded(codes, element) * units.repeat_interleave(block, 1)[:, :codes.shape[1]]
    return Stored(name, values, units, block)


def _stored_in_blocks_of_128(codes, scales, tensor):
    rows, cols = codes.shape
    high, wide = -(-rows // 128), -(-cols // 128)
    if tensor._is_2D_scaled:
        units, share = scales[:high, :wide].float(), "128x128"
        row_units = units.repeat_interleave(128, 0)[:rows]
    else:
        units, share = scales[:wide, :rows].t().float(), "1x128"
        row_units = units
    element = _element_of(tensor._fp8_dtype)
    values = _decoded(codes, element) * row_units.repeat_interleave(128, 1)[:, :cols]
    return Stored("fp8_%s_%s" % (element, share), values, units, 128)
