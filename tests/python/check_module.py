#!/usr/bin/python3
"""Tests assets/python/moescope.py with this build's program.

    tests/python/check_module.py MOESCOPE_CLI

Exits with 77 if NumPy is not installed. Debian: python3-numpy.
"""

import json
import os
import pathlib
import sys
import tempfile
import unittest

try:
    import numpy
except ImportError as error:
    print("skipped: %s (Debian: python3-numpy)" % error)
    sys.exit(77)

os.environ["MOESCOPE_CLI"] = os.path.abspath(sys.argv.pop(1))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "assets" / "python"))
import moescope  # noqa: E402


class Module(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = os.path.join(cls.folder.name, "run.moescope")
        cls.run_ = moescope.train("nano", out=cls.path, steps=21, telemetry__quant_every=10,
                                  **{"precision.experts": "mxfp8_rceil"})

    def test_a_run_is_arrays_of_the_recorded_values(self):
        run = self.run_
        self.assertEqual((run.name, run.steps.tolist(), run.layers.tolist()), ("nano", list(range(21)), [1, 2]))
        self.assertEqual(run.loads.shape, (21, 2, 8))
        self.assertTrue((run.loads.sum(2) == run.info["tokens_per_step"] * run.info["top_k"]).all())
        self.assertTrue(numpy.allclose(run.figure("max_vio"), run.loads.max(2) / run.loads.mean(2) - 1, atol=1e-6))
        self.assertEqual(run.by_expert("expert_bias").shape, (21, 2, 8))
        answer = json.loads(moescope._run("figures", self.path, "--json", "--figure", "ce_loss"))
        self.assertAlmostEqual(run.figure("ce_loss")[-1], answer["figures"][0]["values"][0]["value"], places=6)
        self.assertIn('experts = "mxfp8_rceil"', run.config)

    def test_values_that_a_step_lacks_are_nan(self):
        loss = self.run_.figure("val_loss")
        self.assertTrue(numpy.isfinite(loss[0]) and numpy.isnan(loss[1]))
        with self.assertRaisesRegex(KeyError, "no such figure.*ce_loss"):
            self.run_.figure("loss")
        for name in ("loads", "max_vio", "score_chosen"):
            with self.assertRaisesRegex(KeyError, "allowed are tokens_per_expert"):
                self.run_.by_expert(name)

    def test_operands_have_scales(self):
        steps, scales = self.run_.scales(1, "w2", "dY", "dgrad")
        self.assertEqual(steps.tolist(), [0, 10, 20])
        self.assertEqual(scales.shape, (3, 256))
        found = self.run_.operand(1, "w1", "x")
        self.assertTrue((found["sqnr_db"] > 25).all() and (found["scales"].sum(1) == scales.sum(1)[0] * 0 + 1024).all())
        self.assertEqual({place["format"] for place in self.run_.operands}, {"mxfp8_e4m3_rceil"})
        with self.assertRaises(KeyError):
            self.run_.operand(0, "w1", "x")

    def test_a_log_opens_as_a_recording_does(self):
        log = os.path.join(self.folder.name, "log.jsonl")
        with open(log, "w") as file:
            for step in range(3):
                file.write(json.dumps({"step": step, "loss": [2.5, float("nan"), 2.25][step],
                                       "tokens_per_expert": [[5, 3], [4, 4]]}) + "\n")
        run = moescope.open(log)
        self.assertEqual(run.loads[2].tolist(), [[5, 3], [4, 4]])
        self.assertTrue(numpy.isnan(run.figure("ce_loss")[1]))
        self.assertEqual(run.config, "")

    def test_compare_returns_runs_and_outcomes(self):
        runs, outcomes = moescope.compare("nano", {"precision.experts": "mxfp4"}, steps=21)
        self.assertEqual([run.name for run in runs], ["nano", "nano+mxfp4", "nano+seed-2"])
        self.assertEqual({outcome["candidate"] for outcome in outcomes}, {run.name for run in runs})
        self.assertAlmostEqual(next(o["final_loss_nats"] for o in outcomes if o["candidate"] == "nano+mxfp4"),
                               runs[1].figure("ce_loss")[-1], places=5)
        with self.assertRaises(ValueError):
            moescope.compare("nano")

    def test_check_and_page(self):
        self.assertFalse(moescope.check(self.path, fail_on="nan")["failed"])
        self.assertEqual(self.run_.check()["name"], "nano")
        self.assertEqual(self.run_.findings, [])
        page = self.run_.show(height=300)
        self.assertIn("height:300px", page._repr_html_())
        self.assertNotIn('"', page._repr_html_().split('srcdoc="')[1].split('" style')[0])
        out = os.path.join(self.folder.name, "page.html")
        page.save(out)
        self.assertEqual(pathlib.Path(out).read_text(), page.text)

    def test_errors_have_the_words_of_the_program(self):
        for words, call in {
                "no such key, did you mean router.top_k": lambda: moescope.train("nano", steps=1, router__topk=4),
                'preset: is "nan0"': lambda: moescope.train("nan0"),
                "already exists|exists": lambda: moescope.train("nano", out=self.path, steps=1),
                "no such file": lambda: moescope.open("/no/such.moescope"),
                "is no log": lambda: moescope.open(__file__),
                "run.moescope: no step": lambda: moescope.train("nano", steps=0),
                '"spikes" is not a finding': lambda: moescope.check(self.path, fail_on=["nan", "spikes"]),
                "cannot be started": lambda: self.with_program("/no/such/program"),
        }.items():
            with self.assertRaisesRegex(moescope.Error, words):
                call()
        with self.assertRaises(KeyError):
            moescope.open(self.path, run="other")
        for call in (moescope.open, moescope.open_all, moescope.check, moescope.show):
            with self.assertRaises(TypeError):
                call(None)

    def test_a_name_that_begins_with_a_dash_is_a_file(self):
        folder = os.getcwd()
        os.chdir(self.folder.name)
        try:
            self.assertEqual(moescope.train("nano", steps=1, out="-run.moescope").steps.tolist(), [0])
            self.assertFalse(moescope.check("-run.moescope", fail_on=["nan", "dead"])["failed"])
        finally:
            os.chdir(folder)

    def with_program(self, path):
        kept, os.environ["MOESCOPE_CLI"] = os.environ["MOESCOPE_CLI"], path
        try:
            moescope.check(self.path)
        finally:
            os.environ["MOESCOPE_CLI"] = kept


if __name__ == "__main__":
    unittest.main()
