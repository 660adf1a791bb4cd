"""Start SkyRL's server of the Tinker API: `python examples/skyrl_server.py --base-model DIRECTORY --port 8000 …`.

Takes the options of `python -m skyrl.tinker.api` and does two things more. The server's engine is started by this
interpreter, not by `uv run`, so that a plain virtual environment is enough. On Python 3.11, for which SkyRL 0.4.0 was
not written, the typed dictionaries that it gives to pydantic are made those of typing_extensions, which pydantic asks
for before 3.12. Needs skyrl 0.4.0, whose private names it uses; docs/cluster.md says how to install it.
"""

from __future__ import annotations

import runpy
import sys
import typing
from pathlib import Path

import typing_extensions


def serve(arguments: list[str]) -> None:
    """Answer requests until the process is ended."""
    import argparse

    import uvicorn
    from skyrl.tinker import api
    from skyrl.tinker.config import EngineConfig, add_model, config_to_argv
    from skyrl.utils.log import get_uvicorn_log_config

    me = str(Path(__file__).resolve())
    api._build_uv_run_cmd_engine = lambda _, config: [sys.executable, me, "--engine", *config_to_argv(config)]
    parser = argparse.ArgumentParser()
    add_model(parser, EngineConfig)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    given = vars(parser.parse_args(arguments))
    settings = {name: value for name, value in given.items() if name in EngineConfig.model_fields}
    api.app.state.engine_config = EngineConfig.model_validate(settings)
    uvicorn.run(api.app, host=given["host"], port=given["port"], log_config=get_uvicorn_log_config())


def run_engine(arguments: list[str]) -> None:
    """The child process that computes."""
    sys.argv = ["skyrl.tinker.engine", *arguments]
    runpy.run_module("skyrl.tinker.engine", run_name="__main__")


if __name__ == "__main__":
    if sys.version_info < (3, 12):
        typing.TypedDict = typing_extensions.TypedDict
    if sys.argv[1:2] == ["--engine"]:
        run_engine(sys.argv[2:])
    else:
        serve(sys.argv[1:])
