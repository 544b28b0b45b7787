"""Which facts may leave the house in a bug report?"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import msgspec

from kitctl import __version__
from kitctl.finding import Finding
from kitctl.host.facts import HostFacts
from kitctl.host.facts_json import encode_facts

SCHEMA = "kitctl.report/1"
_UUID = re.compile(r"\b(GPU|MIG)-[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")
_IPV4 = re.compile(r"\b(?!127\.|0\.0\.0\.0)(?:\d{1,3}\.){3}\d{1,3}\b")
_HOME = re.compile(r"/(home|Users)/[^/\s\"']+")
_SECRET = re.compile(
    r"(?i)\b((?:[a-z0-9_.-]*(?:token|password|passwd|secret|api[-_]?key))\s*[=:]\s*)[^\s\"',]+"
)
_TOKENS = re.compile(r"\b(?:hf|ghp|sk)[_-][A-Za-z0-9_-]{16,}")
_EMAIL = re.compile(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)*\b")
_HEX_ID = re.compile(r"\b[0-9a-f]{64}\b")


def redacted_report(facts: HostFacts, findings: Sequence[Finding]) -> str:
    """Facts and findings as JSON without identities: UUIDs are numbered, addresses, homes, names of containers
    and processes, kernel parameters with a value of their own and whatever looks like a secret are masked."""
    plain = _without_names(facts)
    body = {
        "schema": SCHEMA,
        "kitctl": __version__,
        "facts": encode_facts(plain),
        "findings": [msgspec.to_builtins(finding) for finding in findings],
    }
    return redact_text(json.dumps(body, indent=2), names=_names(facts)) + "\n"


def _names(facts: HostFacts) -> list[str]:
    """What other people's work is called: containers, images, processes, folders; longest first."""
    processes = [process for gpu in facts.gpus or () for process in gpu.processes or ()]
    found = {disk.path for disk in facts.disks or ()} | {process.name for process in processes}
    for one in facts.containers or ():
        found |= {one.name, one.image, one.project, one.id, one.id[:12]}
    found |= {process.container for process in processes}
    found |= {one.holder.removeprefix("container ") for one in facts.listeners or () if one.holder}
    return sorted((name for name in found if name and len(name) > 2), key=lambda name: (-len(name), name))


def _without_names(facts: HostFacts) -> HostFacts:
    """Without what other work on the host is called; kernel parameters kept are those that checks read."""
    words = (facts.kernel_command_line or "").split()
    kept = [
        word
        for word in words
        if re.match(r"(?:\w*iommu|pci|nvidia|pcie_|mitigations|default_hugepages)", word)
    ]
    containers = tuple(
        msgspec.structs.replace(one, id="", name=f"container{at}", image=None, project=None)
        for at, one in enumerate(facts.containers or ())
    )
    listeners = tuple(msgspec.structs.replace(one, pid=None, holder=None) for one in facts.listeners or ())
    return msgspec.structs.replace(
        facts,
        kernel_command_line=" ".join(kept) if words else None,
        containers=containers if facts.containers is not None else None,
        listeners=listeners if facts.listeners is not None else None,
    )


def redact_text(text: str, *, names: Sequence[str] = ()) -> str:
    """``text`` with identities masked; the same GPU keeps the same number, so that it can still be followed."""
    seen: dict[str, str] = {}

    def number(found: re.Match[str]) -> str:
        return seen.setdefault(found.group(), f"{found.group(1)}-{len(seen)}")

    masked = _UUID.sub(number, text)
    for at, name in enumerate(names):
        masked = re.sub(rf"(?<![\w/.-]){re.escape(name)}(?![\w.-])", f"<name {at}>", masked)
    masked = _SECRET.sub(r"\1<masked>", masked)
    masked = _TOKENS.sub("<masked>", masked)
    masked = _EMAIL.sub("<address>", masked)
    masked = _HOME.sub(r"/\1/<user>", masked)
    return _HEX_ID.sub("<id>", _IPV4.sub("<address>", masked))
