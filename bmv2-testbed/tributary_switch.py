"""A switch for Mininet that runs a P4 program on the embedded switch: `tributary switch`.

It takes the place of the switch classes that start BMv2, such as P4Switch of p4lang/tutorials:

    sudo mn --custom bmv2-testbed/tributary_switch.py --controller none --topo single,2 \\
        --switch tributary,p4=router.p4,entries=router.stf

Each switch of a network may have its own program: two_programs.py shows how. docs/reference/testbed.md tells more.
"""

import inspect
import itertools
import os
import shutil
import sys
import threading

from mininet.node import Switch

# `mn --custom` executes this file without __file__, and without its directory on the search path.
HERE = os.path.dirname(os.path.abspath(inspect.getfile(inspect.currentframe())))
if HERE not in sys.path:
    sys.path.insert(0, HERE)

from network import Process  # noqa: E402
from topology import Wrong  # noqa: E402

# The last words of the line that `tributary switch` prints when its ports work.
READY = "end with Ctrl-C"
# Seconds that a switch may take to start: it compiles its program.
START = 60
FIRST_PORT = 9559


def find(given=None):
    """The tributary command: the one given, that of this repository, or that on the PATH."""
    root = os.path.dirname(HERE)
    built = [os.path.join(root, "target", kind, "tributary") for kind in ("release", "debug")]
    found = given or os.environ.get("TRIBUTARY")
    found = found or next((path for path in built if os.access(path, os.X_OK)), None)
    found = found or shutil.which("tributary")
    if not found:
        raise Wrong("there is no tributary command; build it with `cargo build --release`, or pass tributary=PATH")
    return found


def listed(values):
    """A list, which a command line of `mn` writes as words with blanks between them."""
    return values.split() if isinstance(values, str) else list(values or ())


class TributarySwitch(Switch):
    """A P4 program on the embedded switch.

    p4          the program; without one, a controller must push one
    entries     file of STF commands, executed when the program starts (docs/reference/stf.md)
    defines     constants of the program: ["X=1"], or "X=1 Y=2"
    include     directories of included files, written alike
    p4runtime   address of P4Runtime, ADDRESS:PORT or unix:PATH; else 127.0.0.1 and a port of its own, from 9559
    device_id   P4Runtime device ID; else 1 for the first switch, 2 for the second
    tributary   the command; else $TRIBUTARY, that of this repository, or that on the PATH
    options     more options of `tributary switch`: ["--threads", "2"], or "--threads 2"
    """

    numbers = itertools.count()

    def __init__(
        self, name, p4=None, entries=None, defines=None, include=None, p4runtime=None, device_id=None,
        tributary=None, options=None, **params,
    ):
        number = next(self.numbers)
        super().__init__(name, dpid=params.pop("dpid", None) or f"{number + 1:x}", **params)
        self.p4, self.entries = p4, entries
        self.defines, self.include, self.options = listed(defines), listed(include), listed(options)
        self.p4runtime = p4runtime or f"127.0.0.1:{FIRST_PORT + number}"
        self.device_id = number + 1 if device_id is None else int(device_id)
        self.tributary, self.running = tributary, None

    def command(self):
        """The command line of the switch."""
        command = [find(self.tributary), "switch"]
        command += [self.p4] if self.p4 else []
        for define in self.defines:
            command += ["-D", define]
        for directory in self.include:
            command += ["-I", directory]
        command += ["--entries", self.entries] if self.entries else []
        for port, interface in sorted(self.intfs.items()):
            if interface.name != "lo":
                command += ["--port", f"{port}@{interface.name}"]
        return command + [
            "--name", self.name, "--device-id", str(self.device_id), "--p4runtime", self.p4runtime, *self.options,
        ]

    def start(self, _controllers=None):
        """Starts the switch, and waits until its program runs."""
        for interface in self.intfList():
            if interface.name != "lo":
                self.prepare(interface)
        ready = threading.Event()
        hear = lambda line: ready.set() if line.endswith(READY) else None
        self.running = Process(f"switch {self.name}", self.command(), self, hear)
        for _ in range(START * 20):
            if ready.wait(0.05):
                return
            if why := self.running.ended():
                self.stop(False)
                raise Wrong(why)
        self.stop(False)
        raise Wrong(f"switch {self.name} has not started after {START} seconds")

    def prepare(self, interface):
        """Frames in their final form, and none from this end's own kernel."""
        self.cmd(f"sysctl -qw net.ipv6.conf.{interface.name.replace('.', '/')}.disable_ipv6=1")
        ends = [interface.link.intf1, interface.link.intf2] if interface.link else [interface]
        for end in ends:
            offload = os.path.join(HERE, "offload.py")
            _, errors, status = end.node.pexec(sys.executable, offload, end.name)
            if status:
                reason = (errors.strip().splitlines() or [f"status {status}"])[-1]
                raise Wrong(f"{end.name}: cannot turn off offloads: {reason}")

    def connected(self):
        """Whether it runs."""
        return self.running is not None and self.running.ended() is None

    def stop(self, deleteIntfs=True):
        if self.running:
            self.running.ask()
            self.running.end(5)
            self.running = None
        super().stop(deleteIntfs)


switches = {"tributary": TributarySwitch}
