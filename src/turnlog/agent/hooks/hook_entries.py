"""Build the entries that hooks leave in a session; the recorder adds the common fields.

`progress` entries follow clients 2.1.12 to 2.1.81, all others 2.1.91 to 2.1.325 (observed).
"""

from collections.abc import Iterable

from turnlog.agent.hooks.outputs import HookOutcome, read_answer
from turnlog.agent.hooks.runs import HookRun
from turnlog.format.json_values import Fields

DEFERRED = "hook_deferred_tool"
"""Attachment type of a call that a hook has deferred to a later run of the program."""


def progress_line(run: HookRun, call_id: str) -> Fields:
    """Return the progress entry of a hook; no entry may use it as a parent."""
    data = {
        "type": "hook_progress",
        "hookEvent": run.event,
        "hookName": run.name,
        "command": run.command,
    }
    return {"type": "progress", "data": data, "toolUseID": call_id, "parentToolUseID": call_id}


def attachment_lines(outcome: HookOutcome, call_id: str) -> list[Fields]:
    """Build an entry for each hook, and for its messages to the model and the user.

    `call_id` is the id of the call, or a new id for events without a call.
    """
    lines = [
        _attachment(_run_fields(run), run, call_id) for run in outcome.runs if _is_recorded(run)
    ]
    for run in outcome.runs[-1:]:
        if outcome.context:
            content = {"type": "hook_additional_context", "content": outcome.context}
            rendered = [{"content": reminder(outcome.context, run.name)}]
            line = _attachment(content, run, call_id)
            lines.append(line | {"rendered": rendered, "renderedRole": "system"})
        if outcome.system_message:
            shown = {"type": "hook_system_message", "content": outcome.system_message}
            lines.append(_attachment(shown, run, call_id))
    return lines


def deferral_line(outcome: HookOutcome, call: Fields, mode: str) -> Fields:
    """Build the entry of a call that a hook defers to a later run of the program."""
    content = {"type": DEFERRED, "toolName": call["name"], "toolInput": call["input"]}
    line = _attachment(content, outcome.runs[-1], call["id"])
    line["attachment"]["permissionMode"] = mode
    return line


def feedback_line(outcome: HookOutcome, event: str = "Stop") -> Fields:
    """Return the message for the model when a hook keeps it from stopping."""
    message = {"role": "user", "content": f"{event} hook feedback:\n{outcome.reason}"}
    return {"type": "user", "message": message, "isMeta": True}


def task_feedback(outcome: HookOutcome, event: str) -> str:
    """Return the message for the model when a hook blocks a change of the task list.

    A hook that blocks by exit code is identified by its command (2.1.325, observed).
    """
    blocking = [(run, read_answer(run)) for run in outcome.runs]
    texts = [
        f"[{run.command}]: {each.reason}" if run.exit_code == 2 else each.reason
        for run, each in blocking
        if each.block
    ]
    return "\n".join([f"{event} hook feedback:", *texts])


def stop_summary_line(outcome: HookOutcome, call_id: str) -> Fields:
    """Return the entry that lists the Stop hooks that ran."""
    infos = [_info(run) for run in outcome.runs]
    return {
        "type": "system",
        "subtype": "stop_hook_summary",
        "hookCount": len(infos),
        "hookInfos": infos,
        "hookErrors": outcome.errors,
        "hookAdditionalContext": outcome.context,
        "preventedContinuation": outcome.stop,
        "stopReason": outcome.stop_reason,
        "hasOutput": any(run.stdout.strip() for run in outcome.runs),
        "level": "suggestion",
        "toolUseID": call_id,
    }


def stopped_text(outcome: HookOutcome, name: str) -> str:
    """Return the message to the model after a hook ended the turn."""
    why = outcome.stop_reason or outcome.reason
    return f"<system-reminder>\n{name} hook stopped continuation: {why}\n</system-reminder>"


def news_text(run: HookRun) -> str:
    """Return the message to the model about a failed background hook."""
    why = run.stderr.strip() or run.stdout.strip()
    return f'{run.name} hook blocking error from command: "{run.command}": {why}'


def reminder(texts: Iterable[str], name: str) -> str:
    """Wrap hook output in a system reminder, so that it does not read as the user's words."""
    context = "\n".join(texts)
    return f"<system-reminder>\n{name} hook additional context: {context}\n</system-reminder>"


def _info(run: HookRun) -> Fields:
    prompt = {"promptText": run.command} if run.kind == "prompt" else {}
    return {"command": run.command, **prompt, "durationMs": round(run.seconds * 1000)}


def _is_recorded(run: HookRun) -> bool:
    """Return whether a hook failed or produced output; others have no entry (2.1.325, observed)."""
    return run.exit_code != 0 or run.is_cut or bool(run.stdout.strip())


def _run_fields(run: HookRun) -> Fields:
    took = {"command": run.command, "durationMs": round(run.seconds * 1000)}
    printed = {"stdout": run.stdout, "stderr": run.stderr, "exitCode": run.status or run.exit_code}
    if run.timeout is not None:
        late = {"timedOut": True, "timeoutMs": round(run.timeout * 1000)}
        return {"type": "hook_cancelled"} | took | late
    outcome = read_answer(run)
    if outcome.block:
        error = {"blockingError": outcome.reason, "command": run.command}
        return {"type": "hook_blocking_error", "blockingError": error}
    if outcome.errors:
        return {"type": "hook_non_blocking_error"} | printed | took
    # JSON output is instructions for the client; only plain text is content.
    content = "" if run.stdout.lstrip().startswith("{") else run.stdout.strip()
    return {"type": "hook_success", "content": content} | printed | took


def _attachment(content: Fields, run: HookRun, call_id: str) -> Fields:
    about = {"hookName": run.name, "toolUseID": call_id, "hookEvent": run.event}
    return {"type": "attachment", "attachment": content | about}
