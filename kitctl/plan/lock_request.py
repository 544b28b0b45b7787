"""How is a pin set locked: which packages are asked of the index, with which command?"""

from __future__ import annotations

from kitctl.kit.pins import PinEntry

_PLATFORM_TAGS = {"linux/amd64": "x86_64-manylinux_2_36", "linux/arm64": "aarch64-manylinux_2_36"}


def requirements_text(entry: PinEntry) -> str:
    """The pin set's own requirements, one a line: exact versions, then ranges with extras."""
    exact = [f"{name}=={version}" for name, version in entry.versions.items()]
    ranges = [f"{name}{wanted}" for name, wanted in entry.requirements.items()]
    return "".join(f"{line}\n" for line in (*exact, *ranges))


def compile_argv(uv: str, entry: PinEntry) -> tuple[str, ...]:
    """The command that resolves the requirements on stdin to all packages, with hashes and with who asked.

    No index address is written, so that a lock made behind a mirror tells nothing of it.
    """
    return (
        uv, "pip", "compile", "-", "--quiet", "--generate-hashes", "--no-header", "--no-emit-index-url",
        "--only-binary", ":all:", "--python-version", entry.python,
        "--python-platform", _PLATFORM_TAGS[entry.platforms[0]],
    )  # fmt: skip


def fetch_source_argv(uv: str, entry: PinEntry, *, engine: str, folder: str) -> tuple[str, ...]:
    """The command that unpacks the engine's own wheel into ``folder``, without what it requires."""
    return (
        uv, "pip", "install", "--quiet", "--no-deps", "--target", folder, "--python-version", entry.python,
        f"{engine}=={entry.versions[engine]}",
    )  # fmt: skip
