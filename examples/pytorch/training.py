"""What the examples share: arguments, the loop over the steps, and the table at the end."""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

Batches = Iterator["tuple[Tensor, Tensor]"]


def arguments(description: str, steps: int) -> argparse.ArgumentParser:
    """The arguments that every example has. `steps` is the default number of steps."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--backend",
        choices=["tributary", "gloo", "hook"],
        default="tributary",
        help="'hook' is Gloo with Tributary's communication hook (default: tributary)",
    )
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--steps", type=int, default=steps, help=f"default: {steps}")
    parser.add_argument("--seed", type=int, default=1, help="of the weights and the data")
    parser.add_argument("--batch", type=int, default=32, help="samples of one rank per step")
    parser.add_argument("--rate", type=float, default=0.05, help="learning rate of SGD")
    parser.add_argument("--losses", metavar="FILE", help="write the loss of each step as JSON")
    parser.add_argument(
        "--checkpoint",
        metavar="FILE",
        help="keep the training here now and then, and go on from it if it exists, on all hosts",
    )
    return parser


def start(options: argparse.Namespace) -> None:
    """Joins the other ranks that torchrun has started."""
    dist.init_process_group("gloo" if options.backend == "hook" else options.backend)
    torch.manual_seed(options.seed)


def train(
    options: argparse.Namespace,
    model: nn.Module,
    batches: Batches,
    loss_of: Callable[[Tensor, Tensor], Tensor],
) -> None:
    """Trains `model` with DDP, prints losses and the table, and leaves the other ranks."""
    device = _device(options.device)
    parallel = DistributedDataParallel(model.to(device))
    if options.backend == "hook":
        import tributary

        parallel.register_comm_hook(tributary.State(), tributary.allreduce_hook)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=options.rate, momentum=0.9)
    losses: list[Tensor] = []
    durations: list[float] = []
    done = _load(options.checkpoint, model, optimizer)
    for _ in range(done):
        next(batches)
    for step in range(done + 1, options.steps + 1):
        inputs, targets = (part.to(device) for part in next(batches))
        started = time.perf_counter()
        optimizer.zero_grad()
        loss = loss_of(parallel(inputs), targets)
        loss.backward()
        optimizer.step()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        durations.append(time.perf_counter() - started)
        losses.append(loss.detach())
        if step in (1, options.steps) or step % max(1, options.steps // 10) == 0:
            _print_first(f"step {step:5}  loss {_mean(loss.detach()):.4f}")
            _save(options.checkpoint, step, model, optimizer)
    all_losses = _mean(torch.stack(losses)).tolist() if losses else []
    if options.losses and dist.get_rank() == 0:
        with open(options.losses, "w", encoding="utf-8") as file:
            json.dump(all_losses, file)
    _print_table(options, model, durations)
    dist.destroy_process_group()
    # The group's threads end with its last owner. In PyTorch 2.15, a thread of Gloo that drops a
    # tensor while the interpreter ends terminates the process.
    del parallel
    gc.collect()


def _load(file: str | None, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Continues a training, and returns the number of its steps: 0 without a file."""
    if file is None or not os.path.exists(file):
        return 0
    kept = torch.load(file, map_location="cpu")
    model.load_state_dict(kept["model"])
    optimizer.load_state_dict(kept["optimizer"])
    _print_first(f"{file}: goes on after step {kept['step']}")
    return int(kept["step"])


def _save(file: str | None, step: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Replaces the checkpoint, which is whole at any time."""
    if file is None or dist.get_rank() != 0:
        return
    kept = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(kept, f"{file}.new")
    os.replace(f"{file}.new", file)


def _device(kind: str) -> torch.device:
    """The device of this rank. Ranks share devices if there are too few."""
    if kind == "cpu":
        return torch.device("cpu")
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    return torch.device("cuda", local_rank % torch.cuda.device_count())


def shares(samples: int, batch: int, seed: int) -> Iterator[Tensor]:
    """The indices of this rank's samples, step by step, epoch after epoch.

    All ranks draw the same order of `samples` and take different parts of it.
    """
    rank, size = dist.get_rank(), dist.get_world_size()
    generator = torch.Generator().manual_seed(seed)
    if samples < batch * size:
        raise SystemExit(f"{size} ranks with {batch} samples each need more than {samples} samples")
    while True:
        order = torch.randperm(samples, generator=generator)
        for first in range(0, samples - batch * size + 1, batch * size):
            yield order[first + rank * batch : first + (rank + 1) * batch]


def _mean(values: Tensor) -> Tensor:
    """The mean over all ranks."""
    # In double precision, which Gloo sums, so that the printed loss is exact.
    total = values.to(torch.float64)
    dist.all_reduce(total)
    return total / dist.get_world_size()


def _print_first(text: str) -> None:
    if dist.get_rank() == 0:
        print(text, flush=True)


def _print_table(options: argparse.Namespace, model: nn.Module, durations: list[float]) -> None:
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    digests: list[str] = [""] * dist.get_world_size()
    dist.all_gather_object(digests, digest.hexdigest()[:16])
    # The first steps open connections and choose buckets.
    steady = sorted(durations[min(3, len(durations) // 2) :]) or [0.0]
    median, longest = steady[len(steady) // 2], steady[-1]
    gradient_bytes = sum(p.numel() * p.element_size() for p in model.parameters())
    rate = gradient_bytes / median if median else 0.0
    same = "identical" if len(set(digests)) == 1 else "different"
    lines = [
        "",
        f"backend                 {options.backend}, {dist.get_world_size()} ranks",
        f"step time               {1e3 * median:.2f} ms (longest {1e3 * longest:.2f} ms)",
        f"gradients               {gradient_bytes / 1e6:.2f} MB per step",
        f"summed                  {rate / 1e6:.1f} MB/s at each rank",
        f"weights at all ranks    {same} ({digests[0]})",
    ]
    if options.backend == "tributary":
        import tributary

        # Ranks that share memory have no packets, for instance.
        counters = tributary.stats().items()
        lines += [f"{name:<24}{value}" for name, value in counters if value]
    _print_first("\n".join(lines))
