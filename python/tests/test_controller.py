"""Ranks on hosts of a network with a controller: network namespaces that a `tributary switch` joins.

The program `tributary` must be on the PATH.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PROGRAM = shutil.which("tributary")
HOSTS = {"w1": 1, "w2": 2, "control": 9}
CONTROLLER = "10.214.1.9:29813"

# Without a checksum, a frame that has left the host is no packet (SIOCETHTOOL, ETHTOOL_STXCSUM).
CHECKSUMS = """
import array, fcntl, socket, struct
value = array.array("I", [0x17, 0])
request = struct.pack("16sP", b"eth0", value.buffer_info()[0])
fcntl.ioctl(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0x8946, request)
"""

RANK = """
import os, torch, torch.distributed as dist
dist.init_process_group("tributary")
rank, size = dist.get_rank(), dist.get_world_size()
for call in range(20):
    values = torch.arange(50_000, dtype=torch.float32) % 1009 * (rank + 1) + call
    dist.all_reduce(values)
    exact = torch.arange(50_000, dtype=torch.float32) % 1009 * 3 + 2 * call
    assert torch.allclose(values, exact, rtol=1e-5, atol=1e-2), (call, values, exact)
dist.destroy_process_group()
print("summed", flush=True)
"""


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def _network(protocol: str) -> str:
    hosts = "".join(
        f'[[topology.host]]\nname = "{name}"\nmac = "02:00:00:00:00:{number:02}"\nip = "10.214.1.{number}"\n'
        + ('role = "ps"\n' if name == "control" else "")
        + f'[[topology.link]]\nbetween = ["{name}", "s1"]\n'
        for name, number in HOSTS.items()
    )
    return f'protocol = "{protocol}"\n[[topology.switch]]\nname = "s1"\n{hosts}[[job]]\n'


class Net:
    """A switch, its controller and a parameter server."""

    def __init__(self, protocol: str, directory: Path) -> None:
        self._processes: list[subprocess.Popen[str]] = []
        network, socket = directory / "network.toml", f"unix:{directory}/s1.sock"
        network.write_text(_network(protocol))
        ports = [f"--port={port}@port{port}" for port in range(1, len(HOSTS) + 1)]
        self._serve("s1", "switch", *ports, "--p4runtime", socket)
        options = ("--switch", f"s1={socket}", "--listen", CONTROLLER, "--on-demand", "--allow-anyone")
        self._serve("control", "controller", str(network), *options)
        self._serve("control", "ps", "--controller", CONTROLLER, "--interface", "eth0")

    def start(self, host: str, *command: str, **variables: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            ["ip", "netns", "exec", f"trb-pc-{host}", *command],
            env={**os.environ, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._processes.append(process)
        return process

    def _serve(self, host: str, *arguments: str) -> None:
        assert PROGRAM is not None
        process = self.start(host, PROGRAM, *arguments)
        assert process.stdout is not None
        said = ""
        while "end with Ctrl-C" not in said:
            line = process.stdout.readline()
            assert line, said
            said += line

    def stop(self) -> None:
        for process in reversed(self._processes):
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()


@pytest.fixture
def hosts() -> Iterator[None]:
    if PROGRAM is None:
        pytest.skip("the program `tributary` is not on the PATH")
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root, and ip of iproute2")
    names = [*HOSTS, "s1"]
    try:
        for name in names:
            _ip("netns", "add", f"trb-pc-{name}")
            _ip("-n", f"trb-pc-{name}", "link", "set", "lo", "up")
        for port, (name, number) in enumerate(HOSTS.items(), 1):
            at = f"trb-pc-{name}"
            ends = ("eth0", "netns", at, "type", "veth", "peer", "name", f"port{port}", "netns", "trb-pc-s1")
            _ip("link", "add", *ends)
            _ip("-n", at, "link", "set", "eth0", "address", f"02:00:00:00:00:{number:02}")
            _ip("-n", at, "address", "add", f"10.214.1.{number}/24", "dev", "eth0")
            _ip("-n", at, "link", "set", "eth0", "up")
            _ip("-n", "trb-pc-s1", "link", "set", f"port{port}", "up")
            _ip("-n", at, "route", "add", "192.0.0.8/32", "dev", "eth0")
            # The packet that completes one of ESA's sums comes back to the host that sent it.
            accept = ("sh", "-c", "echo 1 > /proc/sys/net/ipv4/conf/eth0/accept_local")
            subprocess.run(["ip", "netns", "exec", at, *accept], check=True)
            neighbour = ("192.0.0.8", "lladdr", "02:00:5e:54:00:01", "dev", "eth0")
            _ip("-n", at, "neighbour", "add", *neighbour)
            command = ["ip", "netns", "exec", at, sys.executable, "-c", CHECKSUMS]
            subprocess.run(command, check=True)
            for other, peer in HOSTS.items():
                if other != name:
                    mac = f"02:00:00:00:00:{peer:02}"
                    _ip("-n", at, "neighbour", "add", f"10.214.1.{peer}", "lladdr", mac, "dev", "eth0")
        yield
    finally:
        for name in names:
            command = ["ip", "netns", "delete", f"trb-pc-{name}"]
            subprocess.run(command, check=False, capture_output=True)


@pytest.mark.parametrize("protocol", ["p4inc", "switchml", "atp", "esa"])
def test_ranks_sum_in_the_switch_of_their_network(hosts: None, tmp_path: Path, protocol: str) -> None:
    net = Net(protocol, tmp_path)
    try:
        variables = {
            "MASTER_ADDR": "10.214.1.1",
            "MASTER_PORT": "29517",
            "WORLD_SIZE": "2",
            "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": "eth0",
            "TRIBUTARY_CONTROLLER": CONTROLLER,
        }
        ranks = [
            net.start(host, sys.executable, "-c", RANK, **variables, RANK=str(rank))
            for rank, host in enumerate(["w1", "w2"])
        ]
        printed = [rank.communicate(timeout=60)[0] for rank in ranks]
        assert [rank.returncode for rank in ranks] == [0, 0], printed
        assert all(text.endswith("summed\n") for text in printed), printed
    finally:
        net.stop()
