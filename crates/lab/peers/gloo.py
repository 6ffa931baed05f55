"""One rank of an all-reduce of floats over Gloo, through PyTorch.

gloo.py RANK RANKS ADDRESS ELEMENTS SECONDS [CORE], where ADDRESS is rank 0's, HOST:PORT, and CORE
the only one to run on.

Prints one line of JSON: how many all-reduces were measured, the seconds of all of them at this
rank, and the processor seconds of this process in them, in user and kernel mode.
"""

import json
import os
import sys
import time

if len(sys.argv) > 6:
    # Threads that an import starts keep to it, too.
    os.sched_setaffinity(0, {int(sys.argv[6])})

import torch
import torch.distributed as dist

# Rounds of a measurement.
LEAST = 3
MOST = 100_000


def main():
    rank, ranks = int(sys.argv[1]), int(sys.argv[2])
    elements, wanted = int(sys.argv[4]), float(sys.argv[5])
    # As many threads as ranks already share the cores.
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"tcp://{sys.argv[3]}", rank=rank, world_size=ranks
    )
    # Sums are small integers, exact in any order.
    common = torch.arange(elements) % 251
    own = (common + rank + 1).float()
    # All ranks together compare every value of a sum.
    share = slice(elements * rank // ranks, elements * (rank + 1) // ranks)
    expected = (common[share] * ranks + ranks * (ranks + 1) // 2).float()
    del common
    tensor = torch.empty_like(own)

    def reduce(rounds):
        """Seconds and processor seconds of some all-reduces at this rank."""
        seconds = used = 0.0
        for _ in range(rounds):
            # The sum replaces the tensor.
            tensor.copy_(own)
            dist.barrier()
            before, begin = time.process_time(), time.perf_counter()
            dist.all_reduce(tensor)
            seconds += time.perf_counter() - begin
            used += time.process_time() - before
            if not torch.equal(tensor[share], expected):
                sys.exit(f"error: rank {rank}: a sum is wrong")
        return seconds, used

    def greatest(number):
        """The greatest of the ranks' numbers."""
        all_numbers = torch.tensor([number], dtype=torch.float64)
        dist.all_reduce(all_numbers, op=dist.ReduceOp.MAX)
        return all_numbers.item()

    # The first rounds set up connections. Then the batches grow until they are long enough to
    # estimate how many rounds take the wanted time. All of this warms up.
    reduce(2)
    batch = 1
    seconds = greatest(reduce(batch)[0])
    while seconds < wanted / 4 and batch < MOST:
        batch *= 2
        seconds = greatest(reduce(batch)[0])
    rounds = min(max(int(wanted * batch / seconds), LEAST), MOST)
    seconds, used = reduce(rounds)
    print(json.dumps({"rounds": rounds, "seconds": seconds, "processor": used}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


main()
