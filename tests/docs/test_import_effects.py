"""Importing the package changes nothing in the process that imports it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"

LOOK = """
import builtins, json, logging, os, random, resource, signal, sys, threading
import numpy

def state():
    return {
        "sys.path": list(sys.path),
        "sys.meta_path": [repr(finder) for finder in sys.meta_path],
        "excepthook": sys.excepthook is sys.__excepthook__,
        "random": hash(random.getstate()),
        "numpy.random": numpy.random.get_state()[1].tobytes().hex(),
        "builtins": sorted(vars(builtins)),
        "signals": {s.name: repr(signal.getsignal(s)) for s in sorted(signal.Signals)},
        "environment": dict(os.environ),
        "directory": os.getcwd(),
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "root log handlers": len(logging.getLogger().handlers),
        "memory limit": resource.getrlimit(resource.RLIMIT_AS),
        "umask": mask(),
    }

def mask():
    value = os.umask(0o22)
    os.umask(value)
    return value
"""

EACH = (
    LOOK
    + """
import importlib
changed = {}
before = state()
for name in json.loads(sys.argv[1]):
    importlib.import_module(name)
    after = state()
    for key in after:
        if after[key] != before[key]:
            changed.setdefault(name, []).append(key)
    before = after
print(json.dumps(changed))
"""
)


def modules() -> list[str]:
    found = []
    for path in sorted((SOURCE / "spadework").rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        if parts[-1] != "__main__":
            found.append(".".join(parts).removesuffix(".__init__"))
    return found


def python(script: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


def test_importing_any_module_changes_no_state_of_the_process() -> None:
    # torch and transformers are imported first: what they do is theirs.
    theirs = (
        "import torch, torch.utils.tensorboard, renderers, matplotlib\n"
        "from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, Qwen3ForCausalLM\n"
    )
    assert json.loads(python(theirs + EACH, json.dumps(modules()))) == {}


def test_a_change_would_be_seen() -> None:
    script = EACH.replace("importlib.import_module(name)", "random.seed(name); signal.signal(15, lambda *_: None)")
    assert json.loads(python(script, '["x"]')) == {"x": ["random", "signals"]}


def test_the_commands_start_without_torch() -> None:
    script = "import sys, spadework, spadework.cli; print({'torch', 'transformers'} & set(sys.modules))"
    assert python(script) == "set()"
