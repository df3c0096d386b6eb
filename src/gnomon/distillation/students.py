"""From a spec and a teacher to a student that has not been trained yet.

An encoder takes some of its teacher's layers, every other family its token vectors, projected onto their principal
directions. Each takes the teacher's tokenizer, trimmed to the training texts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

from gnomon.distillation.inheritance import chosen_layers, contextual_vectors, principal, word_vectors
from gnomon.distillation.specs import (
    FRONTIER,
    ConvolutionalOptions,
    Effort,
    EncoderOptions,
    Options,
    RecurrentOptions,
    StaticOptions,
    StudentSpec,
    parse_student,
)
from gnomon.distillation.teacher import label_columns
from gnomon.errors import GnomonError
from gnomon.models.base import Backbone, HeadConfig, Model
from gnomon.models.convolutional import ConvolutionalBackbone, ConvolutionalConfig
from gnomon.models.encoder import EncoderBackbone, EncoderConfig
from gnomon.models.recurrent import RecurrentBackbone, RecurrentConfig
from gnomon.models.static import StaticBackbone, StaticConfig
from gnomon.text.tokenizer import Tokenizer
from gnomon.text.trim import trim
from gnomon.vectors.static_model import TokenTable

__all__ = ["FRONTIER", "Effort", "StudentSpec", "build_student", "parse_student"]

# Static vectors are scaled so that their mean has entries of about 1, which the layer above expects.
_STATIC_NORM = 4.0


def build_student(
    spec: StudentSpec,
    teacher: Model,
    texts: Sequence[str],
    *,
    labels: Sequence[str] | None = None,
    seed: int = 0,
    start: TokenTable | None = None,
) -> Model:
    """The student before any training: the same weights for the same seed, whatever was drawn before.

    `texts` are the training texts, whose pieces the vocabulary keeps; `labels` the order of the data's (None: the
    teacher's). A static student takes its vectors and its tokenizer from `start`, where there is one. Raises
    GnomonError when this teacher cannot beget this student.
    """
    names = teacher.labels if labels is None else tuple(labels)
    columns = torch.from_numpy(label_columns(teacher.labels, names))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if start is not None and isinstance(spec.options, StaticOptions):
            tokenizer = start.tokenizer
            backbone, head = _static_from(start, spec.options)
        else:
            trimmed = trim(teacher.tokenizer, texts)
            tokenizer, kept = trimmed.tokenizer, torch.from_numpy(trimmed.kept_ids).to(teacher.device)
            backbone, head = _body(spec.options, teacher, kept, tokenizer)
        student = Model(backbone, head, tokenizer=tokenizer, labels=names, max_length=teacher.max_length)
    if isinstance(spec.options, EncoderOptions):
        inherited = teacher.head.state_dict()
        for name in ("out.weight", "out.bias"):
            inherited[name] = inherited[name][columns.to(teacher.device)]
        student.head.load_state_dict(inherited)
    return student.to(teacher.device)


def _body(options: Options, teacher: Model, kept: Tensor, tokenizer: Tokenizer) -> tuple[Backbone, HeadConfig]:
    match options:
        case EncoderOptions():
            head = teacher.head_config
            if not isinstance(head, HeadConfig):
                raise GnomonError("the teacher is a language model: it has no labels", "tune it on labels first")
            return _encoder(options, teacher, kept, tokenizer.pad_id), head
        case RecurrentOptions():
            return _recurrent(options, teacher, kept, tokenizer.pad_id)
        case ConvolutionalOptions():
            return _convolutional(options, teacher, kept, tokenizer.pad_id)
        case StaticOptions():
            return _static(options, teacher, kept, tokenizer.pad_id)


def _encoder(options: EncoderOptions, teacher: Model, kept: Tensor, pad_id: int) -> EncoderBackbone:
    config = teacher.backbone.config
    if not isinstance(config, EncoderConfig):
        raise GnomonError(
            f"an encoder student takes layers of its teacher, and this teacher is {teacher.backbone.family}",
            "choose a student of another family: recurrent, convolutional or static",
        )
    layers = chosen_layers(config.num_hidden_layers, num_layers=options.num_layers, layers=options.layers)
    backbone = EncoderBackbone(
        dataclasses.replace(
            config,
            vocab_size=len(kept),
            num_hidden_layers=len(layers),
            hidden_dropout_prob=options.dropout,
            attention_probs_dropout_prob=options.dropout,
            pad_token_id=pad_id,
        )
    )
    state = teacher.backbone.state_dict()
    taken = {name: tensor for name, tensor in state.items() if not name.startswith("layers.")}
    for new, old in enumerate(layers):
        own = f"layers.{old}."
        taken |= {f"layers.{new}.{name.removeprefix(own)}": state[name] for name in state if name.startswith(own)}
    taken["embeddings.tokens.weight"] = word_vectors(teacher, kept)
    backbone.load_state_dict(taken)
    return backbone


def _recurrent(
    options: RecurrentOptions, teacher: Model, kept: Tensor, pad_id: int
) -> tuple[RecurrentBackbone, HeadConfig]:
    vectors = principal(word_vectors(teacher, kept), options.embedding_size)
    backbone = RecurrentBackbone(
        RecurrentConfig(
            vocab_size=len(kept),
            embedding_size=vectors.shape[1],
            hidden_size=options.hidden_size,
            num_hidden_layers=options.num_hidden_layers,
            cell=options.cell,
            dropout=options.dropout,
            pad_token_id=pad_id,
        )
    )
    _fill(backbone, vectors)
    return backbone, HeadConfig(options.pooling, dropout=options.head_dropout)


def _convolutional(
    options: ConvolutionalOptions, teacher: Model, kept: Tensor, pad_id: int
) -> tuple[ConvolutionalBackbone, HeadConfig]:
    vectors = principal(word_vectors(teacher, kept), options.embedding_size)
    backbone = ConvolutionalBackbone(
        ConvolutionalConfig(
            vocab_size=len(kept),
            embedding_size=vectors.shape[1],
            channels=options.channels,
            kernel_sizes=options.kernel_sizes,
            num_hidden_layers=options.num_hidden_layers,
            dropout=options.dropout,
            pad_token_id=pad_id,
        )
    )
    _fill(backbone, vectors)
    return backbone, HeadConfig("max", dropout=options.head_dropout)


def _static(options: StaticOptions, teacher: Model, kept: Tensor, pad_id: int) -> tuple[StaticBackbone, HeadConfig]:
    return _of_vectors(principal(contextual_vectors(teacher, kept), options.embedding_size), options, pad_id)


def _static_from(start: TokenTable, options: StaticOptions) -> tuple[Backbone, HeadConfig]:
    """Every word is kept: one that the training texts lack is known all the same."""
    vectors = torch.from_numpy(start.vectors)
    known = vectors.any(dim=1)
    rows = principal(vectors[known], options.embedding_size)
    placed = torch.zeros(len(vectors), rows.shape[1])
    placed[known] = rows
    backbone, head = _of_vectors(placed, options, start.tokenizer.pad_id)
    with torch.no_grad():
        backbone.scores.weight.copy_(torch.from_numpy(start.scores)[:, None])
    return backbone, head


def _of_vectors(vectors: Tensor, options: StaticOptions, pad_id: int) -> tuple[StaticBackbone, HeadConfig]:
    backbone = StaticBackbone(
        StaticConfig(
            vocab_size=len(vectors),
            embedding_size=vectors.shape[1],
            num_ngram_buckets=options.buckets if options.ngrams else 0,
            ngram_sizes=options.ngrams or (2,),
            dropout=options.dropout,
            pad_token_id=pad_id,
        )
    )
    _fill(backbone, vectors * (_STATIC_NORM / vectors.norm(dim=1).mean()))
    return backbone, HeadConfig("mean", options.dense_size, "relu", options.head_dropout)


@torch.no_grad()
def _fill(backbone: Backbone, vectors: Tensor) -> None:
    backbone.token_embedding.weight.copy_(vectors)
