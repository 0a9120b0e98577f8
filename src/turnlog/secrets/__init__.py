"""Find secrets in text and mask them: keys, tokens, private keys, passwords."""

from turnlog.secrets.detector import Secret, find_secrets, placeholder_for
from turnlog.secrets.invisible import visible
from turnlog.secrets.masking import (
    KEY_START,
    before_cut,
    cut_texts,
    cut_whole,
    mask,
    mask_by_name,
    mask_named,
    mask_short,
    mask_start,
    mask_value,
)
from turnlog.secrets.names import LABELS, VALUES, find_named, flag_name, is_secret_name
from turnlog.secrets.value_checks import MASKED

__all__ = [
    "KEY_START",
    "LABELS",
    "MASKED",
    "VALUES",
    "Secret",
    "before_cut",
    "cut_texts",
    "cut_whole",
    "find_named",
    "find_secrets",
    "flag_name",
    "is_secret_name",
    "mask",
    "mask_by_name",
    "mask_named",
    "mask_short",
    "mask_start",
    "mask_value",
    "placeholder_for",
    "visible",
]
