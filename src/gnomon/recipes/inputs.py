"""From a person's files to checked splits and a teacher: what every recipe starts with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gnomon.errors import GnomonError
from gnomon.formats.files import sha256
from gnomon.formats.modeldir import read_config, read_model_dir, resolve
from gnomon.recipes.demo import DEMO, QUESTIONS, demo_questions, demo_teacher
from gnomon.recipes.settings import ReadSettings, SplitSettings
from gnomon.reporting.console import Console
from gnomon.runs import Run, resolve_model
from gnomon.text.corpus import check_labels, read_examples
from gnomon.text.examples import ExampleSet, Splits, split_by_hash
from gnomon.text.quality import QualityReport, inspect_data
from gnomon.text.tokenizer import Tokenizer

_LENGTHS = (64, 128, 256, 512)
_CUT_SHARE = 0.01


@dataclass(frozen=True)
class Inputs:
    """Labelled text in three parts, the label names in order, and each file's SHA-256."""

    train: ExampleSet
    valid: ExampleSet
    test: ExampleSet
    labels: tuple[str, ...]
    hashes: dict[str, str]
    decisions: tuple[str, ...]

    @property
    def gold(self) -> tuple[str, ...]:
        """The training texts' labels; empty when the data has none and the teacher alone labels it."""
        labelled = all(example.label is not None for example in self.train.examples)
        return self.train.labels if labelled else ()

    def label_ids(self, part: ExampleSet) -> list[int]:
        """The number of each example's label among `labels`."""
        number = {label: index for index, label in enumerate(self.labels)}
        return [number[str(example.label)] for example in part.examples]


def read_inputs(data: Path | str, settings: SplitSettings, console: Console, *, check: bool = True) -> Inputs:
    """Read the data, split it where no files are given for validation or test, and `check` the labels.

    `data` is a file, or "demo" for the built-in questions. Every decision taken is said.
    """
    whole = demo_questions() if str(data) == DEMO else read(Path(data), settings, console)
    splits = _split(whole, settings, console)
    files = [path for path in (Path(data), settings.valid, settings.test) if path is not None and path.is_file()]
    inputs = Inputs(
        train=splits.train,
        valid=splits.valid,
        test=splits.test,
        labels=splits.train.label_names,
        hashes={DEMO: QUESTIONS} if str(data) == DEMO else {str(path): sha256(path) for path in files},
        decisions=(*whole.decisions, *splits.decisions),
    )
    if check:
        check_inputs(inputs)
    for decision in inputs.decisions:
        console.say(f"  {decision}")
    if settings.valid and settings.test:
        console.say(
            f"  {len(inputs.train):,} texts to train, {len(inputs.valid):,} to validate, {len(inputs.test):,} to test"
        )
    shown = ", ".join(inputs.labels[:12]) + (", ..." if len(inputs.labels) > 12 else "")
    console.say(f"  {len(inputs.labels)} labels: {shown}")
    return inputs


def check_inputs(inputs: Inputs) -> None:
    """Raise GnomonError for labels that nothing can be learned from: one alone, or one that training never saw."""
    for part in (inputs.valid, inputs.test):
        check_labels(inputs.train, part)


def read_unlabelled(path: Path, settings: SplitSettings, labels: tuple[str, ...], console: Console) -> Inputs:
    """Text alone, which a teacher will label: split like labelled text, with the teacher's label names."""
    splits = split_by_hash(read(path, settings, console, labelled=False), valid=0.1, test=0.0)
    decisions = (*splits.train.decisions, *splits.decisions, "labels are the teacher's: none is looked for in the data")
    for decision in decisions:
        console.say(f"  {decision}")
    return Inputs(splits.train, splits.valid, splits.test, labels, {str(path): sha256(path)}, decisions)


