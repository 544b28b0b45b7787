"""Let equal files of one layer share their bytes: hard links for what wheels ship twice (CUTLASS's headers, libz3).

usage: link_equal_files.py FOLDER MARK   files below FOLDER that changed after the file MARK, of 4 KiB or more
"""

import hashlib
import os
import sys
from collections import defaultdict
from pathlib import Path

LEAST = 4096


def digest(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def main() -> None:
    since = Path(sys.argv[2]).stat().st_ctime_ns
    alike: dict[tuple[int, int], list[Path]] = defaultdict(list)
    for folder, _, names in os.walk(sys.argv[1]):
        for path in sorted(Path(folder) / name for name in names):
            found = path.lstat()
            if (
                path.is_file()
                and not path.is_symlink()
                and found.st_size >= LEAST
                and found.st_ctime_ns > since
            ):
                alike[found.st_size, found.st_mode].append(path)
    for paths in alike.values():
        first: dict[str, Path] = {}
        for path in sorted(paths) if len(paths) > 1 else ():
            kept = first.setdefault(digest(path), path)
            if kept is not path and not kept.samefile(path):
                path.unlink()
                path.hardlink_to(kept)


main()
