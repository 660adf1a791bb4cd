"""How the server must have been started, in words that can be typed."""

from __future__ import annotations

import shlex
from urllib.parse import urlsplit

from spadework.config import Config

RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""What vLLM takes for --max-lora-rank."""
PORT = 8000
"""Where vLLM listens unless it is told."""


def launch_line(config: Config, model: str) -> str:
    """The command that starts the server of ``config``, where it is to run; ``model`` is the model's directory."""
    rank, vllm = config.model.lora_rank, config.engine.vllm
    options: dict[str, object] = {
        "--served-model-name": vllm.model,
        "--max-model-len": config.model.max_context_tokens,
        "--max-lora-rank": next((one for one in RANKS if one >= rank), rank),
        "--logprobs-mode": "processed_logprobs",
        "--generation-config": "vllm",
    }
    if config.engine.dtype != "auto":
        options["--dtype"] = config.engine.dtype
    if (port := _port(vllm.base_url)) != PORT:
        options["--port"] = port
    words = ["vllm", "serve", model, "--enable-lora"]
    words += [str(word) for option in options.items() for word in option]
    key = f' --api-key "${vllm.key_variable}"' if vllm.key_variable else ""
    return f"VLLM_ALLOW_RUNTIME_LORA_UPDATING=True {shlex.join(words)}{key}"


def _port(url: str) -> int:
    address = urlsplit(url)
    return address.port or (443 if address.scheme == "https" else 80)
