"""All-reduce inside the network for PyTorch.

Dense sums and averages of `float32`, `float16` and `bfloat16` tensors are computed by switches
between the ranks, or in memory if all are on one host. So are gathers and scattered sums in some
groups. Gloo does the rest. There are two ways in:

- The backend, from PyTorch 2.14: `torch.distributed.init_process_group("tributary")`. Scripts need
  not import this package.
- The communication hook, for older versions or beside another backend:
  `model.register_comm_hook(tributary.State(), tributary.allreduce_hook)`.

With nothing else running, the first rank starts a switch and its controller in its own process if
there are several hosts.
"""

from __future__ import annotations

from ._native import (
    Error,
    MismatchError,
    NotFiniteError,
    PeerLostError,
    TimeoutError,
    UnderflowError,
    UnderflowWarning,
)
from .hook import State, allreduce_hook
from .network import set_progress, stats
from .rendezvous import RendezvousError
from .settings import configure

__all__ = [
    "Error",
    "MismatchError",
    "NotFiniteError",
    "PeerLostError",
    "RendezvousError",
    "State",
    "TimeoutError",
    "UnderflowError",
    "UnderflowWarning",
    "allreduce_hook",
    "configure",
    "set_progress",
    "stats",
]
