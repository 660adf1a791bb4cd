"""How the server must have been started, in words that can be typed."""

from __future__ import annotations

import shlex

from spadework.config import Config

RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""What vLLM takes for --max-lora-rank."""


def launch_line(config: Config) -> str:
    """The command that starts the server of ``config``, where it is to run."""
    rank = config.model.lora_rank
    options: dict[str, object] = {
        "--served-model-name": config.engine.vllm.model,
        "--max-model-len": config.model.max_context_tokens,
        "--max-lora-rank": next((one for one in RANKS if one >= rank), rank),
        "--logprobs-mode": "processed_logprobs",
        "--generation-config": "vllm",
    }
    if config.engine.dtype != "auto":
        options["--dtype"] = config.engine.dtype
    words = ["vllm", "serve", config.model.path, "--enable-lora"]
    words += [str(word) for option in options.items() for word in option]
    return f"VLLM_ALLOW_RUNTIME_LORA_UPDATING=True {shlex.join(words)}"
