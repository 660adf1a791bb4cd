"""A client of OpenAI-compatible chat completions, for roles that are never trained.

`client` asks, by `exchange`; `answers` tells replies from errors; `pacing` spaces requests and waits; `ledger` counts
what was used and keeps to the budget; `replies` remembers. There are no streams and no images in it.
"""
