"""Streamed text equals unstreamed text, character for character, whatever the tokenizer and however stops fall."""

from __future__ import annotations

import json

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, normalizers, pre_tokenizers

from gnomon.decoding.text_stream import TextStream, token_text
from gnomon.text.tokenizer import Tokenizer

quick = settings(deadline=None, derandomize=True, max_examples=120)


def byte_level() -> Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("a", "b"), ("ab", "c"), ("Ġ", "a"), ("å", "¥"), ("Ċ", "Ċ")]
    words = [*alphabet, *("".join(pair) for pair in merges)]
    backend = tokenizers.Tokenizer(models.BPE({word: number for number, word in enumerate(words)}, merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["<pad>", "</s>"])
    return Tokenizer.from_json(backend.to_str(), {"eos_token": "</s>", "pad_token": "<pad>"})


def sentence_pieces() -> Tokenizer:
    """As Llama's: a space before the first word, bytes where a character has no token."""
    words = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "b", "▁a", "▁ab", "ab", "."]
    merges = [("▁", "a"), ("▁a", "b"), ("a", "b")]
    vocabulary = {word: number for number, word in enumerate(words)}
    backend = tokenizers.Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    backend.add_special_tokens(["<unk>", "<s>", "</s>"])
    return Tokenizer.from_json(backend.to_str(), {"bos_token": "<s>", "eos_token": "</s>"})


def metaspace() -> Tokenizer:
    content = json.loads(sentence_pieces().to_json())
    content["normalizer"] = None
    content["pre_tokenizer"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
    content["decoder"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
    return Tokenizer.from_json(json.dumps(content), {"bos_token": "<s>", "eos_token": "</s>"})


def word_pieces() -> Tokenizer:
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "a",
        "b",
        "##b",
        "##c",
        ".",
        ",",
        "'",
        "n",
        "##t",
        "do",
        "我",
    ]
    backend = tokenizers.Tokenizer(
        models.WordPiece({word: number for number, word in enumerate(words)}, unk_token="[UNK]")
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    backend.add_special_tokens(words[:5])
    return Tokenizer.from_json(backend.to_str(), {})


TOKENIZERS = {make.__name__: make() for make in (byte_level, sentence_pieces, metaspace, word_pieces)}


def streamed(tokenizer: Tokenizer, ids: list[int], prompt: list[int], stop: tuple[str, ...] = ()) -> list[str]:
    stream = TextStream(tokenizer, prompt=prompt, stop=stop)
    pieces = []
    for token in ids:
        pieces.append(stream.push(token))
        if stream.stopped:
            break
    return [*pieces, stream.finish()]


def continuation(tokenizer: Tokenizer, ids: list[int], prompt: list[int]) -> str:
    """The definition: the text of the whole less that of the prompt."""
    before = tokenizer.decode(prompt)
    byte_tokens = {number for word, number in tokenizer.vocabulary.items() if word.startswith("<0x")}
    if not prompt or before.endswith("\ufffd") or prompt[-1] in byte_tokens:
        return tokenizer.decode(ids)
    return tokenizer.decode([*prompt, *ids])[len(before) :]


def cut(text: str, stop: tuple[str, ...]) -> str:
    """Character by character until a stop string is complete."""
    for end in range(len(text) + 1):
        found = [word for word in stop if text[:end].endswith(word)]
        if found:
            return text[: end - max(map(len, found))]
    return text


@pytest.mark.parametrize("name", TOKENIZERS)
@given(st.data())
@quick
def test_streamed_text_is_the_unstreamed_text(name, data):
    tokenizer = TOKENIZERS[name]
    tokens = st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=12)
    ids, prompt = data.draw(tokens), data.draw(tokens)
    assert "".join(streamed(tokenizer, ids, prompt)) == continuation(tokenizer, ids, prompt)


@pytest.mark.parametrize("text", ["你好，世界! naïve 😀👨‍👩‍👧 end", "\ufffd\ufffd literal", "abc abc\n\nabc", "", " "])
def test_characters_come_whole_and_as_soon_as_they_are(text):
    tokenizer = TOKENIZERS["byte_level"]
    ids = tokenizer.encode(text).ids
    pieces = streamed(tokenizer, ids, [])
    assert "".join(pieces) == text
    if "\ufffd" not in text:
        assert not any("\ufffd" in piece for piece in pieces)
        assert pieces[-1] == ""


@pytest.mark.parametrize("name", TOKENIZERS)
@given(st.data())
@quick
def test_a_stop_string_ends_the_text_before_it_however_it_falls_into_tokens(name, data):
    tokenizer = TOKENIZERS[name]
    letters = [i for word, i in tokenizer.vocabulary.items() if word.strip("▁Ġ#") in ("a", "b", "ab", "abc", ".", "")]
    ids = data.draw(st.lists(st.sampled_from(sorted(letters)), max_size=12))
    stop = tuple(data.draw(st.lists(st.sampled_from(["aba", "b ab", "bb", "ab", ". a", "b.", " a a"]), max_size=2)))
    assert "".join(streamed(tokenizer, ids, [], stop)) == cut(tokenizer.decode(ids), stop)


def test_nothing_of_a_stop_string_is_ever_sent():
    tokenizer = TOKENIZERS["byte_level"]
    ids = tokenizer.encode("so END. ENDE more").ids
    assert streamed(tokenizer, ids, [], ("ENDE",)) == ["s", "o", " ", "", "", "", "END.", " ", "", "", "", "", ""]


def test_the_space_before_a_first_word_is_kept_after_a_prompt():
    tokenizer = TOKENIZERS["sentence_pieces"]
    prompt, word = tokenizer.encode("a").ids, tokenizer.vocabulary["▁ab"]
    assert streamed(tokenizer, [word], prompt) == [" ab", ""]
    assert streamed(tokenizer, [word], []) == ["ab", ""]


def test_a_token_by_itself_is_shown_as_in_the_middle_of_a_text():
    assert token_text(TOKENIZERS["byte_level"], TOKENIZERS["byte_level"].vocabulary["Ġa"]) == " a"
    assert token_text(TOKENIZERS["sentence_pieces"], TOKENIZERS["sentence_pieces"].vocabulary["▁ab"]) == " ab"
    assert token_text(TOKENIZERS["word_pieces"], TOKENIZERS["word_pieces"].vocabulary["##b"]) == "b"
    assert token_text(TOKENIZERS["byte_level"], TOKENIZERS["byte_level"].vocabulary["</s>"]) == "</s>"
