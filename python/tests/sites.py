"""Networks with a controller: racks of hosts in network namespaces, each rack with a `tributary switch`.

The program `tributary` must be on the PATH.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PROGRAM = shutil.which("tributary")
CONTROL = "control"
# By hand, three hosts in each rack with four ranks each: 2x3x4.
RACKS, HOSTS, RANKS = map(int, os.environ.get("TRIBUTARY_TEST_SITE", "2x2x2").split("x"))
# Others may run the tests at the same time.
_PREFIX = f"trb-{os.getpid()}-"
_SUBNET = "10.214.1"
_END = "end with Ctrl-C"

# Without a checksum, a frame that has left the host is no packet (SIOCETHTOOL, ETHTOOL_STXCSUM).
_CHECKSUMS = """
import array, fcntl, socket, struct
value = array.array("I", [0x17, 0])
request = struct.pack("16sP", b"eth0", value.buffer_info()[0])
fcntl.ioctl(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0x8946, request)
"""


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def _inside(namespace: str, *command: str) -> list[str]:
    return ["ip", "netns", "exec", _PREFIX + namespace, *command]


class Site:
    """Switches, hosts, and what a network provides: a controller and a parameter server.

    The links of hosts lose this share of the packets of sums in each direction: ranks and parameter
    server learn the share from the controller, and drop packets themselves.
    """

    def __init__(self, racks: int, hosts_per_rack: int, loss: float = 0.0) -> None:
        self._loss = loss
        numbers = itertools.count(1)
        self.switches = [f"s{rack}" for rack in range(1, racks + 1)]
        self.hosts = [f"w{next(numbers)}" for _ in range(racks * hosts_per_rack)]
        # Each with the ends of its links, in the order of its ports.
        self._links: list[tuple[str, str]] = [
            (host, self.switches[at // hosts_per_rack]) for at, host in enumerate(self.hosts)
        ]
        self._links.append((CONTROL, self.switches[0]))
        self._links += itertools.combinations(self.switches, 2)
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self.controller = f"{self.address(CONTROL)}:29813"

    def number(self, host: str) -> int:
        """By which a host is known, from 1."""
        return [*self.hosts, CONTROL].index(host) + 1

    def address(self, host: str) -> str:
        """The IP address of a host."""
        return f"{_SUBNET}.{self.number(host)}"

    def _mac(self, host: str) -> str:
        return f"02:00:00:00:00:{self.number(host):02x}"

    def _ports(self, switch: str) -> list[int]:
        """The links of a switch, as places in the list of all."""
        return [at for at, ends in enumerate(self._links) if switch in ends]

    @contextlib.contextmanager
    def namespaces(self) -> Iterator[None]:
        """Makes the network, without any process."""
        names = [*self.hosts, CONTROL, *self.switches]
        try:
            for name in names:
                _ip("netns", "add", _PREFIX + name)
                _ip("-n", _PREFIX + name, "link", "set", "lo", "up")
            for at, ends in enumerate(self._links):
                self._connect(at, ends)
            for host in [*self.hosts, CONTROL]:
                self._configure(host)
            yield
        finally:
            for name in names:
                command = ["ip", "netns", "delete", _PREFIX + name]
                subprocess.run(command, check=False, capture_output=True)

    def _connect(self, at: int, ends: tuple[str, str]) -> None:
        names = [f"port{at}" if end in self.switches else "eth0" for end in ends]
        first, second = (
            ["name", name, "netns", _PREFIX + end] for name, end in zip(names, ends)
        )
        _ip("link", "add", *first, "type", "veth", "peer", *second)
        for name, end in zip(names, ends):
            _ip("-n", _PREFIX + end, "link", "set", name, "up")

    def _configure(self, host: str) -> None:
        at = ("-n", _PREFIX + host)
        _ip(*at, "link", "set", "eth0", "address", self._mac(host))
        _ip(*at, "address", "add", f"{self.address(host)}/24", "dev", "eth0")
        _ip(*at, "route", "add", "192.0.0.8/32", "dev", "eth0")
        # The packet that completes one of ESA's sums comes back to the host that sent it.
        accept = "echo 1 > /proc/sys/net/ipv4/conf/eth0/accept_local"
        subprocess.run(_inside(host, "sh", "-c", accept), check=True)
        subprocess.run(_inside(host, sys.executable, "-c", _CHECKSUMS), check=True)
        neighbours = {self.address(other): self._mac(other) for other in [*self.hosts, CONTROL]}
        neighbours["192.0.0.8"] = "02:00:5e:54:00:01"
        for address, mac in neighbours.items():
            _ip(*at, "neighbour", "replace", address, "lladdr", mac, "dev", "eth0")

    def file(self, protocol: str) -> str:
        """The network as its controller knows it."""
        switches = "".join(f'[[topology.switch]]\nname = "{name}"\n' for name in self.switches)
        hosts = "".join(
            f'[[topology.host]]\nname = "{name}"\nmac = "{self._mac(name)}"\nip = "{self.address(name)}"\n'
            + ('role = "ps"\n' if name == CONTROL else "")
            for name in [*self.hosts, CONTROL]
        )
        links = "".join(f'[[topology.link]]\nbetween = ["{a}", "{b}"]\n' for a, b in self._links)
        faults = "".join(
            f'[[faults.link]]\nbetween = ["{a}", "{b}"]\nloss = {self._loss}\n'
            for a, b in self._links
            if a not in self.switches
        )
        return f'protocol = "{protocol}"\n{switches}{hosts}{links}{faults}[[job]]\n'

    def start(self, name: str, host: str, *command: str, **variables: str) -> subprocess.Popen[str]:
        """Starts a process of a host, by whose name it is stopped."""
        process = subprocess.Popen(
            _inside(host, *command),
            env={**os.environ, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._processes[name] = process
        return process

    def serve(self, name: str, host: str, *arguments: str, until: str = _END) -> None:
        """Starts `tributary`, and waits until it prints that it serves."""
        assert PROGRAM is not None
        wait_for(until, [self.start(name, host, PROGRAM, *arguments)])

    def serve_all(self, protocol: str, directory: Path) -> None:
        """Starts all that the network provides."""
        (directory / "network.toml").write_text(self.file(protocol))
        for switch in self.switches:
            self.serve_switch(switch, directory)
        self.serve_controller(directory)
        self.serve_server()

    def serve_controller(self, directory: Path) -> None:
        """Starts the controller, which knows the jobs of an earlier one."""
        at = {switch: self._socket(switch, directory) for switch in self.switches}
        switches = [f"--switch={switch}={socket}" for switch, socket in at.items()]
        options = ("--listen", self.controller, "--on-demand", "--allow-anyone")
        files = (str(directory / "network.toml"), "--journal", str(directory / "controller.redb"))
        self.serve("controller", CONTROL, "controller", *files, *switches, *options)

    def serve_switch(self, switch: str, directory: Path, drops_others: bool = False) -> None:
        """Starts a switch, which may drop as many of hosts' other frames, such as those of TCP."""
        ports = [f"--port={port}@port{at}" for port, at in enumerate(self._ports(switch), 1)]
        options = ["--p4runtime", self._socket(switch, directory)]
        if drops_others:
            options += ["--faults", f"{directory}/network.toml:{switch}"]
        self.serve(switch, switch, "switch", *ports, *options)

    def serve_server(self) -> None:
        """Starts the parameter server, which is the reminder agent, too."""
        self.serve("ps", CONTROL, "ps", "--controller", self.controller, "--interface", "eth0")

    @staticmethod
    def _socket(switch: str, directory: Path) -> str:
        return f"unix:{directory}/{switch}.sock"

    def ranks(self, ranks_per_host: int, *command: str, **variables: str) -> list[subprocess.Popen[str]]:
        """Starts a script's ranks, on each host so many."""
        places = [(host, local) for host in self.hosts for local in range(ranks_per_host)]
        common = {
            "MASTER_ADDR": self.address(self.hosts[0]),
            "MASTER_PORT": "29517",
            "WORLD_SIZE": str(len(places)),
            "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": "eth0",
            "TRIBUTARY_CONTROLLER": self.controller,
            **variables,
        }
        return [
            self.start(
                f"rank{rank}", host, *command, **common, RANK=str(rank), LOCAL_RANK=str(local)
            )
            for rank, (host, local) in enumerate(places)
        ]

    def ask(self, *arguments: str) -> str:
        """What `tributary` prints on the controller's host."""
        assert PROGRAM is not None
        command = _inside(CONTROL, PROGRAM, *arguments)
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    def jobs(self) -> dict[int, str]:
        """The names of the controller's jobs, by their IDs."""
        listed = json.loads(self.ask("job", "list", "--controller", self.controller, "--json"))
        return {job["job"]: job["name"] for job in listed["jobs"]}

    def wait_until_free(self) -> None:
        """Waits until the controller has no job: it may learn later that the last rank has left."""
        deadline = time.monotonic() + 10
        while self.jobs():
            assert time.monotonic() < deadline, self.jobs()
            time.sleep(0.1)

    def kill(self, name: str) -> None:
        """Kills a process, and waits for its end."""
        self._processes[name].kill()
        self._processes[name].wait()

    def kill_host(self, host: str) -> None:
        """Kills all processes of a host."""
        pids = subprocess.check_output(["ip", "netns", "pids", _PREFIX + host], text=True)
        for pid in map(int, pids.split()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def stop(self) -> None:
        """Ends all processes."""
        for process in reversed(self._processes.values()):
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()


@contextlib.contextmanager
def site(racks: int, hosts_per_rack: int, loss: float = 0.0) -> Iterator[Site]:
    """A network without any process, which the end of the block ends with all of its processes."""
    if PROGRAM is None:
        pytest.skip("the program `tributary` is not on the PATH")
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root, and ip of iproute2")
    made = Site(racks, hosts_per_rack, loss)
    with made.namespaces():
        try:
            yield made
        finally:
            made.stop()


def wait_for(text: str, processes: list[subprocess.Popen[str]]) -> None:
    """Waits until each of the processes has printed a line with this text."""
    for process in processes:
        assert process.stdout is not None
        said = ""
        while text not in said:
            line = process.stdout.readline()
            assert line, said
            said += line


def outputs(ranks: list[subprocess.Popen[Any]], seconds: float) -> list[str]:
    """What ranks have printed when they have ended."""
    return [rank.communicate(timeout=seconds)[0] for rank in ranks]
