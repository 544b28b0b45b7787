"""A hub's listing becomes an entry of the lock, and differences from it are named."""

import pytest

from kitctl.kit.models_lock import FileRole, LockState
from kitctl.store.hub_model import HubFile, HubModel, changed_files, entry_of, role_of

SMALL = HubFile(path="config.json", size_bytes=2, git_sha1="d" * 40, sha256=None, xet_hash=None)
LARGE = HubFile(path="a.safetensors", size_bytes=9, git_sha1="e" * 40, sha256="c" * 64, xet_hash="f" * 64)
MODEL = HubModel(repo="org/x", commit="a" * 40, licence="mit", gated=True, files=(SMALL, LARGE))


@pytest.mark.parametrize(
    ("path", "role"),
    [
        ("model-00001-of-00064.safetensors", FileRole.WEIGHTS),
        ("model.safetensors.index.json", FileRole.CONFIG),
        ("config.json", FileRole.CONFIG),
        ("tokenizer_config.json", FileRole.TOKENIZER),
        ("tiktoken.model", FileRole.TOKENIZER),
        ("tokenization_kimi.py", FileRole.CODE),
        ("modeling_deepseek.py", FileRole.CODE),
        ("docs/deploy_guidance.md", FileRole.OTHER),
        ("LICENSE", FileRole.OTHER),
    ],
)
def test_roles_follow_names(path: str, role: FileRole) -> None:
    assert role_of(path) is role


def test_large_files_are_locked_by_sha256_and_small_ones_by_their_git_id() -> None:
    entry = entry_of(MODEL, revision="main", locked_on="2026-11-29", config_json="{}")
    assert (entry.state, entry.commit, entry.gated, entry.licence) == (
        LockState.LOCKED,
        "a" * 40,
        True,
        "mit",
    )
    assert [(file.path, file.sha256, file.git_sha1) for file in entry.files] == [
        ("a.safetensors", "c" * 64, None),
        ("config.json", None, "d" * 40),
    ]


def test_locking_the_same_again_keeps_the_date_and_what_only_the_user_knows() -> None:
    old = entry_of(MODEL, revision="main", locked_on="2026-01-01", config_json="{}", drafter_for="org/big")
    assert entry_of(MODEL, revision="main", locked_on="2026-11-29", config_json="{}", old=old) == old
    moved = HubModel(repo="org/x", commit="b" * 40, licence="mit", gated=True, files=(SMALL, LARGE))
    new = entry_of(moved, revision="main", locked_on="2026-11-29", config_json="{}", old=old)
    assert (new.locked_on, new.drafter_for) == ("2026-11-29", "org/big")


def test_differences_from_the_lock_are_named() -> None:
    entry = entry_of(MODEL, revision="main", locked_on="2026-11-29", config_json="{}")
    longer = HubFile(path="a.safetensors", size_bytes=10, git_sha1="e" * 40, sha256="c" * 64, xet_hash=None)
    other = HubFile(path="config.json", size_bytes=2, git_sha1="1" * 40, sha256=None, xet_hash=None)
    assert changed_files(entry, (SMALL, LARGE)) == ()
    assert changed_files(entry, (longer, other)) == (
        "a.safetensors: 10 bytes, models.lock says 9",
        f"config.json: hash {'1' * 40}, models.lock says {'d' * 40}",
    )
    assert changed_files(entry, (SMALL,)) == ("a.safetensors: not there any more",)
