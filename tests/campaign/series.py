"""Stacks of planted speed and campaigns of them, run by kitctl as a user runs it."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from kitctl_process import KitUser

STACK = """\
summary: {name}
model: kitctl/demo
image: {{stage: cpu, reference: "{image}"}}
engine: {{context_length: 2048}}
serve: {{model_name: demo, start_period_s: 60}}
environment: {environment}
"""
CAMPAIGN = """\
summary: stacks of planted speed
stacks: {stacks}
repeats: {repeats}
loads:
  - {{name: kit, dataset: kit, concurrency: {levels}, requests_per_stream: 3, output_tokens: 16}}
failure: {{then: skip}}
"""


def plant(user: KitUser, image: str, name: str, **environment: str) -> None:
    """A stack of the user's whose engine is the planted one."""
    text = STACK.format(name=name, image=image, environment=json.dumps(environment))
    user.write_config(f"stacks/{name}.yaml", text)


def write_campaign(user: KitUser, stacks: list[str], *, repeats: int = 2, levels: str = "[1, 4]") -> str:
    """A campaign file of the stacks; its path. Its name is the user's, so that its containers are found."""
    path = user.home / f"{user.name}.yaml"
    path.write_text(CAMPAIGN.format(stacks=json.dumps(stacks), repeats=repeats, levels=levels))
    return str(path)


def words(user: KitUser, path: str, *more: str) -> tuple[str, ...]:
    return ("campaign", "run", path, "--port", str(user.port), *more)


def finish(
    user: KitUser, path: str, *more: str, timeout_s: float = 400.0
) -> subprocess.CompletedProcess[str]:
    """Run the campaign to its end."""
    return user.run(*words(user, path, *more), timeout_s=timeout_s)


def status(user: KitUser) -> Any:
    """What ``campaign status`` tells of it."""
    return user.json("campaign", "status", user.name)


DRAFTED = """\
summary: a drafter of planted acceptance
model: kitctl/demo
drafter: {{model: kitctl/demo-drafter, block_size: 8}}
image: {{stage: cpu, reference: "{image}"}}
engine: {{context_length: 2048, graphs: "off"}}
serve: {{model_name: demo, start_period_s: 60}}
environment: {{STUB_TOKEN_MS: "6", STUB_ACCEPT: "3"}}
"""
DRAFTED_CAMPAIGN = """\
summary: with and without a drafter
stacks: [drafted, steady]
repeats: 2
loads: [{name: kit, dataset: kit, concurrency: [1, 4], output_tokens: 16}]
accept: {concurrency: [2], prompts: 8, output_tokens: 16}
parity: {plain: {drafted: steady}, prompts: 4}
gates: {accept_length_least: 1.5, parity: true}
"""
# What the planted engine can do and a real CPU engine cannot.
SKIPPED = ("dflash-needs-cuda",)


def write_drafted_campaign(user: KitUser, image: str) -> str:
    """A campaign of a plain stack and one with a drafter; its path."""
    user.write_config("stacks/drafted.yaml", DRAFTED.format(image=image))
    plant(user, image, "steady", STUB_TOKEN_MS="12")
    path = user.home / f"{user.name}.yaml"
    path.write_text(DRAFTED_CAMPAIGN)
    return str(path)
