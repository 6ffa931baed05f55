"""What Gloo carries out: other collectives, messages, and what PyTorch builds on them."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn

import ranks


def _use_collectives() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()

    tensor = torch.full((3,), float(rank))
    dist.broadcast(tensor, 1)
    assert tensor.tolist() == [1.0] * 3

    gathered = [torch.zeros(2) for _ in range(size)]
    dist.all_gather(gathered, torch.full((2,), float(rank)))
    assert [part[0].item() for part in gathered] == list(range(size))

    flat = torch.zeros(2 * size)
    dist.all_gather_into_tensor(flat, torch.full((2,), float(rank)))
    assert flat[::2].tolist() == list(range(size))

    parts = [torch.zeros(1) for _ in range(size)] if rank == 1 else None
    dist.gather(torch.full((1,), float(rank)), parts, dst=1)
    if parts is not None:
        assert [part.item() for part in parts] == list(range(size))

    part = torch.zeros(1)
    dist.scatter(
        part, [torch.full((1,), 2.0 * r) for r in range(size)] if rank == 0 else None, src=0
    )
    assert part.item() == 2.0 * rank

    tensor = torch.ones(2)
    dist.reduce(tensor, 1)
    if rank == 1:
        assert tensor.tolist() == [size] * 2

    for op, expected in ((dist.ReduceOp.SUM, size), (dist.ReduceOp.AVG, 1)):
        output = torch.zeros(2)
        dist.reduce_scatter_tensor(output, torch.ones(2 * size), op)
        assert output.tolist() == [expected] * 2
        dist.reduce_scatter(output, [torch.ones(2) for _ in range(size)], op)
        assert output.tolist() == [expected] * 2

    output = torch.zeros(size)
    dist.all_to_all_single(output, torch.full((size,), float(rank)))
    assert output.tolist() == list(range(size))
    sizes = [rank + 1] * size
    output = torch.zeros(sum(r + 1 for r in range(size)))
    dist.all_to_all_single(output, torch.ones(sum(sizes)), [r + 1 for r in range(size)], sizes)
    assert output.sum().item() == len(output)

    dist.barrier()
    dist.monitored_barrier()


def test_collectives() -> None:
    ranks.values(ranks.run(_use_collectives, 3))


def _use_other_sums() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    for dtype in (torch.int32, torch.int64, torch.uint8, torch.float64, torch.complex64):
        tensor = torch.ones(3, dtype=dtype)
        dist.all_reduce(tensor)
        assert tensor.tolist() == [size] * 3, dtype
    for op, expected in (
        (dist.ReduceOp.MAX, size - 1),
        (dist.ReduceOp.MIN, 0),
        (dist.ReduceOp.PRODUCT, 0),
    ):
        tensor = torch.full((3,), float(rank))
        dist.all_reduce(tensor, op)
        assert tensor.tolist() == [expected] * 3, op
    empty = torch.ones(0)
    dist.all_reduce(empty)
    sparse = torch.eye(3).to_sparse()
    dist.all_reduce(sparse)
    assert torch.equal(sparse.to_dense(), size * torch.eye(3))
    nothing = dist.all_reduce(torch.ones(3, dtype=torch.int64), async_op=True)
    assert nothing.get_future().wait()[0].tolist() == [size] * 3


def test_sums_that_are_not_for_the_network() -> None:
    ranks.values(ranks.run(_use_other_sums, 2))


def _send() -> None:
    rank = dist.get_rank()
    tensor = torch.full((4,), float(rank))
    if rank == 0:
        dist.send(tensor, 1)
    else:
        dist.recv(tensor, 0)
    assert tensor.tolist() == [0.0] * 4
    mine, other = torch.full((4,), float(rank)), torch.zeros(4)
    operations = [dist.P2POp(dist.isend, mine, 1 - rank), dist.P2POp(dist.irecv, other, 1 - rank)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    assert other.tolist() == [1.0 - rank] * 4


def test_messages_between_two_ranks() -> None:
    ranks.values(ranks.run(_send, 2))


def _pass_objects() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    objects: list[object] = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": r} for r in range(size)]
    received = [{"from": 0}] if rank == 0 else [None]
    dist.broadcast_object_list(received, src=0)
    assert received == [{"from": 0}]
    output: list[object] = [None]
    dist.scatter_object_list(output, [f"for {r}" for r in range(size)] if rank == 0 else None)
    assert output == [f"for {rank}"]


def test_objects() -> None:
    ranks.values(ranks.run(_pass_objects, 2))


def _use_functional_collectives() -> None:
    import torch.distributed._functional_collectives as functional

    rank, size = dist.get_rank(), dist.get_world_size()
    group = dist.group.WORLD
    total = functional.all_reduce(torch.ones(100), "sum", group)
    assert functional.wait_tensor(total).tolist() == [size] * 100
    gathered = functional.all_gather_tensor(torch.full((2,), float(rank)), 0, group)
    assert functional.wait_tensor(gathered)[::2].tolist() == list(range(size))
    part = functional.reduce_scatter_tensor(torch.ones(2 * size), "avg", 0, group)
    assert functional.wait_tensor(part).tolist() == [1.0, 1.0]
    both = functional.all_reduce_coalesced([torch.ones(3), torch.ones(5)], "avg", group)
    assert [tensor.sum().item() for tensor in both] == [3.0, 5.0]


def test_functional_collectives() -> None:
    ranks.values(ranks.run(_use_functional_collectives, 2))


def _shard(backend_is_tributary: bool) -> list[float]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    del backend_is_tributary
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(2 + dist.get_rank())
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = model(torch.randn(4, 8)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_fsdp2_trains_as_with_gloo() -> None:
    ours = ranks.values(ranks.run(_shard, 2, True))
    gloo = ranks.values(ranks.run(_shard, 2, False, backend="gloo"))
    assert ours == gloo


def _use_debug_level() -> None:
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    dist.broadcast(tensor, 0)
    dist.barrier()
    assert tensor.tolist() == [2.0] * 3


def test_the_debug_level_of_pytorch() -> None:
    environment = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL", "TORCH_CPP_LOG_LEVEL": "ERROR"}
    ranks.values(ranks.run(_use_debug_level, 2, environment=environment))
