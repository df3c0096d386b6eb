"""Students of a small real teacher: what they inherit, what they are trained on, and what is proved before."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from distillation_case import GOLD, LABELS, TEXTS, tiny_teacher
from gnomon.distillation.inheritance import chosen_layers, principal
from gnomon.distillation.objective import DistilledRow, DistillLabels, HiddenMatch, check_mode
from gnomon.distillation.proofs import prove
from gnomon.distillation.rows import gold_rows, labelled_rows, transfer_rows
from gnomon.distillation.students import FRONTIER, StudentSpec, build_student, parse_student
from gnomon.distillation.teacher import LiveTeacher, StoredTeacher, fingerprint, label_columns
from gnomon.distillation.transfer import transfer_set
from gnomon.errors import GnomonError
from gnomon.models.base import Model

SMALL = tuple(
    dataclasses.replace(spec, options=dataclasses.replace(spec.options, embedding_size=16))
    if hasattr(spec.options, "embedding_size")
    else spec
    for spec in FRONTIER
)


@pytest.fixture(scope="module")
def teacher() -> Model:
    return tiny_teacher()


def stored(teacher: Model, root: Path, *, hidden: bool = False) -> StoredTeacher:
    return StoredTeacher(LiveTeacher(teacher, hidden=hidden), root)


@pytest.mark.parametrize("spec", SMALL, ids=lambda spec: spec.name)
def test_a_student_is_the_same_for_the_same_seed_whatever_was_drawn_before(teacher: Model, spec: StudentSpec) -> None:
    first = build_student(spec, teacher, TEXTS, seed=3)
    before = torch.get_rng_state()
    torch.rand(7)
    again = build_student(spec, teacher, TEXTS, seed=3)
    other = build_student(spec, teacher, TEXTS, seed=4)
    assert fingerprint(first) == fingerprint(again)
    if spec.family != "encoder":  # an encoder inherits every weight
        assert fingerprint(first) != fingerprint(other)
    torch.rand(7)
    assert not torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("spec", SMALL, ids=lambda spec: spec.name)
def test_the_vocabulary_is_that_of_the_training_texts(teacher: Model, spec: StudentSpec) -> None:
    student = build_student(spec, teacher, TEXTS)
    assert "tiger" in student.tokenizer.vocabulary
    assert "neverseen" not in student.tokenizer.vocabulary
    assert student.backbone.token_embedding.num_embeddings == student.tokenizer.vocab_size
    for text in TEXTS:
        mine, theirs = student.tokenizer.encode(text).ids, teacher.tokenizer.encode(text).ids
        names = {index: token for token, index in teacher.tokenizer.vocabulary.items()}
        assert [student.tokenizer.vocabulary[names[index]] for index in theirs] == mine


def test_an_encoder_of_all_layers_is_its_teacher(teacher: Model) -> None:
    student = build_student(parse_student("encoder:num_layers=4"), teacher, TEXTS)
    ours = LiveTeacher(student).signal(TEXTS).logits
    np.testing.assert_allclose(ours, LiveTeacher(teacher).signal(TEXTS).logits, atol=1e-5)


def test_an_encoder_takes_the_layers_named(teacher: Model) -> None:
    student = build_student(parse_student("encoder:layers=0,3"), teacher, TEXTS)
    taken = student.backbone.state_dict()
    for name, tensor in teacher.backbone.state_dict().items():
        if name.startswith("layers.3."):
            torch.testing.assert_close(taken[name.replace("layers.3.", "layers.1.")], tensor, rtol=0, atol=0)


def test_layers_are_spread_from_the_first_to_the_last() -> None:
    assert chosen_layers(6, num_layers=2, layers=None) == [0, 5]
    assert chosen_layers(6, num_layers=3, layers=None) == [0, 2, 5]
    assert chosen_layers(12, num_layers=4, layers=None) == [0, 3, 7, 11]
    assert chosen_layers(6, num_layers=1, layers=None) == [0]
    with pytest.raises(GnomonError, match="num_layers is 7, and the teacher has 6"):
        chosen_layers(6, num_layers=7, layers=None)
    with pytest.raises(GnomonError, match="no layer 6"):
        chosen_layers(6, num_layers=2, layers=(0, 6))


def test_labels_are_matched_by_name_in_every_student(teacher: Model) -> None:
    turned = ("place", "number", "person")
    student = build_student(parse_student("encoder:num_layers=4"), teacher, TEXTS, labels=turned)
    ours = LiveTeacher(student).signal(TEXTS).logits
    theirs = LiveTeacher(teacher, labels=turned).signal(TEXTS).logits
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    np.testing.assert_array_equal(theirs, LiveTeacher(teacher).signal(TEXTS).logits[:, [2, 0, 1]])


def test_other_labels_are_refused_naming_both() -> None:
    with pytest.raises(GnomonError, match="only the teacher has 'place'; only the data have 'colour'"):
        label_columns(LABELS, ("colour", "number", "person"))


def test_an_encoder_student_needs_an_encoder_teacher(teacher: Model) -> None:
    static = build_student(SMALL[0], teacher, TEXTS)
    with pytest.raises(GnomonError, match="this teacher is static"):
        build_student(parse_student("encoder-2"), static, TEXTS)
    assert build_student(parse_student("static:embedding_size=8"), static, TEXTS).num_parameters


def test_principal_directions_keep_distances_and_their_sign() -> None:
    vectors = torch.randn(50, 8, generator=torch.Generator().manual_seed(0))
    whole = principal(vectors, 8)
    torch.testing.assert_close(torch.pdist(whole), torch.pdist(vectors), rtol=1e-4, atol=1e-4)
    assert (whole.var(dim=0).diff() <= 1e-5).all()
    torch.testing.assert_close(principal(vectors + 5, 3), whole[:, :3], rtol=1e-3, atol=1e-4)
    assert principal(vectors, 9).shape[1] == 8  # a narrower teacher gives fewer


def test_the_fingerprint_is_of_weights_labels_and_tokenizer(teacher: Model) -> None:
    assert fingerprint(teacher) == fingerprint(tiny_teacher())
    assert fingerprint(teacher) != fingerprint(tiny_teacher(seed=1))
    assert fingerprint(teacher) != fingerprint(tiny_teacher(labels=("a", "b", "c")))


def test_a_stored_teacher_says_what_the_live_one_does_and_asks_once(teacher: Model, tmp_path: Path) -> None:
    live = LiveTeacher(teacher, hidden=True)
    keeper = StoredTeacher(live, tmp_path, shard_size=8)
    steps: list[tuple[int, int]] = []
    assert keeper.fill([*TEXTS, *TEXTS], progress=lambda done, total: steps.append((done, total))) == len(set(TEXTS))
    assert steps[-1] == (len(set(TEXTS)), len(set(TEXTS)))
    assert keeper.fill(TEXTS) == 0
    again = StoredTeacher(live, tmp_path).signal(TEXTS[::-1])
    said = live.signal(TEXTS[::-1])
    np.testing.assert_allclose(again.logits, said.logits, atol=4e-3)
    assert again.hidden is not None
    assert said.hidden is not None
    np.testing.assert_allclose(again.hidden, said.hidden, atol=1e-3)
    assert keeper.bytes_per_text == 32 + 2 * (3 + 32)


@pytest.mark.parametrize("spec", SMALL, ids=lambda spec: spec.name)
def test_the_proofs_hold_for_every_family(teacher: Model, spec: StudentSpec, tmp_path: Path) -> None:
    student = build_student(spec, teacher, TEXTS)
    keeper = stored(teacher, tmp_path)
    rows = transfer_rows(student, transfer_set(TEXTS, copies=0, seed=0, mask_token=None), keeper)
    objective = DistillLabels(num_labels=3, pad_id=student.tokenizer.pad_id)
    objective.check(student)
    proofs = prove(objective, student, rows[:], TEXTS, keeper)
    assert [proof.passed for proof in proofs] == [True] * 4
    assert proofs[0].figure == 0


def test_a_proof_that_fails_stops_with_its_figure(teacher: Model, tmp_path: Path) -> None:
    student = build_student(SMALL[0], teacher, TEXTS)
    keeper = stored(teacher, tmp_path)
    rows = labelled_rows(student, TEXTS, keeper, gold=GOLD)[:8]
    objective = DistillLabels(num_labels=3, pad_id=student.tokenizer.pad_id)

    shuffled = [dataclasses.replace(row, logits=rows[(i + 3) % 8].logits) for i, row in enumerate(rows)]
    with pytest.raises(GnomonError, match="it does not hold that each text's stored scores"):
        prove(objective, student, shuffled, TEXTS[:8], keeper)
    keeper.live.labels = ("person", "number", "place")  # the same scores under other names: matched by position
    with pytest.raises(GnomonError, match="it does not hold that each text's stored scores"):
        prove(objective, student, rows, TEXTS[:8], keeper)


def test_pads_and_doubling_change_neither_loss_nor_gradient(teacher: Model, tmp_path: Path) -> None:
    student = build_student(SMALL[2], teacher, TEXTS).eval()
    rows = labelled_rows(student, TEXTS, stored(teacher, tmp_path), gold=GOLD)[:8]
    objective = DistillLabels(num_labels=3, pad_id=student.tokenizer.pad_id)

    def gradient(examples: list[DistilledRow], pads: int) -> list[torch.Tensor]:
        batch = objective.collate(examples)
        wider = {
            "ids": np.pad(batch.arrays["ids"], ((0, 0), (0, pads)), constant_values=student.tokenizer.pad_id),
            "mask": np.pad(batch.arrays["mask"], ((0, 0), (0, pads))),
        }
        tensors = {name: torch.from_numpy(array) for name, array in {**batch.arrays, **wider}.items()}
        student.zero_grad()
        terms = objective.loss(student, tensors, batch.weights)
        loss = sum((term.coefficient * term.sum / term.weight for term in terms.values()), torch.zeros(()))
        loss.backward()
        return [loss.detach(), *(p.grad.clone() for p in student.parameters() if p.grad is not None)]

    plain = gradient(list(rows), 0)
    for changed in (gradient(list(rows), 9), gradient([*rows, *rows], 0)):
        for a, b in zip(plain, changed, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_a_row_without_a_token_weighs_nothing(teacher: Model, tmp_path: Path) -> None:
    student = build_student(SMALL[3], teacher, TEXTS).eval()
    rows = list(labelled_rows(student, TEXTS, stored(teacher, tmp_path), gold=GOLD)[:4])
    objective = DistillLabels(num_labels=3, pad_id=student.tokenizer.pad_id)
    batch = objective.collate([*rows, dataclasses.replace(rows[0], ids=[])])
    assert batch.weights == {"soft": 4.0, "gold": 4.0}
    tensors = {name: torch.from_numpy(array) for name, array in batch.arrays.items()}
    terms = objective.loss(student, tensors, batch.weights)
    alone = objective.collate(rows)
    expected = objective.loss(student, {n: torch.from_numpy(a) for n, a in alone.arrays.items()}, alone.weights)
    for name, term in terms.items():
        torch.testing.assert_close(term.sum, expected[name].sum, rtol=1e-5, atol=1e-6)


def test_copies_carry_gold_unlabelled_texts_none_and_the_twin_leaves_them_out(teacher: Model, tmp_path: Path) -> None:
    student = build_student(SMALL[0], teacher, TEXTS)
    transfer = transfer_set(TEXTS, ["what is a tiger"], copies=2, seed=0, mask_token="[MASK]")
    keeper = stored(teacher, tmp_path)
    rows = transfer_rows(student, transfer, keeper, gold=GOLD)
    wanted = [LABELS.index(label) for label in GOLD]
    assert rows.labels.tolist() == [*wanted, -1] * 3
    assert gold_rows(student, transfer, keeper, gold=GOLD).labels.tolist() == wanted * 3
    assert (transfer_rows(student, transfer, keeper).labels == -1).all()
    assert [len(row.ids) for row in rows[:]] == rows.lengths.tolist()


def test_text_alone_is_enough(teacher: Model, tmp_path: Path) -> None:
    student = build_student(SMALL[0], teacher, TEXTS)
    rows = transfer_rows(student, transfer_set(TEXTS, copies=0, seed=0, mask_token=None), stored(teacher, tmp_path))
    objective = DistillLabels(num_labels=3, pad_id=student.tokenizer.pad_id)
    assert objective.collate(rows[:]).weights == {"soft": 30.0, "gold": 0.0}
    measured = objective.evaluate(student.eval(), [rows[:10], rows[10:]])
    assert set(measured) == {"agreement", "divergence"}


def test_the_hidden_term_is_a_third_one_through_a_projection(teacher: Model, tmp_path: Path) -> None:
    student = build_student(SMALL[3], teacher, TEXTS)
    rows = labelled_rows(student, TEXTS, stored(teacher, tmp_path, hidden=True), gold=GOLD)[:]
    match = HiddenMatch(student.pooled_size, teacher.pooled_size, "cosine", 0.5)
    objective = DistillLabels(num_labels=3, pad_id=student.tokenizer.pad_id, hidden=match)
    batch = objective.collate(rows)
    terms = objective.loss(student, {n: torch.from_numpy(a) for n, a in batch.arrays.items()}, batch.weights)
    assert set(terms) == {"soft", "gold", "hidden"}
    assert terms["hidden"].coefficient == 0.5
    terms["hidden"].sum.backward()
    assert all(parameter.grad is not None for parameter in objective.parameters())
    without = labelled_rows(student, TEXTS, stored(teacher, tmp_path), gold=GOLD)[:]
    with pytest.raises(GnomonError, match="no hidden vectors"):
        objective.collate(without)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"temperature": 0.0}, "temperature is 0"), ({"temperature": 1000.0}, "1000"), ({"alpha": 1.5}, "alpha is 1.5")],
)
def test_settings_out_of_range_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(GnomonError, match=message):
        DistillLabels(num_labels=3, pad_id=0, **settings)  # type: ignore[arg-type]


def test_another_number_of_labels_and_another_mode_are_refused(teacher: Model) -> None:
    with pytest.raises(GnomonError, match="the student has 3 labels and the teacher's signal 4"):
        DistillLabels(num_labels=4, pad_id=0).check(teacher)
    check_mode("label")
    with pytest.raises(GnomonError, match="no distillation mode 'token'") as error:
        check_mode("token")
    assert "label" in error.value.hint
