"""Files that come in packages of others: found without importing anything, and checked before they are used."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from gnomon.errors import GnomonError
from gnomon.formats.files import sha256


def package_folder(package: str, *, what: str, install: str) -> Path:
    """The folder of an installed package. Raises GnomonError with the `install` line when it is absent."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise GnomonError(f"{what}: the package {package.replace('_', '-')} is not installed", install)
    return Path(spec.submodule_search_locations[0])


def checked(path: Path, expected: str, *, install: str) -> Path:
    """`path` itself. Raises GnomonError when the file is missing or its SHA-256 is not the `expected` one."""
    again = f"{install} --force-reinstall"
    if not path.is_file():
        raise GnomonError(f"{path} is missing from its package", again)
    found = sha256(path)
    if found != expected:
        raise GnomonError(f"{path} is not the file that gnomon knows: SHA-256 {found}, expected {expected}", again)
    return path
