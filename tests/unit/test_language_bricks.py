"""The bricks of language models against plain formulas, and the worked examples C5, C11 and C12."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from gnomon.errors import GnomonError
from gnomon.models.base import Model
from gnomon.models.heads import LanguageHeadConfig
from gnomon.nn.attention import attend
from gnomon.nn.feedforward import ACTIVATIONS, GatedFeedForward
from gnomon.nn.grouped_attention import GroupedAttention, Reading
from gnomon.nn.masks import attention_bias
from gnomon.nn.norms import NORMS, RMSNorm, make_norm, rms_norm
from gnomon.nn.packing import take_apart
from gnomon.nn.positions import alibi_bias, alibi_slopes, sinusoidal, token_positions
from gnomon.nn.rope import rotary, rotate, rotation_of
from gnomon.nn.state import KeyValues, State, Vectors
from gnomon.nn.vocabulary import VocabularyProjection, log_probabilities, summed_cross_entropy
from language_models import LANGUAGE_CASES, language_model

quick = settings(deadline=None, derandomize=True, max_examples=20)


@quick
@given(
    rows=st.integers(0, 9),
    vocab=st.integers(1, 11),
    at_once=st.integers(1, 60),
    biased=st.booleans(),
    scale=st.sampled_from([0.1, 1.0, 30.0]),
)
def test_the_chunked_loss_is_the_plain_one(rows: int, vocab: int, at_once: int, biased: bool, scale: float) -> None:
    torch.manual_seed(rows * 100 + vocab)
    features = (torch.randn(rows, 4, dtype=torch.float64) * scale).requires_grad_()
    matrix = torch.randn(vocab, 4, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(vocab, dtype=torch.float64, requires_grad=True) if biased else None
    targets = torch.randint(vocab, (rows,))
    inputs = [one for one in (features, matrix, bias) if one is not None]
    plain = F.cross_entropy(F.linear(features, matrix, bias), targets, reduction="sum")
    expected = torch.autograd.grad(plain / 7, inputs)
    loss = summed_cross_entropy(features, matrix, bias, targets, scores_at_once=at_once)
    found = torch.autograd.grad(loss / 7, inputs)
    torch.testing.assert_close(loss.double(), plain, atol=1e-4, rtol=1e-5)  # scores are computed in float32
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)
    each = -log_probabilities(features, matrix, bias, targets)
    torch.testing.assert_close(each.sum().double(), plain, atol=1e-4, rtol=1e-5)


def test_the_chunked_loss_computes_only_the_gradients_that_are_asked_for() -> None:
    features, matrix = torch.randn(5, 4), torch.randn(7, 4)
    targets = torch.arange(5)
    for asked in (features, matrix):
        asked.requires_grad_()
        summed_cross_entropy(features, matrix, None, targets).backward()
        assert asked.grad is not None
        asked.requires_grad_(False)
        asked.grad = None
    assert not summed_cross_entropy(features, matrix, None, targets).requires_grad


def test_the_chunked_loss_never_holds_all_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    plain = F.linear
    monkeypatch.setattr(F, "linear", lambda *a: (seen.append(len(a[0])), plain(*a))[1])
    summed_cross_entropy(torch.randn(100, 4), torch.randn(50, 4), None, torch.zeros(100).long(), scores_at_once=500)
    assert seen == [10] * 10


def test_a_tied_projection_has_no_matrix_of_its_own_and_survives_copies() -> None:
    table = nn.Embedding(9, 4)
    tied, own = VocabularyProjection(4, 9, tied_to=table), VocabularyProjection(4, 9, bias=True)
    assert list(tied.state_dict()) == []
    assert list(own.state_dict()) == ["weight", "bias"]
    x = torch.randn(2, 4)
    assert torch.equal(tied(x), x @ table.weight.T)
    model = copy.deepcopy(language_model("rope"))
    model.load_state_dict({n: t + 1 for n, t in model.state_dict().items()}, assign=True)
    assert model.head.out.matrix is model.backbone.token_embedding.weight  # type: ignore[union-attr]


def test_tying_what_is_not_as_wide_is_refused() -> None:
    other = language_model("convolutional")
    with pytest.raises(GnomonError, match="cannot be tied"):
        Model(other.backbone, LanguageHeadConfig(), tokenizer=other.tokenizer, max_length=9)


def test_rms_norm_and_its_gradient() -> None:
    x = torch.randn(3, 5, 6, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(6, dtype=torch.float64, requires_grad=True)
    of_heads = torch.randn(5, 6, dtype=torch.float64, requires_grad=True)
    for scale in (weight, of_heads):
        assert torch.autograd.gradcheck(lambda a, w: rms_norm(a, w, 1e-6), (x, scale))
        expected = x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * scale
        torch.testing.assert_close(rms_norm(x, scale, 1e-6), expected)
        torch.testing.assert_close(rms_norm(x.detach(), scale.detach(), 1e-6), expected.detach())
    assert torch.isfinite(rms_norm(torch.zeros(2, 6, requires_grad=True), torch.ones(6), 1e-6)).all()


@pytest.mark.parametrize("kind", [kind for kind in NORMS if kind != "batch"])
def test_a_norm_looks_at_one_position_alone(kind: str) -> None:
    """C11."""
    norm = make_norm(kind, 6, eps=1e-6)
    x = torch.randn(2, 5, 6)
    assert torch.allclose(norm(x)[:, 2], norm(x[:, 2:3])[:, 0], atol=1e-6)


def test_batch_norm_does_not_and_unknown_norms_are_refused() -> None:
    norm, x = make_norm("batch", 6, eps=1e-5), torch.randn(2, 5, 6)
    assert norm(x).shape == x.shape
    assert not torch.allclose(norm(x)[:1], norm(x[:1]), atol=1e-3)
    with pytest.raises(GnomonError, match="did you mean 'layer'"):
        make_norm("layers", 6, eps=1e-5)
    assert isinstance(make_norm("rms", 6, eps=1e-5), RMSNorm)


def test_rotation_is_relative_and_its_gradient_is_right() -> None:
    table = rotary(8, {"rope_type": "default", "rope_theta": 100.0}, max_positions=64)
    q, k = torch.randn(1, 1, 1, 8, dtype=torch.float64), torch.randn(1, 1, 1, 8, dtype=torch.float64)

    def score(i: int, j: int) -> float:
        turned = [rotate(x, rotation_of(table.at(range(p, p + 1), bound=p + 1, like=x))) for x, p in ((q, i), (k, j))]
        return float((turned[0] * turned[1]).sum())

    assert score(9, 4) == pytest.approx(score(47, 42), abs=1e-5)
    assert score(9, 4) != pytest.approx(score(9, 5), abs=1e-2)
    x = torch.randn(2, 3, 2, 8, dtype=torch.float64, requires_grad=True)
    rotation = rotation_of(table.at(torch.tensor([[4, 5, 6], [0, 1, 9]]), bound=10, like=x))
    assert torch.autograd.gradcheck(lambda a: rotate(a, rotation), (x,))
    torch.testing.assert_close(rotate(x, rotation).norm(dim=-1), x.norm(dim=-1))


def test_a_table_of_positions_grows_and_may_be_trained_after_being_made_in_inference() -> None:
    table = rotary(4, {"rope_theta": 10.0}, max_positions=8)
    like = torch.zeros(1)
    with torch.inference_mode():
        first = table.at(range(3), bound=3, like=like).clone()
    torch.testing.assert_close(table.at(range(500), bound=500, like=like)[:3], first.clone())
    x = torch.randn(1, 3, 1, 4, requires_grad=True)
    rotate(x, rotation_of(table.at(range(3), bound=3, like=x))).sum().backward()
    with pytest.raises(GnomonError, match="even"):
        rotary(5, {}, max_positions=8)


def test_sinusoidal_and_alibi_are_the_papers() -> None:
    rows = sinusoidal(6).at(range(4), bound=4, like=torch.zeros(1))
    for position in range(4):
        for i in range(3):
            angle = position / 10000 ** (2 * i / 6)
            assert rows[position, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert rows[position, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)
    assert alibi_slopes(8).tolist() == [2.0**-n for n in range(1, 9)]
    assert alibi_slopes(6).tolist() == [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3]
    bias = alibi_bias(2, length=2, past=1, like=torch.zeros(1))
    assert bias[0, 0].tolist() == [[-(2.0**-4), 0.0, 2.0**-4], [-2 * 2.0**-4, -(2.0**-4), 0.0]]


@quick
@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(0, 3))
def test_packed_texts_come_apart_and_together(lengths: list[int], padding: int) -> None:
    documents = torch.tensor([[n for n, size in enumerate(lengths) for _ in range(size)] + [-1] * padding])
    ids = torch.arange(1, documents.numel() + 1)[None]
    positions = token_positions(ids.shape[1], documents=documents)
    rows, mask, place = take_apart(ids, documents >= 0, documents)
    assert isinstance(positions, torch.Tensor)
    assert positions[0].tolist() == [p for size in (*lengths, padding) for p in range(size)]
    assert rows[place].tolist() == ids.tolist()
    assert mask[place].tolist() == (documents >= 0).tolist()
    assert mask.sum().item() == sum(lengths)


def test_positions_count_real_tokens() -> None:
    mask = torch.tensor([[False, False, True, True], [True, True, True, False]])
    assert token_positions(4) == range(4)
    assert token_positions(2, past=5) == range(5, 7)
    found = token_positions(4, mask=mask)
    assert found[0, 2:].tolist() == [0, 1]  # type: ignore[index]
    assert found[1, :3].tolist() == [0, 1, 2]  # type: ignore[index]
    assert token_positions(2, past=torch.tensor([3, 0])).tolist() == [[3, 4], [0, 1]]  # type: ignore[union-attr]


def test_one_projection_and_reshape_equals_eight_heads() -> None:
    """C5: width 512, 8 heads of 64."""
    torch.manual_seed(0)
    attention = GroupedAttention(512, 8, num_key_value_heads=8, head_size=64)
    x = torch.randn(2, 5, 512)
    triangle = attention_bias(None, length=5, causal=True, dtype=x.dtype)
    query, key, value = (part.unflatten(-1, (8, 64)) for part in attention.qkv.parts(x))
    heads = [attend(query[:, :, h], key[:, :, h], value[:, :, h], bias=triangle[0])[0] for h in range(8)]  # type: ignore[index]
    expected = attention.output(torch.cat(heads, dim=-1))
    torch.testing.assert_close(attention(x, Reading(causal=True)), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_grouped_queries_are_heads_that_share(groups: int) -> None:
    torch.manual_seed(0)
    grouped = GroupedAttention(16, 4, num_key_value_heads=groups, head_size=6, bias=True, qk_norm_eps=1e-6)
    plain = GroupedAttention(16, 4, num_key_value_heads=4, head_size=6, bias=True, qk_norm_eps=1e-6)
    with torch.no_grad():
        for part in (grouped.query_norm, grouped.key_norm):
            part.weight.copy_(torch.randn(6))  # type: ignore[union-attr]
        for name in ("weight", "bias"):
            q, k, v = getattr(grouped.qkv, name).split(grouped.qkv.sizes)
            shared = [part.unflatten(0, (groups, 6)).repeat_interleave(4 // groups, 0).flatten(0, 1) for part in (k, v)]
            getattr(plain.qkv, name).copy_(torch.cat([q, *shared]))
        plain.load_state_dict({n: t for n, t in grouped.state_dict().items() if "qkv" not in n}, strict=False)
    x = torch.randn(2, 7, 16)
    seen: list[torch.Tensor] = []
    expected = plain(x, Reading(causal=True))
    torch.testing.assert_close(grouped(x, Reading(causal=True)), expected)
    torch.testing.assert_close(grouped(x, Reading(causal=True), see_weights=seen.append), expected)
    assert seen[0].shape == (2, 4, 7, 7)
    assert not seen[0].triu(1).any()
    with pytest.raises(GnomonError, match="do not divide"):
        GroupedAttention(16, 4, num_key_value_heads=3, head_size=4)


def test_gates_and_activations() -> None:
    gated = GatedFeedForward(4, 6)
    x = torch.randn(3, 4)
    gate, up = gated.gate_up(x).chunk(2, dim=-1)
    torch.testing.assert_close(gated(x), gated.down(F.silu(gate) * up))
    assert ACTIVATIONS["relu2"](torch.tensor([-2.0, 3.0])).tolist() == [0.0, 9.0]


def test_a_state_grows_reorders_and_goes_back() -> None:
    memory = KeyValues(capacity=2)
    state = State([memory])
    parts = torch.randn(3, 2, 9, 4)
    for start, stop in ((0, 2), (2, 3), (3, 9)):
        piece = parts[:, :, start:stop]
        keys, values = memory.append(piece, -piece, start=start)
        state.advance(stop - start, None)
        assert torch.equal(keys, parts[:, :, :stop])
        assert torch.equal(values, -parts[:, :, :stop])
    state.reorder(torch.tensor([2, 2, 0, 1]))
    state.trim(5)
    keys, _ = memory.append(parts[[2, 2, 0, 1], :, 5:6], parts[[2, 2, 0, 1], :, 5:6], start=5)
    assert torch.equal(keys, parts[[2, 2, 0, 1], :, :6])
    with pytest.raises(GnomonError, match="only the present"):
        only_now = State([Vectors()])
        only_now.advance(3, None)
        only_now.trim(2)


@pytest.mark.parametrize("name", LANGUAGE_CASES)
def test_formulas_and_states_are_never_saved(name: str) -> None:
    """C12: learned positions are saved tensors; sinusoidal, RoPE, ALiBi, and K and V are not."""
    model = language_model(name)
    before = set(model.state_dict())
    model.backbone(torch.tensor([[5, 6, 7]]), state=model.backbone.init_state())
    assert set(model.state_dict()) == before
    assert ("backbone.positions.weight" in before) == (name == "learned")


def test_a_window_and_documents_limit_what_is_seen() -> None:
    bias = attention_bias(None, length=4, causal=True, dtype=torch.float32, window=2)
    assert bias is not None
    assert (bias[0, 0] == 0).int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    both = attention_bias(None, length=3, causal=False, dtype=torch.float32, documents=torch.tensor([[0, 0, 1]]))
    assert both is not None
    assert (both[0, 0] == 0).int().tolist() == [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    later = attention_bias(
        torch.tensor([[False, True, True, True]]), length=1, past=3, causal=True, dtype=torch.float32
    )
    assert later is not None
    assert (later[0, 0] == 0).int().tolist() == [[0, 1, 1, 1]]
