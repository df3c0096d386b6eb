"""A causal Transformer as an onnx graph that reads on from its own keys and values.

Each layer's keys and values live in a buffer [B, G, capacity, d] that goes in as `past.N.key` and comes out, the same
memory, as `present.N.key`: onnxruntime's GroupQueryAttention writes the new columns in place. `seqlens_k` int32 [B]
is the number of columns each row holds after the call, less one; `total_sequence_length` int32 the largest of them. A
first call may have padding after its rows; later ones have none. `logits_of` int64 [N, 2] names the places (row,
column of this call) whose scores `logits` [N, V] are wanted: a prompt needs only its last. `position_ids` and `ngrams`
(buckets of the n-grams that end at each token, [B, T, S]) are asked for where the model has them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import numpy as np
import onnx
import torch

from gnomon.deploy.block_nodes import BlockNodes
from gnomon.deploy.blocks import Blocks
from gnomon.deploy.graph import IDS, LOGITS, MICROSOFT, Graph, Input, Output
from gnomon.deploy.head_padding import padded_size
from gnomon.errors import GnomonError
from gnomon.formats.onnx_file import LAYERS
from gnomon.models.decoder import DecoderConfig
from gnomon.models.heads import LanguageHeadConfig
from gnomon.nn.positions import PositionTable, sinusoidal
from gnomon.nn.rope import rotary

SEEN, TOTAL, WANTED = "seqlens_k", "total_sequence_length", "logits_of"
POSITIONS, NGRAMS = "position_ids", "ngrams"
TOKENS = "backbone.tokens.weight"
OUT = "head.out.weight"

Storage = Callable[[str], Blocks | None]
"""The blocks in which the matrix of that name is stored; None: in full. An input table has 8 bits or all."""


def build_decoder(
    config: DecoderConfig,
    head: LanguageHeadConfig,
    arrays: Mapping[str, np.ndarray],
    *,
    stored: Storage = lambda name: None,
    max_length: int | None = None,
) -> onnx.ModelProto:
    """The graph of `arrays`, whose heads are padded (`PaddedHeads`). `max_length` is the longest text it will read;
    None: the model's context.

    Raises GnomonError for what it cannot express, naming it.
    """
    _refuse(config)
    return _Decoder(config, head, arrays, stored, max_length or config.max_position_embeddings).model()


def matrices(config: DecoderConfig, head: LanguageHeadConfig) -> list[str]:
    """The names of the matrices that `stored` is asked for, in the order of the computation, the output matrix last.

    A tied table is one matrix; an untied input table is stored as the output matrix is.
    """
    inner = ("gate_up", "down") if config.gated else ("up", "down")
    parts = ("attention.qkv", "attention.output", *(f"feedforward.{name}" for name in inner))
    layers = [f"backbone.layers.{n}.{part}.weight" for n in range(config.num_hidden_layers) for part in parts]
    return [*layers, TOKENS, *(() if head.tied else (OUT,))]


def _is_like_llama(config: DecoderConfig) -> bool:
    """Whether gnomon's own kernels compute such layers (`runtime.compiled`)."""
    usual = config.norm == "rms" and config.norm_position == "pre" and not config.embedding_norm
    swiglu = config.gated and config.hidden_act == "silu"
    return usual and swiglu and config.position_embedding_type == "rope" and not config.num_ngram_buckets


def _refuse(config: DecoderConfig) -> None:
    for fault, found in (
        (f"positions of the kind {config.position_embedding_type}", config.position_embedding_type == "alibi"),
        ("BatchNorm", config.norm == "batch"),
    ):
        if found:
            raise GnomonError(
                f"a decoder with {fault} is not exported to onnx",
                "generate with the model folder itself, through torch",
            )


