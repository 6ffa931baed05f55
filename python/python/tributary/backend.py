"""The c10d backend: `torch.distributed.init_process_group("tributary")`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from types import FunctionType
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store, Work
from torch.autograd import profiler
from torch.distributed import ReduceOp

from . import devices, process
from ._native import Error
from .collectives import Collectives
from .delegation import DelegatedWork, Delegation, Waiter
from .network import DEVICES, Network, is_summable
from .rendezvous import unused_part
from .work import (
    CopiedWork,
    JointWork,
    TributaryWork,
    Waiting,
    WrittenBackWork,
    contiguous,
    overlaps_itself,
    write_back,
    writing,
)

NAME = "tributary"

# Operations that NCCL does not have.
_OF_BITS = (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)

try:
    from torch._C._distributed_c10d import Backend, ProcessGroupGloo

    Backend(0, 1)
except (ImportError, TypeError) as cause:
    raise ImportError(
        f"the backend of Tributary needs PyTorch 2.14 or later, with Gloo; this is "
        f"{torch.__version__}. Use the communication hook: model.register_comm_hook("
        f"tributary.State(), tributary.allreduce_hook)"
    ) from cause


def register() -> None:
    """Makes the backend known to PyTorch, which calls this through the entry point."""
    _hide_from_compiler()
    dist.Backend.register_backend(NAME, _create, extended_api=True, devices=list(DEVICES))


def _hide_from_compiler() -> None:
    """Keeps `torch.compile` from tracing the backend, which DDP calls while a model is traced."""
    try:
        from torch._C._dynamo import eval_frame

        skip = eval_frame._FrameAction.SKIP
        # With all that these functions call. Importing `torch._dynamo` would take seconds.
        strategy = eval_frame._FrameExecStrategy(skip, skip)
        hide = eval_frame.set_code_exec_strategy
    except (ImportError, AttributeError):
        # It works traced, too, but slowly and with warnings.
        return
    for member in vars(TributaryBackend).values():
        if isinstance(member, FunctionType):
            hide(member.__code__, strategy)


def _create(options: Any, _backend_options: object) -> TributaryBackend:
    backend = TributaryBackend(
        options.store, options.group_rank, options.group_size, options.timeout
    )
    ranks = options.global_ranks_in_group or list(range(options.group_size))
    backend.describe(ranks, options.group_id)
    return backend


class TributaryBackend(Backend):
    """Sums and averages dense floating-point tensors in the network, and does the rest by Gloo.

    Where each rank has a CUDA device of its own, NCCL does the rest for tensors on devices, and adds
    those of a host before the network adds those of hosts.

    Ranks that are all on one host do more in the memory that they share, and a network may gather
    and scatter parts of tensors. At every collective that Gloo does not carry out, the ranks check
    that they all call the same one, and at others if the settings ask for it. A group of one rank
    does not use the network.
    """

    def __init__(self, store: Store, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        store = unused_part(store, rank)
        self._options = Backend.Options(NAME, timeout)
        self._rank, self._size = rank, size
        self._gloo: ProcessGroupGloo | None = ProcessGroupGloo(
            PrefixStore("gloo/", store), rank, size, timeout=timeout
        )
        self._delegated = Delegation()
        self.network = Network(store, rank, size, timeout.total_seconds(), self._delegated.fail)
        self._collectives = Collectives(self.network, rank, size)
        self._layers = _Layers()
        self._waiter = Waiter()
        self._batch = _Batch(self.network)
        process.register(self)

    def describe(self, ranks: list[int], name: Any) -> None:
        """Tells Gloo's flight recorder which group this is."""
        for options in (self._options, self.gloo.options):
            options.global_ranks_in_group = ranks
            options.group_name = name

    @property
    def gloo(self) -> Any:
        """Carries out what does not go through the network."""
        if self._gloo is None:
            raise Error("this rank has left its process group")
        return self._gloo

    def getBackendName(self) -> str:
        """The name by which scripts ask for the backend."""
        return NAME

    @property
    def options(self) -> Any:
        """The timeout, the global ranks and the name of the group."""
        # Without overrides of these properties, PyTorch 2.15 asks itself until the stack ends.
        return self._options

    @property
    def supports_coalescing(self) -> bool:
        """NCCL needs to know which messages between devices belong together.

        Sums are coalesced by `allreduce_coalesced` instead.
        """
        return devices.are_there()

    def start_coalescing(self) -> None:
        """Begins a batch of messages."""
        self._batch.start()

    def end_coalescing(self) -> Work | None:
        """Ends the batch, whose messages the work stands for."""
        return self._batch.end()

    @property
    def supports_splitting(self) -> bool:
        """Whether `torch.distributed.split_group` works."""
        return True

    def split(self, store: Store, ranks: list[int], opts: Any) -> TributaryBackend:
        """Makes the backend of a part of the group, which `ranks` of this group form."""
        if self._rank not in ranks:
            # PyTorch 2.15 crashes if a backend in Python returns None here, as others do.
            raise Error(
                "with backend 'tributary', torch.distributed.split_group needs every rank in one "
                "of its parts: name the others as a part, too, or use torch.distributed.new_group"
            )
        part = TributaryBackend(store, ranks.index(self._rank), len(ranks), opts._timeout)
        everyone = self._options.global_ranks_in_group
        part.describe([everyone[rank] for rank in ranks], opts.group_name)
        return part

    def merge(self, store: Store, opts: Any, rank: int, size: int) -> TributaryBackend:
        """Makes the backend of a group that this group and others form."""
        merged = TributaryBackend(store, rank, size, opts._timeout)
        # PyTorch does not say which ranks of the default group these are.
        merged.describe(list(range(size)), opts.group_name)
        return merged

    def perform_nocolor_split(self, device: torch.device) -> None:
        """Has nothing to do: ranks outside of a new subgroup take no part in its making."""

    @property
    def supports_shrinking(self) -> bool:
        """A group that has lost a rank has ended."""
        return False

    @property
    def supports_reconfigure(self) -> bool:
        """As `supports_shrinking`."""
        return False

    @property
    def supports_window(self) -> bool:
        """There is no one-sided communication."""
        return False

    @property
    def _supports_time_estimate(self) -> bool:
        return False

    def allreduce(self, tensors: list[torch.Tensor], opts: Any) -> Work:
        """Sums one tensor of any shape over all ranks, in place.

        Sums and averages of `float32`, `float16` and `bfloat16` go through the network.
        """
        if len(tensors) == 1 and self._uses_network(tensors, opts.reduceOp):
            return self._sum("all_reduce", tensors, opts)
        if len(tensors) == 1 and self._sums_numbers(tensors[0], opts):
            return self._recorded("all_reduce", lambda: self._sum_numbers(tensors, opts))
        return self._delegate("allreduce", "all_reduce", opts, tensors, tensors, opts)

    def allreduce_coalesced(self, tensors: list[torch.Tensor], opts: Any) -> Work:
        """Sums several tensors over all ranks, in place, each as `allreduce` does."""
        if tensors and self._uses_network(tensors, opts.reduceOp):
            return self._sum("all_reduce_coalesced", tensors, opts)
        return self._delegate(
            "allreduce_coalesced", "all_reduce_coalesced", opts, tensors, tensors, opts
        )

    def allreduce_sparse(self, tensors: list[torch.Tensor], opts: Any) -> Work:
        return self._delegate("allreduce_sparse", "all_reduce (sparse)", opts, (), tensors, opts)

    def broadcast(self, tensors: list[torch.Tensor], opts: Any) -> Work:
        if len(tensors) == 1 and self._collectives.takes(tensors[0]):
            return self._recorded(
                "broadcast",
                lambda: self._collectives.broadcast(
                    tensors[0].detach(), opts.rootRank, tensors, Waiting.of(opts)
                ),
            )
        return self._delegate("broadcast", "broadcast", opts, tensors, tensors, opts)

    def reduce(self, tensors: list[torch.Tensor], opts: Any) -> Work:
        return self._delegate("reduce", "reduce", opts, tensors, tensors, opts)

    def allgather(
        self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any
    ) -> Work:
        if len(inputs) == len(outputs) == 1 and self._collectives.takes_gather(outputs[0], inputs[0]):
            return self._recorded("all_gather", lambda: self._gather_to_list(outputs, inputs[0], opts))
        return self._delegate("allgather", "all_gather", opts, inputs, outputs, inputs, opts)

    def allgather_coalesced(
        self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any
    ) -> Work:
        return self._delegate(
            "allgather_coalesced", "all_gather_coalesced", opts, inputs, outputs, inputs, opts
        )

    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any) -> Work:
        if self._collectives.takes_parts(output, input):
            name = "all_gather_into_tensor"
            return self._recorded(
                name,
                lambda: self._collectives.all_gather(
                    name, output.detach(), input.detach(), [output], Waiting.of(opts)
                ),
            )
        return self._delegate(
            "all_gather_single", "all_gather_into_tensor", opts, [input], output, input, opts
        )

    def all_gather_single_coalesced(
        self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any
    ) -> Work:
        return self._delegate(
            "all_gather_single_coalesced",
            "all_gather_into_tensor (coalesced)",
            opts,
            inputs,
            outputs,
            inputs,
            opts,
        )

    def gather(
        self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any
    ) -> Work:
        return self._delegate("gather", "gather", opts, inputs, outputs, inputs, opts)

    def scatter(
        self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any
    ) -> Work:
        return self._delegate("scatter", "scatter", opts, outputs, outputs, inputs, opts)

    def reduce_scatter(
        self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any
    ) -> Work:
        return self._delegate(
            "reduce_scatter", "reduce_scatter", opts, outputs, outputs, inputs, opts
        )

    def reduce_scatter_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any) -> Work:
        if _is_sum(opts) and self._collectives.takes_scatter(input, output):
            return self._recorded(
                "reduce_scatter_tensor",
                lambda: self._collectives.reduce_scatter(
                    output.detach(),
                    input.detach(),
                    opts.reduceOp == ReduceOp.AVG,
                    [output],
                    Waiting.of(opts),
                ),
            )
        return self._delegate(
            "reduce_scatter_single", "reduce_scatter_tensor", opts, [output], output, input, opts
        )

    def reduce_scatter_single_coalesced(
        self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any
    ) -> Work:
        return self._delegate(
            "reduce_scatter_single_coalesced",
            "reduce_scatter_tensor (coalesced)",
            opts,
            outputs,
            outputs,
            inputs,
            opts,
        )

    def all_to_all_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_sizes: list[int],
        input_sizes: list[int],
        opts: Any,
    ) -> Work:
        # The ranks may exchange different numbers of elements.
        return self._delegate(
            "all_to_all_single",
            "all_to_all_single",
            opts,
            (),
            output,
            input,
            output_sizes,
            input_sizes,
            opts,
        )

    def alltoall(self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any) -> Work:
        return self._delegate("alltoall", "all_to_all", opts, (), outputs, inputs, opts)

    def barrier(self, opts: Any) -> Work:
        """Waits for all ranks. Gloo has no part in it, unless the group has one rank."""
        if self._size == 1:
            return self._delegate("barrier", "barrier", opts, (), opts)
        return self._recorded("barrier", lambda: self.network.barrier(Waiting.of(opts)))

    def monitored_barrier(self, opts: Any, wait_all_ranks: bool = False) -> None:
        # Gloo's own check names the ranks that are missing.
        self.gloo.monitored_barrier(opts.timeout, wait_all_ranks)

    def send(self, tensors: list[torch.Tensor], destination: int, tag: int) -> Work:
        by = self._batch.carrier(tensors) or self.gloo
        return self._batch.add(by.send(tensors, destination, tag))

    def recv(self, tensors: list[torch.Tensor], source: int, tag: int) -> Work:
        by = self._batch.carrier(tensors) or self.gloo
        return self._batch.add(by.recv(tensors, source, tag))

    def recv_anysource(self, tensors: list[torch.Tensor], tag: int) -> Work:
        by = self._batch.carrier(tensors) or self.gloo
        return self._batch.add(by.recv_anysource(tensors, tag))

    def set_timeout(self, timeout: timedelta) -> None:
        """Sets the longest time that a collective takes."""
        self._options._timeout = timeout
        self.network.timeout = timeout.total_seconds()
        self.gloo.set_timeout(timeout)

    def shutdown(self) -> None:
        """Leaves the group. The first rank returns when all ranks have left."""
        self.close()

    def pending(self) -> bool:
        """Whether collectives have not ended."""
        return self.network.pending()

    def close(self) -> None:
        """As `shutdown`."""
        self._leave(self.network.close)

    def abort(self, reason: str = "the group was aborted") -> None:
        """Fails the collectives that are pending, and leaves the group."""
        if self._gloo is not None:
            self._gloo.abort()
        self._leave(lambda: self.network.abort(reason))

    def _leave(self, leave: Callable[[], None]) -> None:
        leave()
        gloo, self._gloo = self._gloo, None
        if self._delegated.in_flight():
            # Closing Gloo waits for its collectives, which the other ranks may never complete.
            process.keep_until_exit(gloo)
        else:
            # Gloo's threads end with their owner. In PyTorch 2.15, one that drops a tensor while
            # the interpreter ends terminates the process.
            self._waiter.close()
        process.unregister(self)

    def _set_sequence_number_for_group(self) -> None:
        self.gloo._set_sequence_number_for_group()

    def _get_sequence_number_for_group(self) -> int:
        number: int = self.gloo._get_sequence_number_for_group()
        return number

    def _uses_network(self, tensors: Sequence[torch.Tensor], op: Any) -> bool:
        return (
            self._size > 1
            and (op == ReduceOp.SUM or op == ReduceOp.AVG)
            and all(map(is_summable, tensors))
            and self.network.leaves_sums_to(tensors[0]) is None
        )

    def _sums_numbers(self, tensor: torch.Tensor, opts: Any) -> bool:
        return _is_sum(opts) and self._collectives.takes_sum(tensor)

    def _sum_numbers(self, tensors: list[torch.Tensor], opts: Any) -> Work:
        is_average = opts.reduceOp == ReduceOp.AVG
        return self._collectives.sum(
            tensors[0].detach(),
            f"all_reduce ({'AVG' if is_average else 'SUM'})",
            tensors,
            Waiting.of(opts),
            (lambda sums: _divide([sums], self._size)) if is_average else None,
        )

    def _gather_to_list(
        self, outputs: list[list[torch.Tensor]], own: torch.Tensor, opts: Any
    ) -> Work:
        shape = (self._size, own.numel())
        # The caller may have set another default.
        all_parts = torch.empty(shape, dtype=own.dtype, device=own.device)

        def finish() -> None:
            write_back(
                [(out.detach(), part.view(out.shape)) for out, part in zip(outputs[0], all_parts)]
            )

        return self._collectives.all_gather(
            "all_gather", all_parts, own.detach(), outputs, Waiting.of(opts), finish
        )

    def _sum(self, name: str, tensors: list[torch.Tensor], opts: Any) -> Work:
        return self._recorded(name, lambda: self._start_sum(tensors, opts))

    def _start_sum(self, tensors: list[torch.Tensor], opts: Any) -> Work:
        waiting = Waiting.of(opts).within(self.network.timeout)
        # The network cannot write these itself.
        copies = {
            at: tensor.detach().contiguous()
            for at, tensor in enumerate(tensors)
            if overlaps_itself(tensor)
        }
        work = self.network.all_reduce(
            [copies.get(at, tensor) for at, tensor in enumerate(tensors)],
            average=opts.reduceOp == ReduceOp.AVG,
            layer=self._layers.next(),
            waiting=waiting,
            result=tensors,
        )
        if not copies:
            return work
        return CopiedWork(
            work,
            lambda: write_back([(tensors[at].detach(), copy) for at, copy in copies.items()]),
            tensors,
            waiting,
            _cuda_devices(tensors),
        )

    def _recorded(self, name: str, start: Callable[[], Work]) -> Work:
        return self._batch.add(_recorded(name, start))

    def _delegate(
        self,
        method: str,
        name: str,
        opts: Any,
        announced: Sequence[torch.Tensor],
        *arguments: Any,
    ) -> Work:
        return self._recorded(
            name, lambda: self._start_delegated(method, name, opts, announced, *arguments)
        )

    def _start_delegated(
        self,
        method: str,
        name: str,
        opts: Any,
        announced: Sequence[torch.Tensor],
        *arguments: Any,
    ) -> Work:
        """Calls `method` of Gloo while the ranks check that they all call the same collective.

        `announced` are the tensors that have the same number of elements and type at all ranks.
        """
        nccl = self._nccl(arguments, opts)
        if nccl is not None:
            self.network.check(_describe(name, opts), *_size_and_type(announced))
            outputs = _outputs(arguments)
            arguments, copies = contiguous(arguments)
            started: Work = getattr(nccl, method)(*arguments)
            if not copies:
                return started
            return WrittenBackWork(started, lambda: write_back(copies), outputs)
        call: Callable[..., Work] = getattr(self.gloo, method)
        is_average = getattr(opts, "reduceOp", None) == ReduceOp.AVG
        if is_average:
            # Gloo cannot average integers, and averages of others are sums, divided.
            arguments = (*arguments[:-1], _as_sum(opts))
        if self._size == 1:
            return call(*arguments)
        outputs = _outputs(arguments)
        arguments, copies = contiguous(arguments)
        averaged = self._averaged(opts, _outputs(arguments)) if is_average else []
        # Of a reduction to one rank, Gloo leaves parts of sums at the others.
        has_result = method != "reduce" or opts.rootRank == self._rank

        def finish() -> None:
            _divide(averaged, self._size)
            if has_result:
                write_back(copies)

        # Other threads end it.
        waiting = Waiting.of(opts).within(self.network.timeout)._replace(at_once=False)
        work = DelegatedWork(
            self.network,
            self._waiter,
            _describe(name, opts),
            lambda: call(*arguments),
            waiting,
            _cuda_devices(arguments),
            outputs,
            finish,
            bool(copies),
        )
        self._delegated.submit(work, *_size_and_type(announced))
        return work

    def _nccl(self, arguments: Sequence[Any], opts: Any) -> Any:
        """NCCL, if that carries out collectives of these arguments."""
        tensor = _tensor_on_device(arguments) if self._size > 1 else None
        op = getattr(opts, "reduceOp", None)
        if tensor is None or tensor.layout != torch.strided or any(op == of for of in _OF_BITS):
            return None
        return self.network.of_devices()

    def _averaged(self, opts: Any, outputs: list[torch.Tensor]) -> list[torch.Tensor]:
        """The tensors of this rank that hold averages in the end."""
        for tensor in outputs:
            if tensor.dtype == torch.bool:
                raise ValueError(
                    "tributary: truth values have no average; reduce them with ReduceOp.MAX (any) "
                    "or ReduceOp.MIN (all), or convert them to numbers first"
                )
        return outputs if getattr(opts, "rootRank", self._rank) == self._rank else []