def read(path: Path, settings: ReadSettings, console: Console, *, labelled: bool = True) -> ExampleSet:
    """Read one file as the settings say; bad rows that were skipped are counted and shown."""
    found = read_examples(
        path,
        text_column=settings.text_column,
        label_column=settings.label_column,
        encoding=settings.encoding,
        on_bad_row=settings.on_bad_row,
        labelled=labelled,
    )
    if found.bad_rows:
        first = found.bad_rows[0]
        console.warn(
            f"{path}: {len(found.bad_rows):,} bad rows skipped, the first at line {first.line}: {first.problem}"
        )
    return found


def _split(whole: ExampleSet, settings: SplitSettings, console: Console) -> Splits:
    valid = read(settings.valid, settings, console) if settings.valid else None
    test = read(settings.test, settings, console) if settings.test else None
    splits = split_by_hash(whole, valid=0.0 if valid else 0.1, test=0.0 if test else 0.1)
    return Splits(train=splits.train, valid=valid or splits.valid, test=test or splits.test, decisions=splits.decisions)


def find_teacher(name: str) -> Path:
    """The folder of a teacher: "demo", a folder, a run folder (its best model), or a hub name."""
    if name == DEMO:
        return demo_teacher()
    folder = resolve(resolve_model(name))
    read_model_dir(folder)  # a damaged or pickled one is refused before anything is written
    return folder


def keep_parents(run: Run, inputs: Inputs, *more: Path | None) -> None:
    """Keep the SHA-256 of every file a run is made from; refuse to go on with a run that was made from others.

    A model folder stands for its weights.
    """
    named = [weights(path) if path.is_dir() else path for path in more if path is not None]
    files = [path for path in named if path.is_file()]
    keep_hashes(run, {**inputs.hashes, **{str(path): sha256(path) for path in files}})


def keep_hashes(run: Run, hashes: dict[str, str]) -> None:
    """Keep the SHA-256 of each named file; refuse to go on with a run that was begun with others."""
    before = run.info.get("data", {})
    changed = [name for name, found in hashes.items() if before.get(name, found) != found]
    if changed:
        raise GnomonError(
            f"{run.path} was begun when {', '.join(changed)} held something else",
            "--overwrite begins anew; another --out keeps both",
        )
    run.update(data=hashes)


def weights(folder: Path) -> Path:
    """The file that tells one model from another."""
    return folder / "model.safetensors"


def read_tokenizer(folder: Path, console: Console) -> Tokenizer:
    """The tokenizer of a model folder; what its files left open, and how that was decided, is said."""
    tokenizer = Tokenizer.from_dir(folder)
    for decision in tokenizer.decisions:
        console.say(f"  {decision}")
    return tokenizer


def examine(inputs: Inputs, tokenizer: Tokenizer | None, max_length: int | None) -> QualityReport:
    """What the doctor finds in the three parts."""
    return inspect_data(inputs.train, inputs.valid, inputs.test, tokenizer=tokenizer, max_length=max_length)


def report_findings(report: QualityReport, console: Console) -> None:
    """Say what was found; raise GnomonError where it would be wrong to go on."""
    for finding in report.findings:
        say = console.say if finding.severity == "note" else console.warn
        say(f"  {finding.what}" if finding.severity == "note" else finding.what)
    if report.stop:
        raise GnomonError(report.stop)


def longest_text(folder: Path) -> int:
    """The tokens that the model of a folder can read at most; 512 where it does not say."""
    config = read_config(folder)
    # Two positions of RoBERTa's table are never used by tokens: its numbering begins behind the pad id.
    offset = int(config.get("pad_token_id") or 0) + 1 if config["model_type"] == "roberta" else 0
    return int(config.get("max_position_embeddings", 512)) - offset


def choose_max_length(tokenizer: Tokenizer, texts: Sequence[str], *, limit: int) -> int:
    """The smallest of 64, 128, 256, 512 tokens that cuts at most 1 % of `texts`, within the model's `limit`."""
    lengths = [len(encoded.ids) for encoded in tokenizer.encode_batch(list(texts), max_length=None)]
    for candidate in _LENGTHS:
        if sum(length > candidate for length in lengths) <= _CUT_SHARE * len(lengths):
            return min(candidate, limit)
    return min(_LENGTHS[-1], limit)
