"""Writes the files in this folder with PyTorch 1.13 and NumPy 1.24."""
import argparse
import os

import numpy
import torch

FOLDER = os.path.dirname(os.path.abspath(__file__)) + "/"


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = torch.nn.Linear(4, 2)
        self.register_buffer("steps", torch.tensor(7))


torch.manual_seed(1)
a = torch.randn(3, 32)
ids = torch.arange(6, dtype=torch.int64).reshape(2, 3)
torch.manual_seed(2)
model = Model()
torch.save(
    {
        "model": model.state_dict(),
        "optimizer": {"state": {0: {"exp_avg": a.half()}}, "lr": 1e-3},
        "half": a.bfloat16(),
        "ids": ids,
        "part": a[1:],
        "list": [a[0].double(), ids.bool()],
        "epoch": 3,
    },
    FOLDER + "checkpoint.pt",
)
torch.save(a, FOLDER + "alone.pt")
torch.save({"turned": a.t()}, FOLDER + "turned.pt")
torch.save(model, FOLDER + "module.pt")
torch.save({"model": {"weight": a}, "args": argparse.Namespace(lr=1e-3, experts=8)}, FOLDER + "namespace.pt")
torch.save({"a": a}, FOLDER + "before_1_6.pt", _use_new_zipfile_serialization=False)
numpy.save(FOLDER + "values.npy", a.numpy())
numpy.save(FOLDER + "columns.npy", numpy.asfortranarray(a.numpy()))
numpy.save(FOLDER + "big_endian.npy", a.numpy().astype(">f4"))
numpy.save(FOLDER + "scalar.npy", numpy.float64(2.5))
numpy.save(FOLDER + "bytes.npy", numpy.arange(5, dtype="u1"))
numpy.savez(FOLDER + "stored.npz", a=a.numpy(), turned=a.numpy().T, text=numpy.array(["x"]), ids=ids.numpy())
numpy.savez_compressed(FOLDER + "packed.npz", a=a.numpy(), turned=a.numpy().T.astype(">f8"))
