"""Names what went wrong in a call, in one sentence and the program's own frames."""

from __future__ import annotations

from types import TracebackType

from spadework.sandbox.inside.contract import Breach
from spadework.sandbox.inside.deadline import Deadline
from spadework.sandbox.inside.imports import ModuleNotAvailable

FILE_NAME = "<program>"
MAX_REASON_CHARS = 300
MAX_FRAMES = 12

Fault = tuple[str, str, str]
"""Kind (a value of `FaultKind`), reason, trace."""


def describe(call: str, error: BaseException, lines: list[str], memory_mb: int) -> Fault:
    """The fault of ``error``, raised by ``call``. Runs code of the program (its `__str__`), under the deadline."""
    if isinstance(error, Breach):
        return error.kind, plain(error.reason), ""
    trace = own_frames(error.__traceback__, lines)
    loading = call == "loading"
    if isinstance(error, ModuleNotAvailable):
        return "load", plain(str(error)), trace
    if isinstance(error, SystemExit):
        return "exit", f"{call} called sys.exit", trace
    if isinstance(error, SyntaxError) and loading:
        return "load", plain(f"line {error.lineno}: {error.msg}"), trace
    if isinstance(error, MemoryError):
        return "memory", f"{call} needed more memory than the limit of {memory_mb} MB", trace
    reason = f"{call} raised {type(error).__name__}"
    message = _message(error)
    return "load" if loading else "exception", plain(f"{reason}: {message}" if message else reason), trace


def plain(text: str) -> str:
    """One line of valid text of bounded length."""
    text = " ".join(str.__str__(text)[: 4 * MAX_REASON_CHARS].split())
    return text[:MAX_REASON_CHARS].encode("utf-8", "replace").decode()


def own_frames(traceback: TracebackType | None, lines: list[str]) -> str:
    """The innermost frames of the program itself, outermost first, one line each."""
    frames: list[str] = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_filename == FILE_NAME:
            number = traceback.tb_lineno
            text = lines[number - 1].strip()[:160] if 0 < number <= len(lines) else ""
            frames.append(f"line {number}, in {code.co_name[:60]}: {text}")
            del frames[:-MAX_FRAMES]
        traceback = traceback.tb_next
    return "\n".join(frames).encode("utf-8", "replace").decode()


def _message(error: BaseException) -> str:
    try:
        return str.__str__(str(error)[: 4 * MAX_REASON_CHARS])
    except Deadline:
        raise
    except BaseException as second:
        return f"(its message cannot be shown: {type(second).__name__})"
