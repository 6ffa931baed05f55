"""The network under Mininet: hosts, BMv2 switches, cables and patch switches."""

import collections
import ctypes
import os
import signal
import subprocess
import sys
import threading

from mininet.link import TCLink
from mininet.log import setLogLevel
from mininet.net import Mininet
from mininet.node import Host, Node, Switch

from topology import Wrong

HERE = os.path.dirname(os.path.abspath(__file__))
CPU_PORT = "510"
PREFIX_LENGTH = 8
PR_SET_PDEATHSIG = 1
# Lines that are kept of what a process says.
KEPT = 40


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Process:
    """A process, in a node or beside them, whose lines go to `hear`."""

    def __init__(self, what, command, node=None, hear=None):
        self.what = what
        self.lines = collections.deque(maxlen=KEPT)
        settings = dict(
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            bufsize=1,
            preexec_fn=die_with_parent,
        )
        start = node.popen if node else subprocess.Popen
        self.process = start(command, **settings)
        self.reader = threading.Thread(target=self.read, args=(hear,), daemon=True)
        self.reader.start()

    def read(self, hear):
        for line in self.process.stdout:
            line = line.rstrip("\n")
            self.lines.append(line)
            if hear:
                hear(line)

    def ended(self):
        """Why it is not running any more, in a few words; None if it runs."""
        status = self.process.poll()
        if status is None:
            return None
        self.reader.join(1)
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
        last = next((line for line in reversed(self.lines) if line.strip()), "")
        return f"{self.what} ended with {how}" + (f" ({last.removeprefix('error: ')})" if last else "")

    def ask(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)

    def end(self, seconds):
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.reader.join(1)


class Bmv2(Switch):
    """simple_switch_grpc, without a program: whoever controls it pushes one."""

    def __init__(self, name, program, socket, **params):
        super().__init__(name, dpid="1", **{**params, "inNamespace": True})
        self.program, self.socket, self.running = program, socket, None

    def start(self, _controllers=None):
        ports = [f"{port}@{interface}" for port, interface in self.intfs.items() if port > 0]
        command = [self.program, "--no-p4", "--log-level", "off", "--device-id", "1"]
        for port in ports:
            command += ["-i", port]
        command += ["--", "--cpu-port", CPU_PORT, "--grpc-server-addr", f"unix:{self.socket}"]
        self.running = Process(f"switch {self.name} (simple_switch_grpc)", command, self)

    def kill(self):
        self.running.process.kill()
        self.running.process.wait()

    def stop(self, deleteIntfs=True):
        if self.running:
            self.running.process.terminate()
            self.running.end(5)
        super().stop(deleteIntfs)


class Cable:
    """A process that passes frames between two interfaces of a node, with the faults of a link."""

    def __init__(self, node, interfaces, tributary, faults):
        command = [tributary, "cable", "--between", *interfaces]
        if faults:
            command += ["--faults", faults]
        self.running = Process(f"cable in {node.name} between {' and '.join(interfaces)}", command, node)


class Patch:
    """An optical patch switch: ports, and circuits between two of them. It knows no packets."""

    def __init__(self, node, tributary):
        self.node, self.tributary = node, tributary
        # (port, port) -> the cable that stands for the light between them.
        self.circuits = {}

    def connect(self, a, b, faults=None):
        """Sets a cross-connect; ports that it needs must be free."""
        taken = {port for circuit in self.circuits for port in circuit}
        if taken & {a, b}:
            raise Wrong(f"patch {self.node.name}: port {(taken & {a, b}).pop()} has a circuit already")
        interfaces = [f"port{port}" for port in (a, b)]
        self.circuits[a, b] = Cable(self.node, interfaces, self.tributary, faults)

    def disconnect(self, a, b):
        """Takes a cross-connect away."""
        cable = self.circuits.pop((a, b))
        cable.running.ask()
        cable.running.end(2)


