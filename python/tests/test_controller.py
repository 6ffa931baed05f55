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
@pytest.mark.parametrize(("ranks_per_host", "io"), [(1, "udp"), (2, "")])
def test_ranks_sum_in_the_switch_of_their_network(
    tmp_path: Path, protocol: str, ranks_per_host: int, io: str
) -> None:
    with site(1, 2) as network:
        network.serve_all(protocol, tmp_path)
        ranks = network.ranks(ranks_per_host, *_script(20), TRIBUTARY_IO=io)
        printed = outputs(ranks, 120)
        assert [rank.returncode for rank in ranks] == [0] * len(ranks), printed
        # Only the first rank of a host sends packets.
        sent = [int(text.split()[-1]) for text in printed]
        assert [count > 0 for count in sent] == [True, *[False] * (ranks_per_host - 1)] * 2, printed


MESH = """
import torch, torch.distributed as dist
dist.init_process_group("tributary")
mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("hosts", "ranks"))
rank = dist.get_rank()
for step in range(5):
    for name, exact in (("hosts", 2 * (rank % 2) + 2), ("ranks", 4 * (rank // 2) + 1)):
        values = torch.full((10_000,), rank + step / 2)
        dist.all_reduce(values, group=mesh.get_group(name))
        assert torch.equal(values, torch.full((10_000,), exact + step)), (name, values, exact)
dist.all_reduce(values)
dist.destroy_process_group()
"""


def test_groups_of_a_mesh_share_the_hosts(tmp_path: Path) -> None:
    with site(1, 2) as network:
        network.serve_all("p4inc", tmp_path)
        ranks = network.ranks(2, sys.executable, "-c", MESH)
        printed = outputs(ranks, 120)
        assert [rank.returncode for rank in ranks] == [0] * 4, printed


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


# The first rank of a host, which sends its packets, another one, and all.
@pytest.mark.parametrize("dead", [[0], [1], range(RANKS)])
def test_ranks_of_a_host_that_die_are_named_at_all_ranks(tmp_path: Path, dead: list[int]) -> None:
    with site(RACKS, HOSTS) as network:
        network.serve_all("atp", tmp_path)
        ranks = network.ranks(RANKS, *_script(600, 0.1))
        wait_for("begun", ranks)
        gone = [RANKS + local for local in dead]
        for rank in gone:
            network.kill(f"rank{rank}")
        others = [rank for at, rank in enumerate(ranks) if at not in gone]
        for text in outputs(others, 60):
            assert f"rank {gone[0]} " in text and "PeerLostError" in text, text

