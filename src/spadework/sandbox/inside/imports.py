"""Which modules a program finds: the standard library, and the extras that its template was started with.

Files cannot be opened once a worker is locked. So the modules that the source names in import statements are
imported before, and a last finder gives every other import one clear message.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import re
import sys
from collections.abc import Iterable, Sequence
from types import ModuleType

PRELOADED = """
    _strptime abc array ast base64 binascii bisect calendar cmath collections collections.abc colorsys contextlib
    copy copyreg dataclasses datetime decimal difflib enum fractions functools gc graphlib hashlib heapq hmac html
    inspect io itertools json keyword locale logging math numbers operator os pprint queue random re reprlib secrets
    shlex signal statistics string struct sys textwrap threading time traceback types typing unicodedata uuid
    warnings weakref zlib encodings.ascii encodings.latin_1 encodings.utf_16 encodings.utf_32 encodings.cp1252
    encodings.rot_13 encodings.hex_codec encodings.base64_codec encodings.unicode_escape
    encodings.raw_unicode_escape encodings.idna
"""

LAZY_PARTS = {
    "numpy": "char dtypes exceptions fft lib lib.stride_tricks linalg ma polynomial random rec strings typing"
}
"""Submodules that these packages import when they are first used, which is too late here."""

UNAVAILABLE = frozenset(
    ("antigravity", "ensurepip", "idlelib", "lib2to3", "test", "this", "tkinter", "turtle", "turtledemo", "venv")
)
"""Parts of the standard library that act on the machine when they are imported, or are no library."""

OWN = ("spadework", "msgpack")

OFFERED = {
    "tool_environment": "spadework.sandbox.inside.tool_environment",
    "tool_use_base_env": "spadework.sandbox.inside.wild_tools",
}
"""Modules of ours that programs may import, by the names that programs know."""

IMPORTS = re.compile(r"(?:\bfrom\s+([\w.]+)\s+)?\bimport\s+(\([^)]{0,4000}\)|[^\n;#]+)")
NAME = re.compile(r"[A-Za-z_][\w.]*")


class ModuleNotAvailable(ModuleNotFoundError):
    """Raised where a program imports something that the sandbox does not have."""


class Guard:
    """The last finder of `sys.meta_path`."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        raise ModuleNotAvailable(f"module {name} is not available in the sandbox", name=name)


def preload(extras: Iterable[str], paths: Sequence[str]) -> None:
    """Import what most programs use, and the extras, which lie in ``paths``."""
    for name in PRELOADED.split():
        importlib.import_module(name)
    standard = list(sys.path)
    sys.path.extend(paths)
    for extra in extras:
        importlib.import_module(extra)
        for part in LAZY_PARTS.get(extra, "").split():
            with contextlib.suppress(ImportError):  # the parts differ between versions
                importlib.import_module(f"{extra}.{part}")
    sys.path[:] = standard


def import_standard_modules(source: str) -> None:
    """Import the modules of the standard library that ``source`` names, without parsing or running it."""
    for package, names in IMPORTS.findall(source):
        for name in [package] if package else NAME.findall(names):
            if name.partition(".")[0] not in sys.stdlib_module_names - UNAVAILABLE:
                continue
            with contextlib.suppress(Exception):  # whatever it is, the program meets it where it imports the module
                module = _import(name)
                for part in NAME.findall(names) if package and hasattr(module, "__path__") else ():
                    with contextlib.suppress(Exception):  # most often an attribute and not a module
                        _import(f"{name}.{part}")


def _import(name: str) -> ModuleType:
    """But not what a package runs as a script, which may end this process."""
    return importlib.import_module(name.partition(".__main__")[0])


def close_imports() -> None:
    """From now on only what is imported can be imported. Of our own modules only what is offered stays in sight."""
    offered = {name: importlib.import_module(own) for name, own in OFFERED.items()}
    for name in list(sys.modules):
        if name == "__main__" or name.partition(".")[0] in OWN:
            del sys.modules[name]
    sys.modules.update(offered)
    sys.path.clear()
    sys.path_importer_cache.clear()
    builtin_and_frozen = [importlib.machinery.BuiltinImporter, importlib.machinery.FrozenImporter]
    sys.meta_path[:] = [*builtin_and_frozen, Guard()]  # type: ignore[list-item]
