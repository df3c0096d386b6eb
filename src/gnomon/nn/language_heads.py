"""From hidden vectors to scores of tokens: what comes next (decoders), and what stood under a mask (BERT)."""

from __future__ import annotations

from torch import Tensor, nn

from gnomon.nn.feedforward import activation
from gnomon.nn.vocabulary import VocabularyProjection


class LanguageHead(nn.Module):
    """The scores of the next token, straight from the hidden vector."""

    def __init__(self, size: int, vocab_size: int, *, tied_to: nn.Embedding | None, bias: bool = False) -> None:
        super().__init__()
        self.feature_size = size
        self.out = VocabularyProjection(size, vocab_size, tied_to=tied_to, bias=bias)

    def features(self, hidden: Tensor, mask: Tensor | None = None) -> Tensor:
        """[..., D] -> [..., D], what the projection sees: the hidden vectors themselves."""
        return hidden

    def logits(self, features: Tensor) -> Tensor:
        """[..., D] -> [..., V]."""
        result: Tensor = self.out(features)
        return result


class MaskedLanguageHead(nn.Module):
    """A dense layer, its activation and a LayerNorm, then the scores of the token under the mask (BERT)."""

    def __init__(
        self,
        size: int,
        vocab_size: int,
        *,
        tied_to: nn.Embedding | None,
        act: str = "gelu",
        dense_bias: bool = True,
        norm_eps: float = 1e-12,
        norm_bias: bool = True,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.feature_size = size
        self.dense = nn.Linear(size, size, bias=dense_bias)
        self._act = activation(act)
        self.norm = nn.LayerNorm(size, eps=norm_eps, bias=norm_bias)
        self.out = VocabularyProjection(size, vocab_size, tied_to=tied_to, bias=bias)

    def features(self, hidden: Tensor, mask: Tensor | None = None) -> Tensor:
        """[..., D] -> [..., D], what the projection sees; each position by itself."""
        result: Tensor = self.norm(self._act(self.dense(hidden)))
        return result

    def logits(self, features: Tensor) -> Tensor:
        """[..., D] -> [..., V]."""
        result: Tensor = self.out(features)
        return result
