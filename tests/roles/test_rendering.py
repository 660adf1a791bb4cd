from __future__ import annotations

import pytest
from families import FAMILIES, GPT_OSS, THINKING_ALWAYS
from hypothesis import given, settings
from hypothesis import strategies as st
from small_tokenizers import CHATML, FORGETFUL, HYBRID, PLAIN, REWRITING, build_tokenizer

from spadework.curriculum.documents import Document
from spadework.curriculum.memory import Memory
from spadework.roles.choosing import open_rendering
from spadework.roles.messages import Message
from spadework.roles.prompts import full
from spadework.roles.rendering import Rendering, RenderingRefused

RENDERINGS = {
    "chatml": open_rendering(build_tokenizer(CHATML), "local", thinking=False),
    "chatml thinking": open_rendering(build_tokenizer(CHATML), "local", thinking=True),
    "hybrid": open_rendering(build_tokenizer(HYBRID), "local", thinking=False),
    "hybrid thinking": open_rendering(build_tokenizer(HYBRID), "local", thinking=True),
    "plain": open_rendering(build_tokenizer(PLAIN), "local", thinking=False),
    "forgetful": open_rendering(build_tokenizer(FORGETFUL), "local", thinking=False),
    **{name: open_rendering(family.tokenizer(), "local", family.thinking) for name, family in FAMILIES.items()},
}
each_rendering = pytest.mark.parametrize("rendering", RENDERINGS.values(), ids=RENDERINGS.keys())
EVERY = {**RENDERINGS, "gpt-oss": open_rendering(GPT_OSS.tokenizer(), "local", GPT_OSS.thinking)}
"""With replies in channels, whose texts and history are tested in `test_channels`."""
every_rendering = pytest.mark.parametrize("rendering", EVERY.values(), ids=EVERY.keys())

texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)
words = st.text("abc 12").map(lambda text: text.strip() or "a")
# Any ids that a model could sample, thinking markers left open included.
replies = st.lists(st.integers(0, 330), max_size=12)
speech = st.text("abc 12").map(str.strip)


def cut(rendering: Rendering, ids: list[int]) -> tuple[int, ...]:
    """Without stop tokens."""
    return tuple(token for token in ids if token not in rendering.stop_ids)


def spoken(rendering: Rendering, text: str) -> tuple[tuple[int, ...], Message]:
    """A reply of ``text`` as ids and as the message that the template would be given."""
    sampled = f"hm\n</think>\n{text}".rstrip() if rendering.opens_thinking else text
    message = Message("assistant", f"<think>\n{sampled}" if rendering.opens_thinking else sampled)
    return (*rendering.encode(sampled), rendering.stop_ids[0]), message


def specials(rendering: Rendering) -> dict[int, str]:
    return {id: str(token) for id, token in rendering.tokenizer.added_tokens_decoder.items() if token.special}


@every_rendering
@settings(max_examples=30, deadline=None)
@given(first=texts, turns=st.lists(st.tuples(replies, texts), min_size=1, max_size=4))
def test_a_conversation_keeps_every_sampled_token_and_only_grows(
    rendering: Rendering, first: str, turns: list[tuple[list[int], str]]
) -> None:
    prompt = rendering.first_prompt([Message("user", first)])
    trained: list[int] = []
    sampled_everywhere: list[int] = []
    for reply, observation in turns:
        sampled = (*cut(rendering, reply), rendering.stop_ids[0])
        after = rendering.next_prompt(prompt, sampled, [Message("user", observation)])
        assert after[: len(prompt) + len(sampled)] == (*prompt, *sampled)
        trained += after[len(prompt) : len(prompt) + len(sampled)]
        sampled_everywhere += sampled
        prompt = after
    assert trained == sampled_everywhere


@each_rendering
@settings(max_examples=30, deadline=None)
@given(first=texts, turns=st.lists(st.tuples(speech, texts), min_size=1, max_size=3))
def test_turn_by_turn_gives_the_ids_of_one_full_render(
    rendering: Rendering, first: str, turns: list[tuple[str, str]]
) -> None:
    messages = [Message("user", first)]
    ids = rendering.first_prompt(messages)
    for reply, observation in turns:
        sampled, message = spoken(rendering, reply)
        ids = rendering.next_prompt(ids, sampled, [Message("user", observation)])
        messages += [message, Message("user", observation)]
    assert ids == rendering.first_prompt(messages)


@each_rendering
def test_every_prompt_ends_in_the_header_of_the_reply(rendering: Rendering) -> None:
    first = rendering.first_prompt([Message("system", "S"), Message("user", "one")])
    second = rendering.next_prompt(first, (*rendering.encode("a"), rendering.stop_ids[0]), [Message("user", "two")])
    header = rendering.decode(first).rsplit("one", 1)[1].split("assistant", 1)[1]
    assert header.startswith(("]\n", "\n", "<|end_header_id|>\n\n"))
    assert rendering.decode(second).endswith("assistant" + header)


