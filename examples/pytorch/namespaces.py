"""A network on this machine: hosts in network namespaces, whose links to one switch have a rate.

It needs root, `ip` and `tc` of iproute2, and the program `tributary`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

SWITCH = "switch"
# The controller's host, whose link has no rate.
CONTROL = "control"
SUBNET = "10.214.2"
PORT = 29813

# More than a socket's send buffer: a sender that is too fast waits, and no frame is dropped.
QUEUE_BYTES = 400_000
BURST_BYTES = 8_000

# A frame whose checksum the kernel leaves to a device is no packet for the switch (SIOCETHTOOL,
# ETHTOOL_STXCSUM).
CHECKSUMS = """
import array, fcntl, socket, struct
value = array.array("I", [0x17, 0])
request = struct.pack("16sP", b"eth0", value.buffer_info()[0])
fcntl.ioctl(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0x8946, request)
"""


def missing(program: str) -> str | None:
    """Why this cannot run here."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if not shutil.which("ip") or not shutil.which("tc"):
        return "network namespaces and links with a rate need ip and tc of iproute2"
    if not shutil.which(program):
        return "the program `tributary` is not on the PATH (cargo build --release); see --program"
    return None


def show(text: str) -> None:
    """Shows what is running, if a person is looking."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


class Network:
    """Workers, parameter servers and a controller at one switch, and their processes."""

    def __init__(
        self,
        workers: Sequence[str],
        servers: Sequence[str],
        megabits: float,
        program: str,
        directory: Path,
    ) -> None:
        """`megabits` is the rate of each link in each direction, in Mb/s.

        Files and the output of processes go into `directory`.
        """
        self.servers = list(servers)
        self.hosts = [*workers, *servers, CONTROL]
        self._megabits = megabits
        self._program = program
        self._directory = directory
        # Others may do the same on this machine.
        self._prefix = f"jobs-{os.getpid()}-"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.controller = f"{self.address(CONTROL)}:{PORT}"

    def address(self, host: str) -> str:
        """The IP address of a host."""
        return f"{SUBNET}.{self.hosts.index(host) + 1}"

    def _mac(self, host: str) -> str:
        return f"02:00:00:00:00:{self.hosts.index(host) + 1:02x}"

    @contextlib.contextmanager
    def namespaces(self) -> Iterator[None]:
        """Makes the namespaces and links, and removes them at the end."""
        names = [SWITCH, *self.hosts]
        try:
            for name in names:
                _run("ip", "netns", "add", self._prefix + name)
                _run("ip", "-n", self._prefix + name, "link", "set", "lo", "up")
            for port, host in enumerate(self.hosts, 1):
                self._connect(port, host)
            yield
        finally:
            self.stop()
            for name in names:
                command = ["ip", "netns", "delete", self._prefix + name]
                subprocess.run(command, check=False, capture_output=True)

    def _connect(self, port: int, host: str) -> None:
        inside, there = self._prefix + host, self._prefix + SWITCH
        ends = {inside: "eth0", there: f"port{port}"}
        own, other = (["name", name, "netns", space] for space, name in ends.items())
        _run("ip", "link", "add", *own, "type", "veth", "peer", *other)
        at = ("ip", "-n", inside)
        _run(*at, "link", "set", "eth0", "address", self._mac(host))
        _run(*at, "address", "add", f"{self.address(host)}/24", "dev", "eth0")
        _run("ip", "netns", "exec", inside, sys.executable, "-c", CHECKSUMS)
        for space, name in ends.items():
            _run("ip", "-n", space, "link", "set", name, "up")
            if host != CONTROL:
                rate = ("rate", f"{self._megabits}mbit", "burst", str(BURST_BYTES))
                shape = ("root", "tbf", *rate, "limit", str(QUEUE_BYTES))
                _run("tc", "-n", space, "qdisc", "add", "dev", name, *shape)
        for neighbour in self.hosts:
            if neighbour != host:
                entry = (self.address(neighbour), "lladdr", self._mac(neighbour), "dev", "eth0")
                _run(*at, "neighbour", "replace", *entry)

    def start(self, name: str, host: str, *command: str, **variables: str) -> None:
        """Starts a process on a host; its output goes into a file."""
        with open(self._log(name), "wb") as log:
            self._processes[name] = subprocess.Popen(
                ["ip", "netns", "exec", self._prefix + host, *command],
                env={**os.environ, **variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def serve(self, file: str) -> None:
        """Starts switch, controller and parameter servers for a network file from `describe`."""
        (self._directory / "network.toml").write_text(file)
        socket = f"unix:{self._directory}/switch.sock"
        ports = [f"--port={port}@port{port}" for port, _ in enumerate(self.hosts, 1)]
        self._start_program(SWITCH, SWITCH, "switch", *ports, "--p4runtime", socket)
        network = (str(self._directory / "network.toml"), f"--switch={SWITCH}={socket}")
        options = ("--listen", self.controller, "--on-demand", "--allow-anyone")
        self._start_program(CONTROL, CONTROL, "controller", *network, *options)
        for host in self.servers:
            at = ("--controller", self.controller, "--interface", "eth0")
            self._start_program(host, host, "ps", *at)

    def describe(self, protocol: str) -> str:
        """The network file of the controller, with these lines about the protocol."""
        lines = [protocol, f'[[topology.switch]]\nname = "{SWITCH}"']
        for host in self.hosts:
            addresses = f'mac = "{self._mac(host)}"\nip = "{self.address(host)}"'
            role = "ps" if host in self.servers else "worker"
            lines.append(f'[[topology.host]]\nname = "{host}"\nrole = "{role}"\n{addresses}')
        lines += [f'[[topology.link]]\nbetween = ["{host}", "{SWITCH}"]' for host in self.hosts]
        return "\n".join([*lines, "[[job]]", ""])

    def _start_program(self, name: str, host: str, *arguments: str) -> None:
        """Starts `tributary`, and waits until it prints that it serves."""
        self.start(name, host, self._program, *arguments)
        deadline = time.monotonic() + 60
        while "end with Ctrl-C" not in self._log(name).read_text():
            if self._processes[name].poll() is not None or time.monotonic() > deadline:
                self.fail(f"`tributary {arguments[0]}` has not begun to serve", name)
            time.sleep(0.05)

    def check(self, names: Sequence[str]) -> bool:
        """Whether all of these processes have ended. Ends the program if one of any has failed."""
        for name, process in self._processes.items():
            if process.poll() not in (None, 0):
                self.fail(f"{name} ended with status {process.returncode}", name)
        return all(self._processes[name].poll() == 0 for name in names)

    def fail(self, problem: str, name: str) -> None:
        """Ends the program with an error and the last lines of a process."""
        printed = self._log(name).read_text(errors="replace").splitlines()
        sys.exit("\n".join([f"error: {problem}; its last lines are:", *printed[-15:]]))

    def _log(self, name: str) -> Path:
        return self._directory / f"{name}.log"

    def processor_seconds(self) -> dict[str, float]:
        """What each running process has used so far."""
        used = {}
        for name, process in self._processes.items():
            with contextlib.suppress(FileNotFoundError):
                # The name of the program, in parentheses, may have spaces.
                fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
                used[name] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return used

    def bytes_of(self, host: str) -> tuple[int, int]:
        """What a host's link has carried so far: from the host, and to it."""
        shown = _run("ip", "-json", "-s", "-n", self._prefix + host, "link", "show", "eth0")
        counters = json.loads(shown)[0]["stats64"]
        return counters["tx"]["bytes"], counters["rx"]["bytes"]

    def stop(self) -> None:
        """Ends all processes."""
        for process in reversed(self._processes.values()):
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        self._processes.clear()


def _run(*command: str) -> str:
    """What a command prints."""
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        sys.exit(f"error: `{' '.join(command)}` failed: {ended.stderr.strip()}")
    return ended.stdout
