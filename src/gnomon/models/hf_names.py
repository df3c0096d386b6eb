"""Hugging Face's names for what we call otherwise, as tables read both ways. Plain dicts and arrays only.

BERT, DistilBERT and RoBERTa folders; everything else is saved as `gnomon_<family>` with our own tensor names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from gnomon.errors import GnomonError

Value = TypeVar("Value")


@dataclass(frozen=True)
class Layout:
    """One Hugging Face type. Tables map ours to theirs; `fixed` are fields of ours that the type does not vary.

    `head` is the dense layer and the classifier of its ForSequenceClassification, `head_act` what stands between.
    """

    prefix: str
    architecture: str
    embeddings: Mapping[str, str]
    layer_prefix: str
    layer: Mapping[str, str]
    head: Mapping[str, str]
    head_act: str
    head_dropout: str
    fields: Mapping[str, str]
    fixed: Mapping[str, Any]

    def modules(self, num_layers: int) -> dict[str, str]:
        """Module names, ours to theirs."""
        table = {f"backbone.embeddings.{ours}": f"{self.prefix}.embeddings.{x}" for ours, x in self.embeddings.items()}
        for index in range(num_layers):
            theirs = f"{self.prefix}.{self.layer_prefix}.{index}"
            table |= {f"backbone.layers.{index}.{name}": f"{theirs}.{x}" for name, x in self.layer.items()}
        return table | {f"head.{ours}": theirs for ours, theirs in self.head.items()}


_BERT_EMBEDDINGS = {
    "tokens": "word_embeddings",
    "positions": "position_embeddings",
    "segments": "token_type_embeddings",
    "norm": "LayerNorm",
}
_BERT_LAYER = {
    "attention.query": "attention.self.query",
    "attention.key": "attention.self.key",
    "attention.value": "attention.self.value",
    "attention.output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "feedforward.up": "intermediate.dense",
    "feedforward.down": "output.dense",
    "feedforward_norm": "output.LayerNorm",
}
_BERT_FIELDS = {
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
LAYOUTS: dict[str, Layout] = {
    "bert": Layout(
        prefix="bert",
        architecture="BertForSequenceClassification",
        embeddings=_BERT_EMBEDDINGS,
        layer_prefix="encoder.layer",
        layer=_BERT_LAYER,
        head={"dense": "bert.pooler.dense", "out": "classifier"},
        head_act="tanh",
        head_dropout="classifier_dropout",
        fields=_BERT_FIELDS,
        fixed={},
    ),
    "roberta": Layout(
        prefix="roberta",
        architecture="RobertaForSequenceClassification",
        embeddings=_BERT_EMBEDDINGS,
        layer_prefix="encoder.layer",
        layer=_BERT_LAYER,
        head={"dense": "classifier.dense", "out": "classifier.out_proj"},
        head_act="tanh",
        head_dropout="classifier_dropout",
        fields=_BERT_FIELDS,
        fixed={},
    ),
    "distilbert": Layout(
        prefix="distilbert",
        architecture="DistilBertForSequenceClassification",
        embeddings={name: x for name, x in _BERT_EMBEDDINGS.items() if name != "segments"},
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
        head={"dense": "pre_classifier", "out": "classifier"},
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
_BUFFERS = ("position_ids", "token_type_ids")  # older folders hold these counters beside the weights
_OLD_NAMES = {"gamma": "weight", "beta": "bias"}  # LayerNorm's, of folders converted from TensorFlow


def encoder_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """EncoderConfig's fields from a Hugging Face config.json; raises GnomonError for a variation we do not compute."""
    model_type = config["model_type"]
    layout = LAYOUTS[model_type]
    if config.get("position_embedding_type", "absolute") != "absolute" or config.get("is_decoder"):
        raise GnomonError(
            "config.json asks for relative positions or a decoder, which gnomon does not compute",
            "use a model whose position_embedding_type is absolute and whose is_decoder is false",
        )
    fields = {ours: config[theirs] for ours, theirs in layout.fields.items() if config.get(theirs) is not None}
    fields |= {**layout.fixed, "model_type": model_type}
    return fields | {"position_offset": _position_offset(model_type, fields.get("pad_token_id"))}


