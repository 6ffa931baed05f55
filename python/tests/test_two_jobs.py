"""The example that trains two models at a time: it runs, and its ways of summing agree."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "pytorch" / "two_jobs.py"
WAYS = ["PS", "ATP", "ESA", "SwitchML"]


def test_two_models_learn_the_same_however_they_are_summed(tmp_path: Path) -> None:
    sizes = ("--workers", "2", "--epochs", "2", "--samples", "64", "--batch", "8", "--target", "0")
    network = ("--rounds", "1", "--megabits", "100", "--pool", "1024", "--ways", *WAYS)
    command = [sys.executable, str(SCRIPT), *sizes, *network, "--out", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if ended.stdout.startswith("skipped: "):
        pytest.skip(ended.stdout.strip())
    assert ended.returncode == 0, ended.stdout + ended.stderr
    losses = _rows(tmp_path / "losses.csv")
    assert [row["model"] for row in losses] == ["ResNet", "VGG"]
    for row in losses:
        assert row["losses and weights of these"] == "same bits", row
        assert (row["steps"], row["runs with exact sums"]) == ("8", "4"), row
    limits = {row["way"]: row for row in _rows(tmp_path / "limits.csv")}
    assert list(limits) == WAYS
    # All gradients come to a server that adds alone, and none to a job without one.
    share = {way: float(row[next(reversed(row))]) for way, row in limits.items()}
    assert share["PS"] > 80 > share["ATP"] and share["SwitchML"] < 5, share
    assert len(_rows(tmp_path / "jobs.csv")) == 2 * len(WAYS)
    assert len(_rows(tmp_path / "curves.csv")) == 2 * 2 * len(WAYS)
    assert (tmp_path / "two-jobs.svg").read_text().count("<polyline") == 2 * 2 * len(WAYS)


def _rows(file: Path) -> list[dict[str, str]]:
    with open(file, newline="", encoding="utf-8") as text:
        return list(csv.DictReader(text))
