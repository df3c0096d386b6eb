"""`gnomon COMMAND ...`: parse, run, print; exit 0, 2 for the user's mistake, 1 for ours, 130 when interrupted."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import os
import signal
import sys
import tomllib
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Group, Parameter
from cyclopts.config import Dict as Settings
from cyclopts.exceptions import CycloptsError
from rich.console import Console as RichConsole

from gnomon import __version__
from gnomon.cli.table import COMMANDS, TOGETHER, Command, find
from gnomon.config import field_help, ordered_fields
from gnomon.errors import GnomonError
from gnomon.reporting.console import Console

_STANDARD_INPUT = "\ufdd0"  # stands for the word "-" while words are parsed: the parser takes that for an option

_HELP = "Small, fast language models, and proof of what they cost."


def main(words: list[str] | None = None) -> None:
    """The console script; ends the process with the exit code."""
    # Asked to end, a command ends as it does on Ctrl-C: what is finished is kept, and how to go on is said.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(run(sys.argv[1:] if words is None else words))


def run(words: list[str]) -> int:
    """Run one command line and return its exit code."""
    try:
        _dispatch(words)
        sys.stdout.flush()
    except GnomonError as error:
        _print_error(str(error))
        return error.exit_code
    except CycloptsError as error:
        _print_error(_one_line(error))
        return 2
    except KeyboardInterrupt:
        _print_error("interrupted")
        return 130
    except BrokenPipeError:
        # The reader of a pipe left; what it wanted it has. Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _dispatch(words: list[str]) -> None:
    found = find(words)
    if found is None:
        _overview()(words, exit_on_error=False, print_error=False, result_action="return_value")
        return
    command, rest = found
    config, rest = _config_files(_resumed([_STANDARD_INPUT if word == "-" else word for word in rest]))
    app = App(
        name=f"gnomon {command.name}",
        version_flags=[],
        config=config,
        help_format="plaintext",
        default_parameter=Parameter(negative="", show_default=_shown_default),
    )
    app["--help"].show = False
    app.default(_as_command(command))
    app(rest, exit_on_error=False, print_error=False, result_action="return_value")


def _overview() -> App:
    """Every command by its one line, nothing imported; unknown names are answered with the nearest."""
    app = App(name="gnomon", help=_HELP, version=__version__, help_format="plaintext")
    groups = {name: Group(name, sort_key=place) for place, name in enumerate(dict.fromkeys(c.group for c in COMMANDS))}
    for place, command in enumerate(COMMANDS):
        parent, (*outer, name) = app, command.name.split()
        for word in outer:
            if word not in list(parent):
                parent.command(App(name=word, help=TOGETHER[word], group=groups[command.group], sort_key=place))
            parent = parent[word]
        parent.command(App(name=name, help=command.summary, group=groups[command.group], sort_key=place))
    return app


def _as_command(command: Command) -> Callable[..., None]:
    """A function whose parameters are the command's settings, documented, and the three options of every command."""
    module = importlib.import_module(command.module)
    settings: type[Any] = getattr(module, command.settings)
    run_command = getattr(module, command.run)
    positional = [field.name for field in dataclasses.fields(settings) if not field.kw_only]
    several = _leading_several(settings)

    def call(*args: Any, **options: Any) -> None:
        as_json, quiet = options.pop("json", False), options.pop("quiet", False)
        if several:
            args = _spread(args, positional)
        given = {name: _with_hyphen(value) for name, value in options.items()}
        result = run_command(settings(*map(_with_hyphen, args), **given), Console(quiet=quiet or as_json))
        if as_json:
            print(json.dumps(result.to_dict(), ensure_ascii=False, indent=2))
        else:
            RichConsole(highlight=False, soft_wrap=not sys.stdout.isatty(), markup=False).print(result.shown())

    parameters = [*_parameters(settings, several), *_COMMON]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    call.__doc__ = f"{inspect.getdoc(settings)}"
    return call


def _with_hyphen(value: Any) -> Any:
    """The value with "-" again where the words had it."""
    if isinstance(value, tuple):
        return tuple(map(_with_hyphen, value))
    return type(value)("-") if isinstance(value, str | Path) and str(value) == _STANDARD_INPUT else value


