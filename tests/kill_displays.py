#!/usr/bin/env python3
"""Kills the X server during trainings in the window and checks the state after each kill.

    kill_displays.py MOESCOPE [--runs 30] [--seed 1]

The program must exit by itself and without a signal, its recording must be closed and have every step, and the next
start must not treat it as a crash. Needs Xvfb; without Xvfb nothing is tested and the exit status is 77.
"""
import argparse
import os
import pathlib
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time


def start_server():
    reader, writer = os.pipe()
    server = subprocess.Popen(["Xvfb", "-displayfd", str(writer), "-screen", "0", "1280x800x24", "-nolisten", "tcp"],
                              pass_fds=[writer], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.close(writer)
    with os.fdopen(reader) as display:
        return server, ":" + display.readline().strip()


def steps_in(recordings):
    """Returns the number of steps in the newest recording; -1 if there is none."""
    found = sorted(recordings.glob("*.moescope"))
    if not found:
        return -1
    try:
        with sqlite3.connect(f"file:{found[-1]}?mode=ro", uri=True) as file:
            return file.execute("SELECT count(*) FROM frame").fetchone()[0]
    except sqlite3.Error:
        return -1


def kill_one(moescope, folder, chance):
    server, display = start_server()
    environment = dict(os.environ, DISPLAY=display, XDG_DATA_HOME=str(folder), XDG_CONFIG_HOME=str(folder),
                       XDG_CACHE_HOME=str(folder), XDG_RUNTIME_DIR=str(folder), QT_QPA_PLATFORM="xcb")
    recordings = folder / "moescope" / "recordings"
    program = subprocess.Popen([moescope, "--preset", "nano"], env=environment, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
    give_up = time.monotonic() + 120
    while steps_in(recordings) < 3 and program.poll() is None and time.monotonic() < give_up:
        time.sleep(0.1)
    time.sleep(chance.random() * 2)
    before = steps_in(recordings)
    server.kill()
    server.wait()
    try:
        _, errors = program.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        program.kill()
        raise AssertionError("the program did not end")
    assert before >= 3, f"nothing was trained: {errors}"
    assert program.returncode > 0, f"ended by signal {-program.returncode}: {errors}"
    recording = sorted(recordings.glob("*.moescope"))[-1]
    with sqlite3.connect(f"file:{recording}?immutable=1", uri=True) as file:
        state = file.execute("SELECT value FROM meta WHERE key = 'state'").fetchone()[0]
        steps = file.execute("SELECT count(*) FROM frame").fetchone()[0]
    assert state == "closed", f"the recording is {state}"
    assert steps >= before, f"{before} steps were recorded, {steps} are there"
    assert not list((recordings / "running").glob("*.moescope")), "the next start takes it for a crash"
    return f"ended with status {program.returncode}, {steps} steps"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("moescope")
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if not shutil.which("Xvfb"):
        print("Xvfb is not installed: nothing was tested")
        return 77
    chance, failures = random.Random(options.seed), 0
    for run in range(options.runs):
        with tempfile.TemporaryDirectory() as folder:
            try:
                print(f"{run}: {kill_one(options.moescope, pathlib.Path(folder), chance)}", flush=True)
            except AssertionError as failure:
                failures += 1
                print(f"{run}: FAILED: {failure}", flush=True)
    print(f"{failures} of {options.runs} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
