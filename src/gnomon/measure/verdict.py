"""What the figures of a frontier say, in sentences: what to serve, what it lost, and what the yardsticks say to it."""

from __future__ import annotations

from gnomon.measure.frontier import Candidate, Frontier
from gnomon.measure.uncertainty import Interval


def headline(frontier: Frontier) -> str:
    """One sentence: what to serve, and what that costs beside the teacher."""
    pick, teacher = frontier.picked, frontier.teacher
    if pick is not teacher:
        return f"Serve {pick.name}: it keeps {bargain(pick, teacher)}."
    nearest = max(_students(frontier), key=lambda one: one.valid.accuracy.value, default=None)
    if nearest is None:
        return "Serve the teacher: there is no student beside it."
    kept = percent(nearest.valid.kept.value)
    return f"Serve the teacher: the best student, {nearest.name}, keeps {kept} of its accuracy on validation."


def bargain(student: Candidate, teacher: Candidate) -> str:
    """What is kept and at which share of the cost: `97.4 % of the teacher's accuracy at 1/65 of its latency ...`."""
    latency, size = fraction(student.p50_ms, teacher.p50_ms), fraction(student.size_mb, teacher.size_mb)
    kept = percent(student.test.kept.value)
    return f"{kept} of the teacher's accuracy at {latency} of its latency and {size} of its size"


def sentences(frontier: Frontier, pick: Candidate | None = None) -> tuple[str, ...]:
    """What stands behind serving `pick` (else the frontier's own): its accuracy, its gold-only twin, the control."""
    pick = pick or frontier.picked
    name = "The teacher" if pick.role == "teacher" else pick.name
    accuracy, test = percent(pick.test.accuracy.value), pick.test
    said = f"{name} answers {accuracy} of the test texts right (95 % interval {span(test.accuracy)})"
    if pick.role == "student":
        said += f"; it keeps {span(test.kept)} % of the teacher's and agrees with it on {percent(test.agreement.value)}"
    twin = frontier.twin(pick.name)
    beside = [] if twin is None else [_against_twin(pick, twin)]
    if frontier.control is not None:
        beside.append(_against_control(frontier, pick, frontier.control))
    return (f"{said}.", *beside)


def _against_twin(pick: Candidate, twin: Candidate) -> str:
    brought = pick.test.accuracy.value - twin.test.accuracy.value
    verb = "brought" if brought >= 0 else "cost"
    return (
        f"The same student trained without the teacher reaches {percent(twin.test.accuracy.value)}: "
        f"the teacher {verb} {points(abs(brought)).removeprefix('+')}."
    )


def _against_control(frontier: Frontier, pick: Candidate, control: Candidate) -> str:
    accuracy, lead = percent(control.test.accuracy.value), pick.test.accuracy.value - control.test.accuracy.value
    known = f"The control, {control.name}, reaches {accuracy} at {milliseconds(control.p50_ms)}"
    name = "the teacher" if pick.role == "teacher" else pick.name
    if lead <= 0:
        return f"{known}: {name} is no better than it."
    overlap = pick.test.accuracy.low <= control.test.accuracy.high
    said = f"{known}: {name} is {points(lead).removeprefix('+')} better"
    said += ", though their intervals overlap" if overlap else ""
    students = _students(frontier)
    if students and all(one.test.accuracy.value <= control.test.accuracy.value for one in students):
        said += "; no student is better than it"
    return f"{said}."


def _students(frontier: Frontier) -> list[Candidate]:
    return [one for one in frontier.candidates if one.role == "student"]


def percent(share: float) -> str:
    """0.9741 -> 97.4 %."""
    return f"{100 * share:.1f} %"


def points(difference: float) -> str:
    """A difference of shares in percentage points, signed: +1.5 points."""
    return f"{100 * difference:+.1f} points"


def span(interval: Interval) -> str:
    """The ends of an interval of shares, in percent: 90.0 to 94.6."""
    return f"{100 * interval.low:.1f} to {100 * interval.high:.1f}"


def milliseconds(value: float) -> str:
    """Two significant digits below 10 ms, whole ones above: 0.14 ms, 9.1 ms, 24 ms."""
    return f"{value:.2f} ms" if value < 1 else f"{value:.1f} ms" if value < 10 else f"{value:.0f} ms"


def megabytes(value: float) -> str:
    """As milliseconds: 0.52 MB, 5.2 MB, 91 MB."""
    return f"{value:.2f} MB" if value < 1 else f"{value:.1f} MB" if value < 10 else f"{value:,.0f} MB"


def times(whole: float, part: float) -> str:
    """How many times `part` goes into `whole`: 65x, 2.1x, 0.8x."""
    if part <= 0:
        return "-"
    ratio = whole / part
    return f"{ratio:.0f}x" if ratio >= 10 else f"{ratio:.1f}x"


def fraction(part: float, whole: float) -> str:
    """`part` as a share of `whole` in words a manager reads: 1/65 where it is a small part, else 48 %."""
    if part <= 0 or whole <= 0:
        return "-"
    return f"1/{whole / part:.0f}" if whole >= 2 * part else f"{100 * part / whole:.0f} %"


def duration(seconds: float) -> str:
    """4.2 s, 42 s, 4 min 02 s, 1.4 h."""
    if seconds < 99.5:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 100 else f"{seconds / 3600:.1f} h"