class _Batch:
    """Messages that belong together: those of NCCL start when all are known."""

    def __init__(self, network: Network) -> None:
        self._network = network
        # None outside of a batch.
        self._works: list[Work] | None = None
        self._nccl: Any = None

    def start(self) -> None:
        if not devices.are_there():
            raise RuntimeError(f"backend {NAME} coalesces nothing without NCCL")
        self._works, self._nccl = [], None

    def carrier(self, tensors: Sequence[torch.Tensor]) -> Any:
        """NCCL for messages of tensors on devices, if it is there, and otherwise None."""
        if not (any(map(devices.is_on_device, tensors)) and self._network.may_have_devices()):
            return None
        nccl = self._network.devices.of_all()
        if self._works is not None and self._nccl is None:
            self._nccl = nccl
            nccl._start_coalescing()
        return nccl

    def add(self, work: Work) -> Work:
        if self._works is not None:
            self._works.append(work)
        return work

    def end(self) -> Work | None:
        works, self._works = self._works or [], None
        if self._nccl is not None:
            nccl, self._nccl = self._nccl, None
            # Its work stands for all messages of NCCL.
            return JointWork([work for work in [nccl._end_coalescing(), *works] if work is not None])
        return JointWork(works) if works else None


class _Layers:
    """Finds the place of each sum in its backward pass, from the pass before."""

    def __init__(self) -> None:
        self._pass = -1
        self._seen = 0
        self._count: int | None = None

    def next(self) -> tuple[int, int] | None:
        """The place of the next sum: `(index, count)`, index 0 at the input of the model.

        None outside of backward passes, and in the first.
        """
        current = torch._C._current_graph_task_id()
        if current == -1:
            return None
        if current != self._pass:
            self._count = self._seen or None
            self._pass, self._seen = current, 0
        place = self._seen
        self._seen += 1
        # Gradients become ready from the output to the input.
        if self._count is None or place >= self._count:
            return None
        return self._count - 1 - place, self._count


