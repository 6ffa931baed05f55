"""Ranks on hosts of a network with a controller, which has their jobs summed in its switches."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

import pytest

from sites import CONTROL, HOSTS, RACKS, RANKS, Site, outputs, site, wait_for

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


# A rank of a job that was admitted for its hosts. The first one prints the controller's jobs.
GIVEN = """
import json, os, subprocess, torch, torch.distributed as dist, tributary
dist.init_process_group("tributary")
rank, size = dist.get_rank(), dist.get_world_size()

def add(members, group=None):
    for call in range(5):
        values = torch.arange(20_000.0) * (rank + 1) + call
        dist.all_reduce(values, group=group)
        exact = torch.arange(20_000.0) * sum(one + 1 for one in members) + len(members) * call
        assert torch.allclose(values, exact, rtol=1e-5, atol=1e-2), (call, values, exact)

def jobs():
    controller = os.environ["TRIBUTARY_CONTROLLER"]
    command = ("tributary", "job", "list", "--controller", controller, "--json")
    listed = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return {job["job"]: (job["name"], job["workers"]) for job in listed["jobs"]}

# It has as many members as the job has workers, and comes before the group of all ranks.
firsts = list(range(0, size, int(os.environ["LOCAL_WORLD_SIZE"])))
group = dist.new_group(firsts)
if rank in firsts:
    add(firsts, group)
if rank == 0:
    seen = {"given": int(os.environ["TRIBUTARY_JOB"]), "before": jobs()}
add(range(size))
sent = [None] * size
dist.all_gather_object(sent, tributary.stats()["packets_sent"] > 0)
if rank == 0:
    seen.update(after=jobs(), sent=sent)
    print("SEEN", json.dumps(seen), flush=True)
dist.barrier()
dist.destroy_process_group()
"""


def _assert_given(printed: str, name: str, workers: list[str]) -> None:
    """That the group of all ranks has taken the job of that name, and the other group another."""
    seen = json.loads(next(line for line in printed.splitlines() if line.startswith("SEEN"))[4:])
    given = seen["before"][str(seen["given"])]
    assert given == [name, workers], seen
    # The other group's job was there before the group of all ranks, which needed none.
    assert len(seen["before"]) == 2 and seen["after"] == seen["before"], seen
    assert seen["sent"] == [True, False] * len(workers), seen


@pytest.mark.parametrize("protocol", ["p4inc", "esa"])
def test_ranks_take_a_job_that_was_admitted_for_their_hosts(tmp_path: Path, protocol: str) -> None:
    """As Slurm's prolog admits it. It is there for ranks that are started again, too."""
    with site(2, 1) as network:
        network.serve_all(protocol, tmp_path)
        settings = tmp_path / "job.toml"
        settings.write_text("[job]\n")
        workers = [f"--worker={host}" for host in network.hosts]
        options = ("--controller", network.controller, "--settings", str(settings))
        admitted = network.ask("job", "submit", "--name", "planned", *options, *workers)
        given = re.match(r"job (\d+)", admitted)
        assert given, admitted
        variables = {"TRIBUTARY_JOB": given[1], "TRIBUTARY_WORKERS": ",".join(network.hosts)}
        ranks = network.ranks(2, *_script(600, 0.1), **variables)
        wait_for("begun", ranks)
        for rank in (2, 3):
            network.kill(f"rank{rank}")
        for text in outputs(ranks[:2], 60):
            assert "rank 2 " in text and "PeerLostError" in text, text
        ranks = network.ranks(2, sys.executable, "-c", GIVEN, LOCAL_WORLD_SIZE="2", **variables)
        printed = outputs(ranks, 120)
        assert [rank.returncode for rank in ranks] == [0] * 4, printed
        _assert_given(printed[0], "planned", network.hosts)
        network.ask("job", "cancel", "--controller", network.controller, given[1])
        network.wait_until_free()


def _serve_manager(network: Site, directory: Path) -> str:
    """Starts the placement manager, and an agent on each host. Returns the manager's address."""
    file, address = directory / "site.toml", f"{network.address(CONTROL)}:9640"
    servers = (f'[[server]]\nhost = "{host}"\ngpus = 2\n' for host in network.hosts)
    file.write_text('network = "network.toml"\n' + "".join(servers))
    common = ("--controller", network.controller)
    options = ("--listen", address, "--allow-anyone", "--period", "200", *common)
    database = ("--database", str(directory / "manager.redb"))
    network.serve("manager", CONTROL, "place", "serve", str(file), *options, *database)
    for host in network.hosts:
        own = ("--server", host, "--interface", "eth0", "--directory", str(directory / host))
        agent = ("place", "agent", "--manager", address, *common, *own, "--commands")
        network.serve(f"agent {host}", host, *agent, until="registered")
    return address


@pytest.mark.parametrize("protocol", ["p4inc", "atp", "esa"])
def test_torchrun_takes_the_job_that_the_manager_has_placed(tmp_path: Path, protocol: str) -> None:
    with site(2, 1) as network:
        network.serve_all(protocol, tmp_path)
        manager = _serve_manager(network, tmp_path)
        script = tmp_path / "given.py"
        script.write_text(GIVEN)
        command = (sys.executable, "-m", "torch.distributed.run", str(script))
        options = ("--manager", manager, "--name", "placed", "--gpus", "4", "--retries", "0")
        logs = [tmp_path / host / f"job-1-1-{at}.log" for at, host in enumerate(network.hosts)]
        try:
            network.ask("job", "submit", *options, "--wait", "--", *command)
        finally:
            # Shown if the test fails.
            print(*(log.read_text() for log in logs if log.exists()), sep="\n")
        _assert_given(logs[0].read_text(), "placed", network.hosts)
        network.wait_until_free()
