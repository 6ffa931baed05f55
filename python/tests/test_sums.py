"""Sums and averages through the network, beside sums in double precision."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.distributed as dist

import tributary
from tributary.network import Network

import ranks

OPS = {"sum": dist.ReduceOp.SUM, "avg": dist.ReduceOp.AVG}
# Relative to the largest sum: rounding to fixed point, and to the data type.
TOLERANCES = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
SHAPES = [(1,), (7,), (1000,), (3, 5, 7), (100_003,)]


def _input(rank: int, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1000 * rank + sum(shape))
    return torch.randn(shape, generator=generator).to(dtype)


def _expected(size: int, shape: tuple[int, ...], dtype: torch.dtype, op: str) -> torch.Tensor:
    total = sum(_input(rank, shape, dtype).to(torch.float64) for rank in range(size))
    return total / size if op == "avg" else total


def _assert_close(actual: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype) -> None:
    assert actual.dtype == dtype and actual.shape == expected.shape
    error = (actual.to(torch.float64) - expected).abs().max()
    assert error <= TOLERANCES[dtype] * expected.abs().max(), (dtype, tuple(expected.shape), error)


def _bits(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes()


def _sum_everything() -> dict[str, bytes]:
    rank, size = dist.get_rank(), dist.get_world_size()
    bits = {}
    for dtype in TOLERANCES:
        for name, op in OPS.items():
            for shape in SHAPES:
                tensor = _input(rank, shape, dtype)
                assert dist.all_reduce(tensor, op) is None
                _assert_close(tensor, _expected(size, shape, dtype, name), dtype)
                bits[f"{dtype} {name} {shape}"] = _bits(tensor)
    return bits


@pytest.mark.parametrize("size", [2, 3, 4])
def test_sums_are_close_and_the_same_bits_at_all_ranks(size: int) -> None:
    first, *others = ranks.values(ranks.run(_sum_everything, size))
    assert all(other == first for other in others)


def test_sums_are_the_same_bits_with_more_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "settings", ranks.SWITCH)
    expected, *_ = ranks.values(ranks.run(_sum_everything, 3))
    more = "[job]\nthreads = 3\n[group]\nswitch_threads = 2\n"
    for found in ranks.values(
        ranks.run(_sum_everything, 3, environment={"TRIBUTARY_SETTINGS": more})
    ):
        assert found == expected


def _sum_asynchronously() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    shapes = [(n,) for n in (1, 5000, 17, 20_000, 3)]
    tensors = [_input(rank, shape, torch.float32) for shape in shapes]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for work in reversed(works):
        assert work.wait()
    for tensor, work in zip(tensors, works):
        (value,) = work.get_future().wait()
        assert value.data_ptr() == tensor.data_ptr()
        _assert_close(
            tensor, _expected(size, tuple(tensor.shape), torch.float32, "sum"), tensor.dtype
        )
    doubled = (
        dist.all_reduce(torch.ones(3), async_op=True).get_future().then(lambda f: 2 * f.value()[0])
    )
    assert doubled.wait().tolist() == [2.0 * size] * 3


def test_works_and_futures_end_in_any_order() -> None:
    ranks.values(ranks.run(_sum_asynchronously, 2))


def _ask_works_for_results() -> None:
    size = dist.get_world_size()
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    for _ in range(50):
        for dtype in (torch.float32, torch.int64):
            tensor = torch.ones(3, dtype=dtype)
            work = dist.all_reduce(tensor, async_op=True)
            work.wait()
            # It is done when `wait` returns, also for those who do not wait for it.
            (value,) = work.get_future().value()
            assert value.tolist() == [size] * 3
            work = backend.allreduce([tensor], dist.AllreduceOptions())
            work.wait()
            assert work.is_completed() and work.is_success() and work.exception() is None
            (value,) = work.result()
            assert value.tolist() == [size**2] * 3
    work = backend.allreduce([torch.ones(3 + dist.get_rank())], dist.AllreduceOptions())
    with pytest.raises(tributary.MismatchError):
        work.wait()
    assert work.is_completed() and not work.is_success()
    assert isinstance(work.exception(), tributary.MismatchError)


def test_results_are_there_after_the_wait() -> None:
    ranks.values(ranks.run(_ask_works_for_results, 2))


def _sum_other_layouts() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    expected = _expected(size, (6, 4), torch.float32, "sum")
    base = _input(rank, (6, 4), torch.float32)
    # The layouts of the ranks differ.
    tensor = base.t().contiguous().t() if rank else base
    dist.all_reduce(tensor)
    _assert_close(tensor, expected, torch.float32)
    wide = torch.zeros(6, 8)
    wide[:, ::2] = base if rank == 0 else _input(rank, (6, 4), torch.float32)
    before = wide[:, 1::2].clone()
    wide[:, ::2] = _input(rank, (6, 4), torch.float32)
    dist.all_reduce(wide[:, ::2])
    _assert_close(wide[:, ::2], expected, torch.float32)
    assert torch.equal(wide[:, 1::2], before)
    leaf = torch.ones(4, requires_grad=True)
    dist.all_reduce(leaf)
    assert leaf.tolist() == [size] * 4
    assert leaf.is_leaf


def test_any_layout_is_summed_in_place() -> None:
    ranks.values(ranks.run(_sum_other_layouts, 2))


def _sum_in_inference_mode() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    outside = torch.ones(30, 40).t()
    with torch.inference_mode():
        inside = torch.ones(30, 40).t()
        for tensor in (inside, outside, torch.ones(5000)[::2], torch.ones(40)):
            dist.all_reduce(tensor)
            assert torch.equal(tensor, torch.full_like(tensor, size))
        integers = torch.tensor([rank, 10 + rank]).flip(0)[::1]
        dist.all_reduce(integers, dist.ReduceOp.AVG)
        assert integers.tolist() == [10 + (size - 1) // 2, (size - 1) // 2]
    # It ends outside of the mode in which it was begun.
    with torch.inference_mode():
        late = torch.ones(3000, 2).t()
        work = dist.all_reduce(late, async_op=True)
    work.wait()
    assert torch.equal(late, torch.full((2, 3000), float(size)))
    leaf = torch.ones(3000, 2, requires_grad=True)
    dist.all_reduce(leaf.t())
    assert leaf.requires_grad and torch.equal(leaf.detach(), torch.full((3000, 2), float(size)))


def test_sums_in_inference_mode() -> None:
    ranks.values(ranks.run(_sum_in_inference_mode, 2))


def _use_layouts_that_gloo_does_not_know(inference: bool) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()

    def mine(of: int) -> torch.Tensor:
        return torch.arange(24).reshape(6, 4) * (of + 1)

    def layouts() -> list[torch.Tensor]:
        gaps = torch.full((6, 8), -1)
        gaps[:, ::2] = mine(rank)
        # The layouts of the ranks differ.
        other = mine(rank).t().contiguous().t() if rank else mine(rank)
        return [gaps[:, ::2], other]

    with torch.inference_mode(inference):
        total = sum(mine(of) for of in range(size))
        everyone = torch.stack([mine(of) for of in range(size)])
        for at in range(2):
            tensor = layouts()[at]
            dist.all_reduce(tensor)
            assert torch.equal(tensor, total)
            tensor = layouts()[at]
            work = dist.all_reduce(tensor, dist.ReduceOp.AVG, async_op=True)
            (value,) = work.get_future().wait()
            assert value.data_ptr() == tensor.data_ptr() and torch.equal(tensor, total // size)
            tensor = layouts()[at]
            dist.broadcast(tensor, 1)
            assert torch.equal(tensor, mine(1))
            tensor = layouts()[at]
            dist.reduce(tensor, 0)
            assert rank != 0 or torch.equal(tensor, total)
            outputs = [layouts()[at] for _ in range(size)]
            dist.all_gather(outputs, layouts()[at])
            assert torch.equal(torch.stack(outputs), everyone)
            outputs = [layouts()[at] for _ in range(size)]
            dist.all_to_all(outputs, [layouts()[at]] * size)
            assert torch.equal(torch.stack(outputs), everyone)
            outputs = [layouts()[at] for _ in range(size)] if rank == 0 else None
            dist.gather(layouts()[at], outputs, 0)
            assert outputs is None or torch.equal(torch.stack(outputs), everyone)
            tensor = layouts()[at]
            inputs = [layouts()[at] * (to + 1) for to in range(size)] if rank == 0 else None
            dist.scatter(tensor, inputs, 0)
            assert torch.equal(tensor, mine(rank))
            tensor = layouts()[at]
            dist.reduce_scatter(tensor, [layouts()[at]] * size)
            assert torch.equal(tensor, total)
            tensor = mine(rank)
            dist.reduce_scatter_tensor(tensor, torch.cat([layouts()[at]] * size))
            assert torch.equal(tensor, total)
            # What is between the values is left alone.
            gaps = torch.full((6, 8), -1)
            dist.all_reduce(gaps[:, ::2], dist.ReduceOp.MAX)
            dist.broadcast(gaps[:, ::2], 0)
            assert torch.equal(gaps, torch.full((6, 8), -1))
        sparse = mine(rank).to_sparse()
        dist.all_reduce(sparse)
        assert torch.equal(sparse.to_dense(), total)


@pytest.mark.parametrize("inference", [False, True])
def test_any_layout_and_mode_with_collectives_of_gloo(inference: bool) -> None:
    ranks.values(ranks.run(_use_layouts_that_gloo_does_not_know, 2, inference))


def _use_tensors_that_overlap_themselves(inference: bool) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    total = size * (size + 1) // 2

    def expanded(dtype: torch.dtype = torch.float32, count: int = 5) -> torch.Tensor:
        return torch.full((1,), rank + 1, dtype=dtype).expand(count)

    with torch.inference_mode(inference):
        for dtype in (torch.float32, torch.bfloat16, torch.float64, torch.int64):
            for op, expected in (
                (dist.ReduceOp.SUM, total),
                (dist.ReduceOp.AVG, total / size if dtype.is_floating_point else total // size),
                (dist.ReduceOp.MAX, size),
            ):
                for count in (5, 5000):
                    tensor = expanded(dtype, count)
                    dist.all_reduce(tensor, op)
                    assert tensor.tolist() == [expected] * count, (dtype, op)
        matrix = torch.full((3, 1, 2), float(rank)).expand(3, 4, 2)
        work = dist.all_reduce(matrix, async_op=True)
        (value,) = work.get_future().wait()
        assert value.data_ptr() == matrix.data_ptr()
        assert torch.equal(matrix, torch.full((3, 4, 2), total - size))
        windows = (torch.arange(3001.0) + rank).unfold(0, 2, 1)
        dist.all_reduce(windows)
        assert torch.equal(windows[:, 0], size * torch.arange(3000.0) + total - size)
        # The ranks need not agree.
        tensor = torch.full((5,), float(rank + 1)) if rank else expanded()
        dist.all_reduce(tensor)
        assert tensor.tolist() == [total] * 5
        both = [expanded(), torch.ones(3)]
        dist.all_reduce_coalesced(both)
        assert both[0].tolist() == [total] * 5 and both[1].tolist() == [size] * 3
        nan = torch.full((1,), float("nan"), dtype=torch.float64).expand(5)
        dist.all_reduce(nan)
        assert nan.isnan().all()
        tensor = expanded()
        dist.broadcast(tensor, 1)
        assert tensor.tolist() == [2.0] * 5
        tensor = expanded()
        dist.reduce(tensor, 0)
        assert tensor.tolist() == [rank + 1 if rank else total] * 5
        outputs = [torch.zeros(1).expand(5) for _ in range(size)]
        dist.all_gather(outputs, expanded())
        assert [output[4].item() for output in outputs] == list(range(1, size + 1))
        flat = torch.zeros(5 * size)
        dist.all_gather_into_tensor(flat, expanded())
        assert flat[::5].tolist() == list(range(1, size + 1))
        output = torch.zeros(1).expand(5)
        dist.reduce_scatter_tensor(output, expanded(count=5 * size))
        assert output.tolist() == [total] * 5
        with pytest.raises(ValueError, match="share memory, but their results differ"):
            dist.all_gather_into_tensor(torch.zeros(1).expand(5 * size), expanded())
        different = torch.arange(5.0) if rank else expanded()
        if rank == 0:
            with pytest.raises(ValueError, match="share memory, but their results differ"):
                dist.all_reduce(different)
        else:
            dist.all_reduce(different)
        # The group goes on.
        dist.all_reduce(tensor)


@pytest.mark.parametrize("inference", [False, True])
def test_tensors_whose_elements_share_memory(inference: bool) -> None:
    ranks.values(ranks.run(_use_tensors_that_overlap_themselves, 2, inference))


def _lose_a_rank_with_an_expanded_tensor() -> None:
    tensor = torch.ones(1).expand(5000)
    dist.all_reduce(tensor)
    if dist.get_rank() == 0:
        dist.all_reduce(tensor)


def test_an_expanded_tensor_fails_as_others_do() -> None:
    first, _ = ranks.run(_lose_a_rank_with_an_expanded_tensor, 2)
    assert first.error and first.error.startswith("PeerLostError"), first.error


def _average_other_types() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    average = dist.ReduceOp.AVG
    for dtype in (torch.int8, torch.uint8, torch.int32, torch.int64):
        # 5 / 3 and -5 / 3 are rounded toward zero.
        signs = [1, 1, 1] if dtype == torch.uint8 else [1, -1, 3]
        tensor = torch.tensor([s * [1, 2, 2][rank] for s in signs], dtype=dtype)
        expected = [s * 5 // 3 if s > 0 else -1 for s in signs]
        for call in (dist.all_reduce, dist.all_reduce_coalesced):
            copy = tensor.clone()
            call([copy] if call is dist.all_reduce_coalesced else copy, average)
            assert copy.dtype == dtype and copy.tolist() == expected, (dtype, copy)
        copy = tensor.clone()
        dist.reduce(copy, 1, average)
        assert rank != 1 or copy.tolist() == expected
        scattered = torch.zeros_like(tensor)
        dist.reduce_scatter(scattered, [tensor.clone() for _ in range(size)], average)
        assert scattered.tolist() == expected
        scattered = torch.zeros_like(tensor)
        dist.reduce_scatter_tensor(scattered, tensor.repeat(size), average)
        assert scattered.tolist() == expected
    for dtype in (torch.float64, torch.complex64, torch.complex128):
        tensor = torch.full((2000,), rank, dtype=dtype)
        dist.all_reduce(tensor, average)
        assert torch.equal(tensor, torch.ones(2000, dtype=dtype)), dtype
    work = dist.all_reduce(torch.tensor([rank]), average, async_op=True)
    (value,) = work.get_future().wait()
    assert value.tolist() == [1]
    empty = torch.empty(0)
    dist.all_reduce(empty, average)
    with pytest.raises(ValueError, match="truth values have no average"):
        dist.all_reduce(torch.ones(3, dtype=torch.bool), average)
    alone = [dist.new_group([r]) for r in range(size)][rank]
    single = torch.tensor([7])
    dist.all_reduce(single, average, group=alone)
    assert single.tolist() == [7]


def test_averages_of_types_that_gloo_sums() -> None:
    ranks.values(ranks.run(_average_other_types, 3))


def _mistake_an_average() -> None:
    op = dist.ReduceOp.AVG if dist.get_rank() else dist.ReduceOp.SUM
    dist.all_reduce(torch.ones(3, dtype=torch.int64), op)


def test_an_average_of_integers_is_no_sum() -> None:
    for outcome in ranks.run(_mistake_an_average, 2, group="check = true\n"):
        assert outcome.error and outcome.error.startswith("MismatchError"), outcome.error
        assert "all_reduce (AVG) of 3 " in outcome.error, outcome.error


def _sum_coalesced() -> None:
    size = dist.get_world_size()
    tensors = [torch.full((n,), float(n)) for n in (2, 3000, 5)]
    with dist.distributed_c10d._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    for n, tensor in zip((2, 3000, 5), tensors):
        assert tensor.tolist() == [float(n * size)] * n


def test_coalesced_sums() -> None:
    ranks.values(ranks.run(_sum_coalesced, 2))


def _use_subgroups() -> list[float]:
    rank = dist.get_rank()
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    everyone = torch.ones(2)
    dist.all_reduce(everyone)
    mine = torch.full((2,), float(rank))
    dist.all_reduce(mine, group=pairs[rank // 2])
    alone = [dist.new_group([r]) for r in range(4)][rank]
    single = torch.full((2,), float(rank))
    dist.all_reduce(single, dist.ReduceOp.AVG, group=alone)
    dist.destroy_process_group(pairs[rank // 2])
    dist.all_reduce(everyone)
    return [everyone[0].item(), mine[0].item(), single[0].item()]


def test_subgroups_have_sums_of_their_own() -> None:
    outcome = ranks.values(ranks.run(_use_subgroups, 4))
    assert outcome == [[16.0, 1.0, 0.0], [16.0, 1.0, 1.0], [16.0, 5.0, 2.0], [16.0, 5.0, 3.0]]


def _use_again() -> float:
    tensor = torch.ones(10)
    for _ in range(3):
        dist.all_reduce(tensor)
        dist.destroy_process_group()
        dist.init_process_group("tributary")
    dist.all_reduce(tensor)
    return tensor[0].item()


def test_a_group_can_be_created_again() -> None:
    assert ranks.values(ranks.run(_use_again, 2)) == [16.0, 16.0]


def _count() -> tuple[dict[str, float], dict[str, float]]:
    import tributary

    before = tributary.stats()
    dist.all_reduce(torch.ones(1000))
    return before, tributary.stats()


def test_statistics_start_with_the_first_collective() -> None:
    for before, after in ranks.values(ranks.run(_count, 2)):
        assert before == {}
        assert after and all(isinstance(value, (int, float)) for value in after.values())


def test_more_ranks_than_a_switch_has_ports() -> None:
    store, size = dist.HashStore(), 33

    def sum_up(rank: int) -> torch.Tensor:
        network = Network(store, rank, size, 60.0)
        tensor = torch.arange(5000.0) + rank
        network.all_reduce([tensor], average=False).wait()
        network.close()
        return tensor

    # Fixed point adds integers exactly.
    expected = size * torch.arange(5000.0) + size * (size - 1) / 2
    with ThreadPoolExecutor(size) as threads:
        assert all(expected.equal(total) for total in threads.map(sum_up, range(size)))
