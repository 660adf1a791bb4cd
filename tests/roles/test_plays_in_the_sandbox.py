"""Episodes of real programs in the real sandbox."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from guessing_game import GUESS
from scripted_engine import Script, ScriptedEngine
from small_tokenizers import CHATML, build_tokenizer

from spadework.config import AgentConfig
from spadework.roles.agent import EpisodeRequest, Player
from spadework.roles.choosing import open_rendering
from spadework.roles.episode import Arm, EpisodeEnd
from spadework.roles.plays import Played, play_all
from spadework.roles.prompts import full
from spadework.sandbox import Limits, Sandbox
from spadework.sandbox.outcomes import FaultKind, Outcome

RENDERING = open_rendering(build_tokenizer(CHATML), "local", thinking=False)
PLAYER = Player(RENDERING, full, AgentConfig(max_reply_tokens=40, max_episode_tokens=4000), 4000, run_seed=7)

CRASHING = GUESS.replace('return "Yes."', "raise KeyError(action)\n            return 1")
HANGING = GUESS.replace('word = "low"', 'while action == "9": pass\n        word = "low"')


def play(requests: Sequence[EpisodeRequest], script: Script) -> Played:
    async def main() -> Played:
        async with Sandbox(Limits(step_timeout_s=0.5, isolation="best-effort")) as sandbox:
            return await play_all(requests, ScriptedEngine(RENDERING, script), sandbox, PLAYER)

    return asyncio.run(main())


def halve(member: int, prompt: str, params: object) -> str:
    low, high = 1, 9
    for turn in prompt.split("assistant\n\\boxed{")[1:]:
        guess = int(turn[0])
        low, high = (guess + 1, high) if "Too low." in turn else (low, guess - 1)
    return f"\\boxed{{{(low + high) // 2}}}"


def test_halving_wins_a_guessing_game_within_four_turns() -> None:
    played = play([EpisodeRequest("guess", GUESS, Arm.PLAIN, seed) for seed in range(6)], halve)
    assert [episode.end for episode in played.episodes] == [EpisodeEnd.TERMINATED] * 6
    assert all(episode.turns[-1].reward == 1.0 for episode in played.episodes)
    assert len({episode.turns[-1].action for episode in played.episodes}) > 1


def test_a_crash_and_a_hang_are_the_environments_fault_and_leave_the_others_alone() -> None:
    def nine(member: int, prompt: str, params: object) -> str:
        return "\\boxed{9}" if member == 1 else halve(member, prompt, params)

    requests = [EpisodeRequest(name, source, Arm.PLAIN, 0) for name, source in
                (("crashing", CRASHING), ("hanging", HANGING), ("guess", GUESS))]  # fmt: skip
    crashed, hung, won = play(requests, nine).episodes
    assert (crashed.outcome, crashed.fault_kind) == (Outcome.ENVIRONMENT_FAULT, FaultKind.EXCEPTION)
    assert "KeyError" in crashed.fault_reason
    assert (hung.outcome, hung.fault_kind) == (Outcome.ENVIRONMENT_FAULT, FaultKind.TIMEOUT)
    assert won.end is EpisodeEnd.TERMINATED
    assert not crashed.scored and not hung.scored


def test_a_program_that_cannot_load_is_named_in_every_episode() -> None:
    played = play([EpisodeRequest("bad", "class BadEnv(Missing): pass", Arm.PLAIN, seed) for seed in (0, 1)], halve)
    assert [episode.fault_kind for episode in played.episodes] == [FaultKind.LOAD] * 2
    assert all("Missing" in episode.fault_reason for episode in played.episodes)
