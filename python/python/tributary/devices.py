"""What the CUDA devices of a group's ranks do among themselves, by NCCL."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, ReduceOptions, Store
from torch.distributed import ReduceOp

from .rendezvous import Board


def is_on_device(tensor: torch.Tensor) -> bool:
    """Whether `tensor` is in the memory of a device."""
    return tensor.is_cuda


def are_there() -> bool:
    """Whether this process has devices, and PyTorch has NCCL."""
    return dist.is_nccl_available() and torch.cuda.is_available()


def _identity(device: torch.device) -> str:
    return str(torch.cuda.get_device_properties(device).uuid)


def _open(store: Store, rank: int, size: int, timeout: timedelta) -> Any:
    from torch._C._distributed_c10d import ProcessGroupNCCL

    options = ProcessGroupNCCL.Options()
    options._timeout = timeout
    return ProcessGroupNCCL(store, rank, size, options)


@dataclass(frozen=True)
class HostDevices:
    """The devices of a host's ranks, which add before the host's first rank sends."""

    # None for a rank that is alone on its host.
    group: Any
    is_first: bool

    def add(self, tensor: torch.Tensor) -> torch.Tensor:
        """Queues the sum of the ranks' tensors on the current stream.

        Returns memory of type `float32`. The first rank's, which is not that of `tensor`, becomes
        the sum. That of the others is to be written only, and may be `tensor` itself.
        """
        wide = tensor.to(torch.float32).contiguous()
        if self.is_first and wide is tensor:
            wide = tensor.clone()
        if self.group is not None:
            options = ReduceOptions()
            options.reduceOp, options.rootRank, options.rootTensor = ReduceOp.SUM, 0, 0
            self.group.reduce([wide], options).wait()
        return wide


class Devices:
    """The devices of a group's ranks, by NCCL.

    It takes part where each rank has a device of its own. Otherwise tensors of devices pass through
    the memory of hosts.
    """

    def __init__(self, store: Store, rank: int, size: int, timeout: float) -> None:
        """`store` is the group's own. `timeout` is in seconds."""
        self._store = PrefixStore("devices/", store)
        self._rank, self._size = rank, size
        self._timeout = timeout
        self._lock = threading.Lock()
        self._each_has_own: bool | None = None
        self._groups: dict[str, Any] = {}
        self._is_left = False

    def of_all(self, device: torch.device) -> Any:
        """NCCL of all ranks, or None. All ranks call it for the same collectives.

        `device` is that of this rank's tensor.
        """
        return self.of_any() if self._have_own(device) else None

    def of_any(self) -> Any:
        """NCCL for messages between two ranks, each of which has a device of its own."""
        return self._group("all", self._rank, self._size)

    def of_hosts(
        self, device: torch.device, members: Sequence[Sequence[int]]
    ) -> HostDevices | None:
        """The devices of this rank's host, if those of hosts add before the network does.

        `members` are the ranks of each host. All ranks call it for the same collectives.
        """
        if len(members) == 1 or all(len(ranks) == 1 for ranks in members):
            return None
        if not self._have_own(device):
            return None
        ranks = next(ranks for ranks in members if self._rank in ranks)
        at, group = ranks.index(self._rank), None
        if len(ranks) > 1:
            group = self._group(f"host/{ranks[0]}", at, len(ranks))
        return HostDevices(group, at == 0)

    def set_timeout(self, seconds: float) -> None:
        """Sets the longest time that a collective takes."""
        with self._lock:
            self._timeout = seconds
            for group in self._groups.values():
                group.set_timeout(timedelta(seconds=seconds))

    def close(self) -> None:
        """Leaves the other ranks."""
        for group in self._leave():
            group.shutdown()

    def abort(self) -> None:
        """Ends what devices wait for, and leaves the other ranks."""
        for group in self._leave():
            group.abort()

    def _leave(self) -> list[Any]:
        with self._lock:
            groups, self._groups = list(self._groups.values()), {}
            self._is_left = True
        return groups

    def _have_own(self, device: torch.device) -> bool:
        """Whether each rank has a device of its own, of which they tell each other once."""
        with self._lock:
            if self._each_has_own is None:
                board = Board(self._store, self._rank, self._size, self._timeout)
                board.post("device", _identity(device) if are_there() else "")
                posted = board.read_all("device", "used a tensor of a device")
                self._each_has_own = all(posted) and len(set(posted)) == self._size
            return self._each_has_own

    def _group(self, name: str, rank: int, size: int) -> Any:
        with self._lock:
            if self._is_left:
                raise RuntimeError("tributary: this rank has left its process group")
            group = self._groups.get(name)
            if group is None:
                store = PrefixStore(f"{name}/", self._store)
                group = _open(store, rank, size, timedelta(seconds=self._timeout))
                self._groups[name] = group
            return group
