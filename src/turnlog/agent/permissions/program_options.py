"""Options by which programs that copy, pack, search or compare run another program.

A rule for `tar` or `rsync` is meant to allow copying files, but `tar --to-command=./x` and
`rsync -e ./x` run a program of the project.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct


class ProgramOptions(Struct, frozen=True):
    """Regexes for the options that make a program run another one, also abbreviated ones."""

    running: str = r"(?!)"
    """Options that run a program whatever their value is."""
    valued: str = r"(?!)"
    """Options that run a program unless their value is harmless.

    The value is in a group or, if that is empty, in the next argument.
    """
    harmless: str = ""
    """Values of the `valued` options for which the user need not be asked."""


PACKER = (
    r"(?:bzip2|gzip|lbzip2|lz4|lzip|lzma|lzop|pbzip2|pigz|pixz|plzip|xz|zstd|zstdmt)"
    r"(?: (?:-[0-9]+|-T[0-9]+|--best|--fast|--long(?:=[0-9]+)?|--ultra))*"
)
REMOTE_SHELL = r"ssh(?: (?:-[46CTaqx]+|-[pl] ?[\w.-]+|-i ?[\w./~-]+))*"
SETTING = (
    r"(?i:addressfamily|batchmode|ciphers|compression|connectionattempts|connecttimeout"
    r"|forwardagent|hostkeyalgorithms|identitiesonly|identityfile|kexalgorithms|loglevel|macs|port"
    r"|preferredauthentications|serveralivecountmax|serveraliveinterval|stricthostkeychecking"
    r"|tcpkeepalive|user|userknownhostsfile)[ =].*"
)
"""Settings of ssh that cannot run a program, unlike `ProxyCommand` and `Include`."""
PAGER = ProgramOptions(r"--pager.*")
FINDER = ProgramOptions(r"-[^-cdeEjoStT]*[xX].*|--exec.*")
MERGER = ProgramOptions(r"--d.*")
SSH = ProgramOptions(r"-[^-ciJloPX]*[bDFS].*", r"-[^-cDFiJlPSX]*o(.*)", SETTING)
TAR = ProgramOptions(
    r"-[^-bCfgHIKLNTVX]*F.*|--(?:checkpoint-|inf|new-|rm|rs|to-c).*",
    r"-[^-bCfFgHKLNTVX]*I(.*)|--us[a-z-]*(?:=(.*))?",
    PACKER,
)
PROGRAM_OPTIONS = {
    "ack": ProgramOptions(r"--(?:ac|pag).*"),
    "aria2c": ProgramOptions(r"--(?:conf|on).*"),
    "ag": ProgramOptions(r"--pag.*"),
    **dict.fromkeys(("bat", "batcat"), PAGER),
    **dict.fromkeys(("bsdtar", "gtar", "tar"), TAR),
    "curl": ProgramOptions(r"--en.*|(?i:.*pkcs11:.*)"),  # OpenSSL loads a library
    **dict.fromkeys(("diff3", "sdiff"), MERGER),
    **dict.fromkeys(("fd", "fdfind"), FINDER),
    "install": ProgramOptions(r"--strip-.*"),
    "man": ProgramOptions(r"-[^-eELmMprRsSt]*[CHP].*|--(?:conf|ht|pag).*"),
    "rg": ProgramOptions(r"--(?:pre|hostname-bin)(?:=.*)?"),
    "rsync": ProgramOptions(
        r"--(?:config|daemon|rsync-path).*",
        r"-[^-@BfMT]*e(.*)|--rsh?(?:=(.*))?",
        REMOTE_SHELL,
    ),
    **dict.fromkeys(("scp", "sftp"), SSH),
    "sort": ProgramOptions(r"--co.*"),
    "split": ProgramOptions(r"--f.*"),
    "zip": ProgramOptions(r"-[^-]*TT.*|--unz.*"),
}
LETTERS = re.compile(r"[A-Za-z]*[FI][A-Za-z]*")
"""Clustered options of tar without a dash; `F` and `I` take a program from a later argument."""


def names_program(name: str, arguments: Sequence[str]) -> bool:
    """Return whether an option makes the program `name` run another one.

    >>> names_program("rsync", ["-ae", "./x", "a", "h:b"])
    True
    >>> names_program("rsync", ["-ae", "ssh -p 22", "a", "h:b"])
    False
    """
    options = PROGRAM_OPTIONS[name]
    if options is TAR and LETTERS.fullmatch("".join(arguments[:1])):
        return True
    for argument, behind in pairwise((*arguments, "")):
        if re.fullmatch(options.running, argument, re.S):
            return True
        found = re.fullmatch(options.valued, argument, re.S)
        value = next(filter(None, found.groups()), behind) if found else ""
        if found and not re.fullmatch(options.harmless, value, re.S):
            return True
    return False