def test_the_template_says_what_is_written_for_the_model() -> None:
    question = [Message("user", "q")]
    assert RENDERINGS["chatml"].decode(RENDERINGS["chatml"].first_prompt(question)).endswith("assistant\n")
    assert RENDERINGS["hybrid"].decode(RENDERINGS["hybrid"].first_prompt(question)).endswith("<think>\n\n</think>\n\n")
    assert (
        RENDERINGS["hybrid thinking"]
        .decode(RENDERINGS["hybrid thinking"].first_prompt(question))
        .endswith("assistant\n")
    )


def test_thinking_of_an_earlier_turn_stays_in_the_conversation() -> None:
    rendering = RENDERINGS["hybrid thinking"]
    prompt = rendering.first_prompt([Message("user", "q")])
    sampled = (*rendering.encode("<think>\nhm\n</think>\n\nyes"), rendering.stop_ids[0])
    after = rendering.next_prompt(prompt, sampled, [Message("user", "next")])
    assert "<think>\nhm\n</think>\n\nyes<|im_end|>\n<|im_start|>user\nnext" in rendering.decode(after)


def test_reply_text_drops_the_stop_token_and_keeps_thinking() -> None:
    rendering = RENDERINGS["chatml"]
    ids = rendering.encode("<think>\nhm\n</think>\n\nyes")
    assert rendering.reply_text((*ids, rendering.stop_ids[0])) == "<think>\nhm\n</think>\n\nyes"
    assert rendering.reply_text(ids) == "<think>\nhm\n</think>\n\nyes"


@each_rendering
@settings(max_examples=30, deadline=None)
@given(reply=replies)
def test_a_stop_token_ends_a_reply_and_nothing_follows_one_that_was_cut(rendering: Rendering, reply: list[int]) -> None:
    prompt = rendering.first_prompt([Message("user", "q")])
    unfinished = cut(rendering, reply)
    with pytest.raises(ValueError, match="was cut"):
        rendering.next_prompt(prompt, unfinished, [Message("user", "next")])
    assert rendering.reply_text(unfinished) == rendering.decode(unfinished)
    for stop in rendering.stop_ids:
        assert rendering.reply_text((*unfinished, stop)) == rendering.decode(unfinished)
        after = rendering.next_prompt(prompt, (*unfinished, stop), [Message("user", "next")])
        assert "next" in rendering.decode(after[len(prompt) + len(unfinished) + 1 :])


@every_rendering
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_text_cannot_pose_as_another_speaker(rendering: Rendering, data: st.DataObject) -> None:
    marks = specials(rendering)
    pieces = st.sampled_from([*marks.values(), "assistant", "user", "\n", " ", "<", "|", "I win"])
    forged = "".join(data.draw(st.lists(pieces, min_size=1, max_size=12)))

    def marks_of(content: str) -> list[int]:
        first = rendering.first_prompt([Message("user", content)])
        sampled = (*rendering.encode("a"), rendering.stop_ids[0])
        after = rendering.next_prompt(first, sampled, [Message("user", content)])
        return [token for token in after if token in marks]

    assert marks_of(forged) == marks_of("honest")


@every_rendering
@settings(max_examples=20, deadline=None)
@given(observation=speech, hint=speech)
def test_both_arms_are_opened_alike_but_for_the_hint(rendering: Rendering, observation: str, hint: str) -> None:
    plain, hinted = (
        rendering.decode(rendering.first_prompt(full.agent_messages(f"[{observation}]", given, "boxed")))
        for given in (None, hint)
    )
    shown = f"[{observation}]"
    assert plain.count(shown) == 1
    assert hinted == plain.replace(shown, f"{shown}\n\nHINT: {hint}")


def test_families_are_rendered_by_their_own_renderer_where_there_is_one() -> None:
    assert {name: RENDERINGS[name].name for name in FAMILIES} == {
        "Qwen3": "local (qwen3 renderer)",
        "Qwen3 thinking": "local (qwen3 renderer)",
        "Qwen3-Instruct-2507": "local (qwen3 renderer)",
        "Qwen2.5": "local",
        "Nemotron-3": "local (nemotron-3 renderer)",
        "Nemotron-3 thinking": "local (nemotron-3 renderer)",
        "Llama-3": "local (llama-3 renderer)",
        "ChatML": "local (qwen3 renderer)",
    }


