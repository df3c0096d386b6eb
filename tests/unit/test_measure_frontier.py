"""The frontier's line, its pick, and its file."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.errors import GnomonError
from gnomon.measure.frontier import Frontier, choose, pareto
from gnomon.measure.verdict import fraction, headline, megabytes, milliseconds, sentences, times
from made_up_frontier import candidate, frontier

POINTS = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=8)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(POINTS)
def test_the_line_holds_exactly_those_no_other_beats(points: list[tuple[int, int]]) -> None:
    students = [candidate(f"s{i}", "student", a / 10, float(ms)) for i, (a, ms) in enumerate(points)]
    everyone = [candidate("t", "teacher", 0.95, 5.0), *students]
    line = pareto(everyone)
    for one in everyone:
        beaten = any(
            other.test.accuracy.value >= one.test.accuracy.value
            and other.p50_ms <= one.p50_ms
            and (other.test.accuracy.value > one.test.accuracy.value or other.p50_ms < one.p50_ms)
            for other in everyone
        )
        assert (one in line) != beaten
    assert [one.p50_ms for one in line] == sorted(one.p50_ms for one in line)


def test_twins_and_the_control_are_never_on_the_line_nor_picked() -> None:
    everyone = [
        candidate("t", "teacher", 0.90, 9.0),
        candidate("s", "student", 0.80, 1.0),
        candidate("g", "gold_twin", 0.99, 0.5, twin_of="s"),
        candidate("c", "control", 0.99, 0.1),
    ]
    assert [one.name for one in pareto(everyone)] == ["s", "t"]
    assert choose(everyone).name == "t"
    assert choose(everyone, minimum_kept=0.8).name == "s"


def test_the_pick_is_the_fastest_student_that_keeps_the_floor_which_counts_as_kept() -> None:
    everyone = [
        candidate("t", "teacher", 0.9, 9.0),
        candidate("exactly", "student", 0.97 * 0.9, 1.0),
        candidate("below", "student", 0.97 * 0.9 - 1e-6, 0.5),
        candidate("slower", "student", 0.9, 3.0),
    ]
    assert choose(everyone).name == "exactly"


def test_the_pick_is_chosen_on_validation_not_on_test() -> None:
    lucky = candidate("lucky", "student", 0.99, 1.0, valid=candidate("x", "student", 0.5, 1.0).valid)
    assert choose([candidate("t", "teacher", 0.9, 9.0), lucky]).name == "t"


def test_the_file_comes_back_as_it_was_and_has_the_documented_keys() -> None:
    made = frontier()
    written = json.loads(json.dumps(made.to_dict()))
    assert Frontier.from_dict(written) == made
    assert list(written) == ["task", "data", "host", "settings", "candidates", "frontier", "pick"]
    expected = (
        "name family role path parameters size_mb train_seconds test valid latency_ms texts_per_second "
        "peak_memory_mb threads runtime precision twin_of"
    )
    assert list(written["candidates"][0]) == expected.split()
    assert list(written["candidates"][0]["test"]) == ["accuracy", "macro_f1", "kept", "agreement", "calibration_error"]
    assert set(written["candidates"][0]["test"]["kept"]) == {"value", "low", "high"}
    assert set(written["candidates"][0]["latency_ms"]) == {"p50", "p99"}


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        (["candidates", 2, "test", "accuracy", "low"], "x", r"candidates\[2\]\.test\.accuracy\.low must be a number"),
        (["candidates", 0, "size_mb"], float("nan"), r"candidates\[0\]\.size_mb must be a number, found nan"),
        (["candidates", 0, "threads"], True, r"candidates\[0\]\.threads must be a whole number"),
        (["candidates", 1, "role"], "studnet", r"candidates\[1\]\.role is 'studnet'"),
        (["candidates", 1, "latency_ms"], None, r"candidates\[1\]\.latency_ms must be an object"),
        (["candidates"], {}, "candidates must be a list"),
        (["pick"], "statik", "pick names 'statik'"),
        (["frontier"], ["encoder", 3], r"frontier\[1\] must be a text"),
        (["candidates", 1, "name"], "static", "two candidates are called 'static'"),
        (["candidates", 0, "role"], "student", "found 0 candidates with the role teacher"),
    ],
)
def test_an_altered_file_is_refused_with_its_place(path: list[Any], value: object, complaint: str) -> None:
    written = json.loads(json.dumps(frontier().to_dict()))
    place = written
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(GnomonError, match=complaint):
        Frontier.from_dict(written, source="run/frontier.json")


def test_a_missing_field_and_a_file_of_another_kind_are_refused() -> None:
    written = frontier().to_dict()
    del written["host"]
    with pytest.raises(GnomonError, match="host is missing"):
        Frontier.from_dict(written)
    with pytest.raises(GnomonError, match="the file must be an object"):
        Frontier.from_dict([1])


def test_the_verdict_says_what_to_serve_and_what_it_cost() -> None:
    made = frontier()
    assert headline(made) == (
        "Serve convolutional: it keeps 97.5 % of the teacher's accuracy at 1/28 of its latency and 1/17 of its size."
    )
    said = " ".join(sentences(made))
    assert "the teacher brought 2.0 points" in said
    assert "convolutional is 3.6 points better, though their intervals overlap" in said


def test_a_control_that_is_as_good_is_not_hidden() -> None:
    everyone = [
        candidate("t", "teacher", 0.90, 9.0),
        candidate("s", "student", 0.89, 1.0),
        candidate("tf-idf", "control", 0.89, 0.1),
    ]
    made = Frontier.of(everyone, data={}, host={}, settings={})
    assert "s is no better than it" in " ".join(sentences(made))


def test_what_speaks_against_the_students_is_said() -> None:
    everyone = [
        candidate("t", "teacher", 0.95, 9.0),
        candidate("s", "student", 0.80, 1.0),
        candidate("g", "gold_twin", 0.85, 1.0, twin_of="s"),
        candidate("tf-idf", "control", 0.89, 0.1),
    ]
    made = Frontier.of(everyone, data={}, host={}, settings={})
    assert sentences(made)[-1].endswith("the teacher is 6.0 points better; no student is better than it.")
    assert "the teacher cost 5.0 points" in sentences(made, made.named("s"))[1]


def test_the_teacher_is_served_where_no_student_keeps_enough() -> None:
    everyone = [candidate("t", "teacher", 0.95, 9.0), candidate("s", "student", 0.7, 1.0)]
    made = Frontier.of(everyone, data={}, host={}, settings={})
    assert headline(made).startswith("Serve the teacher: the best student, s, keeps 73.7 %")
    alone = Frontier.of(everyone[:1], data={}, host={}, settings={})
    assert headline(alone) == "Serve the teacher: there is no student beside it."


def test_figures_are_written_with_the_digits_they_deserve() -> None:
    assert [milliseconds(value) for value in (0.136, 9.13, 24.4)] == ["0.14 ms", "9.1 ms", "24 ms"]
    assert megabytes(1234.5) == "1,234 MB"
    assert [times(9.1, 0.14), times(9.1, 4.2), times(1, 2), times(1, 0)] == ["65x", "2.2x", "0.5x", "-"]
    assert [fraction(0.14, 9.1), fraction(4.4, 9.1), fraction(8.2, 9.1)] == ["1/65", "1/2", "90 %"]
