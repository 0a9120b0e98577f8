"""Sync sessions with other machines through a shared destination (DEST)."""

from turnlog.exchange.options import Exchanged, ExchangeOptions
from turnlog.exchange.run import sync_with

__all__ = ["ExchangeOptions", "Exchanged", "sync_with"]
