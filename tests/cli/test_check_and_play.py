"""Programs on the command line: what the gates say of them, and playing them."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from command_line import Spadework

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "examples" / "cellar_lock.py"
SOUND = ROOT / "tests" / "programs" / "sound"
FAULTY = ROOT / "tests" / "programs" / "faulty"

GREETING = """
class GreetingEnv:
    max_turns = 2

    def reset(self, seed=None):
        {before}
        self.turns = 0
        return {observation}, {{}}

    def step(self, action):
        self.turns += 1
        return "Go on.", float(action == "hello"), action == "hello", self.turns >= 2, {{}}
"""


def gates_of(output: str) -> dict[str, Any]:
    (checked,) = json.loads(output)
    return {verdict["gate"]: verdict["passed"] for verdict in checked["gates"]}


def test_a_sound_program_passes_every_gate(spadework: Spadework) -> None:
    done = spadework("check", LOCK)
    assert done.status == 0
    assert done.err == ""
    first, *lines = done.out.splitlines()
    assert first == f"{LOCK} (CellarLockEnv): passed"
    gates = ["parse", "contract", "determinism", "termination", "not-trivial", "solvable", "secret"]
    assert [line.split()[:2] for line in lines[:7]] == [["ok", gate] for gate in gates]


def test_the_same_as_json(spadework: Spadework) -> None:
    done = spadework("check", LOCK, "--json")
    (checked,) = json.loads(done.out)
    assert (done.status, checked["passed"], checked["rejected_by"], checked["reason"]) == (0, True, None, "")
    assert checked["file"] == str(LOCK)
    assert checked["program"]["class"] == "CellarLockEnv"
    assert len(checked["program"]["id"]) == 64
    assert all(gates_of(done.out).values())
    # Halving 60 numbers takes at most six gauges and one try.
    assert 1 < checked["measures"]["solution_length"] <= 7


@pytest.mark.parametrize(
    ("name", "gate", "reason"),
    [
        ("not_python", "parse", "not Python"),
        ("two_classes", "parse", "VaultEnv and SafeEnv"),
        ("ends_its_process", "contract", "exit code 3"),
        ("hangs_on_blank", "termination", "took longer than"),
    ],
)
def test_a_faulty_program_is_rejected_with_its_reason_and_status_1(
    spadework: Spadework, name: str, gate: str, reason: str
) -> None:
    done = spadework("check", FAULTY / f"{name}.py", "--set", "sandbox.step_timeout_s=0.2")
    assert done.status == 1
    assert f": rejected by {gate}" in done.out.splitlines()[0]
    (verdict,) = [line for line in done.out.splitlines() if line.split()[:1] == ["NO"]]
    assert reason in verdict


def test_one_rejected_program_of_several_sets_the_status(spadework: Spadework) -> None:
    done = spadework("check", FAULTY / "no_class.py", SOUND / "three_boxes.py")
    assert done.status == 1
    assert done.out.splitlines()[-1] == "1 of 2 programs passed"
    as_json = spadework("check", FAULTY / "no_class.py", FAULTY / "two_classes.py", "--json")
    assert as_json.status == 1
    assert [(one["passed"], one["rejected_by"]) for one in json.loads(as_json.out)] == [(False, "parse")] * 2


def test_checking_goes_on_after_a_rejection_only_when_asked_to(spadework: Spadework) -> None:
    program = FAULTY / "coin.py"
    stopped, went_on = (spadework("check", program, "--json", *more) for more in ((), ("--all",)))
    assert list(gates_of(stopped.out).values())[-1] is False
    assert set(gates_of(stopped.out)) < set(gates_of(went_on.out))


def test_a_hint_is_checked_with_the_program(spadework: Spadework) -> None:
    fair = spadework("check", LOCK, "--json", "--hint", "Halve the room that is left with every gauge.")
    assert gates_of(fair.out)["hint-safe"] is True
    # A hint for every number gives away that of any seed.
    unfair = spadework("check", LOCK, "--hint", " ".join(f"open {number}" for number in range(1, 61)))
    assert unfair.status == 1
    assert "rejected by hint-safe" in unfair.out


def test_settings_of_the_gates_can_be_changed(spadework: Spadework) -> None:
    (checked,) = json.loads(spadework("check", LOCK, "--json", "--set", "gates.seeds=2").out)
    assert len(checked["measures"]["seeds"]) == 2
    done = spadework("check", LOCK, "--set", "gates.max_source_chars=100")
    assert done.status == 1
    assert "at most 100 are allowed" in done.out


def test_what_a_program_prints_disturbs_neither_the_verdict_nor_the_output(
    spadework: Spadework, tmp_path: Path
) -> None:
    file = tmp_path / "noisy.py"
    file.write_text(
        LOCK.read_text()
        .replace("import random\n", "import random, sys\nprint('NOISE')\n")
        .replace("self.turns += 1", "self.turns += 1; print('NOISE', flush=True); sys.stderr.write('NOISE')")
    )
    done = spadework("check", file)
    assert done.status == 0
    assert "NOISE" not in done.out + done.err


def test_nothing_that_a_program_writes_is_a_command_to_the_terminal(spadework: Spadework, tmp_path: Path) -> None:
    escape = "\\x1b[31mred\\x1b[0m \\x07 [bold]kept[/bold]"
    shown, raising = tmp_path / "shown.py", tmp_path / "raising.py"
    shown.write_text(GREETING.format(before="pass", observation=f'"{escape}"'))
    raising.write_text(GREETING.format(before=f'raise ValueError("{escape}")', observation='""'))
    played, checked, failed = spadework("play", shown), spadework("check", raising), spadework("play", raising)
    assert (played.status, checked.status, failed.status) == (0, 1, 1)
    for text in (played.out, checked.out, failed.err):
        assert "[bold]kept[/bold]" in text
        assert "\x1b" not in text
        assert "\x07" not in text


def test_checking_needs_neither_the_training_extra_nor_a_run(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "for name in ('torch', 'transformers', 'renderers', 'matplotlib', 'tokenizers', 'pyarrow'):\n"
        "    sys.modules[name] = None\n"
        "from spadework.cli import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "check", str(LOCK)], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "passed" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_person_who_plays_the_solution_wins(spadework: Spadework) -> None:
    told = spadework("play", LOCK, "--seed", 7, "--cheat").out
    solution = told.partition("Solution: ")[2].partition("\n")[0].split(" | ")
    assert solution[-1].startswith("open ")
    done = spadework("play", LOCK, "--seed", 7, typed="\n".join(solution))
    assert done.status == 0
    assert "The door opens." in done.out
    assert done.out.splitlines()[-1] == f"You won after {len(solution)} turns, with a reward of 1."


def test_a_person_can_lose_run_out_of_turns_or_give_up(spadework: Spadework) -> None:
    lost = spadework("play", LOCK, "--seed", 7, typed="open 0\n")
    assert (lost.status, lost.out.splitlines()[-1]) == (0, "You lost after 1 turns, with a reward of 0.")
    late = spadework("play", LOCK, "--seed", 7, typed="gauge 1\n" * 20)
    assert (late.status, late.out.splitlines()[-1]) == (0, "You lost: the 12 turns are used up.")
    gone = spadework("play", LOCK, "--seed", 7, typed="gauge 1\n")
    assert (gone.status, gone.out.splitlines()[-1]) == (0, "You gave up after 1 turns.")


def test_a_seed_names_an_instance(spadework: Spadework) -> None:
    def solution(seed: int) -> str:
        return spadework("play", LOCK, "--seed", seed, "--cheat").out.partition("Solution: ")[2].partition("\n")[0]

    assert solution(3) == solution(3)
    assert solution(3) != solution(7)


def test_a_program_that_fails_while_it_is_played_is_told_with_status_1(spadework: Spadework) -> None:
    raising = spadework("play", FAULTY / "missing_argument_crashes.py", typed="say x\n")
    assert raising.status == 1
    assert raising.err.startswith("The program failed (exception): ")
    exiting = spadework("play", FAULTY / "ends_its_process.py")
    assert exiting.status == 1
    assert exiting.err.startswith("The program failed (exit)")


def test_ctrl_c_gives_up_like_ctrl_d() -> None:
    controller, terminal = pty.openpty()
    command = [sys.executable, "-c", "from spadework.cli import main; main()", "play", str(LOCK)]
    with subprocess.Popen(command, stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as player:
        assert player.stdout is not None
        shown = ""
        while not shown.endswith("[1/12] > "):
            shown += player.stdout.read(1)
        # A signal between the prompt and the system call that waits for an answer would be seen only after it.
        while Path(f"/proc/{player.pid}/stat").read_text().rpartition(") ")[2][0] != "S":
            time.sleep(0.01)
        player.send_signal(signal.SIGINT)
        rest, errors = player.communicate(timeout=60)
    os.close(controller)
    os.close(terminal)
    assert rest.splitlines()[-1] == "You gave up after 0 turns."
    assert (player.returncode, errors) == (0, "")
