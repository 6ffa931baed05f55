"""Tests of compare.py, with scripts as programs: python3 -m unittest discover -s scripts"""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).with_name("compare.py")

# Writes a report to the file that its fourth argument names: of a run with the goodput that is in the file beside the
# program, which then grows by one.
PROGRAM = """#!/bin/sh
echo "$(basename "$0") $*" >> "$(dirname "$0")/log"
case $(basename "$0") in
broken) echo 'first line' >&2; echo 'error: no such job' >&2; exit 3 ;;
silent) exit 0 ;;
other) echo '{"jobs": []}' > "$4"; exit 0 ;;
foreign) echo '{}' > "$4"; exit 0 ;;
idle) echo '{"jobs": [{"goodput_gbps": 0, "workers": [{"measured": 0}]}], "switches": []}' > "$4"; exit 0 ;;
esac
speed=$(cat "$0.speed")
echo $((speed + 1)) > "$0.speed"
cat > "$4" <<END
{"jobs": [{"goodput_gbps": $speed, "workers": [
  {"measured": 500000000, "processor_seconds": 2.0}, {"measured": 500000000, "processor_seconds": 4.0}]}],
 "switches": [{"cpu_seconds": SWITCH}], "servers_cpu_seconds": 1.0}
END
"""


class Compare(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.at = Path(directory.name)
        failing = [(name, "0") for name in ["broken", "silent", "other", "foreign", "idle"]]
        for name, switch in [("old", "5.0"), ("new", "null"), *failing]:
            (self.at / name).write_text(PROGRAM.replace("SWITCH", switch))
            (self.at / name).chmod(0o755)
            (self.at / f"{name}.speed").write_text("1" if name == "old" else "10")

    def compare(self, *words):
        command = [sys.executable, "-B", SCRIPT, *words]
        return subprocess.run(command, capture_output=True, text=True, cwd=self.at, check=False)

    def test_programs_take_turns_and_medians_are_printed(self):
        done = self.compare("--rounds", "3", "a.toml", "old", "new", "--", "--pin", "--io", "gso")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = (self.at / "log").read_text().splitlines()
        self.assertEqual([line.split()[0] for line in lines], ["old", "new", "new", "old", "old", "new"])
        for line in lines:
            self.assertTrue(line.split(" ", 1)[1].startswith("run a.toml --json-out"), line)
            self.assertTrue(line.endswith(" --pin --io gso"), line)
        _, _, old, new = done.stdout.splitlines()
        self.assertEqual(
            [cell.strip() for cell in old.split("|")[1:-1]],
            ["old", "2.00 (1.00–3.00)", "1.00 (1.00–1.00)", "3.00 (3.00–3.00)"]
            + ["2.50 (2.50–2.50)", "0.50 (0.50–0.50)"],
        )
        self.assertEqual(
            [cell.strip() for cell in new.split("|")[1:-1]],
            ["new", "11.00 (10.00–12.00)", "5.50 (4.00–10.00)", "3.00 (3.00–3.00)", "–"]
            + ["0.50 (0.50–0.50)"],
        )

    def test_a_program_beside_itself_has_figures_of_its_own(self):
        done = self.compare("--rounds", "2", "a.toml", "old", "old")
        self.assertEqual(done.returncode, 0, done.stderr)
        goodput = [line.split("|")[2].strip() for line in done.stdout.splitlines()[2:]]
        # The runs reach 1 and 4, and 2 and 3: each round begins with another one.
        self.assertEqual(goodput, ["2.50 (1.00–4.00)", "2.50 (2.00–3.00)"])

    def test_a_program_that_fails_or_is_not_there_ends_it_with_one_line(self):
        for program, why in [
            ("broken", "broken failed with status 3: error: no such job"),
            ("absent", "cannot run absent: No such file or directory"),
            ("other", "other wrote no report that can be compared: it has 0 jobs, and one is compared"),
            ("idle", "idle wrote no report that can be compared: nothing was measured: the warm-up was all"),
            ("foreign", "the report of foreign lacks 'jobs'"),
        ]:
            done = self.compare("a.toml", "old", program)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stderr.splitlines()[-1], f"compare: {why}")
        done = self.compare("a.toml", "silent")
        self.assertIn("compare: silent wrote no report that can be compared: [Errno 2]", done.stderr)
        self.assertNotIn("Traceback", done.stderr)

    def test_rounds_are_counted(self):
        done = self.compare("--rounds", "0", "a.toml", "old")
        self.assertEqual((done.returncode, done.stderr), (1, "compare: --rounds must be at least 1\n"))


if __name__ == "__main__":
    unittest.main()
