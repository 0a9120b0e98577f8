"""Exchange sessions with other machines through a shared place."""

from turnlog.exchange.options import Exchanged, ExchangeOptions
from turnlog.exchange.run import sync_with

__all__ = ["ExchangeOptions", "Exchanged", "sync_with"]
