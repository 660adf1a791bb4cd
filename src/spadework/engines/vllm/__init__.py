"""A vLLM server as the sampler of the local engine: it is given each new adapter, token ids go in and come out.

`engine` composes both; `cohort` is what the loop samples by; `server` asks over HTTP; `answers` reads what comes back;
`launch` says how the server must have been started.
"""
