"""Language models by one dial: the depth derives the rest, a preset says in which manner, and every part can be set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from gnomon.errors import GnomonError, did_you_mean
from gnomon.models.base import Model
from gnomon.models.convolutional import ConvolutionalConfig
from gnomon.models.decoder import DecoderConfig
from gnomon.models.families import FAMILIES
from gnomon.models.heads import AnyHeadConfig, LanguageHeadConfig
from gnomon.models.modern_encoder import ModernEncoderConfig
from gnomon.models.parts import FamilyName, Parts, PresetName
from gnomon.models.recurrent import RecurrentConfig
from gnomon.nn.init import init_silent_parts
from gnomon.nn.language_heads import LanguageHead
from gnomon.text.tokenizer import Tokenizer

_WIDTH_PER_LAYER = 32
_WIDE = 512  # from this width on heads are 64 wide, else 32
_NGRAM_BUCKETS = 1 << 16


@dataclass(frozen=True)
class LanguagePlan:
    """A language model before it is made: its family in `FAMILIES`, its configuration, its head, and how it starts."""

    family: str
    config: Any
    head: AnyHeadConfig
    silent_start: bool = False


def plan_language_model(
    family: FamilyName, preset: PresetName, depth: int, *, vocab_size: int, context: int, pad_id: int, parts: Parts
) -> LanguagePlan:
    """What `depth` derives, with `parts` in place of what they name. An encoder learns masked tokens, the others the
    next one.

    Raises GnomonError for a part that the family does not have.
    """
    if depth < 1 or context < 2:
        raise GnomonError(f"depth is {depth} and the context {context}", "give a depth of 1 and a context of 2 or more")
    if preset == "fast" and family != "decoder":
        raise GnomonError(f"the preset fast is for decoders; this is a {family} model", "leave out --preset")
    dial = _Dial(preset, depth, vocab_size, context, pad_id, parts.given())
    plan = _FAMILIES[family](dial)
    dial.refuse_unused(family)
    return plan


def make_language_model(plan: LanguagePlan, *, tokenizer: Tokenizer, context: int) -> Model:
    """The model of `plan`, its weights drawn from torch's generator."""
    family = FAMILIES[plan.family]
    model = Model(family.backbone(plan.config), plan.head, tokenizer=tokenizer, max_length=context)
    if plan.silent_start:
        layers = model.backbone.get_submodule("layers")
        if isinstance(layers, nn.ModuleList):
            init_silent_parts(layers)
        if isinstance(model.head, LanguageHead) and model.head.out.weight is not None:
            nn.init.zeros_(model.head.out.weight)
    return model


