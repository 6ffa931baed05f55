"""Tensors on devices of which each rank has its own, and NCCL, with stand-ins: no device is needed.

Tensors of 64 or more elements stand for those on devices, and Gloo for NCCL. What only devices have,
such as streams and pinned memory, is not tried here; `test_cuda.py` needs a device.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import ProcessGroupGloo
from torch.nn.parallel import DistributedDataParallel

import tributary
from tributary import backend, devices, rendezvous, staging

import ranks

# Calls of the stand-in for NCCL, by the number of its ranks and method.
calls: list[tuple[int, str]] = []


class _Nccl:
    """Gloo, with what the package needs of NCCL beside."""

    def __init__(self, store: Any, rank: int, size: int, timeout: Any) -> None:
        self._gloo = ProcessGroupGloo(store, rank, size, timeout=timeout)
        self._size = size

    def __getattr__(self, name: str) -> Any:
        calls.append((self._size, name))
        if name == "shutdown":
            return lambda: None
        if name == "_start_coalescing":
            return lambda: None
        if name == "_end_coalescing":
            return lambda: None
        return getattr(self._gloo, name)


class _Staged:
    """A tensor of a device on its way through host memory."""

    def __init__(self, tensor: torch.Tensor, by: devices.HostDevices | None) -> None:
        self._tensor = tensor
        self._copied = tensor if by is None else by.add(tensor)
        self.host = torch.full_like(self._copied, float("nan"))
        self.host = self.host.contiguous().view(-1)
        if by is None or by.is_first:
            self.host.copy_(self._copied.reshape(-1))

    def wait_for_host(self) -> None:
        pass

    def copy_back(self, then: Callable[[], None]) -> None:
        self._tensor.copy_(self.host.view(self._tensor.shape))
        then()


def _have_devices(per_host: int, own: bool = True) -> None:
    rank = dist.get_rank()
    host = rank // per_host
    rendezvous._host = lambda: f"host {host}"
    devices.are_there = lambda: True
    devices.is_on_device = lambda tensor: tensor.numel() >= 64
    devices.identity = lambda: f"device {rank if own else host}"
    devices._open = _Nccl
    staging.Staging.stage = lambda _, tensor, by: _Staged(tensor, by)
    calls.clear()


def _run(
    function: Callable[..., Any], size: int, *arguments: Any, **options: Any
) -> list[Any]:
    environment = {"TRIBUTARY_ADDRESS": "127.0.0.1"}
    return ranks.values(ranks.run(function, size, *arguments, environment=environment, **options))


def _sums(per_host: int) -> list[tuple[int, str]]:
    _have_devices(per_host)
    rank, size = dist.get_rank(), dist.get_world_size()
    for call, dtype in enumerate((torch.float32, torch.float16, torch.bfloat16)):
        for op, divisor in ((dist.ReduceOp.SUM, 1), (dist.ReduceOp.AVG, size)):
            every = [torch.arange(3000).reshape(60, 50) % 7 + r + call for r in range(size)]
            own = [every[rank].to(dtype), torch.ones(3, dtype=dtype), every[rank].to(dtype).t()]
            works = [dist.all_reduce(tensor, op, async_op=True) for tensor in own]
            for work in works:
                work.wait()
            expected = (sum(every) / divisor).to(dtype)
            for at, want in ((0, expected), (2, expected.t())):
                assert torch.equal(own[at], want), (dtype, op, at, own[at], want)
            assert torch.equal(own[1], torch.full((3,), size / divisor, dtype=dtype))
    return list(calls)


@pytest.mark.parametrize("per_host, size", [(2, 4), (2, 3), (3, 5)])
def test_devices_of_a_host_add_before_the_network(per_host: int, size: int) -> None:
    for rank, made in enumerate(_run(_sums, size, per_host)):
        here = min(per_host, size - rank // per_host * per_host)
        reduces = [] if here == 1 else [(here, "reduce")] * 12
        assert [call for call in made if call[1] != "shutdown"] == reduces, rank


def test_each_rank_of_a_switch_sends_for_its_own_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "settings", ranks.SWITCH)
    assert all(made == [] for made in _run(_sums, 2, 2))


def test_nccl_adds_on_one_host() -> None:
    # Gloo has no averages, as NCCL has.
    for made in _run(_sums_of_floats, 2):
        assert made == [(2, "allreduce")] * 3


def _sums_of_floats() -> list[tuple[int, str]]:
    _have_devices(2)
    for _ in range(3):
        tensor = torch.full((100,), dist.get_rank() + 1.0)
        dist.all_reduce(tensor)
        assert tensor.eq(3).all()
        assert tributary.stats()["values"] == 0
    return list(calls)


def _shared_device() -> list[tuple[int, str]]:
    _have_devices(2, own=False)
    tensor = torch.full((100,), dist.get_rank() + 1.0)
    dist.all_reduce(tensor)
    assert tensor.eq(3).all()
    every = torch.empty(200)
    dist.all_gather_into_tensor(every, tensor)
    assert every.eq(3).all()
    return list(calls)


def test_ranks_that_share_a_device_do_without_nccl() -> None:
    assert all(made == [] for made in _run(_shared_device, 2))


def _refuses() -> str:
    _have_devices(2)
    tensor = torch.full((100,), float("nan"))
    with pytest.raises(tributary.NotFiniteError) as error:
        dist.all_reduce(tensor)
    return str(error.value)


def test_values_that_are_refused_pass_through_memory() -> None:
    for text in _run(_refuses, 2, group='nonfinite = "raise"\n'):
        assert "value 0 is not finite" in text


def _others(check: bool) -> list[tuple[int, str]]:
    _have_devices(2)
    rank, size = dist.get_rank(), dist.get_world_size()
    own = torch.full((100,), float(rank))
    every = torch.empty(size * 100)
    dist.all_gather_into_tensor(every, own)
    assert every.view(size, 100).eq(torch.arange(size).unsqueeze(1)).all()
    dist.broadcast(own, 1)
    assert own.eq(1).all()
    whole = torch.arange(100)
    dist.all_reduce(whole, dist.ReduceOp.MAX)
    # Others' strides may differ.
    square = torch.arange(100.0).view(10, 10)
    square = square.t() if rank == 1 else square.t().contiguous()
    work = dist.all_reduce(square, dist.ReduceOp.MAX, async_op=True)
    work.wait()
    assert square.eq(torch.arange(100.0).view(10, 10).t()).all()
    # NCCL has no operations of bits.
    bits = torch.full((100,), 1 << rank)
    dist.all_reduce(bits, dist.ReduceOp.BOR)
    assert bits.eq((1 << size) - 1).all()
    # Small tensors are on hosts.
    dist.all_reduce(torch.ones(3), dist.ReduceOp.MAX)
    other = torch.empty(100)
    works = dist.batch_isend_irecv(
        [
            dist.P2POp(dist.isend, own * (rank + 1), (rank + 1) % size),
            dist.P2POp(dist.irecv, other, (rank - 1) % size),
        ]
    )
    for work in works:
        work.wait()
    assert other.eq((rank - 1) % size + 1).all()
    if check:
        # One rank finds the mismatch, and may be gone before others look.
        with pytest.raises(tributary.Error, match=r"calls? broadcast"):
            dist.broadcast(own, 0) if rank == 0 else dist.all_gather_into_tensor(every, own)
    return list(calls)


@pytest.mark.parametrize("check", [False, True])
def test_nccl_does_the_rest(check: bool) -> None:
    batch = ["_start_coalescing", "send", "recv", "_end_coalescing"]
    expected = ["all_gather_single", "broadcast", "allreduce", "allreduce", *batch]
    for made in _run(_others, 3, check, group="check = true\n" if check else ""):
        # After a mismatch, the group has ended.
        ended = ("set_timeout", "abort", "shutdown")
        assert [name for _, name in made if name not in ended] == expected


def _mismatch() -> str:
    _have_devices(2)
    dist.all_reduce(torch.ones(100))
    # Gloo, unlike NCCL, ends the process where sizes differ.
    op = dist.ReduceOp.AVG if dist.get_rank() == 3 else dist.ReduceOp.SUM
    with pytest.raises(tributary.Error) as error:
        dist.all_reduce(torch.ones(100), op)
    return str(error.value)


def test_ranks_that_call_different_sums_are_named() -> None:
    for text in _run(_mismatch, 4):
        assert "rank 3 calls all_reduce (AVG) of 100 × float32" in text, text


def _train() -> list[float]:
    torch.manual_seed(1)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(32, 64), nn.Linear(64, 8)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(dist.get_rank())
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        inputs = torch.randn(16, 32, generator=generator)
        loss = (model(inputs) - inputs[:, :8]).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def _train_on_devices() -> list[float]:
    _have_devices(2)
    losses = _train()
    assert (2, "reduce") in calls
    return losses


def test_ddp_trains_as_with_gloo() -> None:
    ours = _run(_train_on_devices, 4)
    gloo = _run(_train, 4, backend="gloo")
    for mine, theirs in zip(ours, gloo):
        assert max(abs(a - b) for a, b in zip(mine, theirs)) < 1e-3


def _lose_a_rank() -> str:
    _have_devices(2)
    dist.all_reduce(torch.ones(100))
    if dist.get_rank() == 1:
        os._exit(9)
    with pytest.raises(Exception) as error:
        for _ in range(1000):
            dist.all_reduce(torch.ones(100))
    for call in (
        lambda: dist.all_reduce(torch.ones(3)),
        lambda: dist.all_reduce(torch.ones(100)),
        lambda: dist.broadcast(torch.ones(100), 0),
    ):
        assert "rank 1" in _error_of_the_group(call)
    return str(error.value)


def _error_of_the_group(call: Callable[[], object]) -> str:
    """Until the group knows of the loss, errors may be NCCL's."""
    for _ in range(100):
        try:
            call()
        except tributary.PeerLostError as error:
            return str(error)
        except RuntimeError:
            time.sleep(0.05)
    return "no error of the group"


