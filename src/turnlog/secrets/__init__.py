"""Find secrets in text and mask them: keys, tokens, private keys, passwords."""

from turnlog.secrets.detector import MASKED, Secret, find_secrets, placeholder_for
from turnlog.secrets.masking import cut_whole, mask, mask_named, mask_start, mask_value
from turnlog.secrets.names import find_named, tells_secret

__all__ = [
    "MASKED",
    "Secret",
    "cut_whole",
    "find_named",
    "find_secrets",
    "mask",
    "mask_named",
    "mask_start",
    "mask_value",
    "placeholder_for",
    "tells_secret",
]
