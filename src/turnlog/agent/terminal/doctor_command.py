"""The slash command that shows problems of a chat and its environment."""

import asyncio
from collections.abc import Iterator, Sequence

from turnlog.agent.chat.diagnosis import Diagnosis, Health, examine_chat
from turnlog.agent.terminal.chat_driver import ChatDriver
from turnlog.agent.terminal.styled_text import Style, one_line
from turnlog.text import plural

MARKS = {Health.WELL: "✓", Health.DOUBTFUL: "!", Health.ILL: "✗"}
WIDE = 14
"""Width of the column with the area."""
MOST = 20
"""Maximum lines of one area."""


async def examine(driver: ChatDriver, arguments: str) -> None:
    """Run all checks and show their outcome."""
    driver.display.start()
    driver.display.working("examining")
    try:
        found = await asyncio.to_thread(examine_chat, driver.chat)
    finally:
        driver.display.finish()
    driver.show_lines(list(diagnosis_rows(found, driver.screen.style)), WIDE + 2)


def diagnosis_rows(found: Sequence[Diagnosis], style: Style) -> Iterator[str]:
    """Yield a line for each outcome, grouped by area, then the number of findings."""
    for area in dict.fromkeys(each.area for each in found):
        lines = [each for each in found if each.area == area]
        head = area
        for each in lines[:MOST]:
            mark = style(MARKS[each.health], each.health.value)
            yield f"{mark} {style(f'{head:{WIDE}}', 'text')}{style(one_line(each.text), 'text')}"
            head = ""
        if len(lines) > MOST:
            yield f"  {'':{WIDE}}{style(f'… and {len(lines) - MOST:,} more', 'dim')}"
    wrong = sum(each.health is not Health.WELL for each in found)
    yield style(plural(wrong, "finding") if wrong else "no problems found", "bold")
