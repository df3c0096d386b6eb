"""The work behind `gnomon pretrain`."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from gnomon.decoding.generate import Settings, generate
from gnomon.decoding.sampling import Sampling
from gnomon.errors import GnomonError
from gnomon.formats.files import sha256
from gnomon.measure.memory import resident_peak_mb
from gnomon.measure.verdict import duration
from gnomon.models.base import Model
from gnomon.models.flops import layer_parameters, training_flops
from gnomon.models.folders import load_language_model
from gnomon.models.heads import LanguageHeadConfig
from gnomon.models.presets import make_language_model, plan_language_model
from gnomon.models.stepper import TorchStepper
from gnomon.objectives.base import Objective
from gnomon.objectives.causal_lm import CausalLM
from gnomon.objectives.masked_lm import MaskedLM
from gnomon.recipes.cards import language_card
from gnomon.recipes.inputs import keep_hashes, weights
from gnomon.recipes.pretrain import Config
from gnomon.recipes.training import settle_threads
from gnomon.reporting.console import Console, Tick
from gnomon.runs import MODEL, Run, resolve_model
from gnomon.text.shards import INDEX, TokenData, TokenPart
from gnomon.text.windows import PackedBatches
from gnomon.train.distributed import World
from gnomon.train.engine import fit
from gnomon.train.hooks import Hook, Progress
from gnomon.train.optimizers import Optimizers
from gnomon.train.peak import measured_peak
from gnomon.train.plan import Plan
from gnomon.train.window import backward, total_weights

_TOKENS_PER_PARAMETER = 20  # where a given amount of arithmetic is spent best (Hoffmann et al. 2022)
_PASSES = 8  # over the same text, after which more teach little (Muennighoff et al. 2023: 4 to 16)
_BATCH_TOKENS_PER_LAYER = 512
_VALID_TOKENS_AT_ONCE = 8192
_SAMPLE_TOKENS = 96


@dataclass(frozen=True)
class Setup:
    """All that a training needs, made of the settings and the data."""

    model: Model
    objective: Objective
    train: PackedBatches
    valid: PackedBatches | None
    plan: Plan
    bytes_per_token: float

    @property
    def tokens_per_update(self) -> int:
        """Tokens that one update reads."""
        return self.train.batch_size * self.train.length * self.plan.accumulation


def set_up(config: Config, console: Console) -> Setup:
    """Open and check the data, make the model, and derive what was not given."""
    started = None if config.start_from is None else resolve_model(config.start_from)
    if started is not None and config.model.given():
        raise GnomonError("with start_from the model keeps its shape", "leave out the options of --model")
    model = None if started is None else load_language_model(started, max_length=config.context)
    data = TokenData.open(config.data, tokenizer=None if model is None else model.tokenizer)
    if model is None:
        model = _new_model(config, data)
    vocab_size = model.backbone.token_embedding.num_embeddings
    data.check_vocabulary(vocab_size)
    causal = isinstance(model.head_config, LanguageHeadConfig)
    length = config.context if causal else config.context - 1  # a window holds one more
    batch_tokens = config.batch_tokens or _BATCH_TOKENS_PER_LAYER * config.depth
    rows = max(1, round(batch_tokens / config.context / config.accumulation))
    train = PackedBatches(data.train, batch_size=rows, length=length, vocab_size=vocab_size, seed=config.seed)
    plan = _plan(config, model, data, rows * config.context * config.accumulation)
    valid = None
    if data.valid.tokens < 2:
        console.warn(f"{config.data} has no text to validate on: nothing is measured, and the last weights are kept")
    else:
        at_once = max(1, _VALID_TOKENS_AT_ONCE // config.context)
        valid = PackedBatches(
            data.valid,
            batch_size=at_once,
            length=length,
            vocab_size=vocab_size,
            shuffle=False,
            most_windows=max(1, config.valid_tokens // length),
        )
        if valid.num_windows * length < data.valid.tokens - 1:
            console.say(f"  evaluations read the first {config.valid_tokens:,} of {data.valid.tokens:,} tokens")
    objective: Objective
    if causal:
        _check_sample_prompt(config, model)
        objective = CausalLM(pad_id=model.tokenizer.pad_id, bytes_per_token=_bytes_per_token(data.valid))
    else:
        objective = MaskedLM.for_tokenizer(model.tokenizer, share=config.masked_share)
    return Setup(model, objective, train, valid, plan, _bytes_per_token(data.train))


def pretrain(setup: Setup, run: Run, config: Config, console: Console, world: World) -> None:
    """Train in `run`, and where this process leads, save the model there."""
    model = setup.model
    if world.size > 1:
        torch.set_num_threads(config.threads or max(1, torch.get_num_threads() // world.size))
    else:
        settle_threads(model, setup.objective, setup.train, run=run, threads=config.threads, plan=setup.plan)
    parents = [config.data / INDEX]  # which holds the hash of every shard
    if config.start_from is not None:
        parents.append(weights(resolve_model(config.start_from)))
    keep_hashes(run, {str(path): sha256(path) for path in parents})
    run.update(seed=config.seed, parameters=model.num_parameters)
    shape = f"{model.num_parameters:,} parameters, {setup.plan.steps:,} updates of {setup.tokens_per_update:,} tokens"
    processes = f", {world.size} processes" if world.size > 1 else ""
    console.say(f"  {shape}, {torch.get_num_threads()} threads{processes}")
    with console.stage("pretrain") as tick:
        hooks: list[Hook] = [Progress(_shown(tick, setup))]
        if config.samples and isinstance(model.head_config, LanguageHeadConfig):
            hooks.append(_Samples(model, config, console))
        result = fit(
            model, setup.objective, setup.train, setup.plan, run=run, valid=setup.valid, hooks=hooks, world=world
        )
    if not world.leads:
        return
    figures: dict[str, Any] = {
        "family": model.backbone.family,
        "valid": dict(result.best),
        "train_seconds": result.seconds,
        "steps": result.steps,
        "best_step": result.best_step,
        "tokens": result.steps * setup.tokens_per_update,
        "parameters": model.num_parameters,
        "saved_as": model.hf_type or f"gnomon_{model.backbone.family}",
    }
    if model.hf_type is None:
        console.say(f"  saved as {figures['saved_as']}, gnomon's own type: no other library reads it")
    model.save(run.path / MODEL, card=language_card(model, figures))
    run.finish(**figures)


def rehearse(setup: Setup, *, threads: int | None) -> dict[str, Any]:
    """What a training would take, from one real update: size, arithmetic, memory, time."""
    if threads is not None:
        torch.set_num_threads(threads)
    model, plan = setup.model, setup.plan
    optimizers = Optimizers(model, setup.objective, plan)
    examples = setup.train.epoch(0)[: plan.accumulation]
    setup.objective.check(model)
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        batches = [setup.objective.collate(part) for part in examples]
        backward(model, setup.objective, batches, total_weights(batches), plan.precision)
        optimizers.step(1e-6)
        optimizers.zero_grad()
        seconds.append(time.perf_counter() - started)
    flops = _flops(setup)
    steps = plan.steps or 0
    return {
        "family": model.backbone.family,
        "saved_as": model.hf_type or f"gnomon_{model.backbone.family}, gnomon's own type",
        "parameters": model.num_parameters,
        "parameters_of_layers": layer_parameters(model),
        "updates": steps,
        "tokens_per_update": setup.tokens_per_update,
        "passes": round(steps * setup.tokens_per_update / setup.train.part.tokens, 2),
        "learning_rate": plan.learning_rate,
        "flops_per_token": float(flops),
        "flops": float(flops * setup.tokens_per_update * steps),
        "memory_mb": round(resident_peak_mb()),
        "threads": torch.get_num_threads(),
        "seconds_per_update": min(seconds),
        "share_of_peak": flops * setup.tokens_per_update / min(seconds) / measured_peak(),
        "time": duration(min(seconds) * steps),
    }


def _new_model(config: Config, data: TokenData) -> Model:
    tokenizer = data.tokenizer()
    planned = plan_language_model(
        config.family,
        config.preset,
        config.depth,
        vocab_size=tokenizer.vocab_size,
        context=config.context,
        pad_id=tokenizer.pad_id,
        parts=config.model,
    )
    torch.manual_seed(config.seed)
    return make_language_model(planned, tokenizer=tokenizer, context=config.context)


def _check_sample_prompt(config: Config, model: Model) -> None:
    length = len(model.tokenizer.encode(config.sample_prompt).ids)
    if length >= config.context:
        raise GnomonError(f"sample_prompt has {length} tokens of a context of {config.context}", "shorten it")


def _plan(config: Config, model: Model, data: TokenData, tokens_per_update: int) -> Plan:
    wanted = min(_TOKENS_PER_PARAMETER * layer_parameters(model), _PASSES * data.train.tokens)
    steps = config.steps or max(1, round(wanted / tokens_per_update))
    return Plan(
        steps=steps,
        accumulation=config.accumulation,
        optimizer=config.optimizer,
        learning_rate=config.learning_rate or (0.02 if config.optimizer == "muon" else 0.002),
        rest_rate_factor=config.rest_rate_factor,
        muon_momentum=config.muon_momentum,
        weight_decay=config.weight_decay,
        betas=(0.9, config.beta2),
        warmup_share=config.warmup_share,
        schedule=config.schedule,
        clip_norm=config.clip_norm,
        evaluate_every=max(1, math.ceil(steps / max(1, config.evaluations))),
        metric="loss",
        patience=config.patience,
        seed=config.seed,
        precision=config.precision,
        log_every=max(1, min(20, steps // 20)),
    )


def _bytes_per_token(part: TokenPart) -> float:
    """Bytes of text for each token that is a target: all but the first of a document."""
    return part.bytes / max(1, part.tokens - part.documents)


def _flops(setup: Setup) -> float:
    share = setup.objective.share if isinstance(setup.objective, MaskedLM) else 1.0
    return training_flops(setup.model, context=setup.train.length, scored_share=share)


def _shown(tick: Tick, setup: Setup) -> Any:
    """The progress line: loss, bits a byte, speed, share of this machine's measured peak."""
    peak, flops = measured_peak(), _flops(setup)

    def show(step: int, total: int, loss: float, metrics: Mapping[str, float], seconds_left: float) -> None:
        note = f"loss {loss:.3f}"
        if isinstance(setup.objective, CausalLM):
            note += f", {loss / math.log(2) / setup.bytes_per_token:.3f} bits a byte"
        if seconds_left > 0:
            speed = setup.tokens_per_update * (total - step) / seconds_left
            note += f", {speed:,.0f} tokens/s, {speed * flops / peak:.0%} of peak"
        if "loss" in metrics:
            note += f", valid {metrics['loss']:.3f}"
        tick(step, total, note)

    return show


class _Samples(Hook):
    """After each evaluation, its figures and what the model now writes."""

    def __init__(self, model: Model, config: Config, console: Console) -> None:
        self._model = model
        self._config = config
        self._console = console

    def on_eval(self, number: int, metrics: Mapping[str, float]) -> None:
        """Say both."""
        figures = ", ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in metrics.items())
        self._console.say(f"  update {number:,}: {figures}")
        model, config = self._model, self._config
        room = config.context - len(model.tokenizer.encode(config.sample_prompt).ids)
        settings = Settings(
            max_new_tokens=min(room, _SAMPLE_TOKENS), sampling=Sampling(temperature=0.8, seed=config.seed)
        )
        for one in generate(TorchStepper(model), model.tokenizer, [config.sample_prompt] * config.samples, settings):
            self._console.say("    " + (config.sample_prompt + one.text).replace("\n", "\n    "))
