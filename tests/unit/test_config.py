"""Settings: one dataclass gives the options, the Python call's arguments and the TOML, and they agree."""

from __future__ import annotations

import dataclasses
import inspect
import tomllib
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gnomon.config import as_function, commented_toml, field_help, to_dict


@dataclass(frozen=True)
class Inner:
    """Inner settings."""

    rate: float = 0.5
    """How fast."""
    layers: tuple[int, ...] = (0, 2)
    """Which layers."""


@dataclass(frozen=True, kw_only=True)
class Base:
    """Shared settings."""

    seed: int = 0
    """The seed."""


@dataclass(frozen=True)
class Config(Base):
    """Do something."""

    data: Path
    """Where the text is."""
    _: KW_ONLY
    out: Path | None = None
    """Where it goes."""
    quoted: str = 'a "b" # c'
    """A text that TOML must quote."""
    inner: Inner = field(default_factory=Inner)
    """The inner ones."""


def seed_of(config: Config) -> int:
    return config.seed


def same(config: Any) -> Any:
    return config


def test_help_stands_under_each_field_and_is_inherited() -> None:
    assert field_help(Config) == {
        "seed": "The seed.",
        "data": "Where the text is.",
        "out": "Where it goes.",
        "quoted": "A text that TOML must quote.",
        "inner": "The inner ones.",
    }


def test_commented_toml_names_every_setting_and_its_defaults_are_the_dataclass_s() -> None:
    text = commented_toml(Config, title="x")
    for name in ("seed", "data", "out", "quoted", "[inner]", "rate", "layers"):
        assert name in text
    # A reader who takes the '#' off every line that holds a default gets the defaults.
    uncommented = "\n".join(line.removeprefix("# ") if " = " in line else line for line in text.splitlines())
    values = tomllib.loads(uncommented)
    assert values["seed"] == 0
    assert values["quoted"] == Config(Path("x")).quoted
    assert values["inner"] == {"rate": 0.5, "layers": [0, 2]}


def test_commented_toml_is_valid_toml_as_written() -> None:
    assert tomllib.loads(commented_toml(Config, title="x")) == {"data": "", "inner": {}}


def test_to_dict_gives_plain_values_and_leaves_none_out() -> None:
    assert to_dict(Config(Path("a.csv"))) == {
        "seed": 0,
        "data": "a.csv",
        "quoted": 'a "b" # c',
        "inner": {"rate": 0.5, "layers": [0, 2]},
    }


def test_a_command_s_python_call_has_its_settings_as_arguments() -> None:
    call = as_function(Config, seed_of, name="call")
    assert call(Path("a"), seed=3) == 3
    assert set(inspect.signature(call).parameters) == {item.name for item in dataclasses.fields(Config)}
    with pytest.raises(TypeError):
        call(Path("a"), sed=3)  # type: ignore[call-arg]


def test_a_python_call_takes_text_for_a_path_and_one_value_for_several() -> None:
    @dataclass(frozen=True)
    class Several:
        """Several."""

        data: Path
        """A path."""
        words: tuple[str, ...] = ()
        """Words."""

    call: Any = as_function(Several, same, name="call")
    assert call("a.csv", "one text") == Several(Path("a.csv"), ("one text",))
    assert call("a.csv", ["x", "y"]).words == ("x", "y")
