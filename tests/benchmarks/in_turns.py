#!/usr/bin/env python3
"""Times the steps of several commands that run in turns on the same processors: while one runs, the others are stopped.

Other load on a shared machine slows all commands equally. Builds that differ by 2 % can be told apart, and other programs
can be compared with this one, although whole runs one after the other differ by 20 %.

Each command has to print a line that begins with "step" after every step, as bench_step --each-step does:
  tests/benchmarks/in_turns.py "before=/tmp/before/bench_step M --units --only bf16 --steps 500 --each-step" \\
                               "now=build/release/tests/bench_step M --units --only bf16 --steps 500 --each-step"
Prints the milliseconds per step, counting only the command's own turns, and the median relative to the first command's.
Ctrl+C prints them for the steps that are finished.
"""
import argparse
import os
import selectors
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time


class Command:
    def __init__(self, name, line, cpus):
        self.name, self.ms = name, []
        self.active = 0.0  # seconds in which the command ran
        self.step_began = None  # `active` at the beginning of the current step
        self.rest = b""  # incomplete last line of the output
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(["taskset", "-c", cpus] + line, stdout=subprocess.PIPE, stderr=self.errors,
                                        start_new_session=True)
        self.send(signal.SIGSTOP)

    def send(self, what):
        try:
            os.killpg(self.process.pid, what)  # the command leads its own process group
        except ProcessLookupError:
            pass  # the command has ended

    def note_steps(self, text, now):
        lines = (self.rest + text).split(b"\n")
        self.rest = lines.pop()
        for line in lines:
            if not line.startswith(b"step"):
                continue
            if self.step_began is not None:
                self.ms.append((now - self.step_began) * 1e3)
            self.step_began = now

    def run_for(self, seconds, steps):
        """Runs the command for one turn. Returns False if it needs no further turn."""
        start, more = time.monotonic(), True
        self.send(signal.SIGCONT)
        with selectors.DefaultSelector() as output:
            output.register(self.process.stdout, selectors.EVENT_READ)
            while more and output.select(max(0.0, start + seconds - time.monotonic())):
                text = os.read(self.process.stdout.fileno(), 65536)
                self.note_steps(text, self.active + time.monotonic() - start)
                more = text != b"" and len(self.ms) < steps
        self.send(signal.SIGSTOP)
        self.active += time.monotonic() - start
        return more

    def said_last(self):
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace").strip().split("\n")[-1]


def report(commands):
    first = None
    for command in commands:
        if not command.ms:
            print(f"{command.name}: no two lines that begin with \"step\". {command.said_last()}")
            continue
        median = statistics.median(command.ms)
        first = first if first is not None else median
        share = f"{median / first:.3f}x" if first > 0 else "first took no time"
        print(f"{command.name:12} median {median:9.2f} ms   mean {statistics.mean(command.ms):9.2f}   fastest "
              f"{min(command.ms):9.2f}   {len(command.ms)} steps   {share}")
    return all(command.ms for command in commands)


def named_command(parser, text):
    name, _, line = text.partition("=")
    try:
        words = shlex.split(line)
    except ValueError as error:
        parser.error(f"{text}: {error}")
    if not words:
        parser.error(f"{text}: must be NAME=COMMAND")
    return name, words


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpus", default="0,1", help="processors, as taskset takes them (0,1)")
    parser.add_argument("--turn", type=float, default=0.7, help="seconds of a turn (0.7)")
    parser.add_argument("--steps", type=int, default=30, help="number of timed steps per command (30)")
    parser.add_argument("commands", nargs="+", metavar="NAME=COMMAND")
    args = parser.parse_args()
    named = [named_command(parser, text) for text in args.commands]
    commands = []
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for name, line in named:
            commands.append(Command(name, line, args.cpus))
        waiting = list(commands)
        while waiting:
            waiting = [command for command in waiting if command.run_for(args.turn, args.steps)]
    except KeyboardInterrupt:
        pass
    finally:
        for command in commands:
            command.send(signal.SIGKILL)
    return 0 if report(commands) else 1


if __name__ == "__main__":
    sys.exit(main())
