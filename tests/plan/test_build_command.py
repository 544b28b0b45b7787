"""A build request becomes one docker command that holds no secret and no proxy's address."""

from kitctl.plan.build import Base, BaseKind, BuildRequest
from kitctl.plan.build_command import build_argv, plain_build_argv, pushed_digest

REQUEST = BuildRequest(
    image="sglang", release="1", stage="gpu", reference="kitctl/sglang:1", pins_hash="p", inputs_hash="i",
    base=Base(reference="b", kind=BaseKind.KIT), platform="linux/amd64", build_args={"BASE": "b"}, labels={"a": "c d"},
)  # fmt: skip
DIGEST = "sha256:" + "0f" * 32


def test_every_part_of_the_request_is_an_argument() -> None:
    argv = build_argv(
        REQUEST,
        context_dir="images/sglang",
        pins_dir="images/sglang/1",
        secret_files={"netrc": "/tmp/x/netrc"},
        proxies=("https_proxy",),
        use_cache=False,
        plain=True,
    )
    assert argv == (
        "docker", "buildx", "build", "--network", "host", "--provenance=false", "--target", "gpu",
        "--platform", "linux/amd64", "--build-arg", "BASE=b", "--build-arg", "https_proxy",
        "--build-context", "pins=images/sglang/1", "--label", "a=c d", "--secret", "id=netrc,src=/tmp/x/netrc",
        "--output", "type=image,name=kitctl/sglang:1,compression=zstd,compression-level=1",
        "--no-cache", "--progress", "plain", "images/sglang",
    )  # fmt: skip


def test_a_plain_folder_needs_no_stage() -> None:
    assert plain_build_argv("x", reference="y:1", build_args={}, plain=False) == (
        "docker", "buildx", "build", "--network", "host", "--provenance=false",
        "--output", "type=image,name=y:1", "x",
    )  # fmt: skip


def test_the_digest_is_the_one_that_the_registry_named() -> None:
    assert pushed_digest(f"abc: Pushed\n1: digest: {DIGEST} size: 2\n") == DIGEST
    assert pushed_digest("abc: Pushed\n") is None
