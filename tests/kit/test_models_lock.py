"""The lock is read strictly, written stably, and names the place of what is wrong."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kitctl.errors import Exit, KitError
from kitctl.kit.models_lock import (
    FileRole,
    LockedFile,
    LockState,
    ModelEntry,
    ModelsLock,
    find_entry,
    is_safe_path,
    merge_locks,
    read_models_lock,
    require_proven,
    with_entry,
    without_entry,
)
from kitctl.kit.models_lock_text import write_models_lock

FILE = LockedFile(path="model.safetensors", size_bytes=8, role=FileRole.WEIGHTS, sha256="c" * 64)
CONFIG = LockedFile(path="config.json", size_bytes=2, role=FileRole.CONFIG, git_sha1="d" * 40)
ENTRY = ModelEntry(
    repo="org/tiny",
    state=LockState.LOCKED,
    commit="a" * 40,
    revision="main",
    locked_on="2026-11-29",
    licence="mit",
    gated=False,
    config_json="{}",
    files=(CONFIG, FILE),
)
HEAD = f'version = 1\n[models."org/tiny"]\nstate = "locked"\ncommit = "{"a" * 40}"\n'
ONE_FILE = f'{{ path = "a", size_bytes = 1, role = "other", sha256 = "{"b" * 64}" }}'


def refusal(text: str) -> str:
    with pytest.raises(KitError) as caught:
        read_models_lock(text)
    assert (caught.value.code, caught.value.exit_code) == ("bad-lock", Exit.USAGE)
    return " | ".join([caught.value.cause, *caught.value.evidence])


def test_what_is_written_is_read_back() -> None:
    lock = ModelsLock(models=(ENTRY,))
    assert read_models_lock(write_models_lock(lock)) == lock


def test_writing_again_changes_nothing_and_a_file_is_a_line() -> None:
    text = write_models_lock(ModelsLock(models=(ENTRY,)))
    assert write_models_lock(read_models_lock(text)) == text
    line = f'  {{ path = "config.json", size_bytes = 2, role = "config", git_sha1 = "{"d" * 40}" }},'
    assert line in text.splitlines()


def test_the_kits_own_lock_is_in_its_written_form() -> None:
    text = (Path(__file__).parents[2] / "models.lock").read_text()
    assert write_models_lock(read_models_lock(text)) == text


def test_the_kits_models_are_reconstructed_until_a_hub_was_read() -> None:
    lock = read_models_lock((Path(__file__).parents[2] / "models.lock").read_text())
    for repo in ("moonshotai/Kimi-K2.6", "SubSir/Kimi-K2.6-DFlash-tmp-long"):
        entry = find_entry(lock, repo)
        assert (entry.state, entry.files) == (LockState.RECONSTRUCTED, ())


def test_empty_text_is_an_empty_lock() -> None:
    assert read_models_lock("") == ModelsLock()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("models = [", "models.lock: is not valid TOML"),
        ("version = 2", "models.lock: version: must be 1, is 2"),
        ("version = 1\nmodel = 1", "models.lock: model: unknown key, did you mean 'models'?"),
        ("version = 1\nmodels = 3", "models.lock: models: must be a table of models"),
        ('version = 1\n[models."a b"]', 'models."a b": is not a repository name'),
        ('version = 1\nmodels."org/x" = 3', 'models."org/x": must be a table'),
        (HEAD + "files = [ ]", 'models."org/tiny".files: is missing: a locked model names its files'),
        (HEAD + f"files = [{ONE_FILE}, {ONE_FILE}]", "files[1].path: 'a' is named twice"),
        (
            HEAD + "files = [" + ONE_FILE.replace('"a"', '"../a"') + "]",
            "files[0].path: '../a' is not a plain relative",
        ),
        (HEAD + "files = [" + ONE_FILE.replace("bb", "bB", 1) + "]", "files[0].sha256"),
        (HEAD + "files = [" + ONE_FILE.replace("sha256", "sha265") + "]", "did you mean 'sha256'?"),
        (HEAD + "files = [" + ONE_FILE.replace("= 1,", "= -1,") + "]", "files[0].size_bytes"),
        (HEAD + "files = [" + ONE_FILE.replace("other", "wieghts") + "]", "files[0].role"),
        (
            HEAD + 'files = [{ path = "a", size_bytes = 1, role = "other" }]',
            "needs exactly one of sha256 and git_sha1",
        ),
        (
            HEAD.replace("locked", "local") + f"files = [{ONE_FILE}]",
            "path: is missing: a local model names its folder",
        ),
        (
            HEAD.replace("locked", "reconstructed") + f"files = [{ONE_FILE}]",
            "a reconstructed model has no proven files",
        ),
        (HEAD + "config_json = '['\n" + f"files = [{ONE_FILE}]", "config_json: is not valid JSON"),
        (HEAD + 'repo = "x"', "the table's name is the repository"),
    ],
)
def test_a_wrong_lock_names_the_place(text: str, problem: str) -> None:
    assert problem in refusal(text)


def test_hostile_nesting_is_refused() -> None:
    assert "is not valid TOML" in refusal("a = " + "[" * 100_000)


@given(st.text(max_size=300))
@settings(max_examples=300)
def test_random_text_is_a_lock_or_refused(text: str) -> None:
    try:
        read_models_lock(text)
    except KitError as refused:
        assert refused.code == "bad-lock"


_VALUES = st.recursive(
    st.sampled_from(['"x"', "1", "-1", "true", "1979-05-27", "nan", "''"]),
    lambda inner: st.lists(inner, max_size=3).map(lambda parts: f"[{', '.join(parts)}]"),
    max_leaves=5,
)
_KEYS = st.sampled_from(
    ["state", "commit", "files", "config_json", "path", "gated", "repo", "size_bytes", "zzz"]
)


@given(st.dictionaries(_KEYS, _VALUES))
@settings(max_examples=300)
def test_any_table_is_an_entry_or_refused(fields: dict[str, str]) -> None:
    lines = [f"{key} = {value}" for key, value in fields.items()]
    try:
        read_models_lock("\n".join(["version = 1", '[models."org/x"]', *lines]))
    except KitError as refused:
        assert refused.code == "bad-lock"


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@given(note=_TEXT, licence=_TEXT, text=_TEXT)
@settings(max_examples=200)
def test_any_text_survives_the_round_trip(note: str, licence: str, text: str) -> None:
    import json

    entry = ModelEntry(
        repo="org/x",
        state=LockState.RECONSTRUCTED,
        note=note,
        licence=licence,
        config_json=json.dumps({"text": text}, ensure_ascii=False),
    )
    lock = ModelsLock(models=(entry,))
    assert read_models_lock(write_models_lock(lock)) == lock


@pytest.mark.parametrize("path", ["", "/a", "a//b", "./a", "a/../b", "a\\b", "a\nb", "x" * 256, ".."])
def test_paths_that_leave_their_folder_are_not_safe(path: str) -> None:
    assert not is_safe_path(path)


def test_plain_paths_are_safe() -> None:
    assert all(map(is_safe_path, ["a", "docs/figures/a b.png", ".gitattributes", "ünï/c"]))


def test_an_unknown_model_is_answered_with_the_nearest() -> None:
    with pytest.raises(KitError) as caught:
        find_entry(ModelsLock(models=(ENTRY,)), "org/tinny")
    assert caught.value.code == "model-unknown"
    assert caught.value.evidence == ("did you mean 'org/tiny'?",)


def test_a_reconstructed_model_is_refused_as_unlocked() -> None:
    entry = ModelEntry(repo="org/big", state=LockState.RECONSTRUCTED, stated_size_bytes=7)
    with pytest.raises(KitError) as caught:
        require_proven(entry)
    assert (caught.value.code, caught.value.exit_code) == ("model-unlocked", Exit.FETCH)
    assert caught.value.remedy == "kitctl models lock org/big"
    assert (entry.size_bytes, entry.weights_bytes) == (7, None)


def test_sizes_are_sums_over_the_files() -> None:
    assert (ENTRY.size_bytes, ENTRY.weights_bytes) == (10, 8)


def test_the_users_entry_wins() -> None:
    mine = ModelEntry(repo="org/tiny", state=LockState.SHIPPED)
    merged = merge_locks(ModelsLock(models=(ENTRY,)), ModelsLock(models=(mine,)))
    assert merged.models == (mine,)
    assert with_entry(merged, ENTRY).models == (ENTRY,)
    assert without_entry(merged, "org/tiny").models == ()
