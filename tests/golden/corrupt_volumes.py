"""Changes one count or one chosen expert of a reference file at a time and verifies that the checker reports it.

  corrupt_volumes.py CHECKER FILE.safetensors
"""
import json
import os
import struct
import subprocess
import sys
import tempfile


def status(checker, data):
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "changed.safetensors"), "wb") as file:
            file.write(data)
        return subprocess.run([checker, folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode


def main():
    checker, path = sys.argv[1:]
    with open(path, "rb") as file:
        data = file.read()
    assert status(checker, data) == 0, "the file itself"
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    for name in ("topk_idx", "tokens_to_rank", "tokens_to_node", "tokens_to_expert"):
        begin, end = header[name]["data_offsets"]
        for at in (begin, (begin + end) // 2 & ~3):
            changed = bytearray(data)
            changed[8 + length + at] ^= 1  # the lowest bit of a little-endian number
            assert status(checker, changed) == 1, (name, at)
    assert status(checker, data[:-1]) == 2, "cut short"
    assert status(checker, b"") == 2, "empty"


main()
