"""How is a later suite asked for packages without touching the host's own apt lists? Argv and files only.

A suite has a folder of its own for lists, cache and the list of sources: an update of one suite in a shared
folder would delete the lists of the others. The status file is empty, so only the suite's own packages count.
"""

from __future__ import annotations


def suite_folder(cache: str, suite: str) -> str:
    """The folder of one suite below setup's cache."""
    return f"{cache}/apt/{suite}"


def sources_text(*, mirror: str, suite: str, keyring: str) -> str:
    """The suite's line of sources."""
    return f"deb [signed-by={keyring}] {mirror} {suite} main\n"


def folders_of(folder: str) -> tuple[str, ...]:
    """The folders that apt wants to find."""
    return (f"{folder}/lists/partial", f"{folder}/cache/archives/partial")


def config_text(folder: str) -> str:
    """The apt configuration that keeps apt within ``folder``."""
    values = {
        "Dir::Etc::SourceList": f"{folder}/sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": f"{folder}/lists",
        "Dir::State::status": "/dev/null",
        "Dir::Cache": f"{folder}/cache",
        "APT::Sandbox::User": "root",
    }
    return "".join(f'{name} "{value}";\n' for name, value in values.items())


def config_path(folder: str) -> str:
    """Where that configuration stands."""
    return f"{folder}/apt.conf"


def update_argv(folder: str) -> tuple[str, ...]:
    """Refresh the suite's lists."""
    return ("apt-get", "-c", config_path(folder), "--error-on=any", "update")


def show_argv(folder: str, packages: tuple[str, ...]) -> tuple[str, ...]:
    """Describe the packages that the suite offers."""
    return ("apt-cache", "-c", config_path(folder), "show", *packages)


def download_argv(folder: str, package: str, version: str) -> tuple[str, ...]:
    """Fetch one package, proven by the suite's signature, into the working folder."""
    return ("apt-get", "-c", config_path(folder), "download", f"{package}={version}")