def _recorded(name: str, start: Callable[[], Work]) -> Work:
    """Starts a collective. The profiler of PyTorch records it until its end, if it is on."""
    if not profiler._is_profiler_enabled:
        return start()
    with profiler.record_function(f"{NAME}:{name}") as event:
        work = start()
        if isinstance(work, TributaryWork):
            work.record_until_end(event)
        return work


def _is_sum(opts: Any) -> bool:
    return bool(opts.reduceOp == ReduceOp.SUM or opts.reduceOp == ReduceOp.AVG)


def _describe(name: str, opts: Any) -> str:
    details = []
    op = getattr(opts, "reduceOp", None)
    if op is not None:
        details.append(op.op.name)
    root = getattr(opts, "rootRank", None)
    if root is not None:
        details.append(f"root {root}")
    return f"{name} ({', '.join(details)})" if details else name


def _as_sum(opts: Any) -> Any:
    """The options of a reduction, with a sum in place of its operation."""
    summed = type(opts)()
    for name in ("timeout", "asyncOp", "rootRank", "rootTensor"):
        if hasattr(opts, name):
            setattr(summed, name, getattr(opts, name))
    summed.reduceOp = ReduceOp.SUM
    return summed


def _divide(sums: Sequence[torch.Tensor], ranks: int) -> None:
    """Makes averages of sums. Those of integers are rounded toward zero, as NCCL does."""
    with writing():
        for tensor in sums:
            if tensor.is_floating_point() or tensor.is_complex():
                tensor.div_(ranks)
            else:
                tensor.div_(ranks, rounding_mode="trunc")


