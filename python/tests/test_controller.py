"""Ranks on hosts of a network with a controller, which has their jobs summed in its switches."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from sites import outputs, site, wait_for

RANK = """
import os, sys, time, torch, torch.distributed as dist, tributary
dist.init_process_group("tributary")
rank, size = dist.get_rank(), dist.get_world_size()
calls, pause = int(sys.argv[1]), float(sys.argv[2])
base = torch.arange(50_000, dtype=torch.float32) % 1009
for call in range(calls):
    values = base * (rank + 1) + call
    dist.all_reduce(values)
    exact = base * (size * (size + 1) / 2) + size * call
    assert torch.allclose(values, exact, rtol=1e-5, atol=1e-2), (call, values, exact)
    few = torch.full((3,), rank + 0.5)
    dist.all_reduce(few, op=dist.ReduceOp.AVG)
    assert torch.equal(few, torch.full((3,), size / 2)), few
    if call == 0:
        print("begun", flush=True)
    time.sleep(pause)
packets = tributary.stats()["packets_sent"]
dist.destroy_process_group()
print(f"summed {packets}", flush=True)
"""


def _script(calls: int, pause: float = 0.0) -> tuple[str, ...]:
    return (sys.executable, "-c", RANK, str(calls), str(pause))


@pytest.mark.parametrize("protocol", ["p4inc", "switchml", "atp", "esa"])
@pytest.mark.parametrize("ranks_per_host", [1, 2])
def test_ranks_sum_in_the_switch_of_their_network(
    tmp_path: Path, protocol: str, ranks_per_host: int
) -> None:
    with site(1, 2) as network:
        network.serve_all(protocol, tmp_path)
        ranks = network.ranks(ranks_per_host, *_script(20))
        printed = outputs(ranks, 120)
        assert [rank.returncode for rank in ranks] == [0] * len(ranks), printed
        # Only the first rank of a host sends packets.
        sent = [int(text.split()[-1]) for text in printed]
        assert [count > 0 for count in sent] == [True, *[False] * (ranks_per_host - 1)] * 2, printed


# By hand, three hosts in each rack with four ranks each: 2x3x4.
RACKS, HOSTS, RANKS = map(int, os.environ.get("TRIBUTARY_TEST_SITE", "2x2x2").split("x"))


@pytest.mark.parametrize("protocol", ["p4inc", "atp", "esa"])
def test_sums_over_racks_survive_a_switch_and_a_server(tmp_path: Path, protocol: str) -> None:
    with site(RACKS, HOSTS) as network:
        network.serve_all(protocol, tmp_path)
        ranks = network.ranks(RANKS, *_script(60, 0.1))
        wait_for("begun", ranks)
        network.kill("s2")
        time.sleep(0.5)
        network.serve_switch("s2", tmp_path)
        time.sleep(1)
        network.kill("ps")
        time.sleep(0.5)
        network.serve_server()
        printed = outputs(ranks, 300)
        assert [rank.returncode for rank in ranks] == [0] * len(ranks), printed


def test_a_host_that_dies_is_named_at_all_ranks(tmp_path: Path) -> None:
    with site(RACKS, HOSTS) as network:
        network.serve_all("atp", tmp_path)
        ranks = network.ranks(RANKS, *_script(600, 0.1))
        wait_for("begun", ranks)
        gone = range(RANKS, 2 * RANKS)
        for rank in gone:
            network.kill(f"rank{rank}")
        others = [rank for at, rank in enumerate(ranks) if at not in gone]
        for text in outputs(others, 60):
            assert f"rank {RANKS} " in text and "Error" in text, text

