#!/usr/bin/env python3
"""Tests `moescope-cli check` on the logs of faulty_trainings.py: it must find exactly the fault in expected.json in each
wrong log, and no fault in the right logs. Usage: check_faulty_logs.py MOESCOPE_CLI [FOLDER]; FOLDER has NAME-wrong.jsonl
and NAME-right.jsonl, or these files with .xz."""

import json
import lzma
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
FAULTS = {"no-gradient", "stale-bias", "flat-auxiliary", "unchanged-experts", "shared-excess"}


def findings(cli, path, folder):
    """Returns the kinds of faults that are found in a log."""
    if not os.path.exists(path):
        plain = os.path.join(folder, os.path.basename(path))
        with lzma.open(path + ".xz") as packed, open(plain, "wb") as log:
            log.write(packed.read())
        path = plain
    checked = subprocess.run([cli, "check", path, "--json"], capture_output=True, text=True)
    if checked.returncode not in (0, 1):
        sys.exit("%s: exit status %d: %s" % (path, checked.returncode, checked.stderr))
    return {finding["kind"] for finding in json.loads(checked.stdout)["runs"][0]["findings"]} & FAULTS


def main():
    cli, logs = sys.argv[1], sys.argv[2] if sys.argv[2:] else os.path.join(HERE, "..", "data", "faulty_trainings")
    with open(os.path.join(logs, "expected.json")) as file:
        pairs = json.load(file)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, expected in sorted(pairs.items()):
            for kind in ("wrong", "right"):
                wanted = {expected["finding"]} if kind == "wrong" and "finding" in expected else set()
                found = findings(cli, os.path.join(logs, "%s-%s.jsonl" % (name, kind)), folder)
                failed += found != wanted
                print("%s %s, %s: %s" % ("ok  " if found == wanted else "FAIL", name, kind, ", ".join(found) or "nothing"))
    if not pairs or not {each.get("finding") for each in pairs.values()} >= FAULTS:
        sys.exit("a kind of fault has no log")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
