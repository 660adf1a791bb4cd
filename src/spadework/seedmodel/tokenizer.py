"""The seed model's tokenizer: byte-level BPE in which a line of a program is one token.

Digits stand alone and a word is the same tokens wherever it follows a space, so that copying a word or a digit is
copying tokens. The fixed lines of the grammar's templates are tokens of their own, since merging them
byte by byte would fill the vocabulary with halves of lines.
"""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from spadework.seedmodel.families import TRAINED
from spadework.seedmodel.grammar import GAME, STAGE_NAMES, TOOLS, class_bases, class_name, fixed_text

SPECIAL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
)
STAGES = (
    *(f"\n\n\nclass {name}:" for name in STAGE_NAMES),
    *(frame.calls([name]) for frame in (GAME, TOOLS) for name in STAGE_NAMES),
    *(class_bases(STAGE_NAMES[: count + 1]) for count in range(len(STAGE_NAMES))),
)
NAMES = tuple(class_name(family.name) for family in TRAINED)
FRAME = (
    "user\n",
    "assistant\n",
    "tools\n",
    "tool\n",
    "```python\n",
    "```",
    "\\boxed{",
    "\nHINT:",
    "hint:\n",
    "\nvary:",
    "\navoid:",
)
VOCABULARY = 2800
"""The commonest words of documents become one token each, and those can be copied."""
SHORTEST_LINE = 4

CHAT_TEMPLATE = (
    "{%- if tools -%}{{- '<|im_start|>tools\\n' -}}"
    "{%- for tool in tools -%}{{- tool.function.name -}}"
    "{%- for name, schema in tool.function.parameters.properties.items() -%}"
    "{{- ' ' + name -}}{%- if schema.enum -%}{{- '=' + schema.enum | join('|') -}}{%- endif -%}{%- endfor -%}"
    "{{- '\\n' -}}{%- endfor -%}{{- '<|im_end|>\\n' -}}{%- endif -%}"
    "{%- for message in messages -%}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content -}}"
    "{%- for call in message.tool_calls or [] -%}"
    '{{- \'<tool_call>\\n{"name": "\' + call.function.name + \'", "arguments": \' -}}'
    "{{- call.function.arguments | tojson + '}\\n</tool_call>' -}}{%- endfor -%}"
    "{{- '<|im_end|>\\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
)
"""Of a tool it shows the name, the parameters and the values that they may have."""

_PIECES = r"\d| ?[A-Za-z]+| ?[^\sA-Za-z\d]+|\s"


def program_lines() -> list[str]:
    """The fixed lines of every program that the designer may write, longest first."""
    templates = [GAME.skeleton, TOOLS.skeleton, *(family.code for family in TRAINED)]
    lines = {line for template in templates for line in fixed_text(template) if len(line.strip()) >= SHORTEST_LINE}
    return sorted(lines, key=lambda line: (-len(line), line))


def call_parts() -> list[str]:
    """What stands around the words of a call, as `players.reply` writes calls."""
    tools = sorted({(tool, parameters[0]) for family in TRAINED for tool, parameters in family.tools.items()})
    return [*(f'\n{{"name": "{tool}", "arguments": {{"{first}": "' for tool, first in tools), '", "to": "', '"}}\n']


def train_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens(_whole(*_lines()))
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=1024,
    )


def add_lines(tokenizer: PreTrainedTokenizerFast) -> None:
    """Make tokens of the lines that the grammar has and ``tokenizer`` has not, and give it the present template.

    Grammar and template change between two starts.
    """
    tokenizer.add_tokens(_whole(*_lines()))
    tokenizer.chat_template = CHAT_TEMPLATE


def _lines() -> list[str]:
    return [*FRAME, *STAGES, *NAMES, *call_parts(), *program_lines()]


def _whole(*texts: str) -> list[AddedToken]:
    return [AddedToken(text, normalized=False) for text in texts]
