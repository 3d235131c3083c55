#!/usr/bin/python3
"""Compares assets/python/moescope_formats.py with `moescope-cli quantize`: decoded values of MX to the bit, counts of all
formats exactly, sums of squares to 1e-4 dB.

    tests/python/check_blocks.py MOESCOPE_CLI
    tests/python/check_blocks.py --device cuda --write RESULTS.json     on a machine with a GPU, without the program
    tests/python/check_blocks.py MOESCOPE_CLI --results RESULTS.json    compares these results with the program

Exits with 77 if PyTorch or NumPy is not installed. Debian: python3-torch python3-numpy.
"""

import argparse
import hashlib
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile

try:
    import numpy
    import torch
except ImportError as error:
    print("skipped: %s (Debian: python3-torch python3-numpy)" % error)
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "assets" / "python"))
import moescope_blocks  # noqa: E402
import moescope_formats as blocks  # noqa: E402

MX = [name + rule for name in ("mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp4_e2m1", "mxint8")
      for rule in ("_floor", "_rceil", "_even", "_ceil")]
OTHERS = ["bf16", "nvfp4", "nvfp4_te", "nvfp4_ao", "nvfp4_ao1"] + [
    "fp8_%s_%s" % (element, share) for element in ("e4m3", "e5m2") for share in ("tensor", "row", "1x128", "128x128")]
EXACT = ("amax", "underflow", "clipped", "clipped_blocks")
failures = []


def expect(holds, text):
    if not holds:
        failures.append(text)
        print("FAILED: " + text)


def matrices():
    """Matrices whose values reach all branches of scales and rounding; the same on every machine."""
    draw = numpy.random.RandomState(7)

    def normal(rows, cols):
        return draw.standard_normal((rows, cols)).astype(numpy.float32)

    some = normal(96, 512)
    broken = normal(40, 160)
    broken[3, 5], broken[7, 64], broken[11, 159] = math.nan, math.inf, -math.inf
    extreme = normal(64, 256) * numpy.exp2(draw.randint(-140, 120, (64, 1))).astype(numpy.float32)
    return {"normal": some, "spread": some * numpy.exp2(draw.randint(-24, 24, some.shape)).astype(numpy.float32),
            "ties": draw.randint(-64, 65, (64, 256)).astype(numpy.float32) / 32, "extreme": extreme,
            "zeros": numpy.where(numpy.arange(96)[:, None] % 3 == 0, 0, some).astype(numpy.float32),
            "short": normal(70, 333), "not finite": broken}


def bits(values):
    """Returns a hash of float32 values, with one NaN for all."""
    values = numpy.where(numpy.isnan(values), numpy.float32(numpy.nan), values).astype("<f4")
    return hashlib.sha256(values.tobytes()).hexdigest()


def results_on(device):
    """Returns {format: {matrix: {"figures", "decoded"}}} as moescope_formats.py computes them on a device."""
    found = {}
    for form in map(blocks.format_named, MX + OTHERS):
        for name, matrix in matrices().items():
            sums = blocks.Sums(device)
            decoded = blocks.quantize(torch.from_numpy(matrix).to(device), form, sums)
            row = sums.figures(sums.values.tolist())
            found.setdefault(form.name, {})[name] = {"figures": row, "decoded": bits(decoded.cpu().numpy())}
    return {"device": device, "pytorch": torch.__version__, "formats": found}


