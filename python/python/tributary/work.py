"""The `Work` that a collective returns, and the future that it completes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any, NamedTuple

import torch
from torch._C._distributed_c10d import Work
from torch.autograd.profiler import record_function
from torch.futures import Future

from ._native import Error, Handle, TimeoutError


class Waiting(NamedTuple):
    """How the caller of a collective waits for it."""

    #: The longest time, in seconds. None stands for the group's timeout.
    timeout: float | None = None
    #: Whether the caller waits right after the call. Its own thread then ends the collective.
    at_once: bool = False

    @classmethod
    def of(cls, opts: Any) -> Waiting:
        """What the options of a collective of PyTorch say."""
        # PyTorch marks the absence of a timeout by a negative one.
        timeout = opts.timeout.total_seconds() if opts.timeout > timedelta(0) else None
        return cls(timeout, not getattr(opts, "asyncOp", True))

    def within(self, timeout: float) -> Waiting:
        """The same, in a group with this timeout."""
        return self if self.timeout is not None else self._replace(timeout=timeout)


class TributaryWork(Work):
    """A collective that consists of one or more parts, which end in any order and thread.

    It ends with the last part: until then, tensors are written. Its error is the first one.
    """

    def __init__(
        self, result: Any, parts: int, waiting: Waiting, devices: Sequence[torch.device] = ()
    ) -> None:
        """`result` becomes the value of the future. `devices` are those of its CUDA tensors.

        `waiting` has a timeout.
        """
        super().__init__()
        self._result = result
        self._parts = parts
        self._waiting = waiting
        self._caller = threading.get_ident()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._error: BaseException | None = None
        self._handles: list[Handle] = []
        # Handles without a callback: `wait` ends them. Each with its callback.
        self._unwatched: list[tuple[Handle, Callable[[BaseException | None], None]]] = []
        self._outcome: Future[Any] = Future(devices=list(devices))
        # C++ code, such as DDP's reducer, only sees an exception that is raised in a callback.
        self._future: Future[Any] = self._outcome.then(_value)

    def follow(self, handle: Handle, end: Callable[[BaseException | None], None]) -> None:
        """Calls `end` with the error of `handle` when that ends, which ends a part of the collective.

        A wait that takes too long names the ranks that `handle` misses.
        """
        self._handles.append(handle)
        # Another thread may start a part after the wait has begun.
        if self._waiting.at_once and threading.get_ident() == self._caller:
            self._unwatched.append((handle, end))
        elif handle.done():
            # This thread has carried it out.
            end(_error(handle))
        else:
            handle.add_done_callback(end)

    def _watch(self) -> None:
        """Has another thread end the collective."""
        while self._unwatched:
            handle, end = self._unwatched.pop()
            handle.add_done_callback(end)

    def end_part(self, error: BaseException | None = None) -> None:
        """Ends one of the parts."""
        with self._lock:
            if self._ended.is_set():
                return
            self._error = self._error or error
            self._parts -= 1
            if self._parts > 0:
                return
            self._ended.set()
        if self._error is None:
            self.order_streams()
        self._outcome.set_result(self._result if self._error is None else self._error)

    def order_streams(self) -> None:
        """Makes the current streams wait for the tensors of the result."""

    def set_result(self, result: Any) -> None:
        """Replaces the value of the future. Call it before the last part ends."""
        self._result = result

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Waits until the collective has ended, and raises its error.

        Args:
            timeout: The longest time to wait. Zero stands for the group's timeout.
        """
        seconds = timeout.total_seconds() if timeout > timedelta(0) else self._waiting.timeout
        self._end_unwatched(seconds)
        if not self._ended.wait(seconds):
            for handle in self._handles:
                handle.wait(0.0)
            raise TimeoutError(f"a collective has not ended within {seconds:g} s")
        if self._error is not None:
            raise self._error.with_traceback(None)
        # Callbacks, events of the profiler and readers of the future may come after this. And the
        # caller's stream must not read the sum before it has arrived on the device.
        self._future.wait()
        return True

    def _end_unwatched(self, seconds: float | None) -> None:
        # A thread of its own would have to be woken, and take the interpreter's lock from this one.
        while self._unwatched:
            handle, end = self._unwatched[-1]
            error = None
            try:
                handle.wait(seconds)
            except Error as problem:
                error = problem
            except BaseException:
                # Ctrl-C, for example: the collective goes on.
                self._watch()
                raise
            self._unwatched.pop()
            try:
                end(error)
            except BaseException as problem:
                self.end_part(problem)
                self._watch()
                raise

    def get_future(self) -> Future[Any]:
        """The future of the tensors. Its error is a `RuntimeError` with the text of the cause."""
        self._watch()
        return self._future

    def record_until_end(self, event: record_function) -> None:
        """Has the profiler record `event`, which has begun, until the collective ends.

        Call it before `get_future`.
        """
        self._watch()
        self._future = event._call_end_callbacks_on_future(self._outcome).then(_value)

    # PyTorch 2.15 hides these behind a work of its own, which only forwards `wait` and `get_future`
    # (`PyWorkHolder`). They are for those who call the backend itself.

    def result(self) -> Any:
        """The tensors of the result. Call it after `wait`."""
        return self._future.value()

    def is_completed(self) -> bool:
        """Whether the collective has ended."""
        self._watch()
        return self._ended.is_set()

    def is_success(self) -> bool:
        """Whether the collective has ended without an error."""
        return self._ended.is_set() and self._error is None

    def exception(self) -> BaseException | None:
        """The error with which the collective has ended."""
        return self._error if self._ended.is_set() else None


