"""`spadework audit` of files, folders and runs."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest
from command_line import Spadework

from spadework.config import Config
from spadework.environment.program import parse_program
from spadework.roles.episode import Arm, Episode, EpisodeEnd, Turn
from spadework.sandbox import Sandbox
from spadework.sandbox.outcomes import Outcome
from spadework.store.pool import Pool
from spadework.store.records import DocumentRecord, EnvironmentRecord, EpisodeRecord, IterationRecords
from spadework.store.run_directory import RunDirectory

PROGRAMS = Path(__file__).parents[1] / "programs"
VAULT = PROGRAMS / "sound" / "look_then_say.py"
ECHO = PROGRAMS / "faulty" / "echo_wins.py"


async def _episode(source: str, id_: str, seed: int, end: EpisodeEnd) -> EpisodeRecord:
    """A play of the solution as a run records it; one that a cut reply ended has a turn that was not played."""
    turns = []
    async with Sandbox() as sandbox, await sandbox.open(source) as program:
        play, observation = await program.reset(seed)
        actions = await play.solution() if end is EpisodeEnd.TERMINATED else ("dance",)
        for action in actions:
            answer = await play.step(action)
            turns.append(Turn(observation, action, action, answer.reward))
            observation = answer.observation
    cut = end is EpisodeEnd.REPLY_CUT
    if cut:
        turns.append(Turn(observation, "I think", "", 0.0))
    outcome = Outcome.AGENT_FAULT if cut else Outcome.OK
    tokens = ((1, 2), (False, True), (0.0, -0.5))
    return EpisodeRecord(
        0, Episode(id_, Arm.PLAIN, seed, end, outcome, tuple(turns), *tokens), float(end is EpisodeEnd.TERMINATED)
    )


def write_run(path: Path, source: str, *, forged: bool = False) -> str:
    """A run of one environment with a won and a cut episode; returns the id of the environment."""
    program = parse_program(source, 60_000)
    config = Config.model_validate({"iterations": 1, "agent": {"max_reply_tokens": 24}})
    episodes = [
        asyncio.run(_episode(source, program.id, seed, end))
        for seed, end in ((1, EpisodeEnd.TERMINATED), (2, EpisodeEnd.REPLY_CUT))
    ]
    if forged:
        episode = episodes[0].episode
        turns = (*episode.turns[:-1], Turn("", "", episode.turns[-1].action, 0.25))
        episodes[0] = EpisodeRecord(0, Episode(**{**vars(episode), "turns": turns}), 0.25)
    environment = EnvironmentRecord(
        *(program.id, 0, 0, 0, "logical deduction", "d", program.class_name, source),
        *("Look.", "a vault", "0" * 64, (1,), (1,)),
    )
    records = IterationRecords(
        0,
        0,
        documents=(DocumentRecord("d", "Doc", "here", "text"),),
        environments=(environment,),
        episodes=tuple(episodes),
    )
    with RunDirectory.create_or_open(path, config) as directory, Pool.open(directory.pool) as pool:
        pool.write(records)
    return program.id


def test_a_folder_is_attacked_program_by_program_and_kind_by_kind(spadework: Spadework, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    shutil.copy(VAULT, tmp_path / "vault.py")
    shutil.copy(ECHO, tmp_path / "more" / "echo.py")
    done = spadework("audit", tmp_path, "--seeds", 4)
    assert done.status == 1
    rows = {line.split()[0].rpartition("/")[2]: line.split() for line in done.out.splitlines() if ".py  " in line}
    assert rows["vault.py"][-1] == "held"
    assert rows["echo.py"][-1] == "BEATEN"
    for kind in ("scripted", "echo", "injection", "replay"):
        assert any(line.split()[:1] == [kind] for line in done.out.splitlines())
    assert "an agent that repeats the observation earns 1.00" in " ".join(done.out.split())
    assert done.out.splitlines()[-1] == "1 of 2 programs held"


def test_the_same_as_json(spadework: Spadework) -> None:
    done = spadework("audit", VAULT, ECHO, "--seeds", 4, "--json")
    assert done.status == 1
    found = json.loads(done.out)
    vault, echo = found["programs"]
    assert (vault["name"], vault["held"], vault["program"]["class"]) == (str(VAULT), True, "VaultEnv")
    assert (echo["name"], echo["held"]) == (str(ECHO), False)
    beaten = [one for one in echo["attacks"] if one["beaten"]]
    assert {one["kind"] for one in beaten} >= {"scripted", "echo"}
    assert all(one["reason"] for one in beaten)
    assert found["kinds"]["echo"]["programs"] == 2
    assert found["kinds"]["echo"]["beaten"] == 1
    assert found["kinds"]["replay"]["most_earned"] is None
    held = spadework("audit", VAULT, "--seeds", 4, "--json")
    assert (held.status, json.loads(held.out)["programs"]) == (0, [vault])


def test_environments_of_a_run_are_attacked_and_their_episodes_replayed(spadework: Spadework, tmp_path: Path) -> None:
    id_ = write_run(tmp_path / "run", VAULT.read_text())
    done = spadework("audit", tmp_path / "run", "--seeds", 4, "--json")
    (program,) = json.loads(done.out)["programs"]
    assert (done.status, program["held"]) == (0, True), program
    assert program["name"] == f"VaultEnv {id_[:12]}"
    (replayed,) = [one for one in program["attacks"] if one["attack"] == "replays recorded episodes"]
    assert replayed["plays"] == 2
    none = json.loads(spadework("audit", tmp_path / "run", "--seeds", 4, "--episodes", 0, "--json").out)
    assert not any(one["attack"] == "replays recorded episodes" for one in none["programs"][0]["attacks"])


def test_a_recorded_reward_that_the_actions_do_not_earn_is_told(spadework: Spadework, tmp_path: Path) -> None:
    write_run(tmp_path / "run", VAULT.read_text(), forged=True)
    done = spadework("audit", tmp_path / "run", "--seeds", 4)
    assert done.status == 1
    assert "the rewards are [0, 1], not [0, 0.25]" in " ".join(done.out.split())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("missing.py",), "there is no file"),
        (("empty",), "empty is neither a run nor holds .py files"),
        (("run", "--round", 3), "has no round 3; it has the rounds 0 to 0"),
    ],
)
def test_what_cannot_be_attacked_is_told_in_a_sentence(
    spadework: Spadework,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[object, ...],
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    write_run(tmp_path / "run", VAULT.read_text())
    assert sentence in spadework("audit", *arguments).sentence


def test_a_program_that_does_not_run_sets_the_status(spadework: Spadework) -> None:
    done = spadework("audit", PROGRAMS / "faulty" / "not_python.py")
    assert done.status == 1
    assert "DOES NOT RUN" in done.out
    assert "invalid syntax" in done.out
