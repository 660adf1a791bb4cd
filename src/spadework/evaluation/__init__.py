"""Held-out evaluation: fixed items, fixed draws, so that two checkpoints answer the same questions."""
