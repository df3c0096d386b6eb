"""The work behind `gnomon tune`, which `gnomon frontier` does as its first stage."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from gnomon.errors import GnomonError
from gnomon.formats.modeldir import label_names, read_config
from gnomon.models.base import Model
from gnomon.models.folders import load_model
from gnomon.objectives.classification import Classification, LabelledRow, balanced_weights
from gnomon.recipes.cards import card
from gnomon.recipes.inputs import Inputs, choose_max_length, longest_text
from gnomon.recipes.settings import TuneSettings
from gnomon.recipes.training import VALID_BATCH, save_and_deploy, train_stage
from gnomon.reporting.console import Console
from gnomon.runs import MODEL, Run
from gnomon.text.batches import Batches
from gnomon.text.examples import ExampleSet
from gnomon.text.tokenizer import Tokenizer
from gnomon.train.plan import Plan


def tune_teacher(
    folder: Path,
    inputs: Inputs,
    settings: TuneSettings,
    plan: Plan,
    *,
    length: int,
    run: Run,
    threads: int | None,
    console: Console,
) -> Path:
    """Tune the model of `folder` inside `run`, or take what `run` already holds; gives the deployed model folder.

    A teacher already tuned to the same label names is taken as it is, unless `settings.again`, and that is said.
    """
    if run.done():
        console.say(f"  the teacher was tuned before: {run.path / MODEL}")
        console.skip("tune the teacher")
        return run.path / MODEL
    names = label_names(read_config(folder))
    tuned = set(names) == set(inputs.labels) and not settings.again
    model = load_model(folder, labels=inputs.labels, max_length=length)
    figures: dict[str, Any] = {"tuned_before": tuned}
    with console.stage("tune the teacher") as tick:
        if tuned:
            console.say(
                f"  {folder} already answers with these {len(names)} labels: it is not tuned again without `again`"
            )
        else:
            train, valid = (
                labelled_batches(model, part, inputs, settings, plan) for part in (inputs.train, inputs.valid)
            )
            result = train_stage(
                model,
                Classification(
                    inputs.labels, pad_id=model.tokenizer.pad_id, class_weights=_class_weights(settings, inputs)
                ),
                train,
                plan,
                run=run,
                valid=valid,
                tick=tick,
                threads=threads,
                console=console,
            )
            figures |= {"valid": dict(result.best), "train_seconds": result.seconds, "steps": result.steps}
        save_and_deploy(model, run, card=card(model, "teacher", figures), check_texts=inputs.valid.texts)
    run.finish(**figures)
    return run.path / MODEL


def tuning_plan(settings: TuneSettings, inputs: Inputs, *, seed: int) -> Plan:
    """The training plan; the number of epochs follows from the rows a class has, unless it is given."""
    return Plan(
        epochs=settings.epochs or default_epochs(len(inputs.train) / len(inputs.labels)),
        accumulation=settings.accumulation,
        optimizer=settings.optimizer,
        clip_norm=settings.clip_norm,
        learning_rate=settings.learning_rate,
        weight_decay=None if settings.optimizer == "adam" else settings.weight_decay,
        patience=settings.patience,
        seed=seed,
    )


def _class_weights(settings: TuneSettings, inputs: Inputs) -> list[float] | None:
    counts = Counter(inputs.train.labels)
    return balanced_weights([counts[name] for name in inputs.labels]) if settings.class_weights == "balanced" else None


def default_epochs(rows_per_class: float) -> int:
    """3 passes where a class has 300 rows or more, 5 with 100 or more, else 8: small classes need more of them."""
    if rows_per_class >= 300:
        return 3
    return 5 if rows_per_class >= 100 else 8


def max_length(settings: TuneSettings, tokenizer: Tokenizer, inputs: Inputs, folder: Path) -> int:
    """The tokens a text is cut at, as asked for or chosen; never more than the model has positions."""
    limit = longest_text(folder)
    if settings.max_length is not None and settings.max_length > limit:
        raise GnomonError(
            f"max_length is {settings.max_length}, and {folder} reads at most {limit} tokens",
            f"choose at most {limit}, or a teacher that reads more",
        )
    return settings.max_length or choose_max_length(tokenizer, inputs.train.texts, limit=limit)


def labelled_batches(
    model: Model, part: ExampleSet, inputs: Inputs, settings: TuneSettings, plan: Plan
) -> Batches[LabelledRow]:
    """The rows of one part in batches: shuffled to train on, sorted by length and larger to validate on."""
    encoded = model.tokenizer.encode_batch(part.texts, max_length=model.max_length)
    rows = [LabelledRow(item.ids, label) for item, label in zip(encoded, inputs.label_ids(part), strict=True)]
    training = part is inputs.train
    size = settings.batch_size if training else VALID_BATCH
    return Batches(rows, [len(row.ids) for row in rows], batch_size=size, seed=plan.seed, shuffle=training)
