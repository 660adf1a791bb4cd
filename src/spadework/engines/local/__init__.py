"""The engine of one machine: transformers and torch, on the CPU or one GPU.

It samples many episodes in lockstep with reused key-value caches, scores, updates and saves one set of weights, or a
LoRA adapter of them. It does not distribute, quantise or offload, and it keeps every cache in memory: it is meant for
models that the machine can train.

`engine` is the protocol; `hub` and `gguf` make a directory of what a model is given as, `model` opens it where
`placement` says, `adapter` adds to it; `cohort` collects requests; `sampling`, `kvcache`, `draws` and `attention`
generate; `update` and `optimiser` learn; `checkpoint` saves; `memory` says what to do when it ends.
"""
