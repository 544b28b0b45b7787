"""The builder ends when it is told to and leaves nothing half made; what is pushed is recorded by its digest."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from kitctl_process import free_port

from kitctl.edge.builder import push_image, run_build
from kitctl.edge.docker_engine import image_id, remove_volumes
from kitctl.errors import Exit, KitError
from kitctl.plan.build import Base, BaseKind, BuildRequest

pytestmark = pytest.mark.docker
NAME = "kitctl-test-builder"
# Nothing but a static busybox: the second step waits for a word that only the second build brings.
DOCKERFILE = """\
FROM scratch AS gpu
COPY nonce /nonce
COPY busybox /bin/sh
RUN ["/bin/sh", "-c", "echo $RANDOM > /first"]
RUN --mount=type=secret,id=word ["/bin/sh", "-c", "[ -s /run/secrets/word ] || exec sleep 600"]
"""
ALONE = """\
import sys
from kitctl.edge.signals import interrupt_on_sigterm
from tests.edge.test_builder import build
interrupt_on_sigterm()
build(sys.argv[1], word="")
"""


def request() -> BuildRequest:
    return BuildRequest(
        image="sglang", release="0", stage="gpu", reference=f"{NAME}:1", pins_hash="p", inputs_hash="i",
        base=Base(reference="scratch", kind=BaseKind.KIT), platform="linux/amd64", build_args={}, labels={},
    )  # fmt: skip


def build(folder: str, *, word: str) -> list[str]:
    lines: list[str] = []

    def hear(line: str) -> None:
        lines.append(line)
        print(line, flush=True)

    run_build(
        request(),
        context_dir=folder,
        pins_dir=folder,
        secrets={"word": word},
        proxies={},
        use_cache=True,
        on_line=hear,
    )
    return lines


@pytest.fixture(name="folder")
def build_folder(tmp_path: Path) -> Iterator[Path]:
    busybox = shutil.which("busybox")
    assert busybox is not None, "the tests need busybox-static"
    shutil.copy(busybox, tmp_path / "busybox")
    (tmp_path / "nonce").write_text(str(tmp_path), encoding="utf-8")
    (tmp_path / "Dockerfile").write_text(DOCKERFILE, encoding="utf-8")
    yield tmp_path
    subprocess.run(["docker", "image", "rm", "--force", f"{NAME}:1"], capture_output=True, check=False)


def builders_of(folder: Path) -> list[str]:
    """Command lines of buildx processes that build ``folder``."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"build" in words and str(folder).encode() in words:
            found.append(b" ".join(words).decode())
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_end_in_the_middle_it_leaves_nothing_half_made_and_the_next_build_goes_on(
    folder: Path, number: signal.Signals
) -> None:
    root = str(Path(__file__).parents[2])
    secrets = set(Path(tempfile.gettempdir()).glob("kitctl-build-*"))
    with subprocess.Popen(
        [sys.executable, "-c", ALONE, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": f"{root}:{root}/tests"},
    ) as alone:
        assert alone.stdout is not None
        seen = next((line for line in alone.stdout if "/run/secrets/word" in line), None)
        assert seen is not None
        time.sleep(1)
        assert builders_of(folder) != []
        alone.send_signal(number)
        rest = alone.stdout.read()
        assert alone.wait(60) != 0
    assert "KeyboardInterrupt" in rest
    assert builders_of(folder) == []
    assert set(Path(tempfile.gettempdir()).glob("kitctl-build-*")) == secrets
    assert image_id(f"{NAME}:1") is None
    again = build(str(folder), word="go")
    step = next(line.split()[0] for line in again if "/first" in line)
    assert f"{step} CACHED" in again
    assert image_id(f"{NAME}:1") is not None


@pytest.fixture(name="registry", scope="module")
def real_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The distribution's own registry program on a free port of this machine; its address."""
    folder = tmp_path_factory.mktemp("registry")
    subprocess.run(
        ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", "docker-registry"],
        cwd=folder,
        check=True,
    )
    subprocess.run(["dpkg-deb", "-x", str(next(folder.glob("*.deb"))), str(folder)], check=True)
    config = folder / "config.yml"
    config.write_text(
        f"version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {folder}/data}}}}\n"
        "http: {addr: '127.0.0.1:0'}\n",
        encoding="utf-8",
    )
    port = free_port()
    config.write_text(config.read_text(encoding="utf-8").replace(":0'", f":{port}'"), encoding="utf-8")
    with subprocess.Popen([str(folder / "usr/bin/docker-registry"), "serve", str(config)]) as server:
        try:
            _await(f"http://127.0.0.1:{port}/v2/")
            yield f"127.0.0.1:{port}"
        finally:
            server.terminate()


def _await(url: str) -> None:
    for _ in range(100):
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError:
            time.sleep(0.1)
    raise AssertionError(f"{url} does not answer")


def test_what_is_pushed_is_named_by_the_digest_that_the_registry_holds(folder: Path, registry: str) -> None:
    build(str(folder), word="go")
    target = f"{registry}/team/sglang:1"
    try:
        digest = push_image(f"{NAME}:1", target)
    finally:
        subprocess.run(["docker", "image", "rm", "--force", target], capture_output=True, check=False)
    asked = urllib.request.Request(
        f"http://{registry}/v2/team/sglang/manifests/{digest}",
        headers={"Accept": "application/vnd.oci.image.manifest.v1+json"},
    )
    with urllib.request.urlopen(asked, timeout=10) as answer:
        assert answer.headers["Docker-Content-Digest"] == digest
        assert len(json.load(answer)["layers"]) == 4


def test_a_registry_that_does_not_answer_is_named(folder: Path) -> None:
    build(str(folder), word="go")
    target = f"127.0.0.1:{free_port()}/team/sglang:1"
    try:
        with pytest.raises(KitError) as refused:
            push_image(f"{NAME}:1", target)
    finally:
        subprocess.run(["docker", "image", "rm", "--force", target], capture_output=True, check=False)
    assert (refused.value.code, refused.value.exit_code) == ("push-failed", Exit.BUILD)
    assert refused.value.cause == f"{target} could not be pushed"
    assert "connection refused" in refused.value.evidence[-1]


def test_volumes_of_an_image_that_was_replaced_go_unless_a_container_has_them(folder: Path) -> None:
    build(str(folder), word="go")
    prefix = "kitctl-test-cache-1-"
    names = [f"{prefix}120", f"{prefix}90", f"other-{prefix}120"]
    holder = f"{NAME}-holder"
    try:
        for name in names:
            subprocess.run(["docker", "volume", "create", name], capture_output=True, check=True)
        argv = ["docker", "create", "--name", holder, "--volume", f"{names[1]}:/cache", f"{NAME}:1", "sh"]
        subprocess.run(argv, capture_output=True, check=True)
        assert remove_volumes(prefix) == (names[0],)
    finally:
        subprocess.run(["docker", "rm", "--force", holder], capture_output=True, check=False)
        subprocess.run(["docker", "volume", "rm", "--force", *names], capture_output=True, check=False)
