"""Small chat templates that know tools, in the ways of the model families; none of them is a model's own file."""

from __future__ import annotations

import json

from renderers.qwen3 import _TOOLS_FOOTER, _TOOLS_HEADER

_CHATML_TOOLS = (
    "{%- if tools %}{{ '<|im_start|>system\n' }}"
    "{% if messages[0].role == 'system' %}{{ messages[0].content + '\n\n' }}{% else %}{{ DEFAULT }}{% endif %}"
    "{{ HEADER }}{% for tool in tools %}{{ '\n' + tool | tojson }}{% endfor %}{{ FOOTER }}{{ '<|im_end|>\n' }}"
    "{% elif messages[0].role == 'system' %}{{ '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}"
    "{% elif DEFAULT %}{{ '<|im_start|>system\n' + DEFAULT + '<|im_end|>\n' }}{% endif %}"
    "{% for message in messages %}{% if message.role == 'tool' %}"
    "{% if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{ '<|im_start|>user' }}{% endif %}"
    "{{ '\n<tool_response>\n' + message.content + '\n</tool_response>' }}"
    "{% if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{ '<|im_end|>\n' }}{% endif %}"
    "{% elif message.role == 'assistant' %}{{ '<|im_start|>assistant\n' + message.content }}"
    "{% for call in message.tool_calls or [] %}{% if message.content or not loop.first %}{{ '\n' }}{% endif %}CALL"
    "{% endfor %}{{ '<|im_end|>\n' }}"
    "{% elif not (message.role == 'system' and loop.first) %}"
    "{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
    "{% if enable_thinking is defined and enable_thinking is false and THINKS %}{{ '<think>\n\n</think>\n\n' }}"
    "{% endif %}{% endif %}"
)
_JSON_CALL = (
    '{{ \'<tool_call>\n{"name": "\' + call.function.name + \'", "arguments": \' }}'
    "{{ call.function.arguments | tojson }}{{ '}\n</tool_call>' }}"
)
_XML_CALL = (
    "{{ '<tool_call>\n<function=' + call.function.name + '>\n' }}"
    "{% for key, value in call.function.arguments.items() %}{{ '<parameter=' + key + '>\n' }}"
    "{{ value if value is string else value | tojson }}{{ '\n</parameter>\n' }}{% endfor %}"
    "{{ '</function>\n</tool_call>' }}"
)


def _filled(call: str, default: str, header: str, footer: str, thinks: bool) -> str:
    settings = {"DEFAULT": default, "HEADER": header, "FOOTER": footer, "THINKS": thinks}
    text = _CHATML_TOOLS.replace("CALL", call)
    return "".join(f"{{% set {name} = {json.dumps(value)} %}}" for name, value in settings.items()) + text


QWEN3_TOOLS = _filled(_JSON_CALL, "", _TOOLS_HEADER, _TOOLS_FOOTER, True)
"""The hand-written renderer of Qwen3 takes it: an empty thinking block is written if thinking is off."""

QWEN25_TOOLS = _filled(_JSON_CALL, "You are a helpful assistant.", "\n\n" + _TOOLS_HEADER, _TOOLS_FOOTER, False)
"""A system message of its own where there is none: no hand-written renderer takes it."""

XML_TOOLS = _filled(_XML_CALL, "", "Call functions as XML.", "", False)

LLAMA_TOOLS = (
    "<|endoftext|>{% for message in messages %}"
    "{% if message.role == 'user' and tools and loop.index0 == 0 %}{{ '[user]\n' }}"
    '{{ \'Functions that you may call with {"name": ..., "parameters": ...}:\n\' }}'
    "{% for tool in tools %}{{ tool | tojson }}{{ '\n\n' }}{% endfor %}{{ message.content.strip() + '<|im_end|>\n' }}"
    "{% elif message.role == 'tool' %}{{ '[ipython]\n' + message.content | tojson + '<|im_end|>\n' }}"
    "{% elif message.tool_calls %}{% if message.tool_calls | length != 1 %}{{ raise_exception('one call only') }}"
    '{% endif %}{{ \'[assistant]\n{"name": "\' + message.tool_calls[0].function.name + \'", "parameters": \' }}'
    "{{ message.tool_calls[0].function.arguments | tojson }}{{ '}<|im_end|>\n' }}"
    "{% else %}{{ '[' + message.role + ']\n' + message.content.strip() + '<|im_end|>\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '[assistant]\n' }}{% endif %}"
)

FORGETS_RESULTS = QWEN25_TOOLS.replace("messages[loop.index0 - 1].role != 'tool' %}", "false %}").replace(
    "{{ '\n<tool_response>\n' + message.content + '\n</tool_response>' }}",
    "{% if loop.last or messages[loop.index0 + 1].role != 'tool' %}"
    "{{ '<|im_start|>user\n' + message.content }}{% endif %}",
)
"""Shows only the last of several results."""

UNKNOWN_CALLS = QWEN25_TOOLS.replace("<tool_call>", "[[call]]").replace("</tool_call>", "[[end]]")
