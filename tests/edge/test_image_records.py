"""The smoke records of the full images hold for the tree as it is, or the image is built and tested again.

``tests/cases/image_records`` keeps the record of each image's last build and smoke test. A GPU image takes 9 to 11 GB
and minutes, so the default one is built here only when its inputs changed since its record; what was not built is said.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from kitctl.commands.building import BuildWish, plan_request
from kitctl.kit.image_record import ImageRecord

ROOT = Path(__file__).parent.parent.parent
RECORDS = sorted((ROOT / "tests" / "cases" / "image_records").glob("*.json"))


def read(path: Path) -> ImageRecord:
    return msgspec.json.decode(path.read_bytes(), type=ImageRecord)


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_every_check_of_a_kept_record_passed(path: Path) -> None:
    record = read(path)
    assert record.smoke is not None
    assert record.smoke.image_id == record.image_id
    assert [check.name for check in record.smoke.checks if not check.ok] == []


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_the_record_is_of_these_inputs_or_the_image_is_built_again(
    path: Path, record_property: Callable[[str, object], None]
) -> None:
    record = read(path)
    wish = BuildWish(image=record.image, release=record.release, stage=record.stage)
    _, request = plan_request(str(ROOT), wish)
    same = (request.inputs_hash, request.pins_hash) == (record.inputs_hash, record.pins_hash)
    done_to_it = "inputs as recorded, not built again" if same else "inputs changed, built again"
    record_property("told", f"image {record.release} {record.stage}: {done_to_it}")
    if not same:
        words = ["build", record.image, "--release", record.release, "--stage", record.stage]
        done = subprocess.run([sys.executable, "-m", "kitctl", *words], cwd=ROOT, check=False)
        assert done.returncode == 0
