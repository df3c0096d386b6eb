"""The same tokens as the `transformers` library: greedy, beams, and each filter of scores."""

from __future__ import annotations

import numpy as np
import pytest

from gnomon.decoding import sampling as s
from gnomon.decoding.beam import beam_search
from gnomon.decoding.loop import decode
from table_stepper import RowStepper

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
PROMPTS = [[5, 9, 3], [7], [4, 4, 8, 2, 6]]
END = 1


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def model(request):
    torch.manual_seed(0)
    if request.param == "gpt2":
        config = transformers.GPT2Config(
            vocab_size=40, n_embd=16, n_layer=2, n_head=2, n_positions=64, eos_token_id=END, bos_token_id=2
        )
        config.initializer_range = 0.6
        return transformers.GPT2LMHeadModel(config).eval()
    config = transformers.LlamaConfig(
        vocab_size=40,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=24,
        eos_token_id=END,
        initializer_range=0.6,
    )
    return transformers.LlamaForCausalLM(config).eval()


@pytest.fixture
def stepper(model):
    def scores(ids):
        with torch.inference_mode():
            return model(torch.tensor([ids])).logits[0].numpy()

    return RowStepper(scores)


def theirs(model, prompt, **settings):
    with torch.inference_mode():
        out = model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            do_sample=False,
            pad_token_id=0,
            eos_token_id=END,
            **settings,
        )
    return [row[len(prompt) :] for row in out.tolist()]


def without_padding(ids):
    return ids[: ids.index(END) + 1] if END in ids else ids


def test_greedy(model, stepper):
    found = [[] for _ in PROMPTS]
    for choices in decode(stepper, PROMPTS, sampling=s.Sampling(), max_new_tokens=24, end_ids={END}, pad_id=0):
        for choice in choices:
            found[choice.row].append(choice.id)
    assert found == [theirs(model, prompt, max_new_tokens=24)[0] for prompt in PROMPTS]


@pytest.mark.parametrize("length_penalty", [0.0, 1.0, 2.5])
def test_beams(model, stepper, length_penalty):
    ours = beam_search(
        stepper,
        PROMPTS,
        num_beams=3,
        max_new_tokens=12,
        end_ids={END},
        pad_id=0,
        length_penalty=length_penalty,
    )
    for prompt, hypotheses in zip(PROMPTS, ours, strict=True):
        expected = theirs(
            model,
            prompt,
            num_beams=3,
            num_return_sequences=3,
            max_new_tokens=12,
            length_penalty=length_penalty,
            early_stopping=False,
        )
        assert [list(h.ids) for h in hypotheses] == [without_padding(ids) for ids in expected]


LOGITS = np.random.default_rng(0).normal(scale=3, size=(6, 300)).astype(np.float32)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (s.temperature(0.7), lambda t: t.TemperatureLogitsWarper(0.7)),
        (s.top_k(17), lambda t: t.TopKLogitsWarper(17)),
        (s.top_p(0.8), lambda t: t.TopPLogitsWarper(0.8)),
        (s.top_p(0.01), lambda t: t.TopPLogitsWarper(0.01)),
        (s.min_p(0.1), lambda t: t.MinPLogitsWarper(0.1)),
    ],
    ids=["temperature", "top_k", "top_p", "top_p_small", "min_p"],
)
def test_filters(ours, theirs):
    expected = theirs(transformers)(torch.zeros(6, 1, dtype=torch.long), torch.from_numpy(LOGITS.copy())).numpy()
    for row, wanted in zip(LOGITS, expected, strict=True):
        got = ours(row.copy(), [])
        assert (np.isinf(got) == np.isinf(wanted)).all()
        real = ~np.isinf(got)  # a constant added to all scores changes no probability
        assert got[real] - got[real].max() == pytest.approx(wanted[real] - wanted[real].max(), abs=1e-4)


def test_filters_in_their_order():
    ours = s.Sampling(temperature=1.7, top_k=40, top_p=0.9, min_p=0.02).processors()
    expected = torch.from_numpy(LOGITS.copy())
    for theirs in (
        transformers.TemperatureLogitsWarper(1.7),
        transformers.TopKLogitsWarper(40),
        transformers.TopPLogitsWarper(0.9),
        transformers.MinPLogitsWarper(0.02),
    ):
        expected = theirs(torch.zeros(6, 1, dtype=torch.long), expected)
    for row, wanted in zip(LOGITS, expected.numpy(), strict=True):
        got = row.copy()
        for processor in ours:
            got = processor(got, [])
        assert (np.isinf(got) == np.isinf(wanted)).all()


def test_repetition_penalty_on_generated_tokens():
    generated = [3, 3, 250, 7]
    process = transformers.RepetitionPenaltyLogitsProcessor(1.3)
    expected = process(torch.tensor([generated]), torch.from_numpy(LOGITS[:1].copy())).numpy()[0]
    assert s.penalties(1.3, 0.0, 0.0)(LOGITS[0].copy(), generated) == pytest.approx(expected, abs=1e-6)
