"""Print the table of programs that run unprompted, for docs/permissions.md."""

from turnlog.agent.permissions.programs.analysis import describe_programs


def print_table() -> None:
    """Print one row for each program."""
    print("| program | options | operands |")
    print("|---|---|---|")
    for name, options, operands in describe_programs():
        print(f"| `{name}` | {options} | {operands} |")
