"""Tokenizer: folders old and new, special tokens by role, exact truncation, and use by many threads."""

from __future__ import annotations

import copy
import json
import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

from gnomon.errors import GnomonError
from gnomon.text.encodings import mend_surrogates
from gnomon.text.tokenizer import Tokenizer

TEXTS = [
    "How did serfdom develop in and then leave Russia ?",
    "What films featured the character Popeye Doyle ?",
    "naïve cafés, 我喜欢你 and [MASK] it!",
    "",
    "   ",
]


@pytest.fixture(scope="module")
def minilm(minilm_folder: Path) -> Tokenizer:
    return Tokenizer.from_dir(minilm_folder)


def byte_level(*, template: bool) -> tokenizers.Tokenizer:
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"] if template else ["<|endoftext|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(TEXTS * 3, trainer)
    if template:
        backend.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return backend


def test_roles_and_sizes(minilm: Tokenizer) -> None:
    assert (minilm.pad_id, minilm.unk_id, minilm.cls_id, minilm.sep_id, minilm.mask_id) == (0, 100, 101, 102, 103)
    assert minilm.special_ids == {0, 100, 101, 102, 103}
    assert minilm.vocab_size == 30522 == len(minilm.vocabulary)
    assert minilm.decisions == ()


def test_truncation_and_padding_of_the_file_are_ignored(minilm: Tokenizer, minilm_folder: Path) -> None:
    stored = json.loads((minilm_folder / "tokenizer.json").read_text())
    assert stored["truncation"] is not None
    assert stored["padding"] is not None
    assert len(minilm.encode("word " * 500).ids) == 502
    assert json.loads(minilm.to_json())["truncation"] is None


@pytest.mark.parametrize("length", [3, 4, 7, 13, 14, 15])
def test_truncation_keeps_both_ends(minilm: Tokenizer, length: int) -> None:
    whole = minilm.encode(TEXTS[0])
    cut = minilm.encode(TEXTS[0], max_length=length)
    assert len(whole.ids) == 14
    assert cut.truncated is (length < 14)
    assert cut.ids == (whole.ids if length >= 14 else [*whole.ids[: length - 1], minilm.sep_id])
    assert minilm.encode_batch(TEXTS, max_length=length) == [minilm.encode(text, max_length=length) for text in TEXTS]


def test_truncation_without_a_template() -> None:
    plain = Tokenizer.from_json(byte_level(template=False).to_str())
    ids = plain.encode(TEXTS[0]).ids
    assert plain.encode(TEXTS[0], max_length=4).ids == ids[:4]
    roberta = Tokenizer.from_json(byte_level(template=True).to_str())
    cut = roberta.encode(TEXTS[0], max_length=5)
    assert (cut.ids[0], cut.ids[-1], len(cut.ids), cut.truncated) == (0, 2, 5, True)


def test_too_small_a_length_is_refused(minilm: Tokenizer) -> None:
    with pytest.raises(GnomonError, match="special tokens alone take 2"):
        minilm.encode("a b c", max_length=2)


def test_unknowns_are_counted(minilm: Tokenizer) -> None:
    assert minilm.encode("hello😀").unknown == 1
    assert minilm.encode("hello").unknown == 0
    assert minilm.encode("😀 😀 😀 😀", max_length=4).unknown == 2


def test_half_a_surrogate_pair_is_replaced(minilm: Tokenizer) -> None:
    assert mend_surrogates("a\ud83db") == ("a\ufffdb", 1)
    assert mend_surrogates("\ud83d\ude00 \udc80") == ("😀 \ufffd", 1)
    assert minilm.encode("a \ud83d b") == minilm.encode("a \ufffd b")
    assert minilm.encode_batch(["x", "a \ud83d b"])[1] == minilm.encode("a \ufffd b")
    assert minilm.encode("\ud83d\ude00").ids == minilm.encode("😀").ids


@settings(deadline=None, derandomize=True, max_examples=200)
@given(text=st.text(st.characters(), max_size=30))
def test_any_string_encodes(text: str) -> None:
    tokenizer = _any_string_tokenizer()
    mended, _ = mend_surrogates(text)
    assert tokenizer.encode(text) == tokenizer.encode(mended) == tokenizer.encode_batch([text])[0]
    mended.encode("utf-8")


_CACHE: list[Tokenizer] = []


def _any_string_tokenizer() -> Tokenizer:
    if not _CACHE:
        _CACHE.append(Tokenizer.from_json(byte_level(template=True).to_str()))
    return _CACHE[0]