def head_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """HeadConfig's fields of a Hugging Face sequence classifier."""
    layout = LAYOUTS[config["model_type"]]
    hidden_dropout = config.get(layout.fields["hidden_dropout_prob"], 0.1)
    dropout = config.get(layout.head_dropout)
    dropout = hidden_dropout if dropout is None else dropout
    return {
        "pooling": "first",
        "dense_size": config.get(layout.fields["hidden_size"]),
        "activation": layout.head_act,
        "dropout": dropout,
        "input_dropout": dropout if config["model_type"] == "roberta" else 0.0,
    }


def hf_type(family: str, fields: Mapping[str, Any], head: Mapping[str, Any]) -> str | None:
    """The Hugging Face type that expresses this model exactly, or None."""
    model_type = fields.get("model_type")
    if family != "encoder" or model_type not in LAYOUTS:
        return None
    layout = LAYOUTS[model_type]
    fixed = {**layout.fixed, "norm_position": "post"}
    fixed["position_offset"] = _position_offset(model_type, fields["pad_token_id"])
    same_body = all(fields[name] == value for name, value in fixed.items())
    same_body &= bool(fields["type_vocab_size"]) == ("segments" in layout.embeddings)
    shape = (head["pooling"], head["dense_size"], head["activation"])
    return model_type if same_body and shape == ("first", fields["hidden_size"], layout.head_act) else None


def hf_config(model_type: str, fields: Mapping[str, Any], head: Mapping[str, Any]) -> dict[str, Any]:
    """The config.json of a Hugging Face sequence classifier, without its label names."""
    layout = LAYOUTS[model_type]
    config = {"model_type": model_type, "architectures": [layout.architecture]}
    config |= {theirs: fields[ours] for ours, theirs in layout.fields.items()}
    return config | {layout.head_dropout: head["dropout"]}


def to_hf_names(named: Mapping[str, Value], *, model_type: str, num_layers: int) -> dict[str, Value]:
    """`named` tensors, by our names, under Hugging Face's."""
    modules = LAYOUTS[model_type].modules(num_layers)
    result = {}
    for name, value in named.items():
        module, _, part = name.rpartition(".")
        result[f"{modules[module]}.{part}"] = value
    return result


def from_hf_names(
    stored: Iterable[str], *, model_type: str, num_layers: int
) -> tuple[dict[str, str], tuple[str, ...], tuple[str, ...]]:
    """Our name -> stored name; then stored names without a place here: of heads, and of the body.

    Folders of the bare model (`BertModel`) lack the type's prefix; that is understood.
    """
    layout = LAYOUTS[model_type]
    names = [name for name in stored if not name.endswith(_BUFFERS)]
    bare = not any(name.startswith(f"{layout.prefix}.") for name in names)
    ours_of = {theirs: ours for ours, theirs in layout.modules(num_layers).items()}
    found: dict[str, str] = {}
    heads: list[str] = []
    body: list[str] = []
    for name in names:
        module, _, part = name.rpartition(".")
        ours = ours_of.get(module) or (ours_of.get(f"{layout.prefix}.{module}") if bare else None)
        if ours is not None:
            found[f"{ours}.{_OLD_NAMES.get(part, part)}"] = name
        else:
            in_body = bare or name.startswith(f"{layout.prefix}.")
            (body if in_body and "pooler." not in name else heads).append(name)
    return found, tuple(heads), tuple(body)


def _position_offset(model_type: str, pad_token_id: int | None) -> int:
    """RoBERTa's positions begin after its padding id (its code counts from pad_token_id + 1)."""
    return (pad_token_id or 0) + 1 if model_type == "roberta" else 0
