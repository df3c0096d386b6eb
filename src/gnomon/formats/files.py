"""Atomic writes: a temporary name, fsync, rename. What was good before stays whole until the new is."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from gnomon.errors import GnomonError


@contextlib.contextmanager
def explained(path: Path, *, doing: str) -> Iterator[None]:
    """Turn an OSError about `path` into a GnomonError that says what to do."""
    try:
        yield
    except OSError as error:
        raise _explain(error, path, doing) from error


def _explain(error: OSError, path: Path, doing: str) -> GnomonError:
    hints = {
        errno.ENOSPC: "free some space or choose another place; what was there before is untouched",
        errno.EDQUOT: "the quota is used up: free some space or choose another place",
        errno.EACCES: "choose a place you may write to, or change its permissions",
        errno.EPERM: "choose a place you may write to, or change its permissions",
        errno.EROFS: "the file system is read-only: choose another place",
        errno.ENOENT: "check the path",
        errno.ENOTDIR: "a part of the path is a file: check the path",
        errno.EISDIR: "the path is a folder: name a file",
    }
    reason = os.strerror(error.errno).lower() if error.errno else str(error)
    return GnomonError(f"cannot {doing} {path}: {reason}", hints.get(error.errno or 0, "check the path and its device"))


def write_bytes(path: Path, data: bytes) -> None:
    """Write `data` to `path` atomically, making parent folders."""
    with new_file(path) as file:
        file.write(data)


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a temporary file beside `path`, to be written piece by piece; on success it takes `path`'s name."""
    with explained(path, doing="write"):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.chmod(0o666 & ~_umask())
            temporary.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        _sync_folder(path.parent)


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path` atomically as UTF-8."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path: Path, value: Any) -> None:
    """Write `value` to `path` atomically as indented UTF-8 JSON."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def read_json(path: Path) -> Any:
    """Read a UTF-8 JSON file; a missing or malformed one is a GnomonError with line and column."""
    with explained(path, doing="read"):
        data = path.read_bytes()
    try:
        return json.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise GnomonError(f"{path} is not valid JSON: {error}", "restore the file from where it came") from error


@contextlib.contextmanager
def new_directory(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `path`; on success it is synced and takes `path`'s name.

    A folder already at `path` is replaced as a whole, and only then removed; on an error it is left as it was.
    """
    with explained(path, doing="write"):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
        temporary.chmod(0o777 & ~_umask())
    try:
        with explained(path, doing="write"):
            yield temporary
            _sync_tree(temporary)
            _swap(temporary, path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal, read in pieces."""
    with explained(path, doing="read"), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _swap(temporary: Path, path: Path) -> None:
    old: Path | None = None
    if path.exists():
        old = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.old.")) / "old"
        path.rename(old)
    try:
        temporary.rename(path)
    except BaseException:
        if old is not None:
            old.rename(path)
        raise
    _sync_folder(path.parent)
    if old is not None:
        shutil.rmtree(old.parent, ignore_errors=True)


def _sync_tree(folder: Path) -> None:
    for root, _, names in os.walk(folder):
        for name in names:
            descriptor = os.open(Path(root) / name, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        _sync_folder(Path(root))


def _sync_folder(folder: Path) -> None:
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
