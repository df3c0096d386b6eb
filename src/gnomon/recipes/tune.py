"""`gnomon tune DATA --teacher DIR`: move a pretrained model to where the task wants it (D1)."""

from __future__ import annotations

from dataclasses import KW_ONLY, asdict, dataclass
from pathlib import Path

from rich.console import RenderableType

from gnomon.recipes.extras import need_training
from gnomon.recipes.inputs import (
    examine,
    find_teacher,
    keep_parents,
    read_inputs,
    read_tokenizer,
    report_findings,
    weights,
)
from gnomon.recipes.result import Trained
from gnomon.recipes.settings import RunSettings, SplitSettings, TuneSettings, resume_command, run_folder, run_settings
from gnomon.reporting.console import Console
from gnomon.runs import MODEL, Run


@dataclass(frozen=True)
class Config(SplitSettings, RunSettings, TuneSettings):
    """Fine-tune a teacher on labelled text, choose its best weights on validation text, and deploy it."""

    data: Path
    """Labelled text: a .csv, .tsv, .jsonl, .parquet or .txt file, or "demo"."""
    _: KW_ONLY
    teacher: str
    """The model to tune: a folder, a run, a hub name, or "demo"."""


class TuneResult(Trained):
    """A tuned teacher."""

    def shown(self) -> RenderableType:
        """One sentence and how to go on."""
        if not self.figures:
            return f"would train {self.planned['epochs']} epochs of {self.planned['steps_per_epoch']} steps; " + (
                f"{self.planned['max_length']} tokens a text; into {self.path}"
            )
        return (
            f"validation accuracy {self.figures['valid']['accuracy']:.4f}, tuned model in {self.path}\n"
            f"go on with: gnomon evaluate {self.path} DATA, or gnomon distill DATA --teacher {self.path}"
        )


def run(config: Config, console: Console | None = None) -> TuneResult:
    """Tune in a run folder of its own; starting again continues. Raises GnomonError for data the doctor stops at."""
    need_training("gnomon tune")
    from gnomon.recipes.tuning import max_length, tune_teacher, tuning_plan

    console = console or Console()
    inputs = read_inputs(config.data, config, console)
    folder = find_teacher(config.teacher)
    tokenizer = read_tokenizer(folder, console)
    length = max_length(config, tokenizer, inputs, folder)
    report_findings(examine(inputs, tokenizer, length), console)
    plan = tuning_plan(config, inputs, seed=config.seed)
    out = run_folder(config, "tune", config.data)
    planned = {**asdict(plan), "max_length": length, "steps_per_epoch": -(-len(inputs.train) // config.batch_size)}
    if config.dry_run:
        return TuneResult(out / MODEL, {}, planned)
    with Run.start(
        out, run_settings(config), overwrite=config.overwrite, resume_command=resume_command("tune", out)
    ) as run_:
        keep_parents(run_, inputs, weights(folder))
        run_.update(seed=config.seed, plan=planned)
        path = tune_teacher(
            folder, inputs, config, plan, length=length, run=run_, threads=config.threads, console=console
        )
    return TuneResult(path, run_.figures, planned)
