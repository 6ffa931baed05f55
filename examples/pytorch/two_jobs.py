"""Trains two models at the same time, whose gradients share a switch: figure 6 of ESA's paper.

    sudo python examples/pytorch/two_jobs.py [--rounds 3] [--ways PS ATP ESA SwitchML Gloo]

A small ResNet and a small VGG learn images that are made here. Each has four ranks. All hosts are
network namespaces of this machine, at one switch with few aggregators. The links have a rate that
is low enough for the network, and not this machine's cores, to be the limit. The ways of summing
take turns:

- PS: gradients go to the job's parameter server, and sums from there to the workers. The switch
  adds nothing (ATP with `switches = []`), but sends a sum to all workers that came to it once.
- ATP, ESA, SwitchML: the switch adds; all with the same packets and memory.
- Gloo: the ranks add, in a ring. Its sums are of floats, so that losses may differ a little.

The losses of all ways but Gloo must be the same bits, at each rank and step. The program fails if
they are not.

Layers pause for as long as a larger layer would take on a device of its own, because the cores
here are few: in total `COMPUTING` times as long as the gradients take on a link.
"""

from __future__ import annotations

import argparse
import csv
import gc
import hashlib
import json
import os
import platform
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import curves
import images
import training
from namespaces import CONTROL, SWITCH, Network, missing, show

MODELS = {"ResNet": images.resnet, "VGG": images.vgg}
# As in the paper's simulations (§7.2.1), where a model computes for half of the time of its
# communication, or for twice that time.
COMPUTING = {"ResNet": 2.0, "VGG": 0.5}
RATES = {"ResNet": 0.05, "VGG": 0.02}
WAYS = ["PS", "ATP", "ESA", "SwitchML", "Gloo"]
DIFFERENT = "DIFFERENT"
VALUES_PER_PACKET = 256
# Of DDP, in MB: small models have several buckets, too.
BUCKET = 0.05
# In seconds.
LIMIT = 900.0

# What a job has learned and how long it took: of each rank, by name.
Ranks = list[dict[str, Any]]


