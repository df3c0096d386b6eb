"""BERT, DistilBERT and RoBERTa: their tensor names and fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gnomon.errors import GnomonError
from gnomon.models.hf_layout import Layout


@dataclass(frozen=True)
class EncoderType:
    """One type. `architectures` by kind of head; `head_act` stands between the label head's two layers; `fields` map
    ours to theirs; `fixed` are fields of ours that the type does not vary."""

    layout: Layout
    architectures: Mapping[str, str]
    head_act: str
    head_dropout: str
    fields: Mapping[str, str]
    fixed: Mapping[str, Any]


_EMBEDDINGS = {
    "embeddings.tokens": "embeddings.word_embeddings",
    "embeddings.positions": "embeddings.position_embeddings",
    "embeddings.segments": "embeddings.token_type_embeddings",
    "embeddings.norm": "embeddings.LayerNorm",
}
_LAYER = {
    "attention.query": "attention.self.query",
    "attention.key": "attention.self.key",
    "attention.value": "attention.self.value",
    "attention.output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "feedforward.up": "intermediate.dense",
    "feedforward.down": "output.dense",
    "feedforward_norm": "output.LayerNorm",
}
_FIELDS = {
    name: name
    for name in (
        "vocab_size",
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "intermediate_size",
        "hidden_act",
        "max_position_embeddings",
        "type_vocab_size",
        "layer_norm_eps",
        "hidden_dropout_prob",
        "attention_probs_dropout_prob",
        "pad_token_id",
        "initializer_range",
    )
}
_UNREAD = ("position_ids", "token_type_ids")  # counters that older folders hold beside the weights

ENCODER_TYPES: dict[str, EncoderType] = {
    "bert": EncoderType(
        layout=Layout(
            prefix="bert",
            body=_EMBEDDINGS,
            layer_prefix="encoder.layer",
            layer=_LAYER,
            heads={
                "label": {"dense": "bert.pooler.dense", "out": "classifier"},
                "masked_language": {
                    "dense": "cls.predictions.transform.dense",
                    "norm": "cls.predictions.transform.LayerNorm",
                    "out.weight": "cls.predictions.decoder.weight",
                    "out.bias": "cls.predictions.bias",
                },
            },
            unread=_UNREAD,
        ),
        architectures={"label": "BertForSequenceClassification", "masked_language": "BertForMaskedLM"},
        head_act="tanh",
        head_dropout="classifier_dropout",
        fields=_FIELDS,
        fixed={},
    ),
    "roberta": EncoderType(
        layout=Layout(
            prefix="roberta",
            body=_EMBEDDINGS,
            layer_prefix="encoder.layer",
            layer=_LAYER,
            heads={
                "label": {"dense": "classifier.dense", "out": "classifier.out_proj"},
                "masked_language": {
                    "dense": "lm_head.dense",
                    "norm": "lm_head.layer_norm",
                    "out.weight": "lm_head.decoder.weight",
                    "out.bias": "lm_head.bias",
                },
            },
            unread=_UNREAD,
        ),
        architectures={"label": "RobertaForSequenceClassification", "masked_language": "RobertaForMaskedLM"},
        head_act="tanh",
        head_dropout="classifier_dropout",
        fields=_FIELDS,
        fixed={},
    ),
    "distilbert": EncoderType(
        layout=Layout(
            prefix="distilbert",
            body={name: theirs for name, theirs in _EMBEDDINGS.items() if name != "embeddings.segments"},
            layer_prefix="transformer.layer",
            layer={
                "attention.query": "attention.q_lin",
                "attention.key": "attention.k_lin",
                "attention.value": "attention.v_lin",
                "attention.output": "attention.out_lin",
                "attention_norm": "sa_layer_norm",
                "feedforward.up": "ffn.lin1",
                "feedforward.down": "ffn.lin2",
                "feedforward_norm": "output_layer_norm",
            },
            heads={
                "label": {"dense": "pre_classifier", "out": "classifier"},
                "masked_language": {"dense": "vocab_transform", "norm": "vocab_layer_norm", "out": "vocab_projector"},
            },
            unread=_UNREAD,
        ),
        architectures={"label": "DistilBertForSequenceClassification", "masked_language": "DistilBertForMaskedLM"},
        head_act="relu",
        head_dropout="seq_classif_dropout",
        fields={
            "vocab_size": "vocab_size",
            "hidden_size": "dim",
            "num_hidden_layers": "n_layers",
            "num_attention_heads": "n_heads",
            "intermediate_size": "hidden_dim",
            "hidden_act": "activation",
            "max_position_embeddings": "max_position_embeddings",
            "hidden_dropout_prob": "dropout",
            "attention_probs_dropout_prob": "attention_dropout",
            "pad_token_id": "pad_token_id",
            "initializer_range": "initializer_range",
        },
        fixed={"type_vocab_size": 0, "layer_norm_eps": 1e-12},
    ),
}


def encoder_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """EncoderConfig's fields from a Hugging Face config.json; raises GnomonError for a variation we do not compute."""
    model_type = config["model_type"]
    known = ENCODER_TYPES[model_type]
    if config.get("position_embedding_type", "absolute") != "absolute" or config.get("is_decoder"):
        raise GnomonError(
            "config.json asks for relative positions or a decoder, which gnomon does not compute",
            "use a model whose position_embedding_type is absolute and whose is_decoder is false",
        )
    fields = {ours: config[theirs] for ours, theirs in known.fields.items() if config.get(theirs) is not None}
    fields |= {**known.fixed, "model_type": model_type}
    return fields | {"position_offset": _position_offset(model_type, fields.get("pad_token_id"))}


