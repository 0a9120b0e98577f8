"""Sign bundles with an SSH key.

A signature is a file next to the bundle, made and verified by `ssh-keygen -Y`: it can be checked
without turnlog, and covers the bytes as they were sent, encrypted or not.
"""

import shlex
import subprocess
from pathlib import Path

from turnlog.errors import Damaged, NotFound, Unavailable

NAMESPACE = "turnlog"
"""Signatures for another purpose, such as git commits, are not valid for bundles."""


def signature_of(bundle: Path) -> Path:
    """Return the file with the signature of a bundle."""
    return bundle.with_name(f"{bundle.name}.sig")


def is_signature(start: bytes) -> bool:
    """Return whether a file is a signature, judging by its first bytes."""
    return start.startswith(b"-----BEGIN SSH SIGNATURE-----")


def sign(bundle: Path, key: Path) -> Path:
    """Sign a bundle with an SSH key; return the file with the signature."""
    if not key.is_file():
        raise NotFound(f"no key at {key}", "ls ~/.ssh/*.pub")
    signature = signature_of(bundle)
    signature.unlink(missing_ok=True)  # ssh-keygen would ask whether to overwrite it
    done = _ssh_keygen("sign", "-f", str(key), "-n", NAMESPACE, str(bundle))
    if done.returncode or not signature.is_file():
        raise Unavailable(f"cannot sign with {key}: {_last_line(done)}", f"ssh-keygen -l -f {key}")
    return signature


def verify(bundle: Path, signers: Path, content: Path | None = None) -> str:
    """Return who of the allowed signers signed a bundle; raise `Damaged` if nobody did.

    `content` is a private copy of the bundle, which is verified in its place.
    """
    signature = signature_of(bundle)
    if not signers.is_file():
        raise NotFound(f"no file of allowed signers at {signers}", "man ssh-keygen")
    if not signature.is_file():
        raise NotFound(
            f"{bundle} has no signature at {signature}", f"ls {shlex.quote(str(bundle))}*"
        )
    files = ["-s", str(signature), "-f", str(signers)]
    found = _ssh_keygen("find-principals", *files)
    # Several names may share a key. The first one is checked, as in git.
    signer = found.stdout.decode("utf-8", "replace").partition("\n")[0].strip()
    if found.returncode or not signer:
        hint = f"turnlog unbundle {shlex.quote(str(bundle))} --verify OTHER_SIGNERS"
        raise Damaged(f"{bundle} is not signed by anyone in {signers}", hint)
    with (content or bundle).open("rb") as signed:
        arguments = [*files, "-n", NAMESPACE, "-I", signer]
        done = _ssh_keygen("verify", *arguments, stdin=signed.fileno())
    if done.returncode:
        hint = "turnlog bundle SESSION --sign KEY -o NEW.turnlog"
        raise Damaged(f"the signature of {bundle} is not valid: {_last_line(done)}", hint)
    return signer


def _ssh_keygen(
    verb: str, *arguments: str, stdin: int | None = None
) -> subprocess.CompletedProcess[bytes]:
    # stdin stays the terminal when signing: ssh-keygen asks for the passphrase of the key.
    try:
        return subprocess.run(
            ["ssh-keygen", "-Y", verb, *arguments], stdin=stdin, capture_output=True, check=False
        )
    except FileNotFoundError as error:
        hint = "apt install openssh-client"
        raise Unavailable("ssh-keygen is not installed", hint) from error


def _last_line(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else f"exit code {done.returncode}"
