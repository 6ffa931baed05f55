"""Values that become zero beside greater ones: a warning, counters, or an error at all ranks."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import tributary

import ranks

# Values share packets of 2048, and each is one integer.
SINGLE = ranks.SWITCH + "precision = 'single'\n"
FAIL = f"{SINGLE}[job]\non_underflow = 'fail'\n"


@pytest.fixture(autouse=True)
def single_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "settings", SINGLE)


def _beside_a_large_value(small: float = 1.0, elements: int = 5000) -> torch.Tensor:
    tensor = torch.full((elements,), small)
    tensor[0] = 1e10
    return tensor


def _told(work: Any, filter_: str = "always") -> list[str]:
    """The warnings while `work` runs."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(filter_)
        work()
    return [str(w.message) for w in caught if w.category is tributary.UnderflowWarning]


def _sum_beside_a_large_value() -> tuple[list[float], list[str], dict[str, float]]:
    tensor = _beside_a_large_value()
    told = _told(lambda: dist.all_reduce(tensor))
    return tensor[:3].tolist(), told, tributary.stats()


def test_values_that_become_zero_cause_a_warning_and_are_counted() -> None:
    for rank, (sums, told, stats) in enumerate(
        ranks.values(ranks.run(_sum_beside_a_large_value, 4))
    ):
        assert sums == [4e10, 0.0, 0.0]
        (text,) = told
        for part in (
            f"rank {rank}, all_reduce (SUM) of 5000 ",
            "2 047 of 5 000 non-zero values (40.94 %) were smaller than half a unit",
            "magnitudes are 1e0 to 1e10",
            # The power of two above 1e10, 2^34, becomes the greatest that each of four ranks may
            # send, 2^28. So a unit is 2^6, and half a unit 32.
            "up to 3.20e1 become zero",
            "`precision = \"auto\"`",
            "float64",
            "`on_underflow`",
        ):
            assert part in text, text
        assert stats["values_nonzero"] == 5000
        assert stats["values_zeroed"] == 2047
        assert stats["calls_underflowed"] == 1


def _sum_again_and_again() -> tuple[list[str], list[str], float]:
    def call(elements: int) -> None:
        for _ in range(5):
            dist.all_reduce(_beside_a_large_value(elements=elements))

    return (
        _told(lambda: call(5000)),
        _told(lambda: call(6000)),
        tributary.stats()["calls_underflowed"],
    )


def test_a_warning_comes_once_and_not_for_another_bucket_at_once() -> None:
    for first, second, count in ranks.values(ranks.run(_sum_again_and_again, 2)):
        assert len(first) == 1 and second == [], (first, second)
        assert count == 10


def _sum_at_one_rank() -> tuple[int, float]:
    tensor = _beside_a_large_value() if dist.get_rank() == 1 else torch.zeros(5000)
    return len(_told(lambda: dist.all_reduce(tensor))), tributary.stats()["values_zeroed"]


def test_only_a_rank_that_loses_values_warns() -> None:
    assert ranks.values(ranks.run(_sum_at_one_rank, 2)) == [(0, 0), (1, 2047)]


def _sum_what_is_allowed() -> list[str]:
    # One percent of the values, and no more, becomes zero.
    few = torch.ones(5000)
    few[:50] = 1e-12
    # Few values travel as floats, which lose nothing.
    small = torch.tensor([1e10, 1.0, 1e-10])

    def work() -> None:
        dist.all_reduce(few)
        dist.all_reduce(small)

    told = _told(work)
    assert small.tolist() == [2e10, 2.0, torch.tensor(2e-10).item()]
    assert tributary.stats()["values_zeroed"] == 50
    return told


def test_what_is_allowed_causes_no_warning() -> None:
    assert ranks.values(ranks.run(_sum_what_is_allowed, 2)) == [[], []]


def test_the_share_that_is_allowed_is_a_setting() -> None:
    environment = {"TRIBUTARY_SETTINGS": f"{SINGLE}[job]\nmax_underflow = 1.0\n"}
    outcomes = ranks.values(ranks.run(_sum_beside_a_large_value, 2, environment=environment))
    assert [told for _, told, _ in outcomes] == [[], []]


