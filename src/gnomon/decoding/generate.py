"""Prompts in, text out: whole or as a stream, one prompt or many, each token with its probability where asked."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from gnomon.decoding.loop import Choice, Finish, decode
from gnomon.decoding.sampling import Sampling, streams_of
from gnomon.decoding.stepper import Stepper
from gnomon.decoding.text_stream import TextStream, token_text
from gnomon.errors import GnomonError
from gnomon.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Token:
    """One token: what it adds to the text, the model's probability for it, and the likeliest others with theirs."""

    id: int
    text: str
    probability: float
    runners_up: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Piece:
    """One step of one prompt: the text that became certain (often empty) and, where asked for, the token."""

    row: int
    id: int
    text: str
    finish: Finish | None
    token: Token | None = None


@dataclass(frozen=True, slots=True)
class Generation:
    """What followed one prompt. `ids` hold every generated token, an end token included; `text` does not hold that, and
    ends before a stop string. `tokens` is empty unless probabilities were asked for."""

    prompt_ids: tuple[int, ...]
    ids: tuple[int, ...]
    text: str
    finish: Finish
    tokens: tuple[Token, ...] = ()


@dataclass(frozen=True, slots=True)
class Settings:
    """How to generate. `end_ids` None means the tokenizer's own end token; `stop` are strings that end a text.

    `runners_up` asks for each token's probability and so many other tokens; None for neither. `batch_size` prompts are
    read together, in pieces of `prefill_chunk` tokens where given.
    """

    max_new_tokens: int = 256
    sampling: Sampling = field(default_factory=Sampling)
    stop: tuple[str, ...] = ()
    end_ids: Collection[int] | None = None
    runners_up: int | None = None
    batch_size: int = 8
    prefill_chunk: int | None = None


def generate(
    stepper: Stepper, tokenizer: Tokenizer, prompts: Sequence[str | Sequence[int]], settings: Settings | None = None
) -> list[Generation]:
    """One Generation a prompt, in the order given. A prompt is text, or ids that are used as they are.

    The text is what `stream` gives, joined. Raises GnomonError as `decode` does.
    """
    settings = settings or Settings()
    if settings.batch_size < 1:
        raise GnomonError(f"batch_size is {settings.batch_size}", "give 1 or more")
    rows = [prompt_ids(tokenizer, prompt) for prompt in prompts]
    order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
    done: dict[int, Generation] = {}
    streams = streams_of(rows)
    for start in range(0, len(rows), settings.batch_size):
        members = order[start : start + settings.batch_size]
        pieces: list[list[Piece]] = [[] for _ in members]
        chosen = [rows[row] for row in members], [streams[row] for row in members]
        for piece in _stream(stepper, tokenizer, *chosen, settings):
            pieces[piece.row].append(piece)
        done |= {row: _joined(rows[row], parts) for row, parts in zip(members, pieces, strict=True)}
    return [done[row] for row in range(len(rows))]


def stream(
    stepper: Stepper, tokenizer: Tokenizer, prompts: Sequence[str | Sequence[int]], settings: Settings | None = None
) -> Iterator[Piece]:
    """The pieces of all prompts as they come, all prompts in one batch; `piece.row` tells whose they are."""
    rows = [prompt_ids(tokenizer, prompt) for prompt in prompts]
    return _stream(stepper, tokenizer, rows, streams_of(rows), settings or Settings())


def _stream(
    stepper: Stepper, tokenizer: Tokenizer, rows: Sequence[list[int]], streams: Sequence[int], settings: Settings
) -> Iterator[Piece]:
    texts = [TextStream(tokenizer, prompt=row, stop=settings.stop) for row in rows]
    end_ids = settings.end_ids if settings.end_ids is not None else tokenizer.end_ids
    released: dict[int, str] = {}

    def stopped(row: int, token: int) -> bool:
        released[row] = texts[row].push(token)
        return texts[row].stopped

    for choices in decode(
        stepper,
        rows,
        sampling=settings.sampling,
        max_new_tokens=settings.max_new_tokens,
        end_ids=end_ids,
        pad_id=tokenizer.pad_id,
        stopped=stopped,
        runners_up=settings.runners_up,
        prefill_chunk=settings.prefill_chunk,
        streams=streams,
    ):
        for choice in choices:
            text, finish = released.pop(choice.row, ""), choice.finish
            if finish is not None:
                text += texts[choice.row].finish()
                finish = "stop" if texts[choice.row].stopped else finish
            token = None if settings.runners_up is None else _token(tokenizer, choice)
            yield Piece(choice.row, choice.id, text, finish, token)


def prompt_ids(tokenizer: Tokenizer, prompt: str | Sequence[int]) -> list[int]:
    """The ids a model reads before it continues `prompt`: as in training, one begin token at most and no end token.

    An empty text becomes the begin token alone (or, lacking one, the end token). Ids are taken as they are.
    """
    if not isinstance(prompt, str):
        return [int(token) for token in prompt]
    ids = tokenizer.encode(prompt).ids
    begin = tokenizer.bos_id if tokenizer.bos_id is not None else tokenizer.cls_id
    ends = {tokenizer.eos_id, tokenizer.sep_id} - {None, begin}
    if ids and ids[-1] in ends:
        ids = ids[:-1]
    if begin is not None and ids[:2] == [begin, begin]:  # a chat template wrote the begin token, and so did we
        ids = ids[1:]
    if ids:
        return ids
    first = begin if begin is not None else tokenizer.eos_id
    if first is None:
        raise GnomonError("the prompt is empty, and the tokenizer has no token to begin with", "give some text")
    return [first]


def _joined(prompt: Sequence[int], pieces: Sequence[Piece]) -> Generation:
    finish = pieces[-1].finish
    if finish is None:
        raise RuntimeError("the decoding loop ended before its row did")
    tokens = tuple(piece.token for piece in pieces if piece.token is not None)
    text = "".join(piece.text for piece in pieces)
    return Generation(tuple(prompt), tuple(piece.id for piece in pieces), text, finish, tokens)


def _token(tokenizer: Tokenizer, choice: Choice) -> Token:
    others = tuple((token_text(tokenizer, other), probability) for other, probability in choice.runners_up)
    return Token(choice.id, token_text(tokenizer, choice.id), choice.probability, others)
