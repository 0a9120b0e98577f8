"""The lines of one made-up session: valid chains, rising times, one usage per message.

Fields stand in the order in which the client of each version writes them, because decoders are
faster with the order they expect.
"""

from datetime import UTC, datetime, timedelta
from pathlib import PurePath
from random import Random
from typing import TypeVar

from clients import CLIENTS, WEIGHTS, Client
from texts import Call, Pools

T = TypeVar("T")

START = datetime(2026, 1, 5, tzinfo=UTC)
COMPACT_AFTER = 1_500_000
"""Bytes of conversation after which it is replaced by a summary."""


DELEGATE = Call("Task", '{"description":"Look into it","subagent_type":"Explore"}', "", "")
"""A call whose result is known only when its sub-agent has finished."""

Files = dict[PurePath, list[str]]
"""Lines by the path of their file, as seen from the project's folder."""


def session_files(pools: Pools, rng: Random, cwd: str, size: int) -> Files:
    """A session of about `size` bytes, and the files of its sub-agents."""
    (client,) = rng.choices(CLIENTS, WEIGHTS)
    session = _Session(pools, rng, client, cwd)
    session.open()
    while session.total < size:
        session.turn(size)
    return session.files


class _Session:
    """A session, or the work of a sub-agent, as it grows."""

    def __init__(self, pools: Pools, rng: Random, client: Client, cwd: str) -> None:
        self.pools, self.rng, self.client, self.cwd = pools, rng, client, cwd
        self.id = self._uuid()
        self.path = PurePath(f"{self.id}.jsonl")
        self.lines: list[str] = []
        self.files: Files = {self.path: self.lines}
        self.total = self.compacted = 0
        self.clock = START + timedelta(minutes=rng.randrange(400_000))
        self.parent = "null"
        self.context = 12_000
        self._set_base("false", "")

    @property
    def is_agent(self) -> bool:
        return self.path.name.startswith("agent-")

    def _set_base(self, sidechain: str, agent: str) -> None:
        entry = "" if self.client.base_first else '"entrypoint":"cli",'
        base = (
            f'"userType":"external",{entry}"cwd":"{self.cwd}","sessionId":"{self.id}",'
            f'"version":"{self.client.version}","gitBranch":"main"{agent}'
        )
        first = f"{base}," if self.client.base_first else ""
        self.early = f'"isSidechain":{sidechain},{first}'
        self.late = "}\n" if self.client.base_first else f",{base}}}\n"

    def open(self) -> None:
        """What stands before the first prompt."""
        if self.client.progress:
            self._hook("SessionStart:startup")
        if self.client.attachments:
            self._state('"type":"permission-mode","permissionMode":"default"')
            self._attach("hook_success")
            self._attach("skill_listing")

    def turn(self, limit: int) -> None:
        """A prompt and all that the model does for it."""
        if self.total - self.compacted > COMPACT_AFTER:
            self._compact()
        prompt = self._choose(self.pools.prompts)
        self._state('"type":"queue-operation","operation":"dequeue"')
        self._snapshot()
        self.prompt(prompt)
        for _ in range(self.rng.randint(2, 18)):
            self.step()
            if self.total > limit:
                break
        self._message(0)
        self._end_turn(prompt)

    def prompt(self, text: str) -> None:
        self._chain(f'"type":"user","message":{{"role":"user","content":{text}}}')

    def step(self) -> None:
        """A message of the model with its calls, and their results."""
        (count,) = self.rng.choices((1, 2, 3, 4), (80, 12, 6, 2))
        calls = self._message(count)
        self.rng.shuffle(calls)
        for source, call_id, call in calls:
            if call is DELEGATE:
                self._result(source, call_id, self._delegate(call_id))
                continue
            if self.client.progress:
                self._report(call_id, call)
            self._result(source, call_id, call)
            if self.client.attachments and self.rng.random() < 0.5:
                self._attach("hook_success")

    def _message(self, count: int) -> list[tuple[str, str, Call]]:
        """A message with `count` calls; each call with the uuid of its line and its id."""
        head, tail = self._envelope("tool_use" if count else "end_turn")
        if self.rng.random() < 0.4:
            text = '""' if self.client.attachments else self._choose(self.pools.thoughts)
            signature = self._choose(self.pools.signatures)
            block = f'{{"type":"thinking","thinking":{text},"signature":{signature}}}'
            self._chain(f"{head}{block}{tail}")
        if not count or self.rng.random() < 0.5:
            text = self._choose(self.pools.answers)
            self._chain(f'{head}{{"type":"text","text":{text}}}{tail}')
        calls = [(self._id("toolu_01"), self._call()) for _ in range(count)]
        return [(self._chain(f"{head}{_use(i, call)}{tail}"), i, call) for i, call in calls]

    def _call(self) -> Call:
        is_task = self.rng.random() < 0.02 and not self.is_agent
        return DELEGATE if is_task else self._choose(self.pools.calls)

    def _envelope(self, reason: str) -> tuple[str, str]:
        """What stands before and behind the block in each line of one message."""
        stop = f'"{reason}"' if self.client.attachments else "null"
        head = (
            f'"message":{{"model":"{self.client.model}","id":"{self._id("msg_01")}",'
            '"type":"message","role":"assistant","content":['
        )
        tail = (
            f'],"stop_reason":{stop},"stop_sequence":null,"usage":{self._usage()}}},'
            f'"requestId":"{self._id("req_01")}","type":"assistant"'
        )
        return head, tail

    def _usage(self) -> str:
        written, out = self.rng.randrange(200, 6000), self.rng.randrange(5, 1500)
        counts = (
            f'"input_tokens":{self.rng.randrange(1, 9)},"cache_creation_input_tokens":{written},'
            f'"cache_read_input_tokens":{self.context},"output_tokens":{out},'
            f'"cache_creation":{{"ephemeral_5m_input_tokens":0,'
            f'"ephemeral_1h_input_tokens":{written}}}'
        )
        self.context = self.context + written if self.context < 180_000 else 20_000
        more = f',"iterations":[{{{counts},"type":"message"}}],"speed":"standard"'
        end = more if self.client.attachments else ""
        return f'{{{counts},"service_tier":"standard","inference_geo":"not_available"{end}}}'

    def _result(self, source: str, call_id: str, call: Call) -> None:
        own = None if self.client.is_old else source
        block = f'{{"tool_use_id":"{call_id}","type":"tool_result","content":{call.content}}}'
        result = "" if self.is_agent else f',"toolUseResult":{call.result}'
        after = f'{result},"sourceToolAssistantUUID":"{source}"'
        message = f'"type":"user","message":{{"role":"user","content":[{block}]}}'
        self._chain(message, after, own)

    def _report(self, call_id: str, call: Call) -> None:
        """News of a running call: its hooks, and the output so far of a command."""
        self._hook(f"PreToolUse:{call.name}")
        if call.name != "Bash":
            return
        for seconds in range(2, self.rng.randint(3, 7)):
            text = self._choose(self.pools.outputs)
            self._progress(
                f'"type":"bash_progress","output":{text},"fullOutput":{text},'
                f'"elapsedTimeSeconds":{seconds},"totalLines":9,"timeoutMs":120000',
                call_id,
            )

    def _hook(self, name: str) -> None:
        event = name.partition(":")[0]
        data = f'"type":"hook_progress","hookEvent":"{event}","hookName":"{name}"'
        self._progress(f'{data},"command":"python .claude/hooks/check.py --quick"', self._uuid())

    def _progress(self, data: str, call_id: str) -> None:
        ids = f'"parentToolUseID":"{call_id}","toolUseID":"{call_id}"'
        self._chain(f'"type":"progress","data":{{{data}}},{ids}')

    def _delegate(self, call_id: str) -> Call:
        """Let a sub-agent work, in a file of its own, and give its answer as a result."""
        agent = _Session(self.pools, self.rng, self.client, self.cwd)
        name = f"a{self.rng.getrandbits(64):016x}"
        folder = PurePath() if self.client.is_old else PurePath(self.id, "subagents")
        agent.id, agent.clock, agent.path = self.id, self.clock, folder / f"agent-{name}.jsonl"
        agent._set_base("true", f',"agentId":"{name}"')
        prompt, answer = self._choose(self.pools.prompts), self._choose(self.pools.answers)
        agent.prompt(prompt)
        for _ in range(self.rng.randint(3, 25)):
            agent.step()
            if self.client.progress:
                self._repeat(call_id, name)
        self.files[agent.path] = agent.lines
        self.total += agent.total
        self.clock = max(self.clock, agent.clock)
        return _agent_call(name, prompt, answer)

    def _repeat(self, call_id: str, agent: str) -> None:
        text = self._choose(self.pools.messages)
        inner = f'{{"role":"user","content":[{{"type":"text","text":{text}}}]}}'
        message = f'{{"type":"user","message":{inner},"uuid":"{self._uuid()}"}}'
        data = f'"message":{message},"normalizedMessages":[],"type":"agent_progress"'
        self._progress(f'{data},"prompt":"","agentId":"{agent}"', call_id)

    def _attach(self, kind: str) -> None:
        text = self._choose(self.pools.attachments)
        held = f'"type":"{kind}","hookName":"PostToolUse:Bash","content":{text},"exitCode":0'
        self._chain(f'"attachment":{{{held}}},"type":"attachment"')

    def _compact(self) -> None:
        self.compacted = self.total
        before = self.parent
        kind = '"type":"system","subtype":"compact_boundary","content":"Conversation compacted"'
        metadata = f'"compactMetadata":{{"trigger":"auto","preTokens":{self.context}}}'
        self.parent = "null"
        self._chain(f'"logicalParentUuid":{before},{kind},"level":"info",{metadata}')
        summary = f'"message":{{"role":"user","content":{self._choose(self.pools.messages)}}}'
        self._chain(f'"type":"user",{summary}', ',"isCompactSummary":true')
        self.context = 20_000

    def _snapshot(self) -> None:
        held = f'"messageId":"{self._uuid()}","trackedFileBackups":{{}},"timestamp":"{self._now()}"'
        self._state(
            f'"type":"file-history-snapshot","messageId":"{self._uuid()}","snapshot":{{{held}}}'
        )

    def _end_turn(self, prompt: str) -> None:
        if not self.client.is_old:
            self._chain('"type":"system","subtype":"turn_duration","durationMs":7552')
        if self.client.attachments:
            leaf = f'"lastPrompt":{prompt},"leafUuid":{self.parent}'
            self._state(f'"type":"last-prompt",{leaf}')
            self._state('"type":"ai-title","aiTitle":"Make the parser faster"')

    def _state(self, fields: str) -> None:
        self._add(f'{{{fields},"sessionId":"{self.id}"}}\n')

    def _chain(self, body: str, after: str = "", parent: str | None = None) -> str:
        """Add an entry of the conversation behind `parent`, else behind the one before it."""
        uuid = self._uuid()
        above = f'"{parent}"' if parent else self.parent
        self._add(
            f'{{"parentUuid":{above},{self.early}{body},'
            f'"uuid":"{uuid}","timestamp":"{self._now()}"{after}{self.late}'
        )
        self.parent = f'"{uuid}"'
        return uuid

    def _add(self, line: str) -> None:
        self.lines.append(line)
        self.total += len(line)

    def _now(self) -> str:
        self.clock += timedelta(milliseconds=self.rng.randrange(5, 4000))
        return self.clock.isoformat(timespec="milliseconds")[:23] + "Z"

    def _uuid(self) -> str:
        digits = f"{self.rng.getrandbits(128):032x}"
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"

    def _id(self, prefix: str) -> str:
        return f"{prefix}{self.rng.getrandbits(88):022x}"

    def _choose(self, pool: list[T]) -> T:
        return pool[int(self.rng.random() * len(pool))]


def _use(call_id: str, call: Call) -> str:
    return f'{{"type":"tool_use","id":"{call_id}","name":"{call.name}","input":{call.input}}}'


def _agent_call(agent: str, prompt: str, answer: str) -> Call:
    content = f'[{{"type":"text","text":{answer}}}]'
    result = (
        f'{{"status":"completed","prompt":{prompt},"agentId":"{agent}","content":{content},'
        '"totalDurationMs":14500,"totalTokens":14071,"totalToolUseCount":9}'
    )
    return DELEGATE._replace(content=content, result=result)
