"""Threads by measuring, signals as requests, random states, the progress hook."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time

import numpy as np
import pytest
import torch

from gnomon.train import hooks, randomness
from gnomon.train.hooks import Progress, Step
from gnomon.train.interrupts import stop_requests
from gnomon.train.threads import choose_threads


@pytest.fixture(autouse=True)
def _threads_as_before() -> object:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_the_fastest_thread_count_is_taken() -> None:
    tried = []

    def step() -> None:
        tried.append(torch.get_num_threads())
        time.sleep({1: 0.02, 2: 0.001, 3: 0.01}[torch.get_num_threads()])

    choice = choose_threads(step, [3, 1, 2])
    assert choice.threads == torch.get_num_threads() == 2
    assert tried[:6] == [1, 2, 3, 1, 2, 3]  # interleaved
    assert choice.seconds[1] > choice.seconds[3] > choice.seconds[2]
    assert str(choice).startswith("2 (a step with 1: 2")


def test_an_equal_time_keeps_the_smaller_count() -> None:
    assert choose_threads(lambda: time.sleep(0.005), [1, 2]).threads == 1
    assert choose_threads(lambda: None, [2]).threads == 2  # nothing to choose: nothing is run


def test_the_first_signal_is_a_request_and_the_second_acts() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stop_requests() as request:
        assert request.name == ""
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        assert request.name == "SIGINT"
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)
    assert signal.getsignal(signal.SIGTERM) == before
    assert signal.getsignal(signal.SIGINT) == signal.default_int_handler


def test_ignored_signals_stay_ignored_and_other_threads_get_none() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with stop_requests() as request:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.01)
            assert request.name == ""
    finally:
        signal.signal(signal.SIGTERM, before)
    names = []

    def inside() -> None:
        with stop_requests() as request:
            names.append(request.name)

    worker = threading.Thread(target=inside)
    worker.start()
    worker.join()
    assert names == [""]


def test_random_states_go_through_json() -> None:
    def draw() -> list[float]:
        return [
            random.random(),
            random.gauss(0, 1),
            np.random.rand(),
            np.random.normal(),
            torch.rand(1).item(),
            torch.randn(3)[2].item(),
        ]

    randomness.seed_all(3)
    draw()  # leaves half of a Gaussian pair behind in each
    states = json.loads(json.dumps(randomness.capture()))
    expected = draw()
    with randomness.preserved():
        draw()
    between = draw()
    randomness.restore(states)
    assert draw() == expected
    assert draw() == between


def test_progress_tells_the_seconds_left(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(hooks.time, "monotonic", lambda: clock[0])
    shown: list[tuple[int, int, float, dict[str, float], float]] = []
    progress = Progress(lambda *args: shown.append(args), interval=1.0)  # type: ignore[arg-type]
    for number in range(1, 11):
        clock[0] += 0.5
        progress.on_step(Step(number, 10, 0.1, 2.0, {}, 1e-3, 1.0))
        if number == 4:
            progress.on_eval(4, {"accuracy": 0.9})
    assert [(step, left) for step, _, _, _, left in shown] == [
        (1, 0.0),
        (3, 3.5),
        (5, 2.5),
        (7, 1.5),
        (9, 0.5),
        (10, 0.0),
    ]
    assert shown[1][3] == {}
    assert shown[2][3] == {"accuracy": 0.9}
