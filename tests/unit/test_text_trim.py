"""A trimmed vocabulary segments the training texts as before, for every kind of tokenizer."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers

from gnomon.errors import GnomonError
from gnomon.text.tokenizer import Tokenizer
from gnomon.text.trim import trim

CORPUS = [
    "how did serfdom develop in and then leave russia",
    "what films featured the character popeye doyle",
    "the cat sat on the mat and the cats sat on the mats",
    "我 非常 喜欢 北京 的 苹果 我 非常 喜欢 你",
    "abababab bababa aabb abab baab",
    "naïve café élan 🙂🙂 🙂",
] * 4
WORDS = st.sampled_from([*" ".join(CORPUS).split(), "catmat", "xyz", "Ωmega", "🙂a", "喜", "aab", "ababa", ""])
SENTENCES = st.lists(WORDS, max_size=8).map(" ".join)
FREE = st.text(alphabet="ab cdeé我喜🙂z▁#", max_size=20)


def wordpiece() -> tokenizers.Tokenizer:
    backend = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    backend.train_from_iterator(
        CORPUS, trainers.WordPieceTrainer(vocab_size=220, special_tokens=special, show_progress=False)
    )
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return backend


def byte_level() -> tokenizers.Tokenizer:
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=420, special_tokens=["<s>", "</s>", "<pad>"], initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator(CORPUS, trainer)
    backend.add_special_tokens(["<mask>"])
    backend.add_tokens(["popeye"])
    backend.post_processor = processors.Sequence(
        [processors.ByteLevel(), processors.RobertaProcessing(("</s>", 1), ("<s>", 0))]
    )
    return backend


def classic_bpe() -> tokenizers.Tokenizer:
    backend = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(
        vocab_size=200, special_tokens=["<unk>"], end_of_word_suffix="</w>", show_progress=False
    )
    backend.train_from_iterator(CORPUS, trainer)
    return backend


def prefixed_bpe() -> tokenizers.Tokenizer:
    backend = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="##"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(
        vocab_size=200, special_tokens=["<unk>"], continuing_subword_prefix="##", show_progress=False
    )
    backend.train_from_iterator(CORPUS, trainer)
    return backend


def fallback_bpe() -> tokenizers.Tokenizer:
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    backend = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    backend.normalizer = normalizers.Replace(" ", "▁")
    trainer = trainers.BpeTrainer(vocab_size=500, special_tokens=["<unk>", "<s>", *bytes_], show_progress=False)
    backend.train_from_iterator(CORPUS[:12], trainer)
    parsed = json.loads(backend.to_str())
    parsed["added_tokens"] = parsed["added_tokens"][:2]  # the bytes are pieces, no added tokens
    return tokenizers.Tokenizer.from_str(json.dumps(parsed))


def unigram() -> tokenizers.Tokenizer:
    backend = tokenizers.Tokenizer(models.Unigram())
    backend.normalizer = normalizers.Replace(Regex(" {2,}"), " ")
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(vocab_size=150, special_tokens=special, unk_token="<unk>", show_progress=False)
    backend.train_from_iterator(CORPUS, trainer)
    backend.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return backend


def word_level() -> tokenizers.Tokenizer:
    backend = tokenizers.Tokenizer(models.WordLevel(unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.train_from_iterator(CORPUS, trainers.WordLevelTrainer(special_tokens=["<unk>"], show_progress=False))
    return backend


KINDS = (wordpiece, byte_level, classic_bpe, prefixed_bpe, fallback_bpe, unigram, word_level)
kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


@cache
def trained(kind: Callable[[], tokenizers.Tokenizer]) -> Tokenizer:
    return Tokenizer.from_json(kind().to_str())


@kinds
@settings(deadline=None, derandomize=True, max_examples=40)
@given(texts=st.lists(st.one_of(SENTENCES, FREE), max_size=6), others=st.lists(SENTENCES, max_size=3))
def test_training_texts_segment_as_before(
    kind: Callable[[], tokenizers.Tokenizer], texts: list[str], others: list[str]
) -> None:
    whole = trained(kind)
    result = trim(whole, texts)
    small = result.tokenizer
    for text in texts:
        assert result.kept_ids[small.encode(text).ids].tolist() == whole.encode(text).ids
    whole_token = {index: token for token, index in whole.vocabulary.items()}
    assert {token: whole_token[result.kept_ids[index]] for token, index in small.vocabulary.items()} == {
        token: token for token in small.vocabulary
    }
    assert {whole_token[index] for index in whole.special_ids} == {
        token for token, index in small.vocabulary.items() if index in small.special_ids
    }
    assert whole_token[result.kept_ids[small.pad_id]] == whole_token[whole.pad_id]
    for text in others:  # new words have pieces too: nothing becomes unknown that was not before
        assert (small.encode(text).unknown > 0) == (whole.encode(text).unknown > 0) or kind is word_level
    small.self_test()


@kinds
def test_it_is_smaller_and_repeatable(kind: Callable[[], tokenizers.Tokenizer]) -> None:
    whole = trained(kind)
    once = trim(whole, CORPUS[:1])
    assert once.tokenizer.vocab_size == len(once.kept_ids) < whole.vocab_size
    again = trim(once.tokenizer, CORPUS[:1])
    assert again.tokenizer.fingerprint == once.tokenizer.fingerprint
    assert trim(whole, iter(CORPUS[:1])).tokenizer.fingerprint == once.tokenizer.fingerprint


@kinds
def test_minimum_count_drops_rare_pieces(kind: Callable[[], tokenizers.Tokenizer]) -> None:
    whole = trained(kind)
    texts = ["the cat sat on the mat", "the cats sat on the mats", "the russia"]
    once, thrice = trim(whole, texts), trim(whole, texts, minimum_count=3)
    assert set(thrice.kept_ids) < set(once.kept_ids)
    assert thrice.tokenizer.encode("the").ids


@kinds
def test_no_texts_at_all(kind: Callable[[], tokenizers.Tokenizer]) -> None:
    small = trim(trained(kind), []).tokenizer
    assert small.encode("the cat").ids


def test_unigram_keeps_the_price_of_the_unknown() -> None:
    """The penalty of an unknown character hangs on the lowest score of the vocabulary, even of a piece never used."""
    pieces = [("<unk>", 0.0), ("ab", -14.0), ("a", -1.0), ("c", -2.0), ("never", -9.0)]
    backend = tokenizers.Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=False))
    whole = Tokenizer.from_json(backend.to_str())
    assert whole.encode("ab").ids == [1]  # -14 beats "a" and an unknown: -1 - (14 + 10)
    result = trim(whole, ["a", "c"])
    assert set(result.kept_ids) == {0, 1, 2, 3}


def test_added_tokens_decoder_is_renumbered() -> None:
    whole = trained(wordpiece)
    listed = {"4": {"content": "[MASK]", "special": True}, "99": {"content": "gone", "special": False}}
    small = trim(Tokenizer.from_json(whole.to_json(), {"added_tokens_decoder": listed}), CORPUS[:1]).tokenizer
    assert small.config["added_tokens_decoder"] == {str(small.mask_id): listed["4"]}


def test_minilm_on_real_questions(minilm_folder: Path, demo_questions: Path) -> None:
    whole = Tokenizer.from_dir(minilm_folder)
    lines = demo_questions.read_text(encoding="utf-8").split("\n")
    texts = sorted({line.partition(" ")[2] for line in lines})
    train, test = texts[::2], texts[1::2]
    result = trim(whole, train)
    assert 5000 < result.tokenizer.vocab_size < 12000
    assert np.array_equal(result.kept_ids, np.sort(result.kept_ids))
    before, after = whole.encode_batch(test), result.tokenizer.encode_batch(test)
    assert sum(row.unknown for row in after) == sum(row.unknown for row in before)
    lengths = [sum(len(row.ids) for row in rows) for rows in (before, after)]
    assert lengths[0] <= lengths[1] < 1.15 * lengths[0]


def test_same_ids_in_transformers(tmp_path: Path, minilm_folder: Path) -> None:
    transformers = pytest.importorskip("transformers")
    small = trim(Tokenizer.from_dir(minilm_folder), CORPUS).tokenizer
    (tmp_path / "tokenizer.json").write_text(small.to_json(), encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(small.config))
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    theirs = transformers.AutoTokenizer.from_pretrained(str(tmp_path))
    assert [theirs(text)["input_ids"] for text in CORPUS[:6]] == [small.encode(text).ids for text in CORPUS[:6]]


def test_unknown_kind_is_refused() -> None:
    class Odd(Tokenizer):
        def to_json(self) -> str:
            return json.dumps({**json.loads(super().to_json()), "model": {"type": "Odd"}})

    with pytest.raises(GnomonError, match="type Odd cannot be trimmed"):
        trim(Odd(trained(wordpiece).to_json(), {}), ["a"])
