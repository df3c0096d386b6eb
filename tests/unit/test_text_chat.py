"""Chat templates: what they see, what they may not do."""

from __future__ import annotations

import pytest

from gnomon.errors import GnomonError
from gnomon.text.chat import ChatTemplate

SIMPLE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def test_a_conversation_is_written_as_the_template_says() -> None:
    text = ChatTemplate(SIMPLE, {}).render([{"role": "user", "content": "hi {{ 1 }}"}])
    assert text == "<|im_start|>user\nhi {{ 1 }}<|im_end|>\n<|im_start|>assistant\n"


def test_special_tokens_and_the_filters_of_transformers_are_there() -> None:
    source = "{{ bos_token }}{{ messages | tojson }}{% for m in messages %}{% break %}{% endfor %}"
    assert ChatTemplate(source, {"bos_token": "<s>"}).render([{"role": "user", "content": "你"}]) == (
        '<s>[{"role": "user", "content": "你"}]'
    )


@pytest.mark.parametrize(
    "source",
    [
        "{{ raise_exception('turns must alternate') }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].clear() }}",
    ],
)
def test_what_a_template_refuses_or_may_not_do_is_an_error_of_one_kind(source: str) -> None:
    with pytest.raises(GnomonError, match="does not take this conversation"):
        ChatTemplate(source, {}).render([{"role": "user", "content": "x"}])


def test_bad_syntax_is_said_when_the_template_is_read() -> None:
    with pytest.raises(GnomonError, match="cannot be read"):
        ChatTemplate("{% for %}", {})
