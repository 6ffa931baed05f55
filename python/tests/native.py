"""Tests the native part of an installed package, without PyTorch.

    python python/tests/native.py

`scripts/wheel.sh` runs it on each wheel that it builds.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import unittest
from array import array
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

TIMEOUT = 60.0
RANKS = 2


def load() -> Any:
    """The native part alone: the package around it imports PyTorch."""
    package = importlib.util.find_spec("tributary")
    if package is None:
        raise ModuleNotFoundError("the package is not installed: scripts/wheel.sh builds its wheel")
    folders = package.submodule_search_locations
    spec = importlib.machinery.PathFinder.find_spec("tributary._native", folders)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"the package in {folders} has no native part")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


native = load()


def at_each_rank(function: Callable[[int], Any]) -> list[Any]:
    """What the function returns at each rank, each a thread of this process."""
    with ThreadPoolExecutor(RANKS) as threads:
        return list(threads.map(function, range(RANKS)))


def sums(join: Callable[[int], Any]) -> list[list[float]]:
    """The sums at each rank of 1, 2, 3 … at the first and ten times as much at the second."""

    def at(rank: int) -> list[float]:
        communicator = join(rank)
        values = array("f", [(index + 1) * 10**rank for index in range(5000)])
        address, elements = values.buffer_info()
        handle = communicator.all_reduce(
            address, elements, "float32", average=False, layer=None, owner=values
        )
        handle.wait(TIMEOUT)
        communicator.close()
        return values.tolist()

    return at_each_rank(at)


EXPECTED = [(index + 1) * 11.0 for index in range(5000)]


class Native(unittest.TestCase):
    def test_ranks_sum_in_memory(self) -> None:
        memory = native.Memory.open("", RANKS, False)
        description = memory.description

        def join(rank: int) -> Any:
            if rank == 0:
                return native.Communicator.first(memory, TIMEOUT)
            return native.Communicator.in_memory(description, rank, RANKS, TIMEOUT)

        self.assertEqual(sums(join), [EXPECTED] * RANKS)

    def test_ranks_sum_in_an_embedded_switch(self) -> None:
        settings = "group.switch = true"
        self.assertIsNone(native.Memory.open(settings, RANKS, False))
        plan = native.Plan(settings, RANKS, RANKS, RANKS, TIMEOUT)
        endpoints = [
            native.Endpoint("127.0.0.1", plan.sockets if rank else 0) for rank in range(RANKS)
        ]
        members = [[rank] for rank in range(RANKS)]
        addresses = [endpoint.addresses for endpoint in endpoints]
        switch = native.Switch(plan, "127.0.0.1", members, addresses)

        def join(rank: int) -> Any:
            return native.Communicator(
                endpoints[rank], switch.description, rank, None if rank else switch
            )

        self.assertEqual(sums(join), [EXPECTED] * RANKS)
        self.assertEqual(switch.close(), 0, "aggregators are still in use")


if __name__ == "__main__":
    unittest.main()