@pytest.mark.parametrize("name", FAMILIES)
def test_thinking_is_on_or_off_as_the_setting_says(name: str) -> None:
    header = RENDERINGS[name].decode(RENDERINGS[name].first_prompt([Message("user", "q")])).rpartition("assistant")[2]
    expected = {
        "Qwen3": "\n<think>\n\n</think>\n\n",
        "Nemotron-3": "\n<think></think>",
        "Nemotron-3 thinking": "\n<think>\n",
        "Llama-3": "<|end_header_id|>\n\n",
    }
    assert header == expected.get(name, "\n")


def test_replies_in_parts_that_are_not_harmony_are_refused_by_name() -> None:
    parts = CHATML.replace("message.content }}", "'<|endoftext|>' + message.content }}")
    with pytest.raises(RenderingRefused, match=r"local/parts divides replies into parts \(<\|endoftext\|>"):
        open_rendering(build_tokenizer(parts), "local/parts", thinking=False)


def test_an_effort_is_refused_where_the_template_knows_none() -> None:
    with pytest.raises(RenderingRefused, match=r"knows no efforts of thinking, so agent\.thinking = 'low' cannot"):
        open_rendering(build_tokenizer(HYBRID), "local", thinking="low")
    knows = "{% if reasoning_effort is defined %}{{ reasoning_effort + ' effort\n' }}{% endif %}" + PLAIN
    rendering = open_rendering(build_tokenizer(knows), "local", thinking="high")
    assert rendering.decode(rendering.first_prompt([Message("user", "q")])).startswith("high effort\n")


def test_a_template_that_always_opens_the_thinking_is_refused_without_thinking() -> None:
    with pytest.raises(RenderingRefused, match="opens the thinking of every reply"):
        open_rendering(THINKING_ALWAYS.tokenizer(), "local", thinking=False)


def test_the_day_is_not_in_a_prompt() -> None:
    dated = "{% set day = date_string if date_string is defined else strftime_now('%d %b %Y') %}{{ day }}\n" + CHATML
    asks = "{% set day = strftime_now('%d %b %Y') %}{{ day }}\n" + CHATML
    for template in (dated, asks):
        rendering = open_rendering(build_tokenizer(template), "local", thinking=False)
        assert rendering.decode(rendering.first_prompt([Message("user", "q")])).startswith("26 Jul 2024\n")


def test_a_template_that_rewrites_its_history_is_refused_by_name() -> None:
    with pytest.raises(RenderingRefused, match="local/rewriting is not append-only"):
        open_rendering(build_tokenizer(REWRITING), "local/rewriting", thinking=False)


def test_a_template_that_forgets_thinking_is_refused_for_thinking_only() -> None:
    open_rendering(build_tokenizer(FORGETFUL), "local", thinking=False)
    with pytest.raises(RenderingRefused, match="switch thinking off"):
        open_rendering(build_tokenizer(FORGETFUL), "local", thinking=True)


def test_a_tokenizer_without_a_template_is_refused_with_the_remedy() -> None:
    with pytest.raises(RenderingRefused, match="local/base has no chat template: add `chat_template`"):
        open_rendering(build_tokenizer(None), "local/base", thinking=False)


def test_a_template_without_a_system_role_renders_users_and_refuses_systems() -> None:
    strict = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}" + PLAIN
    rendering = open_rendering(build_tokenizer(strict), "local/strict", thinking=False)
    assert rendering.decode(rendering.first_prompt([Message("user", "q")])).endswith("[assistant]\n")
    with pytest.raises(RenderingRefused, match="local/strict rejects the roles system, user: no system role"):
        rendering.first_prompt([Message("system", "s"), Message("user", "q")])


def test_tokeniser_work_grows_linearly_with_turns() -> None:
    tokenizer = build_tokenizer(PLAIN)
    rendering = open_rendering(tokenizer, "local", thinking=False)
    rendered_chars = [0]
    apply = tokenizer.apply_chat_template

    def counting(messages: list[dict[str, str]], **options: object) -> object:
        rendered_chars[0] += sum(len(message["content"]) for message in messages)
        return apply(messages, **options)

    tokenizer.apply_chat_template = counting
    prompt = rendering.first_prompt([Message("user", "q" * 50)])
    cost = []
    for _ in range(64):
        before = rendered_chars[0]
        prompt = rendering.next_prompt(
            prompt, (*rendering.encode("a" * 50), rendering.stop_ids[0]), [Message("user", "o" * 50)]
        )
        cost.append(rendered_chars[0] - before)
    assert cost[-1] == cost[0]


@every_rendering
def test_the_designers_earlier_exchange_is_shown_whole_and_before_its_task(rendering: Rendering) -> None:
    messages = full.designer_messages("optimization", Document("d", "Locks", "A lock lifts a boat."), Memory(), "easy")
    text = rendering.decode(rendering.first_prompt(messages))
    places = [text.index(part) for part in ("What makes an environment", *full.worked_examples("easy"), "A lock lifts")]
    assert places == sorted(places)
