"""DDP with the backend and with the hook, beside Gloo: the examples, as users start them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import warnings
from itertools import product
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import ranks

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "pytorch"
# Losses start at 2.3. What fixed point loses, and what training makes of it.
TOLERANCE = 0.01


def _train(
    directory: Path,
    size: int,
    backend: str,
    *arguments: str,
    example: str = "train.py",
    settings: str = "",
) -> tuple[list[float], str]:
    """The loss of each step, and what the example prints."""
    losses = directory / f"{example}.{backend}.json"
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(size)),
        *(str(EXAMPLES / example), "--backend", backend, "--losses", str(losses), *arguments),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TRIBUTARY_SETTINGS": settings}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return json.loads(losses.read_text()), ended.stdout


def _assert_same_training(ours: list[float], gloo: list[float]) -> None:
    worst = max(abs(a - b) for a, b in zip(ours, gloo))
    assert worst < TOLERANCE, worst
    assert ours[-1] < ours[0]


def test_a_training_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="the example needs scikit-learn")
    whole, printed = _train(tmp_path, 2, "gloo", "--steps", "20")
    kept = ("--checkpoint", str(tmp_path / "kept.pt"))
    first, _ = _train(tmp_path, 2, "gloo", "--steps", "10", *kept)
    rest, again = _train(tmp_path, 2, "gloo", "--steps", "20", *kept)
    assert first + rest == whole
    weights = re.compile(r"identical \(\w+\)")
    assert weights.findall(again) == weights.findall(printed) != []


@pytest.mark.parametrize("size", [2, 4])
def test_digits_train_as_with_gloo(tmp_path: Path, size: int) -> None:
    pytest.importorskip("sklearn", reason="the example needs scikit-learn")
    gloo, _ = _train(tmp_path, size, "gloo", "--steps", "200")
    for backend, way in product(("tributary", "hook"), (ranks.MEMORY, ranks.SWITCH)):
        losses, printed = _train(tmp_path, size, backend, "--steps", "200", settings=way)
        assert len(losses) == 200
        _assert_same_training(losses, gloo)
        assert re.search(r"weights at all ranks +identical", printed), printed


def _train_with_power_sgd() -> list[float]:
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

    torch.manual_seed(1)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64)))
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=4, start_powerSGD_iter=2)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(dist.get_rank())
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        inputs = torch.randn(16, 64, generator=generator)
        loss = (model(inputs) - inputs).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_a_hook_of_pytorch_that_waits_in_callbacks() -> None:
    ours = ranks.values(ranks.run(_train_with_power_sgd, 2))
    gloo = ranks.values(ranks.run(_train_with_power_sgd, 2, backend="gloo"))
    for mine, theirs in zip(ours, gloo):
        assert max(abs(a - b) for a, b in zip(mine, theirs)) < TOLERANCE


def _train_in_unusual_ways(use_hook: bool) -> list[torch.Tensor]:
    gradients = []
    for options in (
        {"find_unused_parameters": True},
        {"static_graph": True},
        {"gradient_as_bucket_view": True, "find_unused_parameters": True},
    ):
        torch.manual_seed(1)
        branches = nn.ModuleList([nn.Linear(32, 32), nn.Linear(32, 32)])
        unused = "find_unused_parameters" in options

        class Branching(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.branches = branches

            def forward(self, inputs: torch.Tensor) -> torch.Tensor:
                first = self.branches[0](inputs)
                return first if unused else self.branches[1](first)

        model = DistributedDataParallel(Branching(), **options)
        if use_hook:
            import tributary

            model.register_comm_hook(tributary.State(), tributary.allreduce_hook)
        for step in range(3):
            if not options.get("static_graph") and step == 1:
                with model.no_sync():
                    model(torch.ones(2, 32)).sum().backward()
            model(torch.ones(2, 32) * (1 + dist.get_rank())).sum().backward()
        gradients.append(branches[0].weight.grad.clone())
    return gradients


@pytest.mark.parametrize(("backend", "use_hook"), [("tributary", False), ("gloo", True)])
def test_options_of_ddp(backend: str, use_hook: bool) -> None:
    first, second = ranks.values(ranks.run(_train_in_unusual_ways, 2, use_hook, backend=backend))
    gloo, _ = ranks.values(ranks.run(_train_in_unusual_ways, 2, False, backend="gloo"))
    for mine, others, expected in zip(first, second, gloo):
        assert mine.equal(others)
        torch.testing.assert_close(mine, expected)


def _train_compiled() -> tuple[list[float], list[str]]:
    torch.manual_seed(1)
    # DDP rebuilds its buckets while the forward pass is traced, if there are several.
    layers = [nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 64)]
    model = torch.compile(DistributedDataParallel(nn.Sequential(*layers)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(dist.get_rank())
    losses = []
    with warnings.catch_warnings(record=True) as caught:
        for _ in range(5):
            optimizer.zero_grad()
            inputs = torch.randn(16, 64, generator=generator)
            loss = (model(inputs) - inputs).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses, [str(warning.message) for warning in caught]


@pytest.mark.skipif(shutil.which("c++") is None, reason="torch.compile needs a C++ compiler")
def test_compiled_models_train_as_with_gloo() -> None:
    ours = ranks.values(ranks.run(_train_compiled, 2, limit=180.0))
    gloo = ranks.values(ranks.run(_train_compiled, 2, backend="gloo", limit=180.0))
    for (mine, warned), (theirs, _) in zip(ours, gloo):
        assert max(abs(a - b) for a, b in zip(mine, theirs)) < TOLERANCE
        assert not any("Dynamo" in text for text in warned), warned


@pytest.mark.parametrize("protocol", ["p4inc", "esa"])
def test_packets_are_lost_and_training_is_the_same(tmp_path: Path, protocol: str) -> None:
    pytest.importorskip("sklearn", reason="the example needs scikit-learn")
    calm, _ = _train(tmp_path, 4, "tributary", "--steps", "200", settings=ranks.SWITCH)
    faults = f'protocol = "{protocol}"\n[faults]\nloss = 0.05\nreorder = 0.01\nduplicate = 0.01\n'
    losses, printed = _train(tmp_path, 4, "tributary", "--steps", "200", settings=faults)
    # Sums do not depend on what the network does.
    assert losses == calm
    assert re.search(r"weights at all ranks +identical", printed), printed
    resent = re.search(r"packets_resent +(\d+)", printed)
    assert resent and int(resent[1]) > 1000, printed


@pytest.mark.parametrize(
    ("example", "arguments"),
    [
        ("transformer.py", ["--steps", "5", "--batch", "4"]),
        # With fewer samples, batch normalisation makes much of the last bits.
        ("resnet.py", ["--steps", "3", "--batch", "16", "--samples", "64", "--size", "32"]),
    ],
)
def test_other_examples_train_as_with_gloo(
    tmp_path: Path, example: str, arguments: list[str]
) -> None:
    gloo, _ = _train(tmp_path, 2, "gloo", *arguments, example=example)
    ours, printed = _train(tmp_path, 2, "tributary", *arguments, example=example)
    assert max(abs(a - b) for a, b in zip(ours, gloo)) < TOLERANCE
    assert re.search(r"weights at all ranks +identical", printed), printed


def _layers_of_buckets(use_hook: bool) -> list[tuple[int, int] | None]:
    import tributary

    torch.manual_seed(1)
    layers = [nn.Linear(100, 100) for _ in range(6)]
    model = DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=0.03)
    state = tributary.State()
    if use_hook:
        model.register_comm_hook(state, tributary.allreduce_hook)
    network = state.network
    seen: list[tuple[int, int] | None] = []
    start = network.all_reduce

    def record(*arguments, **options):
        seen.append(options["layer"])
        return start(*arguments, **options)

    network.all_reduce = record
    # DDP chooses other buckets after the first pass.
    for _ in range(3):
        seen.clear()
        model(torch.ones(2, 100)).sum().backward()
    return seen


@pytest.mark.parametrize("use_hook", [False, True])
def test_the_layer_of_each_bucket_is_known(use_hook: bool) -> None:
    for layers in ranks.values(ranks.run(_layers_of_buckets, 2, use_hook)):
        count = len(layers)
        assert count > 3
        assert layers == [(count - 1 - place, count) for place in range(count)]


def _hook_shares_memory(dtype: torch.dtype) -> None:
    import tributary

    torch.manual_seed(1)
    model = DistributedDataParallel(nn.Linear(50, 50).to(dtype), gradient_as_bucket_view=True)
    buffers = []

    def hook(state: tributary.State, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        buffers.append(bucket.buffer().data_ptr())
        future = tributary.allreduce_hook(state, bucket)
        return future.then(lambda ended: _check(ended.value(), buffers[-1]))

    # The annotations of a hook must not be texts.
    hook.__annotations__.update(
        bucket=dist.GradBucket, **{"return": torch.futures.Future[torch.Tensor]}
    )
    state = tributary.State()
    model.register_comm_hook(state, hook)
    inputs = torch.full((1, 50), float(dist.get_rank()), dtype=dtype)
    model(inputs).sum().backward()
    mean = sum(range(dist.get_world_size())) / dist.get_world_size()
    assert torch.allclose(model.module.weight.grad, torch.full((), mean, dtype=dtype), atol=0.01)
    state.close()


def _check(buffer: torch.Tensor, address: int) -> torch.Tensor:
    assert buffer.data_ptr() == address
    return buffer


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("backend", ["gloo", "tributary"])
def test_the_hook_averages_in_the_memory_of_the_bucket(backend: str, dtype: torch.dtype) -> None:
    ranks.values(ranks.run(_hook_shares_memory, 2, dtype, backend=backend))
