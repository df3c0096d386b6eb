"""The tokenizer files of a model folder; folders older than tokenizer.json have theirs built from the vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

from gnomon.errors import GnomonError
from gnomon.formats.files import explained, read_json
from gnomon.text.special_tokens import ROLES


@dataclass(frozen=True, slots=True)
class TokenizerFiles:
    """The text of a tokenizer.json, the content of a tokenizer_config.json, and what had to be decided."""

    json_text: str
    config: dict[str, Any]
    decisions: tuple[str, ...]


def read_tokenizer_folder(folder: Path) -> TokenizerFiles:
    """Read or build the tokenizer of a Hugging Face model folder; GnomonError when it has none that can be used."""
    if not folder.is_dir():
        raise GnomonError(f"{folder} is not a folder", "give a model folder: one with tokenizer.json or vocab.txt")
    config = _config(folder)
    if (folder / "tokenizer.json").exists():
        return TokenizerFiles(_text(folder / "tokenizer.json"), config, ())
    if (folder / "vocab.txt").exists():
        return _from_wordpiece(folder / "vocab.txt", config)
    if (folder / "vocab.json").exists() and (folder / "merges.txt").exists():
        return _from_byte_level(folder / "vocab.json", folder / "merges.txt", config)
    pieces = sorted(path.name for path in folder.iterdir() if path.suffix in (".model", ".spm"))
    if pieces:
        raise GnomonError(
            f"{folder} has only a SentencePiece file ({', '.join(pieces)})",
            "convert it once where transformers and sentencepiece are installed: "
            "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) writes tokenizer.json",
        )
    raise GnomonError(
        f"{folder} has no tokenizer: neither tokenizer.json, nor vocab.txt, nor vocab.json with merges.txt",
        "copy the tokenizer files of the model into the folder",
    )


def _config(folder: Path) -> dict[str, Any]:
    """tokenizer_config.json, completed by the roles of special_tokens_map.json."""
    config: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        if (folder / name).exists():
            content = read_json(folder / name)
            if not isinstance(content, dict):
                raise GnomonError(f"{folder / name} holds no JSON object", "restore the file from where it came")
            config |= {key: value for key, value in content.items() if value is not None or key not in config}
    return config


def casing_disagreement(tokenizer: Mapping[str, Any], config: Mapping[str, Any]) -> tuple[str, ...]:
    """A sentence when a parsed tokenizer.json and its tokenizer_config.json differ on lower-casing."""
    normalizer = tokenizer.get("normalizer") or {}
    if normalizer.get("type") != "BertNormalizer" or not isinstance(config.get("do_lower_case"), bool):
        return ()
    if config["do_lower_case"] == bool(normalizer.get("lowercase")):
        return ()
    does = "lower-cases" if normalizer.get("lowercase") else "keeps case"
    said = "true" if config["do_lower_case"] else "false"
    return (
        f"tokenizer.json {does} although tokenizer_config.json says do_lower_case = {said}: the former is followed",
    )


def _from_wordpiece(path: Path, config: dict[str, Any]) -> TokenizerFiles:
    tokens = [line.removesuffix("\r") for line in _text(path).split("\n")]
    if tokens[-1] == "":
        tokens.pop()
    vocabulary = {token: index for index, token in enumerate(tokens)}
    lowercase, decisions = _casing(vocabulary, config)
    if len(vocabulary) < len(tokens):
        decisions += (f"{path.name} repeats {len(tokens) - len(vocabulary)} tokens: the last of each counts",)
    roles = {role: _role(config, role, f"[{role.upper()}]") for role in ("unk", "cls", "sep", "pad", "mask")}
    missing = [roles[role] for role in ("unk", "cls", "sep") if roles[role] not in vocabulary]
    if missing:
        raise GnomonError(
            f"{path} has no {' and no '.join(missing)}, which a WordPiece vocabulary needs",
            "name them in tokenizer_config.json (unk_token, cls_token, sep_token) or restore vocab.txt",
        )
    tokenizer = tokenizers.Tokenizer(
        models.WordPiece(
            vocabulary, unk_token=roles["unk"], continuing_subword_prefix="##", max_input_chars_per_word=100
        )
    )
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=config.get("tokenize_chinese_chars", True),
        strip_accents=config.get("strip_accents"),
        lowercase=lowercase,
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    first, last = roles["cls"], roles["sep"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{first}:0 $A:0 {last}:0",
        pair=f"{first}:0 $A:0 {last}:0 $B:1 {last}:1",
        special_tokens=[(first, vocabulary[first]), (last, vocabulary[last])],
    )
    tokenizer.add_special_tokens([name for name in roles.values() if name in vocabulary])
    written = {"tokenizer_class": "BertTokenizer", **config, "do_lower_case": lowercase}
    return TokenizerFiles(tokenizer.to_str(), written, decisions)


def _casing(vocabulary: Mapping[str, int], config: Mapping[str, Any]) -> tuple[bool, tuple[str, ...]]:
    """Whether to lower-case: as declared, else as the vocabulary shows."""
    if isinstance(config.get("do_lower_case"), bool):
        return config["do_lower_case"], ()
    words = (token.removeprefix("##") for token in vocabulary)
    capital = next((word for word in words if word.isascii() and word.isalpha() and word != word.lower()), None)
    if capital is None:
        return True, ("text is lower-cased: the vocabulary has no capital letters and no file says otherwise",)
    return False, (f"case is kept: the vocabulary has capitals ({capital!r}) and no file says otherwise",)


def _from_byte_level(vocab_path: Path, merges_path: Path, config: dict[str, Any]) -> TokenizerFiles:
    vocabulary = read_json(vocab_path)
    if not isinstance(vocabulary, dict) or not set(pre_tokenizers.ByteLevel.alphabet()) <= vocabulary.keys():
        raise GnomonError(
            f"{vocab_path} is no byte-level vocabulary: it lacks some of the 256 byte characters",
            "give a folder with tokenizer.json",
        )
    lines = _text(merges_path).split("\n")
    merges = [
        (left, right)
        for left, _, right in (
            line.removesuffix("\r").partition(" ") for line in lines if not line.startswith("#version")
        )
        if right
    ]
    prefix_space = bool(config.get("add_prefix_space", False))
    try:
        tokenizer = tokenizers.Tokenizer(models.BPE(vocabulary, merges))
    except Exception as error:  # the library raises bare Exception
        raise GnomonError(
            f"{merges_path} does not fit {vocab_path}: {error}", "restore both from where they came"
        ) from error
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    tokenizer.decoder = decoders.ByteLevel()
    known = {"bos": "<s>", "eos": "</s>", "unk": "<unk>", "cls": "<s>", "sep": "</s>", "pad": "<pad>", "mask": "<mask>"}
    roles = {role: name for role in ROLES if (name := _role(config, role, known[role])) in vocabulary}
    if "cls" in roles and "sep" in roles:
        sep, cls = ((roles[role], vocabulary[roles[role]]) for role in ("sep", "cls"))
        tokenizer.post_processor = processors.RobertaProcessing(sep, cls, add_prefix_space=prefix_space)
    else:
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    # RoBERTa's mask takes the space before it along; the other special tokens stand as they are.
    tokenizer.add_special_tokens(
        [AddedToken(name, lstrip=name == roles.get("mask"), special=True) for name in dict.fromkeys(roles.values())]
    )
    kind = "RobertaTokenizer" if "cls" in roles and "sep" in roles else "GPT2Tokenizer"
    return TokenizerFiles(tokenizer.to_str(), {"tokenizer_class": kind, **config, **_names(roles)}, ())


def _names(roles: Mapping[str, str]) -> dict[str, str]:
    return {f"{role}_token": name for role, name in roles.items()}


def _role(config: Mapping[str, Any], role: str, default: str) -> str:
    value = config.get(f"{role}_token")
    if isinstance(value, Mapping):
        value = value.get("content")
    return value if isinstance(value, str) else default


def _text(path: Path) -> str:
    with explained(path, doing="read"):
        data = path.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise GnomonError(
            f"{path} is not UTF-8 at byte {error.start}", "restore the file from where it came"
        ) from error
