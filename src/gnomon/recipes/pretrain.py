"""`gnomon pretrain --data DIR`: learn a language model from token shards."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, Literal

from rich.console import RenderableType

from gnomon.models.parts import FamilyName, Parts, PresetName
from gnomon.recipes.extras import need_training
from gnomon.recipes.result import Trained
from gnomon.recipes.settings import RunSettings, resume_command, run_folder, run_settings
from gnomon.reporting.console import Console
from gnomon.runs import MODEL, Run


@dataclass(frozen=True)
class Config(RunSettings):
    """Learn a language model from prepared text: the depth derives its size and its training, and all can be set.

    Under torchrun (torchrun --nproc-per-node 2 --no-python gnomon pretrain ...) several processes share each batch.
    """

    data: Path
    """Token shards: the folder that gnomon prepare wrote."""
    _: KW_ONLY
    preset: PresetName = "standard"
    """standard is a Qwen3, which transformers and llama.cpp load. fast learns quicker (squared ReLU, a table of hashed
    n-grams) and is saved as gnomon's own type, which only gnomon reads."""
    family: FamilyName = "decoder"
    """An encoder learns masked tokens, the others the next token."""
    depth: int = 6
    """Layers, from which the width (32 a layer) and the rest are derived."""
    context: int = 256
    """Tokens a text is read in."""
    model: Parts = field(default_factory=Parts)
    """Any part of the model."""
    start_from: Path | None = None
    """A language model to go on from instead of one with new weights; its own shape holds."""
    steps: int | None = None
    """Updates. Default: 20 tokens for each parameter of the layers, but at most 8 passes over the text."""
    batch_tokens: int | None = None
    """Tokens an update. Default: 512 a layer."""
    accumulation: int = 1
    """Parts that the tokens of an update are read in, one after the other, to spare memory."""
    optimizer: Literal["muon", "adamw", "adam", "adam_l2", "momentum", "sgd"] = "muon"
    """muon takes the matrices of the layers and leaves the rest to adamw."""
    learning_rate: float | None = None
    """Peak learning rate. Default: 0.02 with muon, else 0.002."""
    rest_rate_factor: float = 0.4
    """With muon: what it leaves to adamw learns at this factor of the rate."""
    muon_momentum: float = 0.95
    """Muon's decay rate of the gradient's average."""
    beta2: float = 0.95
    """Adam's decay rate of the second moment."""
    weight_decay: float = 0.0
    """Decoupled weight decay of matrices."""
    warmup_share: float = 0.02
    """Share of the updates in which the rate rises."""
    schedule: Literal["linear", "cosine", "constant"] = "linear"
    """How the rate falls after the rise."""
    clip_norm: float = 1.0
    """Largest norm of the gradient of all parameters together."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """bfloat16 runs matrix products in half precision."""
    masked_share: float = 0.3
    """Of an encoder: the share of tokens that are hidden."""
    evaluations: int = 10
    """Evaluations in the course of the training; the best weights are kept."""
    valid_tokens: int = 1_000_000
    """Validation tokens that an evaluation reads at most."""
    patience: int | None = None
    """Stop after so many evaluations without a better validation loss. Default: never."""
    samples: int = 1
    """Texts that the model writes at each evaluation."""
    sample_prompt: str = ""
    """How these begin. Default: as a document does."""


class PretrainResult(Trained):
    """A language model."""

    def shown(self) -> RenderableType:
        """The figures and how to go on; or what would be done."""
        if not self.figures and not self.planned:
            return ""  # of several processes, one speaks
        if not self.figures:
            lines = [f"  {name.replace('_', ' ')}: {_told(value)}" for name, value in self.planned.items()]
            return "\n".join([f"would write {self.path}:", *lines])
        valid = self.figures.get("valid", {})
        measured = ", ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in valid.items())
        lines = [f"validation {measured or 'none'}; model in {self.path}"]
        if self.figures["family"] in ("encoder", "modern_encoder"):
            return "\n".join([*lines, f"go on with: gnomon tune DATA --teacher {self.path}"])
        return "\n".join([*lines, f'go on with: gnomon generate {self.path} "Once upon a time"'])


def run(config: Config, console: Console | None = None) -> PretrainResult:
    """Pretrain in a run folder; starting again continues. Raises GnomonError for damaged shards, a tokenizer that is
    not the model's, and numbers that do not fit."""
    need_training("gnomon pretrain")
    from gnomon.recipes.pretraining import pretrain, rehearse, set_up
    from gnomon.train.distributed import Followed, join

    world = join()
    console = (console or Console()) if world.leads else Console(quiet=True)
    out = run_folder(config, "pretrain", config.data.resolve())
    setup = set_up(config, console)  # before anything is made
    if config.dry_run:
        return PretrainResult(out / MODEL, {}, rehearse(setup, threads=config.threads))
    if not world.leads:
        if not world.told(True):
            pretrain(setup, Followed(out), config, console, world)
        world.leave()
        return PretrainResult(out / MODEL, {}, {})  # the first process has the figures, and says them
    with Run.start(
        out, run_settings(config), overwrite=config.overwrite, resume_command=resume_command("pretrain", out)
    ) as run_:
        if world.told(run_.done()):
            console.say(f"  {out} is finished: nothing is left to do")
        else:
            pretrain(setup, run_, config, console, world)
    world.leave()
    return PretrainResult(out / MODEL, run_.figures, {})


def _told(value: Any) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
