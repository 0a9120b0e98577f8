"""Bounds on the work that one verdict may cause, however many words ask for it.

`decide` resets them. A command that exceeds one is not understood, and asks.
"""

MOST_NAMES = 200_000
"""Directory entries that are looked at by name."""
MOST_COMPARISONS = 50_000
"""Files that are compared with rules, times the number of rules."""


class Unknown(ValueError):
    """Something that is only known when the command runs, or takes too long to find out."""


class Budget:
    """Work that is left for the current verdict."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.left = most

    def reset(self) -> None:
        """Start a new verdict."""
        self.left = self.most

    def spend(self, amount: int = 1) -> None:
        """Use up some of the budget; raise `Unknown` when there is none left."""
        self.left -= amount
        if self.left < 0:
            raise Unknown("too many files")


NAMES = Budget(MOST_NAMES)
COMPARISONS = Budget(MOST_COMPARISONS)
