"""The terms against float64 references, and the properties that CASES names."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from torch import Tensor

from gnomon.distillation.terms import forward_kl, gold_cross_entropy, hidden_cosine, hidden_mse

quick = settings(deadline=None, derandomize=True, max_examples=40)
shapes = st.tuples(st.integers(1, 5), st.integers(2, 7))
logits = shapes.flatmap(
    lambda shape: st.tuples(*[arrays(np.float32, shape, elements=st.floats(-60, 60, width=32)) for _ in range(2)])
)


def reference_kl(student: NDArray[np.float32], teacher: NDArray[np.float32], temperature: float) -> NDArray[np.float64]:
    def log_softmax(z: NDArray[np.float64]) -> NDArray[np.float64]:
        shifted = z - z.max(axis=-1, keepdims=True)
        result: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
        return result

    q = log_softmax(student.astype(np.float64) / temperature)
    p = log_softmax(teacher.astype(np.float64) / temperature)
    result: NDArray[np.float64] = temperature**2 * (np.exp(p) * (p - q)).sum(axis=-1)
    return result


@quick
@given(pair=logits, temperature=st.sampled_from([0.5, 1.0, 2.0, 4.0]))
def test_kl_equals_the_float64_reference(pair: tuple[np.ndarray, np.ndarray], temperature: float) -> None:
    student, teacher = pair
    ours = forward_kl(torch.from_numpy(student), torch.from_numpy(teacher), temperature=temperature).numpy()
    np.testing.assert_allclose(ours, reference_kl(student, teacher, temperature), rtol=2e-4, atol=2e-4)


@quick
@given(pair=logits, temperature=st.floats(0.01, 100))
def test_kl_is_never_negative_and_has_finite_gradients(pair: tuple[np.ndarray, np.ndarray], temperature: float) -> None:
    student = torch.from_numpy(pair[0]).requires_grad_()
    value = forward_kl(student, torch.from_numpy(pair[1]), temperature=temperature)
    assert value.shape == pair[0].shape[:1]
    assert (value >= 0).all()
    value.sum().backward()
    assert student.grad is not None
    assert torch.isfinite(student.grad).all()


@quick
@given(pair=logits, temperature=st.floats(0.01, 100))
def test_equal_logits_diverge_by_exactly_nothing(pair: tuple[np.ndarray, np.ndarray], temperature: float) -> None:
    student = torch.from_numpy(pair[0]).requires_grad_()
    value = forward_kl(student, student.detach().clone(), temperature=temperature)
    value.sum().backward()
    assert value.abs().max() == 0
    assert student.grad is not None
    assert student.grad.abs().max() < 1e-4 * max(1.0, temperature)


@quick
@given(pair=logits, shift=st.floats(-20, 20, width=32))
def test_a_constant_added_to_a_row_changes_nothing(pair: tuple[np.ndarray, np.ndarray], shift: float) -> None:
    student, teacher = torch.from_numpy(pair[0]), torch.from_numpy(pair[1])
    torch.testing.assert_close(
        forward_kl(student + shift, teacher - shift, temperature=2.0),
        forward_kl(student, teacher, temperature=2.0),
        rtol=1e-4,
        atol=1e-3,
    )


def test_the_soft_gradient_keeps_its_size_over_temperatures() -> None:
    generator = torch.Generator().manual_seed(0)
    teacher = torch.randn(64, 6, generator=generator)
    start = torch.randn(64, 6, generator=generator)
    norms = []
    for temperature in (1.0, 2.0, 4.0, 8.0):
        student = start.clone().requires_grad_()
        forward_kl(student, teacher, temperature=temperature).sum().backward()
        assert student.grad is not None
        norms.append(student.grad.norm().item())
    assert max(norms) / min(norms) < 2


def test_rows_are_independent_so_doubling_the_batch_doubles_the_sum() -> None:
    generator = torch.Generator().manual_seed(1)
    student, teacher = torch.randn(5, 4, generator=generator), torch.randn(5, 4, generator=generator)
    hidden, wanted = torch.randn(5, 8, generator=generator), torch.randn(5, 8, generator=generator)
    labels = torch.tensor([0, 3, -1, 2, 1])

    def values(times: int) -> list[Tensor]:
        return [
            forward_kl(student.repeat(times, 1), teacher.repeat(times, 1), temperature=2.0),
            gold_cross_entropy(student.repeat(times, 1), labels.repeat(times)),
            hidden_cosine(hidden.repeat(times, 1), wanted.repeat(times, 1)),
            hidden_mse(hidden.repeat(times, 1), wanted.repeat(times, 1)),
        ]

    for once, twice in zip(values(1), values(2), strict=True):
        torch.testing.assert_close(twice, once.repeat(2), rtol=0, atol=0)


def test_gold_is_the_negative_log_probability_and_nothing_where_there_is_no_label() -> None:
    student = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]], requires_grad=True)
    value = gold_cross_entropy(student, torch.tensor([0, 1, -1]))
    assert value.tolist() == pytest.approx([-np.log(0.7310586), -np.log(0.2689414), 0.0], abs=1e-6)
    value.sum().backward()
    assert student.grad is not None
    assert student.grad[2].tolist() == [0.0, 0.0]


def test_hidden_terms_agree_with_numpy_and_are_zero_when_equal() -> None:
    generator = torch.Generator().manual_seed(2)
    ours, theirs = torch.randn(6, 8, generator=generator), torch.randn(6, 8, generator=generator)
    a, b = ours.double().numpy(), theirs.double().numpy()
    cosine = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    np.testing.assert_allclose(hidden_cosine(ours, theirs).numpy(), 1 - cosine, atol=1e-6)
    np.testing.assert_allclose(hidden_mse(ours, theirs).numpy(), ((a - b) ** 2).mean(1), rtol=1e-5)
    assert hidden_cosine(ours, ours).abs().max() == 0
    assert hidden_mse(ours, ours).abs().max() == 0
    torch.testing.assert_close(hidden_cosine(3 * ours, theirs), hidden_cosine(ours, theirs))


def test_a_hidden_row_of_zeros_has_a_finite_gradient() -> None:
    ours = torch.zeros(2, 4, requires_grad=True)
    hidden_cosine(ours, torch.ones(2, 4)).sum().backward()
    assert ours.grad is not None
    assert torch.isfinite(ours.grad).all()


def test_the_teacher_gets_no_gradient() -> None:
    teacher = torch.randn(2, 3, requires_grad=True)
    student = torch.randn(2, 3, requires_grad=True)
    (forward_kl(student, teacher).sum() + hidden_mse(student, teacher).sum()).backward()
    assert teacher.grad is None
