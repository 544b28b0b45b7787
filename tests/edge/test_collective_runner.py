"""The collective probe runs in a short container and cannot outlive its limit; what it proved is kept."""

import io
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from kitctl_process import KitUser, docker

from kitctl.edge.collective_runner import collective_settings, run_trial
from kitctl.plan.collective import Trial
from kitctl.plan.types import GpuDriver, GpuReservation

IMAGE = "kitctl-collective-test:1"
ON_CPU = GpuReservation(driver=GpuDriver.NONE)


@pytest.fixture(scope="module")
def slow_image() -> Iterator[str]:
    """An image whose python3 hangs when its argument's limit is short, and fails otherwise."""
    script = b"#!/bin/sh\ncase \"$3\" in *'timeout_s\": 2.0'*) exec sleep 600;; esac\necho 'no torch' >&2; exit 3\n"
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.add("/bin/busybox", "bin/busybox")
        for name in ("sh", "sleep"):
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
        program = tarfile.TarInfo("usr/bin/python3")
        program.size, program.mode = len(script), 0o755
        tar.addfile(program, io.BytesIO(script))
    subprocess.run(
        ["docker", "import", "-", IMAGE], input=archive.getvalue(), capture_output=True, check=True
    )
    yield IMAGE
    docker("image", "rm", IMAGE)


@pytest.mark.docker
def test_a_hang_ends_at_the_limit_and_leaves_no_container(slow_image: str) -> None:
    settings = msgspec.structs.replace(collective_settings(), limit_s=2.0)
    found = run_trial(slow_image, gpus=ON_CPU, environment={}, settings=settings)
    assert found.hung
    assert docker("ps", "-a", "--filter", f"ancestor={slow_image}", "--format", "{{.Names}}") == ""


@pytest.mark.docker
def test_a_failure_keeps_its_last_lines(slow_image: str) -> None:
    found = run_trial(slow_image, gpus=ON_CPU, environment={}, settings=collective_settings())
    assert found == Trial(last_lines=("no torch",))


@pytest.mark.docker
@pytest.mark.slow
def test_the_cpu_image_adds_up_rightly_by_gloo(kit_user: KitUser) -> None:
    """Needs the CPU image on the engine: ``kitctl build --stage cpu``."""
    findings = kit_user.json("doctor", "cpu-demo", "--collective")["findings"]
    assert [one["code"] for one in findings if one["where"] == "collective"] == ["collective-proven-on-cpu"]
    (kept,) = (Path(kit_user.state) / "collective").glob("*.json")
    assert '"backend": "gloo"' in kept.read_text()
