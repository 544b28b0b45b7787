"""Print what an image holds as one JSON object: Python packages, distribution packages, files.

usage: python - [content|packages] < list_contents.py   `content`: each file's sha256 too; `packages`: no files.
"""

import hashlib
import json
import os
import stat
import subprocess
import sys
from importlib import metadata
from pathlib import Path

WITH_CONTENT = "content" in sys.argv[1:]
NOT_OURS = {"/proc", "/sys", "/dev", "/tmp", "/etc/hostname", "/etc/hosts", "/etc/resolv.conf", "/.dockerenv"}


def describe(path: Path) -> list[object]:
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        return [0, oct(found.st_mode), f"-> {path.readlink()}"]
    content = ""
    if WITH_CONTENT and stat.S_ISREG(found.st_mode):
        with path.open("rb") as handle:
            content = hashlib.file_digest(handle, "sha256").hexdigest()
    return [found.st_size if stat.S_ISREG(found.st_mode) else 0, oct(found.st_mode), content]


def files() -> dict[str, list[object]]:
    listed = {}
    for folder, names, here in os.walk("/"):
        names[:] = [name for name in names if str(Path(folder) / name) not in NOT_OURS]
        for name in here + [name for name in names if (Path(folder) / name).is_symlink()]:
            path = Path(folder) / name
            if str(path) not in NOT_OURS:
                listed[str(path)] = describe(path)
    return listed


debs = subprocess.run(
    ["dpkg-query", "-W", "-f", "${Package} ${Version}\n"], capture_output=True, text=True, check=False
)
print(
    json.dumps(
        {
            "python": {
                dist.metadata["Name"].lower().replace("_", "-"): dist.version
                for dist in metadata.distributions()
            },
            "debian": dict(line.split() for line in debs.stdout.splitlines()),
            "files": {} if "packages" in sys.argv[1:] else files(),
        }
    )
)
