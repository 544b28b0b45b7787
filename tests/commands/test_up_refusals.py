"""What ``kitctl up`` refuses: the exit code, the whole message, and that nothing was started."""

import os
import shutil
import socket
from pathlib import Path

import pytest
from kitctl_process import KIT, KitUser

pytestmark = pytest.mark.docker


def refusal(user: KitUser, *words: str, exit_code: int, **more: object) -> list[str]:
    """stderr of a refused command, after its exit code was as expected and nothing was left."""
    done = user.run(*words, **more)
    assert done.returncode == exit_code, done.stderr + done.stdout
    assert (done.stdout, user.containers(), user.networks()) == ("", [], [])
    assert list(user.state.glob("runs/*")) == []
    return done.stderr.splitlines()


def test_unknown_stack_gets_its_near_name(kit_user: KitUser) -> None:
    assert refusal(kit_user, *kit_user.up(stack="cpu-dmo"), exit_code=2) == [
        "kitctl: there is no stack named 'cpu-dmo' (unknown-stack)",
        "  seen: did you mean 'cpu-demo'?",
        "  do:   choose one that 'kitctl stacks' prints",
    ]


def test_a_bad_key_in_a_stack_file_is_named_with_its_place(kit_user: KitUser) -> None:
    text = "summary: mine\nmodel: kitctl/demo\nimage: {stage: cpu}\nengine: {context_lenght: 1}\n"
    kit_user.write_config("stacks/mine.yaml", text)
    assert refusal(kit_user, *kit_user.up(stack="mine"), exit_code=2) == [
        "kitctl: ~config/stacks/mine.yaml: engine.context_lenght: unknown key (bad-stack)",
        "  seen: did you mean 'context_length'?",
        "  do:   mend engine.context_lenght in ~config/stacks/mine.yaml",
    ]


@pytest.mark.parametrize("name", ["../x", "a b", "x/../y", "ä", "-x", "a--b", "rehearsal", "x" * 60])
def test_a_name_that_is_none_is_refused(kit_user: KitUser, name: str) -> None:
    said = refusal(kit_user, "up", "cpu-demo", f"--name={name}", exit_code=2)
    assert said[0].endswith("(bad-name)")
    assert list(kit_user.home.rglob("*.lock")) == []


def test_no_engine(kit_user: KitUser) -> None:
    env = kit_user.env | {"DOCKER_HOST": "unix:///nowhere/docker.sock"}
    said = refusal(kit_user, *kit_user.up(), exit_code=10, env=env)
    assert said == [
        "kitctl: no container engine answers (engine-unreachable)",
        "  seen: Error while fetching server API version: "
        "('Connection aborted.', FileNotFoundError(2, 'No such file or directory'))",
        "  do:   kitctl setup brings a bare host to a working engine; --host or DOCKER_HOST names another",
    ]


def test_an_unknown_docker_context(kit_user: KitUser) -> None:
    said = refusal(kit_user, *kit_user.up("--host", "nosuch"), exit_code=2)
    assert said[0] == "kitctl: docker knows no context nosuch (unknown-context)"


