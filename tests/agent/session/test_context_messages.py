"""Messages computed incrementally equal those that `messages_of` computes from everything."""

from hypothesis import given
from hypothesis import strategies as st

from turnlog.agent.session.context_messages import ContextMessages
from turnlog.conversation.context import messages_of
from turnlog.format.json_values import Fields

MODELS = st.sampled_from(["claude-opus-5-5"] * 6 + ["claude-haiku-5-5", "<synthetic>"])
IDS = st.sampled_from([f"m{number}" for number in range(6)])
CALLS = st.sampled_from([f"t{number}" for number in range(6)])


def user(content: str | list[Fields], **more: object) -> Fields:
    return {"type": "user", "message": {"role": "user", "content": content}, **more}


def answer(name: str, model: str, block: Fields) -> Fields:
    message = {"role": "assistant", "id": name, "model": model, "content": [block]}
    return {"type": "assistant", "message": message}


def use(call: str) -> Fields:
    return {"type": "tool_use", "id": call, "name": "Read", "input": {}}


def result(call: str) -> Fields:
    return user([{"type": "tool_result", "tool_use_id": call, "content": "done"}])


SAID: list[Fields] = [
    {"type": "text", "text": "Yes."},
    {"type": "text", "text": " "},
    {"type": "thinking", "thinking": "Hm.", "signature": "s"},
]
BLOCKS = st.one_of(
    st.sampled_from(SAID),
    CALLS.map(use),
)
ENTRIES = st.one_of(
    st.sampled_from([user("go"), user("more", isMeta=True), {"type": "system", "subtype": "x"}]),
    CALLS.map(result),
    st.builds(answer, IDS, MODELS, BLOCKS),
)


def exchange(number: int, model: str = "claude-opus-5-5") -> list[Fields]:
    """A prompt, a call with its result, and an answer."""
    return [
        user(f"prompt {number}"),
        answer(f"msg_{number}a", model, {"type": "thinking", "thinking": "Hm.", "signature": "s"}),
        answer(f"msg_{number}a", model, use(f"toolu_{number}")),
        result(f"toolu_{number}"),
        answer(f"msg_{number}b", model, {"type": "text", "text": "Read."}),
        {"type": "system", "subtype": "turn_duration"},
    ]


@given(st.lists(ENTRIES, max_size=40), st.lists(st.integers(0, 3), max_size=6))
def test_it_agrees_with_computing_all_of_them(entries: list[Fields], dropped: list[int]) -> None:
    context, chain = ContextMessages(), list[Fields]()
    for entry in entries:
        chain.append(entry)
        assert context.messages_at(chain) == messages_of(chain, is_open=True)
    for count in dropped:
        del chain[len(chain) - count :]
        chain.append(user("again"))
        assert context.messages_at(chain) == messages_of(chain, is_open=True)


def test_a_result_may_stand_before_its_call() -> None:
    model = "claude-opus-5-5"
    said = [answer(f"m{number}", model, block) for number, block in enumerate(SAID[1::-1])]
    context, chain = ContextMessages(), list[Fields]()
    for entry in (result("t0"), said[0], answer("m9", model, use("t0")), said[1]):
        chain.append(entry)
        assert context.messages_at(chain) == messages_of(chain, is_open=True)


@given(st.lists(MODELS, max_size=8))
def test_it_agrees_when_the_model_changes(models: list[str]) -> None:
    context, chain = ContextMessages(), list[Fields]()
    for number, model in enumerate(models):
        chain += exchange(number, model)
        assert context.messages_at(chain) == messages_of(chain, is_open=True)


def test_what_was_computed_before_is_kept() -> None:
    context, chain, before = ContextMessages(), list[Fields](), list[Fields]()
    for number in range(50):
        chain += exchange(number)
        before = context.messages_at(chain)
    chain.append(user("next"))
    after = context.messages_at(chain)
    same = [old is new for old, new in zip(before, after, strict=False)]
    assert same.count(True) >= len(before) - 2


def test_another_chain_starts_anew() -> None:
    context = ContextMessages()
    first, second = exchange(1) + exchange(2), exchange(3) + exchange(4)
    assert context.messages_at(first) == messages_of(first, is_open=True)
    assert context.messages_at(second) == messages_of(second, is_open=True)
    assert context.messages_at(first) == messages_of(first, is_open=True)
