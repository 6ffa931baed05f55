"""Tests of measure.py: python3 -m unittest discover -s scripts"""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import measure
from measure import Refused

TERMINAL = """2 cores, a processor

First sizes
┌──────┬─────────┬──────┐
│ size ┆    Gb/s ┆ most │
╞══════╪═════════╪══════╡
│ 1 MB ┆ 1.0 (1) ┆    7 │
│ 2 MB ┆ 2.0 (2) ┆    8 │
└──────┴─────────┴──────┘
Then jobs
┌──────┬───┐
│ jobs ┆ s │
╞══════╪═══╡
│ 1    ┆ – │
└──────┴───┘
"""

LIST = """
[code]
engine = ["engine.rs"]
[variables]
trace = { environment = "MEASURE_TEST_TRACE", shown = "trace.csv", what = "a trace" }
[[measurement]]
id = "fake"
run = "cat terminal"
minutes = 1
depends = ["engine"]
[[measurement.table]]
name = "sizes"
page = "page.md"
after = "First sizes"
columns = [["size", "size"], ["Gb/s", "Gb/s"], ["paper", ["3", "4"]]]
[[measurement.table]]
name = "jobs"
page = "page.md"
skip = 1
[[measurement]]
id = "traced"
run = "cat {trace}"
minutes = 1
virtual = true
depends = ["engine"]
[[by_hand]]
id = "hand"
page = "page.md"
why = "two programs"
depends = ["other.rs"]
"""

PAGE = """# Page

Before.

<!-- measured: fake/sizes -->

| old |
| --- |

<!-- end -->

Between.

<!-- measured: fake/jobs -->
<!-- end -->

<!-- measured: hand -->
| by | hand |
<!-- end -->

After.
"""


class Extraction(unittest.TestCase):
    def test_tables_of_the_terminal(self):
        rows = measure.printed(TERMINAL, "First sizes")
        self.assertEqual(rows[1], {"size": "2 MB", "Gb/s": "2.0 (2)", "most": "8"})
        self.assertEqual(measure.printed(TERMINAL, "First", 1), [{"jobs": "1", "s": "–"}])
        self.assertEqual(measure.printed(TERMINAL, "Then"), [{"jobs": "1", "s": "–"}])
        for after, skip in [("Nothing", 0), ("Then", 1)]:
            with self.assertRaises(Refused):
                measure.printed(TERMINAL, after, skip)

    def test_a_table_of_a_page(self):
        rows = [{"a": "1", "b|c": "x"}, {"a": "", "b|c": "y"}]
        self.assertEqual(measure.markdown(rows), "| a | b\\|c |\n| --- | --- |\n| 1 | x |\n| | y |")

    def test_numbers_of_csv_files_are_rounded_with_their_deviation(self):
        text = 'case,"JCT, s","JCT, s, deviation",most,most\nx,1.2345,0.02,1,2\ny,3.1,0.001,,NaN\n'
        rows = measure.from_csv([text])
        spec = {"columns": [["case", "case"], ["JCT", "JCT, s", 2], ["most", "most"], ["2", "most#2", 1]]}
        self.assertEqual(
            [list(row.values()) for row in measure.selected(rows, spec)],
            [["x", "1.23 ± 0.02", "1", "2.0"], ["y", "3.10", "–", "–"]],
        )
        text = 'case,"JCT, s","JCT, s, ± 95 %"\nx,1.2345,0.05\ny,3.1,\n'
        rows = measure.from_csv([text])
        self.assertEqual(
            [row["JCT"] for row in measure.selected(rows, {"columns": [["JCT", "JCT, s", 1]]})],
            ["1.2 ± 0.1", "3.1"],
        )
        with self.assertRaisesRegex(Refused, "no column `gone`; there are `case`"):
            measure.selected(rows, {"columns": [["x", "gone"]]})

    def test_rows_become_columns(self):
        text = "load,policy,JCT\n1,p,10\n1,q,20\n2,p,30\n2,q,40\n3,p,50\n"
        spec = {
            "where": {"load": "2"},
            "pivot": {"by": ["load"], "across": "policy"},
            "columns": [["load", "load"], ["q", "q: JCT"]],
        }
        self.assertEqual(measure.selected(measure.from_csv([text]), spec), [{"load": "2", "q": "40"}])
        del spec["where"]
        self.assertEqual(measure.selected(measure.from_csv([text]), spec)[2], {"load": "3", "q": "–"})

    def test_lines_that_match(self):
        rows = measure.matched("head\n 12 ms x\n7 ms y\n", r"(?P<ms>\d+) ms (?P<what>\w)")
        self.assertEqual(rows, [{"ms": "12", "what": "x"}, {"ms": "7", "what": "y"}])


    def test_raw_results(self):
        with tempfile.TemporaryDirectory() as made:
            out = Path(made)
            (out / "f.csv").write_text("a,b\n1,2\n")
            table = measure.Table("m/t", "page.md", [], {"csv": "f.csv", "columns": [["x", "b", 1]]})
            body = ("| x |\n| --- |\n| 2.0 |", {"m-f.csv": "a,b\n1,2\n"})
            self.assertEqual(measure.body_of(table, "", out), body)
            table.spec["csv"] = "gone.csv"
            with self.assertRaisesRegex(Refused, "the command wrote no gone.csv"):
                measure.body_of(table, "", out)
        text = measure.Table("m", "page.md", [], {"text": True})
        self.assertEqual(measure.body_of(text, "\nall\n", out), ("```text\nall\n```", {}))


