"""Settings: frozen dataclasses whose fields are documented by the string under them, and their TOML.

One dataclass is the single source of a command's options, of its Python call's arguments, of the
commented TOML that `gnomon init` writes and of the resolved settings a run keeps.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import tomli_w

P = ParamSpec("P")
C = TypeVar("C")
R = TypeVar("R")


def field_help(config: type[Any]) -> Mapping[str, str]:
    """The text under each field of a settings dataclass, those it inherits included."""
    found: dict[str, str] = {}
    for base in reversed(config.__mro__):
        if dataclasses.is_dataclass(base):
            body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
            assert isinstance(body, ast.ClassDef)
            for line, below in zip(body.body, body.body[1:], strict=False):
                if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and _is_text(below):
                    found[line.target.id] = inspect.cleandoc(typing.cast(Any, below).value.value)
    return found


def ordered_fields(config: type[Any]) -> list[dataclasses.Field[Any]]:
    """The fields as a reader wants them: what must be given, then a class's own, then what it shares with others."""
    own = inspect.get_annotations(config)
    return sorted(
        dataclasses.fields(config),
        key=lambda field: (_default(field) is not dataclasses.MISSING, field.name not in own),
    )


def to_dict(config: Any) -> dict[str, Any]:
    """The settings as plain TOML values, nested as the dataclasses are; fields that are None are left out."""
    return {
        field.name: _plain(getattr(config, field.name))
        for field in dataclasses.fields(config)
        if getattr(config, field.name) is not None
    }


def commented_toml(config: type, *, title: str) -> str:
    """A TOML file of every setting of `config` with its meaning and default; what has no default is left to fill in."""
    lines = [f"# {title}", "# A line that starts with '#' keeps the default shown.", ""]
    return "\n".join([*lines, *_section(config, prefix="")]).rstrip() + "\n"


def as_function(config: Callable[P, C], run: Callable[[C], R], *, name: str) -> Callable[P, R]:
    """The Python call of a command: the arguments of its settings, the result of its `run`.

    As on a command line, a path may be given as text, and a setting of several values as one.
    """

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return run(_converted(config(*args, **kwargs)))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = config.__doc__
    signature = inspect.signature(config)
    hints = typing.get_type_hints(config)
    parameters = [item.replace(annotation=hints[item.name]) for item in signature.parameters.values()]
    call.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=parameters, return_annotation=typing.get_type_hints(run)["return"]
    )
    return call


def _converted(config: C) -> C:
    """Text where a Path is expected becomes one; a single text, or a list, where a tuple is expected becomes that."""
    given: Any = config
    changes: dict[str, Any] = {}
    for name, kind in typing.get_type_hints(type(config)).items():
        value = getattr(given, name, None)
        options = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
        if isinstance(value, str) and Path in options and str not in options:
            changes[name] = Path(value)
        elif typing.get_origin(kind) is tuple and not isinstance(value, tuple):
            changes[name] = (value,) if isinstance(value, str | Path) else tuple(value or ())
    return dataclasses.replace(given, **changes) if changes else config


def _section(config: type, *, prefix: str) -> list[str]:
    hints = typing.get_type_hints(config)
    plain: list[str] = []
    nested: list[str] = []
    for field in ordered_fields(config):
        kind = hints[field.name]
        name = f"{prefix}{field.name}"
        text = field_help(config).get(field.name, "")
        if dataclasses.is_dataclass(kind) and isinstance(kind, type):
            nested += ["", *(f"# {line}" for line in text.splitlines()), f"[{name}]"]
            nested += _section(kind, prefix=f"{name}.")
            continue
        plain += [f"# {line}" for line in text.splitlines()]
        default = _default(field)
        if default is dataclasses.MISSING:
            plain.append(f"{field.name} = {_placeholder(kind)}")
        elif default is None:
            plain.append(f"# {field.name} = {_placeholder(kind)}")
        else:
            plain.append(f"# {_one_line(field.name, _plain(default))}")
    return plain + nested


def _one_line(name: str, value: Any) -> str:
    if isinstance(value, list):
        items = [_one_line("", item).removeprefix('"" = ') for item in value]
        return f"{name} = [{', '.join(items)}]"
    return tomli_w.dumps({name: value}).strip()


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _placeholder(kind: Any) -> str:
    options = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    first = next(option for option in options if option is not type(None))
    if typing.get_origin(first) is tuple:
        return "[]"
    return {int: "1", float: "0.1", bool: "false"}.get(first, '""')


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return to_dict(value)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
