"""Matrices in blocks as nodes of a graph: onnxruntime's own operators, and what they leave out.

The parts of a matrix are constants by its name: `NAME.packed`, `NAME.scales`, of 4 bits `NAME.centres` [n, O], and
`NAME.row_scales` where its rows are looked up. gnomon's kernels find them by these names (`runtime.compiled`).
"""

from __future__ import annotations

import numpy as np

from gnomon.deploy.blocks import Blocks
from gnomon.deploy.graph import MICROSOFT, Graph


class BlockNodes:
    """Adds nodes to one graph; a matrix that is used twice is stored once."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._packed: dict[str, str] = {}
        self._sums: dict[tuple[int, int], str] = {}

    def times(self, x: str, blocks: Blocks, name: str) -> str:
        """x [..., I] -> [..., O]."""
        graph = self._graph
        y = graph.node(
            "MatMulNBits",
            x,
            self._stored(blocks, name),
            graph.constant(blocks.scales.reshape(-1), f"{name}.scales"),
            domain=MICROSOFT,
            K=blocks.shape[1],
            N=blocks.shape[0],
            bits=blocks.bits,
            block_size=blocks.size,
            accuracy_level=4,  # products of whole numbers: activations are rounded to 8 bits by block as they come
        )
        if blocks.centres is None:
            return y
        # The operator's own centres are whole steps, which cost quality, or make it slow: these are added beside it.
        sums = graph.node("MatMul", x, self._sums_of_blocks(blocks.shape[1], blocks.size))
        centres = graph.constant(blocks.centres.T, f"{name}.centres")
        return graph.node("Add", y, graph.node("MatMul", sums, centres))

    def rows(self, ids: str, blocks: Blocks, name: str) -> str:
        """Ids [B, T] -> their rows [B, T, I] of a table. Raises ValueError for one that has centres."""
        if blocks.centres is not None:
            raise ValueError(f"the rows of {name} are looked up, and of {blocks.bits} bits that is not known")
        graph = self._graph
        found = graph.node(
            "GatherBlockQuantized",
            self._stored(blocks, name),
            ids,
            graph.constant(blocks.scales[..., None], f"{name}.row_scales"),
            domain=MICROSOFT,
            bits=blocks.bits,
            block_size=blocks.size,
            gather_axis=0,
            quantize_axis=2,
        )
        return graph.node("Reshape", found, graph.integers(0, 0, -1))

    def _stored(self, blocks: Blocks, name: str) -> str:
        if name not in self._packed:
            self._packed[name] = self._graph.constant(blocks.packed(), f"{name}.packed")
        return self._packed[name]

    def _sums_of_blocks(self, columns: int, size: int) -> str:
        """The matrix [I, n] that adds up the columns of each block."""
        if (columns, size) not in self._sums:
            ones = np.repeat(np.eye(columns // size, dtype=np.float32), size, axis=0)
            self._sums[columns, size] = self._graph.constant(ones)
        return self._sums[columns, size]
