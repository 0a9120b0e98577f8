"""The parts of a conversation that requests carry: calls with their results, prompts, answers …

An item is a part as a person would count it: a call is one item, although its tool_use and its
tool_result are two blocks in two lines.
"""

from msgspec import Struct

from turnlog.conversation.block_sizes import (
    NOTHING,
    BlockSize,
    size_of_block,
    size_of_image,
    size_of_json,
    size_of_text,
)
from turnlog.conversation.call_titles import call_title
from turnlog.conversation.nodes import AssistantNode, ChainNode, UserNode
from turnlog.conversation.prompts import ASKING, LOCAL, PromptKind, full_text, prompt_label
from turnlog.conversation.session import Session
from turnlog.format.blocks import (
    AdvisorResultBlock,
    Block,
    RedactedThinkingBlock,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    WebFetchResultBlock,
    WebSearchResultBlock,
)
from turnlog.format.entries import Assistant, Attachment, Entry, User
from turnlog.format.fields import given
from turnlog.format.json_values import is_object
from turnlog.format.system import LocalCommand

LONGEST_TITLE = 1000
"""Maximum characters of a stored title; masking needs more of it than is shown."""
SENT_ATTACHMENTS = frozenset(
    "agent_listing_delta already_read_file deferred_tools_delta diagnostics directory"
    " edited_text_file file hook_additional_context invoked_skills mcp_instructions_delta"
    " mcp_resource nested_memory queued_command selected_lines_in_ide skill_listing".split()
)
"""Types of attachments that reach the model, for files that do not record the exact text.

Inferred from their content; others, such as `hook_success`, are records of the client.
"""
SERVER_RESULTS = WebSearchResultBlock | WebFetchResultBlock | AdvisorResultBlock


class TurnRef(Struct, gc=False, eq=False):
    """The turn in which an item first appeared."""

    n: int
    """Its number on its branch."""
    line: int
    title: str
    time: str | None


class CarriedItem(Struct, gc=False, eq=False):
    """A part of the conversation, and what it cost."""

    kind: str
    """`call`, `prompt`, `answer`, `thinking`, `attachment`, `note`, `summary` or `system`."""
    source: int
    """The number of the conversation that it was read from."""
    tool: str | None = None
    title: str = ""
    file: str | None = None
    line: int | None = None
    time: str | None = None
    agent: str | None = None
    """The sub-agent whose conversation it is part of."""
    turn: TurnRef | None = None
    bytes: int = 0
    tokens: float = 0.0
    """An estimate; scaled to the recorded usage once `is_scaled`."""
    is_scaled: bool = False
    is_on_path: bool = False
    sent: int = 0
    """Requests that carried it."""
    carried: float = 0.0
    """Dollars that requests paid for carrying it."""
    own: float = 0.0
    """Dollars paid for the model's output of it."""

    @property
    def cost(self) -> float:
        return self.carried + self.own


class MessageItems(Struct):
    """The items of one message of the model."""

    items: dict[CarriedItem, None]
    """In the order of its blocks, each once."""
    output: list[tuple[CarriedItem, float]]
    """The blocks that the model wrote, with their estimated tokens."""
    services: list[CarriedItem]
    """Calls that the API ran itself."""


ItemKey = tuple[str, str]
"""A kind, and the id of a call, message or entry."""


