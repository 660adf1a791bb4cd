"""The chat templates of model families, in their own special tokens: written anew for tests, none is a model's file.

What a family does to a conversation is here as it is there: what is written for the model, what is taken out of earlier
turns, where tools stand, how calls and results are wrapped, which token ends a reply.
"""

from __future__ import annotations

from dataclasses import dataclass

from renderers.llama_3 import _TOOLS_IN_USER_INTRO
from renderers.nemotron3 import _TOOLS_FOOTER, _TOOLS_HEADER, _TOOLS_INSTRUCTIONS
from small_tokenizers import CHATML, SPECIALS, build_tokenizer
from tool_templates import QWEN3_TOOLS, QWEN25_TOOLS
from transformers import PreTrainedTokenizerFast

from spadework.config import Thinking

_WITHOUT_THINKING = (
    "{% set last = namespace(user=-1) %}{% for message in messages %}{% if message.role == 'user' %}"
    "{% set last.user = loop.index0 %}{% endif %}{% endfor %}"
)

QWEN3 = _WITHOUT_THINKING + QWEN3_TOOLS.replace(
    "{{ '<|im_start|>assistant\n' + message.content }}",
    "{% set parts = message.content.split('</think>') %}{% set answer = parts[-1].lstrip('\n') %}"
    "{{ '<|im_start|>assistant\n' }}{% if loop.index0 > last.user %}"
    "{{ '<think>\n' + (parts[0].split('<think>')[-1].strip('\n') if parts | length > 1 else '') + '\n</think>\n\n' }}"
    "{% endif %}{{ answer }}",
)
"""Qwen3-8B: earlier thinking goes, the last turn is given an empty one if it has none."""

QWEN3_INSTRUCT = QWEN3_TOOLS.replace("enable_thinking is defined and enable_thinking is false and THINKS", "false")
"""Qwen3-4B-Instruct-2507 and 30B-A3B-Instruct-2507: no word of thinking."""

QWEN3_THINKING = QWEN3.replace(
    "{{ '<|im_start|>assistant\n' }}{% if enable_thinking is defined and enable_thinking is false and THINKS %}"
    "{{ '<think>\n\n</think>\n\n' }}{% endif %}",
    "{{ '<|im_start|>assistant\n<think>\n' }}",
)
"""Qwen3-4B-Thinking-2507: the thinking is opened by the prompt."""

_NEMOTRON_TOOL = (
    "{{ '\n<function>\n<name>' + tool.function.name + '</name>' }}"
    "{{ '\n<description>' + tool.function.description.strip() + '</description>' }}{{ '\n<parameters>' }}"
    "{% for name, fields in tool.function.parameters.properties.items() %}"
    "{{ '\n<parameter>\n<name>' + name + '</name>\n<type>' + fields.type + '</type>\n</parameter>' }}{% endfor %}"
    "{{ '\n<required>' + tool.function.parameters.required | tojson + '</required>\n</parameters>\n</function>' }}"
)
_NEMOTRON_CALL = (
    "{{ '<tool_call>\n<function=' + call.function.name + '>\n' }}"
    "{% for key, value in call.function.arguments.items() %}{{ '<parameter=' + key + '>\n' }}"
    "{{ value | tojson if value is mapping or value is sequence and value is not string else value | string }}"
    "{{ '\n</parameter>\n' }}{% endfor %}{{ '</function>\n</tool_call>\n' }}"
)
NEMOTRON_3 = (
    (
        f"{{% set HEADER = {_TOOLS_HEADER!r} %}}{{% set FOOTER = {_TOOLS_FOOTER + _TOOLS_INSTRUCTIONS!r} %}}"
        "{% set truncate = truncate_history_thinking if truncate_history_thinking is defined else true %}"
        + _WITHOUT_THINKING
        + "{{ '<|im_start|>system\n' }}{% set system = messages[0].content if messages[0].role == 'system' else '' %}"
        "{{ system }}{% if tools %}{% if system %}{{ '\n\n' }}{% endif %}{{ HEADER }}"
        "{% for tool in tools %}TOOL{% endfor %}{{ FOOTER }}{% endif %}{{ '<|im_end|>\n' }}"
        "{% for message in messages %}{% if message.role == 'user' %}"
        "{{ '<|im_start|>user\n' + message.content + '<|im_end|>\n' }}"
        "{% elif message.role == 'tool' %}{% if loop.index0 == 0 or messages[loop.index0 - 1].role != 'tool' %}"
        "{{ '<|im_start|>user\n' }}{% endif %}{{ '<tool_response>\n' + message.content + '\n</tool_response>\n' }}"
        "{% if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{ '<|im_end|>\n' }}{% endif %}"
        "{% elif message.role == 'assistant' %}{% set content = message.content %}"
        "{% if '<think>' not in content and '</think>' not in content %}{% set content = '<think></think>' + content %}"
        "{% elif truncate and loop.index0 < last.user %}"
        "{% set content = '<think></think>' + content.split('</think>')[-1] %}{% endif %}"
        "{{ '<|im_start|>assistant\n' + content.strip() }}"
        "{% for call in message.tool_calls or [] %}{% if loop.first %}{{ '\n' }}{% endif %}"
        "CALL{% endfor %}{{ '<|im_end|>\n' }}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
        "{% if enable_thinking is defined and enable_thinking is false %}{{ '<think></think>' }}"
        "{% else %}{{ '<think>\n' }}{% endif %}{% endif %}"
    )
    .replace("TOOL{%", _NEMOTRON_TOOL + "{%")
    .replace("CALL{%", _NEMOTRON_CALL + "{%")
)
"""Nemotron-3-Nano: an empty system message, thinking in every turn, calls in XML."""

