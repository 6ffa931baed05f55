"""Trains with FSDP2 over several hosts: through a switch, and with Gloo.

    sudo python examples/pytorch/sharded.py [--ways P4INC SwitchML Gloo] [--rounds 3]

The hosts are network namespaces of this machine, at one switch. Their links have a rate that is low
enough for the network, and not this machine's cores, to be the limit. The ways take turns:

- P4INC, SwitchML: in an all-gather, the switch sends a rank's part to the others; in a
  reduce-scatter, it sends each rank its part of the sums.
- Gloo: the ranks do both, in a ring.

`both at once` is an all-gather beside a reduce-scatter, each of the size of the model, as the
backward pass of a large model has them; `step` is a step of FSDP2. The least times are those of
their bytes on a link, without headers: a ring needs each link for (n-1)/n of both in both
directions, and a switch for all of one and 1/n of the other.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from namespaces import Network, missing, show

WAYS = ["P4INC", "SwitchML", "Gloo"]
VALUES_PER_PACKET = 256
WIDTH = 256
# In seconds.
LIMIT = 600.0
NAMES = ["gather", "scatter", "both at once", "step"]


def main() -> None:
    options = arguments()
    if options.directory:
        measure(options)
        return
    problem = missing(options.program)
    if problem:
        print(f"skipped: {problem}")
        return
    # Namespaces are removed then, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("error: terminated"))
    elements = Model(options.layers).elements
    print(f"{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}, torch "
          f"{torch.__version__}; {options.workers} hosts, links of {options.megabits:g} Mb/s, "
          f"{options.layers} layers, {4e-6 * elements:.2f} MB of parameters, "
          f"{options.rounds} rounds of {options.steps} each")
    found: dict[str, list[dict[str, list[float]]]] = {way: [] for way in options.ways}
    for turn in range(options.rounds):
        for way in options.ways:
            show(f"round {turn + 1} of {options.rounds}: {way}")
            found[way].append(run(way, options))
    show("")
    print_table(found, elements, options)
    losses = [turn["losses"] for turns in found.values() for turn in turns]
    differ = max(abs(a - b) / abs(b) for turn in losses for a, b in zip(turn, losses[-1]))
    print(f"\nLosses began at {losses[-1][0]:.3f}, ended at {losses[-1][-1]:.3f}, and differ between "
          f"the ways by a share of at most {differ:.1e}.")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=4, help="hosts (default: 4)")
    parser.add_argument("--megabits", type=float, default=50, help="of a link (default: 50 Mb/s)")
    parser.add_argument("--layers", type=int, default=8, help="of the model (default: 8)")
    parser.add_argument("--steps", type=int, default=5, help="of a round (default: 5)")
    parser.add_argument("--program", default="tributary", help="default: `tributary` on the PATH")
    # The ranks are started with these.
    parser.add_argument("--backend", help=argparse.SUPPRESS)
    parser.add_argument("--directory", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def run(way: str, options: argparse.Namespace) -> dict[str, list[float]]:
    """One way, once: seconds, and bytes that the busiest host has sent and received, by name."""
    hosts = [f"w{number}" for number in range(1, options.workers + 1)]
    kind = "p4inc" if way == "Gloo" else way.lower()
    protocol = f'protocol = {{ kind = "{kind}", values_per_packet = {VALUES_PER_PACKET} }}'
    with tempfile.TemporaryDirectory() as directory:
        network = Network(hosts, [], options.megabits, options.program, Path(directory))
        with network.namespaces():
            network.serve(network.describe(protocol))
            backend = "gloo" if way == "Gloo" else "tributary"
            command = [sys.executable, __file__, *sys.argv[1:], "--backend", backend]
            for rank, host in enumerate(hosts):
                network.start(
                    host,
                    host,
                    *command,
                    "--directory",
                    directory,
                    MASTER_ADDR=network.address(hosts[0]),
                    MASTER_PORT="29517",
                    WORLD_SIZE=str(len(hosts)),
                    RANK=str(rank),
                    OMP_NUM_THREADS="1",
                    GLOO_SOCKET_IFNAME="eth0",
                    TRIBUTARY_CONTROLLER=network.controller,
                )
            found: dict[str, list[float]] = {}
            for name in NAMES:
                before = reached(network, Path(directory), hosts, f"{name} begins")
                after = reached(network, Path(directory), hosts, f"{name} ends")
                most = [max(b[way] - a[way] for a, b in zip(before, after)) for way in (0, 1)]
                found[name] = [bytes_sent / options.steps for bytes_sent in most]
            deadline = time.monotonic() + LIMIT
            while not network.check(hosts):
                in_time(deadline)
            files = [Path(directory) / f"{host}.json" for host in hosts]
            of_ranks = [json.loads(file.read_text()) for file in files]
    for name in NAMES:
        found[name].insert(0, max(rank["seconds"][name] for rank in of_ranks))
    # Each rank has a loss of its own.
    return {**found, "losses": [loss for rank in of_ranks for loss in rank["losses"]]}


def reached(
    network: Network, directory: Path, hosts: list[str], event: str
) -> list[tuple[int, int]]:
    """What links have carried when all ranks wait at an event. Lets them go on."""
    deadline = time.monotonic() + LIMIT
    while not all((directory / f"{host} {event}").exists() for host in hosts):
        network.check([])
        in_time(deadline)
    carried = [network.bytes_of(host) for host in hosts]
    (directory / event).touch()
    return carried


def in_time(deadline: float) -> None:
    if time.monotonic() > deadline:
        sys.exit(f"error: a run takes longer than {LIMIT:g} s")
    time.sleep(0.02)


def print_table(
    found: dict[str, list[dict[str, list[float]]]], elements: int, options: argparse.Namespace
) -> None:
    """Prints medians of the rounds, the range of the times, and the least times."""
    size, ranks = 4e-6 * elements, options.workers
    part, most = size / ranks, size * (ranks - 1) / ranks
    # In each direction: an all-gather, a reduce-scatter, both, and two of the first and one of the last.
    links = {
        "Gloo": {"gather": most, "scatter": most, "both at once": 2 * most, "step": 3 * most},
        "switch": {"gather": most, "scatter": size, "both at once": size + part,
                   "step": max(size + 2 * part, 2 * most + part)},
    }
    print("\n| call | way | seconds | least | MB sent | MB received |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in NAMES:
        for way, turns in found.items():
            seconds, sent, received = zip(*(turn[name] for turn in turns))
            least = links.get(way, links["switch"])[name] * 8 / options.megabits
            cells = [
                name,
                way,
                f"{statistics.median(seconds):.3f} ({min(seconds):.3f}–{max(seconds):.3f})",
                f"{least:.3f}",
                f"{1e-6 * statistics.median(sent):.2f}",
                f"{1e-6 * statistics.median(received):.2f}",
            ]
            print("| " + " | ".join(cells) + " |")


# A rank.


class Model(nn.Sequential):
    """Layers of the same size."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        for _ in range(layers):
            layer = nn.Linear(WIDTH, WIDTH, bias=False)
            # With PyTorch's own weights, hardly anything comes through so many layers.
            nn.init.orthogonal_(layer.weight)
            self.append(layer)

    @property
    def elements(self) -> int:
        """Number of parameters."""
        return sum(parameter.numel() for parameter in self.parameters())


