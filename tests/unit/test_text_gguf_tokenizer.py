"""Tokenizers through GGUF metadata and back: the same ids for the same text."""

from __future__ import annotations

import json

import pytest

from gnomon.errors import GnomonError
from gnomon.formats.gguf import read_gguf, write_gguf
from gnomon.formats.gguf_models import Storage
from gnomon.text.gguf_tokenizer import _PRE_TOKENIZERS, tokenizer_from_gguf, tokenizer_to_gguf
from gnomon.text.tokenizer import Tokenizer
from gnomon.text.tokenizer_training import train_on

TEXTS = ["Hello world, hello 2024!", "  two\n\n lines\t", "你好 naïve 😀", "<|end_of_text|>x", "", "it's 'S WE'LL"]
CORPUS = ["Hello world, it's a world of hello and the lines of text 2023 2024"] * 9


@pytest.fixture(scope="module")
def byte_level() -> Tokenizer:
    return train_on(CORPUS, size=330).tokenizer


def sentence_pieces(scheme: str = "first") -> Tokenizer:
    words = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    words += ["▁t", "he", "▁the", "▁", "t", "h", "e", "l", "o", "lo", "el", "hel"]
    merges = [("▁", "t"), ("h", "e"), ("▁t", "he"), ("l", "o"), ("e", "l"), ("h", "el"), ("he", "l")]
    content = {
        "version": "1.0",
        "added_tokens": [
            {
                "id": number,
                "content": word,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for number, word in enumerate(words[:3])
        ],
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": False},
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                *([{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if scheme == "first" else []),
            ],
        },
        "model": {
            "type": "BPE",
            "vocab": {word: number for number, word in enumerate(words)},
            "merges": merges,
            "fuse_unk": True,
            "byte_fallback": True,
        },
    }
    return Tokenizer.from_json(json.dumps(content), {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"})


def through_a_file(tokenizer: Tokenizer, tmp_path, **more) -> tuple[Tokenizer, dict]:
    path = tmp_path / "t.gguf"
    write_gguf(path, metadata=tokenizer_to_gguf(tokenizer, **more), arrays={}, type_of=Storage("F32"))
    metadata = read_gguf(path).metadata
    return tokenizer_from_gguf(metadata), metadata


def test_a_byte_level_tokenizer_gives_the_same_ids(byte_level, tmp_path):
    again, metadata = through_a_file(byte_level, tmp_path)
    assert [again.encode(text) for text in TEXTS] == [byte_level.encode(text) for text in TEXTS]
    assert all(again.decode(again.encode(text).ids) == byte_level.decode(byte_level.encode(text).ids) for text in TEXTS)
    assert (again.bos_id, again.eos_id, again.pad_id) == (byte_level.bos_id, byte_level.eos_id, byte_level.pad_id)
    assert again.special_ids == byte_level.special_ids
    assert metadata["tokenizer.ggml.pre"] == "qwen2"
    assert metadata["tokenizer.ggml.add_bos_token"] is True


@pytest.mark.parametrize("name", _PRE_TOKENIZERS)
def test_every_known_way_of_cutting_words_keeps_its_name(byte_level, tmp_path, name):
    content = json.loads(byte_level.to_json())
    steps = _PRE_TOKENIZERS[name]
    content["pre_tokenizer"] = steps[0] if len(steps) == 1 else {"type": "Sequence", "pretokenizers": steps}
    content["post_processor"] = None
    tokenizer = Tokenizer.from_json(json.dumps(content), byte_level.config)
    again, metadata = through_a_file(tokenizer, tmp_path)
    assert metadata["tokenizer.ggml.pre"] == name
    assert metadata["tokenizer.ggml.add_bos_token"] is False
    assert [again.encode(text).ids for text in TEXTS] == [tokenizer.encode(text).ids for text in TEXTS]


@pytest.mark.parametrize("scheme", ["first", "never"])
def test_a_sentence_piece_tokenizer_gives_the_same_ids(tmp_path, scheme):
    tokenizer = sentence_pieces(scheme)
    again, metadata = through_a_file(tokenizer, tmp_path)
    texts = ["the hello", " the  lohel", "你 the", "thel lothe", "</s>the"]
    assert [again.encode(text) for text in texts] == [tokenizer.encode(text) for text in texts]
    assert [again.decode(again.encode(text).ids) for text in texts] == [
        tokenizer.decode(tokenizer.encode(text).ids) for text in texts
    ]
    kinds = metadata["tokenizer.ggml.token_type"]
    assert kinds[:4] == [2, 3, 3, 6]
    assert metadata["tokenizer.ggml.add_space_prefix"] == (scheme == "first")


def test_missing_ids_and_padded_embeddings_become_unused_tokens(byte_level, tmp_path):
    again, metadata = through_a_file(byte_level, tmp_path, vocab_size=340)
    assert len(metadata["tokenizer.ggml.tokens"]) == 340
    assert metadata["tokenizer.ggml.token_type"][330:] == [5] * 10
    assert again.encode(TEXTS[0]).ids == byte_level.encode(TEXTS[0]).ids


def test_a_chat_template_goes_along(byte_level, tmp_path):
    tokenizer = Tokenizer.from_json(byte_level.to_json(), {**byte_level.config, "chat_template": "{{ x }}"})
    assert through_a_file(tokenizer, tmp_path)[0].config["chat_template"] == "{{ x }}"


@pytest.mark.parametrize(("kind", "message"), [("wordpiece", "WordPiece"), ("unigram", "Unigram"), ("bpe", "no name")])
def test_tokenizers_llama_cpp_does_not_have_are_refused(kind, message):
    with pytest.raises(GnomonError, match=message):
        tokenizer_to_gguf(train_on(CORPUS, kind=kind, size=120).tokenizer)


def test_a_lower_casing_tokenizer_is_refused(byte_level):
    content = json.loads(byte_level.to_json())
    content["normalizer"] = {"type": "Lowercase"}
    with pytest.raises(GnomonError, match=r"changes text \(Lowercase\)"):
        tokenizer_to_gguf(Tokenizer.from_json(json.dumps(content), byte_level.config))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokenizer.ggml.model": "t5"}, "'t5'"),
        ({"tokenizer.ggml.pre": "tekken"}, "'tekken'"),
        ({"tokenizer.ggml.tokens": []}, "holds no tokenizer"),
    ],
)
def test_tokenizers_that_are_not_read_are_named(byte_level, change, message):
    with pytest.raises(GnomonError, match=message):
        tokenizer_from_gguf({**tokenizer_to_gguf(byte_level), **change})