@pytest.mark.parametrize("text", [None, 3, ["a", "b"], ("a", "b"), b"bytes"])
def test_only_strings_are_texts(minilm: Tokenizer, text: object) -> None:
    with pytest.raises(GnomonError, match="must be a string"):
        minilm.encode(text)  # type: ignore[arg-type]
    with pytest.raises(GnomonError, match="must be a string"):
        minilm.encode_batch(["good", text])  # type: ignore[list-item]
    with pytest.raises(GnomonError, match="list of texts"):
        minilm.encode_batch("one string")


def test_thousands_of_concurrent_encodes(minilm: Tokenizer) -> None:
    expected = [minilm.encode(text, max_length=8) for text in TEXTS]

    def work(number: int) -> bool:
        index = number % len(TEXTS)
        one = minilm.encode(TEXTS[index], max_length=8) == expected[index]
        return one and (number % 10 != 0 or minilm.encode_batch(TEXTS, max_length=8) == expected)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8000)))


def test_fingerprint_and_copies(minilm: Tokenizer) -> None:
    again = Tokenizer.from_json(minilm.to_json(), minilm.config)
    assert again.fingerprint == minilm.fingerprint == pickle.loads(pickle.dumps(minilm)).fingerprint
    assert len(minilm.fingerprint) == 64
    assert copy.deepcopy(minilm) is minilm
    other = json.loads(minilm.to_json())
    vocabulary = other["model"]["vocab"]
    vocabulary["cat"], vocabulary["dog"] = vocabulary["dog"], vocabulary["cat"]
    assert Tokenizer.from_json(json.dumps(other)).fingerprint != minilm.fingerprint
    minilm.self_test()


def test_decode(minilm: Tokenizer) -> None:
    assert minilm.decode(minilm.encode("What is a gnomon?").ids) == "what is a gnomon?"


def test_kept_configuration_names_no_place_and_no_code(minilm_folder: Path, tmp_path: Path) -> None:
    shutil.copy(minilm_folder / "tokenizer.json", tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps(
            {"auto_map": {"AutoTokenizer": "code.py"}, "name_or_path": "/home/someone/model", "model_max_length": 9}
        )
    )
    config = Tokenizer.from_dir(tmp_path).config
    assert config["model_max_length"] == 9
    assert config["pad_token"] == "[PAD]"
    assert not {"auto_map", "name_or_path"} & config.keys()


class TestVocabTxt:
    WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "##s", "a", "我", "é", "e")

    def write(self, folder: Path, *extra: str, **config: object) -> Tokenizer:
        (folder / "vocab.txt").write_text("\n".join((*self.WORDS, *extra)) + "\n", encoding="utf-8")
        if config:
            (folder / "tokenizer_config.json").write_text(json.dumps(config))
        return Tokenizer.from_dir(folder)

    def test_casing_follows_the_vocabulary(self, tmp_path: Path) -> None:
        lower = self.write(tmp_path)
        assert lower.encode("The cats").ids == [2, 5, 6, 7, 3]
        assert "lower-cased" in lower.decisions[0]
        assert lower.config["do_lower_case"] is True
        cased = self.write(tmp_path, "The")
        assert cased.encode("The cats the").ids == [2, 12, 6, 7, 5, 3]
        assert "'The'" in cased.decisions[0]
        assert cased.config["do_lower_case"] is False

    def test_casing_is_as_declared(self, tmp_path: Path) -> None:
        declared = self.write(tmp_path, "The", do_lower_case=True)
        assert declared.encode("The").ids == [2, 5, 3]
        assert declared.decisions == ()

    def test_windows_lines_and_odd_tokens(self, tmp_path: Path) -> None:
        tokens = [*self.WORDS, "\u2028", "\u0085x", "last"]
        (tmp_path / "vocab.txt").write_bytes("\r\n".join(tokens).encode())
        assert Tokenizer.from_dir(tmp_path).vocabulary["last"] == len(tokens) - 1

    def test_missing_special_token(self, tmp_path: Path) -> None:
        (tmp_path / "vocab.txt").write_text("a\nb\n")
        with pytest.raises(GnomonError, match=r"no \[UNK\] and no \[CLS\]"):
            Tokenizer.from_dir(tmp_path)

    def test_same_ids_as_transformers(self, minilm_folder: Path, minilm: Tokenizer, tmp_path: Path) -> None:
        transformers = pytest.importorskip("transformers")
        shutil.copy(minilm_folder / "vocab.txt", tmp_path)
        ours = Tokenizer.from_dir(tmp_path)
        theirs = transformers.BertTokenizer(str(tmp_path / "vocab.txt"))
        for text in TEXTS:
            assert ours.encode(text).ids == minilm.encode(text).ids == theirs(text)["input_ids"]


