"""Collectives beside sums of floats, in the memory of ranks on one host, compared with Gloo's."""

from __future__ import annotations

import random

import pytest
import torch
import torch.distributed as dist

from tributary import MismatchError

import ranks

COPIED = [torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.complex64]
SUMMED = [torch.float64, torch.int64, torch.int32]
SCATTERED = [torch.float32, torch.bfloat16, torch.float16]
SIZES = [0, 1, 3, 1000, 65_537, 300_001]


def _values(generator: random.Random, dtype: torch.dtype, elements: int, rank: int) -> torch.Tensor:
    """Small integers, of which Gloo's sums are exact, too."""
    torch.manual_seed(generator.randrange(1 << 30) + rank)
    values = torch.randint(0, 2 if dtype == torch.bool else 30, (elements,)).to(dtype)
    if elements and generator.random() < 0.3:
        # Every other element of a larger tensor.
        strided = torch.zeros(2 * elements, dtype=dtype)[::2]
        return strided.copy_(values)
    return values


def _compare_with_gloo(seed: int) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    gloo = dist.new_group(backend="gloo")
    generator = random.Random(seed)
    for step in range(40):
        kind = generator.choice(["broadcast", "gather", "gather list", "scatter", "sum", "average"])
        elements = generator.choice(SIZES)
        types = {"scatter": SCATTERED, "sum": SUMMED, "average": SUMMED}.get(kind, COPIED)
        dtype = generator.choice(types)
        root = generator.randrange(size)
        own = _values(generator, dtype, elements, rank)
        whole = _values(generator, dtype, elements * size, rank)
        in_place = generator.random() < 0.5
        works = []
        found = []
        for group in (None, gloo):
            tensor, output = own.clone(), torch.empty_like(whole)
            if kind == "broadcast":
                work = dist.broadcast(tensor, root, group, async_op=True)
                result = tensor
            elif kind == "gather":
                if in_place and output.is_contiguous():
                    part = output[rank * elements : (rank + 1) * elements]
                    tensor = part.copy_(tensor)
                work = dist.all_gather_into_tensor(output, tensor, group, async_op=True)
                result = output
            elif kind == "gather list":
                parts = [torch.empty_like(tensor) for _ in range(size)]
                work = dist.all_gather(parts, tensor, group, async_op=True)
                result = parts
            elif kind == "scatter":
                values = whole.clone()
                if in_place and group is None and values.is_contiguous():
                    # Gloo does not take an output that is a part of the input.
                    tensor = values[:elements]
                work = dist.reduce_scatter_tensor(tensor, values, group=group, async_op=True)
                result = tensor
            else:
                # Gloo averages no integers.
                work = dist.all_reduce(tensor, group=group, async_op=True)
                result = tensor
            works.append(work)
            found.append(result)
        for work in works:
            work.wait()
        ours, theirs = (torch.cat(it) if isinstance(it, list) else it for it in found)
        assert torch.equal(ours, theirs), (seed, step, kind, dtype, elements)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("size", [2, 3])
def test_collectives_in_memory_give_the_results_of_gloo(seed: int, size: int) -> None:
    ranks.values(ranks.run(_compare_with_gloo, size, seed))


def _gather_from_another_place() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    output = torch.zeros(10 * size)
    place = (rank + 1) % size
    own = output[10 * place : 10 * (place + 1)].fill_(rank + 1.0)
    dist.all_gather_into_tensor(output, own)
    assert output[::10].tolist() == [1.0 + other for other in range(size)]


def test_inputs_may_be_anywhere_in_the_output() -> None:
    ranks.values(ranks.run(_gather_from_another_place, 3))


def _gather_with_another_default() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    own = torch.full((5,), float(rank), requires_grad=True)
    parts = [torch.zeros(5) for _ in range(size)]
    with torch.device("meta"):
        dist.all_gather(parts, own)
    assert [part[0].item() for part in parts] == list(range(size))


def test_the_default_device_of_the_caller_does_not_matter() -> None:
    ranks.values(ranks.run(_gather_with_another_default, 2))


def _gather_with_a_wrong_output() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    dist.broadcast(torch.zeros(10), 0)
    parts = [torch.zeros(10 + rank) for _ in range(size)]
    with pytest.raises(MismatchError, match="all_gather"):
        dist.all_gather(parts, torch.zeros(10))


def test_a_rank_that_leaves_a_collective_to_gloo_calls_something_else() -> None:
    ranks.values(ranks.run(_gather_with_a_wrong_output, 2, group="check = true\n"))


def _average_integers() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    for dtype in SUMMED:
        values = torch.tensor([rank + 1, -rank, 7], dtype=dtype)
        dist.all_reduce(values, op=dist.ReduceOp.AVG)
        exact = torch.tensor([size * (size + 1) / 2, -size * (size - 1) / 2, 7 * size]) / size
        expected = exact.to(dtype) if dtype == torch.float64 else exact.trunc().to(dtype)
        assert torch.allclose(values, expected), (values, expected)


def test_integers_are_averaged_as_with_nccl() -> None:
    ranks.values(ranks.run(_average_integers, 2))


def _call_different_things(case: str) -> None:
    rank = dist.get_rank()
    tensor = torch.zeros(10)
    with pytest.raises(MismatchError) as raised:
        if case == "root":
            dist.broadcast(tensor, rank)
        elif case == "elements":
            dist.broadcast(torch.zeros(10 + rank), 0)
        elif case == "operation" and rank == 0:
            dist.broadcast(tensor, 0)
        elif case == "operation":
            dist.all_reduce(torch.zeros(10, dtype=torch.float64))
        elif case == "sum":
            dist.all_reduce(torch.zeros(10, dtype=torch.float64 if rank else torch.int64))
    assert "rank 0" in str(raised.value) and "rank 1" in str(raised.value)


@pytest.mark.parametrize("case", ["root", "elements", "operation", "sum"])
def test_ranks_that_call_different_things_learn_it_at_once(case: str) -> None:
    ranks.values(ranks.run(_call_different_things, 2, case))
