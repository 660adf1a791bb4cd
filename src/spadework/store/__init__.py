"""A run on disk: its directory, the pool, metrics and checkpoints.

Covered: that a run killed at any instant continues, that it can be read and copied while it goes on, and that whatever
cannot be used is named in one sentence. Not covered: what the numbers mean, and several processes writing one run.
"""