class TestVocabJson:
    def test_roberta_and_gpt2(self, tmp_path: Path) -> None:
        transformers = pytest.importorskip("transformers")
        for template, kind in ((True, transformers.RobertaTokenizer), (False, transformers.GPT2Tokenizer)):
            backend = byte_level(template=template)
            folder = tmp_path / kind.__name__
            folder.mkdir()
            backend.model.save(str(folder))
            ours = Tokenizer.from_dir(folder)
            # In roberta-base's tokenizer.json the mask takes the space before it; here the class must be told.
            mask = {"mask_token": tokenizers.AddedToken("<mask>", lstrip=True, special=True)} if template else {}
            theirs = kind(str(folder / "vocab.json"), str(folder / "merges.txt"), **mask)
            for text in (*TEXTS, "a <mask> b", "x</s>y"):
                assert ours.encode(text).ids == theirs(text)["input_ids"], (kind, text)
            assert ours.config["tokenizer_class"] == kind.__name__
            assert (ours.cls_id, ours.sep_id, ours.pad_id) == ((0, 2, 1) if template else (None, None, 1))
            ours.self_test()

    def test_no_padding_token_is_said(self) -> None:
        gpt2 = Tokenizer.from_json(byte_level(template=False).to_str(), {"eos_token": "<|endoftext|>"})
        assert gpt2.vocabulary["<|endoftext|>"] == 0
        assert gpt2.pad_id == 1
        assert "no padding token" in gpt2.decisions[0]
        assert gpt2.unk_id is None
        both = Tokenizer.from_json(
            byte_level(template=False).to_str(), {"eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"}
        )
        assert both.pad_id == 0
        assert "both pads and ends" in both.decisions[0]

    def test_not_byte_level(self, tmp_path: Path) -> None:
        (tmp_path / "vocab.json").write_text('{"a": 0, "b": 1}')
        (tmp_path / "merges.txt").write_text("#version: 0.2\n")
        with pytest.raises(GnomonError, match="no byte-level vocabulary"):
            Tokenizer.from_dir(tmp_path)


def test_casing_that_the_files_disagree_on_is_said(minilm: Tokenizer) -> None:
    odd = Tokenizer.from_json(minilm.to_json(), {**minilm.config, "do_lower_case": False})
    assert "lower-cases although" in odd.decisions[0]


def test_saved_configuration_loads_in_transformers(minilm: Tokenizer, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    for number, config in enumerate((minilm.config, {})):
        ours = Tokenizer.from_json(minilm.to_json(), config)
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "tokenizer.json").write_text(ours.to_json(), encoding="utf-8")
        (folder / "tokenizer_config.json").write_text(json.dumps(ours.config))
        (folder / "config.json").write_text('{"model_type": "bert"}')
        theirs = transformers.AutoTokenizer.from_pretrained(str(folder))
        assert [theirs(text)["input_ids"] for text in TEXTS] == [ours.encode(text).ids for text in TEXTS]
        assert theirs.pad_token == "[PAD]"


class TestFolders:
    def test_absent_folder(self, tmp_path: Path) -> None:
        with pytest.raises(GnomonError, match="not a folder"):
            Tokenizer.from_dir(tmp_path / "none")

    def test_no_tokenizer(self, tmp_path: Path) -> None:
        with pytest.raises(GnomonError, match="has no tokenizer"):
            Tokenizer.from_dir(tmp_path)

    def test_only_sentencepiece(self, tmp_path: Path) -> None:
        (tmp_path / "spiece.model").write_bytes(b"\n\x0e")
        with pytest.raises(GnomonError, match=r"spiece\.model") as caught:
            Tokenizer.from_dir(tmp_path)
        assert "save_pretrained" in caught.value.hint

    @pytest.mark.parametrize("content", [b"", b"{", b'{"version": "1.0"}', b"[1]", b"\xff\xfe\x00"])
    def test_damaged_file(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "tokenizer.json").write_bytes(content)
        with pytest.raises(GnomonError):
            Tokenizer.from_dir(tmp_path)
