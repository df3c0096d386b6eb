"""`gnomon generate MODEL [PROMPT...|-]`: continue texts, or say how likely a text is."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from gnomon.decoding.beam import beam_search
from gnomon.decoding.generate import Generation, Settings, Token, generate, prompt_ids, stream
from gnomon.decoding.logprobs import explain, score_rows
from gnomon.decoding.text_stream import TextStream, token_text
from gnomon.errors import GnomonError
from gnomon.recipes.generating import GenerationSettings, end_ids, new_tokens, settings_for
from gnomon.recipes.language_models import open_model
from gnomon.reporting.console import Console
from gnomon.reporting.tokens import token_table
from gnomon.runtime.generator import LanguageModel
from gnomon.text.corpus import read_texts
from gnomon.text.encodings import mend_surrogates


@dataclass(frozen=True)
class Config(GenerationSettings):
    """Continue texts: given as arguments, or one a line on standard input. One text streams as it is generated."""

    model: str
    """A model folder, exported or not, a run, a .gguf file, or "smollm2"."""
    prompt: tuple[str, ...] = ()
    """Texts to continue; "-", or none where something is piped in, reads one a line from standard input."""
    _: KW_ONLY
    samples: int = 1
    """Continuations of each prompt; with a temperature they differ."""
    num_beams: int = 1
    """More than 1: beam search for the likeliest continuation, so many kept open."""
    length_penalty: float = 1.0
    """Of beam search: a sum of log-probabilities is divided by the length to this power."""
    show_probabilities: bool = False
    """Show each token's probability, in colour, and the tokens that came next to it."""
    runners_up: int = 3
    """How many of these to show."""
    score: bool = False
    """Generate nothing: say how likely the given texts are, token by token with --show-probabilities."""
    batch_size: int = 8
    """Prompts read together."""


@dataclass(frozen=True)
class GenerateResult:
    """A Generation for each prompt and sample, in order, and the seconds it took; `streamed` when it was printed."""

    prompts: tuple[str, ...]
    generations: tuple[Generation, ...]
    seconds: float
    streamed: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain values: text, ids, why it ended, and tokens where probabilities were asked for."""
        rows = zip(self.prompts, self.generations, strict=True)
        return {
            "generations": [
                {"prompt": prompt, "text": one.text, "finish": one.finish, "ids": list(one.ids)}
                | ({"tokens": [_plain(token) for token in one.tokens]} if one.tokens else {})
                for prompt, one in rows
            ],
            "tokens": sum(len(one.ids) for one in self.generations),
            "seconds": round(self.seconds, 3),
        }

    def shown(self) -> RenderableType:
        """The texts; with probabilities, a table each."""
        if self.streamed:
            return Text("")  # what ends the line
        if any(one.tokens for one in self.generations):
            return Group(*(token_table(one.tokens) for one in self.generations))
        if len(self.generations) == 1:
            return Text(self.generations[0].text)
        rows = zip(self.prompts, self.generations, strict=True)
        return Text("\n\n".join(f"{prompt}{one.text}" for prompt, one in rows))


@dataclass(frozen=True)
class ScoreResult:
    """Each text's tokens but the first, which nothing precedes, with their probabilities."""

    texts: tuple[str, ...]
    tokens: tuple[tuple[Token, ...], ...]
    in_colour: bool

    def to_dict(self) -> dict[str, Any]:
        """Plain values; log-probabilities in nats."""
        rows = zip(self.texts, self.tokens, strict=True)
        return {
            "texts": [
                {"text": text, "log_probability": _total(tokens), "tokens": [_plain(token) for token in tokens]}
                for text, tokens in rows
            ]
        }

    def shown(self) -> RenderableType:
        """A line a text: its log-probability, perplexity and beginning; with colours, a table each."""
        if self.in_colour:
            return Group(*(token_table(tokens) for tokens in self.tokens))
        rows = zip(self.texts, self.tokens, strict=True)
        return Text("\n".join(f"{_total(tokens):.3f}\t{_perplexity(tokens):.2f}\t{text}" for text, tokens in rows))


