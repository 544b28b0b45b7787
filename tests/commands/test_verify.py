"""``kitctl verify``: what is as the locks name it passes; each thing that is not is named and gives exit 5."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hubserver import Hub
from kitctl_process import KitUser, new_user
from model_world import TINY, tiny_repo
from tiny_kit import TinyKit, tiny_kit

from kitctl.edge.wheel_pack import pack_wheel

LOCK_LINE = "summary: a tiny model\nmodel: org/tiny\nimage: {stage: cpu}\n"


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory, stub: str) -> Iterator[tuple[TinyKit, str]]:
    """A kit of its own with its image on the engine, and the image's id."""
    with tiny_kit(tmp_path_factory.mktemp("kit")) as made:
        yield made, made.build(stub)


@pytest.fixture
def user(kit: tuple[TinyKit, str], tmp_path: Path) -> Iterator[KitUser]:
    with new_user(tmp_path, KITCTL_KIT=str(kit[0].folder)) as made:
        yield made


def codes(body: Any) -> set[str]:
    return {
        finding["code"]
        for proof in body["proofs"]
        for finding in proof["findings"]
        if finding["severity"] == "block"
    }


@pytest.mark.docker
def test_an_image_is_proven_by_its_record_its_labels_and_its_packages(
    kit: tuple[TinyKit, str], user: KitUser
) -> None:
    made, image_id = kit
    record = made.record(user, image_id)
    body = user.json("verify", "cpu-demo", "--only", "image")
    assert (body["schema"], body["ok"], body["level"]) == ("kitctl.verify/1", True, "quick")
    (proof,) = body["proofs"]
    assert (proof["kind"], proof["name"], proof["ok"]) == ("image", made.reference, True)
    bill = record.with_suffix(".cdx.json")
    assert image_id in bill.read_text()
    deep = user.json("verify", "cpu-demo", "--only", "image", "--deep")
    assert "blobs" in deep["proofs"][0]["detail"]


@pytest.mark.docker
def test_an_image_that_is_not_as_recorded_is_named(kit: tuple[TinyKit, str], user: KitUser) -> None:
    made, image_id = kit
    unrecorded = user.json("verify", "cpu-demo", "--only", "image", exit_code=5)
    assert codes(unrecorded) == {"image-unrecorded"}
    record = made.record(user, image_id)
    user.json("verify", "cpu-demo", "--only", "image")
    bill = record.with_suffix(".cdx.json")
    kept = bill.read_text()
    bill.write_text(kept.replace(image_id, "sha256:" + "0" * 64))
    assert codes(user.json("verify", "cpu-demo", "--only", "image", exit_code=5)) == {"image-bill-differs"}
    tree = json.loads(kept)
    tree["components"].append(
        {
            "type": "library",
            "bom-ref": "pypi:torch",
            "name": "torch",
            "version": "0.1",
            "purl": "pkg:pypi/torch@0.1",
        }
    )
    bill.write_text(json.dumps(tree))
    assert codes(user.json("verify", "cpu-demo", "--only", "image", exit_code=5)) == {"image-packages-differ"}
    both = user.json("verify", "cpu-demo", "--only", "image", "--deep", exit_code=5)
    assert codes(both) == {"image-packages-differ", "image-bill-differs"}
    bill.write_text("{")
    unreadable = user.json("verify", "cpu-demo", "--only", "image", exit_code=5)
    assert codes(unreadable) == {"image-bill-unreadable"}
    bill.unlink()
    record.write_text(record.read_text().replace(image_id, "sha256:" + "1" * 64))
    other = user.json("verify", "cpu-demo", "--only", "image", exit_code=5)
    assert "image-not-recorded" in codes(other)


@pytest.mark.docker
def test_an_image_that_is_not_there(user: KitUser) -> None:
    assert codes(user.json("verify", "tp8", "--only", "image", exit_code=5)) == {"image-missing"}


def test_models_are_proven_against_the_lock(user: KitUser) -> None:
    with Hub({TINY: tiny_repo(200_000)}) as hub:
        env = user.env | {"HF_ENDPOINT": hub.url, "NO_PROXY": "127.0.0.1"}
        for words in (("lock", TINY, "--user"), ("pull", TINY)):
            done = user.run("models", *words, env=env)
            assert done.returncode == 0, done.stderr
    user.write_config("stacks/mine.yaml", LOCK_LINE)
    body = user.json("verify", "mine", "--only", "model", "--deep")
    assert (body["ok"], [proof["name"] for proof in body["proofs"]]) == (True, [TINY])
    shard = next((user.home / "store").rglob("model-00002-of-00003.safetensors")).resolve()
    raw = bytearray(shard.read_bytes())
    raw[-5] ^= 1
    shard.write_bytes(raw)
    assert user.json("verify", "mine", "--only", "model")["ok"]
    deep = user.json("verify", "mine", "--only", "model", "--deep", exit_code=5)
    assert codes(deep) == {"model-hash-mismatch"}
    shard.unlink()
    assert "model-missing" in codes(user.json("verify", "mine", "--only", "model", exit_code=5))


