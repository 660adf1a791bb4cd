"""The attention that both sampling and training use, registered with transformers under one name.

Training attends causally over the sequence itself. Sampling passes a `Window` through the model's keyword arguments:
the layer then writes its keys and values into the window's cache and attends over what the window's mask allows. That
keeps the caches ours, whatever cache classes a version of transformers has.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

NAME = "spadework"
MASKED = -1e30
"""Added to the score of a key that a query must not see; finite, so that a row of them is no NaN."""


@dataclass(frozen=True)
class Window:
    """What one forward pass of a batch writes to and sees of its cache.

    ``cache_LXBHSD`` holds layers, keys and values (X = 2), rows, heads, slots and head dimensions. The pass's Q new
    tokens go to the slots from ``first_slot`` on; its queries see the slots before and up to them that ``mask_B1QS``
    (added to the scores; 0 or `MASKED`) allows. Without a mask the cache before ``first_slot`` must be empty and the
    queries see the new tokens causally.
    """

    cache_LXBHSD: Tensor
    first_slot: int
    mask_B1QS: Tensor | None


def attend(
    module: torch.nn.Module,
    query_BHQD: Tensor,
    key_BHQD: Tensor,
    value_BHQD: Tensor,
    attention_mask: Tensor | None,
    *,
    longest_sequence: int,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    window: Window | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention of one layer, as transformers calls it.

    ``longest_sequence`` is the longest that any call may have, so that the first call already tells what does not fit.
    Raises ValueError for attention that is not plain and causal.
    """
    if sliding_window is not None and sliding_window < longest_sequence:
        raise ValueError(
            f"it attends to the last {sliding_window} tokens only, and the local engine knows full attention alone; "
            f"set model.max_context_tokens to at most {sliding_window}"
        )
    if softcap is not None or attention_mask is not None:
        raise ValueError(
            "its attention has soft caps or masks of its own, and the local engine knows plain causal attention alone"
        )
    if window is None:
        out = _causal(query_BHQD, key_BHQD, value_BHQD, scaling)
    else:
        out = _windowed(module.layer_idx, query_BHQD, key_BHQD, value_BHQD, scaling, window)
    return out.transpose(1, 2).contiguous(), None


def _causal(query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
    grouped = query.shape[1] != key.shape[1]
    return functional.scaled_dot_product_attention(
        query, key, value, is_causal=query.shape[2] > 1, scale=scaling, enable_gqa=grouped
    )


def _windowed(layer: Any, query: Tensor, key: Tensor, value: Tensor, scaling: float | None, window: Window) -> Tensor:
    cache_XBHSD = window.cache_LXBHSD[layer]
    new = slice(window.first_slot, window.first_slot + key.shape[2])
    cache_XBHSD[0][:, :, new] = key
    cache_XBHSD[1][:, :, new] = value
    if window.mask_B1QS is None:
        return _causal(query, key, value, scaling)
    keys, values = cache_XBHSD[0][:, :, : new.stop], cache_XBHSD[1][:, :, : new.stop]
    if query.shape[2] > 1 or query.device.type != "cpu":
        grouped = query.shape[1] != key.shape[1]
        if grouped and query.device.type != "cpu":
            # Kernels of GPUs that take a mask know no groups; without one the whole table of scores would be held.
            groups = query.shape[1] // key.shape[1]
            keys, values, grouped = keys.repeat_interleave(groups, 1), values.repeat_interleave(groups, 1), False
        return functional.scaled_dot_product_attention(
            query, keys, values, attn_mask=window.mask_B1QS, scale=scaling, enable_gqa=grouped
        )
    # One query per row: plain products over the group of query heads that share a key head are faster on CPUs.
    rows, heads, _, width = query.shape
    scale = 1.0 / math.sqrt(width) if scaling is None else scaling
    query_BHGD = query.reshape(rows, keys.shape[1], heads // keys.shape[1], width) * scale
    scores_BHGS = torch.matmul(query_BHGD, keys.transpose(2, 3)).add_(window.mask_B1QS)
    shares_BHGS = scores_BHGS.softmax(-1, dtype=torch.float32).to(values.dtype)
    return torch.matmul(shares_BHGS, values).reshape(rows, heads, 1, width)


def register() -> None:
    """Make `attend` known to transformers. Doing it again changes nothing."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, attend)
