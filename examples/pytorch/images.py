"""Two small models, and images that they learn: what `two_jobs.py` trains.

An image shows one of its class's patterns, moved by some pixels, in noise. Patterns, places and
noise follow from a seed.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor, nn

from resnet import Block

SIZE, CLASSES, PATTERNS = 16, 10, 3
# Standard deviation of the noise; that of the patterns is 1.
NOISE = 2.0
MOST_MOVED = 2


def resnet(width: int = 8) -> nn.Module:
    """Four residual blocks: much computing for each parameter."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, width, 3, padding=1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
    ]
    channels = width
    for outputs, stride in ((width, 1), (2 * width, 2), (4 * width, 2), (4 * width, 1)):
        layers.append(Block(channels, outputs, stride))
        channels = outputs
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES)]
    return nn.Sequential(*layers)


def vgg(width: int = 16) -> nn.Module:
    """Two convolutions and two large linear layers: many parameters for little computing."""
    layers: list[nn.Module] = []
    channels = 3
    for outputs in (width, 2 * width):
        layers += [nn.Conv2d(channels, outputs, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        channels = outputs
    flat = channels * (SIZE // 4) ** 2
    layers += [nn.Flatten(), nn.Linear(flat, flat // 2), nn.ReLU(), nn.Linear(flat // 2, CLASSES)]
    return nn.Sequential(*layers)


class _Pausing(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, values: Tensor, seconds: float) -> Tensor:
        context.seconds = seconds
        time.sleep(seconds)
        return values.clone()

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        # Twice as many operations as forward.
        time.sleep(2 * context.seconds)
        return gradient, None


class Pause(nn.Module):
    """Stands for a larger layer on a device of its own: training waits, and no core works."""

    def __init__(self, seconds: float) -> None:
        """`seconds` of the way forward and back together."""
        super().__init__()
        self.seconds = seconds

    def forward(self, values: Tensor) -> Tensor:
        if not self.training:
            return values
        paused: Tensor = _Pausing.apply(values, self.seconds / 3)
        return paused


def with_pauses(model: nn.Module, seconds: float) -> nn.Module:
    """The model with a pause after each layer that has parameters, of `seconds` for all."""
    layers = list(model.children())
    count = sum(any(True for _ in layer.parameters()) for layer in layers)
    paused: list[nn.Module] = []
    for layer in layers:
        paused.append(layer)
        if any(True for _ in layer.parameters()):
            paused.append(Pause(seconds / count))
    return nn.Sequential(*paused)


def data(samples: int, seed: int, part: int) -> tuple[Tensor, Tensor]:
    """Images (samples, 3, SIZE, SIZE) and classes (samples,). Parts of a seed have the same
    patterns and different images."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.randn(CLASSES * PATTERNS, 3, SIZE // 4, SIZE // 4, generator=generator)
    patterns = nn.functional.interpolate(coarse, size=(SIZE, SIZE), mode="bilinear")
    patterns /= patterns.std()
    generator.manual_seed(1000 * seed + part)
    chosen = torch.randint(CLASSES * PATTERNS, (samples,), generator=generator)
    moved = torch.randint(-MOST_MOVED, MOST_MOVED + 1, (samples, 2), generator=generator)
    images = torch.stack(
        [
            patterns[pattern].roll((down, right), (1, 2))
            for pattern, (down, right) in zip(chosen.tolist(), moved.tolist())
        ]
    )
    images += NOISE * torch.randn(images.shape, generator=generator)
    return images, chosen % CLASSES
