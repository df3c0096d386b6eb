"""The command table: what each command is called, where its settings and its work live, and one line on it.

Nothing is imported until a command is asked for, so `gnomon --help` answers at once.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """One command: `settings` and `run` are names inside `module`; `run(settings, console)` returns a Result."""

    name: str
    module: str
    summary: str
    group: str
    settings: str = "Config"
    run: str = "run"


_MAIN, _RAW, _USE, _UNDERSTAND = "The main job", "From raw text", "Use", "Understand"


def _sharing(name: str, module: str, summary: str) -> Command:
    """A command of two words, whose module holds others too: `tokenizer train` is TrainConfig and run_train."""
    verb = name.split()[-1]
    return Command(name, f"gnomon.recipes.{module}", summary, _RAW, f"{verb.capitalize()}Config", f"run_{verb}")


COMMANDS = (
    Command("quickstart", "gnomon.recipes.quickstart", "The whole job on built-in questions and teacher.", _MAIN),
    Command("frontier", "gnomon.recipes.frontier", "Tune a teacher, distil it onto each family, measure, pick.", _MAIN),
    Command("tune", "gnomon.recipes.tune", "Fine-tune a teacher on labelled text.", _MAIN),
    Command("distill", "gnomon.recipes.distill", "Distil a tuned teacher onto one student.", _MAIN),
    Command("evaluate", "gnomon.recipes.evaluate", "Measure models on labelled text, language models on any.", _MAIN),
    Command("advise", "gnomon.recipes.advise", "Which model of a run fits a budget, and why.", _MAIN),
    _sharing("tokenizer train", "tokenizer", "Learn a tokenizer from raw text."),
    _sharing("tokenizer compare", "tokenizer", "Set tokenizers side by side, by kind of text."),
    Command("prepare", "gnomon.recipes.prepare", "Turn raw text into token shards to pretrain on.", _RAW),
    Command("pretrain", "gnomon.recipes.pretrain", "Learn a language model from token shards.", _RAW),
    _sharing("vectors train", "vectors", "Learn word vectors from raw text."),
    _sharing("vectors convert", "vectors", "Write word vectors in another format, or as a static model."),
    _sharing("vectors nearest", "vectors_ask", "The words nearest to a word."),
    _sharing("vectors analogy", "vectors_ask", "What is to C as B is to A."),
    _sharing("vectors similarity", "vectors_ask", "How alike two words are."),
    _sharing("vectors evaluate", "vectors_ask", "Measure word vectors on pairs and analogies."),
    _sharing("vectors project", "vectors_ask", "Draw a map of words."),
    Command("predict", "gnomon.recipes.predict", "Label text with a model or a run's pick.", _USE),
    Command("generate", "gnomon.recipes.generate", "Continue texts, or say how likely they are.", _USE),
    Command("chat", "gnomon.recipes.chat", "Talk with a model that was tuned to talk.", _USE),
    Command("export", "gnomon.recipes.export", "Write a language model for where it will run.", _USE),
    Command("doctor", "gnomon.recipes.doctor", "Look for faults in labelled text before training.", _UNDERSTAND),
    Command("info", "gnomon.recipes.info", "Check a model folder and say what is in it.", _UNDERSTAND),
    Command("init", "gnomon.cli.init", "Write a commented TOML of a command's settings.", _UNDERSTAND),
)


TOGETHER = {
    "vectors": "Word vectors: train, convert, ask, evaluate, draw.",
    "tokenizer": "Tokenizers: train one, compare several.",
}
"""What the commands of two words have in common, by their first word."""


def find(words: list[str]) -> tuple[Command, list[str]] | None:
    """The command that `words` begin with, and the words after it; two-word names come first."""
    for count in (2, 1):
        name = " ".join(words[:count])
        for command in COMMANDS:
            if command.name == name and len(words) >= count:
                return command, words[count:]
    return None