def test_a_model_that_was_never_locked_is_not_proven(user: KitUser) -> None:
    body = user.json("verify", "ep4-dflash", "--only", "model", exit_code=5)
    assert codes(body) == {"model-unlocked"}


def test_the_demo_model_is_proven_byte_for_byte(user: KitUser) -> None:
    absent = user.json("verify", "cpu-demo", "--only", "model", exit_code=5)
    assert codes(absent) == {"model-missing"}
    assert user.run("models", "pull", "kitctl/demo").returncode == 0
    assert user.json("verify", "cpu-demo", "--only", "model")["ok"]
    weights = next((user.home / "store" / "models--kitctl--demo").rglob("model.safetensors")).resolve()
    raw = bytearray(weights.read_bytes())
    raw[-5] ^= 1
    weights.write_bytes(raw)
    changed = user.json("verify", "cpu-demo", "--only", "model", exit_code=5)
    assert codes(changed) == {"model-hash-mismatch"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """kitctl as its wheel installs it: the wheel's files, unpacked where Python looks for packages."""
    folder = tmp_path_factory.mktemp("installed")
    wheel = pack_wheel("kitctl", str(folder))
    with zipfile.ZipFile(wheel) as files:
        files.extractall(folder / "site")
    return folder / "site"


def verify_installed(site: Path, home: Path) -> tuple[int, Any]:
    """``kitctl verify --only kit`` of the kitctl in ``site``."""
    code = (
        f"import sys; sys.path.insert(0, {str(site)!r}); "
        "from kitctl.cli import main; sys.exit(main(['verify', '--only', 'kit', '--json']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"HOME": str(home), "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, json.loads(done.stdout)


def test_an_installed_kit_is_proven_by_its_record(installed: Path, tmp_path: Path) -> None:
    code, body = verify_installed(installed, tmp_path)
    assert (code, codes(body)) == (0, set())
    assert "RECORD" in body["proofs"][0]["against"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda kit: (kit / "compose/stacks/tp8.yaml").write_text("model: x\n"), "kit-file-changed"),
        (lambda kit: (kit / "compose/stacks/tp8.yaml").unlink(), "kit-file-missing"),
        (lambda kit: (kit / "compose/overlays/extra.yaml").write_text("{}\n"), "kit-file-unknown"),
        (lambda kit: (kit.parent / "data" / "canary.toml").write_text(""), "kit-file-changed"),
    ],
)
def test_an_installed_kit_that_was_changed_is_named(
    installed: Path, tmp_path: Path, change: Any, code: str
) -> None:
    site = tmp_path / "site"
    shutil.copytree(installed, site)
    change(site / "kitctl" / "_kit")
    found, body = verify_installed(site, tmp_path)
    assert (found, codes(body)) == (5, {code})


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A kit in a git repository, one commit."""
    root = tmp_path / "mykit"
    (root / "compose" / "stacks").mkdir(parents=True)
    (root / "models.lock").write_text("version = 1\n")
    (root / "compose" / "base.yaml").write_text("services: {}\n")
    (root / "compose" / "stacks" / "a.yaml").write_text("summary: a\nmodel: x/y\n")
    git = ["git", "-C", str(root), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    return root


def kit_codes(root: Path, tmp_path: Path) -> set[str]:
    """What verify says of the kit in ``root`` alone, not of the package that runs."""
    with new_user(tmp_path, KITCTL_KIT=str(root)) as user:
        done = user.run("verify", "--only", "kit", "--json")
        proofs = [proof for proof in json.loads(done.stdout)["proofs"] if proof["name"] == str(root)]
    assert len(proofs) == 1
    return {finding["code"] for finding in proofs[0]["findings"]}


def test_a_kit_in_a_repository_is_proven_by_its_commit(repository: Path, tmp_path: Path) -> None:
    assert kit_codes(repository, tmp_path) == set()
    stack = repository / "compose" / "stacks" / "a.yaml"
    stack.write_text("summary: b\nmodel: x/y\n")
    (repository / "compose" / "stacks" / "b.yaml").write_text("summary: b\nmodel: x/y\n")
    assert kit_codes(repository, tmp_path) == {"kit-file-changed", "kit-file-unknown"}
    stack.unlink()
    assert kit_codes(repository, tmp_path) == {"kit-file-missing", "kit-file-unknown"}


def test_a_kit_without_repository_is_not_proven(repository: Path, tmp_path: Path) -> None:
    shutil.rmtree(repository / ".git")
    assert kit_codes(repository, tmp_path) == {"kit-unproven"}
