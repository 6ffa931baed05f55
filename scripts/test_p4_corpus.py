"""Tests of p4-corpus.py, with scripts as compilers: python3 -m unittest discover -s scripts"""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).with_name("p4-corpus.py")
PROGRAM = "#include <v1model.p4>\nV1Switch(P(), V(), I(), E(), C(), D()) main;\n"
OURS = """#!/bin/sh
for file; do :; done
case $file in
*broken*) echo "$file:2:1: error: there is no \\`V1Swich\\`" >&2; exit 1 ;;
esac
"""
THEIRS = """#!/bin/sh
for file; do :; done
case $file in
*strict*) echo "$file(1): [--Werror=x] error: too strict" >&2; exit 1 ;;
*bug*) echo 'Compiler Bug: it happens' >&2; exit 1 ;;
*) yes warning | head -c 300000 >&2 ;;
esac
"""


class Corpus(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.at = Path(directory.name)
        for name, text in [("tributary-p4", OURS), ("compiler", THEIRS)]:
            (self.at / name).write_text(text)
            (self.at / name).chmod(0o755)
        self.programs = self.at / "programs"
        (self.programs / "deeper").mkdir(parents=True)
        for name, text in {
            "good.p4": PROGRAM,
            "strict.p4": PROGRAM,
            "bug.p4": PROGRAM,
            "deeper/broken.p4": PROGRAM,
            "deeper/strict-broken.p4": PROGRAM,
            "included.p4": '#include "deeper/part.p4"\n',
            "deeper/part.p4": "#include <v1model.p4>\ncontrol C() { apply { } }\n",
            "other.p4": "const bit<8> x = 1;\n",
            "readme.txt": "no program\n",
        }.items():
            (self.programs / name).write_text(text)

    def run_script(self, *options):
        path = f"{self.at}{os.pathsep}{os.environ['PATH']}"
        command = [sys.executable, SCRIPT, self.programs, *options]
        return subprocess.run(command, env={**os.environ, "PATH": path}, capture_output=True, text=True)

    def test_a_folder_is_compared_program_by_program(self):
        done = self.run_script("--compiler", "compiler")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertTrue(done.stderr.endswith("2 disagreements\n"), done.stderr)
        rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()[3:5]}
        self.assertEqual(rows, {"accepted": ["2", "1", "1"], "refused": ["1", "1", "0"]}, done.stdout)
        self.assertIn("6 for v1model", done.stdout)
        self.assertNotIn("part.p4", done.stdout)
        for heading, line in [
            ("refused here, accepted by compiler: 1", "deeper/broken.p4"),
            ("accepted here, refused by compiler: 1", "too strict"),
            ("no answer from compiler: 1", "bug.p4"),
        ]:
            self.assertIn(line, done.stdout.partition(heading)[2])

    def test_mistakes_are_reported(self):
        for options, error in [
            (["--arch", "psa", "--compiler", "compiler"], "has no program for psa"),
            (["--compiler", "no-such-compiler"], "no-such-compiler is not on the PATH"),
        ]:
            done = self.run_script(*options)
            self.assertIn(error, done.stderr)
            self.assertNotEqual(done.returncode, 0)
        self.programs = self.at / "nowhere"
        self.assertIn("nowhere is not a folder", self.run_script("--compiler", "compiler").stderr)


if __name__ == "__main__":
    unittest.main()
