"""Print what was spent by project and model, and the most expensive sessions.

python examples/where_the_money_went.py [SINCE]     # a date or an age; by default 30d
"""

import sys

import turnlog

MOST_EXPENSIVE = 5


def main(since: str) -> None:
    log = turnlog.open()
    rows = log.stats("project", by=["model"], since=since)
    # The cost of a model without a known price is None.
    total = sum(row["cost_usd"] or 0 for row in rows)
    print(f"${total:,.2f} since {since}")
    for row in rows:
        cost = row["cost_usd"] or 0
        share = cost / total if total else 0
        print(f"{cost:10,.2f}  {share:4.0%}  {row['project']}  {row['model'] or 'unknown'}")

    print("\nMost expensive sessions")
    sessions = log.stats("session", since=since)
    sessions.sort(key=lambda row: row["cost_usd"] or 0, reverse=True)
    for row in sessions[:MOST_EXPENSIVE]:
        print(f"{row['cost_usd'] or 0:10,.2f}  {row['session'][:8]}  {row['title']}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "30d")
