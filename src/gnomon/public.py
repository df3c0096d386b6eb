"""The Python calls: each command's settings as arguments, its result as the value."""

from __future__ import annotations

from gnomon.config import as_function
from gnomon.recipes import advise as _advise
from gnomon.recipes import chat as _chat
from gnomon.recipes import distill as _distill
from gnomon.recipes import doctor as _doctor
from gnomon.recipes import evaluate as _evaluate
from gnomon.recipes import export as _export
from gnomon.recipes import frontier as _frontier
from gnomon.recipes import generate as _generate
from gnomon.recipes import info as _info
from gnomon.recipes import predict as _predict
from gnomon.recipes import prepare as _prepare
from gnomon.recipes import pretrain as _pretrain
from gnomon.recipes import quickstart as _quickstart
from gnomon.recipes import tokenizer as _tokenizer
from gnomon.recipes import tune as _tune

advise = as_function(_advise.Config, _advise.run, name="advise")
chat = as_function(_chat.Config, _chat.run, name="chat")
compare_tokenizers = as_function(_tokenizer.CompareConfig, _tokenizer.run_compare, name="compare_tokenizers")
distill = as_function(_distill.Config, _distill.run, name="distill")
doctor = as_function(_doctor.Config, _doctor.run, name="doctor")
evaluate = as_function(_evaluate.Config, _evaluate.run, name="evaluate")
export = as_function(_export.Config, _export.run, name="export")
frontier = as_function(_frontier.Config, _frontier.run, name="frontier")
generate = as_function(_generate.Config, _generate.run, name="generate")
info = as_function(_info.Config, _info.run, name="info")
predict = as_function(_predict.Config, _predict.run, name="predict")
prepare = as_function(_prepare.Config, _prepare.run, name="prepare")
pretrain = as_function(_pretrain.Config, _pretrain.run, name="pretrain")
quickstart = as_function(_quickstart.Config, _quickstart.run, name="quickstart")
train_tokenizer = as_function(_tokenizer.TrainConfig, _tokenizer.run_train, name="train_tokenizer")
tune = as_function(_tune.Config, _tune.run, name="tune")
