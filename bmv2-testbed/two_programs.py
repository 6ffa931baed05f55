#!/usr/bin/env python3
"""Two P4 programs in one network under Mininet: h1 – s1 (push.p4) – s2 (pop.p4) – h2 of examples/testbed.

    sudo bmv2-testbed/two_programs.py                 # Mininet's command line
    sudo bmv2-testbed/two_programs.py 'h1:ping -c 3 10.0.0.2'
"""

import os
import sys

from mininet.cli import CLI
from mininet.log import setLogLevel
from mininet.net import Mininet

from topology import Wrong
from tributary_switch import HERE, TributarySwitch

EXAMPLE = os.path.join(os.path.dirname(HERE), "examples", "testbed")


def network():
    """The same network as examples/testbed/net.toml."""
    file = lambda name: os.path.join(EXAMPLE, name)
    net = Mininet(controller=None, switch=TributarySwitch)
    s1 = net.addSwitch("s1", p4=file("push.p4"), entries=file("s1.stf"))
    s2 = net.addSwitch("s2", p4=file("pop.p4"), defines=["CLASSES=8"])
    h1 = net.addHost("h1", ip="10.0.0.1/24", mac="02:00:00:00:00:01")
    h2 = net.addHost("h2", ip="10.0.0.2/24", mac="02:00:00:00:00:02")
    net.addLink(h1, s1, port2=1)
    net.addLink(s1, s2, port1=2, port2=2)
    net.addLink(s2, h2, port1=1)
    return net


def main(commands):
    net = network()
    try:
        net.start()
        for command in commands:
            host, _, words = command.partition(":")
            output, errors, status = net[host].pexec("sh", "-c", words)
            print(output, end="")
            if status:
                print(errors, end="", file=sys.stderr)
                return status
        if not commands:
            CLI(net)
    finally:
        net.stop()
    return 0


if __name__ == "__main__":
    setLogLevel("warning")
    try:
        sys.exit(main(sys.argv[1:]))
    except Wrong as error:
        sys.exit(f"error: {error}")
