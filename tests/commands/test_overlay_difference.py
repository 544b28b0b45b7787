"""The same stack on a PCIe and on an NVLink host differs in the overlay alone."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from kitctl_process import KitUser

FACTS = Path(__file__).parent.parent / "cases" / "facts"


def rendered(kit_user: KitUser, stack: str, host: str) -> tuple[dict[str, str], dict[str, Any]]:
    """The rendered folder's files, and ``stack.yaml`` as a tree without what names the overlay."""
    folder = kit_user.home / host
    done = kit_user.run(
        "render", stack, "--to", "compose", "-o", str(folder), "--facts", str(FACTS / f"{host}.json")
    )
    assert done.returncode == 3, (
        done.stderr
    )  # the model is not there, and the folder is rendered all the same
    files = {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}
    engine = yaml.safe_load(files["stack.yaml"])["services"]["engine"]
    for label in ("io.kitctl.plan", "io.kitctl.overlays"):
        engine["labels"].pop(label)
    engine["volumes"] = [one for one in engine["volumes"] if one["type"] != "volume"]
    return files, engine


@pytest.mark.parametrize("stack", ["tp8", "ep8", "ep4", "ep4-dflash", "ep8-dflash"])
def test_two_hosts_differ_in_the_overlay_alone(kit_user: KitUser, stack: str) -> None:
    """The cache volume is named after the GPUs' architecture, which is not the links' doing; all else must agree."""
    pcie_files, pcie = rendered(kit_user, stack, "pcie-8x-rtxpro6000")
    nvlink_files, nvlink = rendered(kit_user, stack, "nvlink-8x-b200")
    assert set(pcie_files) ^ set(nvlink_files) == {"overlay-pcie.yaml", "overlay-nvlink.yaml"}
    assert pcie_files["base.yaml"] == nvlink_files["base.yaml"]
    overlay = yaml.safe_load(pcie_files["overlay-pcie.yaml"])
    other = yaml.safe_load(nvlink_files["overlay-nvlink.yaml"])
    own_environment = overlay["services"]["engine"]["environment"]
    other_environment = other["services"]["engine"]["environment"]
    only_pcie = {k: v for k, v in pcie["environment"].items() if nvlink["environment"].get(k) != v}
    assert only_pcie == {k: v for k, v in own_environment.items() if k not in other_environment}
    flags = overlay["x-kitctl"]["flags_above_tp2"]
    assert [word for word in pcie["command"] if word not in nvlink["command"]] == [
        f"--{flag.replace('_', '-')}" for flag in flags
    ]
    assert [word for word in nvlink["command"] if word not in pcie["command"]] == []
    for tree in (pcie, nvlink):
        tree.pop("command")
        tree.pop("environment")
    assert pcie == nvlink