def test_no_docker_command_on_the_path(kit_user: KitUser, stub: str, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    env = kit_user.env | {"PATH": str(tmp_path / "bin")}
    done = kit_user.run(*kit_user.up("--image", stub), env=env)
    assert (done.returncode, kit_user.leftovers(), done.stderr) == (3, [], "")
    assert done.stdout.splitlines() == [
        "BLOCK docker-daemon-down [engine]: the container engine does not answer",
        "      seen: docker info: docker is not there",
        "      do:   start it (systemctl start docker), or name another with --host; 'kitctl setup' installs one",
        "cpu-demo: refused; nothing was fetched, built or started",
    ]


def test_a_gpu_stack_on_an_engine_without_gpus(kit_user: KitUser) -> None:
    said = kit_user.json(*kit_user.up(stack="ep4-dflash"), exit_code=3)
    blocked = {found["code"] for found in said["plan"]["findings"] if found["severity"] == "block"}
    assert (said["schema"], said["outcome"], "gpus-unknown" in blocked) == ("kitctl.up/1", "refused", True)
    assert (kit_user.leftovers(), list(kit_user.state.glob("runs/*"))) == ([], [])


def test_a_port_in_use_is_refused_with_who_holds_it(kit_user: KitUser, stub: str) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", kit_user.port))
        holder.listen()
        said = kit_user.json(*kit_user.up("--image", stub), exit_code=3)
    blocks = [found for found in said["plan"]["findings"] if found["severity"] == "block"]
    assert [found["code"] for found in blocks] == ["port-taken-by-host-process"]
    assert str(kit_user.port) in blocks[0]["cause"]
    assert str(os.getpid()) in " ".join([blocks[0]["cause"], *blocks[0]["evidence"]])
    assert kit_user.containers() == []


def test_a_missing_image_with_no_build(kit_user: KitUser, tmp_path: Path) -> None:
    kit = tmp_path / "kit"
    shutil.copytree(KIT / "compose", kit / "compose")
    shutil.copytree(KIT / "images", kit / "images")
    shutil.copy(KIT / "models.lock", kit)
    lock = kit / "images/sglang/0.5.16/constraints.txt"
    lock.write_text(lock.read_text() + "# another lock, another image\n")
    said = refusal(kit_user, *kit_user.up("--no-build", "--kit", str(kit)), exit_code=3)
    assert said[0].startswith("kitctl: the image kitctl/sglang:0.5.16-13.0-cpu-")
    assert said[0].endswith(" is not on this engine (image-missing)")
    assert said[-1] == "  do:   kitctl build, or up without --no-build"


def test_a_foreign_image_that_is_missing_is_never_pulled(kit_user: KitUser) -> None:
    assert refusal(kit_user, *kit_user.up("--image", "nosuch/image:1"), exit_code=3) == [
        "kitctl: the image nosuch/image:1 is not on this engine (image-missing)",
        "  do:   docker pull nosuch/image:1, then up again",
    ]


def test_flags_that_the_plan_owns_are_refused(kit_user: KitUser) -> None:
    assert refusal(kit_user, *kit_user.up("--", "--port=1"), exit_code=2) == [
        "kitctl: --port is set by the plan and may not be given after -- (flag-owned-by-kitctl)",
        "  do:   change the stack's setting instead: --set engine.…=…, --port, --bind or --api-key-file",
    ]


@pytest.mark.parametrize(
    "key", ["command", "devices", "ports", "volumes", "image", "entrypoint", "gpus", "deploy"]
)
def test_an_overlay_may_not_carry_what_the_stack_carries(kit_user: KitUser, key: str) -> None:
    kit_user.write_config(
        "overlays/mine.yaml", f"services: {{engine: {{{key}: [x]}}}}\nx-kitctl: {{summary: s}}\n"
    )
    assert refusal(kit_user, *kit_user.up("--add", "mine"), exit_code=2) == [
        f"kitctl: ~config/overlays/mine.yaml: services.engine.{key} may not stand in an overlay (bad-overlay)",
        "  seen: compose replaces command and appends devices, ports and mounts of merged files",
        f"  do:   remove services.engine.{key} from ~config/overlays/mine.yaml; the rendered stack carries it",
    ]


def test_an_overlay_that_changes_the_start_by_a_side_door_is_refused(kit_user: KitUser, stub: str) -> None:
    text = "services: {engine: {init: false}}\nx-kitctl: {summary: no init}\n"
    kit_user.write_config("overlays/noinit.yaml", text)
    done = kit_user.run(*kit_user.up("--image", stub, "--add", "noinit"))
    assert (done.returncode, kit_user.leftovers()) == (3, [])
    assert done.stderr.splitlines()[-3:] == [
        "kitctl: the merged compose project is not what was planned (not-as-planned)",
        "  seen: init: planned True, merged False",
        "  do:   take the differing keys out of the overlays cpu, noinit",
    ]


def test_an_unreadable_key_file(kit_user: KitUser, stub: str) -> None:
    done = kit_user.run(*kit_user.up("--image", stub, "--bind", "0.0.0.0", "--api-key-file", "/nowhere/key"))
    assert (done.returncode, kit_user.leftovers()) == (2, [])
    assert "/nowhere/key cannot be read" in done.stderr


def test_an_address_beyond_loopback_needs_a_key(kit_user: KitUser, stub: str) -> None:
    said = kit_user.json(*kit_user.up("--image", stub, "--bind", "0.0.0.0"), exit_code=3)
    blocks = [found for found in said["plan"]["findings"] if found["severity"] == "block"]
    assert [(found["code"], found["cause"]) for found in blocks] == [
        ("exposed-without-key", f"the stack would answer anyone who reaches 0.0.0.0:{kit_user.port}")
    ]