def encoder_head(config: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """The fields of a Hugging Face encoder's head: the sequence classifier's, or the masked language model's."""
    model_type = config["model_type"]
    known = ENCODER_TYPES[model_type]
    if kind == "masked_language":
        act = "gelu" if model_type == "roberta" else config.get(known.fields["hidden_act"], "gelu")
        eps = config.get("layer_norm_eps", 1e-12) if model_type != "distilbert" else 1e-12
        return {"tied": config.get("tie_word_embeddings", True), "activation": act, "norm_eps": eps}
    hidden_dropout = config.get(known.fields["hidden_dropout_prob"], 0.1)
    dropout = config.get(known.head_dropout)
    dropout = hidden_dropout if dropout is None else dropout
    return {
        "pooling": "first",
        "dense_size": config.get(known.fields["hidden_size"]),
        "activation": known.head_act,
        "dropout": dropout,
        "input_dropout": dropout if model_type == "roberta" else 0.0,
    }


def encoder_expressible(model_type: str, fields: Mapping[str, Any], head: Mapping[str, Any]) -> bool:
    """Whether the type computes exactly what these fields and this head say."""
    known = ENCODER_TYPES[model_type]
    fixed = {**known.fixed, "norm_position": "post"}
    fixed["position_offset"] = _position_offset(model_type, fields["pad_token_id"])
    same = all(fields[name] == value for name, value in fixed.items())
    same &= bool(fields["type_vocab_size"]) == ("embeddings.segments" in known.layout.body)
    if head["kind"] == "label":
        shape = (head["pooling"], head["dense_size"], head["activation"])
        return same and shape == ("first", fields["hidden_size"], known.head_act)
    if head["kind"] != "masked_language":
        return False
    theirs = encoder_head(encoder_config(model_type, fields, head), "masked_language")
    return same and {"dense_bias": True, "norm_bias": True, "bias": True, "kind": head["kind"], **theirs} == head


def encoder_config(model_type: str, fields: Mapping[str, Any], head: Mapping[str, Any]) -> dict[str, Any]:
    """The config.json of a Hugging Face encoder with this head, without label names."""
    known = ENCODER_TYPES[model_type]
    config: dict[str, Any] = {"model_type": model_type, "architectures": [known.architectures[head["kind"]]]}
    config |= {theirs: fields[ours] for ours, theirs in known.fields.items()}
    if head["kind"] == "label":
        return config | {known.head_dropout: head["dropout"]}
    return config | {"tie_word_embeddings": head["tied"]}


def _position_offset(model_type: str, pad_token_id: int | None) -> int:
    """RoBERTa's positions begin after its padding id (its code counts from pad_token_id + 1)."""
    return (pad_token_id or 0) + 1 if model_type == "roberta" else 0
