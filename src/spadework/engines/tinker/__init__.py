"""The engine protocol by the Tinker API: a service far away samples, differentiates and steps.

`service` says in plain data what is asked of a service; `sdk` is the one module that knows the client library;
`backends` is the table of how services differ; `reduction` turns our loss into theirs; `engine` puts it together.
"""
