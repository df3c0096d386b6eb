"""A run folder: what was asked for, what was measured, and what is needed to go on after a stop.

- run.toml: every setting; choices that were measured (a thread count) under [measured]
- run.json: status, versions, host, seeds, hashes, final figures
- metrics.jsonl: one record a line
- checkpoints/step-N/: the files `last` and `best` beside the folder name one each
- model/: the finished model
- stages/NAME/: a run of its own for each stage
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import platform
import shutil
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from gnomon.errors import GnomonError, Interrupted
from gnomon.formats import files

SETTINGS = "run.toml"
MODEL = "model"
_MEASURED = "\n[measured]\n"
_PACKAGES = ("gnomon", "numpy", "tokenizers", "safetensors", "onnxruntime", "torch")


class Run:
    """A run folder or one stage of it. As a context manager it gives up its lock and keeps how it ended."""

    def __init__(self, path: Path | str, *, resume_command: str = "") -> None:
        self.path = Path(path)
        self.resume_command = resume_command or f"start again with the same settings and out = {self.path}"
        self._lock: IO[str] | None = None

    @classmethod
    def start(
        cls, path: Path | str, settings: Mapping[str, Any] | str, *, overwrite: bool = False, resume_command: str = ""
    ) -> Self:
        """Begin a run with `settings` (a mapping or TOML text) at `path`, or go on with the equal one there.

        Raises GnomonError when another process writes there, when the folder holds something else, or when its
        settings differ and `overwrite` is off, naming each that differs. `overwrite` removes the old run first.
        """
        text = settings if isinstance(settings, str) else _to_toml(settings)
        run = cls(path, resume_command=resume_command)
        run._refuse_other_folders()
        run._acquire()
        try:
            if overwrite and run._file(SETTINGS).exists():
                run._clear()
            if run._file(SETTINGS).exists():
                run._compare(tomllib.loads(text))
            else:
                files.write_text(run._file(SETTINGS), text)
            started = [*run.info.get("started", []), time.strftime("%Y-%m-%dT%H:%M:%S%z")]
            run.update(status="running", started=started, versions=versions(), host=host())
        except BaseException:
            run.close()
            raise
        return run

    def child(self, name: str) -> Run:
        """The run of one stage, under this one's lock."""
        return Run(self.path / "stages" / name, resume_command=self.resume_command)

    def done(self) -> bool:
        """Whether `finish` was reached."""
        return self.info.get("status") == "finished"

    def finish(self, **figures: Any) -> None:
        """Mark this run or stage complete, with its figures.

        Where its model folder stands, the checkpoints have served: they are removed, and `last` and `best` name it.
        """
        self.update(status="finished", figures=figures)
        if (self.path / MODEL / "config.json").exists() and self.checkpoints.exists():
            self.point("best", self.path / MODEL)
            self.point("last", self.path / MODEL)
            shutil.rmtree(self.checkpoints, ignore_errors=True)

    @property
    def info(self) -> dict[str, Any]:
        """What run.json holds; empty before anything was written."""
        path = self._file("run.json")
        return dict(files.read_json(path)) if path.exists() else {}

    @property
    def figures(self) -> dict[str, Any]:
        """What `finish` was given; empty before."""
        return dict(self.info.get("figures", {}))

    def update(self, **fields: Any) -> None:
        """Merge `fields` into run.json, atomically."""
        files.write_json(self._file("run.json"), {**self.info, **fields})

    @property
    def settings(self) -> dict[str, Any]:
        """The settings in run.toml, without what was measured."""
        return {name: value for name, value in self._toml().items() if name != "measured"}

    @property
    def measured(self) -> dict[str, Any]:
        """The choices that `settle` recorded."""
        return dict(self._toml().get("measured", {}))

    def settle(self, **choices: Any) -> None:
        """Keep choices that were measured (`threads=2`) in run.toml; a run goes on with them, `start` compares none."""
        path = self._file(SETTINGS)
        given = path.read_text(encoding="utf-8").partition(_MEASURED)[0] if path.exists() else ""
        files.write_text(path, f"{given}{_MEASURED}{_to_toml({**self.measured, **choices})}")

    def log(self, record: Mapping[str, Any]) -> None:
        """Append one record to metrics.jsonl and hand it to the system; figures that are not finite become null."""
        path = self._file("metrics.jsonl")
        line = json.dumps({name: _finite(value) for name, value in record.items()}, ensure_ascii=False) + "\n"
        with files.explained(path, doing="write"):
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a+b") as file:
                _drop_partial_line(file)
                file.write(line.encode("utf-8"))

    def records(self) -> list[dict[str, Any]]:
        """The records of metrics.jsonl; a last line that a kill cut short is not one."""
        path = self._file("metrics.jsonl")
        if not path.exists():
            return []
        with files.explained(path, doing="read"):
            lines = path.read_bytes().split(b"\n")[:-1]
        return [record for line in lines if (record := _record(line)) is not None]

    def rewind(self, step: int) -> None:
        """Drop the records of steps after `step`, which will be taken again; a record without a step stays."""
        kept = [record for record in self.records() if record.get("step", step) <= step]
        text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in kept)
        files.write_text(self._file("metrics.jsonl"), text)

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints."""
        return self.path / "checkpoints"

    def point(self, name: str, target: Path) -> None:
        """Let the pointer `name` (last, best) name a folder inside this run, atomically."""
        files.write_text(self._file(name), target.relative_to(self.path).as_posix() + "\n")

    def pointed(self, name: str) -> Path | None:
        """The folder that the pointer `name` names; None when there is none."""
        path = self._file(name)
        if not path.is_file():
            return None
        target = self.path / path.read_text(encoding="utf-8").strip()
        return target if target.is_dir() else None

    def close(self) -> None:
        """Give up the lock."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            interrupted = isinstance(error, Interrupted | KeyboardInterrupt)
            with contextlib.suppress(GnomonError):  # a full disk must not hide what happened
                self.update(status="interrupted" if interrupted else "failed", error=str(error))
        self.close()
        if isinstance(error, KeyboardInterrupt):
            raise Interrupted("interrupted; what is finished is kept", self.resume_command) from error

    def _file(self, name: str) -> Path:
        return self.path / name

    def _toml(self) -> dict[str, Any]:
        path = self._file(SETTINGS)
        if not path.exists():
            return {}
        try:
            with files.explained(path, doing="read"):
                return tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise GnomonError(f"{path} is not valid TOML: {error}", "restore it, or start with --overwrite") from error

    def _refuse_other_folders(self) -> None:
        with files.explained(self.path, doing="read"):
            found = list(self.path.iterdir()) if self.path.exists() else []
        # Hidden files are a lock, or what a kill left of a write.
        visible = {item.name for item in found if not item.name.startswith(".")}
        if visible and SETTINGS not in visible:
            raise GnomonError(
                f"{self.path} is not empty and holds no run ({SETTINGS} is missing)", "name another folder with --out"
            )

    def _compare(self, asked: dict[str, Any]) -> None:
        before = dict(_flat(self.settings))
        now = dict(_flat(asked))
        differing = [
            f"{name}: {before.get(name, 'unset')!r} there, {now.get(name, 'unset')!r} now"
            for name in sorted(before.keys() | now.keys())
            if before.get(name) != now.get(name)
        ]
        if differing:
            raise GnomonError(
                f"{self.path} holds a run with other settings:\n    " + "\n    ".join(differing),
                "--overwrite removes it and begins anew; another --out keeps it",
            )

    def _clear(self) -> None:
        """Remove the old run. It is moved aside as a whole first, so that half of one is never taken for a run."""
        with files.explained(self.path, doing="remove"):
            resolved = self.path.resolve()
            aside = Path(tempfile.mkdtemp(dir=resolved.parent, prefix=f".{resolved.name}.old."))
            resolved.rename(aside / "run")
        self.close()
        self._acquire()
        shutil.rmtree(aside, ignore_errors=True)

    def _acquire(self) -> None:
        """Lock the folder. The system frees the lock when its process ends, however it ends: none is ever stale."""
        if sys.platform == "win32":
            return
        import fcntl

        path = self._file(".lock")
        with files.explained(self.path, doing="write"):
            self.path.mkdir(parents=True, exist_ok=True)
            lock = path.open("a+", encoding="utf-8")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            lock.close()
            raise GnomonError(
                f"{self.path} is being written by the process {holder}", "wait for it or end it, or name another --out"
            ) from error
        except OSError:
            pass  # a file system without locks: go on without
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        self._lock = lock


