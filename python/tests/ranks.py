"""Runs a function at several ranks, each a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.distributed as dist

# Settings of groups, up to the keys of [group].
MEMORY = "[group]\n"
SWITCH = "[group]\nswitch = true\n"

# Those of the test that runs.
settings = MEMORY

# Importing PyTorch takes seconds; the server does it once for all ranks.
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["torch", "torch.nn", "tributary", "tributary.backend", "ranks"])


@dataclass
class Outcome:
    """How the function ended at one rank."""

    value: Any = None
    # Type and message of the exception.
    error: str | None = None
    exit_code: int | None = None
    seconds: float = 0.0


def run(
    function: Callable[..., Any],
    ranks: int,
    *arguments: Any,
    backend: str = "tributary",
    group: str = "",
    group_timeout: float = 60.0,
    limit: float = 60.0,
    environment: dict[str, str] | None = None,
    while_running: Callable[[list[Any]], None] | None = None,
) -> list[Outcome]:
    """Calls `function(*arguments)` at each rank, in a default group with `backend`.

    Args:
        group: More keys of [group] in the settings.
        group_timeout: The timeout of the group, in seconds.
        limit: After this time, in seconds, processes are killed and the test fails.
        while_running: Called with the processes after they have started.
    """
    # The store outlives every rank, as that of torchrun does.
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    started = time.monotonic()
    processes, results = [], []
    for rank in range(ranks):
        receiver, sender = _context.Pipe(duplex=False)
        variables = {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(store.port),
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(ranks),
            "TORCHELASTIC_USE_AGENT_STORE": "True",
            "TORCHELASTIC_RESTART_COUNT": "0",
            "TRIBUTARY_SETTINGS": settings + group,
            **(environment or {}),
        }
        process = _context.Process(
            target=_rank, args=(sender, variables, backend, group_timeout, function, arguments)
        )
        process.start()
        sender.close()
        processes.append(process)
        results.append(receiver)
    if while_running is not None:
        while_running(processes)
    outcomes = [
        _collect(process, receiver, started + limit)
        for process, receiver in zip(processes, results)
    ]
    late = [rank for rank, outcome in enumerate(outcomes) if outcome is None]
    assert not late, f"ranks {late} have not ended within {limit:g} s"
    return [outcome for outcome in outcomes if outcome is not None]


def values(outcomes: list[Outcome]) -> list[Any]:
    """The results of all ranks, none of which has failed."""
    errors = {
        rank: o.error or o.exit_code for rank, o in enumerate(outcomes) if o.error or o.exit_code
    }
    assert not errors, errors
    return [outcome.value for outcome in outcomes]


def _collect(process: Any, receiver: Connection, deadline: float) -> Outcome | None:
    outcome = Outcome()
    try:
        if not receiver.poll(max(0.0, deadline - time.monotonic())):
            process.kill()
            return None
        outcome = pickle.loads(receiver.recv_bytes())
    except EOFError:
        pass
    process.join(max(1.0, deadline - time.monotonic()))
    if process.exitcode is None:
        process.kill()
        return None
    outcome.exit_code = process.exitcode
    return outcome


def _rank(
    sender: Connection,
    variables: dict[str, str],
    backend: str,
    group_timeout: float,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> None:
    os.environ.update(variables)
    torch.set_num_threads(1)
    outcome = Outcome()
    started = time.monotonic()
    try:
        dist.init_process_group(backend, timeout=timedelta(seconds=group_timeout))
        started = time.monotonic()
        outcome.value = function(*arguments)
    except BaseException as error:
        outcome.error = f"{type(error).__name__}: {error}"
        if "TEST_TRACEBACKS" in os.environ:
            traceback.print_exc()
    outcome.seconds = time.monotonic() - started
    sender.send_bytes(pickle.dumps(outcome))
    if dist.is_initialized():
        dist.destroy_process_group()
