"""Ranks on two hosts: network namespaces that a pair of veth interfaces joins."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "pytorch" / "train.py"
NAMES = ("trb-py0", "trb-py1")
ADDRESSES = ("10.213.0.1", "10.213.0.2")
IPV6_ADDRESSES = ("fd0e:213::1", "fd0e:213::2")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@contextlib.contextmanager
def _hosts(*addresses: Sequence[str]) -> Iterator[None]:
    """Two hosts, each with an address: the arguments of `ip address add` before the interface."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root, and ip of iproute2")
    try:
        for name in NAMES:
            _ip("netns", "add", name)
        ends = ("type", "veth", "peer", "name", "eth0", "netns", NAMES[1])
        _ip("link", "add", "eth0", "netns", NAMES[0], *ends)
        for name, address in zip(NAMES, addresses):
            _ip("-n", name, "address", "add", *address, "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
            _ip("-n", name, "link", "set", "lo", "up")
        yield
    finally:
        for name in NAMES:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


@pytest.fixture
def hosts() -> Iterator[None]:
    with _hosts(*([f"{address}/24"] for address in ADDRESSES)):
        yield


@pytest.fixture
def ipv6_hosts() -> Iterator[None]:
    if not Path("/proc/net/if_inet6").exists():
        pytest.skip("this kernel has no IPv6")
    with _hosts(*([f"{address}/64", "nodad"] for address in IPV6_ADDRESSES)):
        yield


def _start(node: int, losses: Path, backend: str) -> subprocess.Popen[str]:
    command = [
        *("ip", "netns", "exec", NAMES[node], sys.executable, "-m", "torch.distributed.run"),
        *("--nnodes", "2", "--nproc-per-node", "2", "--node-rank", str(node)),
        *("--master-addr", ADDRESSES[0], "--master-port", "29511", str(EXAMPLE)),
        *("--backend", backend, "--steps", "30", "--losses", str(losses)),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "eth0"}
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def test_ranks_on_two_hosts_train_as_with_gloo(hosts: None, tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="the example needs scikit-learn")
    losses = {}
    for backend in ("tributary", "gloo"):
        file = tmp_path / f"{backend}.json"
        nodes = [_start(node, file, backend) for node in range(2)]
        try:
            printed = [node.communicate(timeout=180)[0] for node in nodes]
        finally:
            for node in nodes:
                node.kill()
        assert [node.returncode for node in nodes] == [0, 0], printed
        losses[backend] = json.loads(file.read_text())
    worst = max(abs(a - b) for a, b in zip(losses["tributary"], losses["gloo"]))
    assert len(losses["tributary"]) == 30 and worst < 0.01, worst


def _start_one_each(program: str, master: str) -> list[subprocess.Popen[str]]:
    """A rank on each host, whose input and output are pipes."""
    variables = {"MASTER_ADDR": master, "MASTER_PORT": "29511", "WORLD_SIZE": "2"}
    nodes = []
    for rank, name in enumerate(NAMES):
        environment = {**os.environ, **variables, "RANK": str(rank), "GLOO_SOCKET_IFNAME": "eth0"}
        command = ["ip", "netns", "exec", name, sys.executable, "-c", program]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        nodes.append(subprocess.Popen(command, env=environment, **pipes))
    return nodes


SUM = """
import sys, time, datetime, torch, torch.distributed as dist
dist.init_process_group("tributary", timeout=datetime.timedelta(seconds=300))
print("ready", flush=True)
sys.stdin.readline()
begin = time.monotonic()
try:
    dist.all_reduce(torch.ones(10))
except Exception as error:
    print(f"{type(error).__name__} after {time.monotonic() - begin:.0f} s: {error}", flush=True)
"""


@pytest.mark.parametrize(
    ("blocked", "cause"),
    [
        ("meta l4proto udp", "all ranks have made call 0; is the network up?"),
        ("tcp flags & (syn | ack) == syn", f"cannot reach the first rank at {ADDRESSES[0]}:"),
    ],
)
def test_a_blocked_network_is_an_error_soon(hosts: None, blocked: str, cause: str) -> None:
    if shutil.which("nft") is None:
        pytest.skip("the test blocks packets with nft, of nftables")
    nodes = _start_one_each(SUM, ADDRESSES[0])
    try:
        for node in nodes:
            assert node.stdout.readline() == "ready\n"
        chain = f"type filter hook input priority 0\niifname eth0 {blocked} drop"
        rules = f"table ip blocked {{\nchain input {{\n{chain}\n}}\n}}\n"
        subprocess.run(
            ["ip", "netns", "exec", NAMES[0], "nft", "-f", "-"], input=rules, text=True, check=True
        )
        for node in nodes:
            node.stdin.write("\n")
            node.stdin.flush()
        printed = [node.communicate(timeout=60)[0] for node in nodes]
    finally:
        for node in nodes:
            node.kill()
    assert all(cause in text for text in printed), printed


SUMS = """
import time, datetime, torch, torch.distributed as dist
dist.init_process_group("tributary", timeout=datetime.timedelta(seconds=300))
dist.all_reduce(torch.ones(10))
print("ready", flush=True)
begin = time.monotonic()
try:
    while True:
        dist.all_reduce(torch.ones(10))
        begin = time.monotonic()
except Exception as error:
    print(f"{time.monotonic() - begin:.0f} {type(error).__name__}: {error}", flush=True)
"""


def test_a_host_that_is_cut_off_is_noticed_soon(hosts: None) -> None:
    nodes = _start_one_each(SUMS, ADDRESSES[0])
    try:
        for node in nodes:
            assert node.stdout.readline() == "ready\n"
        # Both hosts send to a station that does not exist.
        for name, other in zip(NAMES, reversed(ADDRESSES)):
            nowhere = ("lladdr", "02:00:00:00:00:99", "nud", "permanent")
            _ip("-n", name, "neighbour", "replace", other, "dev", "eth0", *nowhere)
        printed = [node.stdout.readline() for node in nodes]
    finally:
        for node in nodes:
            node.kill()
    for text, lost in zip(printed, ("rank 1 is gone: ", "rank 0 has the switch and is gone: ")):
        seconds, error = text.split(maxsplit=1)
        assert error.startswith(f"PeerLostError: {lost}"), printed
        assert 5 < int(seconds) < 18, printed


SUM_ONCE = """
import torch, tributary, torch.distributed as dist
dist.init_process_group("tributary")
values = torch.arange(100_000.0) * (dist.get_rank() + 1)
dist.all_reduce(values)
exact = torch.arange(100_000.0) * 3
print(torch.allclose(values, exact), tributary.stats()["packets_sent"] > 0)
dist.destroy_process_group()
"""


@pytest.mark.parametrize("protocol", ["p4inc", "esa"])
def test_ranks_meet_on_hosts_with_ipv6_only(
    ipv6_hosts: None, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIBUTARY_SETTINGS", f"protocol = '{protocol}'")
    nodes = _start_one_each(SUM_ONCE, IPV6_ADDRESSES[0])
    try:
        printed = [node.communicate(timeout=60)[0] for node in nodes]
    finally:
        for node in nodes:
            node.kill()
    assert printed == ["True True\n"] * 2
    assert [node.returncode for node in nodes] == [0, 0]
