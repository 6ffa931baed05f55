"""What PyTorch's profiler shows of collectives."""

from __future__ import annotations

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile

import ranks

# A rank comes this much later than the other, in seconds.
LATE = 0.2


def _wait_for_the_other() -> None:
    if dist.get_rank() == 1:
        time.sleep(LATE)


def _profile() -> list[tuple[str, float]]:
    """The events at rank 0, with their milliseconds."""
    size = dist.get_world_size()
    model = DistributedDataParallel(nn.Linear(100, 30))
    model(torch.ones(2, 100)).sum().backward()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        _wait_for_the_other()
        dist.all_reduce(torch.ones(5000))
        _wait_for_the_other()
        # The event ends with the collective, not with the call.
        work = dist.all_reduce(torch.ones(3, dtype=torch.int64), async_op=True)
        work.wait()
        _wait_for_the_other()
        dist.all_reduce(torch.ones(1).expand(5000))
        dist.broadcast(torch.ones(3), 0)
        dist.all_gather([torch.ones(3) for _ in range(size)], torch.ones(3))
        dist.all_gather_into_tensor(torch.ones(3 * size), torch.ones(3))
        dist.reduce_scatter_tensor(torch.ones(3), torch.ones(3 * size))
        dist.all_to_all_single(torch.ones(size), torch.ones(size))
        dist.barrier()
        model(torch.ones(2, 100)).sum().backward()
    dist.all_reduce(torch.ones(3))
    return [
        (event.name, event.time_range.elapsed_us() / 1000)
        for event in profiler.events()
        if event.name.startswith("tributary:")
    ]


def test_collectives_are_events_until_they_end() -> None:
    events, _ = ranks.values(ranks.run(_profile, 2))
    names = [name.removeprefix("tributary:") for name, _ in events]
    ours = ["broadcast", "all_gather", "all_gather_into_tensor", "reduce_scatter_tensor"]
    assert names[:9] == ["all_reduce"] * 3 + ours + ["all_to_all_single", "barrier"]
    # Those of DDP.
    assert "all_reduce" in names[9:]
    for name, milliseconds in events[:3]:
        assert milliseconds > LATE * 900, name


def _profile_an_error() -> None:
    with profile(activities=[ProfilerActivity.CPU]):
        dist.all_reduce(torch.ones(3 + dist.get_rank()))


def test_an_error_while_the_profiler_is_on() -> None:
    for outcome in ranks.run(_profile_an_error, 2):
        assert outcome.error and outcome.error.startswith("MismatchError"), outcome.error
