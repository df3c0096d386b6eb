"""Only what is new of a growing text is read."""

from __future__ import annotations

import numpy as np

from gnomon.decoding.resuming import ResumingStepper
from gnomon.decoding.stepper import read_prompts
from table_stepper import RowStepper, table_model

MODEL = table_model(11)


class Counting(RowStepper):
    """How many columns were read."""

    columns = 0

    def prefill(self, ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        self.columns += ids.shape[1]
        return super().prefill(ids, mask)


def read(stepper: ResumingStepper, *rows: list[int]) -> np.ndarray:
    return read_prompts(stepper, list(rows), pad_id=0, max_new_tokens=1)


def test_a_text_that_goes_on_is_read_from_where_it_did() -> None:
    inner = Counting(MODEL)
    stepper = ResumingStepper(inner)
    read(stepper, [1, 2, 3])
    stepper.step(np.array([4]))
    found = read(stepper, [1, 2, 3, 4, 5, 6])
    assert inner.columns == 3 + 1 + 2
    np.testing.assert_array_equal(found[0], MODEL([1, 2, 3, 4, 5, 6])[-1])


def test_a_text_that_differs_is_read_from_there_and_an_equal_one_keeps_its_last_token() -> None:
    inner = Counting(MODEL)
    stepper = ResumingStepper(inner)
    read(stepper, [1, 2, 3, 4])
    np.testing.assert_array_equal(read(stepper, [1, 2, 9, 4])[0], MODEL([1, 2, 9, 4])[-1])
    assert inner.columns == 4 + 2
    np.testing.assert_array_equal(read(stepper, [1, 2, 9, 4])[0], MODEL([1, 2, 9, 4])[-1])
    assert inner.columns == 4 + 2 + 1


def test_a_batch_between_is_read_whole() -> None:
    stepper = ResumingStepper(Counting(MODEL))
    read(stepper, [1, 2, 3])
    found = read(stepper, [1, 2, 3], [4, 5])
    np.testing.assert_array_equal(found, [MODEL([1, 2, 3])[-1], MODEL([4, 5])[-1]])
    np.testing.assert_array_equal(read(stepper, [1, 2, 3])[0], MODEL([1, 2, 3])[-1])
