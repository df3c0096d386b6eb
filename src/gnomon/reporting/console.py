"""What a person sees while a command works: plain sentences and a progress bar per stage, on standard error.

Results go to standard output, so that a pipe gets them alone.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from rich.console import Console as RichConsole
from rich.console import RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from gnomon.measure.verdict import duration

Tick = Callable[[int, int, str], None]
"""Called with (done, total, note) as a stage moves."""


@dataclass
class Console:
    """Sentences, warnings and stages. `quiet` silences all but warnings.

    `stages` gives the expected share of the whole for each stage named, from which the time left is estimated.
    """

    quiet: bool = False
    stages: Sequence[tuple[str, float]] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    _error: RichConsole = field(default_factory=lambda: RichConsole(stderr=True, highlight=False))
    _started: float = field(default_factory=time.monotonic)

    def say(self, text: str) -> None:
        """Print one sentence, unless quiet."""
        if not self.quiet:
            self._error.print(text, markup=False, soft_wrap=True)

    def warn(self, text: str) -> None:
        """Print a warning, quiet or not."""
        self._error.print(f"warning: {text}", style="yellow", markup=False, soft_wrap=True)

    def show(self, table: RenderableType) -> None:
        """Print a table, unless quiet."""
        if not self.quiet:
            self._error.print(table)

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[Tick]:
        """A stage with a progress bar; yields the function that moves it, and keeps the seconds it took."""
        start = time.monotonic()
        with Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[note]}", markup=False),
            console=self._error,
            transient=True,
            disable=self.quiet,
        ) as progress:
            task = progress.add_task(self._title(name), total=None, note="")
            yield lambda done, total, note: progress.update(task, completed=done, total=total, note=note)
        self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - start
        self.say(f"  {name}: {duration(self.seconds[name])}{self._left()}")

    def skip(self, name: str) -> None:
        """Leave a stage out of the time that is left: an earlier start finished it."""
        self.stages = [(stage, share) for stage, share in self.stages if stage != name]

    def _title(self, name: str) -> str:
        names = [stage for stage, _ in self.stages]
        return f"[{names.index(name) + 1}/{len(names)}] {name}" if name in names else name

    def _left(self) -> str:
        done = sum(share for stage, share in self.stages if stage in self.seconds)
        rest = sum(share for stage, share in self.stages if stage not in self.seconds)
        if not done or not rest:
            return ""
        pace = sum(self.seconds.values()) / done
        return f", about {duration(pace * rest)} left"
