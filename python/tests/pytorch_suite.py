"""PyTorch's own tests of its backends and of DDP, with our backend instead of Gloo.

    pip install expecttest
    python -m pytest python/tests/pytorch_suite.py

PyTorch's wheels contain them. `docs/start/pytorch.md` lists the tests that fail, with the reasons.
`BESIDE=gloo` runs the same tests with Gloo, and `WORLD_SIZE` is the number of ranks, 4 unless it is
set.
"""

from __future__ import annotations

import os
import tempfile
from typing import Any

import torch.distributed as dist
import torch.multiprocessing

os.environ.setdefault("WORLD_SIZE", "4")
os.environ.setdefault("TEMP_DIR", tempfile.mkdtemp())
# Chooses the tests. Without GPUs, most of those for other backends are skipped.
os.environ["BACKEND"] = "gloo"

from torch.testing._internal.distributed import distributed_test

_init = dist.init_process_group
_backend = os.environ.get("BESIDE", "tributary")


def _init_process_group(backend: str | None = None, *arguments: Any, **options: Any) -> None:
    _init(_backend if backend == "gloo" else backend, *arguments, **options)


dist.init_process_group = _init_process_group


class TestOurBackend(
    distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase
):
    def setUp(self) -> None:
        super().setUp()
        # Importing PyTorch at each rank takes longer than most tests.
        self._start_processes(torch.multiprocessing.get_context("fork").Process)
