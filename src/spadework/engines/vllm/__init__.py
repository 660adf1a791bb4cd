"""A vLLM server as the sampler of the local engine: it is given each new adapter, token ids go in and come out.

`engine` composes both; `cohort` is what the loop samples by; `adapters` keeps the server at the present weights and
`proof` shows that it is; `server` asks over HTTP; `answers` reads what comes back; `look` tells before a run whether a
server would do, and `launch` how one must be started.
"""
