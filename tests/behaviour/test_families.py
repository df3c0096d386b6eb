"""The shared suite: what every architecture must do, whatever it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

from families import CASES, LABELS, TEXTS, each_family, small_batch, small_model, wider
from gnomon.models.families import FAMILIES
from gnomon.models.folders import load_model, read_folder

TOLERANCE = 1e-5


def test_every_family_is_in_the_suite() -> None:
    assert {family for family, _, _ in CASES.values()} == set(FAMILIES)


@each_family
def test_saved_and_loaded_it_answers_the_same(name: str, tmp_path: Path) -> None:
    model = small_model(name)
    model.save(tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    ids, mask = small_batch(model)
    assert torch.equal(loaded.logits(ids, mask), model.logits(ids, mask))
    assert (loaded.labels, loaded.max_length) == (model.labels, model.max_length)
    assert (loaded.head_config, loaded.backbone.config) == (model.head_config, model.backbone.config)
    assert (loaded.load_report.unused, loaded.load_report.missing) == ((), ())
    assert not loaded.training
    assert set(read_folder(tmp_path / "m").arrays) == set(model.state_dict())


@each_family
def test_it_overfits_one_batch(name: str) -> None:
    model = small_model(name, spread=False).train()
    ids, mask = small_batch(model)
    target = torch.arange(len(TEXTS)) % len(LABELS)
    dense = [p for n, p in model.named_parameters() if "ngrams" not in n]
    rows = [p for n, p in model.named_parameters() if "ngrams" in n]
    optimizers = [torch.optim.Adam(dense, lr=3e-3 if model.backbone.family == "encoder" else 2e-2)]
    optimizers += [torch.optim.SparseAdam(rows, lr=2e-2)] if rows else []
    for _ in range(150):
        loss = F.cross_entropy(model.logits(ids, mask), target)
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
    assert (model.eval().logits(ids, mask).argmax(1) == target).all()


@each_family
def test_padding_changes_no_logit_and_no_gradient(name: str) -> None:
    model = small_model(name)
    ids, mask = small_batch(model)
    results = []
    for batch in ((ids, mask), wider(ids, mask, 5, fill=0), wider(ids, mask, 3, fill=len(TEXTS))):
        model.zero_grad()
        output = model(*batch)
        (output.logits * torch.arange(1.0, 1 + len(LABELS))).sum().backward()
        gradients = [p.grad.to_dense() for p in model.parameters() if p.grad is not None]
        results.append((output.logits, output.pooled, gradients))
    for logits, pooled, gradients in results[1:]:
        torch.testing.assert_close(logits, results[0][0], atol=TOLERANCE, rtol=0)
        torch.testing.assert_close(pooled, results[0][1], atol=TOLERANCE, rtol=0)
        torch.testing.assert_close(gradients, results[0][2], atol=1e-4, rtol=TOLERANCE)


@each_family
def test_a_batch_answers_as_each_text_alone(name: str) -> None:
    model = small_model(name)
    together = model.logits(*small_batch(model))
    alone = torch.cat([model.logits(*small_batch(model, (text,))) for text in TEXTS])
    torch.testing.assert_close(together, alone, atol=TOLERANCE, rtol=0)


@each_family
def test_a_batch_without_any_padding_needs_no_mask(name: str) -> None:
    model = small_model(name)
    ids, mask = small_batch(model, ("a b c", "d e f"))
    with_mask, without = model.backbone(ids, mask=mask), model.backbone(ids)
    torch.testing.assert_close(with_mask.hidden, without.hidden, atol=TOLERANCE, rtol=0)


@each_family
def test_a_text_without_tokens_gives_finite_logits_and_gradients(name: str) -> None:
    model = small_model(name)
    ids, mask = small_batch(model)
    mask[2] = False
    logits = model.logits(ids, mask)
    logits.sum().backward()
    assert logits.isfinite().all()
    assert all(p.grad.to_dense().isfinite().all() for p in model.parameters() if p.grad is not None)
    others = [i for i in range(len(TEXTS)) if i != 2]
    expected = model.logits(*small_batch(model))
    torch.testing.assert_close(logits[others], expected[others], atol=TOLERANCE, rtol=0)


@each_family
def test_a_token_beyond_the_text_is_never_seen(name: str) -> None:
    model = small_model(name)
    ids, mask = small_batch(model)
    other = torch.where(mask, ids, torch.randint_like(ids, 5, 20))
    torch.testing.assert_close(model.logits(other, mask), model.logits(ids, mask), atol=TOLERANCE, rtol=0)


@each_family
def test_a_causal_family_sees_no_later_token(name: str) -> None:
    model = small_model(name)
    ids, _ = small_batch(model, ("a b c d e f",))
    later = ids.clone()
    later[:, 4:] = 9
    first, second = model.backbone(ids).hidden[:, :4], model.backbone(later).hidden[:, :4]
    same = torch.allclose(first, second, atol=TOLERANCE)
    assert same or not model.backbone.causal


@each_family
def test_every_parameter_learns(name: str) -> None:
    model = small_model(name).train()
    model.logits(*small_batch(model)).square().sum().backward()
    without = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.to_dense().abs().sum() > 0]
    assert without == []


@each_family
def test_predictions_are_those_of_the_logits(name: str) -> None:
    model = small_model(name).train()
    predictions = model.predict(list(TEXTS))
    assert model.training
    logits = model.eval().logits(*small_batch(model)).detach()
    for prediction, row in zip(predictions, logits, strict=True):
        expected = dict(zip(LABELS, row.softmax(0).tolist(), strict=True))
        assert prediction.label == max(expected, key=expected.__getitem__)
        np.testing.assert_allclose(list(prediction.probabilities.values()), list(expected.values()), atol=TOLERANCE)


@each_family
def test_taps_see_the_layers_and_change_nothing(name: str) -> None:
    model = small_model(name)
    ids, mask = small_batch(model)
    seen: dict[str, torch.Tensor] = {}
    tapped = model.backbone(ids, mask=mask, taps=seen.__setitem__).hidden
    torch.testing.assert_close(tapped, model.backbone(ids, mask=mask).hidden, atol=TOLERANCE, rtol=0)
    assert seen["embeddings"].shape[:2] == ids.shape
    for tap, tensor in seen.items():
        if tap.endswith("attention"):
            torch.testing.assert_close(tensor.sum(-1), torch.ones(tensor.shape[:-1]))
            of_real = tensor * mask[:, None, :, None]  # what padding itself looks at is nobody's concern
            assert not of_real.transpose(1, 3)[~mask].any(), "weight on padding"


@each_family
def test_the_same_seed_gives_the_same_weights(name: str) -> None:
    first, second, other = (small_model(name, seed=seed).state_dict() for seed in (3, 3, 4))
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert any(not torch.equal(first[key], other[key]) for key in first)


@each_family
def test_it_computes_in_double_precision_too(name: str) -> None:
    model = small_model(name)
    ids, mask = small_batch(model)
    single = model.logits(ids, mask)
    torch.testing.assert_close(model.double().logits(ids, mask).float(), single, atol=1e-4, rtol=0)


@each_family
def test_the_first_position_alone_is_what_it_is_among_all(name: str) -> None:
    model = small_model(name)
    ids, mask = small_batch(model)
    gradients = []
    for first in (model.backbone.first(ids, mask), model.backbone(ids, mask=mask).hidden[:, :1]):
        model.zero_grad()
        (first * torch.arange(1, first.numel() + 1).view_as(first)).mean().backward()
        found = [p.grad.to_dense() for p in model.backbone.parameters() if p.grad is not None]
        gradients.append(torch.cat([first.detach().flatten(), *(one.flatten() for one in found)]))
    torch.testing.assert_close(*gradients, atol=TOLERANCE, rtol=TOLERANCE)
