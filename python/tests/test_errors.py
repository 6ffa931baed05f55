"""Wrong use, lost ranks and interrupts: an exception at every rank, soon, and no hang."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import tributary

import ranks

pytestmark = pytest.mark.usefixtures("way")

# From the mistake to the exception at every rank, in seconds.
SOON = 20.0

# Keys of [group].
CHECK = "check = true\n"
RAISE = "nonfinite = 'raise'\n"


def _assert_all_fail(outcomes: list[ranks.Outcome], kind: str, *names: str) -> None:
    for rank, outcome in enumerate(outcomes):
        assert outcome.error is not None, f"rank {rank} has not failed"
        assert outcome.error.startswith(f"{kind}:"), (rank, outcome.error)
        assert outcome.seconds < SOON, (rank, outcome.seconds)
        for name in names:
            assert name in outcome.error, (rank, outcome.error)


def _call(mistake: str) -> None:
    rank = dist.get_rank()
    dist.all_reduce(torch.ones(10))
    odd = rank == 1
    if mistake == "shape":
        dist.all_reduce(torch.ones(20 if odd else 10))
    elif mistake == "type":
        dist.all_reduce(torch.ones(10, dtype=torch.float16 if odd else torch.float32))
    elif mistake == "integers":
        dist.all_reduce(torch.ones(10, dtype=torch.int64 if odd else torch.float32))
    elif mistake == "operation":
        dist.all_reduce(torch.ones(10), dist.ReduceOp.AVG if odd else dist.ReduceOp.SUM)
    elif mistake == "maximum":
        dist.all_reduce(torch.ones(10), dist.ReduceOp.MAX if odd else dist.ReduceOp.SUM)
    elif mistake == "collective":
        if odd:
            dist.broadcast(torch.ones(10), 0)
        else:
            dist.all_reduce(torch.ones(10))
    elif mistake == "root":
        dist.broadcast(torch.ones(10), rank)
    elif mistake == "order":
        sizes = (30, 40) if odd else (40, 30)
        for work in [dist.all_reduce(torch.ones(n), async_op=True) for n in sizes]:
            work.wait()
    elif mistake == "barrier":
        if odd:
            dist.barrier()
        else:
            dist.all_gather_object([None] * dist.get_world_size(), "text")
    else:
        raise AssertionError(mistake)


@pytest.mark.parametrize(
    "mistake",
    ["shape", "type", "integers", "operation", "maximum", "collective", "root", "order", "barrier"],
)
def test_ranks_that_differ_all_fail(mistake: str) -> None:
    _assert_all_fail(ranks.run(_call, 3, mistake, group=CHECK), "MismatchError", "rank 1")


def _call_wrongly_at_one_rank() -> None:
    outputs = [torch.ones(10) for _ in range(dist.get_world_size())]
    if dist.get_rank() == 1:
        outputs.pop()
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    backend.allgather([outputs], [torch.ones(10)], dist.distributed_c10d.AllgatherOptions()).wait()


def test_an_error_of_gloo_at_one_rank_ends_the_others_when_it_leaves() -> None:
    outcomes = ranks.run(_call_wrongly_at_one_rank, 3)
    _assert_all_fail([outcomes[0], outcomes[2]], "PeerLostError", "rank 1")
    assert outcomes[1].error and "PeerLostError" not in outcomes[1].error


def _sum_not_finite(value: float, dtype: torch.dtype) -> None:
    tensor = torch.ones(5000, dtype=dtype)
    if dist.get_rank() == 1:
        tensor[4321] = value
    dist.all_reduce(tensor)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_numbers_that_are_not_finite(value: float, dtype: torch.dtype) -> None:
    outcomes = ranks.run(_sum_not_finite, 2, value, dtype, group=RAISE)
    _assert_all_fail(outcomes, "NotFiniteError", "rank 1", "4321")


def _use_unsupported_operation() -> float:
    with pytest.raises(RuntimeError, match="PREMUL_SUM"):
        dist.all_reduce(torch.ones(3), dist._make_nccl_premul_sum(2.0))
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    return tensor[0].item()


def test_an_unsupported_operation_leaves_the_group_usable() -> None:
    assert ranks.values(ranks.run(_use_unsupported_operation, 2)) == [2.0, 2.0]


def _model() -> DistributedDataParallel:
    torch.manual_seed(1)
    layers = [nn.Linear(100, 100) for _ in range(6)]
    return DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=0.1)


def _train_with_nan() -> None:
    model = _model()
    inputs = torch.ones(2, 100)
    model(inputs).sum().backward()
    if dist.get_rank() == 1:
        inputs[0, 0] = float("nan")
    model(inputs).sum().backward()


def test_an_error_in_backward_has_the_message() -> None:
    outcomes = ranks.run(_train_with_nan, 2, group=RAISE)
    _assert_all_fail(outcomes, "RuntimeError", "NotFiniteError", "rank 1")


def _train_until_killed() -> None:
    model = _model()
    for step in range(1000):
        if step == 5 and dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        model(torch.ones(2, 100)).sum().backward()


def _sum_until_killed() -> None:
    for step in range(1000):
        if step == 5 and dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        dist.all_reduce(torch.ones(1000))


def _meet_until_killed() -> None:
    for step in range(1000):
        if step == 5 and dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        dist.barrier()


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (_train_until_killed, "RuntimeError"),
        (_sum_until_killed, "PeerLostError"),
        (_meet_until_killed, "PeerLostError"),
    ],
)
def test_a_killed_rank_is_named(function: Callable[[], None], kind: str) -> None:
    outcomes = ranks.run(function, 3)
    assert outcomes[1].exit_code == -signal.SIGKILL
    # The reducer of DDP only keeps the text of the exception.
    _assert_all_fail([outcomes[0], outcomes[2]], kind, "rank 1")
    assert all("PeerLostError" in outcomes[rank].error for rank in (0, 2))


def _sum_without_the_first() -> None:
    if dist.get_rank() == 0:
        dist.all_reduce(torch.ones(10))
        os.kill(os.getpid(), signal.SIGKILL)
    for _ in range(1000):
        dist.all_reduce(torch.ones(10))


def test_the_killed_rank_can_be_the_one_with_the_switch() -> None:
    outcomes = ranks.run(_sum_without_the_first, 3)
    _assert_all_fail(outcomes[1:], "PeerLostError", "rank 0")


def _fork_until_killed(victim: int) -> float:
    dist.all_reduce(torch.ones(1000))
    if dist.get_rank() == victim:
        if os.fork() == 0:
            # As a worker of a `DataLoader`, if the kernel did not kill it with its parent.
            time.sleep(8)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)
    killed = time.monotonic()
    with pytest.raises(tributary.PeerLostError, match=f"rank {victim} "):
        dist.all_reduce(torch.ones(1000))
    return time.monotonic() - killed


@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_rank_is_named_at_once_though_its_children_live(victim: int) -> None:
    outcomes = ranks.run(_fork_until_killed, 3, victim)
    assert outcomes.pop(victim).exit_code == -signal.SIGKILL
    # Silence is noticed after 10 s.
    assert all(seconds < 4 for seconds in ranks.values(outcomes)), outcomes


def _leave_while_a_child_lives() -> float:
    dist.all_reduce(torch.ones(10))
    child = os.fork()
    if child == 0:
        time.sleep(15)
        os._exit(0)
    began = time.monotonic()
    dist.destroy_process_group()
    seconds = time.monotonic() - began
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return seconds


def test_a_child_does_not_keep_a_rank_from_leaving() -> None:
    assert all(seconds < 8 for seconds in ranks.values(ranks.run(_leave_while_a_child_lives, 2)))


def _sum_until_stopped(victim: int) -> tuple[str, float]:
    rank = dist.get_rank()
    processes: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(processes, os.getpid())
    if rank == victim:
        os.kill(os.getpid(), signal.SIGSTOP)
    stopped = time.monotonic()
    with pytest.raises(tributary.Error) as caught:
        while True:
            dist.all_reduce(torch.ones(1000))
    text, seconds = str(caught.value), time.monotonic() - stopped
    if rank == 2:
        # The other one may be finding out whether it answers.
        time.sleep(3)
        os.kill(processes[victim], signal.SIGCONT)
    return text, seconds


@pytest.mark.parametrize("victim", [0, 1])
def test_a_stopped_rank_is_named_and_fails_when_it_goes_on(victim: int, way: str) -> None:
    outcomes = ranks.values(ranks.run(_sum_until_stopped, 3, victim, group_timeout=4.0))
    text, seconds = outcomes.pop(victim)
    assert seconds < SOON, (text, seconds)
    late = f"rank {victim} has not made call"
    if way == "switch" and victim == 0:
        late = "rank 0, which has the switch, does not answer"
    texts = [text for text, _ in outcomes]
    # A rank that gives up ends the calls of the others.
    assert any(text.startswith("no result within") for text in texts), texts
    for text, seconds in outcomes:
        assert late in text, text
        assert 3 < seconds < SOON, (text, seconds)


# Without pings of processes, a stopped rank was gone after 10 s.
PAUSE = 15.0


def _sum_past_a_pause(victim: int) -> tuple[float, int]:
    rank = dist.get_rank()
    processes: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(processes, os.getpid())
    over = threading.Event()

    def pause() -> None:
        time.sleep(0.5)
        os.kill(processes[victim], signal.SIGSTOP)
        time.sleep(PAUSE)
        os.kill(processes[victim], signal.SIGCONT)
        over.set()

    if rank == 2:
        threading.Thread(target=pause).start()
    longest, wrong, done = 0.0, 0, False
    while not done:
        began = time.monotonic()
        values = torch.ones(100_000)
        # The last value tells all ranks when to end.
        values[-1] = float(over.is_set())
        dist.all_reduce(values)
        longest = max(longest, time.monotonic() - began)
        wrong += int((values[:-1] != 3).sum())
        done = bool(values[-1])
    return longest, wrong


@pytest.mark.parametrize("protocol", ["", "protocol = 'esa'\n"])
@pytest.mark.parametrize("victim", [0, 1])
def test_a_rank_that_is_stopped_for_some_time_goes_on(
    victim: int, protocol: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if protocol and way == "memory":
        pytest.skip("ranks that share memory have no protocol")
    monkeypatch.setattr(ranks, "settings", protocol + ranks.settings)
    outcomes = ranks.values(ranks.run(_sum_past_a_pause, 3, victim))
    for rank, (longest, wrong) in enumerate(outcomes):
        assert wrong == 0, (rank, wrong)
        # It can be stopped between two calls.
        assert rank == victim or PAUSE - 1 < longest < PAUSE + 10, (rank, longest)


class _DiesInSum:
    """A Gloo whose sums kill the process."""

    def __init__(self, gloo: Any) -> None:
        self._gloo = gloo

    def __getattr__(self, name: str) -> Any:
        return getattr(self._gloo, name)

    def allreduce(self, tensors: list[torch.Tensor], opts: Any) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)


def _sum_by_gloo_until_killed() -> tuple[str, float]:
    dist.barrier()
    if dist.get_rank() == 1:
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        backend._gloo = _DiesInSum(backend._gloo)
    killed = time.monotonic()
    with pytest.raises(RuntimeError) as caught:
        dist.all_reduce(torch.ones(3, dtype=torch.int8))
    return f"{type(caught.value).__name__}: {caught.value}", time.monotonic() - killed


def test_a_rank_that_dies_within_gloo_is_named() -> None:
    outcomes = ranks.run(_sum_by_gloo_until_killed, 3)
    assert outcomes.pop(1).exit_code == -signal.SIGKILL
    for text, seconds in ranks.values(outcomes):
        assert "PeerLostError: rank 1 " in text, text
        assert seconds < SOON, seconds


def _leave_early() -> None:
    dist.all_reduce(torch.ones(10))
    if dist.get_rank() != 1:
        dist.all_reduce(torch.ones(10))


def test_a_rank_that_leaves_is_named() -> None:
    outcomes = ranks.run(_leave_early, 3)
    _assert_all_fail([outcomes[0], outcomes[2]], "PeerLostError", "rank 1")


def _arrive_late() -> None:
    dist.all_reduce(torch.ones(10))
    if dist.get_rank() == 1:
        time.sleep(6)
    else:
        dist.all_reduce(torch.ones(10))


def test_a_time_out_names_the_ranks_that_are_late() -> None:
    outcomes = ranks.run(_arrive_late, 3, group_timeout=3.0)
    texts = [outcomes[0].error, outcomes[2].error]
    assert all(texts), texts
    # A rank that gives up ends the calls of the others.
    timed_out = [text for text in texts if text.startswith("TimeoutError:")]
    assert timed_out and all("rank 1 has not made call" in text for text in timed_out), texts
    others = [text for text in texts if text not in timed_out]
    assert all("gave up" in text for text in others), texts


def _fail_in_one_part() -> None:
    good = torch.ones(3_000_000)
    bad = torch.full((3000,), float("nan")) if dist.get_rank() == 1 else torch.ones(3000)
    try:
        with dist.distributed_c10d._coalescing_manager():
            dist.all_reduce(bad)
            dist.all_reduce(good)
    except RuntimeError:
        pass
    else:
        raise AssertionError("no error")
    # Nothing writes to it after the error.
    good.zero_()
    time.sleep(0.5)
    assert not good.any()
    again = torch.ones(3000)
    dist.all_reduce(again)
    assert again.eq(dist.get_world_size()).all()


def test_a_coalesced_sum_ends_with_its_last_part() -> None:
    ranks.values(ranks.run(_fail_in_one_part, 2, group=RAISE))


def _leave_with_pending_calls() -> str:
    dist.all_reduce(torch.ones(10))
    if dist.get_rank() == 0:
        dist.all_reduce(torch.ones(10), async_op=True)
        dist.destroy_process_group()
        return "left"
    time.sleep(15)
    try:
        dist.all_reduce(torch.ones(10))
    except tributary.PeerLostError as error:
        return str(error)
    return "no error"


def test_a_rank_leaves_though_its_calls_are_pending() -> None:
    left, text = ranks.values(ranks.run(_leave_with_pending_calls, 2))
    assert left == "left" and text.startswith("rank 0 "), text


def _never_arrive() -> None:
    if dist.get_rank() == 0:
        dist.all_reduce(torch.ones(10))


def test_a_time_out_in_the_rendezvous_names_the_ranks() -> None:
    outcomes = ranks.run(_never_arrive, 3, group_timeout=3.0)
    _assert_all_fail(outcomes[:1], "RendezvousError", "1, 2")


def _interrupt_soon() -> None:
    def interrupt() -> None:
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()


def _interrupt_sum() -> None:
    dist.all_reduce(torch.ones(10))
    if dist.get_rank() == 0:
        _interrupt_soon()
        dist.all_reduce(torch.ones(10))
    else:
        time.sleep(12)


def _interrupt_barrier() -> None:
    dist.barrier()
    if dist.get_rank() == 0:
        _interrupt_soon()
        dist.barrier()
    else:
        time.sleep(12)


def _interrupt_backward() -> None:
    model = _model()
    model(torch.ones(2, 100)).sum().backward()
    if dist.get_rank() == 0:
        _interrupt_soon()
        model(torch.ones(2, 100)).sum().backward()
    else:
        time.sleep(12)


def _average_for_ever() -> None:
    values = torch.ones(20_000_000)
    while True:
        dist.all_reduce(values, dist.ReduceOp.AVG)


def test_ctrl_c_ends_a_sum_in_which_another_rank_is_stopped() -> None:
    ended_after = []

    def interrupt(processes: list[Any]) -> None:
        # Most of the time, a sum is under way.
        time.sleep(8)
        os.kill(processes[1].pid, signal.SIGSTOP)
        time.sleep(0.5)
        began = time.monotonic()
        os.kill(processes[0].pid, signal.SIGINT)
        processes[0].join(30)
        ended_after.append(time.monotonic() - began)
        processes[1].kill()

    first, second = ranks.run(_average_for_ever, 2, while_running=interrupt)
    assert first.error is not None and second.exit_code == -signal.SIGKILL
    assert ended_after[0] < 20, ended_after


@pytest.mark.parametrize("function", [_interrupt_sum, _interrupt_barrier, _interrupt_backward])
def test_ctrl_c_ends_a_wait(function: Callable[[], None]) -> None:
    first, second = ranks.run(function, 2)
    assert first.error is not None
    # In backward, the error of the gradients can come before the interrupt.
    interrupted = "KeyboardInterrupt" in first.error or "Ctrl-C" in first.error
    assert interrupted or function is _interrupt_backward, first.error
    assert first.seconds < 10
    assert second.error is None


def _sum() -> None:
    dist.all_reduce(torch.ones(10))


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"TRIBUTARY_SETTINGS": "[bad"}, ["the group's settings:1:"]),
        ({"TRIBUTARY_SETTINGS": "/no/such/file"}, ["/no/such/file"]),
        ({"TRIBUTARY_SETTINGS": "[group]\nswitch_threads = 0"}, ["switch_threads"]),
        ({"TRIBUTARY_CONTROLLER": "nowhere"}, ["TRIBUTARY_CONTROLLER", "not the address of a"]),
    ],
)
def test_wrong_settings_fail_at_all_ranks(variables: dict[str, str], words: list[str]) -> None:
    for outcome in ranks.run(_sum, 2, environment=variables):
        assert outcome.error is not None
        assert outcome.seconds < SOON
        assert all(word in outcome.error for word in words), outcome.error


def _fork() -> str:
    dist.all_reduce(torch.ones(10))
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            dist.all_reduce(torch.ones(10))
            message = "no error"
        except BaseException as error:
            message = f"{type(error).__name__}: {error}"
        os.write(writer, message.encode())
        os._exit(0)
    os.waitpid(child, 0)
    dist.all_reduce(torch.ones(10))
    return os.read(reader, 1000).decode()


def test_a_forked_process_cannot_use_the_group() -> None:
    for message in ranks.values(ranks.run(_fork, 2)):
        assert message.startswith("Error: this process was forked"), message


def _use_destroyed_group() -> list[Any]:
    group = dist.new_group([0, 1])
    dist.all_reduce(torch.ones(10), group=group)
    backend = group._get_backend(torch.device("cpu"))
    dist.destroy_process_group(group)
    messages = []
    for call in (
        lambda: backend.allreduce([torch.ones(10)], dist.AllreduceOptions()),
        lambda: backend.barrier(dist.distributed_c10d.BarrierOptions()),
    ):
        with pytest.raises(RuntimeError) as caught:
            call()
        messages.append(str(caught.value))
    return messages


def test_a_destroyed_group_says_so() -> None:
    for messages in ranks.values(ranks.run(_use_destroyed_group, 2)):
        assert all("left" in message for message in messages), messages
