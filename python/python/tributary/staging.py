"""Moves CUDA tensors through pinned host memory.

A tensor is copied to the host on a stream of its own, once the work that was queued before it is
done. It is summed there, and copied back on another stream, which does not wait for later tensors. No
host thread waits for the device except the one of this module. Where the devices of a host add before,
only their sum is copied to the host, at the host's first rank.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

import torch

from .devices import HostDevices
from .work import writing


class PinnedBuffers:
    """Pinned tensors for reuse, by size in bytes. A buffer is a 1-D `uint8` tensor."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: dict[int, list[tuple[torch.Tensor, torch.cuda.Event]]] = {}

    def take(self, bytes_: int) -> torch.Tensor:
        """A buffer of at least `bytes_` bytes that no copy still reads."""
        size = _rounded(bytes_)
        with self._lock:
            free = self._free.get(size, [])
            for index, (buffer, last_use) in enumerate(free):
                if last_use.query():
                    del free[index]
                    return buffer
        return torch.empty(size, dtype=torch.uint8, pin_memory=True)

    def give_back(self, buffer: torch.Tensor, last_use: torch.cuda.Event) -> None:
        """Offers `buffer` for reuse once `last_use` has happened on the device."""
        with self._lock:
            self._free.setdefault(buffer.numel(), []).append((buffer, last_use))


def _rounded(bytes_: int) -> int:
    """The next power of two, so that buckets of similar sizes share buffers."""
    return 1 << max(12, (bytes_ - 1).bit_length())


class StagedTensor:
    """A CUDA tensor on its way through host memory."""

    def __init__(
        self,
        tensor: torch.Tensor,
        streams: tuple[torch.cuda.Stream, torch.cuda.Stream],
        pool: PinnedBuffers,
        devices: HostDevices | None,
    ) -> None:
        """Queues the copy of `tensor`, of any shape, to the host, or of the sum of the host's devices."""
        stream, self._back = streams
        self._tensor, self._pool = tensor, pool
        self._arrived = torch.cuda.Event()
        stream.wait_stream(torch.cuda.current_stream(tensor.device))
        tensor.record_stream(stream)
        tensor.record_stream(self._back)
        with torch.cuda.stream(stream), writing():
            # What is copied to the host and back.
            self._copied = tensor if devices is None else devices.add(tensor)
            self._copied.record_stream(self._back)
            bytes_ = self._copied.numel() * self._copied.element_size()
            self._buffer = pool.take(bytes_)
            # 1-D, with the elements of the tensor in order.
            self.host = self._buffer[:bytes_].view(self._copied.dtype)
            if devices is None or devices.is_first:
                self.host.view(tensor.shape).copy_(self._copied, non_blocking=True)
            self._arrived.record(stream)

    def wait_for_host(self) -> None:
        """Blocks until the host memory holds the tensor."""
        self._arrived.synchronize()

    def copy_back(self, then: Callable[[], None]) -> None:
        """Queues the copy back, and calls `then` with the stream of the copy as the current one."""
        self._back.wait_event(self._arrived)
        with torch.cuda.stream(self._back), writing():
            self._copied.copy_(self.host.view(self._tensor.shape), non_blocking=True)
            if self._copied is not self._tensor:
                # Changes the type, on the device.
                self._tensor.copy_(self._copied)
            last_use = torch.cuda.Event()
            last_use.record(self._back)
            self._pool.give_back(self._buffer, last_use)
            then()


class Staging:
    """Stages the tensors of one group and starts its collectives in the order of the calls."""

    def __init__(self) -> None:
        self._pool = PinnedBuffers()
        # For the copies to the host, and back.
        self._streams: dict[torch.device, tuple[torch.cuda.Stream, torch.cuda.Stream]] = {}
        self._queue: queue.SimpleQueue[
            tuple[StagedTensor | None, Callable[[Exception | None], None]] | None
        ] = queue.SimpleQueue()
        # A start can lead to another one.
        self._lock = threading.RLock()
        self._queued = 0
        self._thread: threading.Thread | None = None

    def stage(self, tensor: torch.Tensor, devices: HostDevices | None) -> StagedTensor:
        """Queues the copy of a CUDA tensor to the host, or of the sum of the host's devices."""
        streams = self._streams.get(tensor.device)
        if streams is None:
            streams = (torch.cuda.Stream(tensor.device), torch.cuda.Stream(tensor.device))
            self._streams[tensor.device] = streams
        return StagedTensor(tensor, streams, self._pool, devices)

    def start_in_order(
        self, staged: StagedTensor | None, start: Callable[[Exception | None], None]
    ) -> None:
        """Calls `start` once `staged` is on the host and the earlier calls were made.

        It gets the error if the tensor could not be copied to the host.
        """
        with self._lock:
            if staged is not None or self._queued > 0:
                self._queued += 1
                self._queue.put((staged, start))
                if self._thread is None:
                    self._thread = threading.Thread(
                        target=self._run, name="tributary-staging", daemon=True
                    )
                    self._thread.start()
                return
            start(None)

    def pending(self) -> bool:
        """Whether collectives wait to be started."""
        with self._lock:
            return self._queued > 0

    def close(self) -> None:
        """Starts what is queued, and ends the thread.

        A thread that still runs when the interpreter ends would abort the process.
        """
        with self._lock:
            thread, self._thread = self._thread, None
            if thread is not None:
                self._queue.put(None)
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            staged, start = item
            problem = None
            if staged is not None:
                try:
                    staged.wait_for_host()
                except Exception as error:
                    problem = error
            try:
                start(problem)
            finally:
                with self._lock:
                    self._queued -= 1
