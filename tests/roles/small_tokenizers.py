"""A small real tokenizer, and the chat templates that the tests of the roles need."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MARKERS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
TEXTS = ["Guess a number from 1 to 9.", "too low\ntoo high\n", "\\boxed{5}", "class GuessEnv:\n    def reset(self):\n"]

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""What the seed model has: nothing is written for the model, nothing is removed."""

HYBRID = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.role == 'assistant' and not loop.last and '</think>' in message.content %}"
    "{{ message.content.split('</think>')[-1].lstrip('\n') }}"
    "{% else %}{{ message.content }}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
"""Qwen3's two tricks: an empty thinking block written for the model, and history without thinking."""

PLAIN = (
    "<|endoftext|>{% for message in messages %}{{ '[' + message.role + ']' }}\n"
    "{{ message.content.strip() }}<|im_end|>\n\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant]\n{% endif %}"
)
"""Not ChatML: bracketed roles, stripped contents, a token at the start."""

FORGETFUL = (
    "{% for message in messages %}{{ '[' + message.role + ']' }}\n"
    "{% if '</think>' in message.content %}{{ message.content.split('</think>')[-1].lstrip('\n') }}"
    "{% else %}{{ message.content }}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant]\n{% endif %}"
)
"""No renderer knows it, and it forgets thinking."""

REWRITING = (
    "{{ messages | length }} messages\n{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{{ message.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""Its first line changes with every turn."""


def build_tokenizer(
    chat_template: str | None,
    specials: Sequence[str] = SPECIALS,
    end: str = "<|im_end|>",
    names_specials: bool = True,
) -> PreTrainedTokenizerFast:
    """A byte-level BPE with ``specials`` as its first ids; ``end`` ends texts."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=330, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=list(specials)
    )
    core.train_from_iterator(TEXTS, trainer)
    core.add_tokens([AddedToken(marker, special=False, normalized=False) for marker in MARKERS])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, eos_token=end, pad_token=specials[0])
    if names_specials:
        others = [special for special in specials[1:] if special != end]
        tokenizer.add_special_tokens({"additional_special_tokens": others})
    tokenizer.chat_template = chat_template
    return tokenizer