def _sum_with_a_filter() -> None:
    warnings.simplefilter("error", tributary.UnderflowWarning)
    with pytest.raises(tributary.UnderflowWarning, match="2 047 of 5 000"):
        dist.all_reduce(_beside_a_large_value())
    dist.all_reduce(torch.ones(5000))


def test_a_warning_that_is_an_error_is_the_error_of_the_call() -> None:
    ranks.values(ranks.run(_sum_with_a_filter, 2))


def _fail(dtype: torch.dtype) -> tuple[str, float]:
    # Only one rank loses values.
    tensor = torch.full((5000,), 0.5, dtype=dtype)
    if dist.get_rank() == 1:
        tensor[1:] = 1e-6 if dtype == torch.float16 else 1e-20
        tensor[0] = 60000.0
    before = tensor.clone()
    with pytest.raises(tributary.UnderflowError) as caught:
        dist.all_reduce(tensor)
    # Nothing was sent, and the group goes on.
    assert torch.equal(tensor, before)
    ones = torch.ones(5000, dtype=dtype)
    dist.all_reduce(ones)
    assert ones.tolist() == [3.0] * 5000
    return str(caught.value), tributary.stats()["calls_underflowed"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_the_setting_that_raises_does_so_at_all_ranks_alike(dtype: torch.dtype) -> None:
    outcomes = ranks.values(ranks.run(_fail, 3, dtype, environment={"TRIBUTARY_SETTINGS": FAIL}))
    texts = {text for text, _ in outcomes}
    (text,) = texts
    # In the first packet, and of the least also beside one half at the other ranks.
    lost = 2047 if dtype == torch.float16 else 4999
    assert f"rank 1: {lost} of 5000 values" in text and "rank 0" not in text, text
    assert "all_reduce (SUM) of 5000" in text, text
    assert [count for _, count in outcomes] == [0, 1, 0]


def _train(settings: str | None) -> tuple[list[str], float]:
    tributary.configure(settings)
    torch.manual_seed(0)
    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(100, 100), nn.Linear(100, 100)), bucket_cap_mb=0.02
    )

    def work() -> None:
        # The gradients of the last layer's weights differ by 21 orders of magnitude.
        scale = torch.full((100,), 1e-9)
        scale[0] = 1e12
        for _ in range(3):
            (model(torch.ones(2, 100)) * scale).sum().backward()

    return _told(work), tributary.stats()["values_zeroed"]


def _sum_with_two_integers() -> tuple[list[float], list[str], dict[str, float]]:
    tributary.configure(ranks.SWITCH)
    return _sum_beside_a_large_value()


def test_two_integers_hold_values_beside_a_large_one() -> None:
    for sums, told, stats in ranks.values(ranks.run(_sum_with_two_integers, 4)):
        assert (sums, told, stats["values_zeroed"]) == ([4e10, 4.0, 4.0], [], 0)


def test_a_bucket_of_ddp_is_named() -> None:
    for told, zeroed in ranks.values(ranks.run(_train, 2, None)):
        assert len(told) == 1 and "all_reduce (SUM) of " in told[0], told
        assert zeroed > 0


def test_an_error_in_backward_is_the_same_at_all_ranks() -> None:
    outcomes = ranks.run(_train, 2, FAIL)
    errors = {outcome.error for outcome in outcomes}
    assert len(errors) == 1, errors
    assert "UnderflowError" in str(errors), errors


def _hook() -> tuple[list[str], float]:
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(100, 100))
    state = tributary.State()
    model.register_comm_hook(state, tributary.allreduce_hook)
    scale = torch.full((100,), 1e-9)
    scale[0] = 1e12

    def work() -> None:
        for _ in range(2):
            (model(torch.ones(2, 100)) * scale).sum().backward()

    told = _told(work)
    zeroed = state.network.stats()["values_zeroed"]
    state.close()
    return told, zeroed


def test_the_hook_warns_too() -> None:
    for told, zeroed in ranks.values(ranks.run(_hook, 2, backend="gloo")):
        assert len(told) == 1 and "all_reduce (AVG)" in told[0], told
        assert zeroed > 0
