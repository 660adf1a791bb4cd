"""Requests wait for each other only where many are in flight, and what is in flight is counted rightly."""

from __future__ import annotations

import asyncio

from spadework.sandbox import Sandbox
from spadework.sandbox.traffic import MANY, Traffic


class Recorder:
    def __init__(self) -> None:
        self.sent = 0

    def send(self) -> None:
        self.sent += 1


def test_nothing_waits_where_little_is_in_flight() -> None:
    async def run() -> None:
        sender, traffic = Recorder(), Traffic()
        traffic.in_flight = MANY - 1
        traffic.send(sender)
        assert sender.sent == 1

    asyncio.run(run())


def test_where_many_are_in_flight_senders_wait_and_send_once_together() -> None:
    async def run() -> None:
        senders, traffic = [Recorder(), Recorder()], Traffic()
        traffic.in_flight = MANY
        for sender in senders * 3:
            traffic.send(sender)
        assert [sender.sent for sender in senders] == [0, 0]
        while not senders[0].sent:
            await asyncio.sleep(0)
        assert [sender.sent for sender in senders] == [1, 1]
        traffic.send(senders[0])
        traffic.close()
        await asyncio.sleep(0.02)
        assert senders[0].sent == 1

    asyncio.run(run())


def test_nothing_is_in_flight_when_all_is_answered_or_lost(tripwire: str) -> None:
    async def run() -> None:
        async with Sandbox() as sandbox, await sandbox.open(tripwire) as program:
            plays = [(await program.reset(seed))[0] for seed in range(40)]
            for action in ("x", "die", "x"):
                actions = [action, *["x"] * (len(plays) - 1)]
                steps = (play.step(what) for play, what in zip(plays, actions, strict=True))
                failed = [
                    isinstance(step, BaseException) for step in await asyncio.gather(*steps, return_exceptions=True)
                ]
                assert failed == [action == "die"] + [False] * (len(plays) - 1)
                plays = plays[1:] if action == "die" else plays
            for play in plays:
                await play.close()
            for _ in range(500):
                if not sandbox._watch.traffic.in_flight:
                    break
                await asyncio.sleep(0.01)
            assert sandbox._watch.traffic.in_flight == 0

    asyncio.run(run())
