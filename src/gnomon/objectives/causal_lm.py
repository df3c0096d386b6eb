"""Learning to say what comes next: cross-entropy to the following token of the same document."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from torch import Tensor

from gnomon.errors import GnomonError
from gnomon.models.base import Model
from gnomon.models.heads import LanguageHeadConfig
from gnomon.nn.language_heads import LanguageHead, MaskedLanguageHead
from gnomon.nn.vocabulary import VocabularyProjection, log_probabilities, summed_cross_entropy
from gnomon.objectives.base import Batch, Objective, Term
from gnomon.text.windows import NO_TARGET, Window, pack

TERM = "next_token"


class CausalLM(Objective):
    """Cross-entropy to the next token, one term ("next_token"), weighted by token. Examples are windows of tokens.

    Documents packed into a window do not see each other, and the first token of one is no target. With
    `bytes_per_token`, the text's bytes over its tokens, evaluations give bits per byte, which compare across
    tokenizers.
    """

    def __init__(self, *, pad_id: int, bytes_per_token: float | None = None) -> None:
        super().__init__()
        self.pad_id = pad_id
        self.bytes_per_token = bytes_per_token

    def collate(self, examples: Sequence[Window]) -> Batch:
        """ids and targets int64 [B, T]; documents int64 [B, T] too where a window holds more than one."""
        length = max(1, max(len(window.ids) for window in examples) - 1)
        packed = pack(examples, length=length, pad_id=self.pad_id)
        arrays = {"ids": packed.ids, "targets": packed.targets}
        if packed.documents.max() > 0:
            arrays["documents"] = packed.documents
        return Batch(arrays, {TERM: float(packed.num_targets)})

    def check(self, model: Model) -> None:
        """Refuse a model without a language head and one that sees later tokens."""
        if not isinstance(model.head_config, LanguageHeadConfig) or not model.backbone.causal:
            raise GnomonError(
                f"a {model.backbone.family} model with a {model.head_config.kind} head cannot learn the next token",
                "use a language head on a causal model: a decoder, or a recurrent or convolutional one",
            )

    def loss(self, model: Model, batch: Mapping[str, Tensor], weights: Mapping[str, float]) -> dict[str, Term]:
        """The summed cross-entropy."""
        features, targets = self._features(model, batch)
        out = language_out(model)
        return {TERM: Term(summed_cross_entropy(features, out.matrix, out.bias, targets), weights[TERM])}

    def evaluate(self, model: Model, batches: Sequence[Sequence[Window]]) -> dict[str, float]:
        """`loss` in nats a token, `perplexity`, and `bits_per_byte` where the bytes are known."""
        total, weight = 0.0, 0.0
        for examples in batches:
            batch = self.collate(examples)
            features, targets = self._features(model, batch.to(model.device))
            out = language_out(model)
            total -= log_probabilities(features, out.matrix, out.bias, targets).double().sum().item()
            weight += batch.weights[TERM]
        return language_metrics(total, weight, bytes_per_token=self.bytes_per_token)

    def _features(self, model: Model, batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """What the projection sees at each place that has a target [N, D], and the targets [N].

        No mask is needed: padding comes after the text, where no earlier token looks.
        """
        hidden: Tensor = model.backbone(batch["ids"], documents=batch.get("documents")).hidden
        return chosen_features(model, hidden, batch["targets"])


def chosen_features(model: Model, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """From `hidden` [B, T, D] and `targets` [B, T]: what the projection sees where there is a target, and those."""
    head = _language_head(model)
    flat, wanted = hidden.flatten(0, 1), targets.flatten()
    real = wanted != NO_TARGET
    if not bool(real.all()):
        places = real.nonzero().squeeze(1)
        flat, wanted = flat.index_select(0, places), wanted.index_select(0, places)
    return head.features(flat), wanted


def language_metrics(total: float, weight: float, *, bytes_per_token: float | None = None) -> dict[str, float]:
    """Metrics of a summed cross-entropy in nats over so many tokens; NaN where there were none."""
    loss = total / weight if weight else math.nan
    metrics = {"loss": loss, "perplexity": math.exp(min(loss, 700.0))}
    if bytes_per_token is not None:
        metrics["bits_per_byte"] = loss / math.log(2) / bytes_per_token
    return metrics


def language_out(model: Model) -> VocabularyProjection:
    """The projection of a model's language head onto the vocabulary."""
    return _language_head(model).out


def _language_head(model: Model) -> LanguageHead | MaskedLanguageHead:
    if not isinstance(model.head, LanguageHead | MaskedLanguageHead):
        raise GnomonError("this model has no language head", "make one with a LanguageHeadConfig")
    return model.head
