"""Trains a small convolutional network on scikit-learn's images of digits.

    torchrun --nproc-per-node 4 examples/pytorch/train.py

Nothing else has to run: the first rank starts a switch in its own process.
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import nn

import training


def network() -> nn.Module:
    """From images (batch, 1, 8, 8) to scores (batch, 10)."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 4 * 4, 256),
        nn.ReLU(),
        nn.Linear(256, 10),
    )


def batches(batch: int, seed: int) -> training.Batches:
    """Images (batch, 1, 8, 8) from 0 to 1, and their digits (batch,)."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    targets = torch.tensor(digits.target)
    for chosen in training.shares(len(images), batch, seed):
        yield images[chosen], targets[chosen]


def main() -> None:
    options = training.arguments(__doc__.splitlines()[0], steps=200).parse_args()
    training.start(options)
    data = batches(options.batch, options.seed)
    training.train(options, network(), data, nn.CrossEntropyLoss())


if __name__ == "__main__":
    main()
