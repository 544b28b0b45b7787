"""What of this machine's package configuration does a build need, and as which secrets is it handed over?

Mirrors, proxies, certificates and passwords reach the build as BuildKit secrets: files that a step can read while
it runs and that stay in no layer, label or history.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_APT_OPTIONS = ("Acquire::http", "Acquire::https", "Acquire::Check-", "Acquire::Retries", "Acquire::Force")
_NETWORK = ("http://", "https://")


@dataclass(frozen=True, kw_only=True)
class MachineConfig:
    """The machine's own settings as read. ``apt_options``: lines of ``apt-config dump``; ``apt_sources``: texts
    of source lists by file name; ``proxies``: the proxy variables of the environment, as the builder knows them.
    """

    index_url: str | None = None
    extra_index_urls: tuple[str, ...] = ()
    trusted_hosts: tuple[str, ...] = ()
    apt_options: tuple[str, ...] = ()
    apt_sources: Mapping[str, str] = field(default_factory=dict)
    netrc: str | None = None
    ca_bundle: str | None = None
    proxies: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class AptSource:
    """One package source in apt's one-line form."""

    uri: str
    suite: str
    components: tuple[str, ...]
    signed_by: str | None = None

    def line(self) -> str:
        """The line of a sources.list."""
        options = f"[signed-by={self.signed_by}] " if self.signed_by else ""
        return f"deb {options}{self.uri} {self.suite} {' '.join(self.components)}"


def build_secrets(machine: MachineConfig, *, suite: str) -> dict[str, str]:
    """Secret id to text, only those that say something; ``suite`` picks the machine's sources that fit."""
    sources = own_sources(machine.apt_sources, suite=suite)
    texts = {
        "pipconf": pip_config(machine),
        "uvconf": uv_config(machine),
        "aptconf": apt_config(machine.apt_options),
        "aptsources": "".join(f"{source.line()}\n" for source in sources),
        "netrc": machine.netrc or "",
        "ca": machine.ca_bundle or "",
    }
    return {name: text for name, text in texts.items() if text}


def pip_config(machine: MachineConfig) -> str:
    """A pip.conf with the machine's network indexes; empty when it has none of its own."""
    lines = [f"index-url = {machine.index_url}"] if _is_network(machine.index_url) else []
    extra = [url for url in machine.extra_index_urls if _is_network(url)]
    if extra:
        lines.append(f"extra-index-url = {' '.join(extra)}")
    if machine.trusted_hosts:
        lines.append(f"trusted-host = {' '.join(machine.trusted_hosts)}")
    return "\n".join(["[global]", *lines, ""]) if lines else ""


def uv_config(machine: MachineConfig) -> str:
    """The same as uv's configuration file (a folder of files on this machine's disk is no index in a build)."""
    lines = [f"index-url = {_quoted(machine.index_url)}"] if _is_network(machine.index_url) else []
    extra = [url for url in machine.extra_index_urls if _is_network(url)]
    if extra:
        lines.append(f"extra-index-url = [{', '.join(_quoted(url) for url in extra)}]")
    if machine.trusted_hosts:
        lines.append(f"allow-insecure-host = [{', '.join(_quoted(host) for host in machine.trusted_hosts)}]")
    return "".join(f"{line}\n" for line in lines)


def _is_network(url: str | None) -> bool:
    return url is not None and url.startswith(_NETWORK)


def _quoted(text: str | None) -> str:
    escaped = (text or "").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def apt_config(options: tuple[str, ...]) -> str:
    """Those of apt's options that concern the network: proxies, certificates, retries, date checks."""
    kept = [line for line in options if line.startswith(_APT_OPTIONS) and not line.endswith('"";')]
    return "".join(f"{line}\n" for line in kept)


def own_sources(texts: Mapping[str, str], *, suite: str) -> tuple[AptSource, ...]:
    """The machine's sources of ``suite`` and its updates; empty on a machine of another distribution."""
    found: list[AptSource] = []
    for name in sorted(texts):
        read = _read_stanzas if name.endswith(".sources") else _read_lines
        found.extend(read(texts[name]))
    return tuple(source for source in found if re.fullmatch(rf"{suite}(-updates|-security)?", source.suite))


def _read_lines(text: str) -> list[AptSource]:
    form = re.compile(
        r"^deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s+(?P<rest>[^#]+)"
    )
    found = []
    for line in text.splitlines():
        match = form.match(line.strip())
        if match:
            signed = re.search(r"signed-by=(\S+)", match["options"] or "")
            found.append(
                AptSource(
                    uri=match["uri"],
                    suite=match["suite"],
                    components=tuple(match["rest"].split()),
                    signed_by=signed[1] if signed else None,
                )
            )
    return found


def _read_stanzas(text: str) -> list[AptSource]:
    found: list[AptSource] = []
    for stanza in re.split(r"\n\s*\n", text):
        fields = dict(re.findall(r"^([A-Za-z-]+):[ \t]*(.*)$", stanza, re.MULTILINE))
        if fields.get("Types", "").split()[:1] != ["deb"] or fields.get("Enabled", "yes").lower() == "no":
            continue
        found.extend(
            AptSource(
                uri=uri,
                suite=suite,
                components=tuple(fields.get("Components", "").split()),
                signed_by=fields.get("Signed-By"),
            )
            for uri in fields.get("URIs", "").split()
            for suite in fields.get("Suites", "").split()
        )
    return found