class _Dial:
    """What everything is derived from, and the parts that are set, each of which a family must ask for."""

    def __init__(
        self, preset: PresetName, depth: int, vocab_size: int, context: int, pad_id: int, given: Mapping[str, Any]
    ) -> None:
        self.fast = preset == "fast"
        self.depth = depth
        self.vocab_size = vocab_size
        self.context = context
        self.pad_id = pad_id
        self._given = given
        self._asked: set[str] = set()

    def part(self, name: str, default: Any) -> Any:
        """The part called `name` as it is set, else `default`."""
        self._asked.add(name)
        return self._given.get(name, default)

    def width(self, layers: int) -> tuple[int, int]:
        """The width of a Transformer, and its heads."""
        width = self.part("hidden_size", _WIDTH_PER_LAYER * max(2, layers))
        most = max(1, width // (32 if width < _WIDE else 64))
        usual = next((heads for heads in range(most, 0, -1) if width % (2 * heads) == 0), 1)
        heads = self.part("num_attention_heads", usual)
        if heads < 1 or width % heads:
            raise GnomonError(f"{heads} heads do not divide the width {width}", "choose a number of heads that does")
        return width, heads

    def tied(self, width: int, layers: int) -> bool:
        """Whether the two tables are one: where they would outweigh the rest by much."""
        return bool(self.part("tied", self.vocab_size > 3 * width * layers))

    def refuse_unused(self, family: str) -> None:
        """Raise a GnomonError for a part that nobody asked for."""
        unused = sorted(set(self._given) - self._asked)
        if unused:
            raise GnomonError(f"a {family} model has no part {unused[0]!r}", did_you_mean(unused[0], self._asked))


def _gated_width(width: int) -> int:
    """Two thirds of 4 times the width, so that a gate costs no parameters, rounded up to a multiple of 32."""
    return -(-8 * width // 96) * 32


def _decoder(dial: _Dial) -> LanguagePlan:
    layers = dial.part("num_hidden_layers", dial.depth)
    width, heads = dial.width(layers)
    gated = dial.part("gated", not dial.fast)
    dropout = dial.part("dropout", 0.0)
    config = DecoderConfig(
        vocab_size=dial.vocab_size,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=dial.part("num_key_value_heads", heads),
        head_dim=width // heads,
        intermediate_size=dial.part("intermediate_size", _gated_width(width) if gated else 4 * width),
        hidden_act=dial.part("hidden_act", "relu2" if dial.fast else "silu"),
        gated=gated,
        max_position_embeddings=dial.context,
        position_embedding_type=dial.part("position_embedding_type", "rope"),
        norm=dial.part("norm", "rms"),
        norm_position=dial.part("norm_position", "pre"),
        qk_norm=dial.part("qk_norm", True),
        embedding_norm=dial.part("embedding_norm", False),
        num_ngram_buckets=dial.part("num_ngram_buckets", _NGRAM_BUCKETS if dial.fast else 0),
        ngram_sizes=dial.part("ngram_sizes", (2, 3, 4)),
        attention_dropout=dropout,
        embd_pdrop=dropout,
        resid_pdrop=dropout,
        pad_token_id=dial.pad_id,
        model_type="qwen3",
    )
    head = LanguageHeadConfig(tied=dial.tied(width, layers))
    return LanguagePlan("decoder", config, head, dial.part("silent_start", True))


def _encoder(dial: _Dial) -> LanguagePlan:
    layers = dial.part("num_hidden_layers", dial.depth)
    width, heads = dial.width(layers)
    config = ModernEncoderConfig(
        vocab_size=dial.vocab_size,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=dial.part("intermediate_size", _gated_width(width)),
        hidden_activation=dial.part("hidden_act", "gelu"),
        max_position_embeddings=dial.context,
        pad_token_id=dial.pad_id,
    )
    head = FAMILIES["modern_encoder"].language_head
    if head is None:
        raise TypeError("an encoder has a head for masked tokens")
    return LanguagePlan(
        "modern_encoder",
        config,
        replace(head(config), tied=dial.tied(width, layers)),
        dial.part("silent_start", True),
    )


def _recurrent(dial: _Dial) -> LanguagePlan:
    layers = dial.part("num_hidden_layers", max(1, round(dial.depth / 3)))
    width = dial.part("hidden_size", 2 * _WIDTH_PER_LAYER * dial.depth)
    config = RecurrentConfig(
        vocab_size=dial.vocab_size,
        embedding_size=width,
        hidden_size=width,
        num_hidden_layers=layers,
        cell=dial.part("cell", "lstm"),
        bidirectional=False,
        dropout=dial.part("dropout", 0.0),
        pad_token_id=dial.pad_id,
    )
    return LanguagePlan("recurrent", config, LanguageHeadConfig(tied=dial.tied(width, layers)))


def _convolutional(dial: _Dial) -> LanguagePlan:
    layers = dial.part("num_hidden_layers", dial.depth)
    kernels = dial.part("kernel_sizes", (2, 3, 4, 5))
    width = dial.part("hidden_size", _WIDTH_PER_LAYER * max(2, layers))
    if width % len(kernels):
        raise GnomonError(
            f"{len(kernels)} kernels do not divide the width {width}", "choose a hidden_size that they divide"
        )
    config = ConvolutionalConfig(
        vocab_size=dial.vocab_size,
        embedding_size=width,
        channels=width // len(kernels),
        kernel_sizes=kernels,
        num_hidden_layers=layers,
        dropout=dial.part("dropout", 0.0),
        pad_token_id=dial.pad_id,
        causal=True,
    )
    return LanguagePlan("convolutional", config, LanguageHeadConfig(tied=dial.tied(width, layers)))


_FAMILIES: Mapping[str, Callable[[_Dial], LanguagePlan]] = {
    "decoder": _decoder,
    "encoder": _encoder,
    "recurrent": _recurrent,
    "convolutional": _convolutional,
}
