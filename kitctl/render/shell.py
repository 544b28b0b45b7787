"""Write a plan down for a host that runs the engine without a container: one script, and a unit that runs it.

The argv and environment are the plan's own; only what a container gives is translated: mounted paths become the
host's, the published port becomes the engine's, the device request becomes ``CUDA_VISIBLE_DEVICES``.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from kitctl.plan.engine_command import model_target
from kitctl.plan.types import GpuDriver, Plan
from kitctl.render.compose import KEY_FILE, KEY_VARIABLE, LAUNCHER_FILE, fingerprint

SCRIPT = "run.sh"
ENTRY = ("python3", "-m", "sglang.launch_server")


def host_argv(plan: Plan) -> tuple[str, ...]:
    """The plan's flags as a process on the host takes them."""
    paths = {model_target(model): model.folder for model in plan.models}
    words = [_on_host(word, paths) for word in plan.argv]
    return tuple(
        _with_value(_with_value(words, "--host", plan.published.bind), "--port", str(plan.published.port))
    )


def host_environment(plan: Plan, base: Mapping[str, str], *, folder: str) -> dict[str, str]:
    """Base, then plan, then the GPUs (by index: SGLang reads ``CUDA_VISIBLE_DEVICES`` as integers)."""
    merged = {**base, **plan.environment}
    if plan.api_key_file:
        merged[KEY_VARIABLE] = f"{folder}/{KEY_FILE}"
    if plan.gpus.driver is not GpuDriver.NONE:
        merged["CUDA_VISIBLE_DEVICES"] = ",".join(str(index) for index in plan.gpus.indices)
    return merged


def render_shell(
    plan: Plan,
    *,
    base_environment: Mapping[str, str],
    folder: str,
    key_files: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """``run.sh`` and a systemd unit that runs it, for ``folder`` (absolute) on a host where SGLang is installed."""
    exports = [
        f"export {name}={shlex.quote(value)}"
        for name, value in sorted(host_environment(plan, base_environment, folder=folder).items())
    ]
    entry = ("python3", f"{folder}/{LAUNCHER_FILE}") if plan.api_key_file else ENTRY
    command = " \\\n  ".join([shlex.join(entry), *_flag_lines(host_argv(plan))])
    script = "\n".join(
        [
            "#!/bin/sh",
            f"# {plan.stack.name}, plan {fingerprint(plan)}: the planned argv and environment without a container.",
            "set -eu",
            *exports,
            f"exec {command}",
            "",
        ]
    )
    files = {
        SCRIPT: script,
        unit_name(plan): unit_text(plan, start=f"/bin/sh {folder}/{SCRIPT}", folder=folder),
    }
    return files | dict(key_files or {})


def render_systemd(plan: Plan, compose_files: Mapping[str, str], *, folder: str) -> dict[str, str]:
    """The compose folder and a unit that brings it up at boot and takes it down, through the container engine."""
    unit = unit_text(
        plan,
        start="/usr/bin/env docker compose up --no-color",
        stop="/usr/bin/env docker compose down",
        folder=folder,
        needs="docker.service",
    )
    return {**compose_files, unit_name(plan): unit}


def unit_name(plan: Plan) -> str:
    """The unit's file name."""
    return f"{plan.project}.service"


def unit_text(
    plan: Plan, *, start: str, folder: str, stop: str | None = None, needs: str | None = None
) -> str:
    """A systemd unit. SGLang 0.5.16 ends with 137 after a crash and after a clean stop alike, hence ``always``."""
    serve = plan.stack.serve
    after = f"network-online.target {needs}" if needs else "network-online.target"
    lines = [
        "[Unit]",
        f"Description=kitctl stack {plan.stack.name} (plan {fingerprint(plan)})",
        f"After={after}",
        "Wants=network-online.target",
        *([f"Requires={needs}"] if needs else []),
        "",
        "[Service]",
        f"WorkingDirectory={folder}",
        f"ExecStart={start}",
        *([f"ExecStop={stop}"] if stop else []),
        "Restart=always",
        "RestartSec=60",
        f"TimeoutStopSec={serve.stop_grace_s + 15}",
        "SuccessExitStatus=137 SIGKILL",
        "",
        "[Install]",
        "WantedBy=multi-user.target",
        "",
    ]
    return "\n".join(lines)


def _on_host(word: str, paths: Mapping[str, str]) -> str:
    for inside, outside in paths.items():
        if word == inside or word.startswith(f"{inside}/"):
            return outside + word[len(inside) :]
    return word


def _with_value(words: list[str], flag: str, value: str) -> list[str]:
    place = words.index(flag) + 1
    return [*words[:place], value, *words[place + 1 :]]


def _flag_lines(argv: tuple[str, ...]) -> list[str]:
    """One line a flag with its values, quoted for a shell."""
    lines: list[list[str]] = []
    for word in argv:
        if word.startswith("--") or not lines:
            lines.append([word])
        else:
            lines[-1].append(word)
    return [shlex.join(line) for line in lines]
