#!/usr/bin/env python3
"""Makes a smaller copy of a reference file: leaves out the element-wise gradients of large tensors.

usage: reduce_gradients.py IN.safetensors OUT.safetensors --below BYTES [--also TEXT]

Keeps every tensor except first.grad.NAME of BYTES or more whose NAME does not contain TEXT. The norms,
first.grad_l2.NAME, are kept for all tensors.
"""
import argparse
import json
import struct


def read(path):
    with open(path, "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        return json.loads(f.read(size)), f.read()


def kept(name, bytes_used, below, also):
    if not name.startswith("first.grad."):
        return True
    return bytes_used < below or (also is not None and also in name)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input")
    parser.add_argument("output")
    parser.add_argument("--below", type=int, required=True)
    parser.add_argument("--also")
    args = parser.parse_args()
    header, data = read(args.input)
    out_header, out_data = {}, bytearray()
    for name, entry in header.items():
        if name == "__metadata__":
            out_header[name] = entry
            continue
        first, last = entry["data_offsets"]
        if kept(name, last - first, args.below, args.also):
            out_header[name] = dict(entry, data_offsets=[len(out_data), len(out_data) + last - first])
            out_data += data[first:last]
    text = json.dumps(out_header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(args.output, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + out_data)


if __name__ == "__main__":
    main()
