"""Compares sums in the network with sums in float32, over the gradients of real training.

    torchrun --nproc-per-node 4 examples/pytorch/precision.py

Each step's gradients are summed three ways: in the network, by Gloo in float32, and exactly. Errors are
in units of the last place of the exact sum in float32. The error of rounding the exact sum itself is at
most 0.5.
"""

from __future__ import annotations

import argparse

import torch
import torch.distributed as dist
from torch import Tensor, nn

import train

# Classes of elements by their size, as a share of the largest of the same sum.
CLASSES = [
    ("2⁻⁴ to 1", 2**-4, 1.0),
    ("2⁻⁸ to 2⁻⁴", 2**-8, 2**-4),
    ("2⁻¹² to 2⁻⁸", 2**-12, 2**-8),
    ("2⁻¹⁶ to 2⁻¹²", 2**-16, 2**-12),
    ("2⁻²⁰ to 2⁻¹⁶", 2**-20, 2**-16),
    ("less", 0.0, 2**-20),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    dist.init_process_group("tributary")
    gloo = dist.new_group(backend="gloo")
    torch.manual_seed(options.seed)
    model = train.network()
    batches = train.batches(options.batch, options.seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    errors: dict[str, list[tuple[Tensor, Tensor]]] = {"network": [], "float32": []}
    for _ in range(options.steps):
        inputs, targets = next(batches)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        gradients = nn.utils.parameters_to_vector([p.grad for p in model.parameters()])
        exact = gradients.double()
        dist.all_reduce(exact, group=gloo)
        size = exact.abs() / exact.abs().max()
        sums = {"network": gradients.clone(), "float32": gradients.clone()}
        dist.all_reduce(sums["network"])
        dist.all_reduce(sums["float32"], group=gloo)
        for name, total in sums.items():
            errors[name].append((size, (total.double() - exact).abs() / unit(exact)))
        # The training goes on with the sums of the network.
        rest = sums["network"] / dist.get_world_size()
        for parameter in model.parameters():
            own, rest = rest.tensor_split([parameter.numel()])
            parameter.grad = own.view_as(parameter).clone()
        optimizer.step()
    if dist.get_rank() == 0:
        print_table(errors)
    dist.destroy_process_group()


def unit(exact: Tensor) -> Tensor:
    """The unit in the last place of each number in float32."""
    magnitude = exact.abs().clamp(min=torch.finfo(torch.float32).tiny)
    return torch.exp2(torch.floor(torch.log2(magnitude)) - 23)


def print_table(errors: dict[str, list[tuple[Tensor, Tensor]]]) -> None:
    """Prints the errors by the size of elements, as a share of the largest."""
    columns = " | ".join(f"{name}: median, 99 %, largest" for name in errors)
    print(f"size of the sum | elements | {columns}")
    print("--- | " * (len(errors) + 1) + "---")
    for title, low, high in CLASSES:
        cells = []
        count = 0
        for results in errors.values():
            chosen = torch.cat([e[(s > low) & (s <= high)] for s, e in results]).sort().values
            count = len(chosen)
            at = [chosen[int(share * (count - 1))].item() for share in (0.5, 0.99, 1.0) if count]
            cells.append(", ".join(f"{value:.2g}" for value in at))
        print(f"{title} | {count} | " + " | ".join(cells))


if __name__ == "__main__":
    main()
