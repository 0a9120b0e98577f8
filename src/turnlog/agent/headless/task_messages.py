"""Messages about the start, progress and end of tasks: sub-agents and background commands."""

from collections.abc import Callable, Iterator
from time import monotonic, time

from msgspec import Struct

from turnlog.agent.loop.events import CallStarted, Event, Inside, Recorded, TurnEnded
from turnlog.agent.loop.spending import COUNTED
from turnlog.agent.subagents.runner import NAME as AGENT
from turnlog.agent.workspace.shell.background_tasks import BackgroundAgent, BackgroundTask
from turnlog.conversation.call_titles import call_title
from turnlog.format.json_values import Fields

STATUS = {"completed": "completed", "failed": "failed", "killed": "stopped"}
"""The status in a notification, by the status of a command."""


class _RunningAgent(Struct):
    """A sub-agent that is running."""

    agent_id: str
    call_id: str
    input: Fields
    started: float
    tool_uses: int = 0
    tokens: int = 0

    @property
    def about(self) -> Fields:
        """The fields that identify it in each of its messages."""
        kind = self.input.get("subagent_type") or "general-purpose"
        description = self.input.get("description") or ""
        return {"subagent_type": kind, "task_description": description}

    @property
    def usage(self) -> Fields:
        elapsed = round((monotonic() - self.started) * 1000)
        return {
            "total_tokens": self.tokens,
            "tool_uses": self.tool_uses,
            "duration_ms": elapsed,
        }


class TaskMessages:
    """Builds the messages about tasks from the events of a chat."""

    def __init__(self, send: Callable[[Fields], None], output_of: Callable[[str], str]) -> None:
        self._send = send
        self._output_of = output_of
        """Returns the file with the output of a sub-agent."""
        self._calls: dict[str, Fields] = {}
        """Inputs of calls that start sub-agents."""
        self._agents: dict[str, _RunningAgent] = {}

    def take(self, event: Event) -> None:
        """Send the task messages for an event, which precede the event's own message."""
        if isinstance(event, CallStarted) and event.tool == AGENT:
            self._calls[event.call_id] = event.input
        elif isinstance(event, Inside):
            self._inside(event)

    def marks(self, call_id: str) -> Fields:
        """Return the fields that identify the sub-agent of a call in its messages."""
        running = [each for each in self._agents.values() if each.call_id == call_id]
        return {"agent_id": running[0].agent_id, **running[0].about} if running else {}

    def _inside(self, event: Inside) -> None:
        agent = self._agents.get(event.agent_id)
        if agent is None:
            # A sub-agent's id is not known when the call starts; its first event has it.
            agent = self._start(event)
        if isinstance(event.event, Recorded):
            for progress in _progress(agent, event.event.entry):
                self._send(progress)
        elif isinstance(event.event, TurnEnded):
            self._end(agent, event.event)

    def _start(self, event: Inside) -> _RunningAgent:
        given = self._calls.pop(event.call_id, {})
        agent = _RunningAgent(event.agent_id, event.call_id, given, monotonic())
        self._agents[event.agent_id] = agent
        about: Fields = {
            "tool_use_id": agent.call_id,
            "description": agent.about["task_description"],
            "subagent_type": agent.about["subagent_type"],
            "is_backgrounded": False,
            "task_type": "local_agent",
            "prompt": given.get("prompt") or "",
        }
        self._send(_task("task_started", agent.agent_id) | about)
        return agent

    def _end(self, agent: _RunningAgent, ended: TurnEnded) -> None:
        del self._agents[agent.agent_id]
        agent.tokens = sum(ended.usage.get(name) or 0 for name in COUNTED)
        status = {"failed": "failed", "interrupted": "stopped"}.get(ended.reason, "completed")
        # Programs expect an interrupted agent to be "killed" in the update, but "stopped" in the
        # notification.
        self._send(_updated(agent.agent_id, "killed" if status == "stopped" else status))
        self._send(
            _task("task_notification", agent.agent_id)
            | {
                "tool_use_id": agent.call_id,
                "status": status,
                "output_file": self._output_of(agent.agent_id),
                "summary": ended.text,
                "usage": agent.usage,
            }
        )

    def command(self, job: BackgroundTask) -> None:
        """Send the messages for a background task that has started or ended."""
        kind = "local_agent" if isinstance(job, BackgroundAgent) else "local_bash"
        if job.status == "running":
            about = {"tool_use_id": job.call_id, "description": job.title}
            about |= {"is_backgrounded": True, "task_type": kind}
            self._send(_task("task_started", job.name) | about)
            return
        self._send(_updated(job.name, job.status))
        self._send(
            _task("task_notification", job.name)
            | {
                "tool_use_id": job.call_id,
                "status": STATUS[job.status],
                "output_file": str(job.output_file),
                "summary": _summary(job),
            }
        )


def _summary(job: BackgroundTask) -> str:
    """Return the summary of an ended task: an agent's report, or a killed command's title."""
    if isinstance(job, BackgroundAgent):
        return job.report or job.summary
    return job.title if job.status == "killed" else job.summary


def _progress(agent: _RunningAgent, entry: Fields) -> Iterator[Fields]:
    """Yield a message for each call of a sub-agent."""
    if entry["type"] != "assistant":
        return
    usage: Fields = entry["message"].get("usage") or {}
    agent.tokens = sum(usage.get(name) or 0 for name in COUNTED)
    for block in entry["message"]["content"]:
        if block.get("type") == "tool_use":
            agent.tool_uses += 1
            yield _task("task_progress", agent.agent_id) | {
                "tool_use_id": agent.call_id,
                "description": call_title(block["name"], block["input"]) or block["name"],
                "subagent_type": agent.about["subagent_type"],
                "usage": agent.usage,
                "last_tool_name": block["name"],
            }


def _updated(task_id: str, status: str) -> Fields:
    patch = {"status": status, "end_time": round(time() * 1000)}
    return _task("task_updated", task_id) | {"patch": patch}


def _task(subtype: str, task_id: str) -> Fields:
    return {"type": "system", "subtype": subtype, "task_id": task_id}
