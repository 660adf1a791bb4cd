"""A system-call filter that lets a running program compute, and nothing else.

Built as classic BPF and installed through `prctl`, so that no library is needed. Everything that is not
named here fails with EPERM, which a program sees as PermissionError. See seccomp(2) for the layout of
`seccomp_data` and the return values.
"""

from __future__ import annotations

import ctypes
import platform
import struct
import sys

ALLOW = 0x7FFF0000
KILL_PROCESS = 0x80000000
REFUSE = 0x00050000
EPERM, ENOTTY, ENOSYS = 1, 25, 38

LOAD_WORD, JUMP_EQUAL, JUMP_AT_LEAST, JUMP_ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER_AT, ARCHITECTURE_AT, ARGUMENTS_AT = 0, 4, 16
X32_BIT = 0x40000000
PROT_EXEC = 4
NO_PROCESS = 0x7FFFFFFF
"""Larger than any pid."""

Instruction = tuple[int, int, int, int]

ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}

# name: (number on x86_64, number on aarch64); -1 where it does not exist
ALLOWED = {
    "read": (0, 63), "write": (1, 64), "futex": (202, 98), "getrusage": (98, 165), "setitimer": (38, 103),
    "clock_gettime": (228, 113), "clock_getres": (229, 114), "close": (3, 57), "fstat": (5, 80), "poll": (7, -1),
    "ppoll": (271, 73), "select": (23, -1), "pselect6": (270, 72), "lseek": (8, 62), "munmap": (11, 215),
    "brk": (12, 214), "mremap": (25, 216), "madvise": (28, 233), "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "sigaltstack": (131, 132), "sched_yield": (24, 124),
    "dup": (32, 23), "nanosleep": (35, 101), "clock_nanosleep": (230, 115), "getitimer": (36, 102),
    "getpid": (39, 172), "getppid": (110, 173), "gettid": (186, 178), "getuid": (102, 174), "geteuid": (107, 175),
    "getgid": (104, 176), "getegid": (108, 177), "exit": (60, 93), "exit_group": (231, 94), "uname": (63, 160),
    "gettimeofday": (96, 169), "time": (201, -1), "times": (100, 153), "sysinfo": (99, 179),
    "sched_getaffinity": (204, 123), "restart_syscall": (219, 128), "getrandom": (318, 278),
    "membarrier": (324, 283), "rseq": (334, 293), "set_robust_list": (273, 99),
}  # fmt: skip

FATAL = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425), "mount": (165, 40),
    "pivot_root": (155, 41), "unshare": (272, 97), "setns": (308, 268), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    "open_by_handle_at": (304, 265), "pidfd_getfd": (438, 438),
}  # fmt: skip

MMAP, MPROTECT, KILL, TGKILL = (9, 222), (10, 226), (62, 129), (234, 131)
FCNTL, PRLIMIT, IOCTL, CLONE3 = (72, 25), (302, 261), (16, 29), (435, 435)
HARMLESS_FCNTL = (1, 2, 3)  # F_GETFD, F_SETFD, F_GETFL; F_SETOWN would send signals to other processes


def supported() -> bool:
    """Whether a filter is known for this machine. Whether the kernel takes it shows when it is installed."""
    return sys.platform == "linux" and platform.machine() in ARCHITECTURES


def build() -> bytes:
    """The filter of a process that may send signals to itself only; `bind` says which process that is."""
    column, audit_arch = ARCHITECTURES[platform.machine()]
    program: list[Instruction] = [
        (LOAD_WORD, 0, 0, ARCHITECTURE_AT),
        (JUMP_EQUAL, 1, 0, audit_arch),
        (RETURN, 0, 0, KILL_PROCESS),
        (LOAD_WORD, 0, 0, NUMBER_AT),
        (JUMP_AT_LEAST, 0, 1, X32_BIT),
        (RETURN, 0, 0, KILL_PROCESS),
    ]

    def rule(numbers: tuple[int, int], body: list[Instruction]) -> None:
        if numbers[column] >= 0:
            program.append((JUMP_EQUAL, 0, len(body), numbers[column]))
            program.extend(body)

    for numbers in ALLOWED.values():
        rule(numbers, [(RETURN, 0, 0, ALLOW)])
    not_executable = [*_argument(2), (JUMP_ANY_BIT, 0, 1, PROT_EXEC), (RETURN, 0, 0, REFUSE | EPERM)]
    for numbers in (MMAP, MPROTECT):
        rule(numbers, [*not_executable, (RETURN, 0, 0, ALLOW)])
    for numbers in (KILL, TGKILL):
        rule(numbers, [*_argument(0), *_allow_if_equal(NO_PROCESS), (RETURN, 0, 0, REFUSE | EPERM)])
    known = [step for command in HARMLESS_FCNTL for step in _allow_if_equal(command)]
    rule(FCNTL, [*_argument(1), *known, (RETURN, 0, 0, REFUSE | EPERM)])
    rule(PRLIMIT, _read_own_limits())
    rule(IOCTL, [(RETURN, 0, 0, REFUSE | ENOTTY)])
    rule(CLONE3, [(RETURN, 0, 0, REFUSE | ENOSYS)])
    for numbers in FATAL.values():
        rule(numbers, [(RETURN, 0, 0, KILL_PROCESS)])
    program.append((RETURN, 0, 0, REFUSE | EPERM))
    return b"".join(map(_packed, program))


def bind(code: bytes, pid: int) -> bytes:
    """What `build` returned, for the process ``pid``. A worker has no time to build a filter of its own."""
    before, after = (b"".join(map(_packed, _allow_if_equal(number))) for number in (NO_PROCESS, pid))
    return code.replace(before, after)


def install(libc: ctypes.CDLL, code: bytes) -> bool:
    """Put the filter in force for this process. Needs no_new_privs or root. False if the kernel refuses."""
    pr_set_seccomp, mode_filter = 22, 2
    block = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("@HxxxxxxP", len(code) // 8, ctypes.addressof(block))
    return bool(libc.prctl(pr_set_seccomp, mode_filter, header, 0, 0) == 0)


def _packed(instruction: Instruction) -> bytes:
    return struct.pack("=HBBI", *instruction)


def _argument(index: int, high: bool = False) -> list[Instruction]:
    return [(LOAD_WORD, 0, 0, ARGUMENTS_AT + 8 * index + (4 if high else 0))]


def _allow_if_equal(value: int) -> list[Instruction]:
    return [(JUMP_EQUAL, 0, 1, value), (RETURN, 0, 0, ALLOW)]


def _read_own_limits() -> list[Instruction]:
    """prlimit of oneself without a new limit: both words of the pointer are zero."""
    refuse: Instruction = (RETURN, 0, 0, REFUSE | EPERM)
    body: list[Instruction] = []
    for load in (_argument(0), _argument(2), _argument(2, high=True)):
        body += [*load, (JUMP_EQUAL, 1, 0, 0), refuse]
    return [*body, (RETURN, 0, 0, ALLOW)]
