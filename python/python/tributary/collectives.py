"""Collectives beside sums that all get: in shared memory, or parts of tensors through a network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ._native import Communicator, Handle
from .network import DTYPES, Network
from .work import CopiedWork, TributaryWork, Waiting, contiguous, write_back

# Beside those of `DTYPES`.
_SUMMED_DTYPES = {torch.float64: "float64", torch.int64: "int64", torch.int32: "int32"}


class Collectives:
    """The collectives beside sums of floats that do not need Gloo.

    Ranks that share memory carry out most. A network whose switch has all ranks below it, with
    P4INC or SwitchML, exchanges parts of tensors: it gathers all, or scatters sums.

    The ranks compare what they call. Collectives whose tensors do not fit go to Gloo, which reports
    the reason.
    """

    def __init__(self, network: Network, rank: int, size: int) -> None:
        self._network, self._rank, self._size = network, rank, size

    def takes(self, *tensors: torch.Tensor) -> bool:
        """Whether a collective of these tensors, which is not one of parts, is for this class.

        The answer only depends on what the tensors of all ranks have in common, as the kind of their
        device.
        """
        return self._are_plain(*tensors) and self._network.shares_memory()

    def _are_plain(self, *tensors: torch.Tensor) -> bool:
        return self._size > 1 and all(
            tensor.device.type == "cpu"
            and tensor.layout == torch.strided
            and not tensor.is_quantized
            and tensor.dtype == tensors[0].dtype
            for tensor in tensors
        )

    def _exchanges(self, *tensors: torch.Tensor) -> bool:
        return self._are_plain(*tensors) and self._network.exchanges_parts()

    def takes_sum(self, tensor: torch.Tensor) -> bool:
        """Whether an `all_reduce` of `tensor` is for this class."""
        return tensor.dtype in _SUMMED_DTYPES and self.takes(tensor)

    def takes_gather(self, outputs: Sequence[torch.Tensor], own: torch.Tensor) -> bool:
        """Whether an `all_gather` to a list of tensors is for this class."""
        return (
            len(outputs) == self._size
            and all(output.numel() == own.numel() for output in outputs)
            and self._exchanges(own, *outputs)
        )

    def takes_parts(self, whole: torch.Tensor, part: torch.Tensor) -> bool:
        """Whether `whole` has a part like `part` for each rank."""
        return whole.numel() == self._size * part.numel() and self._exchanges(whole, part)

    def takes_scatter(self, whole: torch.Tensor, part: torch.Tensor) -> bool:
        """Whether a `reduce_scatter` is for this class."""
        return whole.dtype in DTYPES and self.takes_parts(whole, part)

    def all_gather(
        self,
        operation: str,
        output: torch.Tensor,
        own: torch.Tensor,
        result: Any,
        waiting: Waiting,
        finish: Callable[[], None] | None = None,
    ) -> TributaryWork:
        """Fills `output` with the `own` of all ranks, in their order, and calls `finish`."""
        (own,), _ = contiguous((own,))
        (output,), copies = contiguous((output,))
        size = own.numel() * own.element_size()

        def start(communicator: Communicator) -> Handle:
            return communicator.all_gather(
                own.data_ptr(),
                (output.data_ptr(), output.numel() * output.element_size()),
                size,
                _claim(operation, own),
                owner=(own, output),
            )

        return self._begin(start, result, copies, waiting, finish)

    def broadcast(
        self, tensor: torch.Tensor, root: int, result: Any, waiting: Waiting
    ) -> TributaryWork:
        """Copies `tensor` from rank `root` to the others."""
        (memory,), copies = contiguous((tensor,))

        def start(communicator: Communicator) -> Handle:
            return communicator.broadcast(
                memory.data_ptr(),
                memory.numel() * memory.element_size(),
                root,
                _claim(f"broadcast (root {root})", memory),
                owner=memory,
            )

        return self._begin(start, result, copies if root != self._rank else [], waiting)

    def reduce_scatter(
        self,
        output: torch.Tensor,
        values: torch.Tensor,
        average: bool,
        result: Any,
        waiting: Waiting,
    ) -> TributaryWork:
        """Sums `values` over all ranks, and writes this rank's part of the sums to `output`."""
        (values,), _ = contiguous((values,))
        (output,), copies = contiguous((output,))
        operation = f"reduce_scatter_tensor ({'AVG' if average else 'SUM'})"

        def start(communicator: Communicator) -> Handle:
            return communicator.reduce_scatter(
                (values.data_ptr(), values.numel()),
                (output.data_ptr(), output.numel()),
                DTYPES[values.dtype],
                _claim(operation, output),
                average=average,
                owner=(values, output),
            )

        return self._begin(start, result, copies, waiting)

    def sum(
        self,
        tensor: torch.Tensor,
        operation: str,
        result: Any,
        waiting: Waiting,
        finish: Callable[[torch.Tensor], None] | None = None,
    ) -> TributaryWork:
        """Sums numbers in their own type, in place, and calls `finish` with the sums."""
        (memory,), copies = contiguous((tensor,))

        def start(communicator: Communicator) -> Handle:
            return communicator.sum(
                memory.data_ptr(),
                memory.numel(),
                _SUMMED_DTYPES[memory.dtype],
                _claim(operation, memory),
                owner=memory,
            )

        then = None if finish is None else lambda: finish(memory)
        return self._begin(start, result, copies, waiting, then)

    def _begin(
        self,
        start: Callable[[Communicator], Handle],
        result: Any,
        copies: Sequence[tuple[torch.Tensor, torch.Tensor]],
        waiting: Waiting,
        finish: Callable[[], None] | None = None,
    ) -> TributaryWork:
        waiting = waiting.within(self._network.timeout)
        work = TributaryWork(result, 1, waiting)
        self._network.begin(start, work)
        if finish is None and not copies:
            return work

        def end() -> None:
            if finish is not None:
                finish()
            write_back(copies)

        return CopiedWork(work, end, result, waiting, ())


def _claim(operation: str, tensor: torch.Tensor) -> tuple[str, int, str]:
    # With `check`, a rank that leaves the same collective to Gloo, because only its tensors do not fit,
    # claims another.
    dtype = str(tensor.dtype).removeprefix("torch.")
    return operation, tensor.numel(), f"{dtype} without Gloo"
