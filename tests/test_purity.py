"""Only edge/ touches the world: other stages import no process, file, network, clock or terminal module."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "kitctl"
EDGE_ONLY_MODULES = {
    "subprocess", "socket", "shutil", "tempfile", "requests", "urllib", "http", "docker",
    "python_on_whales", "huggingface_hub", "time", "asyncio", "threading", "multiprocessing", "signal",
    "fcntl", "select", "glob", "io", "ssl", "selectors", "concurrent",
}  # fmt: skip
EDGE_ONLY_NAMES = {"open", "print", "input", "exec", "eval"}
EDGE_ONLY_ATTRIBUTES = {
    ("os", "environ"),
    ("os", "getenv"),
    ("pathlib", "Path"),
    ("datetime", "now"),
    ("sys", "stdout"),
}
STAGES = ["kit", "host", "plan", "render", "watch", "bench", "store", "campaign", "bundle"]
ORDER = {"kit": 0, "host": 0, "plan": 1, "render": 2, "campaign": 3}


def modules_of(stage: str) -> list[Path]:
    return sorted((PACKAGE / stage).rglob("*.py"))


PURE = [path for stage in STAGES for path in modules_of(stage)]
COMMANDS = sorted((PACKAGE / "commands").glob("*.py"))


def imports(tree: ast.Module) -> list[tuple[str, str | None]]:
    found: list[tuple[str, str | None]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.extend((alias.name, None) for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            found.extend((node.module or "", alias.name) for alias in node.names)
    return found


@pytest.mark.parametrize("path", PURE + COMMANDS, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_module_leaves_the_world_to_edge(path: Path) -> None:
    tree = ast.parse(path.read_text())
    wrong = [m for m, _ in imports(tree) if m.split(".")[0] in EDGE_ONLY_MODULES]
    wrong += [f"{m}.{n}" for m, n in imports(tree) if (m, n) in EDGE_ONLY_ATTRIBUTES]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in EDGE_ONLY_NAMES:
            wrong.append(f"{node.func.id}() at line {node.lineno}")
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            pair = (node.value.id, node.attr)
            wrong += [f"{'.'.join(pair)} at line {node.lineno}"] if pair in EDGE_ONLY_ATTRIBUTES else []
    assert wrong == []


@pytest.mark.parametrize("path", PURE, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_stage_imports_no_edge_and_no_later_stage(path: Path) -> None:
    stage = path.relative_to(PACKAGE).parts[0]
    tree = ast.parse(path.read_text())
    inner = {m.split(".")[1] for m, _ in imports(tree) if m.startswith("kitctl.") and len(m.split(".")) > 1}
    assert inner & {"edge", "commands", "cli"} == set()
    later = {name for name in inner if name in ORDER and stage in ORDER and ORDER[name] > ORDER[stage]}
    assert later == set()
