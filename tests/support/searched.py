"""A small store to search: what people and models say to each other, in several languages."""

from pathlib import Path

from support.build import (
    assistant,
    attachment,
    call,
    compaction,
    line,
    result,
    session,
    text,
    thinking,
    user,
)
from turnlog.store.paths import Store

CART = "/home/ada/shop/src/cart.py"
EDIT = {"file_path": CART, "old_string": "total = 0", "new_string": "total = sum_prices(items)"}
LOG = "src/app/main.py:120: error[E0308]: mismatched types\nexit status 101"
KEY = "sk-ant-api03-" + "Zq7Rt2Yp9Wm4" * 7 + "Zq7Rt2Yp9AA"
SECRET = "tr0ub4dor&3"

CONVERSATIONS: dict[str, tuple[bytes, ...]] = {
    "cart": (
        user("The total of the shopping cart is wrong when it's empty", git_branch="fix-cart"),
        assistant(thinking("Perhaps a division by zero hides in the loop")),
        assistant(call("Read", {"file_path": CART}, "toolu_A")),
        result("toolu_A", "def total_price(items):\n    return sum_prices(items) / len(items)"),
        assistant(call("Edit", EDIT, "toolu_B")),
        result("toolu_B", "The file /home/ada/shop/src/cart.py has been updated"),
        assistant(call("Bash", {"command": "pytest -x --maxfail=1 tests/"}, "toolu_C")),
        result(
            "toolu_C", "FAILED tests/test_cart.py::test_empty - ZeroDivisionError", is_error=True
        ),
        assistant(text("Fixed: `total_price()` returns 0 for an empty cart.")),
        line("custom-title", custom_title="Cart totals"),
        line("custom-title", custom_title="Cart totals"),
    ),
    "rust": (
        user("cargo build fails, see the log"),
        assistant(
            call("Bash", {"command": "cargo build --release 2>&1 | tail"}, "toolu_A"),
            message={"model": "claude-haiku-4-5"},
        ),
        result("toolu_A", LOG, is_error=True),
        assistant(text("The type is `Option<&str>`, use `.map(String::from)?` -> done")),
        line("ai-title", ai_title="Mismatched types in Rust"),
    ),
    "login": (
        user("Why does /api/v2/login.json return 401? I use C++ and libcurl 8.5.0"),
        assistant(text("Set the header `X-Api-Key` and call foo.bar() before baz->qux()")),
        user("And in C? #include <curl/curl.h>"),
        assistant(text("The same; a cat and a dog, foo bar and all that: curl_easy_setopt(h)")),
        assistant(text("Our node_modules hold @scope/pkg 1.2.3 and $HOME/.config is ~/.config")),
    ),
    "deploy": (
        user("deploy the staging server to eu-west-1"),
        assistant(text("kubectl apply -f deploy.yaml --namespace=staging --dry-run")),
        user("Now roll back; the pods are crash looping"),
        assistant(text("Rolled back with kubectl rollout undo deployment/web")),
        attachment("queued_command", {"prompt": "also scale the replicas down"}),
        assistant(text("One replica is left.")),
    ),
    "secret": (
        user(f"connect with password = '{SECRET}' to the warehouse"),
        assistant(text(f"The key {KEY} should not be in the repository")),
    ),
    "accents": (
        user("Le café de l'hôtel à Zürich: résumé naïve, señor Ångström"),
        assistant(text("Die Straße nach Köln ist größer. ΑΘΗΝΑ, Москва и Київ.")),
        user("decomposed: cafe\u0301 olé", is_meta=True),
    ),
    "chinese": (
        user("请修复搜索功能的错误"),
        assistant(text("我已经修复了全文检索，数据库连接超时的问题也解决了。")),
        assistant(text("在 fix检索 分支上提交了 commit")),
    ),
    "japanese": (
        user("検索インデックスを更新してください"),
        assistant(text("データベースの日本語テストが失敗しました。全て直しました。")),
        assistant(text("カタカナとひらがな、および漢字")),
    ),
    "korean": (
        user("로그인 오류를 수정해 주세요"),
        assistant(text("데이터베이스 연결 시간이 초과되었습니다. 한국어 검색")),
    ),
    "thai": (user("ช่วยแก้ไขการค้นหาภาษาไทย"), assistant(text("เสร็จแล้ว"))),
    "long": (
        user("Summarise the quarterly figures"),
        assistant(text("word " * 3000 + "needle in the haystack " + "word " * 3000)),
        *compaction("This session is being continued: the figures were about aubergines"),
        user("<command-name>/compact</command-name><command-args>short please</command-args>"),
        user("<bash-input>git log --oneline</bash-input>"),
        user("<bash-stdout>abc1234 initial marzipan</bash-stdout><bash-stderr></bash-stderr>"),
    ),
    "plain": (
        user("What about a total, a server, an error, a login, a test?"),
        assistant(text("A total of nothing. The server has an error. Password test login.")),
        assistant(
            text("API Error: 529 overloaded_error"),
            is_api_error_message=True,
            message={"model": "<synthetic>"},
        ),
    ),
}
SHOP = ("cart", "deploy", "agent")
MOVED = (b'"cwd":"/home/ada/shop"', b'"cwd":"/home/ada/notes"')
AGENT = "a1b2c3d4e5f60718"
IDS = {name: f"{rank:08x}-0000-4000-9000-000000000000" for rank, name in enumerate(CONVERSATIONS)}


def fill(store: Store) -> None:
    """Write the sessions; the one about the cart has a sub-agent."""
    for name, lines in CONVERSATIONS.items():
        _write(path_of(store, name), _own(name, session(*lines, session_id=IDS[name])))
    agent = session(
        user("Look for usages of sum_prices in the repository"),
        assistant(call("Grep", {"pattern": "sum_prices\\("}, "toolu_G"), message_id="msg_g1"),
        result("toolu_G", "src/cart.py:3\nsrc/invoice.py:44: xylophone"),
        assistant(text("Two usages, one in the invoice module"), message_id="msg_g2"),
        session_id=IDS["cart"],
        agent_id=AGENT,
    )
    folder = path_of(store, "cart").with_suffix("") / "subagents"
    _write(folder / f"agent-{AGENT}.jsonl", _own("agent", agent))


def path_of(store: Store, name: str) -> Path:
    """Return the path of a session."""
    folder = "-home-ada-shop" if name in SHOP else "-home-ada-notes"
    return store.projects / folder / f"{IDS[name]}.jsonl"


def _own(name: str, content: bytes) -> bytes:
    """A session with uuids and ids of its own, in the folder of its project."""
    for start in (b'"00000000-0000-4000-8000-', b'"msg_', b'"toolu_'):
        content = content.replace(start, start + name.encode() + b"-")
    return content if name in SHOP else content.replace(*MOVED)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
