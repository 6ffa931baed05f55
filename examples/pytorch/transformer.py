"""Trains a small character-level transformer on the Markdown files of this repository.

torchrun --nproc-per-node 4 examples/pytorch/transformer.py
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

import training

CONTEXT, WIDTH, HEADS, LAYERS = 64, 128, 4, 4


class Transformer(nn.Module):
    """From characters (batch, CONTEXT) to scores of the next ones (batch, CONTEXT, characters)."""

    def __init__(self, characters: int) -> None:
        super().__init__()
        self.characters = nn.Embedding(characters, WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.scores = nn.Linear(WIDTH, characters)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(CONTEXT))

    def forward(self, text: Tensor) -> Tensor:
        embedded = self.characters(text) + self.positions(torch.arange(CONTEXT))
        return self.scores(self.layers(embedded, mask=self.mask, is_causal=True))


def read_text(pattern: str) -> str:
    """The Markdown files of the repository's documentation, one after the other."""
    root = Path(__file__).resolve().parents[2]
    files = sorted(root.glob(pattern))
    if not files:
        raise SystemExit(f"no file matches {root / pattern}")
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def batches(text: Tensor, batch: int, seed: int) -> training.Batches:
    """Pieces of the text (batch, CONTEXT), and the same pieces one character later."""
    pieces = text.unfold(0, CONTEXT + 1, CONTEXT)
    for chosen in training.shares(len(pieces), batch, seed):
        yield pieces[chosen][:, :-1], pieces[chosen][:, 1:]


def loss_of(scores: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(scores.flatten(0, 1), targets.flatten())


def main() -> None:
    parser = training.arguments(__doc__.splitlines()[0], steps=100)
    parser.add_argument("--text", default="docs/**/*.md", help="files below the repository")
    options = parser.parse_args()
    training.start(options)
    text = read_text(options.text)
    alphabet = {character: index for index, character in enumerate(sorted(set(text)))}
    encoded = torch.tensor([alphabet[character] for character in text])
    data = batches(encoded, options.batch, options.seed)
    training.train(options, Transformer(len(alphabet)), data, loss_of)


if __name__ == "__main__":
    main()
