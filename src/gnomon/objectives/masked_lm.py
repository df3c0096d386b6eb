"""Learning to say what stood under a mask (BERT; Devlin et al. 2019)."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from gnomon.errors import GnomonError
from gnomon.models.base import Model
from gnomon.models.heads import MaskedLanguageHeadConfig
from gnomon.nn.vocabulary import log_probabilities, summed_cross_entropy
from gnomon.objectives.base import Batch, Objective, Term
from gnomon.objectives.causal_lm import chosen_features, language_metrics, language_out
from gnomon.text.tokenizer import Tokenizer
from gnomon.text.windows import NO_TARGET, Window, pack

TERM = "masked_token"
_SHOWN_AS_MASK, _SHOWN_AS_OTHER = 0.8, 0.1  # of the chosen; the rest are shown as they are


class MaskedLM(Objective):
    """Cross-entropy to the tokens chosen of a text, one term ("masked_token"), weighted by token.

    Of each window, `share` of the ordinary tokens are chosen (one at least): 80 % are shown as the mask, 10 % as some
    other token, 10 % as themselves. In training the choice is drawn anew each time, from torch's generator; in an
    evaluation it follows from the text alone, so that evaluations compare. All of a window is read, its last id too.
    """

    def __init__(
        self, *, mask_id: int, pad_id: int, special_ids: frozenset[int], vocab_size: int, share: float = 0.15
    ) -> None:
        super().__init__()
        if not 0 < share < 1:
            raise GnomonError(f"the share of masked tokens is {share}", "give a number between 0 and 1")
        self.mask_id = mask_id
        self.pad_id = pad_id
        self.share = share
        self._ordinary = np.setdiff1d(np.arange(vocab_size), np.fromiter(special_ids, np.int64, len(special_ids)))
        self._special = np.zeros(vocab_size, dtype=bool)
        self._special[[token for token in special_ids if token < vocab_size]] = True
        if not len(self._ordinary):
            raise GnomonError("every token is special: there is nothing to hide", "use a tokenizer with other tokens")

    @classmethod
    def for_tokenizer(cls, tokenizer: Tokenizer, *, share: float = 0.15) -> MaskedLM:
        """With the special tokens of `tokenizer`; raises GnomonError where it has no mask token."""
        if tokenizer.mask_id is None:
            raise GnomonError("the tokenizer has no mask token", "train one with a mask token, such as [MASK]")
        return cls(
            mask_id=tokenizer.mask_id,
            pad_id=tokenizer.pad_id,
            special_ids=tokenizer.special_ids,
            vocab_size=tokenizer.vocab_size,
            share=share,
        )

    def collate(self, examples: Sequence[Window]) -> Batch:
        """ids, targets int64 [B, T] and mask bool [B, T]; documents int64 [B, T] too where a window holds several."""
        packed = pack(examples, length=max(len(window.ids) for window in examples), pad_id=self.pad_id)
        real = packed.documents >= 0
        ids, targets = self._hidden(packed.ids, real)
        arrays = {"ids": ids, "targets": targets, "mask": real}
        if packed.documents.max() > 0:
            arrays["documents"] = packed.documents
        return Batch(arrays, {TERM: float((targets != NO_TARGET).sum())})

    def check(self, model: Model) -> None:
        """Refuse a model without a masked-language head, and one that sees no later token."""
        if not isinstance(model.head_config, MaskedLanguageHeadConfig) or model.backbone.causal:
            raise GnomonError(
                f"a {model.backbone.family} model with a {model.head_config.kind} head cannot learn masked tokens",
                "use a masked-language head on an encoder",
            )

    def loss(self, model: Model, batch: Mapping[str, Tensor], weights: Mapping[str, float]) -> dict[str, Term]:
        """The summed cross-entropy."""
        features, targets = self._features(model, batch)
        out = language_out(model)
        return {TERM: Term(summed_cross_entropy(features, out.matrix, out.bias, targets), weights[TERM])}

    def evaluate(self, model: Model, batches: Sequence[Sequence[Window]]) -> dict[str, float]:
        """`loss` in nats a masked token, and `perplexity`."""
        total, weight = 0.0, 0.0
        for examples in batches:
            batch = self.collate(examples)
            features, targets = self._features(model, batch.to(model.device))
            out = language_out(model)
            total -= log_probabilities(features, out.matrix, out.bias, targets).double().sum().item()
            weight += batch.weights[TERM]
        return language_metrics(total, weight)

    def _features(self, model: Model, batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        hidden: Tensor = model.backbone(batch["ids"], mask=batch["mask"], documents=batch.get("documents")).hidden
        return chosen_features(model, hidden, batch["targets"])

    def _hidden(self, ids: np.ndarray, real: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The ids shown and the targets, [B, T] each."""
        candidates = real & ~self._special[ids]
        order, manner, other = self._draws(ids, real)
        draw = np.where(candidates, order, 2.0)
        count = np.ceil(candidates.sum(axis=1) * self.share)
        chosen = draw.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable") < count[:, None]
        shown = np.where(chosen & (manner < _SHOWN_AS_MASK), self.mask_id, ids)
        replaced = chosen & (manner >= _SHOWN_AS_MASK) & (manner < _SHOWN_AS_MASK + _SHOWN_AS_OTHER)
        shown = np.where(replaced, self._ordinary[(other * len(self._ordinary)).astype(np.int64)], shown)
        return shown, np.where(chosen, ids, NO_TARGET)

    def _draws(self, ids: np.ndarray, real: np.ndarray) -> np.ndarray:
        """Three times numbers in [0, 1) for each place, [3, B, T]; in an evaluation by the row's own tokens alone."""
        if self.training:
            return torch.rand((3, *ids.shape), dtype=torch.float64).numpy()
        draws = np.zeros((3, *ids.shape))
        for row, (line, kept) in enumerate(zip(ids, real, strict=True)):
            text = line[kept]
            draws[:, row, kept] = np.random.Generator(np.random.PCG64(zlib.crc32(text.tobytes()))).random(
                (3, len(text))
            )
        return draws
