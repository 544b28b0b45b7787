"""Make the kit's own base image on this engine from the distribution's packages, once."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path

from kitctl.edge.builder import build_plain
from kitctl.edge.docker_engine import image_id
from kitctl.edge.machine import netrc_path
from kitctl.edge.process import run_process
from kitctl.errors import Exit, KitError
from kitctl.kit.pins import PinSet, base_tag
from kitctl.plan.base_recipe import root_fs_argv
from kitctl.plan.machine_config import MachineConfig, apt_config, own_sources

_LIMIT_S = 1800


def ensure_base_image(pin_set: PinSet, machine: MachineConfig, *, recipe_dir: str) -> str:
    """The base image's reference; made and tagged first when the engine does not have it.

    ``recipe_dir`` holds the Dockerfile that wraps the root file system. Raises KitError (exit 4)
    ``no-base-builder`` without mmdebstrap, ``base-failed`` with its last lines.
    """
    reference = base_tag(pin_set.base, pin_set.build)
    if image_id(reference) is not None:
        return reference
    with tempfile.TemporaryDirectory(prefix="kitctl-base-") as folder:
        make_root_fs(pin_set, machine, target=f"{folder}/rootfs.tar")
        shutil.copy(Path(recipe_dir) / "Dockerfile", folder)
        epoch = str(pin_set.build.source_date_epoch)
        build_plain(folder, reference=reference, build_args={"SOURCE_DATE_EPOCH": epoch})
    return reference


def make_root_fs(pin_set: PinSet, machine: MachineConfig, *, target: str) -> str:
    """Write the root file system's tar to ``target``; returns its sha256. Raises as ``ensure_base_image``."""
    if shutil.which("mmdebstrap") is None:
        raise KitError(
            "no-base-builder",
            "the kit's base image needs mmdebstrap on this machine, which is not installed",
            remedy="kitctl setup, or kitctl build --base IMAGE@sha256:DIGEST",
            exit_code=Exit.BUILD,
        )
    argv = root_fs_argv(
        pin_set.base,
        own_sources=own_sources(machine.apt_sources, suite=pin_set.base.suite),
        apt_options=tuple(apt_config(machine.apt_options).splitlines()),
        netrc_path=netrc_path(),
        target=target,
    )
    epoch = str(pin_set.build.source_date_epoch)
    made = run_process(argv, timeout_s=_LIMIT_S, env={"SOURCE_DATE_EPOCH": epoch, **machine.proxies})
    if not made.ok:
        raise KitError(
            "base-failed",
            "the base image could not be assembled from the distribution's packages",
            evidence=tuple((made.failure or made.stderr).splitlines()[-5:]),
            remedy="check that this machine's apt sources answer (apt-get update), then build again",
            exit_code=Exit.BUILD,
        )
    with Path(target).open("rb") as tar:
        return hashlib.file_digest(tar, "sha256").hexdigest()