class Pages(unittest.TestCase):
    def test_only_what_is_between_the_markers_is_replaced(self):
        page = measure.replaced(PAGE, "fake/sizes", "page.md", "new")
        self.assertIn("Before.\n\n<!-- measured: fake/sizes -->\n\nnew\n\n<!-- end -->\n\nBetween.", page)
        self.assertEqual(measure.replaced(page, "fake/sizes", "page.md", "| old |\n| --- |"), PAGE)

    def test_markers_that_are_missing(self):
        for text, problem in [
            (PAGE, "no marker `<!-- measured: gone -->`"),
            ("<!-- measured: gone -->\n" * 2, "more than one marker"),
            ("<!-- measured: gone -->\n| a |\n<!-- measured: b -->\n<!-- end -->\n", "no `<!-- end -->`"),
        ]:
            with self.assertRaisesRegex(Refused, problem):
                measure.region(text, "gone", "page.md")


class Repository(unittest.TestCase):
    """A repository with a list, a page and a command that prints two tables."""

    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.root = Path(made.name)
        (self.root / measure.PAGES).mkdir(parents=True)
        self.page = self.root / measure.PAGES / "page.md"
        self.write("docs/evaluation/measurements.toml", LIST)
        self.write("docs/evaluation/page.md", PAGE)
        for name, text in [("terminal", TERMINAL), ("engine.rs", "1"), ("other.rs", "1"), (".gitignore", "target")]:
            self.write(name, text)
        # No settings and hooks of the user, and no variable that names another repository.
        names = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        names.pop("CARGO_TARGET_DIR", None)
        names |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        for role in ("AUTHOR", "COMMITTER"):
            names |= {f"GIT_{role}_NAME": "a", f"GIT_{role}_EMAIL": "a@example.invalid"}
        environment = mock.patch.dict(os.environ, names, clear=True)
        environment.start()
        self.addCleanup(environment.stop)
        idle = mock.patch.object(measure, "busy_cores", lambda: 0.1)
        idle.start()
        self.addCleanup(idle.stop)
        self.git("init", "--quiet")
        self.commit()
        self.said = []
        self.tool = measure.Tool(self.root, self.said.append)

    def write(self, name, text):
        (self.root / name).write_text(text, encoding="utf-8")

    def git(self, *arguments):
        subprocess.run(["git", *arguments], cwd=self.root, check=True, capture_output=True)

    def commit(self):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "x")

    def run_fake(self, limit=0.3, force=False):
        self.tool.run(self.tool.plan.named(["fake"])[0], Path("programs"), limit, force)

    def stale(self):
        self.said.clear()
        self.tool.stale()
        return [" ".join(line.split()) for line in self.said]

    def test_a_run_fills_its_tables_and_keeps_the_raw_rows(self):
        self.run_fake()
        text = self.page.read_text()
        self.assertIn("| size | Gb/s | paper |\n| --- | --- | --- |\n| 1 MB | 1.0 (1) | 3 |\n", text)
        self.assertIn("| jobs | s |\n| --- | --- |\n| 1 | – |\n", text)
        paragraph = " ".join(text.split("Between.")[0].split())
        commit = self.tool.git("rev-parse", "--short=8", "HEAD")
        self.assertRegex(paragraph, rf"`cat terminal`, commit `{commit}`, \d+-\d+-\d+, \d+ cores of .*Linux")
        self.assertIn("0.10 cores were busy before.", paragraph)
        raw = (self.root / measure.RESULTS / "fake-sizes.csv").read_text()
        self.assertEqual(raw, "size,Gb/s,most\n1 MB,1.0 (1),7\n2 MB,2.0 (2),8\n")
        self.tool.check()

    def test_output_that_cannot_be_read_is_kept_for_another_attempt(self):
        self.write("terminal", "no table")
        with self.assertRaisesRegex(Refused, "fake/sizes: cannot make the table: the output has no line"):
            self.run_fake()
        self.assertEqual(self.page.read_text(), PAGE)
        (self.tool.work / "fake" / "stdout").write_text(TERMINAL)
        self.tool.take(self.tool.plan.named(["fake/jobs"])[0])
        self.assertIn("| 1 MB |", self.page.read_text())

    def test_a_table_is_stale_when_its_code_has_changed(self):
        hand = "by hand hand page.md never measured. By hand: two programs"
        self.assertEqual(self.stale()[0], "stale fake/sizes page.md never measured.")
        self.run_fake()
        self.commit()
        self.assertEqual(self.stale(), [hand])
        self.write("other.rs", "2")
        self.commit()
        self.assertEqual(self.stale(), [hand])
        self.write("engine.rs", "2")
        self.assertEqual(self.stale()[0], "stale fake/sizes page.md uncommitted changes.")
        self.commit()
        self.assertRegex(self.stale()[1], "^stale fake/jobs page.md 1 commit since [0-9a-f]+, the last")
        text = measure.COMMIT.sub("commit `0123456789`", self.page.read_text())
        self.page.write_text(text)
        self.assertIn("commit 0123456789 is not in this repository.", self.stale()[0])

    def test_what_would_not_count_is_refused(self):
        with self.assertRaisesRegex(Refused, "0.10 cores are busy, more than 0.05; wait, or use --force"):
            self.run_fake(limit=0.05)
        self.write("engine.rs", "2")
        with self.assertRaisesRegex(Refused, "uncommitted changes in engine.rs; commit or stash them"):
            self.run_fake(force=True)
        self.git("checkout", "engine.rs")
        self.run_fake(limit=0.05, force=True)
        with self.assertRaisesRegex(Refused, "traced: set MEASURE_TEST_TRACE to a trace"):
            self.tool.run(self.tool.plan.named(["traced"])[0], Path("programs"), 1.0, False)

    def test_names(self):
        with self.assertRaisesRegex(Refused, "no measurement is called `gone`; --list lists them"):
            self.tool.plan.named(["gone"])
        with self.assertRaisesRegex(Refused, "hand: no command prints this table: two programs"):
            self.tool.plan.named(["hand"])
        self.assertEqual([one.id for one in self.tool.plan.named(["fake/jobs", "fake"])], ["fake"])
        self.assertEqual(self.tool.command(self.tool.plan.named(["traced"])[0]), "cat trace.csv")

    def test_list_and_pages_must_agree(self):
        self.tool.check()
        self.page.write_text(PAGE + "<!-- measured: more -->\n<!-- end -->\n")
        with self.assertRaisesRegex(Refused, "page.md: .* has no table `more`"):
            self.tool.check()
        self.page.write_text(PAGE.replace("<!-- measured: hand -->", ""))
        with self.assertRaisesRegex(Refused, "page.md: no marker `<!-- measured: hand -->`"):
            self.tool.check()
        (self.root / "engine.rs").unlink()
        self.page.write_text(PAGE)
        with self.assertRaisesRegex(Refused, "depends on engine.rs, which does not exist"):
            self.tool.check()


class OurList(unittest.TestCase):
    def test_the_list_and_the_pages_of_this_repository_agree(self):
        measure.Tool(Path(__file__).resolve().parents[1]).check()


if __name__ == "__main__":
    unittest.main()
