"""Writes the files torch2_* and ml_* and every_type.safetensors in this folder with PyTorch 2.11 (CPU), NumPy 2.5,
ml_dtypes 0.6 and safetensors 0.8. Every tensor that MoEScope has to read has the values of wave()."""
import os
import sys

import ml_dtypes
import numpy
import torch
from safetensors.torch import save_file

FOLDER = (sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))) + "/"


def wave(*shape, begin=0):
    """Returns distinct values that are exact in float32."""
    count = int(numpy.prod(shape))
    return (torch.arange(begin, begin + count, dtype=torch.float32) * 0.375 - 7).reshape(shape)


class Plain(torch.Tensor):
    """A tensor subclass that stores its values directly."""


class Wrapped(torch.Tensor):
    """A tensor subclass that computes its values from other tensors, like torchao's quantized tensors."""

    @staticmethod
    def __new__(cls, codes):
        return torch.Tensor._make_wrapper_subclass(cls, codes.shape, dtype=torch.float32)

    def __init__(self, codes):
        self.codes = codes

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), named=None):
        if function is torch.ops.aten.detach.default:
            return Wrapped(arguments[0].codes)
        return NotImplemented


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = torch.nn.Linear(4, 2)
        self.register_buffer("steps", torch.tensor(7))


base = wave(6, 8)
torch.save(
    {
        "transposed": base.t(),
        "permuted": wave(2, 3, 4).permute(2, 0, 1),
        "expanded": wave(1, 8).expand(5, 8),
        "slice": base[1:5:2, 2:6],
        "shared": base,
        "scalar": base[3, 4],
        "empty": torch.zeros(0, 3),
        "parameter": torch.nn.Parameter(wave(3, 4)),
        "buffer": torch.nn.Buffer(wave(3, 4)),
        "plain": wave(3, 4).as_subclass(Plain),
        "negated": torch.view_as_complex(wave(3, 2)).conj().imag,
        "complex": torch.complex(wave(3), wave(3)),
        "sparse": torch.eye(3).to_sparse(),
        "csr": torch.eye(3).to_sparse_csr(),
        "quantized": torch.quantize_per_tensor(wave(3, 4), 0.1, 0, torch.qint8),
        "nested": torch.nested.nested_tensor([wave(2), wave(3)]),
        "wrapped": Wrapped(wave(3, 4)),
        "meta": torch.empty(3, device="meta"),
        "half": wave(4, 4).half(),
        "bf16": wave(4, 4).bfloat16(),
        "e4m3": wave(4, 4).to(torch.float8_e4m3fn),
        "e5m2": wave(4, 4).to(torch.float8_e5m2),
        "e4m3fnuz": wave(4, 4).to(torch.float8_e4m3fnuz),
        "e8m0": torch.arange(120, 136, dtype=torch.uint8).view(torch.float8_e8m0fnu),
        "e2m1": torch.arange(0, 256, 3, dtype=torch.uint8)[:16].reshape(2, 8).view(torch.float4_e2m1fn_x2),
        "u16": torch.arange(4).to(torch.uint16),
        "numpy": numpy.ones((2, 2), "f4"),
        "float64": numpy.float64(2.31),
        "rng": torch.get_rng_state()[:16].clone(),
        "numpy_rng": numpy.random.RandomState(1).get_state(),
        "large": 13835058055282163713,
        "huge": 1 << 3000,
        "negative": -(1 << 70),
        "set": {1, 2},
        "dtype": torch.float32,
        "bytes": bytes(300),
        "bytearray": bytearray(20),
    },
    FOLDER + "torch2_many.pt",
)
torch.save({"a": base.t(), "b": base}, FOLDER + "torch2_legacy.pt", _use_new_zipfile_serialization=False)
torch.save({"a": base}, FOLDER + "torch2_protocol5.pt", pickle_protocol=5)
torch.serialization.set_crc32_options(False)
torch.save({"a": base}, FOLDER + "torch2_no_checksum.pt")
torch.serialization.set_crc32_options(True)
torch.manual_seed(1)
net = Net()
with torch.no_grad():
    net.gate.weight.copy_(wave(2, 4))
    net.gate.bias.copy_(wave(2))
torch.save(net, FOLDER + "torch2_module.pt")
torch.jit.save(torch.jit.script(net.gate), FOLDER + "torch2_script.pt")

os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="29511", RANK="0", WORLD_SIZE="1")
torch.distributed.init_process_group("gloo")
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

mesh = init_device_mesh("cpu", (1,))
part = DTensor.from_local(wave(2, 4), mesh, [Shard(0)], shape=torch.Size([4, 4]), stride=(4, 1))
torch.save({"whole": distribute_tensor(wave(3, 4), mesh, [Shard(0)]), "part": part}, FOLDER + "torch2_dtensor.pt")
torch.distributed.destroy_process_group()
save_file(
    {
        "f32": wave(3, 4),
        "bf16": wave(3, 4).bfloat16(),
        "c64": torch.complex(wave(4), wave(4)),
        "e4m3": wave(4, 4).to(torch.float8_e4m3fn),
        "e5m2": wave(4, 4).to(torch.float8_e5m2),
        "fnuz4": wave(4, 4).to(torch.float8_e4m3fnuz),
        "fnuz5": wave(4, 4).to(torch.float8_e5m2fnuz),
        "e8m0": torch.arange(256, dtype=torch.uint8).view(torch.float8_e8m0fnu),
        "f4": torch.arange(256, dtype=torch.uint8).reshape(16, 16).view(torch.float4_e2m1fn_x2),
        "bool": torch.tensor([True, False]),
        "u16": torch.arange(4).to(torch.uint16),
        "i64": torch.arange(4),
    },
    FOLDER + "every_type.safetensors",
)
array = numpy.abs((numpy.arange(24, dtype="f4") * 0.375 - 4).reshape(4, 6))
for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float8_e4m3fnuz"):
    numpy.save(FOLDER + "ml_" + name + ".npy", array.astype(getattr(ml_dtypes, name)))
print(torch.__version__, numpy.__version__)
