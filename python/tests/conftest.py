"""Skips everything where PyTorch or the package is missing, with the reason."""

from __future__ import annotations

import importlib.util

import pytest

REASONS = {
    "torch": "PyTorch is not installed: pip install torch",
    "tributary": "the package is not installed: pip install ./python",
}


def pytest_ignore_collect(collection_path, config):
    """The test modules import what may be missing."""
    del config
    return True if collection_path.name.startswith("test_") and _missing() else None


def pytest_report_header(config):
    del config
    return [f"skipped: {reason}" for reason in _missing()]


def pytest_sessionfinish(session, exitstatus):
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and _missing():
        session.exitstatus = pytest.ExitCode.OK


@pytest.fixture(params=["memory", "switch"])
def way(request, monkeypatch):
    """What is between the ranks of a test's groups."""
    import ranks

    settings = ranks.MEMORY if request.param == "memory" else ranks.SWITCH
    monkeypatch.setattr(ranks, "settings", settings)
    return request.param


def _missing() -> list[str]:
    return [reason for module, reason in REASONS.items() if not importlib.util.find_spec(module)]