def _parameters(settings: type[Any], several: bool) -> Iterator[inspect.Parameter]:
    hints = typing.get_type_hints(settings)
    fields = sorted(ordered_fields(settings), key=lambda field: bool(field.kw_only))
    positional = [field.name for field in fields if not field.kw_only]
    texts = field_help(settings)
    if several:
        text = "; then ".join(texts[name].rstrip(".") for name in positional)
        name = " ".join(positional).upper()
        words = Annotated[str, Parameter(name=name, help=f"{text}.")]
        yield inspect.Parameter("arguments", inspect.Parameter.VAR_POSITIONAL, annotation=words)
    for field in fields:
        if several and not field.kw_only:
            continue
        kind = inspect.Parameter.KEYWORD_ONLY if field.kw_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
        yield _parameter(field.name, kind, hints[field.name], texts.get(field.name, ""), _default(field))


def _parameter(name: str, kind: Any, type_: Any, text: str, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, kind, default=default, annotation=Annotated[type_, Parameter(help=text)])


def _shown_default(default: Any) -> str | None:
    """A default in the help; what stands for "none given" is told by the setting's own text."""
    return None if default is None or default is False or default == () else str(default)


def _option(name: str, text: str, kind: Any, default: Any) -> inspect.Parameter:
    return _parameter(name, inspect.Parameter.KEYWORD_ONLY, kind, text, default)


_COMMON = (
    # Taken out of the words before they are parsed, since it decides the defaults; here for the help alone.
    _option("config", "A TOML file of settings (gnomon init writes one); options override it.", Path | None, None),
    _option(
        "resume",
        "Go on with the run in this folder, by its settings; auto: in the --out folder, where it holds one.",
        Path | None,
        None,
    ),
    _option("json", "Print the result as JSON on standard output.", bool, False),
    _option("quiet", "Say nothing but warnings and the result.", bool, False),
)


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default


def _leading_several(settings: type[Any]) -> bool:
    """Whether a positional setting that takes several values stands before another (`MODEL... DATA`)."""
    positional = [field for field in dataclasses.fields(settings) if not field.kw_only]
    hints = typing.get_type_hints(settings)
    return any(typing.get_origin(hints[field.name]) is tuple for field in positional[:-1])


def _spread(args: tuple[Any, ...], names: list[str]) -> tuple[Any, ...]:
    """The first setting takes all words but the last ones, which belong to the settings after it."""
    after = len(names) - 1
    if len(args) <= after:
        raise GnomonError(
            f"expected {' '.join(name.upper() for name in names)}, found {len(args)} of them", "see --help"
        )
    return (tuple(args[: len(args) - after]), *(Path(word) for word in args[len(args) - after :]))


def _resumed(words: list[str]) -> list[str]:
    """`--resume RUN` means the settings that RUN was begun with, and the same folder.

    `--resume auto` means this command's own folder: to start again with the same settings is to go on.
    """
    if "--resume" not in words:
        return words
    place = words.index("--resume")
    if place + 1 == len(words):
        raise GnomonError("--resume names no run folder", "gnomon COMMAND --resume RUN")
    if words[place + 1] == "auto":
        return [*words[:place], *words[place + 2 :]]
    run = Path(words[place + 1])
    if not (run / "run.toml").is_file():
        raise GnomonError(f"{run} holds no run: it has no run.toml", "name the folder that was given as --out")
    return [*words[:place], *words[place + 2 :], "--config", str(run / "run.toml"), "--out", str(run)]


def _config_files(words: list[str]) -> tuple[tuple[Settings, ...], list[str]]:
    """Take `--config FILE` out of the words; what the command line says overrides the file."""
    rest: list[str] = []
    files: list[Settings] = []
    remaining = iter(words)
    for word in remaining:
        name, equals, value = word.partition("=")
        if name != "--config":
            rest.append(word)
            continue
        files.append(_read_toml(Path(value if equals else next(remaining, ""))))
    return tuple(files), rest


def _read_toml(path: Path) -> Settings:
    if not path.is_file():
        raise GnomonError(f"--config: there is no file {str(path)!r}", "gnomon init COMMAND writes one")
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
        given.pop("measured", None)  # what a run found out is no setting
        settings = Settings(given, use_commands_as_keys=False)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise GnomonError(
            f"{path} is not valid TOML: {error}", "gnomon init COMMAND shows how it is written"
        ) from error
    settings.source = str(path)
    return settings


def _one_line(error: CycloptsError) -> str:
    return " ".join(str(error).split()) + "\n  gnomon COMMAND --help lists every option"


def _print_error(text: str) -> None:
    RichConsole(stderr=True, highlight=False).print(f"error: {text}", style="red", markup=False, soft_wrap=True)
