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
from spadework.seedmodel.grammar import SKELETON, STAGE_NAMES, class_name, fixed_text

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
STAGES = tuple(text for name in STAGE_NAMES for text in (f"\n\n\nclass {name}:", f"{name}(rng)"))
NAMES = tuple(class_name(family.name) for family in TRAINED)
FRAME = ("user\n", "assistant\n", "```python\n", "```", "\\boxed{", "\nHINT:", "hint:\n", "\nvary:", "\navoid:")
VOCABULARY = 2800
"""The commonest words of documents become one token each, and those can be copied."""
SHORTEST_LINE = 4

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
)

_PIECES = r"\d| ?[A-Za-z]+| ?[^\sA-Za-z\d]+|\s"


def program_lines() -> list[str]:
    """The fixed lines of every program that the designer may write, longest first."""
    templates = [SKELETON, *(family.code for family in TRAINED)]
    lines = {line for template in templates for line in fixed_text(template) if len(line.strip()) >= SHORTEST_LINE}
    return sorted(lines, key=lambda line: (-len(line), line))


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
    tokenizer.add_tokens(_whole(*FRAME, *STAGES, *NAMES, *program_lines()))
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=1024,
    )


def add_lines(tokenizer: PreTrainedTokenizerFast) -> None:
    """Make tokens of the lines that the grammar has and ``tokenizer`` has not: templates change between two starts."""
    tokenizer.add_tokens(_whole(*program_lines()))


def _whole(*texts: str) -> list[AddedToken]:
    return [AddedToken(text, normalized=False) for text in texts]
