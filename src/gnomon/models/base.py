"""The one model type: a backbone, a head, a tokenizer and, for classifiers, label names.

Tensor names are those of `state_dict`: `backbone.*` and `head.*` (`head.pool.score`, `head.dense`, `head.norm`,
`head.out`).
"""

from __future__ import annotations

import json
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
from gnomon.models.heads import AnyHeadConfig, LanguageHeadConfig, make_head
from gnomon.models.heads import HeadConfig as HeadConfig
from gnomon.models.hf_names import TYPES, hf_type, to_hf_arrays
from gnomon.nn.init import init_transformer
from gnomon.nn.state import State
from gnomon.runtime.predictor import Prediction, Predictor
from gnomon.text.tokenizer import Tokenizer

Taps = Callable[[str, Tensor], None]
"""Called with a name ("embeddings", "layers.0", "layers.0.attention") and the tensor there."""


@dataclass(frozen=True, slots=True)
class Output:
    """What a backbone gives: `hidden` [B, T, D]; positions outside the mask hold nothing of meaning.

    `state` is the one it was given, which has now read these columns too.
    """

    hidden: Tensor
    state: State | None = None


@dataclass(frozen=True, slots=True)
class HeadOutput:
    """`logits` [B, C] and `pooled` [B, P], the vector the head's last linear layer sees (before its dropout).

    Of a language head [B, T, V] and [B, T, D].
    """

    logits: Tensor
    pooled: Tensor


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What did not fit when a folder was loaded: its tensors left `unused`; head tensors `missing`, so started anew."""

    unused: tuple[str, ...]
    missing: tuple[str, ...]


def named_tap(taps: Taps, name: str) -> Callable[[Tensor], None]:
    """What shows a tensor to `taps` under a name."""
    return lambda seen: taps(name, seen)


class Backbone(nn.Module):
    """Ids to hidden vectors. A family is a subclass, its frozen config, and a line in `families.py`.

    `causal`: no position sees a later one. `can_step`: it reads on from a State, one token at a time if need be.
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

    def init_state(self) -> State:
        """An empty state, for any number of rows. Raises GnomonError for a model that cannot step."""
        state = State(())
        refuse_state(self, state)
        return state

    def forward(
        self,
        ids: Tensor,
        *,
        mask: Tensor | None = None,
        documents: Tensor | None = None,
        state: State | None = None,
        taps: Taps | None = None,
    ) -> Output:
        """`ids` [B, T] int64, `mask` [B, T] bool (True where real; None = all real) -> `Output.hidden` [B, T, D].

        `documents` [B, T] numbers texts packed into one row: none sees another, and each begins at the first position.
        `state` (with `can_step`, and not with `documents`) holds the columns before these, and takes these too;
        padding then stands only before a row's text.
        """
        raise NotImplementedError

    def first(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """[B, T] -> [B, 1, D]: the hidden vector of the first position; cheaper where a family knows how."""
        output: Output = self(ids, mask=mask)
        return output.hidden[:, :1]

    def last(self, ids: Tensor, *, mask: Tensor | None = None, state: State | None = None) -> Tensor:
        """[B, T] -> [B, 1, D]: the hidden vector of the last position, `state` taking all; cheaper where a family knows
        how."""
        output: Output = self(ids, mask=mask, state=state)
        return output.hidden[:, -1:]


def refuse_state(backbone: Backbone, state: State | None) -> None:
    """Raise a GnomonError where a model that reads whole texts is given a state."""
    if state is not None:
        raise GnomonError(
            f"this {backbone.family} model reads whole texts and cannot go on token by token",
            "use a causal one: a decoder, or a recurrent or convolutional model in one direction",
        )


class Model(nn.Module):
    """A backbone, a head, and what text and answers are called: a tokenizer, a length limit, label names.

    `head` is a HeadConfig (one answer a text), or a LanguageHeadConfig or MaskedLanguageHeadConfig (scores of tokens at
    every position), which has no `labels`.
    """

    def __init__(
        self,
        backbone: Backbone,
        head: AnyHeadConfig,
        *,
        tokenizer: Tokenizer,
        labels: Sequence[str] = (),
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
        self.head = make_head(head, size=backbone.hidden_size, table=backbone.token_embedding, num_labels=len(labels))
        if backbone.head_std is not None:
            init_transformer(self.head, std=backbone.head_std)
        self.tokenizer = tokenizer
        self.labels = tuple(labels)
        self.max_length = max_length
        self.end_ids: tuple[int, ...] = tokenizer.end_ids
        """The tokens by which a language model ends a text."""
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

    def forward(self, ids: Tensor, mask: Tensor) -> HeadOutput:
        """`ids` [B, T] int64, `mask` [B, T] bool -> logits [B, C] and pooled [B, P] in one pass ([B, T, V] and
        [B, T, D] of a language head)."""
        first_only = isinstance(self.head_config, HeadConfig) and self.head_config.pooling == "first"
        hidden = self.backbone.first(ids, mask) if first_only else self.backbone(ids, mask=mask).hidden
        pooled = self.head.features(hidden, mask)
        return HeadOutput(self.head.logits(pooled), pooled)

    def logits(self, ids: Tensor, mask: Tensor) -> Tensor:
        """[B, T], [B, T] -> [B, C], or [B, T, V] of a language head."""
        return self.forward(ids, mask).logits

    def pooled(self, ids: Tensor, mask: Tensor) -> Tensor:
        """[B, T], [B, T] -> [B, P]: the vector the head's last linear layer sees."""
        return self.forward(ids, mask).pooled

    def predict(self, texts: str | Sequence[str], *, batch_size: int = 32) -> list[Prediction]:
        """One prediction a text, dropout off. Raises GnomonError for a model without a label head."""
        if not isinstance(self.head_config, HeadConfig):
            raise GnomonError("a language model answers with tokens, not labels", "tune it first (gnomon tune)")
        scorer = TorchScorer(self)
        predictor = Predictor(self.tokenizer, scorer, labels=self.labels, max_length=self.max_length)
        return predictor.predict(texts, batch_size=batch_size)

    def arrays(self) -> dict[str, np.ndarray]:
        """Every tensor by the name it has in a saved folder: Hugging Face's where `hf_type` is not None."""
        tensors = {name: tensor.detach().cpu() for name, tensor in self.state_dict().items()}
        arrays = {name: (t.float() if t.dtype == torch.bfloat16 else t).numpy() for name, t in tensors.items()}
        if self.hf_type is None:
            return arrays
        return to_hf_arrays(arrays, self.hf_type, fields=asdict(self.backbone.config), kind=self.head_config.kind)

    @property
    def hf_type(self) -> str | None:
        """The Hugging Face type it is saved as, or None where only `gnomon_<family>` expresses it."""
        return hf_type(self.backbone.family, asdict(self.backbone.config), self._head_fields)

    def folder_config(self) -> dict[str, Any]:
        """The config.json of a saved folder. The "gnomon" section holds our fields that are not Hugging Face's."""
        fields, head = asdict(self.backbone.config), self._head_fields
        section: dict[str, Any] = {"family": self.backbone.family, "max_length": self.max_length, "head": head}
        if self.hf_type is None:
            config: dict[str, Any] = {"model_type": f"gnomon_{self.backbone.family}"}
            section["config"] = fields
        else:
            config = TYPES[self.hf_type].config(fields, head)
        if isinstance(self.head_config, HeadConfig):
            config |= {
                "id2label": {str(index): name for index, name in enumerate(self.labels)},
                "label2id": {name: index for index, name in enumerate(self.labels)},
                "problem_type": "single_label_classification",
            }
        else:
            config |= self._generation_config
        return config | {"gnomon": section}

    @property
    def _generation_config(self) -> dict[str, Any]:
        ends = list(self.end_ids)
        return {"bos_token_id": self.tokenizer.bos_id, "eos_token_id": ends[0] if len(ends) == 1 else ends or None}

    @property
    def _head_fields(self) -> dict[str, Any]:
        return {"kind": self.head_config.kind, **asdict(self.head_config)}

    def save(self, path: Path | str, *, card: str = "", extras: Mapping[str, bytes] | None = None) -> None:
        """Write the whole model folder atomically; `load_model` (and, where expressible, transformers) reads it."""
        extras = dict(extras or {})
        if isinstance(self.head_config, LanguageHeadConfig):
            generation = {**self._generation_config, "pad_token_id": self.tokenizer.pad_id}
            extras.setdefault("generation_config.json", json.dumps(generation, indent=2).encode("ascii"))
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

    def logits(self, ids: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
        """`ids` int64 [B, T], `mask` bool [B, T] (None: all are real) -> float32 [B, C]."""
        device = self._model.device
        mask = np.ones(ids.shape, np.bool_) if mask is None else mask
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
