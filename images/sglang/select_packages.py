"""Print the blocks of a constraints file (with their hashes) whose packages the given name lists hold.

usage: select_packages.py CONSTRAINTS NAMES...   Runs inside the build, with the distribution's Python alone.
"""

import re
import sys
from pathlib import Path

wanted = {name for path in sys.argv[2:] for name in Path(path).read_text(encoding="utf-8").split()}
found: set[str] = set()
keep = False
for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines():
    start = re.match(r"([a-z0-9][a-z0-9._-]*)==", line)
    if start:
        keep = start.group(1) in wanted
        found.add(start.group(1))
    if keep and not line.lstrip().startswith("#"):
        print(line)
if missing := sorted(wanted - found):
    sys.exit(f"not in {sys.argv[1]}: {', '.join(missing)}")
