"""Trains ResNet-18 on random images: 45 MB of gradients per step, as much as for real ones.

torchrun --nproc-per-node 4 examples/pytorch/resnet.py --batch 8 --steps 20
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

import training

CLASSES = 1000


class Block(nn.Module):
    """Two convolutions, and a way around them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, images: Tensor) -> Tensor:
        return torch.relu(self.body(images) + self.shortcut(images))


def resnet18() -> nn.Module:
    """From images (batch, 3, height, width) to scores (batch, CLASSES)."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, padding=3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, padding=1),
    ]
    channels = 64
    for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(channels, outputs, stride), Block(outputs, outputs, 1)]
        channels = outputs
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES)]
    return nn.Sequential(*layers)


def batches(samples: int, size: int, batch: int, seed: int) -> training.Batches:
    """Random images (batch, 3, size, size) and classes (batch,)."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randn(samples, 3, size, size, generator=generator)
    targets = torch.randint(CLASSES, (samples,), generator=generator)
    for chosen in training.shares(samples, batch, seed):
        yield images[chosen], targets[chosen]


def main() -> None:
    parser = training.arguments(__doc__.splitlines()[0], steps=20)
    parser.set_defaults(rate=0.01)
    parser.add_argument("--samples", type=int, default=512)
    parser.add_argument("--size", type=int, default=64, help="pixels per side")
    options = parser.parse_args()
    training.start(options)
    data = batches(options.samples, options.size, options.batch, options.seed)
    training.train(options, resnet18(), data, nn.CrossEntropyLoss())


if __name__ == "__main__":
    main()