def test_a_rank_that_dies_is_named() -> None:
    outcomes = ranks.run(_lose_a_rank, 4, environment={"TRIBUTARY_ADDRESS": "127.0.0.1"})
    assert outcomes[1].exit_code == 9
    for rank in (0, 2, 3):
        assert outcomes[rank].error is None, outcomes[rank].error


def _coalesce() -> None:
    """What PyTorch makes one work of ends before the wait for it does."""
    _have_devices(1)
    for call in range(20):
        tensors = [torch.full((3,), float(call)), torch.full((100,), 1.0)]
        with dist.distributed_c10d._coalescing_manager(device=torch.device("cpu"), async_ops=True) as all_:
            for tensor in tensors:
                dist.all_reduce(tensor)
        all_.wait()
        assert tensors[0].eq(2 * call).all() and tensors[1].eq(2).all()


def test_coalesced_sums_are_waited_for() -> None:
    _run(_coalesce, 2)


def _sums_end_in_their_copies() -> None:
    """Otherwise streams do not wait for the copies: the device's stream is that of the copy."""
    _have_devices(2)
    copying = threading.local()
    ended = []
    copy_back, set_result = _Staged.copy_back, torch.futures.Future.set_result

    def copy(self: _Staged, then: Callable[[], None]) -> None:
        copying.now = True
        copy_back(self, then)
        copying.now = False

    def set_(self: Any, result: Any) -> None:
        ended.append(getattr(copying, "now", False))
        set_result(self, result)

    _Staged.copy_back, torch.futures.Future.set_result = copy, set_
    for size in (100, 100_000):
        works = [dist.all_reduce(torch.ones(size), async_op=True) for _ in range(50)]
        for work in works:
            work.wait()
    assert len(ended) == 100 and all(ended), ended.count(False)


def test_sums_end_on_the_streams_of_their_copies() -> None:
    _run(_sums_end_in_their_copies, 4)


assert backend  # Registers the backend.