class ItemReader:
    """Read the items of one conversation; `items` is shared with others that may repeat them."""

    def __init__(
        self, items: dict[ItemKey, CarriedItem], session: Session, number: int, agent: str | None
    ) -> None:
        self._items = items
        self._number = number
        self._agent = agent
        self._owners: dict[str, MessageItems] = {}
        self._answered: set[str] = set()
        self.by_node: dict[int, list[CarriedItem]] = {}
        """The items of user lines, attachments and notes, by the index of the node."""
        self.messages: dict[int, MessageItems] = {}
        """The items of messages, by the index of each of their nodes."""
        self._read(session)

    def item(self, key: ItemKey, kind: str, node: ChainNode | None = None) -> CarriedItem:
        """Return the item with a key, creating it on first use."""
        found = self._items.get(key)
        if found is None:
            found = CarriedItem(kind, self._number, agent=self._agent)
            if node:
                found.line, found.time = node.line, node.time
            self._items[key] = found
        return found

    def _read(self, session: Session) -> None:
        chain = session.tree.chain
        present = {node.index for node in chain}
        for message in session.messages:
            # The model never sees an API error that the client recorded in place of an answer.
            if not any(node.is_error for node in message.nodes):
                found = MessageItems({}, [], [])
                for node in message.nodes:
                    if node.index in present:
                        self.messages[node.index] = found
                        self._owners.update((call.id, found) for call in node.calls)
        read = [node for node in chain if _may_have_items(node)]
        for node, entry in zip(read, session.entries(read), strict=True):
            self._add(node, entry)

    def _add(self, node: ChainNode, entry: Entry) -> None:
        if isinstance(node, AssistantNode) and isinstance(entry, Assistant):
            if spoken := self.messages.get(node.index):
                self._add_answer(node, entry, spoken)
        elif isinstance(node, UserNode) and isinstance(entry, User):
            self._add_user(node, entry)
        elif isinstance(entry, Attachment):
            self._add_attachment(node, entry)
        elif isinstance(entry, LocalCommand) and not given(entry.is_display_only):
            content: object = given(entry.content)
            text = content if isinstance(content, str) else ""
            self._add_to_node(node, "note", size_of_text(text))

    def _add_answer(self, node: AssistantNode, entry: Assistant, spoken: MessageItems) -> None:
        content = entry.content
        blocks: list[Block] = [TextBlock(text=content)] if isinstance(content, str) else content
        for block in blocks:
            if isinstance(block, ToolUseBlock | ServerToolUseBlock):
                item = self._call(node, block)
                if isinstance(block, ServerToolUseBlock):
                    spoken.services.append(item)
            elif isinstance(block, SERVER_RESULTS):
                item = self.item(("call", self._name(given(block.tool_use_id), node)), "call", node)
                self._grow(item, size_of_block(block))
                continue
            else:
                is_thinking = isinstance(block, ThinkingBlock | RedactedThinkingBlock)
                kind = "thinking" if is_thinking else "answer"
                item = self.item((kind, self._name(node.message_id, node)), kind, node)
                if isinstance(block, TextBlock) and not item.title:
                    item.title = (given(block.text) or "")[:LONGEST_TITLE]
            size = size_of_block(block)
            self._grow(item, size)
            spoken.items[item] = None
            spoken.output.append((item, size.tokens))

    def _call(self, node: AssistantNode, block: ToolUseBlock | ServerToolUseBlock) -> CarriedItem:
        item = self.item(("call", self._name(given(block.id), node)), "call", node)
        arguments = given(block.input)
        if item.line is None:
            item.line, item.time = node.line, node.time
        item.tool = item.tool or given(block.name) or ""
        item.title = item.title or call_title(item.tool, arguments)[:LONGEST_TITLE]
        item.file = item.file or file_of(arguments)
        return item

    def _add_user(self, node: UserNode, entry: User) -> None:
        content = entry.content
        blocks: list[Block] = [TextBlock(text=content)] if isinstance(content, str) else content
        rest = NOTHING
        for block in blocks:
            if isinstance(block, ToolResultBlock):
                self._add_result(given(block.tool_use_id) or "", block)
            else:
                rest += size_of_block(block)
        # A line of results alone is part of its calls, not an item of its own.
        if rest.bytes:
            kind = _kind_of(node)
            item = self._add_to_node(node, kind, rest)
            if not item.title:
                text = prompt_label(entry) if kind == "prompt" else full_text(entry)
                item.title = text[:LONGEST_TITLE] or " ".join(node.blocks)

    def _add_result(self, call: str, block: ToolResultBlock) -> None:
        # Only the first result of a call is sent, and none whose call is missing.
        if call in self._owners and call not in self._answered:
            self._answered.add(call)
            self._grow(self.item(("call", call), "call"), size_of_block(block))

    def _add_attachment(self, node: ChainNode, entry: Attachment) -> None:
        fields = given(entry.attachment) or {}
        item_file = next((fields[n] for n in ("filename", "path") if _is_text(fields.get(n))), None)
        size = _attachment_size(entry, fields)
        if size.bytes:
            item = self._add_to_node(node, "attachment", size)
            item.file = item_file
            item.title = item_file or str(entry.variant or "")

    def _add_to_node(self, node: ChainNode, kind: str, size: BlockSize) -> CarriedItem:
        item = self.item((kind, self._name(node.uuid, node)), kind, node)
        self._grow(item, size)
        self.by_node.setdefault(node.index, []).append(item)
        return item

    def _name(self, id_: str | None, node: ChainNode) -> str:
        return id_ or f"{self._number}:{node.index}"

    def _grow(self, item: CarriedItem, size: BlockSize) -> None:
        # A sub-agent may start from a copy of the conversation, whose items are counted already.
        if item.source == self._number:
            item.bytes += size.bytes
            item.tokens += size.tokens


def file_of(arguments: object) -> str | None:
    """Return the file that a call reads or changes, by its arguments."""
    if not is_object(arguments):
        return None
    path = arguments.get("file_path") or arguments.get("notebook_path")
    return path if isinstance(path, str) else None


def _may_have_items(node: ChainNode) -> bool:
    return isinstance(node, UserNode | AssistantNode) or node.kind.startswith(
        ("attachment", "system/local_command")
    )


def _kind_of(node: UserNode) -> str:
    if node.prompt is PromptKind.COMPACT_SUMMARY:
        return "summary"
    return "prompt" if node.prompt in ASKING | LOCAL else "note"


def _attachment_size(entry: Attachment, fields: dict[str, object]) -> BlockSize:
    # Newer clients record the text that they sent; otherwise its size is estimated from the fields.
    if (rendered := given(entry.rendered)) is not None:
        return size_of_json(rendered) if rendered else NOTHING
    content = fields.get("content")
    file = content.get("file") if is_object(content) else None
    if is_object(content) and content.get("type") == "image" and is_object(file):
        return size_of_image(str(file.get("base64") or ""))
    return size_of_json(fields) if fields.get("type") in SENT_ATTACHMENTS else NOTHING


def _is_text(value: object) -> bool:
    return isinstance(value, str)
