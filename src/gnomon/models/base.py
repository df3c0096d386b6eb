"""The one model type: a backbone, a head, a tokenizer and label names.

Tensor names are those of `state_dict`: `backbone.*` and `head.*` (`head.pool.score`, `head.dense`, `head.out`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from gnomon.errors import GnomonError
from gnomon.formats.modeldir import write_model_dir
from gnomon.models.hf_names import hf_config, hf_type, to_hf_names
from gnomon.nn.heads import LabelHead
from gnomon.nn.init import init_transformer
from gnomon.runtime.predictor import Prediction, Predictor
from gnomon.text.tokenizer import Tokenizer

Taps = Callable[[str, Tensor], None]
"""Called with a name ("embeddings", "layers.0", "layers.0.attention") and the tensor there."""


@dataclass(frozen=True, slots=True)
class Output:
    """What a backbone gives: `hidden` [B, T, D]; positions outside the mask hold nothing of meaning.

    `state` is the place of what a family that can step remembers; no family of this release steps.
    """

    hidden: Tensor
    state: None = None


@dataclass(frozen=True, slots=True)
class LabelOutput:
    """`logits` [B, C] and `pooled` [B, P], the vector the head's last linear layer sees (before its dropout)."""

    logits: Tensor
    pooled: Tensor


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What did not fit when a folder was loaded: its tensors left `unused`; head tensors `missing`, so started anew."""

    unused: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True)
class HeadConfig:
    """The label head: `pooling` is first, mean, max, attention or last; `dense_size` None means no dense layer."""

    pooling: str = "first"
    dense_size: int | None = None
    activation: str = "tanh"
    dropout: float = 0.1
    input_dropout: float = 0.0


class Backbone(nn.Module):
    """Ids to hidden vectors. A family is a subclass, its frozen config, and a line in `families.py`.

    `max_positions` is the longest text it can read, in tokens; None where nothing limits it. `head_std` is the
    deviation of a new head's weights; None means torch's own start (uniform, by fan-in).
    """

    family: ClassVar[str]
    config: Any
    hidden_size: int
    causal: bool = False
    can_step: bool = False
    max_positions: int | None = None
    head_std: float | None = None

    @property
    def token_embedding(self) -> nn.Embedding:
        """The input table [V, E]."""
        raise NotImplementedError

    def forward(self, ids: Tensor, *, mask: Tensor | None = None, taps: Taps | None = None) -> Output:
        """`ids` [B, T] int64, `mask` [B, T] bool (True where real; None = all real) -> `Output.hidden` [B, T, D]."""
        raise NotImplementedError


class Model(nn.Module):
    """A backbone, a label head, and what text and answers are called: a tokenizer, label names, a length limit."""

    def __init__(
        self,
        backbone: Backbone,
        head: HeadConfig,
        *,
        tokenizer: Tokenizer,
        labels: Sequence[str],
        max_length: int,
    ) -> None:
        super().__init__()
        if backbone.max_positions is not None and max_length > backbone.max_positions:
            raise GnomonError(
                f"max_length {max_length} is more than the {backbone.max_positions} positions this model has",
                f"choose max_length <= {backbone.max_positions}",
            )
        if len(set(labels)) != len(labels):
            raise GnomonError(f"the label names are {list(labels)}", "give each name once")
        self.backbone = backbone
        self.head_config = head
        self.head = LabelHead(
            backbone.hidden_size,
            len(labels),
            pooling=head.pooling,
            dense_size=head.dense_size,
            act=head.activation,
            dropout=head.dropout,
            input_dropout=head.input_dropout,
        )
        if backbone.head_std is not None:
            init_transformer(self.head, std=backbone.head_std)
        self.tokenizer = tokenizer
        self.labels = tuple(labels)
        self.max_length = max_length
        self.load_report = LoadReport((), ())

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.backbone.token_embedding.weight.device

    @property
    def pooled_size(self) -> int:
        """The width of `pooled`."""
        return self.head.feature_size

    @property
    def num_parameters(self) -> int:
        """How many numbers are learnt."""
        return sum(parameter.numel() for parameter in self.parameters())

    def forward(self, ids: Tensor, mask: Tensor) -> LabelOutput:
        """`ids` [B, T] int64, `mask` [B, T] bool -> logits [B, C] and pooled [B, P], in one pass."""
        output: Output = self.backbone(ids, mask=mask)
        pooled = self.head.features(output.hidden, mask)
        return LabelOutput(self.head.logits(pooled), pooled)

    def logits(self, ids: Tensor, mask: Tensor) -> Tensor:
        """[B, T], [B, T] -> [B, C]."""
        return self.forward(ids, mask).logits

    def pooled(self, ids: Tensor, mask: Tensor) -> Tensor:
        """[B, T], [B, T] -> [B, P]: the vector the head's last linear layer sees."""
        return self.forward(ids, mask).pooled

    def predict(self, texts: str | Sequence[str], *, batch_size: int = 32) -> list[Prediction]:
        """One prediction a text, dropout off."""
        scorer = TorchScorer(self)
        predictor = Predictor(self.tokenizer, scorer, labels=self.labels, max_length=self.max_length)
        return predictor.predict(texts, batch_size=batch_size)

    def arrays(self) -> dict[str, np.ndarray]:
        """Every tensor by the name it has in a saved folder: Hugging Face's where `hf_type` is not None."""
        tensors = {name: tensor.detach().cpu() for name, tensor in self.state_dict().items()}
        arrays = {name: (t.float() if t.dtype == torch.bfloat16 else t).numpy() for name, t in tensors.items()}
        if self.hf_type is None:
            return arrays
        return to_hf_names(arrays, model_type=self.hf_type, num_layers=self.backbone.config.num_hidden_layers)

    @property
    def hf_type(self) -> str | None:
        """The Hugging Face type it is saved as, or None where only `gnomon_<family>` expresses it."""
        return hf_type(self.backbone.family, asdict(self.backbone.config), asdict(self.head_config))

    def folder_config(self) -> dict[str, Any]:
        """The config.json of a saved folder. The "gnomon" section holds our fields that are not Hugging Face's."""
        fields, head = asdict(self.backbone.config), asdict(self.head_config)
        section: dict[str, Any] = {"family": self.backbone.family, "max_length": self.max_length, "head": head}
        if self.hf_type is None:
            config: dict[str, Any] = {"model_type": f"gnomon_{self.backbone.family}"}
            section["config"] = fields
        else:
            config = hf_config(self.hf_type, fields, head)
        return config | {
            "id2label": {str(index): name for index, name in enumerate(self.labels)},
            "label2id": {name: index for index, name in enumerate(self.labels)},
            "problem_type": "single_label_classification",
            "gnomon": section,
        }

    def save(self, path: Path | str, *, card: str = "", extras: Mapping[str, bytes] | None = None) -> None:
        """Write the whole model folder atomically; `load_model` (and, where expressible, transformers) reads it."""
        write_model_dir(
            path,
            config=self.folder_config(),
            arrays=self.arrays(),
            tokenizer_json=self.tokenizer.to_json(),
            tokenizer_config=self.tokenizer.config,
            card=card,
            extras=extras,
        )


class TorchScorer:
    """The Predictor's view of a torch model: numpy in, numpy out, dropout off while it answers."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def logits(self, ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """`ids` int64 [B, T], `mask` bool [B, T] -> float32 [B, C]."""
        device = self._model.device
        with evaluating(self._model), torch.inference_mode():
            logits = self._model.logits(torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device))
        return logits.float().cpu().numpy()


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Dropout off inside, and the mode as it was afterwards."""
    was_training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(was_training)