def measure(options: argparse.Namespace) -> None:
    """Does one after the other, and waits before and after each until bytes are counted."""
    torch.set_num_threads(1)
    dist.init_process_group(options.backend, timeout=timedelta(seconds=LIMIT))
    rank, size = dist.get_rank(), dist.get_world_size()
    host = f"w{rank + 1}"
    torch.manual_seed(1)
    whole = Model(options.layers)
    values = torch.randn(whole.elements)
    part, every = torch.empty(whole.elements // size), torch.empty(whole.elements)
    own = values[: whole.elements // size].clone()
    losses: list[float] = []
    step = sharded(whole, losses)

    def gather() -> Any:
        return dist.all_gather_into_tensor(every, own, async_op=True)

    def scatter() -> Any:
        return dist.reduce_scatter_tensor(part, values, async_op=True)

    def wait(*calls: Callable[[], Any]) -> None:
        for work in [call() for call in calls]:
            work.wait()

    todo = [lambda: wait(gather), lambda: wait(scatter), lambda: wait(gather, scatter), step]
    seconds = {}
    for name, call in zip(NAMES, todo):
        call()
        dist.barrier()
        stop(options.directory, host, f"{name} begins")
        begin = time.monotonic()
        for _ in range(options.steps):
            call()
        seconds[name] = (time.monotonic() - begin) / options.steps
        stop(options.directory, host, f"{name} ends")
    found = {"seconds": seconds, "losses": losses}
    (options.directory / f"{host}.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()
    # No thread of Gloo may be left when the interpreter ends.
    del step, todo, whole
    gc.collect()


def stop(directory: Path, host: str, event: str) -> None:
    """Waits at an event until all ranks are there, and bytes are counted."""
    (directory / f"{host} {event}").touch()
    while not (directory / event).exists():
        time.sleep(0.001)


def sharded(whole: nn.Sequential, losses: list[float]) -> Callable[[], None]:
    """A step of training, in which layers are in parts."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in whole:
        fully_shard(layer, mesh=mesh)
    fully_shard(whole, mesh=mesh)
    optimizer = torch.optim.SGD(whole.parameters(), lr=0.5)
    generator = torch.Generator().manual_seed(dist.get_rank())

    def step() -> None:
        optimizer.zero_grad()
        inputs = torch.randn(4, WIDTH, generator=generator)
        loss = (whole(inputs) - inputs.roll(1, 1)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    return step


if __name__ == "__main__":
    main()
