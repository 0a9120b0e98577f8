"""turnlog: read, search, measure and edit the session files of Claude Code."""

__version__ = "0.1.0"
