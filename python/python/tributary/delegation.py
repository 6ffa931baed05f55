"""Collectives that Gloo carries out, perhaps after a check that all ranks call them."""

from __future__ import annotations

import contextlib
import queue
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._C._distributed_c10d import Work

from .network import Network
from .work import TributaryWork, Waiting, writing


class DelegatedWork(TributaryWork):
    """A collective of Gloo, which may start when the ranks have found that they all call it."""

    def __init__(
        self,
        network: Network,
        waiter: Waiter,
        operation: str,
        call: Callable[[], Work],
        waiting: Waiting,
        devices: Sequence[torch.device],
        result: Any,
        finish: Callable[[], None],
        has_copies: bool,
    ) -> None:
        """`finish` is called when Gloo is done without an error, before the collective ends.

        With copies of tensors, the value of the future is `result`, and otherwise Gloo's.
        """
        super().__init__(result, 1, waiting, devices)
        self.network, self.operation = network, operation
        self._waiter = waiter
        self.in_flight = False
        self.checked = False
        self._call = call
        self._finish, self._has_copies = finish, has_copies
        # Gloo starts in another thread, with the caller's modes, in which it may write the tensors.
        self._modes = (torch.is_inference_mode_enabled(), torch.is_grad_enabled())
        # Gloo orders itself after what is queued on the current streams.
        self._streams = [torch.cuda.current_stream(device) for device in devices]
        self._carried_out: torch.futures.Future[Any] | None = None

    def start(self) -> None:
        """Has Gloo carry it out."""
        self.in_flight = True
        try:
            with contextlib.ExitStack() as stack:
                inference, grad = self._modes
                stack.enter_context(torch.inference_mode(inference))
                stack.enter_context(torch.set_grad_enabled(grad))
                for stream in self._streams:
                    stack.enter_context(torch.cuda.stream(stream))
                carried_out = self._call()
            try:
                self._carried_out = carried_out.get_future()
            except RuntimeError:
                # Some collectives of Gloo do not have a future.
                self._waiter.wait_for(carried_out, self._end_with)
            else:
                self._carried_out.then(self._gloo_ended)
        except Exception as error:
            self._end_with(error)

    def order_streams(self) -> None:
        if self._streams and self._carried_out is not None:
            self._carried_out.wait()

    def _gloo_ended(self, future: torch.futures.Future[Any]) -> None:
        try:
            value = future.value()
            if not self._has_copies:
                self.set_result(value)
        except Exception as error:
            self._end_with(error)
        else:
            self._end_with(None)

    def _end_with(self, error: Exception | None) -> None:
        """Ends with `error`, or with the loss of a rank, which the network reports by name."""
        self.in_flight = False
        if error is None:
            try:
                self.order_streams()
                self._finish()
            except Exception as problem:
                error = problem
        if error is None or not _is_lost_connection(error):
            self.end_part(error)
            return
        check = TributaryWork(None, 1, Waiting(self.network.timeout))
        operation = f"{self.operation}, which lost a connection"
        try:
            self.network.announce(
                operation, 0, "", check, lambda cause: self.end_part(cause or error)
            )
        except Exception:
            # This rank has left the group.
            self.end_part(error)


class Waiter:
    """Waits for works that do not have a future, in a thread, in the order of their start."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[Work, Callable[[Exception | None], None]] | None] = (
            queue.SimpleQueue()
        )
        self._thread: threading.Thread | None = None

    def wait_for(self, work: Work, then: Callable[[Exception | None], None]) -> None:
        """Calls `then` with the error of `work`, or None, once it has ended."""
        self._queue.put((work, then))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="tributary-gloo", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Ends the thread after the works that it waits for."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            work, then = item
            try:
                # In PyTorch 2.15, reductions of which each rank gets a part are written here.
                with writing():
                    work.wait()
            except Exception as error:
                then(error)
            else:
                then(None)
            # The work must not outlive the loop: its tensors belong to the caller.
            del item, work, then


class Delegation:
    """The collectives of Gloo. They start in the order of the calls.

    Gloo matches the collectives of the ranks by their order. One that not all ranks call ends with
    its timeout at best. So a group can have them checked before, which takes a round trip.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._waiting: deque[DelegatedWork] = deque()
        self._started: weakref.WeakSet[DelegatedWork] = weakref.WeakSet()

    def in_flight(self) -> bool:
        """Whether Gloo has not ended a collective."""
        with self._lock:
            return any(work.in_flight for work in self._started)

    def submit(self, work: DelegatedWork, elements: int, dtype: str) -> None:
        """Starts `work`, or its check."""
        # An error in the rendezvous is raised before the work is queued.
        checks = work.network.checks()
        with self._lock:
            if not checks:
                self._started.add(work)
                work.start()
                return
            self._waiting.append(work)
            work.network.announce(
                work.operation, elements, dtype, work, lambda error: self._checked(work, error)
            )

    def fail(self, error: BaseException) -> None:
        """Ends what Gloo has not ended: it may wait for a rank that does not answer any more."""
        with self._lock:
            pending = [work for work in self._started if work.in_flight]
        for work in pending:
            work.end_part(error)

    def _checked(self, work: DelegatedWork, error: BaseException | None) -> None:
        with self._lock:
            if error is not None:
                self._waiting.remove(work)
                work.end_part(error)
            work.checked = True
            while self._waiting and self._waiting[0].checked:
                started = self._waiting.popleft()
                self._started.add(started)
                started.start()


def _is_lost_connection(error: Exception) -> bool:
    text = str(error).lower()
    return "connection" in text or "broken pipe" in text or "socket" in text