_LLAMA_SPECIALS = (
    *("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>"),
    "<|python_tag|>",
)
LLAMA_3 = (
    f"{{% set INTRO = {_TOOLS_IN_USER_INTRO!r} %}}{{{{ '<|begin_of_text|>' }}}}"
    "{% set body = messages[1:] if messages[0].role == 'system' else messages %}"
    "{{ '<|start_header_id|>system<|end_header_id|>\n\n' }}{% if tools %}{{ 'Environment: ipython\n' }}{% endif %}"
    "{{ 'Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n' }}"
    "{{ (messages[0].content | trim if messages[0].role == 'system' else '') + '<|eot_id|>' }}"
    "{% for message in body %}{% if message.role == 'tool' %}"
    "{{ '<|start_header_id|>ipython<|end_header_id|>\n\n' + message.content | tojson + '<|eot_id|>' }}"
    "{% elif message.tool_calls %}{% if message.tool_calls | length != 1 %}{{ raise_exception('one call only') }}"
    '{% endif %}{{ \'<|start_header_id|>assistant<|end_header_id|>\n\n{"name": "\' }}'
    '{{ message.tool_calls[0].function.name + \'", "parameters": \' }}'
    "{{ message.tool_calls[0].function.arguments | tojson }}{{ '}<|eot_id|>' }}"
    "{% else %}{{ '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n' }}"
    "{% if tools and loop.first %}{{ INTRO }}{% for tool in tools %}{{ tool | tojson(indent=4) + '\n\n' }}{% endfor %}"
    "{% endif %}{{ message.content | trim + '<|eot_id|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
"""Llama 3.1 and 3.2: a system message of its own, tools in the first user message, one call a reply."""

_HARMONY_SPECIALS = (
    *("<|startoftext|>", "<|return|>", "<|constrain|>", "<|channel|>", "<|start|>", "<|end|>", "<|message|>"),
    "<|call|>",
)
HARMONY = (
    "{{ '<|start|>system<|message|>You are a model.\nCurrent date: ' + strftime_now('%Y-%m-%d') + '\n\nReasoning: ' }}"
    "{{ (reasoning_effort if reasoning_effort is defined else 'medium') + '\n\n# Valid channels: some.' }}"
    "{% if tools %}{{ '\nCalls go to the commentary channel.' }}{% endif %}{{ '<|end|>' }}"
    "{% set told = messages[0].content if messages[0].role == 'system' else '' %}"
    "{% set body = messages[1:] if messages[0].role == 'system' else messages %}"
    "{% if told or tools %}{{ '<|start|>developer<|message|>' }}"
    "{% if told %}{{ '# Instructions\n\n' + told + '\n\n' }}{% endif %}"
    "{% if tools %}{{ '# Tools\n\nnamespace functions {\n' }}{% for tool in tools %}"
    "{{ '// ' + tool.function.description + '\ntype ' + tool.function.name + ' = (_: {\n' }}"
    "{% for name, fields in tool.function.parameters.properties.items() %}"
    "{{ name + ': ' + fields.type | default('any') + ',\n' }}{% endfor %}"
    "{{ '}) => any;\n' }}{% endfor %}{{ '}' }}{% endif %}{{ '<|end|>' }}{% endif %}"
    "{% set last = namespace(name=none) %}"
    "{% for message in body %}{% if message.role == 'assistant' %}{% if 'tool_calls' in message %}"
    "{% set later = namespace(final=false) %}{% for other in body[loop.index:] %}"
    "{% if other.role == 'assistant' and 'tool_calls' not in other %}{% set later.final = true %}{% endif %}"
    "{% endfor %}"
    "{% if message.thinking and not later.final %}"
    "{{ '<|start|>assistant<|channel|>analysis<|message|>' + message.thinking + '<|end|>' }}{% endif %}"
    "{% set call = message.tool_calls[0].function %}{% set last.name = call.name %}"
    "{{ '<|start|>assistant to=functions.' + call.name + '<|channel|>commentary json<|message|>' }}"
    "{{ call.arguments | tojson }}{{ '<|call|>' }}"
    "{% elif loop.last and not add_generation_prompt %}"
    "{{ '<|start|>assistant<|channel|>final<|message|>' + message.content + '<|return|>' }}"
    "{% else %}{{ '<|start|>assistant<|channel|>final<|message|>' + message.content + '<|end|>' }}"
    "{% set last.name = none %}{% endif %}"
    "{% elif message.role == 'tool' %}"
    "{% if last.name is none %}{{ raise_exception('a result without a call') }}{% endif %}"
    "{{ '<|start|>functions.' + last.name + ' to=assistant<|channel|>commentary<|message|>' }}"
    "{{ message.content | tojson + '<|end|>' }}"
    "{% elif message.role == 'user' %}{{ '<|start|>user<|message|>' + message.content + '<|end|>' }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %}"
)
"""gpt-oss: the model opens a channel for each part of its reply. In the history its thinking is gone but before calls
that no answer followed, what ended it is rewritten, and a result is named after the call before it."""

OTHER_CHANNELS = HARMONY.replace("<|channel|>final", "<|channel|>answer")
"""The marks of harmony, used in another way."""

TIDIES_ANSWERS = HARMONY.replace(
    "message.content + '<|end|>' }}{% set last", "message.content.split() | join(' ') + '<|end|>' }}{% set last"
)
"""Harmony whose history has other spaces than what was sampled."""


@dataclass(frozen=True)
class Family:
    """``end`` is the special token that ends a reply. Llama's tokenizers do not name their other special tokens."""

    template: str
    thinking: Thinking = False
    specials: tuple[str, ...] = SPECIALS
    end: str = "<|im_end|>"
    names_specials: bool = True

    def tokenizer(self) -> PreTrainedTokenizerFast:
        return build_tokenizer(self.template, self.specials, self.end, self.names_specials)


FAMILIES = {
    "Qwen3": Family(QWEN3),
    "Qwen3 thinking": Family(QWEN3, thinking=True),
    "Qwen3-Instruct-2507": Family(QWEN3_INSTRUCT),
    "Qwen2.5": Family(QWEN25_TOOLS),
    "Nemotron-3": Family(NEMOTRON_3),
    "Nemotron-3 thinking": Family(NEMOTRON_3, thinking=True),
    "Llama-3": Family(LLAMA_3, specials=_LLAMA_SPECIALS, end="<|eot_id|>", names_specials=False),
    "ChatML": Family(CHATML),
}
THINKING_ALWAYS = Family(QWEN3_THINKING)
GPT_OSS = Family(HARMONY, thinking="low", specials=_HARMONY_SPECIALS, end="<|return|>")