def resolve_model(path: Path | str) -> Path:
    """The model folder that a MODEL argument means: of a run folder its pick, else its finished or best model.

    Whatever is no run folder is given back as it is. Raises GnomonError when the run has no model yet.
    """
    folder = Path(path)
    if (folder / "config.json").exists() or not ((folder / SETTINGS).exists() or (folder / "run.json").exists()):
        return folder
    picked = _pick(folder)
    if picked is not None:
        return picked
    if (folder / MODEL / "config.json").exists():
        return folder / MODEL
    best = Run(folder).pointed("best")
    if best is not None and (best / "config.json").exists():
        return best
    raise GnomonError(f"the run {folder} has no model yet", "let it finish: start it again with the same settings")


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that decide a result, where installed."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def host() -> dict[str, Any]:
    """The machine: system, processor architecture and the number of its processors."""
    return {"system": platform.system(), "machine": platform.machine(), "processors": os.cpu_count() or 1}


def _pick(folder: Path) -> Path | None:
    if not (folder / "frontier.json").exists():
        return None
    frontier = files.read_json(folder / "frontier.json")
    for candidate in frontier["candidates"]:
        if candidate["name"] == frontier["pick"]:
            return folder / str(candidate["path"])
    raise GnomonError(f"{folder / 'frontier.json'}: the pick {frontier['pick']!r} is not among its candidates")


def _to_toml(settings: Mapping[str, Any]) -> str:
    from tomli_w import dumps

    return dumps(_without_none(settings))


def _without_none(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_none(item) for name, item in value.items() if item is not None}
    return value


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _record(line: bytes) -> dict[str, Any] | None:
    """A record, or None for what a power cut left where one should be."""
    try:
        return dict(json.loads(line))
    except ValueError:
        return None


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _drop_partial_line(file: IO[bytes]) -> None:
    end = file.seek(0, os.SEEK_END)
    if end == 0:
        return
    file.seek(end - 1)
    if file.read(1) != b"\n":
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
