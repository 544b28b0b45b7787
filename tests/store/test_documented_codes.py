"""Every error code of the model store stands in docs/models.md, and no other does."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = [
    *(ROOT / "kitctl" / "store").glob("*.py"),
    *(ROOT / "kitctl" / "commands").glob("models*.py"),
    *(
        ROOT / "kitctl" / path
        for path in (
            "kit/models_lock.py",
            "edge/attest.py", "edge/hub.py", "edge/model_files.py", "edge/pull.py", "edge/room.py", "edge/shipped.py",
            "edge/snapshot.py", "edge/store_files.py", "edge/store_lock.py", "edge/store_scan.py", "edge/streams.py",
            "edge/take_in.py", "edge/transfer.py", "edge/workers.py",
        )
    ),
]  # fmt: skip
RAISERS = {"KitError", "_error"}


def codes_in(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        named = [word.value for word in node.keywords if word.arg == "code"]
        first = node.args[:1] if node.func.id in RAISERS else []
        values = named if node.func.id in {"Refuse", "Finding"} else first
        found |= {str(value.value) for value in values if isinstance(value, ast.Constant)}
    return found


def test_codes_and_page_agree() -> None:
    raised = set().union(*map(codes_in, SOURCES)) - {"model-missing"}
    page = (ROOT / "docs" / "models.md").read_text()
    documented = set(re.findall(r"^\| `([a-z-]+)` \| [0-9]", page, flags=re.MULTILINE))
    assert documented == raised
