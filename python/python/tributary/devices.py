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

# What NCCL needs to be left by: PyTorch before 2.6 lacks some.
_NEEDED = ("abort", "shutdown")


def is_on_device(tensor: torch.Tensor) -> bool:
    """Whether `tensor` is in the memory of a device."""
    return tensor.is_cuda


def are_there() -> bool:
    """Whether this process uses a device, and PyTorch has NCCL for it."""
    if not (dist.is_nccl_available() and torch.cuda.is_initialized()):
        return False
    from torch._C._distributed_c10d import ProcessGroupNCCL

    return all(hasattr(ProcessGroupNCCL, name) for name in _NEEDED)


def identity() -> str:
    """A text that no other device has, for the device that this process uses. Empty without one."""
    if not are_there():
        return ""
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    # Since PyTorch 2.5
    return str(getattr(properties, "uuid", ""))


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
    """NCCL among the devices of a group's ranks."""

    def __init__(self, store: Store, rank: int, size: int, timeout: float) -> None:
        """`store` is the group's own. `timeout` is in seconds."""
        self._store = PrefixStore("devices/", store)
        self._rank, self._size = rank, size
        self._timeout = timeout
        self._lock = threading.Lock()
        self._groups: dict[str, Any] = {}
        self._left_because: BaseException | None = None

    def of_all(self) -> Any:
        """NCCL of all ranks."""
        return self._group("all", self._rank, self._size)

    def of_host(self, members: Sequence[Sequence[int]]) -> HostDevices | None:
        """The devices of this rank's host, if those of hosts add before the network does.

        `members` are the ranks of each host.
        """
        if len(members) == 1 or all(len(ranks) == 1 for ranks in members):
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

    def close(self, error: BaseException) -> None:
        """Leaves the other ranks. Later calls raise `error`."""
        for group in self._leave(error):
            group.shutdown()

    def abort(self, error: BaseException) -> None:
        """Ends what devices wait for, and leaves the other ranks. Later calls raise `error`."""
        for group in self._leave(error):
            group.abort()

    def _leave(self, error: BaseException) -> list[Any]:
        with self._lock:
            groups, self._groups = list(self._groups.values()), {}
            self._left_because = self._left_because or error
        return groups

    def _group(self, name: str, rank: int, size: int) -> Any:
        with self._lock:
            if self._left_because is not None:
                raise self._left_because.with_traceback(None)
            group = self._groups.get(name)
            if group is None:
                store = PrefixStore(f"{name}/", self._store)
                group = _open(store, rank, size, timedelta(seconds=self._timeout))
                self._groups[name] = group
            return group
