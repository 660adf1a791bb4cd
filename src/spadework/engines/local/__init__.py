"""The engine of one machine: transformers and torch, float32 on the CPU.

It samples many episodes in lockstep with reused key-value caches, scores, updates and saves one set of weights. It
does not distribute, quantise or offload, and it keeps every cache in memory: it is meant for models that the machine
can train.

`engine` is the protocol; `model` opens a directory; `cohort` collects requests; `sampling`, `kvcache`, `draws` and
`attention` generate; `update` and `optimiser` learn; `checkpoint` saves.
"""
