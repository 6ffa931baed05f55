"""The collectives of one group that go through the network."""

from __future__ import annotations

import operator
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import DebugLevel, PrefixStore, Store, get_debug_level
from torch.distributed import ProcessGroup

from . import devices, process
from ._native import Communicator, Error, Handle, UnderflowWarning
from .devices import Devices, HostDevices
from .rendezvous import Fabric, connect
from .staging import StagedTensor, Staging
from .work import TributaryWork, Waiting, writing

# The data types that are summed in the network, by their names in the native part.
DTYPES = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}
DEVICES = ("cpu", "cuda")


def is_summable(tensor: torch.Tensor) -> bool:
    """Whether a sum over `tensor` goes through the network.

    The answer only depends on what the tensors of all ranks have in common. Strides may differ.
    """
    return (
        tensor.dtype in DTYPES
        and tensor.device.type in DEVICES
        and tensor.layout == torch.strided
        and tensor.numel() > 0
    )


class Network:
    """One rank's part in the sums of a group. It joins the others at the first collective."""

    def __init__(
        self,
        store: Store,
        rank: int,
        size: int,
        timeout: float,
        on_failure: Callable[[BaseException], None] | None = None,
    ) -> None:
        """`store` is the group's own. `timeout` is in seconds.

        `on_failure` is called in another thread if the group fails before this rank leaves it.
        """
        self._timeout = timeout
        self._on_failure = on_failure
        self._store = PrefixStore("tributary/", store)
        self._rank, self._size = rank, size
        self._owner = process.Owner()
        self._joining = threading.Lock()
        self._fabric: Fabric | None = None
        self._progress: tuple[int, int] | None = None
        self._left_because: str | None = None
        self.devices = Devices(store, rank, size, timeout)
        self._staging = Staging()
        self._count = threading.Lock()
        self._pending = 0

    @property
    def timeout(self) -> float:
        """The longest time that a collective takes, in seconds."""
        return self._timeout

    @timeout.setter
    def timeout(self, seconds: float) -> None:
        self._timeout = seconds
        with self._joining:
            if self._fabric is not None:
                self._fabric.communicator.set_timeout(seconds)
        self.devices.set_timeout(seconds)

    def all_reduce(
        self,
        tensors: Sequence[torch.Tensor],
        *,
        average: bool,
        layer: tuple[int, int] | None = None,
        waiting: Waiting = Waiting(),
        result: Any = None,
    ) -> TributaryWork:
        """Starts to sum each of `tensors` over all ranks, in place.

        Args:
            tensors: Dense tensors of any shape, for which `is_summable` holds.
            average: Divides the sums by the number of ranks.
            layer: `(index, count)`. The next forward pass needs the tensors of index 0 first.
            waiting: How the caller waits.
            result: The value of the future. The default is the list of tensors.
        """
        communicator = self.join()
        cuda = sorted({t.device for t in tensors if t.is_cuda}, key=str)
        by_devices = [self._devices_of_host(tensor) for tensor in tensors]
        work = TributaryWork(
            list(tensors) if result is None else result,
            len(tensors),
            waiting.within(self.timeout),
            cuda,
        )
        for tensor, added_by in zip(tensors, by_devices):
            self._start_sum(communicator, work, tensor.detach(), average, layer, added_by)
        return work

    def announce(
        self,
        operation: str,
        elements: int,
        dtype: str,
        work: TributaryWork,
        then: Callable[[BaseException | None], None],
    ) -> None:
        """Starts to check that all ranks call the same collective, and calls `then` afterwards."""
        communicator = self.join()
        self._start(None, work, lambda: communicator.announce(operation, elements, dtype), then)

    def barrier(self, waiting: Waiting) -> TributaryWork:
        """Starts to wait until all ranks have called it."""
        work = TributaryWork([], 1, waiting.within(self.timeout))
        self.announce("barrier", 0, "", work, work.end_part)
        return work

    def checks(self) -> bool:
        """Whether the ranks announce each collective that they leave to another backend.

        The settings or, as for PyTorch itself, `TORCH_DISTRIBUTED_DEBUG=DETAIL` at all ranks ask
        for it.
        """
        return self.join().checks or get_debug_level() == DebugLevel.DETAIL

    def shares_memory(self) -> bool:
        """Whether all ranks are on one host, and carry out collectives in memory."""
        return self.join().has_all_ranks

    def leaves_sums_to(self, tensor: torch.Tensor) -> Any:
        """NCCL, if that sums tensors like this one of a device, and otherwise None.

        It does where all ranks are on one host, unless the settings refuse values that are not finite.
        """
        if not devices.is_on_device(tensor):
            return None
        communicator = self.join()
        if not communicator.has_all_ranks or communicator.refuses:
            return None
        return self.of_devices()

    def of_devices(self) -> Any:
        """NCCL of all ranks, if each has a device of its own, and otherwise None."""
        self.join()
        return self.devices.of_all() if self._have_devices() else None

    def may_have_devices(self) -> bool:
        """Whether each rank has a device of its own, as far as this one knows before it has joined."""
        with self._joining:
            return devices.are_there() if self._fabric is None else self._fabric.has_devices

    def _have_devices(self) -> bool:
        with self._joining:
            return self._fabric is not None and self._fabric.has_devices

    def check(self, operation: str, elements: int, dtype: str) -> None:
        """Waits until all ranks call the same collective, if they check that."""
        if not self.checks():
            return
        work = TributaryWork(None, 1, Waiting(self.timeout))
        self.announce(operation, elements, dtype, work, work.end_part)
        work.wait()

    def exchanges_parts(self) -> bool:
        """Whether the group gathers and scatters parts of tensors without another backend."""
        return self.join().exchanges_parts

    def begin(self, start: Callable[[Communicator], Handle], work: TributaryWork) -> None:
        """Starts what `start` does, which is the only part of `work`."""
        communicator = self.join()
        self._start(None, work, lambda: start(communicator), work.end_part)

    def join(self) -> Communicator:
        """Joins the other ranks, unless this has been done."""
        self._owner.check()
        with self._joining:
            if self._left_because is not None:
                raise Error(f"this rank has left its process group: {self._left_because}")
            if self._fabric is None:
                try:
                    self._fabric = connect(self._store, self._rank, self._size, self.timeout)
                except BaseException as error:
                    # What the ranks have posted is of this attempt.
                    self._left_because = f"it could not join: {error}"
                    raise
                if self._progress is not None:
                    self._fabric.communicator.set_progress(*self._progress)
                process.add_peers(self._fabric.communicator.peers)
                self._fabric.communicator.failure().add_done_callback(self._failed)
            return self._fabric.communicator

    def set_progress(self, step: int, of: int) -> None:
        """Says that step `step` of `of` has begun, from which priorities of packets follow."""
        step, of = operator.index(step), operator.index(of)
        if not 0 <= step <= of < 1 << 64:
            raise ValueError(f"step {step} of {of}: write a step from 0 to the number of steps")
        with self._joining:
            self._progress = (step, of)
            if self._fabric is not None:
                self._fabric.communicator.set_progress(step, of)

    def stats(self) -> dict[str, int | float]:
        """What the network has done for this rank. Empty before the first collective."""
        with self._joining:
            return {} if self._fabric is None else self._fabric.communicator.stats()

    def pending(self) -> bool:
        """Whether collectives have not ended."""
        with self._count:
            return self._pending > 0

    def close(self) -> None:
        """Leaves the group after the collectives that are pending."""
        self._leave(Fabric.close, "the group was destroyed")

    def abort(self, reason: str = "the group was aborted") -> None:
        """Fails the collectives that are pending, and leaves the group."""
        self._leave(Fabric.abort, reason)

    def _leave(self, how: Callable[[Fabric], None], reason: str) -> None:
        with self._joining:
            fabric, self._fabric = self._fabric, None
            self._left_because = self._left_because or reason
        left = Error(f"this rank has left its process group: {self._left_because}")
        try:
            if how is Fabric.abort:
                # The staging may wait for a device, and that and a caller for other ranks.
                self.devices.abort(left)
            else:
                self._staging.close()
                self.devices.close(left)
        finally:
            if fabric is not None:
                how(fabric)
                process.remove_peers(fabric.communicator.peers)
            self._staging.close()

    def _failed(self, error: BaseException | None) -> None:
        if error is None:
            return
        # Devices would wait for ranks that are gone.
        self.devices.abort(error)
        if self._left_because is None and self._on_failure is not None:
            self._on_failure(error)

    def _devices_of_host(self, tensor: torch.Tensor) -> HostDevices | None:
        if not devices.is_on_device(tensor):
            return None
        with self._joining:
            fabric = self._fabric
        return self.devices.of_host(fabric.members) if fabric and fabric.has_devices else None

    def _start_sum(
        self,
        communicator: Communicator,
        work: TributaryWork,
        tensor: torch.Tensor,
        average: bool,
        layer: tuple[int, int] | None,
        added_by: HostDevices | None,
    ) -> None:
        staged = None
        if devices.is_on_device(tensor):
            if added_by is not None:
                # Otherwise devices wait for each other where ranks call different things. Such a mistake
                # breaks the group, and so ends the sum.
                operation = f"all_reduce ({'AVG' if average else 'SUM'})"
                elements, dtype = tensor.numel(), DTYPES[tensor.dtype]
                self.announce(operation, elements, dtype, work, lambda error: None)
            staged = self._staging.stage(tensor, added_by)
            memory = staged.host
        else:
            memory = tensor.contiguous()

        def start() -> Handle:
            return communicator.all_reduce(
                memory.data_ptr(),
                memory.numel(),
                DTYPES[memory.dtype],
                average=average,
                layer=layer,
                owner=memory,
                by_devices=added_by is not None,
            )

        def end(error: BaseException | None) -> None:
            if error is not None:
                work.end_part(error)
            elif staged is not None:
                staged.copy_back(work.end_part)
            else:
                if memory is not tensor:
                    with writing():
                        tensor.copy_(memory)
                work.end_part()

        self._start(staged, work, start, end)

    def _start(
        self,
        staged: StagedTensor | None,
        work: TributaryWork,
        start: Callable[[], Handle],
        end: Callable[[BaseException | None], None],
    ) -> None:
        with self._count:
            self._pending += 1

        def ended(error: BaseException | None, handle: Handle | None = None) -> None:
            with self._count:
                self._pending -= 1
            try:
                warning = handle.warning() if handle is not None else None
                if warning is not None:
                    # With the filter "error", it is the error of the collective.
                    warnings.warn(warning, UnderflowWarning, stacklevel=1)
                end(error)
            except Exception as problem:
                work.end_part(problem)

        def start_handle(problem: Exception | None) -> None:
            if problem is not None:
                # The others would wait for this rank.
                self.abort(f"a tensor could not be copied to the host: {problem}")
                ended(problem)
                return
            try:
                handle = start()
            except Exception as error:
                ended(error)
                return
            work.follow(handle, lambda error: ended(error, handle))

        self._staging.start_in_order(staged, start_handle)


def of_group(group: ProcessGroup | None) -> Network | None:
    """The network of a process group with backend `tributary`, or None."""
    group = group or dist.group.WORLD
    if group is None:
        return None
    for device in group._device_types:
        network = getattr(group._get_backend(device), "network", None)
        if isinstance(network, Network):
            return network
    return None


def stats(group: ProcessGroup | None = None) -> dict[str, int | float]:
    """What the network has done for this rank in `group` so far.

    Args:
        group: A process group with backend `tributary`. None stands for the default group.

    Returns:
        Counters by name. Empty if no collective has gone through the network.
    """
    return _network(group).stats()


def set_progress(step: int, of: int, group: ProcessGroup | None = None) -> None:
    """Says how far the training is. With ESA, a job nearer to its end has priority at switches.

    Call it at each rank, for example at each step. A step is an iteration of training; how long one
    takes is measured.

    Args:
        step: The step that begins, from 0, or `of` after the last one.
        of: The number of steps.
        group: A process group with backend `tributary`. None stands for the default group.
    """
    _network(group).set_progress(step, of)


def _network(group: ProcessGroup | None) -> Network:
    network = of_group(group)
    if network is None:
        raise ValueError("the process group does not have backend 'tributary'")
    return network
