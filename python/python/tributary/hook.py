"""A communication hook for DDP, beside any backend and for versions of PyTorch without ours."""

# DDP inspects the annotations of a hook, which must not be texts. Hence no `annotations` of
# `__future__` here.
from typing import Optional, cast

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import AllreduceOptions, GradBucket
from torch.distributed import ProcessGroup, ReduceOp

from . import process
from .network import Network, is_summable, of_group
from .rendezvous import unused_part


class State:
    """What the hook needs between buckets. One per model."""

    def __init__(
        self, process_group: Optional[ProcessGroup] = None, *, timeout: float = 1800.0
    ) -> None:
        """Creates the state at each rank of the group.

        Args:
            process_group: The group of the model, with any backend. None stands for the default
                group.
            timeout: The longest time that a sum takes, in seconds.
        """
        group = process_group or dist.group.WORLD
        if group is None:
            raise ValueError("call torch.distributed.init_process_group first")
        self.group = group
        network = of_group(group)
        # A group with our backend already has a network, and closes it.
        self._owns_network = network is None
        if network is None:
            store = dist.distributed_c10d._world.pg_map[group][1]
            store = unused_part(store, group.rank())
            network = Network(store, group.rank(), group.size(), timeout)
            process.register(network)
        self.network = network
        self._buckets: Optional[int] = None

    def close(self) -> None:
        """Leaves the other ranks, which otherwise happens when the process exits."""
        if self._owns_network:
            self.network.close()
            process.unregister(self.network)

    def layer(self, bucket: GradBucket) -> Optional[tuple[int, int]]:
        """Where `bucket` stands in the model: `(index, count)`, index 0 at the input.

        None in the first backward pass, in which the number of buckets is unknown.
        """
        index, count = bucket.index(), self._buckets
        if bucket.is_last():
            self._buckets = index + 1
        # DDP numbers buckets from the output. It rebuilds them after the first pass.
        if count is None or index >= count:
            return None
        return count - 1 - index, count


def allreduce_hook(state: State, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Averages the gradients of a bucket over all ranks, in the memory of the bucket.

    Use it as `model.register_comm_hook(state, tributary.allreduce_hook)`.

    Args:
        state: The state of this model.
        bucket: A bucket of DDP. Its buffer is a 1-D tensor. `float32`, `float16` and `bfloat16` go
            through the network, other types through the process group.

    Returns:
        A future of the same buffer.
    """
    buffer = bucket.buffer()
    # The number of buckets is counted for all data types.
    layer = state.layer(bucket)
    if state.group.size() == 1:
        future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        future.set_result(buffer)
        return future
    if not is_summable(buffer):
        buffer.div_(state.group.size())
        work = dist.all_reduce(buffer, group=state.group, async_op=True)
        return work.get_future().then(lambda future: future.value()[0])
    nccl = state.network.leaves_sums_to(buffer)
    if nccl is not None:
        options = AllreduceOptions()
        options.reduceOp = ReduceOp.AVG
        summed = nccl.allreduce([buffer], options).get_future()
        return cast("torch.futures.Future[torch.Tensor]", summed.then(lambda f: f.value()[0]))
    work = state.network.all_reduce([buffer], average=True, layer=layer, result=buffer)
    return cast("torch.futures.Future[torch.Tensor]", work.get_future())