class CopiedWork(TributaryWork):
    """A collective that is carried out on copies of tensors, which are written back in the end."""

    def __init__(
        self,
        copied: TributaryWork,
        write_back: Callable[[], None],
        result: Any,
        waiting: Waiting,
        devices: Sequence[torch.device],
    ) -> None:
        """`copied` is the collective on the copies. The others are as for `TributaryWork`."""
        super().__init__(result, 1, waiting, devices)
        self._copied = copied
        self._write_back = write_back
        copied.get_future().then(lambda _: self._end())

    def _end(self) -> None:
        error = self._copied.exception()
        if error is None:
            try:
                self._write_back()
            except Exception as problem:
                error = problem
        self.end_part(error)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        # It names the ranks that are late.
        self._copied.wait(timeout)
        return super().wait(timeout)


class JointWork(Work):
    """Several works of other backends."""

    def __init__(self, works: Sequence[Work]) -> None:
        super().__init__()
        self._works = works

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Waits until all have ended."""
        return all([work.wait(timeout) for work in self._works])


class WrittenBackWork(Work):
    """A collective of another backend on copies of tensors, which are written back in the end."""

    def __init__(self, copied: Work, write_back: Callable[[], None], result: Any) -> None:
        super().__init__()

        def end(future: Future[Any]) -> Any:
            future.value()
            write_back()
            return result

        self._future: Future[Any] = copied.get_future().then(end)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Waits until it has ended, as the other backend's works do."""
        self._future.wait()
        return True

    def get_future(self) -> Future[Any]:
        """The future of the tensors."""
        return self._future


def writing() -> AbstractContextManager[None]:
    """A context in which any tensor of a caller can be written in place, from any thread.

    A tensor that was made in inference mode can only be written in it, and others can be, too.
    """
    mode: AbstractContextManager[None] = torch.inference_mode()
    return mode


def contiguous(
    arguments: tuple[Any, ...],
) -> tuple[tuple[Any, ...], list[tuple[torch.Tensor, torch.Tensor]]]:
    """The arguments of a collective, with contiguous copies of tensors that are not contiguous.

    Memory is taken as it lies, and the layouts of the ranks may differ. The outputs are the first
    argument. Returns also those that have copies, with these.
    """
    copies = []

    def replace(argument: Any, is_output: bool) -> Any:
        if isinstance(argument, list):
            return [replace(each, is_output) for each in argument]
        if (
            not isinstance(argument, torch.Tensor)
            or argument.layout != torch.strided
            or (argument.is_contiguous() and not argument.is_conj() and not argument.is_neg())
        ):
            return argument
        copy = argument.detach().resolve_conj().resolve_neg().contiguous()
        if is_output:
            copies.append((argument.detach(), copy))
        return copy

    return tuple(replace(each, at == 0) for at, each in enumerate(arguments)), copies


def overlaps_itself(tensor: torch.Tensor) -> bool:
    """Whether elements of a dense tensor may share memory, as those of an expanded one do."""
    if tensor.is_contiguous():
        return False
    reach = 0
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size > 1 and stride <= reach:
            return True
        reach += stride * (size - 1)
    return False


def write_back(copies: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Writes to tensors, of any strides, what their copies hold.

    Elements that share memory are written once. Raises an error if they had to differ.
    """
    with writing():
        for tensor, copy in copies:
            target, source = tensor, copy
            for dimension, stride in enumerate(tensor.stride()):
                if stride == 0:
                    target, source = target.narrow(dimension, 0, 1), source.narrow(dimension, 0, 1)
            target.copy_(source)
            if overlaps_itself(tensor) and not _has_same_values(tensor, copy):
                raise ValueError(
                    "tributary: elements of an output share memory, but their results differ. Is "
                    "it expanded? Pass tensor.contiguous() in its place"
                )


def _has_same_values(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool(torch.isclose(a, b, rtol=0.0, atol=0.0, equal_nan=True).all())


def _error(handle: Handle) -> BaseException | None:
    """The error of a handle that is done."""
    try:
        handle.wait(0.0)
    except Error as error:
        return error
    return None


def _value(outcome: Future[Any]) -> Any:
    value = outcome.value()
    if isinstance(value, BaseException):
        raise value
    return value
