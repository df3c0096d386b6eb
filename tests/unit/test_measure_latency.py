"""Timing is in turns, warm, without garbage collection, and bounded. A clock that only calls move makes it exact."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence

import pytest

from gnomon.errors import GnomonError
from gnomon.measure.latency import Latency, PredictOne, interleaved, quickest, throughput

TEXTS = [f"text {number}" for number in range(30)]


def only(predict_one: PredictOne, texts: Sequence[str], *, rounds: int = 3, warmup: int = 10) -> Latency:
    return interleaved({"only": predict_one}, texts, rounds=rounds, warmup=warmup)["only"]


class Clock:
    """Stands still but for the calls it hands out."""

    def __init__(self) -> None:
        self.nanoseconds = 0

    def taking(self, milliseconds: float) -> Callable[[object], None]:
        def call(_: object) -> None:
            self.nanoseconds += round(milliseconds * 1e6)

        return call


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "perf_counter_ns", lambda: clock.nanoseconds)
    return clock


def test_every_candidate_is_charged_its_own_time(clock: Clock) -> None:
    measured = interleaved({"slow": clock.taking(2), "quick": clock.taking(0.5)}, TEXTS, rounds=2)
    assert measured["slow"] == Latency(2.0, 2.0, 60)
    assert measured["quick"] == Latency(0.5, 0.5, 60)
    assert quickest(measured) == "quick"


def test_percentiles_are_of_single_calls(clock: Clock) -> None:
    durations = iter([*[1.0] * 95, *[11.0] * 5])
    measured = only(lambda text: clock.taking(next(durations))(text), ["x"] * 100, rounds=1, warmup=0)
    assert measured == Latency(1.0, 11.0, 100)


def test_candidates_take_turns_in_rotating_order() -> None:
    calls: list[str] = []
    interleaved({"a": lambda _: calls.append("a"), "b": lambda _: calls.append("b")}, ["x"], rounds=2, warmup=0)
    assert calls == ["a", "b", "b", "a"]


def test_warm_up_calls_are_not_timed(clock: Clock) -> None:
    durations = iter([50.0] * 5 + [1.0] * 30)
    measured = only(lambda text: clock.taking(next(durations))(text), TEXTS, rounds=1, warmup=5)
    assert measured == Latency(1.0, 1.0, 30)


def test_collection_is_off_while_timing_and_on_again_after() -> None:
    seen: set[bool] = set()
    only(lambda _: seen.add(gc.isenabled()), TEXTS, rounds=1, warmup=0)
    assert seen == {False}
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError):
        only(lambda _: 1 // 0, TEXTS, warmup=0)
    assert gc.isenabled()


def test_a_time_limit_ends_a_block_early_but_not_before_twenty_calls(clock: Clock) -> None:
    texts = TEXTS * 100
    assert interleaved({"x": clock.taking(1)}, texts, rounds=2, seconds=0.08)["x"].count == 2 * 41
    assert interleaved({"x": clock.taking(1)}, texts, rounds=1, seconds=0.0)["x"].count == 20


def test_the_thriftiest_within_the_margin_wins() -> None:
    measured = {1: Latency(1.02, 2, 10), 2: Latency(1.0, 2, 10)}
    assert quickest(measured) == 1
    assert quickest(measured, margin=0.0) == 2


def test_throughput_is_the_best_round_over_texts_in_batches(clock: Clock) -> None:
    sizes: list[int] = []
    durations = iter([9.0, 2.0, 2.0, 1.5, 1.5])

    def predict_many(texts: Sequence[str]) -> None:
        sizes.append(len(texts))
        clock.taking(next(durations))(texts)

    assert throughput(predict_many, TEXTS, batch_size=16, rounds=2) == pytest.approx(10_000)
    assert sizes == [16, 16, 14, 16, 14]


def test_no_texts_is_an_error() -> None:
    with pytest.raises(GnomonError, match="no texts"):
        only(lambda _: None, [])
    with pytest.raises(GnomonError, match="no texts"):
        throughput(lambda _: None, [])
