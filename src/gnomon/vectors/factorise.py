"""The largest singular values of a large sparse matrix, and their vectors."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from gnomon.errors import GnomonError
from gnomon.vectors.counting import times_dense
from gnomon.vectors.workers import Meter, Watch, unwatched

Array = npt.NDArray[Any]
_OVERSAMPLING = 20
_POWER_STEPS = 2


def truncated_svd(
    matrix: Any, rank: int, *, seed: int, threads: int, watch: Watch = unwatched
) -> tuple[Array, Array, Array]:
    """U [N, rank], S [rank] and V [M, rank], float32, of a scipy CSR matrix [N, M] ~ U diag(S) V^T.

    A randomised range finder with two power steps (Halko, Martinsson, Tropp 2011). The same for the same seed.
    Raises GnomonError when the matrix has not so many singular values.
    """
    if rank > min(matrix.shape):
        raise GnomonError(
            f"vectors of {rank} numbers are asked for, and the counts are {matrix.shape[0]} x {matrix.shape[1]}",
            f"give --size {min(matrix.shape)} or less, or more text",
        )
    across = matrix.T.tocsr()
    columns = min(rank + _OVERSAMPLING, *matrix.shape)
    meter = Meter("factorising", 2 * _POWER_STEPS + 2, watch)
    done = 0

    def times(sparse: Any, dense: Array) -> Array:
        nonlocal done
        product = _times(sparse, dense, threads)
        done += 1
        meter.tell(done, 0.0, 0.0)
        return product

    start = np.random.default_rng(seed).standard_normal((matrix.shape[1], columns), np.float32)
    basis = np.linalg.qr(times(matrix, start))[0]
    for _ in range(_POWER_STEPS):
        basis = np.linalg.qr(times(matrix, np.linalg.qr(times(across, basis))[0]))[0]
    right, values, left = np.linalg.svd(times(across, basis), full_matrices=False)
    return basis @ left.T[:, :rank], values[:rank], right[:, :rank]


def _times(matrix: Any, dense: Array, threads: int) -> Array:
    """CSR [N, M] times [M, K], float32, the rows shared out by how many numbers they hold."""
    product = np.zeros((matrix.shape[0], dense.shape[1]), np.float32)
    dense = np.ascontiguousarray(dense)
    shares = [matrix.nnz * number // threads for number in range(1, threads)]
    cuts = [0, *np.searchsorted(matrix.indptr, shares).tolist(), matrix.shape[0]]
    with ThreadPoolExecutor(threads) as pool:
        arrays = (matrix.indptr, matrix.indices, matrix.data, dense, product)
        list(pool.map(lambda span: times_dense(*arrays, *span), pairwise(cuts)))
    return product
