#!/usr/bin/python3
"""Tests `moescope-cli check` on the logs of health_logs.py: at most 2 % of the verdicts may be wrong, and no number of a
sentence may differ from the one that is counted in the log. Prints a table by kind of log, and each fault. Needs NumPy.
Usage: check_health_logs.py MOESCOPE_CLI [--seed N] [--keep FOLDER] [--words]; --words lists the sentences with numbers that
nothing here compares."""

import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

from health_logs import make_logs

MOST_WRONG = 0.02
WINDOW = 50
# Kinds of findings on the loss and the gradient, not on the router.
OF_TRAINING = {"nan", "diverged", "spike", "loss-unlogged", "gradient-norm", "auxiliary-dominates", "dropped-tokens"}
NUMBER = r"([\d,]*\d(?:\.\d+)?(?:e[-+]\d+)?)"
LIST = r"((?:\d+(?:, | and )?)+?)(?:,? and (\d+) more)?"


def number(text):
    return float(text.replace(",", ""))


def shown_alike(text, value):
    """True if the text shows the value: half a unit of its last digit, and the error of shares stored as float."""
    mantissa = text.replace(",", "").split("e")[0]
    unit = 10.0 ** -(len(mantissa.split(".")[1]) if "." in mantissa else 0)
    return abs(number(text) - value) <= 0.51 * unit + 2e-5 * abs(value)


