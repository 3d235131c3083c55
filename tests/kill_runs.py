#!/usr/bin/env python3
"""Kills trainings at random moments, half of them with checkpoints, and checks the files after each kill.

    kill_runs.py MOESCOPE-CLI [--runs 200] [--seed 1]

After each kill the recording must open and have every reported step from 0 on, except at most the last one, with finite
losses. If there are checkpoints, the training must resume from the newest one, and steps that are in both recordings must
have equal losses to the last digit.
"""
import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time


def losses(cli, recording, folder):
    """Returns the losses by step from the exported lines."""
    out = folder / "lines.jsonl"
    out.unlink(missing_ok=True)
    subprocess.run([cli, "export", recording, "--to", "jsonl", "-o", out], check=True, stdout=subprocess.DEVNULL)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    return {row["step"]: row["ce_loss"] for row in rows if "step" in row and "ce_loss" in row}


def reported_steps(lines):
    text = lines.read_text() if lines.exists() else ""
    whole = text[: text.rfind("\n") + 1].splitlines()
    return sum('"ce_loss"' in line for line in whole)


def kill_one(cli, folder, chance, with_checkpoints):
    recording, lines, kept = folder / "run.moescope", folder / "run.jsonl", folder / "kept"
    command = [cli, "train", "--preset", "nano", "--steps", "1000000", "--out", recording, "--jsonl", lines]
    if with_checkpoints:
        command += ["--checkpoint", kept, "--every", "2"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    give_up = time.monotonic() + 60
    while reported_steps(lines) < 3 and time.monotonic() < give_up and process.poll() is None:
        time.sleep(0.01)
    time.sleep(chance.random() * 0.5)
    reported = reported_steps(lines)
    process.kill()
    process.wait()
    found = losses(cli, recording, folder)
    assert sorted(found) == list(range(len(found))), f"steps have gaps: {sorted(found)[-5:]}"
    assert len(found) >= reported - 1, f"{reported} steps were reported, {len(found)} are recorded"
    assert all(isinstance(loss, float) and abs(loss) < 100 for loss in found.values()), "a loss is not a number"
    if with_checkpoints and kept.exists() and any(kept.iterdir()):
        go_on(cli, folder, kept, found)
        return "went on from its checkpoint"
    return "recording whole"


def go_on(cli, folder, kept, found):
    second = folder / "second.moescope"
    steps = len(found) + 2
    subprocess.run([cli, "train", "--resume", kept, "--steps", str(steps), "--out", second], check=True,
                   stdout=subprocess.DEVNULL)
    again = losses(cli, second, folder)
    assert max(again) == steps - 1, f"resumed up to step {max(again)} instead of {steps - 1}"
    for step in again.keys() & found.keys():
        assert again[step] == found[step], f"step {step}: {again[step]} after the resume, {found[step]} before"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cli", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance, outcomes = random.Random(options.seed), {}
    for run in range(options.runs):
        with tempfile.TemporaryDirectory(prefix="moescope_kill_") as folder:
            try:
                outcome = kill_one(os.path.abspath(options.cli), pathlib.Path(folder), chance, run % 2 == 1)
            except (AssertionError, subprocess.CalledProcessError, ValueError) as error:
                sys.exit(f"kill {run} of seed {options.seed}: {error}")
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    print(f"{options.runs} kills: " + ", ".join(f"{count} {what}" for what, count in sorted(outcomes.items())))


if __name__ == "__main__":
    main()