def _outputs(arguments: Sequence[Any]) -> list[Any]:
    """The tensors that a collective of Gloo writes, which are its first argument."""
    first = arguments[0]
    if isinstance(first, torch.Tensor):
        return [first]
    return first if isinstance(first, list) else []


def _size_and_type(tensors: Sequence[torch.Tensor]) -> tuple[int, str]:
    dtype = str(tensors[0].dtype).removeprefix("torch.") if tensors else ""
    return sum(tensor.numel() for tensor in tensors), dtype


def _tensor_on_device(arguments: Any) -> torch.Tensor | None:
    """A tensor on a device in `arguments`, which may be nested lists."""
    if isinstance(arguments, torch.Tensor):
        return arguments if devices.is_on_device(arguments) else None
    if not isinstance(arguments, (list, tuple)):
        return None
    found = map(_tensor_on_device, arguments)
    return next((tensor for tensor in found if tensor is not None), None)


def _cuda_devices(arguments: Any) -> list[torch.device]:
    """The CUDA devices of the tensors in `arguments`, which may be nested lists."""
    if isinstance(arguments, torch.Tensor):
        return [arguments.device] if arguments.is_cuda else []
    if not isinstance(arguments, (list, tuple)):
        return []
    devices = {device for argument in arguments for device in _cuda_devices(argument)}
    return sorted(devices, key=str)