class Log:
    """The counts of a log, counted without the program."""

    def __init__(self, path):
        with open(path) as file:
            lines = [json.loads(line) for line in file]
        self.top_k = lines[0]["top_k"]
        self.steps = np.array([line["step"] for line in lines[1:]])
        self.losses = np.array([line.get("loss", np.nan) for line in lines[1:]])
        rows = [line.get("tokens_per_expert") or [each["tokens_per_expert"] for each in line["routers"]]
                for line in lines[1:]]
        self.counts = np.array(rows, dtype=float)  # [steps, layers, experts]
        self.loads, self.layers, self.experts = self.counts.shape

    def windows(self, text):
        """Returns the ranges of loads that a sentence may mean: the one that it names, else the usual ones."""
        named = re.search(r"(?:last|newest) (\d[\d,]*) (steps|loads|batches|logged batches)", text)
        named = named or re.search(r"over steps (\d[\d,]*) to (\d[\d,]*)", text)
        last = self.steps[-1]
        if named and named[0].startswith("over"):
            return [(self.steps >= number(named[1])) & (self.steps <= number(named[2]))]
        if named and named[2] == "steps":
            return [self.steps > last - number(named[1])]
        if named:
            return [np.arange(self.loads) >= self.loads - number(named[1])]
        blocks = sorted({int(step) // 10 for step in self.steps - self.steps[0]})[-5:]
        return [self.steps > last - WINDOW, np.arange(self.loads) >= self.loads - WINDOW,
                self.steps - self.steps[0] >= 10 * blocks[0]]

    def shares(self, layer, window):
        load = self.counts[window, layer].sum(0)
        return load / load.mean()

    def silence(self, layer, expert):
        """Returns the number of newest loads without a token, and the step of the first of them."""
        tokens = np.nonzero(self.counts[:, layer, expert])[0]
        first = tokens[-1] + 1 if len(tokens) else 0
        return self.loads - first, self.steps[first] if first < self.loads else None

    def dead(self, layer):
        """Returns the experts without a token in so many loads that chance cannot be the reason."""
        fair = self.top_k * self.counts[:, layer].sum(1) / self.top_k / self.experts
        dead = []
        for expert in range(self.experts):
            loads, _ = self.silence(layer, expert)
            if loads and fair[-loads:].sum() >= 50 and loads >= 20 and self.steps[-1] - self.steps[-loads] >= 200:
                dead.append(expert)
        return dead


class Sentence:
    """A text of a result, with the layer that it is about."""

    def __init__(self, log, truth, text, layer):
        self.log, self.truth, self.text, self.layer = log, truth, text, layer
        self.compared = []  # parts of the text with numbers that were compared
        self.false = []

    def layer_at(self, place):
        named = re.findall(r"[Ll]ayer (\d+)", self.text[:place])
        return int(named[-1]) if named else self.layer

    def each(self, pattern):
        for match in re.finditer(pattern, self.text):
            self.compared.append(match.span())
            yield match, self.layer_at(match.start())

    def claim(self, holds, part, found):
        if not holds:
            self.false.append("%r: \"%s\", counted: %s" % (self.text, part, found))

    def any_window(self, match, layer, value, shown):
        values = [value(self.log.shares(layer, window)) for window in self.log.windows(self.text) if window.any()]
        self.claim(any(shown_alike(shown, each) for each in values), match[0], values)

    def compare(self):
        self.shares_of_experts()
        self.experts_without_tokens()
        self.times()
        self.counts_of_things()

    def shares_of_experts(self):
        for match, layer in self.each(r"[Ee]xpert (\d+)(?:,| of the newest batches)*,? (?:gets|has|had) %s times its fair share" % NUMBER):
            self.any_window(match, layer, lambda shares: shares[int(match[1])], match[2])
        for match, layer in self.each(r"experts %s get up to %s times their fair share" % (LIST, NUMBER)):
            self.any_window(match, layer, max, match[3])
        for match, layer in self.each(r"experts %s take (\d+) %% of its token copies" % LIST):
            named = [int(each) for each in re.findall(r"\d+", match[1])]
            if match[2] is None:
                self.any_window(match, layer, lambda shares: 100 * shares[named].sum() / self.log.experts, match[3])
        for match, layer in self.each(r"MaxVio of (?:the same steps|[\d,]+ (?:steps|loads|logged batches)) together is " + NUMBER):
            self.any_window(match, layer, lambda shares: shares.max() - 1, match[1])
        for match, layer in self.each(r"as uneven as if %s of (\d+) experts" % NUMBER):
            self.any_window(match, layer, effective_experts, match[1])
            self.claim(int(match[2]) == self.log.experts, match[0], self.log.experts)
        for match, layer in self.each(r"%s %% of all tokens" % NUMBER):
            self.any_window(match, layer, lambda shares: 100 * shares.max() * self.log.top_k / self.log.experts, match[1])

    def experts_without_tokens(self):
        for match, layer in self.each(r"[Ee]xperts? %s (?:gets?|has had|have had) no token" % LIST):
            named = [int(each) for each in re.findall(r"\d+", match[1])]
            some = [e for e in named if self.log.silence(layer, e)[0] == 0]
            self.claim(not some, match[0], "%s got tokens" % some)
        for match, layer in self.each(r"(\d+) of (\d+) gets? none"):
            self.any_window(match, layer, lambda shares: int((shares == 0).sum()), match[1])
            self.claim(int(match[2]) == self.log.experts, match[0], self.log.experts)
        for match, layer in self.each(r"(\d+) of (\d+) (?:is|are) starved"):
            self.any_window(match, layer, lambda shares: int((shares < 0.02).sum()), match[1])
            self.claim(int(match[2]) == self.log.experts, match[0], self.log.experts)
        silence = r"[Ee]xperts? %s ha(?:s|ve) had no token for (?:[\d,]+ [a-z ]+ and more, expert (\d+) for )?%s (?:steps?|loads?|logged batch(?:es)?)(?:, one every [\d,]+ steps)?, since step %s"
        for match, layer in self.each(silence % (LIST, NUMBER, NUMBER)):
            loads, since = self.log.silence(layer, int(match[3] or match[1]))
            self.claim((number(match[4]), number(match[5])) == (loads, since), match[0], (loads, since))

    def times(self):
        """The step at which a fault begins is the first load that shows it."""
        for match, _ in self.each(r"(?:since|at) step " + NUMBER):
            step, onset = number(match[1]), self.truth["onset"]
            self.claim(step in self.log.steps, match[0], "no such step")
            if onset is None or "recover" in self.text or "no token" in self.text or "than 1,000 times" in self.text:
                continue  # an expert may have had its last token by chance, and a growth passes its limit later
            every = self.log.steps[1] - self.log.steps[0]
            self.claim(onset - every <= step <= onset + 120 * every, match[0], "began at %d" % onset)

    def counts_of_things(self):
        for match, _ in self.each(r"in all %s (?:batches|loads) of the log" % NUMBER):
            self.claim(number(match[1]) == self.log.loads, match[0], self.log.loads)
        for match, _ in self.each(r"(\d+) of (\d+) MoE layers"):
            self.claim(int(match[2]) == self.log.layers and int(match[1]) <= self.log.layers, match[0], self.log.layers)
        for match, _ in self.each(r"^%s (?:steps|loads|lines)(?=[.,])" % NUMBER):
            self.claim(number(match[1]) <= self.log.steps[-1] - self.log.steps[0] + 1, match[0], self.log.loads)
        for match, _ in self.each(r"one every %s steps" % NUMBER):
            gap = (self.log.steps[-1] - self.log.steps[0]) / max(1, self.log.loads - 1)
            self.claim(abs(number(match[1]) - gap) <= 0.51 + 0.01 * gap, match[0], gap)

    def has_other_numbers(self):
        left = list(self.text)
        for begin, end in self.compared:
            left[begin:end] = " " * (end - begin)
        return bool(re.search(r"(?<![A-Za-z])\d", re.sub(r"[Ll]ayers? [\d, and]+|expert \d+", "", "".join(left))))


def effective_experts(shares):
    part = shares[shares > 0] / shares.sum()
    return float(np.exp(-(part * np.log(part)).sum()))


def false_passes(log, truth, run):
    """Returns the passed checks that the log contradicts, or a finding of a stronger kind."""
    false, passed = [], run["passed"]
    found = {finding["kind"] for finding in run["findings"]}
    shares = [log.shares(layer, log.steps > log.steps[-1] - 800) for layer in range(log.layers)]
    most = log.experts / log.top_k
    for line in passed:
        if line.startswith("No expert is dead") and any(log.dead(layer) for layer in range(log.layers)):
            false.append(line)
        is_full = any(each.max() >= min(4.5, 1 + 0.8 * (most - 1)) for each in shares)
        if line.startswith("No expert is hot") and (is_full or "collapsed" in found):
            false.append(line)
        is_uneven = any(each.max() >= min(2.2, 1 + 0.8 * (most - 1)) for each in shares)
        if line.startswith("No layer stays uneven") and (is_uneven or found & {"hot", "collapsed"}):
            false.append(line)
        if line.startswith("No expert is starved") and truth["kind"] == "starved":
            false.append(line)
        if line.startswith("No layer has collapsed") and "collapsed" in truth["findings"]:
            false.append(line)
        if line.startswith("The load did not jump") and truth["kind"] == "jump":
            false.append(line)
        if line.startswith("The loss was finite") and truth["lost"][:1] == ["nan"]:
            false.append(line)
    return false


def false_sentences(log, truth, run, uncompared):
    texts = [(run["sentence"], None)]
    for finding in run["findings"]:
        layer = finding["layers"][0] if finding["layers"] else None
        texts += [(text, layer) for text in (finding["title"], finding["observation"])]
    false = ["passed: " + line for line in false_passes(log, truth, run)]
    for text, layer in texts:
        sentence = Sentence(log, truth, text, layer)
        sentence.compare()
        false += sentence.false
        if sentence.has_other_numbers():
            uncompared.add(re.sub(NUMBER, "N", text))
    healthy = "No expert is dead" in run["sentence"]
    if healthy and any(log.dead(layer) for layer in range(log.layers)):
        false.append(run["sentence"])
    return false


def router_verdict(run):
    return run.get("router", run["verdict"])  # older programs have one verdict


def wrong_verdicts(truth, run):
    """Returns what differs from the truth: the verdict, findings that lack, findings that do not belong there."""
    ongoing = [finding for finding in run["findings"] if finding["ongoing"]]
    wrong = []
    if router_verdict(run) not in truth["verdicts"]:
        wrong.append("%s, not one of %s: %s" % (router_verdict(run), truth["verdicts"], run["sentence"]))
    for kinds, experts in truth["findings"].items():
        found = [each for each in run["findings"] if each["kind"] in kinds.split("|")]
        if not found:
            wrong.append("no finding %s" % kinds)
        for layer, wanted in experts.items():
            named = [sorted(each["experts"]) for each in found if each["layers"][:1] == [int(layer)]]
            if found and wanted not in named:
                wrong.append("%s of layer %s: %s, not %s" % (kinds, layer, named, wanted))
    lost = {finding["kind"] for finding in ongoing} & OF_TRAINING
    if truth["lost"] and not lost & set(truth["lost"]):
        wrong.append("the training is lost (%s), found: %s" % (truth["lost"], sorted(lost)))
    right = {kind for kinds in truth["findings"] for kind in kinds.split("|")} | set(truth["allowed"]) | set(truth["lost"])
    for finding in run["findings"]:
        if finding["kind"] not in right and (finding["severity"] != "note" or finding["kind"] == "load-shift"):
            wrong.append("%s does not belong here: %s" % (finding["kind"], finding["title"]))
    return wrong


def check(cli, folder, name, truth, uncompared):
    path = os.path.join(folder, name)
    checked = subprocess.run([cli, "check", path, "--json"], capture_output=True, text=True)
    if checked.returncode not in (0, 1):
        return ["exit status %d: %s" % (checked.returncode, checked.stderr)], []
    run = json.loads(checked.stdout)["runs"][0]
    return wrong_verdicts(truth, run), false_sentences(Log(path), truth, run, uncompared)


def check_all(options, folder):
    """Prints the table; returns True if the results are right."""
    truths, uncompared, table, faults = make_logs(folder, options.seed), set(), {}, []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        names = sorted(truths)
        results = pool.map(lambda name: check(options.cli, folder, name, truths[name], uncompared), names)
        for name, (wrong, false) in zip(names, results):
            row = table.setdefault(truths[name]["kind"], [0, 0, 0])
            row[0] += 1
            row[1] += bool(wrong)
            row[2] += len(false)
            faults += ["%s: %s" % (name, each) for each in wrong] + ["%s: false: %s" % (name, each) for each in false]
    print("\n".join(faults))
    print("%-16s %6s %8s %8s" % ("kind", "logs", "wrong", "false"))
    total = np.sum(list(table.values()), 0)
    for kind, row in [*table.items(), ("all", total)]:
        print("%-16s %6d %8d %8d" % (kind, *row))
    if options.words:
        print("not compared:\n" + "\n".join(sorted(uncompared)))
    return total[1] <= MOST_WRONG * total[0] and total[2] == 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cli")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep")
    parser.add_argument("--words", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(0 if check_all(options, options.keep or folder) else 1)


if __name__ == "__main__":
    main()
