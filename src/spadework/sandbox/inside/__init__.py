"""What runs in the sandbox's own processes. Standard library and msgpack only.

The template process imports these modules without the rest of the package: nothing of the trainer, its
settings or its secrets is ever in its memory. A program shares its process with `worker`, `player`,
`contract` and `randomness` and can tamper with them, which is why the host trusts no answer.
"""
