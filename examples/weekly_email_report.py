"""Write an e-mail about a week of work: cost and turns by day, and all sessions.

    python examples/weekly_email_report.py ada@example.org                    # print last week's
    python examples/weekly_email_report.py ada@example.org --smtp localhost   # send it

Run it from cron every Monday. Nothing is sent without --smtp.
"""

import argparse
import smtplib
from datetime import date, timedelta
from email.message import EmailMessage

import turnlog


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("to")
    parser.add_argument("--week", type=date.fromisoformat, help="any day of the week to report")
    parser.add_argument("--smtp", metavar="HOST")
    options = parser.parse_args()
    message = write_report(options.to, options.week or date.today() - timedelta(days=7))
    if options.smtp:
        with smtplib.SMTP(options.smtp) as server:
            server.send_message(message)
    else:
        print(f"To: {message['To']}\nSubject: {message['Subject']}\n\n{message.get_content()}")


def write_report(to: str, day: date) -> EmailMessage:
    """Return the report on the week of a day, Monday to Sunday."""
    monday = day - timedelta(days=day.weekday())
    sunday = monday + timedelta(days=6)
    log = turnlog.open()
    days = log.stats("daily", since=monday, until=sunday)
    sessions = log.stats("session", since=monday, until=sunday)
    cost = sum(row["cost_usd"] or 0 for row in days)

    message = EmailMessage()
    message["To"] = message["From"] = to
    count = f"{len(sessions)} session{'' if len(sessions) == 1 else 's'}"
    message["Subject"] = f"Claude Code, week of {monday}: {count}, {dollars(cost)}"
    lines = [
        f"{row['day']:%a %d %b}  {dollars(row['cost_usd']):>9}  {row['turns']:4} turns"
        for row in days
    ]
    lines += ["", *(f"{dollars(row['cost_usd']):>9}  {row['title']}" for row in sessions)]
    message.set_content("\n".join(lines) if sessions else "No sessions this week.")
    return message


def dollars(amount: float | None) -> str:
    """Format a cost; a model without a known price has none."""
    return f"${amount or 0:,.2f}"


if __name__ == "__main__":
    main()
