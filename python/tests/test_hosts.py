"""Ranks on two hosts: network namespaces that a pair of veth interfaces joins."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "pytorch" / "train.py"
NAMES = ("trb-py0", "trb-py1")
ADDRESSES = ("10.213.0.1", "10.213.0.2")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@pytest.fixture
def hosts() -> Iterator[None]:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root, and ip of iproute2")
    try:
        for name in NAMES:
            _ip("netns", "add", name)
        _ip("link", "add", "eth0", "netns", NAMES[0], "type", "veth", "peer", "name", "eth0", "netns", NAMES[1])
        for name, address in zip(NAMES, ADDRESSES):
            _ip("-n", name, "address", "add", f"{address}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
            _ip("-n", name, "link", "set", "lo", "up")
        yield
    finally:
        for name in NAMES:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


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
