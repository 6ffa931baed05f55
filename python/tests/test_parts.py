"""`all_gather` and `reduce_scatter` through a network, and FSDP2 with them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

import tributary

import ranks

PROTOCOLS = ("p4inc", "switchml", "atp")


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    faults = "[faults]\nloss = 0.02\nreorder = 0.02\n"
    text = f'protocol = "{request.param}"\n{faults}{ranks.SWITCH}'
    monkeypatch.setattr(ranks, "settings", text)
    return str(request.param)


def _packets() -> int:
    return int(tributary.stats()["packets_sent"])


def _exchange() -> dict[str, int]:
    """The packets that each collective takes, of 64 values or more."""
    rank, size = dist.get_rank(), dist.get_world_size()
    dist.barrier()
    packets = {}

    def count(name: str, call: Any) -> None:
        before = _packets()
        call()
        packets[name] = _packets() - before

    each = 5000
    own = torch.full((each,), float(rank)).add_(torch.arange(each) * 1e-3)
    every = torch.empty(size * each)
    count("gather", lambda: dist.all_gather_into_tensor(every, own))
    expected = [torch.full((each,), float(r)).add_(torch.arange(each) * 1e-3) for r in range(size)]
    assert torch.equal(every, torch.cat(expected))

    # Any bits, in place, and not whole words.
    short = torch.randint(0, 256, (size, 1001), dtype=torch.uint8)
    mine = short[rank].clone()
    dist.all_gather_into_tensor(short.view(-1), short[rank])
    parts = [torch.empty_like(mine) for _ in range(size)]
    dist.all_gather(parts, mine)
    assert torch.equal(short, torch.stack(parts)) and torch.equal(short[rank], mine)

    values = torch.arange(size * each, dtype=torch.float32) % 1000 - 500
    kept = values.clone()
    for op, factor in ((dist.ReduceOp.SUM, size), (dist.ReduceOp.AVG, 1)):
        part = torch.empty(each)
        count("scatter", lambda: dist.reduce_scatter_tensor(part, values, op))
        exact = values[rank * each : (rank + 1) * each] * factor
        assert torch.allclose(part, exact, rtol=1e-6, atol=1e-4), (op, part, exact)
    assert torch.equal(values, kept)
    return packets


def test_parts_go_through_the_network(protocol: str) -> None:
    for found in ranks.values(ranks.run(_exchange, 3)):
        # At least 10 packets of 2048 values each.
        goes = protocol != "atp"
        assert (found["gather"] > 5, found["scatter"] > 5) == (goes, goes), found


def _shard() -> tuple[list[float], int]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(64, 257), nn.ReLU(), nn.Linear(257, 40))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(2 + dist.get_rank())
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = model(torch.randn(16, 64)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, _packets() if dist.get_backend() == "tributary" else 0


def test_fsdp2_trains_in_the_network_as_with_gloo(protocol: str) -> None:
    ours = ranks.values(ranks.run(_shard, 3))
    gloo = ranks.values(ranks.run(_shard, 3, backend="gloo"))
    for (own, packets), (theirs, _) in zip(ours, gloo):
        assert own == pytest.approx(theirs, rel=1e-5)
        # Each step gathers and scatters all parameters.
        assert (packets > 20 * 3) == (protocol != "atp"), packets
