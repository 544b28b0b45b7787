"""Model repositories of a few MB, and a world of its own for a kitctl child: kit, store, caches, hub."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from hubserver import Hub, Repo, git_sha1, sha256_if_large

from kitctl.kit.models_lock import ModelsLock
from kitctl.kit.models_lock_text import write_models_lock
from kitctl.store.hub_model import HubFile, HubModel, entry_of

ENTRY_POINT = "import sys; from kitctl.cli import main; sys.exit(main())"
TINY = "org/tiny"
_PIECE_BYTES = 64 * 1024**2
"""More than 256 MB at once are too much for random.randbytes."""


def random_bytes(count: int, seed: int) -> bytes:
    source, whole = random.Random(seed), count // _PIECE_BYTES
    return b"".join(source.randbytes(_PIECE_BYTES) for _ in range(whole)) + source.randbytes(
        count % _PIECE_BYTES
    )


def safetensors(tensors: dict[str, bytes]) -> bytes:
    """A file of the format with one row of bytes a tensor."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, data in tensors.items():
        header[name] = {"dtype": "U8", "shape": [len(data)], "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + b"".join(tensors.values())


CONFIG = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 512,
    "max_position_embeddings": 1024,
}  # fmt: skip


def tiny_files(shard_bytes: int = 1_500_000, shards: int = 3) -> dict[str, bytes]:
    """A model of several shards with index, configuration, tokenizer and a file in a folder."""
    names = [f"model-{i + 1:05}-of-{shards:05}.safetensors" for i in range(shards)]
    index = {"metadata": {}, "weight_map": {f"layer.{i}": name for i, name in enumerate(names)}}
    files = {name: safetensors({f"layer.{i}": random_bytes(shard_bytes, i)}) for i, name in enumerate(names)}
    files["config.json"] = json.dumps(CONFIG).encode()
    files["model.safetensors.index.json"] = json.dumps(index).encode()
    files["tokenizer_config.json"] = b"{}"
    files["docs/figures/about.md"] = b"# tiny\n"
    files[".gitattributes"] = b""
    return files


def tiny_repo(shard_bytes: int = 1_500_000, shards: int = 3) -> Repo:
    return Repo(tiny_files(shard_bytes, shards))


@dataclass
class Ended:
    """A kitctl that ended."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> dict[str, object]:
        loaded: dict[str, object] = json.loads(self.out)
        return loaded


@dataclass
class World:
    """Folders of one test and the hub that its kitctl asks."""

    root: Path
    hub: Hub
    more_env: dict[str, str] = field(default_factory=dict)
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.root / "kit").mkdir()
        (self.root / "kit" / "models.lock").touch()

    @property
    def store(self) -> Path:
        return self.root / "store"

    @property
    def hf_cache(self) -> Path:
        return self.root / "hf" / "hub"

    @property
    def env(self) -> dict[str, str]:
        own = {"HF_HOME": "hf", "XDG_CONFIG_HOME": "c", "XDG_CACHE_HOME": "x", "XDG_STATE_HOME": "s"}
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "KITCTL_"))}
        folders = {name: str(self.root / value) for name, value in own.items()}
        return {**kept, **folders, "HF_ENDPOINT": self.hub.url, "NO_PROXY": "127.0.0.1", **self.more_env}

    def argv(self, *words: str) -> list[str]:
        return [sys.executable, "-c", ENTRY_POINT, "models", *words, "--kit", str(self.root / "kit")]

    def run(self, *words: str) -> Ended:
        done = subprocess.run(
            self.argv(*words), env=self.env, capture_output=True, text=True, timeout=120, check=False
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def start(self, *words: str) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            self.argv(*words), env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.started.append(child)
        return child

    def end_started(self) -> None:
        """End what a failed test left running, so that the next test does not meet it."""
        for child in self.started:
            if child.poll() is None:
                child.kill()
                child.communicate()

    def python(self, code: str) -> Ended:
        """Run Python with huggingface_hub in this world."""
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def write_lock(self) -> None:
        """The lock that ``models lock`` would write, without a child and without a request."""
        repo = self.hub.repos[TINY]
        rows = [
            HubFile(
                path=path,
                size_bytes=len(data),
                git_sha1=git_sha1(data),
                sha256=sha256_if_large(data),
                xet_hash=None,
            )
            for path, data in repo.files.items()
        ]
        model = HubModel(repo=TINY, commit=repo.commit, licence="mit", gated=False, files=tuple(rows))
        config = repo.files.get("config.json")
        text = config.decode() if config else None
        entry = entry_of(model, revision="main", locked_on="2026-11-29", config_json=text)
        path = self.root / "kit" / "models.lock"
        path.write_text(write_models_lock(ModelsLock(models=(entry,))))

    def pull(self, *words: str) -> Ended:
        return self.run("pull", TINY, "--store", str(self.store), "--json", "--tries", "2", *words)

    def verify(self, *words: str) -> Ended:
        return self.run("verify", TINY, "--store", str(self.store), "--json", *words)

    @property
    def repo_folder(self) -> Path:
        return self.store / "models--org--tiny"

    @property
    def snapshot(self) -> Path:
        return self.repo_folder / "snapshots" / self.hub.repos[TINY].commit

    def leftovers(self) -> list[str]:
        """Files of the store that are no whole blob, link, ref or lock."""
        marks = ("part", "incomplete", "link", "tmp")
        return [str(p) for p in self.repo_folder.rglob("*") if any(mark in p.name for mark in marks)]

    def holds_all(self) -> bool:
        """Whether every file of the hub is in the snapshot, byte for byte."""
        files = self.hub.repos[TINY].files
        return all((self.snapshot / path).read_bytes() == data for path, data in files.items())
