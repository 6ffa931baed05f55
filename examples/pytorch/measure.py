"""Measures all-reduce and DDP, `tributary` beside other backends, in one run.

    python examples/pytorch/measure.py [--ranks 2 4] [--backends tributary gloo] [--rounds 3]

The backends take turns, each time with new processes, because a shared machine is now slower and now
faster. All ranks are on this host, with one thread each for computing.
"""

from __future__ import annotations

import argparse
import os
import platform
import socket
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

SIZES = {"64 KB": 16_384, "1 MB": 262_144, "25 MB": 6_553_600}
# Width of the layers of the model: 8 layers of 1 MB each, in buckets of about 1 MB.
WIDTH, LAYERS, BATCH = 512, 8, 64
STEPS = 20


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    arguments.add_argument("--backends", nargs="+", default=["tributary", "gloo"])
    arguments.add_argument("--rounds", type=int, default=3)
    options = arguments.parse_args()

    print(f"{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}, "
          f"torch {torch.__version__}, {options.rounds} rounds")
    for ranks in options.ranks:
        results: dict[str, dict[str, list[float]]] = {name: {} for name in options.backends}
        for turn in range(options.rounds):
            for backend in options.backends:
                show(f"{ranks} ranks, round {turn + 1} of {options.rounds}: {backend}")
                for name, value in run(backend, ranks).items():
                    results[backend].setdefault(name, []).append(value)
        show("")
        print_table(ranks, results)


def show(text: str) -> None:
    """Shows what is running, if a person is looking."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def print_table(ranks: int, results: dict[str, dict[str, list[float]]]) -> None:
    """Prints medians, and the range over the rounds."""
    print(f"\n{ranks} ranks | " + " | ".join(results))
    print("--- | " + " | ".join("---" for _ in results))
    for name in next(iter(results.values())):
        cells = []
        for values in (backend[name] for backend in results.values()):
            cells.append(
                f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"
            )
        print(f"{name} | " + " | ".join(cells))


def run(backend: str, ranks: int) -> dict[str, float]:
    """Measures once, in new processes. The first rank's figures; times are the same at all."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = mp.get_context("spawn")
    outcome = context.SimpleQueue()
    processes = [
        context.Process(target=work, args=(backend, rank, ranks, port, outcome))
        for rank in range(ranks)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        if process.exitcode != 0:
            sys.exit(f"error: a rank of {backend} ended with status {process.exitcode}")
    return outcome.get()


def work(backend: str, rank: int, ranks: int, port: int, outcome: Any) -> None:
    """One rank."""
    torch.set_num_threads(1)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group(backend, rank=rank, world_size=ranks)
    figures = {}
    for name, elements in SIZES.items():
        tensor = torch.randn(elements)
        seconds = timed(lambda t=tensor: dist.all_reduce(t, dist.ReduceOp.AVG))
        figures[f"all-reduce of {name}, Gb/s"] = elements * 32 / seconds / 1e9
    figures |= train(rank, ranks)
    dist.barrier()
    dist.destroy_process_group()
    if rank == 0:
        outcome.put(figures)


def timed(step: Callable[[], object]) -> float:
    """Median seconds of a step over about a second, after a warm-up."""
    for _ in range(3):
        step()
    times: list[float] = []
    # All ranks must make as many steps.
    for _ in range(STEPS):
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def train(rank: int, ranks: int) -> dict[str, float]:
    """Steps of DDP: how long, how much of the communication is hidden, and what it costs."""
    torch.manual_seed(1)
    layers = [layer for _ in range(LAYERS) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    model = DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=1)
    data = torch.randn(BATCH, WIDTH)
    gradients = [torch.randn(WIDTH * WIDTH + WIDTH) / 1e3 for _ in range(LAYERS)]

    def step() -> None:
        model.zero_grad()
        model(data).square().mean().backward()

    def compute() -> None:
        with model.no_sync():
            step()

    def communicate() -> None:
        for work in [dist.all_reduce(gradient, async_op=True) for gradient in gradients]:
            work.wait()
        for gradient in gradients:
            gradient /= ranks

    alone, communication = timed(compute), timed(communicate)
    used = time.process_time()
    together = timed(step)
    used = time.process_time() - used
    processor = torch.tensor([used])
    dist.all_reduce(processor)
    hidden = (alone + communication - together) / min(alone, communication)
    return {
        "DDP step, ms": 1e3 * together,
        "of it computing, ms": 1e3 * alone,
        "its communication alone, ms": 1e3 * communication,
        "communication hidden, %": 100 * max(0.0, hidden),
        "processor time of all ranks in a step, ms": 1e3 * processor.item() / (STEPS + 3),
    }


if __name__ == "__main__":
    main()
