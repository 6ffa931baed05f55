"""CUDA tensors, which pass through pinned host memory. Every rank uses the first device."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import ranks

if not torch.cuda.is_available():
    pytest.skip("no CUDA device", allow_module_level=True)


def _has_backend() -> bool:
    try:
        import tributary.backend  # noqa: F401
    except ImportError:
        return False
    return True


needs_backend = pytest.mark.skipif(not _has_backend(), reason="PyTorch 2.14 or later is needed")


def _sum() -> None:
    device = torch.device("cuda:0")
    rank, size = dist.get_rank(), dist.get_world_size()
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        # The multiplications are still queued when the sum starts, and the sum when it is read.
        tensor = torch.full((1 << 20,), float(rank + 1), device=device, dtype=dtype)
        for _ in range(20):
            tensor = tensor * 2 / 2
        works = [dist.all_reduce(part, async_op=True) for part in tensor.chunk(4)]
        host = torch.ones(1000)
        works.append(dist.all_reduce(host, async_op=True))
        for work in works:
            work.wait()
        expected = size * (size + 1) / 2
        assert (tensor + 0).eq(expected).all().item(), dtype
        assert host.eq(size).all().item()
    tensor = torch.ones(10, device=device)
    future = dist.all_reduce(tensor, async_op=True).get_future().then(lambda f: f.value()[0] * 2)
    assert future.wait().eq(2 * size).all().item()
    dist.broadcast(tensor, 0)
    assert tensor.eq(size).all().item()


@needs_backend
def test_sums_of_tensors_on_the_device() -> None:
    ranks.values(ranks.run(_sum, 2))


def _train(use_tributary: bool) -> list[float]:
    device = torch.device("cuda:0")
    torch.manual_seed(1)
    layers = [nn.Linear(64, 64) for _ in range(8)]
    model = DistributedDataParallel(
        nn.Sequential(*layers).to(device), device_ids=[0], bucket_cap_mb=0.05
    )
    if use_tributary:
        import tributary

        model.register_comm_hook(tributary.State(), tributary.allreduce_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(dist.get_rank())
    losses = []
    for _ in range(50):
        optimizer.zero_grad()
        inputs = torch.randn(16, 64, generator=generator).to(device)
        loss = (model(inputs) - inputs).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_ddp_with_the_hook_trains_as_with_gloo() -> None:
    ours = ranks.values(ranks.run(_train, 2, True, backend="gloo"))
    gloo = ranks.values(ranks.run(_train, 2, False, backend="gloo"))
    for mine, theirs in zip(ours, gloo):
        assert max(abs(a - b) for a, b in zip(mine, theirs)) < 1e-3


@needs_backend
def test_ddp_with_the_backend_trains_as_with_gloo() -> None:
    ours = ranks.values(ranks.run(_train, 2, False))
    gloo = ranks.values(ranks.run(_train, 2, False, backend="gloo"))
    for mine, theirs in zip(ours, gloo):
        assert max(abs(a - b) for a, b in zip(mine, theirs)) < 1e-3