class Network:
    """All of it, started."""

    def __init__(self, plan, topology, directory, tools, job_file, netem):
        setLogLevel("critical")
        self.net = Mininet(controller=None, build=False, autoSetMacs=False)
        self.plan, self.tools, self.job_file, self.netem = plan, tools, job_file, netem
        self.links = {frozenset(link["between"]): link for link in topology["link"]}
        self.cables, self.patches = [], {}
        try:
            self.build(topology, directory)
        except BaseException:
            self.stop()
            raise

    def build(self, topology, directory):
        for index, name in enumerate(self.plan["switches"]):
            socket = os.path.join(directory, f"{index}.sock")
            self.net.addSwitch(
                name, cls=Bmv2, program=self.tools["simple_switch_grpc"], socket=socket
            )
        for host in self.plan["hosts"]:
            self.net.addHost(
                host["name"], cls=Host, ip=f"{host['ip']}/{PREFIX_LENGTH}", mac=host["mac"]
            )
        for patch in topology["patch"]:
            node = self.net.addHost(patch["name"], cls=Node, inNamespace=True, ip=None)
            self.patches[patch["name"]] = (Patch(node, self.tools["tributary"]), [])
        # Interfaces of a node that is not in the job file: (node, number of its last port).
        between = []
        for link in self.plan["links"]:
            (a, a_port), (b, b_port) = link["ends"]
            given = self.links.get(frozenset((a, b)), {})
            faults = f"{self.job_file}:{a}:{b}" if link["faulty"] else None
            inside = a_port > 0 and b_port > 0
            through = given.get("through")
            if through:
                patch, circuits = self.patches[through]
                port = 2 * len(circuits) + 1
                self.join(self.net[a], a_port, patch.node, port, link, given)
                self.join(patch.node, port + 1, self.net[b], b_port, link, given)
                circuits.append((port, port + 1, faults))
            elif faults and (inside or self.plan["protocol"] == "esa"):
                # A host's endpoint injects the faults into its own packets, and the cable into TCP.
                node = self.net.addHost(f"cable{len(between) + 1}", cls=Node, inNamespace=True, ip=None)
                self.join(self.net[a], a_port, node, 1, link, given)
                self.join(node, 2, self.net[b], b_port, link, given)
                between.append((node, faults))
            else:
                self.join(self.net[a], a_port, self.net[b], b_port, link, given)
        self.net.built = True
        for node in self.nodes():
            self.prepare(node)
        for node, faults in between:
            self.cables.append(Cable(node, ["port1", "port2"], self.tools["tributary"], faults))
        for patch, circuits in self.patches.values():
            for a, b, faults in circuits:
                patch.connect(a, b, faults)
        for switch in self.net.switches:
            switch.start()

    def nodes(self):
        return [*self.net.hosts, *self.net.switches]

    def join(self, a, a_port, b, b_port, link, given):
        """A veth pair with the link's bandwidth and, where the kernel can, its delay and loss."""
        settings = {"bw": given.get("bandwidth")}
        if self.netem:
            settings["delay"] = given.get("delay")
            settings["loss"] = 100 * given["loss"] if given.get("loss") else None
        name = lambda node, port: f"port{port}" if port else "eth0"
        made = self.net.addLink(
            a, b, a_port, b_port, cls=TCLink,
            intfName1=name(a, a_port), intfName2=name(b, b_port),
            **{key: value for key, value in settings.items() if value is not None},
        )
        for end in (made.intf1, made.intf2):
            end.node.cmd(f"ip link set {end.name} mtu {link['mtu']}")

    def prepare(self, node):
        """Addresses, and silence from what would put frames of its own on the links."""
        node.cmd("sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1")
        node.cmd("ip link set lo up")
        names = [name for name in node.intfNames() if name != "lo"]
        _, errors, status = node.pexec(sys.executable, os.path.join(HERE, "offload.py"), *names)
        if status:
            raise Wrong(f"{node.name}: cannot turn off offloads: {errors.strip().splitlines()[-1]}")
        for name in names:
            node.cmd(f"ip link set {name} up")
        if isinstance(node, Host):
            parameters = node.params
            node.cmd(f"ip link set eth0 address {parameters['mac']}")
            node.cmd(f"ip addr replace {parameters['ip']} dev eth0")

    def processes(self):
        """What must not end while jobs run."""
        circuits = [c for patch, _ in self.patches.values() for c in patch.circuits.values()]
        return [cable.running for cable in [*self.cables, *circuits]] + [
            switch.running for switch in self.net.switches
        ]

    def stop(self):
        for process in [c.running for c in self.cables]:
            process.ask()
        for patch, _ in self.patches.values():
            for circuit in list(patch.circuits):
                patch.disconnect(*circuit)
        for cable in self.cables:
            cable.running.end(2)
        self.net.stop()