def run(config: Config, console: Console | None = None) -> GenerateResult | ScoreResult:
    """Generate or score. Raises GnomonError for what the model cannot hold or do."""
    console = console or Console(quiet=True)
    if config.samples < 1 or config.num_beams < 1 or config.runners_up < 0:
        raise GnomonError("samples and num_beams must be 1 or more, runners_up 0 or more", "see --help")
    if config.num_beams > 1 and (config.temperature > 0 or config.show_probabilities or config.samples > 1):
        raise GnomonError(
            "beam search looks for one likeliest text: it goes with no --temperature, --samples or probabilities",
            "leave out --num-beams, or those",
        )
    texts = _texts(config, console)
    model = open_model(config.model, threads=config.threads, console=console)
    rows = [prompt_ids(model.tokenizer, text) for text in texts]
    if config.score:
        return ScoreResult(texts, _scored(model, rows, config), config.show_probabilities)
    prompts = tuple(text for text in texts for _ in range(config.samples))
    rows = [row for row in rows for _ in range(config.samples)]
    started = time.perf_counter()
    if config.num_beams > 1:
        return GenerateResult(prompts, _searched(model, rows, config), time.perf_counter() - started)
    runners_up = config.runners_up if config.show_probabilities else None
    settings = settings_for(config, model, rows, runners_up=runners_up, batch_size=config.batch_size)
    if len(rows) == 1 and not console.quiet and runners_up is None:
        streamed = _streamed(model, rows[0], settings)
        seconds = time.perf_counter() - started
        _say_speed(console, streamed, seconds)
        return GenerateResult(prompts, (streamed,), seconds, streamed=True)
    generations = tuple(generate(model.stepper, model.tokenizer, rows, settings))
    return GenerateResult(prompts, generations, time.perf_counter() - started)


def _texts(config: Config, console: Console) -> tuple[str, ...]:
    """The prompts of the arguments or of standard input."""
    if config.prompt == ("-",) or (not config.prompt and not sys.stdin.isatty()):
        texts = read_texts("-").texts
        if not texts:
            raise GnomonError("standard input holds no text to continue", "gnomon generate MODEL 'Once upon a time'")
        return texts
    if not config.prompt:
        raise GnomonError(
            "there is no text to continue",
            "gnomon generate MODEL 'Once upon a time', or: gnomon generate MODEL - < FILE",
        )
    mended = [mend_surrogates(text) for text in config.prompt]
    if any(count for _, count in mended):
        console.warn(f"{sum(count for _, count in mended)} halves of surrogate pairs were replaced")
    return tuple(text for text, _ in mended)


def _streamed(model: LanguageModel, row: Sequence[int], settings: Settings) -> Generation:
    """One text, printed piece by piece."""
    pieces = []
    for piece in stream(model.stepper, model.tokenizer, [row], settings):
        pieces.append(piece)
        print(piece.text, end="", flush=True)
    text = "".join(piece.text for piece in pieces)
    return Generation(tuple(row), tuple(piece.id for piece in pieces), text, pieces[-1].finish or "length")


def _searched(model: LanguageModel, rows: Sequence[Sequence[int]], config: Config) -> tuple[Generation, ...]:
    """The best continuation that beam search finds of each prompt."""
    ends = end_ids(model)
    found = []
    processors = config.processors()
    for row in rows:
        best = beam_search(
            model.stepper,
            [row],
            num_beams=config.num_beams,
            max_new_tokens=new_tokens(config, model, rows),
            end_ids=ends,
            pad_id=model.tokenizer.pad_id,
            length_penalty=config.length_penalty,
            processors=processors,
        )[0][0]
        text = TextStream(model.tokenizer, prompt=row, stop=config.stop)
        shown = "".join(text.push(token) for token in best.ids if not text.stopped) + text.finish()
        finish = "stop" if text.stopped else "end" if best.ids[-1] in ends else "length"
        found.append(Generation(tuple(row), best.ids, shown, finish))  # type: ignore[arg-type]
    return tuple(found)


def _scored(model: LanguageModel, rows: Sequence[Sequence[int]], config: Config) -> tuple[tuple[Token, ...], ...]:
    """The tokens of given texts: with their rivals, one step of the model a token; without, many at once."""
    tokenizer = model.tokenizer
    if config.show_probabilities:
        return tuple(tuple(explain(model.stepper, tokenizer, row, runners_up=config.runners_up)) for row in rows)
    scored = score_rows(model.stepper, rows, pad_id=tokenizer.pad_id, batch_size=config.batch_size)
    return tuple(
        tuple(
            Token(token, token_text(tokenizer, token), math.exp(one)) for token, one in zip(row[1:], found, strict=True)
        )
        for row, found in zip(rows, scored, strict=True)
    )


def _say_speed(console: Console, one: Generation, seconds: float) -> None:
    count = len(one.ids)
    if sys.stderr.isatty():
        console.say(f"\n{count} tokens in {seconds:.2f} s: {count / seconds:.0f} tokens/s")


def _plain(token: Token) -> dict[str, Any]:
    return {
        "id": token.id,
        "text": token.text,
        "probability": token.probability,
        "runners_up": [{"text": text, "probability": share} for text, share in token.runners_up],
    }


def _total(tokens: Sequence[Token]) -> float:
    """The log-probability of a text in nats; -inf where a token has none."""
    return sum(math.log(token.probability) if token.probability > 0 else -math.inf for token in tokens)


def _perplexity(tokens: Sequence[Token]) -> float:
    return math.exp(-_total(tokens) / len(tokens)) if tokens else math.nan
