"""A stand-in for rclone with a remote of type local, for the arguments that turnlog uses."""

import json
import shutil
import sys
from pathlib import Path


def main(command: str, *arguments: str) -> int:
    plain = [each for each in arguments if not each.startswith("-")]
    path = Path(plain[-1].partition(":")[2])
    match command:
        case "lsjson":
            if not path.is_dir():
                return 3
            files = [each for each in path.rglob("*") if each.is_file()]
            rows = [{"Path": str(f.relative_to(path)), "Size": f.stat().st_size} for f in files]
            print(json.dumps(rows))
        case "cat" if path.is_file():
            sys.stdout.buffer.write(path.read_bytes())
        case "copyto":
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(plain[0], path)
        case "deletefile" if path.is_file():
            path.unlink()
        case _:
            return 4
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
