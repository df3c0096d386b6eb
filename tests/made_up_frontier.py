"""A frontier with made-up figures, for tests of what is read from one and drawn of one."""

from __future__ import annotations

from typing import Any

from gnomon.measure.frontier import Candidate, Frontier, Quality, Role
from gnomon.measure.uncertainty import Interval


def quality(accuracy: float, *, teacher: float = 0.95, half_width: float = 0.02) -> Quality:
    """Figures that hang together: everything follows from the accuracy."""

    def around(value: float) -> Interval:
        return Interval(value, max(0.0, value - half_width), value + half_width)

    return Quality(
        around(accuracy), around(accuracy - 0.01), around(accuracy / teacher), around(accuracy - 0.02), around(0.04)
    )


def candidate(name: str, role: Role, accuracy: float, p50_ms: float, **changed: Any) -> Candidate:
    """A candidate whose other figures are plausible; any of them may be `changed`."""
    figures: dict[str, Any] = {
        "family": name.split("-")[0],
        "path": None if role == "control" else f"stages/{name}/model",
        "parameters": 1_000_000,
        "size_mb": 4.0,
        "train_seconds": 30.0,
        "test": quality(accuracy),
        "valid": quality(accuracy),
        "p99_ms": 2 * p50_ms,
        "texts_per_second": 2000 / p50_ms,
        "peak_memory_mb": 80.0,
        "threads": 1,
        "runtime": "onnxruntime",
        "precision": "float32",
        **changed,
    }
    return Candidate(name=name, role=role, p50_ms=p50_ms, **figures)


def frontier(*, names: dict[str, str] | None = None) -> Frontier:
    """A teacher, four students with their twins, a control; `names` renames them."""
    renamed = names or {}

    def one(name: str, role: Role, accuracy: float, p50_ms: float, **changed: Any) -> Candidate:
        return candidate(renamed.get(name, name), role, accuracy, p50_ms, family=name.removesuffix(" gold"), **changed)

    students = [
        one("encoder", "student", 0.938, 3.1, size_mb=31.0, parameters=7_700_000),
        one("recurrent", "student", 0.922, 0.41, size_mb=5.1),
        one("convolutional", "student", 0.926, 0.29, size_mb=5.4),
        one("static", "student", 0.896, 0.09, size_mb=8.7, runtime="numpy"),
    ]
    twins = [
        one(
            f"{student.family} gold",
            "gold_twin",
            student.test.accuracy.value - 0.02,
            student.p50_ms * 1.01,
            size_mb=student.size_mb,
            twin_of=student.name,
        )
        for student in students
    ]
    return Frontier.of(
        [
            one("teacher", "teacher", 0.95, 8.2, size_mb=91.0, parameters=22_700_000, peak_memory_mb=210.0),
            *students,
            *twins,
            one("control", "control", 0.89, 0.3, runtime="scikit-learn", peak_memory_mb=None),
        ],
        data={"path": "questions.csv", "train": 4882, "valid": 570, "test": 500},
        host={"processors": 2, "system": "Linux"},
        settings={"seed": 0, "temperature": 2.0},
    )
