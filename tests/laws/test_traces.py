"""Traces of every session file: complete, sound, and the same however far the file was read."""

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

from data.files import CLIENT_FILES
from support.strategies import damaged_files, sound_files
from turnlog.conversation.messages import add_usage
from turnlog.conversation.session import Session, open_session
from turnlog.format.blocks import Usage
from turnlog.render.costs import session_cost
from turnlog.trace.attributes import attributes_of
from turnlog.trace.content import ContentPolicy
from turnlog.trace.otlp import resource_of, sdk_span
from turnlog.trace.span import Span, ToolPlacement, WorkKind
from turnlog.trace.spans import SpanOptions, spans_of

ENDED = SpanOptions(ended=True)


def spans_by_id(session: Session, options: SpanOptions = ENDED) -> dict[str, Span]:
    spans = list(spans_of(session, options))
    found = {span.id: span for span in spans}
    assert len(found) == len(spans), "no two spans have one id"
    return found


def check_parents(session: Session, layout: ToolPlacement) -> None:
    """Each span follows on its parent, in the same trace."""
    spans = spans_by_id(session, SpanOptions(layout, ended=True))
    seen: set[str] = set()
    for span in spans.values():
        assert span.parent_id is None or span.parent_id in seen
        assert span.parent_id is None or spans[span.parent_id].trace.id == span.trace.id
        assert span.begins <= span.ends
        seen.add(span.id)


def check_ends(session: Session, layout: ToolPlacement) -> None:
    """Each turn and sub-agent ends with the last span below it, or later.

    In the nested layout, tools run below the generation that called them, after it has ended.
    """
    spans = spans_by_id(session, SpanOptions(layout, ended=True))
    for span in spans.values():
        above = spans.get(span.parent_id or "")
        while above:
            assert above.ends >= span.ends or above.kind is WorkKind.GENERATION
            above = spans.get(above.parent_id or "")


def check_encoding(session: Session) -> None:
    """Each span can be sent, with all its attributes."""
    spans = [ContentPolicy().of(span) for span in spans_by_id(session).values()]
    encoded = encode_spans([sdk_span(span, resource_of()) for span in spans])
    sent = [each for one in encoded.resource_spans for two in one.scope_spans for each in two.spans]
    assert [len(each.attributes) for each in sent] == [len(attributes_of(span)) for span in spans]
    assert type(encoded).FromString(encoded.SerializeToString()) == encoded


@pytest.mark.parametrize("layout", list(ToolPlacement))
def test_every_span_follows_on_its_parent_in_one_trace(
    session_file: Path, layout: ToolPlacement
) -> None:
    check_parents(open_session(session_file), layout)


@pytest.mark.parametrize("layout", list(ToolPlacement))
def test_every_span_ends_with_its_last_child_or_later(
    session_file: Path, layout: ToolPlacement
) -> None:
    check_ends(open_session(session_file), layout)


def test_every_span_can_be_sent(session_file: Path) -> None:
    check_encoding(open_session(session_file))


@given(damaged_files() | sound_files, st.sampled_from(ToolPlacement))
def test_so_it_is_with_files_of_any_kind(
    scratch: Path, content: bytes, layout: ToolPlacement
) -> None:
    scratch.write_bytes(content)
    check_parents(open_session(scratch), layout)
    check_encoding(open_session(scratch))


def test_every_token_is_in_one_generation(session_file: Path) -> None:
    session = open_session(session_file)
    told = add_usage(span.usage for span in spans_by_id(session).values() if span.usage)
    counted = add_usage(outside_the_tree(session))
    for name in counted:
        models = session_cost(session).models
        counted[name] = sum(getattr(model.usage, name) for model in models) - counted[name]
    assert told == counted


def outside_the_tree(session: Session) -> list[Usage]:
    """Return the usage of lines that are not part of the conversation, because they have no id."""
    inside = {node.index for node in session.tree.chain}
    return [
        message.usage
        for message in session.messages
        if not message.is_synthetic
        and not any(node.index in inside or node.is_sidechain for node in message.nodes)
    ]


def test_every_call_of_the_session_is_a_tool(session_file: Path) -> None:
    session = open_session(session_file)
    tools = [span.call_id for span in spans_by_id(session).values() if span.kind is WorkKind.TOOL]
    main = {node.index for node in session.tree.chain}
    called = [call.id for call in session.calls if call.use.index in main]
    assert [name for name in called if name not in tools] == []


@pytest.mark.parametrize("path", CLIENT_FILES, ids=lambda path: path.stem)
def test_what_was_final_stays_as_it_was(path: Path, scratch: Path) -> None:
    whole = path.read_bytes().splitlines(keepends=True)
    later = spans_by_id(open_session(path))
    beside = path.with_suffix("")
    for count in range(1, len(whole), 3):
        place = scratch.parent / path.name
        place.write_bytes(b"".join(whole[:count]))
        if beside.is_dir() and not place.with_suffix("").exists():
            shutil.copytree(beside, place.with_suffix(""))
        for span in spans_of(open_session(place)):
            assert span.id in later
            assert span.start == later[span.id].start
            if span.is_final:
                assert span == later[span.id]