class _Decoder:
    def __init__(
        self,
        config: DecoderConfig,
        head: LanguageHeadConfig,
        arrays: Mapping[str, np.ndarray],
        stored: Storage,
        max_length: int,
    ) -> None:
        self.graph = Graph()
        self._config = config
        self._head = head
        self._arrays = arrays
        self._stored = stored
        self._max_length = max_length
        self._heads = config.num_attention_heads
        self._groups = config.num_key_value_heads or config.num_attention_heads
        self._head_size = padded_size(config.head_size)
        self._pre = config.norm_position == "pre"
        self._rotation = self._rotary_tables() if config.position_embedding_type == "rope" else ("", "")
        self._table = stored(TOKENS)
        self._blocks = BlockNodes(self.graph)

    def model(self) -> onnx.ModelProto:
        config, graph = self._config, self.graph
        last_norm = f"backbone.layers.{config.num_hidden_layers - 1}.feedforward_norm"
        x, branch = self._embed(), ""
        outputs: list[Output] = []
        for index in range(config.num_hidden_layers):
            name = f"backbone.layers.{index}"
            before = f"backbone.layers.{index - 1}.feedforward_norm" if index else ""
            seen, x = self._join(x, branch, f"{name}.attention_norm" if self._pre else before)
            mixed, present = self._attention(seen, index)
            outputs += present
            branch = self._linear(mixed, f"{name}.attention.output")
            seen, x = self._join(x, branch, f"{name}.feedforward_norm" if self._pre else f"{name}.attention_norm")
            branch = self._feedforward(seen, f"{name}.feedforward")
        last = graph.node("GatherND", graph.node("Add", x, branch), WANTED)
        logits = self._logits(self._norm(last, "backbone.final_norm" if self._pre else last_norm))
        scores: Output = (logits, LOGITS, np.dtype(np.float32), ("wanted", config.vocab_size))
        model = graph.model(self._inputs(), [scores, *outputs])
        onnx.helper.set_model_props(model, self._notes())
        return model

    def _notes(self) -> dict[str, str]:
        """What the runtime cannot see in the graph: how n-grams are hashed, what layers of Llama's kind are like."""
        config = self._config
        notes = {}
        if config.num_ngram_buckets:
            notes = {"num_ngram_buckets": str(config.num_ngram_buckets), "ngram_sizes": json.dumps(config.ngram_sizes)}
        if _is_like_llama(config) and all(self._stored(name) is not None for name in matrices(config, self._head)):
            layers = {
                "layers": config.num_hidden_layers,
                "heads": self._heads,
                "groups": self._groups,
                "head_size": self._head_size,
                "scale": config.head_size**-0.5,
                "eps": config.norm_eps,
                "head_eps": self._head_eps,
                "head_norms": config.qk_norm,
                "windows": [self._max_length if window is None else window for window in config.windows],
            }
            notes[LAYERS] = json.dumps(layers)
        return notes

    @property
    def _head_eps(self) -> float:
        """Of the norms of padded heads, whose mean is taken over the zeros too."""
        return self._config.norm_eps * self._config.head_size / self._head_size

    def _join(self, x: str, branch: str, norm: str) -> tuple[str, str]:
        """What the next part reads, and the stream beside it. `norm` stands before that part, or after the last one."""
        if not norm:
            return x, x
        normed, total = self._norm_of_sum(x, branch, norm) if branch else (self._norm(x, norm), x)
        return normed, total if self._pre else normed

    def _inputs(self) -> list[Input]:
        number, small = np.dtype(np.int64), np.dtype(np.int32)
        inputs: list[Input] = [
            (IDS, number, ("batch", "length")),
            (SEEN, small, ("batch",)),
            (TOTAL, small, ()),
            (WANTED, number, ("wanted", 2)),
        ]
        if self._config.position_embedding_type in ("learned", "sinusoidal"):
            inputs.append((POSITIONS, number, ("batch", "length")))
        if self._config.num_ngram_buckets:
            inputs.append((NGRAMS, number, ("batch", "length", len(self._config.ngram_sizes))))
        shape = ("batch", self._groups, "capacity", self._head_size)
        kinds = [(index, kind) for index in range(self._config.num_hidden_layers) for kind in ("key", "value")]
        return inputs + [(f"past.{index}.{kind}", np.dtype(np.float32), shape) for index, kind in kinds]

    def _embed(self) -> str:
        """[B, T, D]."""
        graph, config = self.graph, self._config
        if self._table is None:
            x = graph.node("Gather", graph.constant(self._arrays[TOKENS]), IDS)
        else:
            x = self._blocks.rows(IDS, self._table, TOKENS)
        if config.num_ngram_buckets:
            found = graph.node("Gather", graph.constant(self._arrays["backbone.ngrams.table.weight"]), NGRAMS)
            x = graph.node("Add", x, graph.node("ReduceSum", found, graph.integers(2), keepdims=0))
        if config.position_embedding_type == "learned":
            table = graph.constant(self._arrays["backbone.positions.weight"])
            x = graph.node("Add", x, graph.node("Gather", table, POSITIONS))
        elif config.position_embedding_type == "sinusoidal":
            x = self._sinusoidal(x)
        if config.embedding_norm:
            x = self._norm(x, "backbone.embedding_norm")
        return x

    def _attention(self, x: str, index: int) -> tuple[str, list[Output]]:
        config, graph = self._config, self.graph
        name = f"backbone.layers.{index}.attention"
        query, key, value = self._linear(x, f"{name}.qkv"), "", ""
        if config.qk_norm:
            widths = [count * self._head_size for count in (self._heads, self._groups, self._groups)]
            query, key, value = graph.nodes("Split", query, graph.integers(*widths), outputs=(0, 1, 2), axis=-1)
            query, key = self._head_norm(query, f"{name}.query_norm"), self._head_norm(key, f"{name}.key_norm")
        window = config.windows[index]
        mixed, *present = graph.nodes(
            "GroupQueryAttention",
            query,
            key,
            value,
            f"past.{index}.key",
            f"past.{index}.value",
            SEEN,
            TOTAL,
            *self._rotation,
            outputs=(0, 1, 2),
            domain=MICROSOFT,
            num_heads=self._heads,
            kv_num_heads=self._groups,
            do_rotary=int(bool(self._rotation[0])),
            scale=config.head_size**-0.5,
            local_window_size=-1 if window is None else window,
        )
        shape = ("batch", self._groups, "capacity", self._head_size)
        outputs: list[Output] = [
            (tensor, f"present.{index}.{kind}", np.dtype(np.float32), shape)
            for tensor, kind in zip(present, ("key", "value"), strict=True)
        ]
        return mixed, outputs

    def _head_norm(self, x: str, name: str) -> str:
        """RMSNorm of each head's part of x [B, T, H d]."""
        apart = self.graph.node("Reshape", x, self.graph.integers(0, 0, -1, self._head_size))
        return self.graph.node(
            "Reshape", self._rms_norm(apart, name, eps=self._head_eps), self.graph.integers(0, 0, -1)
        )

    def _feedforward(self, x: str, name: str) -> str:
        config, graph = self._config, self.graph
        if not config.gated:
            inner = graph.activation(self._linear(x, f"{name}.up"), config.hidden_act)
        else:
            gate, up = graph.nodes("Split", self._linear(x, f"{name}.gate_up"), outputs=(0, 1), axis=-1, num_outputs=2)
            inner = graph.node("Mul", graph.activation(gate, config.hidden_act), up)
        return self._linear(inner, f"{name}.down")

    def _linear(self, x: str, name: str) -> str:
        """x [..., I] -> [..., O] by the matrix and, where there is one, the bias of `name`."""
        blocks = self._stored(f"{name}.weight")
        if blocks is None:
            y = self.graph.node("MatMul", x, self.graph.constant(self._arrays[f"{name}.weight"].T))
        else:
            y = self._blocks.times(x, blocks, f"{name}.weight")
        bias = f"{name}.bias"
        return self.graph.node("Add", y, self.graph.constant(self._arrays[bias], bias)) if bias in self._arrays else y

    def _logits(self, x: str) -> str:
        """[N, D] -> [N, V]."""
        graph = self.graph
        name = TOKENS if self._head.tied else OUT
        blocks = self._table if self._head.tied else self._stored(OUT)
        if blocks is None:  # Gemm and not MatMul: a tied table is then in the file once
            y = graph.node("Gemm", x, graph.constant(self._arrays[name]), transB=1)
        else:
            y = self._blocks.times(x, blocks, name)
        bias = "head.out.bias"
        return graph.node("Add", y, graph.constant(self._arrays[bias], bias)) if self._head.bias else y

    def _norm_of_sum(self, x: str, branch: str, name: str) -> tuple[str, str]:
        """The norm called `name` of x + branch, and that sum."""
        if self._config.norm != "rms":
            total = self.graph.node("Add", x, branch)
            return self._norm(total, name), total
        weight = self.graph.constant(self._arrays[f"{name}.weight"], f"{name}.weight")
        normed, total = self.graph.nodes(
            "SkipSimplifiedLayerNormalization",
            x,
            branch,
            weight,
            outputs=(0, 3),
            domain=MICROSOFT,
            epsilon=self._config.norm_eps,
        )
        return normed, total

    def _norm(self, x: str, name: str) -> str:
        kind, eps = self._config.norm, self._config.norm_eps
        if kind == "none":
            return x
        if kind == "layer":
            return self.graph.norm(x, self._arrays[f"{name}.weight"], self._arrays[f"{name}.bias"], eps=eps)
        return self._rms_norm(x, name, eps=eps)

    def _rms_norm(self, x: str, name: str, *, eps: float) -> str:
        weight = self.graph.constant(self._arrays[f"{name}.weight"], f"{name}.weight")
        return self.graph.node("SimplifiedLayerNormalization", x, weight, axis=-1, epsilon=eps, stash_type=1)

    def _rotary_tables(self) -> tuple[str, str]:
        """Cosines and sines [P, d / 2]; features that are padding do not turn."""
        config = self._config
        formula = rotary(config.head_size, config.rope_parameters, max_positions=config.max_position_embeddings)
        half = config.head_size // 2
        rows = self._positions(formula)[:, :, half:]  # the second half has the sines as they are
        wide = [(0, 0), (0, self._head_size // 2 - half)]
        cosines = np.pad(rows[:, 0], wide, constant_values=1)
        sines = np.pad(rows[:, 1], wide)
        return self.graph.constant(cosines, "rotation.cosines"), self.graph.constant(sines, "rotation.sines")

    def _sinusoidal(self, x: str) -> str:
        graph, size = self.graph, self._config.hidden_size
        scaled = graph.node("Mul", x, graph.constant(np.array(size**0.5, np.float32)))
        return graph.node(
            "Add", scaled, graph.node("Gather", graph.constant(self._positions(sinusoidal(size))), POSITIONS)
        )

    def _positions(self, formula: PositionTable) -> np.ndarray:
        """The values of a formula at every position."""
        rows: np.ndarray = formula.at(range(self._max_length), bound=self._max_length, like=torch.zeros(())).numpy()
        return rows
