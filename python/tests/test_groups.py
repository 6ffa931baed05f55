"""Groups that are made of others."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import tributary
from tributary import network, rendezvous

import ranks


def _sum(group: dist.ProcessGroup | None) -> list[float]:
    """The sums of the ranks' numbers in `group`: in the network, and by Gloo."""
    rank = dist.get_rank()
    many, one = torch.full((2000,), float(rank)), torch.tensor([rank])
    dist.all_reduce(many, group=group)
    dist.all_reduce(one, group=group)
    return [many[-1].item(), one.item()]


def _say_progress() -> list[str]:
    errors = []

    def say(*arguments: object) -> None:
        with pytest.raises((ValueError, TypeError)) as caught:
            tributary.set_progress(*arguments)
        errors.append(f"{type(caught.value).__name__}: {caught.value}")

    # It is remembered until the first collective.
    tributary.set_progress(0, 3)
    model = DistributedDataParallel(nn.Linear(10, 10))
    for step in range(3):
        tributary.set_progress(step, 3)
        model(torch.ones(2, 10)).sum().backward()
    tributary.set_progress(3, of=3, group=dist.group.WORLD)
    for arguments in ((-1, 3), (4, 3), (0, 1 << 64), (0.5, 1)):
        say(*arguments)
    say(0, 3, dist.new_group(backend="gloo"))
    return errors


@pytest.mark.parametrize("settings", ["", "protocol = 'esa'\n[group]\nswitch = true\n"])
def test_a_trainer_says_how_far_it_is(settings: str) -> None:
    outcomes = ranks.run(_say_progress, 2, environment={"TRIBUTARY_SETTINGS": settings})
    for texts in ranks.values(outcomes):
        low, high, many, half, other = texts
        assert low == "ValueError: step -1 of 3: write a step from 0 to the number of steps"
        assert high.startswith("ValueError: step 4 of 3")
        assert many.startswith("ValueError: step 0 of 18446744073709551616")
        assert half.startswith("TypeError: ")
        assert other == "ValueError: the process group does not have backend 'tributary'"


def test_progress_reaches_the_native_part_also_if_it_is_said_before_the_group_meets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = []

    class Communicator:
        peers: ClassVar[list[object]] = []

        def failure(self) -> Communicator:
            return self

        def add_done_callback(self, callback: object) -> None:
            pass

        def set_progress(self, step: int, of: int) -> None:
            said.append((step, of))

    monkeypatch.setattr(network, "connect", lambda *_: rendezvous.Fabric(Communicator(), None, [], False))
    own = network.Network(dist.HashStore(), 0, 2, 1.0)
    own.set_progress(1, 5)
    assert not said
    own.join()
    own.set_progress(2, 5)
    assert said == [(1, 5), (2, 5)]


def _split() -> list[list[float]]:
    rank = dist.get_rank()
    # The order of the ranks is that of the part.
    half = dist.split_group(split_ranks=[[1, 0], [2, 3]], timeout=timedelta(seconds=30))
    assert dist.get_process_group_ranks(half) == ([1, 0] if rank < 2 else [2, 3])
    assert dist.get_rank(half) == [1, 0, 0, 1][rank]
    assert dist.get_backend(half) == "tributary"
    options = half._get_backend(torch.device("cpu")).options
    assert options._timeout == timedelta(seconds=30)
    assert options.global_ranks_in_group == ([1, 0] if rank < 2 else [2, 3])
    whole = dist.group.WORLD._get_backend(torch.device("cpu")).options
    assert whole._timeout == timedelta(seconds=60)
    sums = [_sum(half), _sum(None)]
    alone = dist.split_group(half, [[0], [1]])
    sums.append(_sum(alone))
    again = dist.split_group(split_ranks=[[0, 3], [1, 2]])
    sums.append(_sum(again))
    dist.destroy_process_group(half)
    sums.append(_sum(None))
    return sums


def test_a_group_is_split() -> None:
    sums = ranks.values(ranks.run(_split, 4))
    for rank, (half, whole, alone, again, last) in enumerate(sums):
        assert half == ([1.0, 1] if rank < 2 else [5.0, 5])
        assert whole == last == [6.0, 6]
        assert alone == [rank, rank]
        assert again == [3.0, 3]


def _split_off() -> None:
    if dist.get_rank() < 2:
        assert _sum(dist.split_group(split_ranks=[[0, 1]])) == [1.0, 1]
    else:
        # PyTorch cannot be told that this rank is in no part.
        with pytest.raises(tributary.Error, match="needs every rank in one of its parts"):
            dist.split_group(split_ranks=[[0, 1]])
    assert _sum(None) == [3.0, 3]


def test_a_split_needs_all_ranks() -> None:
    ranks.values(ranks.run(_split_off, 3))


def _merge() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    store = dist.PrefixStore("merged", dist.distributed_c10d._get_default_store())
    half = [dist.new_group([0, 1]), dist.new_group([2, 3])][rank // 2]
    merged = half.merge_remote_group(store, size, timedelta(seconds=30), "merged", "all ranks")
    tensor = torch.full((2000,), float(rank))
    merged.allreduce([tensor]).wait()
    assert tensor[-1].item() == 6.0
    merged.shutdown()


def test_groups_are_merged() -> None:
    ranks.values(ranks.run(_merge, 4))


def _create_without_the_others() -> None:
    rank = dist.get_rank()
    for _ in range(2):
        mine = [0, 1] if rank < 2 else [2, 3]
        half = dist.new_group(mine, use_local_synchronization=True)
        assert _sum(half) == [sum(mine)] * 2
    if rank in (1, 2):
        middle = dist.new_group([1, 2], use_local_synchronization=True)
        assert _sum(middle) == [3.0, 3]
    assert _sum(None) == [6.0, 6]


def test_a_group_is_created_by_its_ranks_only() -> None:
    ranks.values(ranks.run(_create_without_the_others, 4))


def _bind_a_device() -> None:
    rank = dist.get_rank()
    dist.destroy_process_group()
    # PyTorch then makes new groups by splitting this one, where a backend can.
    dist.init_process_group("tributary", device_id=torch.device("cpu:0"))
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    assert _sum(pairs[rank // 2]) == ([1.0, 1] if rank < 2 else [5.0, 5])


def test_new_groups_of_one_that_is_bound_to_a_device() -> None:
    ranks.values(ranks.run(_bind_a_device, 4))