def main() -> None:
    options = arguments()
    if options.train:
        train(options)
        return
    problem = missing(options.program)
    if problem:
        print(f"skipped: {problem}")
        return
    print(f"{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}, "
          f"torch {torch.__version__}; {options.workers} ranks for each job, links of "
          f"{options.megabits:g} Mb/s, {options.pool} aggregators of {VALUES_PER_PACKET} values, "
          f"{options.rounds} rounds")
    # Namespaces are removed then, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("error: terminated"))
    runs: dict[str, list[Run]] = {way: [] for way in options.ways}
    for turn in range(options.rounds):
        for way in options.ways:
            show(f"round {turn + 1} of {options.rounds}: {way}")
            runs[way].append(run(way, options))
    show("")
    rows = {
        "losses": rows_of_losses(runs),
        "jobs": [row for model in MODELS for row in rows_of_jobs(model, runs, options.target)],
        "limits": rows_of_limits(runs),
        "curves": rows_of_curves(runs),
    }
    for name in ("losses", "jobs", "limits"):
        print_table(rows[name])
    if options.out:
        write(options.out, rows)
    if any(DIFFERENT in row.values() for row in rows["losses"]):
        sys.exit("error: losses differ between ways whose sums are exact")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=4, help="of each job (default: 4)")
    parser.add_argument("--megabits", type=float, default=50, help="of a link (default: 50 Mb/s)")
    parser.add_argument("--pool", type=int, default=128, help="aggregators (default: 128)")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--samples", type=int, default=1024, help="of an epoch (default: 1024)")
    parser.add_argument("--batch", type=int, default=16, help="samples of one rank per step")
    parser.add_argument("--seed", type=int, default=1, help="of the weights and the images")
    parser.add_argument("--target", type=float, default=0.8, help="accuracy to reach")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write tables and the plot there")
    parser.add_argument("--program", default="tributary", help="default: `tributary` on the PATH")
    # The ranks are started with these.
    parser.add_argument("--train", choices=MODELS, help=argparse.SUPPRESS)
    parser.add_argument("--backend", help=argparse.SUPPRESS)
    parser.add_argument("--directory", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


# A run.


@dataclass
class Run:
    """One way, once: what the ranks of each model report, and what the machine did meanwhile."""

    jobs: dict[str, Ranks]
    limits: dict[str, float]


def run(way: str, options: argparse.Namespace) -> Run:
    """Trains both models once, in new processes."""
    names = {model: [f"{model}{at}" for at in range(options.workers)] for model in MODELS}
    workers = [name for ranks in names.values() for name in ranks]
    servers = [f"server{at}" for at, _ in enumerate(MODELS)]
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        network = Network(workers, servers, options.megabits, options.program, directory)
        with network.namespaces():
            network.serve(network.describe(protocol(way, options.pool)))
            for model in MODELS:
                start_ranks(network, model, names[model], way, directory)
            wait_for([directory / f"{model}.began" for model in MODELS], network)
            before = Sample(network)
            # Until the first job has ended: then the other one has the network alone.
            wait_for([directory / f"{model}.ended" for model in MODELS], network, any_of=True)
            limits = before.limits(Sample(network), options.megabits)
            while not network.check(workers):
                time.sleep(0.05)
        jobs = {
            model: [json.loads((directory / f"{name}.json").read_text()) for name in names[model]]
            for model in MODELS
        }
    return Run(jobs, limits)


def protocol(way: str, pool: int) -> str:
    """The lines of the network file about a way. Gloo's packets need any switch."""
    kind = {"ATP": "atp", "ESA": "esa", "SwitchML": "switchml"}.get(way, "atp")
    lines = ["[protocol]", f'kind = "{kind}"', f"values_per_packet = {VALUES_PER_PACKET}"]
    lines += ["[switch]", f"pool = {pool}"]
    if way == "SwitchML":
        lines.append(f"partitions = {len(MODELS)}")
    return "\n".join(lines)


def start_ranks(
    network: Network, model: str, names: Sequence[str], way: str, directory: Path
) -> None:
    """Starts a job."""
    backend = "gloo" if way == "Gloo" else "tributary"
    command = [sys.executable, __file__, *sys.argv[1:], "--train", model, "--backend", backend]
    for rank, name in enumerate(names):
        network.start(
            name,
            name,
            *command,
            "--directory",
            str(directory),
            MASTER_ADDR=network.address(names[0]),
            MASTER_PORT="29517",
            WORLD_SIZE=str(len(names)),
            RANK=str(rank),
            OMP_NUM_THREADS="1",
            GLOO_SOCKET_IFNAME="eth0",
            TRIBUTARY_CONTROLLER=network.controller,
            TRIBUTARY_NAME=model,
            TRIBUTARY_SETTINGS="[job]\nswitches = []" if way == "PS" else "",
        )


def wait_for(files: Sequence[Path], network: Network, any_of: bool = False) -> None:
    """Waits until all files are there, or any of them."""
    deadline = time.monotonic() + LIMIT
    while not (any if any_of else all)(file.exists() for file in files):
        network.check([])
        if time.monotonic() > deadline:
            sys.exit(f"error: a run takes longer than {LIMIT:g} s")
        time.sleep(0.02)


class Sample:
    """What processes and links have done so far."""

    def __init__(self, network: Network) -> None:
        self.time = time.monotonic()
        self.processes = network.processor_seconds()
        self.links = {host: network.bytes_of(host) for host in network.hosts}
        self.servers = set(network.servers)
        fields = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        idle = fields[3] + fields[4]
        self.busy = (sum(fields) - idle) / os.sysconf("SC_CLK_TCK")

    def limits(self, later: Sample, megabits: float) -> dict[str, float]:
        """How much of the cores and links was in use between this sample and a later one."""
        seconds = later.time - self.time
        used = dict.fromkeys(["ranks", SWITCH, "servers", CONTROL], 0.0)
        for name, total in later.processes.items():
            kind = "ranks" if name.startswith(tuple(MODELS)) else name
            kind = "servers" if name in self.servers else kind
            used[kind] += (total - self.processes.get(name, 0.0)) / seconds
        carried = {
            host: [after - before for before, after in zip(self.links[host], later.links[host])]
            for host in self.links
        }
        of_servers = [both for host, both in carried.items() if host in self.servers]
        of_workers = [both for host, both in carried.items() if host.startswith(tuple(MODELS))]
        share = 100 * 8e-6 / megabits / seconds
        return {
            "cores busy": (later.busy - self.busy) / seconds,
            **{f"cores, {kind}": cores for kind, cores in used.items()},
            "busiest link of a worker, %": share * max(map(max, of_workers)),
            "busiest link of a server, %": share * max(map(max, of_servers)),
            "sent by workers and received by servers, %": 100
            * sum(received for _, received in of_servers)
            / sum(sent for sent, _ in of_workers),
        }


# A rank.


def train(options: argparse.Namespace) -> None:
    """One rank. Its results go into a file that is named after it."""
    torch.set_num_threads(1)
    dist.init_process_group(options.backend, timeout=timedelta(seconds=LIMIT))
    rank, directory = dist.get_rank(), options.directory
    torch.manual_seed(options.seed)
    model = MODELS[options.train]()
    bits = 32 * sum(parameter.numel() for parameter in model.parameters())
    computing = COMPUTING[options.train] * bits / (1e6 * options.megabits)
    parallel = DistributedDataParallel(
        images.with_pauses(model, computing), bucket_cap_mb=BUCKET, forward_sync_buffers=False
    )
    job = Job(options, parallel)
    # The ranks join each other with the first sum.
    dist.all_reduce(torch.zeros(10_000))
    if rank == 0:
        (directory / f"{options.train}.began").touch()
    began = [directory / f"{model}.began" for model in MODELS]
    while not all(file.exists() for file in began):
        time.sleep(0.01)
    job.run()
    if rank == 0:
        (directory / f"{options.train}.ended").touch()
    found = job.found()
    job.go_on([directory / f"{model}.ended" for model in MODELS])
    if rank == 0:
        found["accuracies"] = job.accuracies()
    (directory / f"{options.train}{rank}.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()
    # As in training.py: no thread of Gloo may be left when the interpreter ends.
    del job, parallel
    gc.collect()


class Job:
    """A rank's training."""

    def __init__(self, options: argparse.Namespace, parallel: DistributedDataParallel) -> None:
        self._parallel = parallel
        self._options = options
        self._images, self._classes = images.data(options.samples, options.seed, 0)
        self._shares = training.shares(options.samples, options.batch, options.seed)
        rate = RATES[options.train]
        self._optimizer = torch.optim.SGD(parallel.parameters(), lr=rate, momentum=0.9)
        self._losses: list[float] = []
        self._times: list[float] = []
        self._snapshots: list[dict[str, Tensor]] = []
        self._steps_per_epoch = options.samples // (options.batch * dist.get_world_size())
        self._steps = options.epochs * self._steps_per_epoch
        self._is_ours = dist.get_backend() == "tributary"

    def run(self) -> None:
        """The steps that are measured. Accuracies are measured later, from the weights."""
        begin = time.monotonic()
        for step in range(self._steps):
            self._losses.append(self._step(step))
            self._times.append(time.monotonic() - begin)
            if dist.get_rank() == 0 and (step + 1) % self._steps_per_epoch == 0:
                weights = self._parallel.module.state_dict()
                self._snapshots.append({name: part.clone() for name, part in weights.items()})

    def go_on(self, ended: Sequence[Path]) -> None:
        """Trains on until all jobs have ended, so that each is measured beside the other one."""
        step, enough = 0, torch.zeros(1)
        while enough.item() == 0.0:
            self._step(step % self._steps)
            step += 1
            enough = torch.tensor([float(all(file.exists() for file in ended))])
            # All ranks end after the same step.
            dist.all_reduce(enough)

    def _step(self, step: int) -> float:
        if self._is_ours:
            import tributary

            tributary.set_progress(step, of=self._steps)
        chosen = next(self._shares)
        self._optimizer.zero_grad()
        scores = self._parallel(self._images[chosen])
        loss = nn.functional.cross_entropy(scores, self._classes[chosen])
        loss.backward()
        self._optimizer.step()
        return loss.item()

    def found(self) -> dict[str, Any]:
        """What is compared between ways."""
        digest = hashlib.sha256()
        for parameter in self._parallel.parameters():
            digest.update(parameter.detach().numpy().tobytes())
        return {"losses": self._losses, "times": self._times, "weights": digest.hexdigest()}

    def accuracies(self) -> list[float]:
        """The share of other images that is recognised after each epoch."""
        pictures, classes = images.data(1000, self._options.seed, 1)
        model = self._parallel.module
        model.eval()
        shares = []
        for weights in self._snapshots:
            model.load_state_dict(weights)
            with torch.no_grad():
                shares.append((model(pictures).argmax(1) == classes).double().mean().item())
        return shares


# Results.


def rows_of_losses(runs: dict[str, list[Run]]) -> list[dict[str, str | float]]:
    """Whether all ways with exact sums agree to the bit, and how far Gloo is from them."""
    rows = []
    for model in MODELS:
        exact = [ranks for way, ranks in of_model(model, runs) if way != "Gloo"]
        floats = [ranks for way, ranks in of_model(model, runs) if way == "Gloo"]
        first = (exact or floats)[0]
        row: dict[str, str | float] = {"model": model, "ranks": str(len(first))}
        row["steps"] = str(len(first[0]["losses"]))
        if exact:
            agree = all(bits_of(ranks) == bits_of(first) for ranks in exact)
            row["runs with exact sums"] = str(len(exact))
            row["losses and weights of these"] = "same bits" if agree else DIFFERENT
        if exact and floats:
            row |= differences(first, floats[0])
        rows.append(row)
    return rows


def bits_of(ranks: Ranks) -> list[tuple[list[float], str]]:
    """What must be the same however gradients are summed."""
    return [(rank["losses"], rank["weights"]) for rank in ranks]


def differences(ours: Ranks, gloo: Ranks) -> dict[str, str | float]:
    """How far Gloo's losses and accuracies are from ours."""
    losses = [
        abs(mine - other)
        for pair in zip(ours, gloo)
        for mine, other in zip(*(rank["losses"] for rank in pair))
    ]
    accuracies = [
        abs(mine - other) for mine, other in zip(ours[0]["accuracies"], gloo[0]["accuracies"])
    ]
    return {
        "Gloo's losses differ by, median": f"{statistics.median(losses):.1e}",
        "at most": f"{max(losses):.1e}",
        "its accuracies by at most, points": 100 * max(accuracies),
    }


def of_model(model: str, runs: dict[str, list[Run]]) -> list[tuple[str, Ranks]]:
    """The ranks of a model in all runs, with the way of each."""
    return [(way, one.jobs[model]) for way, several in runs.items() for one in several]


def at_epochs(ranks: Ranks) -> list[float]:
    """When the first rank ended each epoch, in seconds."""
    times, epochs = ranks[0]["times"], len(ranks[0]["accuracies"])
    return [times[len(times) // epochs * (epoch + 1) - 1] for epoch in range(epochs)]


def rows_of_jobs(
    model: str, runs: dict[str, list[Run]], target: float
) -> list[dict[str, str | float]]:
    """Times of a model: medians, and the range over the rounds."""
    rows = []
    goal = f"s to {100 * target:g} %"
    for way, several in runs.items():
        epochs, reached = [], []
        for ranks in (one.jobs[model] for one in several):
            ends = at_epochs(ranks)
            epochs.append(ends[-1] / len(ends))
            pairs = zip(ends, ranks[0]["accuracies"])
            reached += [end for end, accuracy in pairs if accuracy >= target][:1]
        row: dict[str, str | float] = {"model": model, "way": way}
        row |= spread("s per epoch", epochs) | spread(goal, reached)
        row["accuracy, %"] = 100 * several[0].jobs[model][0]["accuracies"][-1]
        rows.append(row)
    base = next((row for row in rows if row["way"] == "ATP"), rows[0])
    for row in rows:
        row[f"speed, {base['way']} = 1"] = float(base["s per epoch"]) / float(row["s per epoch"])
    return rows


def spread(name: str, values: list[float]) -> dict[str, str | float]:
    """The median, and the least and greatest as a text."""
    if not values:
        return {name: "not reached", f"{name}, range": ""}
    return {
        name: statistics.median(values),
        f"{name}, range": f"{min(values):.2f} to {max(values):.2f}",
    }


def rows_of_limits(runs: dict[str, list[Run]]) -> list[dict[str, str | float]]:
    """What was in use while both jobs trained: medians over the rounds."""
    return [
        {"way": way}
        | {
            name: statistics.median(one.limits[name] for one in several)
            for name in several[0].limits
        }
        for way, several in runs.items()
    ]


def rows_of_curves(runs: dict[str, list[Run]]) -> list[dict[str, str | float]]:
    """The accuracy after each epoch, and when it ended: medians over the rounds."""
    rows: list[dict[str, str | float]] = []
    for model in MODELS:
        for way, several in runs.items():
            accuracies = several[0].jobs[model][0]["accuracies"]
            ends = zip(*(at_epochs(one.jobs[model]) for one in several))
            for epoch, (accuracy, times) in enumerate(zip(accuracies, ends), 1):
                seconds = statistics.median(times)
                rows.append({"model": model, "way": way, "epoch": epoch,
                             "seconds": seconds, "accuracy, %": 100 * accuracy})
    return rows


def print_table(rows: list[dict[str, str | float]]) -> None:
    """Prints a table in Markdown."""
    print("\n| " + " | ".join(rows[0]) + " |")
    print("|" + " --- |" * len(rows[0]))
    for row in rows:
        cells = [cell if isinstance(cell, str) else f"{cell:.2f}" for cell in row.values()]
        print("| " + " | ".join(cells) + " |")


def write(directory: Path, rows: dict[str, list[dict[str, str | float]]]) -> None:
    """Writes the tables as CSV, and the plot."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, table in rows.items():
        with open(directory / f"{name}.csv", "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, table[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(table)
    lines: dict[str, dict[str, curves.Line]] = {}
    for row in rows["curves"]:
        line = lines.setdefault(str(row["model"]), {}).setdefault(str(row["way"]), [])
        line.append((float(row["seconds"]), float(row["accuracy, %"])))
    (directory / "two-jobs.svg").write_text(curves.drawn(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
