"""Libraries that train with DDP, as their users start them, beside Gloo."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import tributary

import ranks

# What torchrun sets beside the variables that PyTorch reads.
TORCHRUN = {"TORCHELASTIC_RUN_ID": "test", "LOCAL_WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
STEPS = 8


def _data() -> TensorDataset:
    generator = torch.Generator().manual_seed(3)
    classes = torch.randint(0, 10, (256,), generator=generator)
    return TensorDataset(torch.randn(256, 32, generator=generator), classes)


def _network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(32, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10))


def _assert_same_losses(ours: list[list[float]], gloo: list[list[float]]) -> None:
    assert len(ours) == len(gloo) == 2
    for mine, theirs in zip(ours, gloo):
        assert len(mine) >= STEPS
        assert mine == pytest.approx(theirs, rel=1e-4)


def _assert_trained_with(backend: str, model: nn.Module) -> None:
    assert dist.get_backend() == backend
    if backend == "tributary":
        gradients = sum(parameter.numel() for parameter in model.parameters())
        assert tributary.stats()["values"] >= 4 * gradients


def _fit_with_lightning(backend: str, directory: str) -> list[float]:
    import lightning
    from lightning.pytorch.strategies import DDPStrategy

    class Classifier(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.network = _network()
            self.losses: list[float] = []

        def training_step(self, batch: list[torch.Tensor], _index: int) -> torch.Tensor:
            loss = nn.functional.cross_entropy(self.network(batch[0]), batch[1])
            self.log("training", loss, sync_dist=True)
            self.losses.append(loss.item())
            return loss

        def validation_step(self, batch: list[torch.Tensor], _index: int) -> None:
            right = (self.network(batch[0]).argmax(1) == batch[1]).sum()
            # An average of integers, which Gloo refuses.
            self.log("right", right, sync_dist=True, on_epoch=True)
            loss = nn.functional.cross_entropy(self.network(batch[0]), batch[1])
            self.log("validation", loss, sync_dist=True)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), 0.1)

    # Lightning creates the group itself.
    dist.destroy_process_group()
    warnings.simplefilter("ignore")
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=2,
        strategy=DDPStrategy(process_group_backend=backend),
        max_epochs=2,
        gradient_clip_val=1.0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=directory,
    )
    model = Classifier()
    trainer.fit(model, DataLoader(_data(), 16), DataLoader(_data(), 16))
    _assert_trained_with(backend, model)
    names = ("training", "validation", "right")
    return model.losses + [trainer.callback_metrics[name].item() for name in names]


def test_lightning(tmp_path: Path) -> None:
    pytest.importorskip("lightning", reason="Lightning is not installed: pip install lightning")
    ours, gloo = (
        ranks.values(
            ranks.run(_fit_with_lightning, 2, backend, str(tmp_path), environment=TORCHRUN)
        )
        for backend in ("tributary", "gloo")
    )
    _assert_same_losses(ours, gloo)


def _train_with_accelerate(backend: str) -> list[float]:
    from accelerate import Accelerator

    # On CPUs, Accelerate chooses Gloo, unless there is a group.
    if backend == "gloo":
        dist.destroy_process_group()
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    network = _network()
    model, optimizer, batches = accelerator.prepare(
        network, torch.optim.AdamW(network.parameters(), 0.01), DataLoader(_data(), 8)
    )
    losses = []
    for _ in range(2):
        for inputs, classes in batches:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(inputs), classes)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            losses += accelerator.gather_for_metrics(loss.detach().reshape(1)).tolist()
    losses.append(accelerator.reduce(loss.detach(), "mean").item())
    accelerator.wait_for_everyone()
    _assert_trained_with(backend, network)
    return losses


def test_accelerate() -> None:
    pytest.importorskip("accelerate", reason="Accelerate is not installed: pip install accelerate")
    ours, gloo = (
        ranks.values(ranks.run(_train_with_accelerate, 2, backend, environment=TORCHRUN))
        for backend in ("tributary", "gloo")
    )
    _assert_same_losses(ours, gloo)


class _Classifier(nn.Module):
    """A model as the trainer of Hugging Face calls it."""

    def __init__(self) -> None:
        super().__init__()
        self.network = _network()

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = self.network(inputs)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def _train_with_transformers(backend: str, directory: str) -> list[float]:
    from transformers import Trainer, TrainingArguments

    if backend == "gloo":
        dist.destroy_process_group()
    arguments = TrainingArguments(
        directory,
        use_cpu=True,
        max_steps=STEPS,
        per_device_train_batch_size=8,
        gradient_accumulation_steps=2,
        eval_strategy="steps",
        eval_steps=4,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        seed=5,
    )
    data = [{"inputs": inputs, "labels": label} for inputs, label in _data()]
    model = _Classifier()
    trainer = Trainer(model, arguments, train_dataset=data, eval_dataset=data[:50])
    trainer.train()
    _assert_trained_with(backend, model)
    names = ("loss", "grad_norm", "eval_loss")
    return [entry[name] for entry in trainer.state.log_history for name in names if name in entry]


def test_the_trainer_of_hugging_face(tmp_path: Path) -> None:
    reason = "transformers is not installed: pip install transformers accelerate"
    pytest.importorskip("transformers", reason=reason)
    pytest.importorskip("accelerate", reason=reason)
    ours, gloo = (
        ranks.values(
            ranks.run(_train_with_transformers, 2, backend, str(tmp_path), environment=TORCHRUN)
        )
        for backend in ("tributary", "gloo")
    )
    _assert_same_losses(ours, gloo)


def _train_in_ray(settings: dict[str, Any]) -> None:
    import ray.train.torch

    model = ray.train.torch.prepare_model(_network())
    batches = ray.train.torch.prepare_data_loader(DataLoader(_data(), 16))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    losses = []
    for inputs, classes in batches:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), classes)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    _assert_trained_with(settings["backend"], model)
    Path(settings["directory"], f"{dist.get_rank()}.json").write_text(json.dumps(losses))


def _start_ray(backend: str, directory: str) -> None:
    import ray
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    ray.init(num_cpus=3, include_dashboard=False, object_store_memory=100_000_000)
    TorchTrainer(
        _train_in_ray,
        train_loop_config={"backend": backend, "directory": directory},
        torch_config=TorchConfig(backend=backend),
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(storage_path=directory),
    ).fit()


def test_ray_train(tmp_path: Path) -> None:
    pytest.importorskip("ray.train.torch", reason="Ray is not installed: pip install 'ray[train]'")
    losses = []
    for backend in ("tributary", "gloo"):
        directory = tmp_path / backend
        directory.mkdir()
        script = f"import test_trainers; test_trainers._start_ray({backend!r}, {str(directory)!r})"
        paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
        ended = subprocess.run(
            [sys.executable, "-c", script],
            env=environment,
            capture_output=True,
            text=True,
            timeout=180,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        losses.append([json.loads((directory / f"{rank}.json").read_text()) for rank in range(2)])
    _assert_same_losses(*losses)
