"""A tokenizer of whole words, for models that start from word vectors: the vocabulary is the vectors' own."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import Regex, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend

from gnomon.text.tokenizer import Tokenizer

PAD, UNKNOWN, MASK = "[PAD]", "[UNK]", "[MASK]"
_WORDS = r"\w+(?:[.'’\-]\w+)*|[^\w\s]"
"""Words with the dots, apostrophes and hyphens inside them; any other sign by itself."""
_PARTED_WORDS = r"['’]\w+|\w+(?:[.\-]\w+)*|[^\w\s]"
"""The same for vocabularies that part "dog's" into "dog" and "'s", as GloVe's do."""
_CHARACTERS = r"\S"


def word_tokenizer(words: Sequence[str], *, by_character: bool = False, mask_token: str = MASK) -> Tokenizer:
    """A tokenizer.json of `words`, after the special tokens; what is not among them is unknown.

    Text is put in lower case where no word has a capital, and parted at white space and signs, or `by_character`.
    """
    special = [PAD, UNKNOWN, mask_token]
    numbers = {word: number for number, word in enumerate(dict.fromkeys([*special, *words]))}
    backend = Backend(models.WordLevel(numbers, unk_token=UNKNOWN))
    if not any(word != word.lower() for word in words):
        backend.normalizer = normalizers.Lowercase()
    pattern = _CHARACTERS if by_character else _PARTED_WORDS if "'s" in numbers else _WORDS
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    backend.add_special_tokens(special)
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": PAD, "unk_token": UNKNOWN}
    return Tokenizer.from_json(backend.to_str(), config | {"mask_token": mask_token})