def program(cli, *arguments):
    done = subprocess.run([cli, *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit("%s: %s" % (" ".join(arguments), done.stderr))
    return done.stdout


def read_safetensors(path):
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    kinds = {"U8": numpy.uint8, "F32": numpy.float32, "I32": numpy.int32}
    return {name: numpy.frombuffer(raw[8 + size:][entry["data_offsets"][0]:entry["data_offsets"][1]],
                                   kinds[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in json.loads(raw[8:8 + size]).items() if name != "__metadata__"}


def check_figures(name, form, row, expected):
    expect(row.get("e8m0_blocks", {}) == expected["e8m0_blocks"], "%s %s: counts of scales differ" % (name, form))
    for key in EXACT:
        have, want = row.get(key), expected.get(key)
        if have is not None and want is not None:
            expect(math.isclose(have, want, rel_tol=1e-9), "%s %s %s: %r, program %r" % (name, form, key, have, want))
    have, want = row.get("sqnr_db"), expected["sqnr_db"]
    if want is None:
        expect(have is None or math.isinf(have) == expected["exact"], "%s %s sqnr_db: %r" % (name, form, have))
    else:
        expect(abs(have - want) < 1e-4, "%s %s sqnr_db: %r, program %r" % (name, form, have, want))
    if expected.get("crest") is not None and "crest" in row:
        expect(math.isclose(row["crest"], expected["crest"], rel_tol=1e-5), "%s %s crest: %r, program %r" % (
            name, form, row["crest"], expected["crest"]))


def check_golden(device):
    """NVFP4 as the references of TransformerEngine and torchao computed it: decoded values to the bit, except the sign of
    zeros. tests/golden/nvfp4/README.md describes the data."""
    path = pathlib.Path(__file__).resolve().parents[1] / "golden" / "nvfp4" / "nvfp4.safetensors"
    data = read_safetensors(path)
    elements = numpy.array([0, 0.5, 1, 1.5, 2, 3, 4, 6] * 2, numpy.float32) * numpy.repeat([1, -1], 8).astype(numpy.float32)
    e4m3 = blocks._table("e4m3", torch.device("cpu")).numpy()
    compared = 0
    for key, form in (("1x16", "nvfp4_te"), ("ao1", "nvfp4_ao1"), ("ao2", "nvfp4_ao")):
        for name in [name[:-len(".input")] for name in data if name.endswith(".input")]:
            if name + "." + key + ".codes" not in data:
                continue
            values, codes = data[name + ".input"], data[name + "." + key + ".codes"]
            scales = e4m3[data[name + "." + key + ".scales"]][:values.shape[0]]
            amax = numpy.float32(numpy.abs(values).max())
            unit = 1.0 if key == "ao1" else numpy.float64(amax) / (6 * 448)
            if key == "ao2":
                unit = numpy.float64(amax / numpy.float32(6 * 448))
            units = (scales.astype(numpy.float64) * unit).astype(numpy.float32).repeat(16, 1)[:, :values.shape[1]]
            expected = elements[numpy.stack([codes & 15, codes >> 4], -1).reshape(len(codes), -1)] * units
            found = blocks.quantize(torch.from_numpy(values.copy()).to(device), blocks.format_named(form)).cpu().numpy()
            expect(numpy.array_equal(found, numpy.where(units == 0, 0, expected)), "golden %s %s" % (name, form))
            compared += 1
    expect(compared >= 20, "only %d cases of the golden data" % compared)


class StandIn:
    """A tensor with the attributes of a quantized tensor of another library."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)


def check_formats(cli, folder, formats):
    file, out = folder / "in.npz", folder / "out.safetensors"
    numpy.savez(file, **matrices())
    for form, of_form in formats.items():
        answer = json.loads(program(cli, "quantize", str(file), "--format", form, "--json"))
        expected = {tensor["name"]: tensor["figures"][0] for tensor in answer["tensors"]}
        stored = {}
        if form.startswith("mx"):
            base, _, rule = form.rpartition("_")
            program(cli, "quantize", str(file), "--format", base, "--scale", rule, "--out", str(out), "--overwrite")
            stored = read_safetensors(out)
        for name, result in of_form.items():
            check_figures(name, form, result["figures"], expected[name])
            if stored:
                expect(result["decoded"] == bits(stored[name + ".dequant"]), "%s %s: decoded values differ" % (name, form))
                check_codes(name, form, stored)


def check_codes(name, form, stored):
    """The program's codes and scales in torchao's layout decode to the program's values."""
    values = stored[name + ".dequant"]
    if form.startswith(("mxint8", "mxfp4")) or values.shape[1] % 32 or not numpy.isfinite(values).all():
        return
    tensor = StandIn(qdata=torch.from_numpy(stored[name + ".codes"].copy()),
                     scale=torch.from_numpy(stored[name + ".scales"].copy()), block_size=32, elem_dtype=form)
    expect(bits(blocks.stored(tensor).decoded.numpy()) == bits(values), "%s %s: decoded from codes" % (name, form))


def check_stand_ins():
    """Tensors of the layouts of torchao and TransformerEngine, made from codes and scales that quantize() gives."""
    draw = torch.Generator().manual_seed(3)
    values = torch.randn(256, 256, generator=draw)
    codes = torch.randint(0, 256, (256, 128), dtype=torch.uint8, generator=draw)
    scales = torch.randint(1, 120, (256, 16), dtype=torch.uint8, generator=draw)
    fp4 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0] + [-0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0])
    elements = torch.stack([fp4[(codes & 15).long()], fp4[(codes >> 4).long()]], -1).reshape(256, 256)
    units = blocks._table("e4m3", torch.device("cpu"))[scales.long()].repeat_interleave(16, 1)
    swizzled = scales.reshape(2, 4, 32, 4, 4).permute(0, 3, 2, 1, 4).reshape(-1)
    expected = elements * (units * 0.25)
    for name, tensor in {
            "torchao NVFP4": StandIn(qdata=codes, scale=scales, block_size=16, per_tensor_scale=torch.tensor(0.25)),
            "torchao NVFP4, swizzled": StandIn(qdata=codes, scale=swizzled, block_size=16, is_swizzled_scales=True,
                                               per_tensor_scale=torch.tensor(0.25)),
            "TransformerEngine NVFP4": StandIn(_rowwise_data=codes, _rowwise_scale_inv=scales, _fp4_dtype="kFloat4E2M1",
                                               _amax_rowwise=torch.tensor([0.25 * 6 * 448]))}.items():
        expect(torch.equal(blocks.stored(tensor).decoded, expected), name)
    bytes_ = torch.randint(0, 126, (256, 256), dtype=torch.uint8, generator=draw)
    units = torch.rand(2, 256, generator=draw)
    tensor = StandIn(_rowwise_data=bytes_, _rowwise_scale_inv=units, _is_2D_scaled=False, _fp8_dtype="DType.kFloat8E4M3")
    decoded = blocks._table("e4m3", torch.device("cpu"))[bytes_.long()]
    expect(torch.equal(blocks.stored(tensor).decoded, decoded * units.t().repeat_interleave(128, 1)), "blocks of 1x128")
    tensor = StandIn(_rowwise_data=bytes_, _rowwise_scale_inv=units[:, :2], _is_2D_scaled=True, _fp8_dtype="kFloat8E4M3")
    tiles = units[:, :2].repeat_interleave(128, 0).repeat_interleave(128, 1)
    expect(torch.equal(blocks.stored(tensor).decoded, decoded * tiles), "blocks of 128x128")
    expect(blocks.stored(values) is None, "a plain tensor is not quantized")


def check_log():
    """What BlockLog logs of a model with plain weights and with weights that are kept quantized, and what it refuses."""
    torch.manual_seed(5)
    model = torch.nn.ModuleDict({"layers": torch.nn.ModuleList(
        torch.nn.ModuleDict({"o_proj": torch.nn.Linear(64, 96), "k_proj": torch.nn.Linear(96, 64)}) for _ in range(2))})
    codes = torch.randint(0, 126, (96, 64), dtype=torch.uint8)
    scales = torch.full((96, 2), 120, dtype=torch.uint8)
    kept = model["layers"][1]["o_proj"].weight
    kept.qdata, kept.scale, kept.block_size, kept.elem_dtype = codes, scales, 32, "torch.float8_e4m3fn"
    warned = []
    options = dict(every=2, formats="mxfp8_e4m3", what_if=("nvfp4",), directions=("forward", "dgrad"), names=None,
                   most=1 << 22, samples=4, warn=lambda key, text: warned.append(text))
    log = moescope_blocks.BlockLog(model, "proj", **options)
    expect(any("layers.0.k_proj" in text for text in warned), "weights with unknown names are named: %s" % warned)
    for step in range(2):
        log.begin(step)
        x = torch.randn(32, 64)
        for layer in model["layers"]:
            x = layer["k_proj"](layer["o_proj"](x))
        x.sum().backward()
        rows, markers = log.take()
        expect(len(rows) == len(markers) == (7 if step == 0 else 0), "step %d: %d operands" % (step, len(rows)))
        for row in rows:
            if (row["layer"], row["operand"]) == (1, "W"):
                expect(row["format"] == "mxfp8_e4m3_rceil" and row["e8m0_blocks"] == {"120": 192} and "sqnr_db" not in row,
                       "a weight of codes: %s" % row)
                expect(row["amax"] == blocks._table("e4m3", torch.device("cpu"))[codes.long()].abs().max() * 2.0 ** -7,
                       "largest value of a weight of codes")
    for wrong in (dict(formats="mxfp9"), dict(formats={"X": "bf16"}), dict(formats=None), dict(formats={}), dict(every=0),
                  dict(every="2"), dict(every=2.5), dict(most=0), dict(samples=-1), dict(samples=None), dict(what_if=("fp8",)),
                  dict(what_if=(3,)), dict(directions=("back",)), dict(directions=()), dict(directions=None),
                  dict(names={"k_proj": "attn k"}), dict(names={3: "attention wo"}), dict(names=["k_proj"])):
        expect_refusal(model, "proj", {**options, **wrong})
    for modules in ("(proj", "nothing", None, ["proj"]):
        expect_refusal(model, modules, options)
    moescope_blocks.BlockLog(model, "proj", **{**options, "what_if": "nvfp4", "directions": "forward"}).close()
    check_compiled(model)


def check_compiled(model):
    """A model that torch.compile() wraps after the log began is found."""
    class Wrapper(torch.nn.Module):
        def __init__(self, wrapped):
            super().__init__()
            self._orig_mod = wrapped

    sys.modules.setdefault("torch._dynamo", sys)  # PyTorch before 2 has none
    expect(not moescope_blocks._is_compiled(model), "an eager model")
    wrapper = Wrapper(model)
    expect(moescope_blocks._is_compiled(model) and moescope_blocks._is_compiled(wrapper), "a wrapped model")
    expect(not moescope_blocks._is_compiled(model["layers"]), "a part of a wrapped model alone")


def expect_refusal(model, modules, options):
    try:
        moescope_blocks.BlockLog(model, modules, **options)
        expect(False, "%r with %s is not refused" % (modules, options))
    except ValueError as error:
        expect(str(error), "the refusal says nothing")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("cli", nargs="?")
    arguments.add_argument("--device", default="cpu")
    arguments.add_argument("--write")
    arguments.add_argument("--results")
    given = arguments.parse_args()
    if given.results:
        results = json.loads(pathlib.Path(given.results).read_text())
    else:
        results = results_on(given.device)
    if given.write:
        pathlib.Path(given.write).write_text(json.dumps(results))
    if given.cli:
        with tempfile.TemporaryDirectory() as folder:
            check_formats(given.cli, pathlib.Path(folder), results["formats"])
    check_stand_ins()
    check_golden(given.device)
    check_log()
    if failures:
        sys.exit("%d of the comparisons failed" % len(failures))
    print("all formats agree: %s, PyTorch %s" % (results["device"], results["pytorch"]))


if __name__ == "__main__":
    main()
