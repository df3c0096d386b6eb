"""The text that narrow weights are judged by when none is given."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gnomon.decoding.logprobs import score_rows
from gnomon.deploy.calibration import own_rows, sample_rows
from gnomon.deploy.language import export_language_model
from gnomon.errors import GnomonError
from gnomon.models.stepper import TorchStepper
from language_models import language_model


def test_a_model_writes_the_same_rows_each_time_and_others_by_another_seed() -> None:
    model = language_model("rope")
    stepper = TorchStepper(model)
    rows = own_rows(stepper, model.tokenizer, 3, seed=1, max_length=20)
    assert [len(row) for row in rows] == [20, 20, 20]
    assert rows == own_rows(stepper, model.tokenizer, 3, seed=1, max_length=20)
    assert rows != own_rows(stepper, model.tokenizer, 3, seed=2, max_length=20)


def test_the_shortest_contexts_are_exported_or_refused_in_their_own_words(tmp_path: Path) -> None:
    language_model("rope").save(tmp_path / "model")
    for bits in (8, 4):
        exported = export_language_model(tmp_path / "model", tmp_path / str(bits), bits=bits, threads=1, max_length=2)
        assert np.isfinite(exported.perplexity_ratio)
    with pytest.raises(GnomonError, match="a context of 1 token leaves no token to predict"):
        export_language_model(tmp_path / "model", tmp_path / "1", bits=8, threads=1, max_length=1)
    assert not (tmp_path / "1").exists()


def test_the_likelier_text_judges(tmp_path: Path) -> None:
    model = language_model("rope", spread=0.5)
    model.save(tmp_path / "model")
    stepper = TorchStepper(model)
    sample = sample_rows(model.tokenizer)
    own = own_rows(stepper, model.tokenizer, 16, seed=2, max_length=128)
    likely, unlikely = (np.concatenate(score_rows(stepper, rows, pad_id=0)).mean() for rows in (own, sample))
    assert likely > unlikely, "a model of random weights knows its own text better than ours"
    exported = export_language_model(tmp_path / "model", tmp_path / "out", bits=8, threads=1)
    assert exported.checked == sum(len(row) - 1 for row in own)
