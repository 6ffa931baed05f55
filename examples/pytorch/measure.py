"""Measures all-reduce, other calls, groups and DDP, `tributary` beside other backends, in one run.

    python examples/pytorch/measure.py [--ranks 2 4 8] [--backends tributary gloo mpi] [--rounds 3]

The backends take turns, each time with new processes, because a shared machine is now slower and
now faster. All ranks are on this host, with one thread each for computing. PyTorch's wheels have no
MPI, so `mpi` is a communication hook, by mpi4py under `mpirun`; it is skipped where one of them is
missing.
"""

# DDP inspects the annotations of a hook, which must not be texts. Hence no `annotations` of
# `__future__`.

import argparse
import importlib.util
import json
import os
import platform
import shutil
import socket
import statistics
import subprocess
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
    arguments.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8])
    arguments.add_argument("--backends", nargs="+", default=["tributary", "gloo", "mpi"])
    arguments.add_argument("--rounds", type=int, default=3)
    # `mpirun` starts this script with it.
    arguments.add_argument("--mpi-rank", metavar="PORT", type=int, help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.mpi_rank is not None:
        work_under_mpi(options.mpi_rank)
        return
    if "mpi" in options.backends and not has_mpi():
        print("skipped: mpi needs mpi4py and mpirun (pip install mpi4py; Debian's openmpi-bin)")
        options.backends.remove("mpi")

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
        for values in (backend.get(name) for backend in results.values()):
            cells.append(
                f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"
                if values
                else "–"
            )
        print(f"{name} | " + " | ".join(cells))


def has_mpi() -> bool:
    """Whether ranks can use MPI here."""
    return bool(importlib.util.find_spec("mpi4py") and shutil.which("mpirun"))


def run(backend: str, ranks: int) -> dict[str, float]:
    """Measures once, in new processes. The first rank's figures; times are the same at all."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    if backend == "mpi":
        return run_mpi(ranks, port)
    context = mp.get_context("spawn")
    outcome = context.SimpleQueue()
    processes = [
        context.Process(target=work, args=(backend, rank, ranks, port, outcome.put))
        for rank in range(ranks)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        if process.exitcode != 0:
            sys.exit(f"error: a rank of {backend} ended with status {process.exitcode}")
    return outcome.get()


def run_mpi(ranks: int, port: int) -> dict[str, float]:
    """As `run`, with ranks that `mpirun` starts."""
    command = ["mpirun", "-n", str(ranks), "--oversubscribe", "--bind-to", "none"]
    command += [sys.executable, __file__, "--mpi-rank", str(port)]
    # Without these, mpirun refuses to run as root, as which containers often run.
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    ended = subprocess.run(command, env={**os.environ, **root}, stdout=subprocess.PIPE, text=True)
    if ended.returncode != 0:
        sys.exit(f"error: mpirun ended with status {ended.returncode}")
    return json.loads(ended.stdout)


def work_under_mpi(port: int) -> None:
    """One rank that `mpirun` has started. The first one prints its figures."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    work("mpi", world.rank, world.size, port, lambda figures: print(json.dumps(figures)))


def work(
    backend: str, rank: int, ranks: int, port: int, tell: Callable[[dict[str, float]], Any]
) -> None:
    """One rank. The first one tells its figures."""
    torch.set_num_threads(1)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    # With MPI, DDP needs another backend to start.
    name = "gloo" if backend == "mpi" else backend
    dist.init_process_group(name, rank=rank, world_size=ranks)
    average = average_by_mpi if backend == "mpi" else average_by_backend
    figures = {}
    for title, elements in SIZES.items():
        tensor = torch.randn(elements)
        seconds = timed(lambda t=tensor: average([t]))
        figures[f"all-reduce of {title}, Gb/s"] = elements * 32 / seconds / 1e9
    figures |= train(average, ranks)
    # After the training: its groups stay, and MPI has none.
    if backend != "mpi":
        figures |= call()
    dist.barrier()
    dist.destroy_process_group()
    if rank == 0:
        tell(figures)


def call() -> dict[str, float]:
    """Calls that carry little, and groups: their milliseconds."""
    integer = torch.zeros(1, dtype=torch.int64)
    little = torch.zeros(1000)
    gathered = torch.zeros(1000 * dist.get_world_size())

    def group() -> None:
        dist.all_reduce(little, group=dist.new_group())

    calls: dict[str, Callable[[], object]] = {
        "all-reduce of 4 KB": lambda: dist.all_reduce(little),
        "all-reduce of an int64": lambda: dist.all_reduce(integer),
        "all-gather of 4 KB": lambda: dist.all_gather_into_tensor(gathered, little),
        "barrier": dist.barrier,
        "a new group and its first sum": group,
    }
    return {f"{title}, ms": 1e3 * timed(step) for title, step in calls.items()}


def average_by_backend(tensors: list[torch.Tensor]) -> None:
    """Averages each tensor over all ranks, all at once."""
    works = [dist.all_reduce(tensor, dist.ReduceOp.AVG, async_op=True) for tensor in tensors]
    for started in works:
        started.wait()


def average_by_mpi(tensors: list[torch.Tensor]) -> None:
    """As `average_by_backend`."""
    from mpi4py import MPI

    for tensor in tensors:
        MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, tensor.numpy())
        tensor /= MPI.COMM_WORLD.size


def hook_of_mpi(_state: None, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """A communication hook of DDP. Without a thread of its own, MPI sums before it returns."""
    average_by_mpi([bucket.buffer()])
    future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


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


def train(average: Callable[[list[torch.Tensor]], None], ranks: int) -> dict[str, float]:
    """Steps of DDP: how long, how much of the communication is hidden, and what it costs."""
    torch.manual_seed(1)
    layers = [layer for _ in range(LAYERS) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    model = DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=1)
    if average is average_by_mpi:
        model.register_comm_hook(None, hook_of_mpi)
    data = torch.randn(BATCH, WIDTH)
    gradients = [torch.randn(WIDTH * WIDTH + WIDTH) / 1e3 for _ in range(LAYERS)]

    def step() -> None:
        model.zero_grad()
        model(data).square().mean().backward()

    def compute() -> None:
        with model.no_sync():
            step()

    alone, communication = timed(compute), timed(lambda: average(gradients))
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
