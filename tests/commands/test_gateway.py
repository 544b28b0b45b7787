"""The gateway add-on before the real engine: what a stranger, a client and a scan find."""

from __future__ import annotations

import json
import re
import socket
import ssl
import subprocess
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import requests
from debian_image import import_program
from kitctl_process import KIT, KitUser, docker, free_port, is_open, new_user
from openai import OpenAI

pytestmark = [pytest.mark.docker, pytest.mark.slow]
KEY = "0123456789abcdef0123456789abcdef"
IMAGE = f"kitctl-test-haproxy:{uuid.uuid4().hex[:8]}"
ROUTES = [
    line
    for line in (KIT / "compose/addons/gateway/routes.lst").read_text().splitlines()
    if not line.startswith("#")
]
NOT_HERE = "not served here"


@dataclass(frozen=True, kw_only=True)
class Face:
    """A stack behind its gateway: the user who runs it, its public port, its certificate."""

    user: KitUser
    port: int
    certificate: Path

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"

    def ask(self, method: str, path: str, *, key: str | None = None, **more: Any) -> requests.Response:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return requests.request(
            method, self.url + path, headers=headers, verify=str(self.certificate), timeout=60, **more
        )

    def container(self, service: str) -> str:
        (name,) = [one for one in self.user.containers() if f"-{service}-" in one]
        return name


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """HAProxy as Debian packages it, in an image of its own."""
    work = tmp_path_factory.mktemp("haproxy")
    import_program(IMAGE, package="haproxy", program="usr/sbin/haproxy", work=work, name="haproxy")
    yield IMAGE
    docker("rmi", "-f", IMAGE)


@pytest.fixture(scope="module")
def face(image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Face]:
    home = tmp_path_factory.mktemp("gateway")
    cert, key = home / "c.pem", home / "k.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", cert],
        check=True, capture_output=True,
    )  # fmt: skip
    (home / "api-key").write_text(KEY + "\n")
    with new_user(home) as user:
        user.write_config("addon-images.yaml", f"haproxy: {{reference: '{image}'}}\n")
        port = free_port()
        done = user.run(
            *user.up("--add", "gateway", "--bind", "0.0.0.0", "--api-key-file", str(home / "api-key")),
            *("--tls-cert", str(cert), "--tls-key", str(key), "--set", f"serve.ports.gateway={port}"),
            timeout_s=900,
        )
        assert done.returncode == 0, done.stderr + done.stdout
        assert f"gateway: https://0.0.0.0:{port}" in done.stdout
        assert "addon-image-unlocked" in done.stdout
        yield Face(user=user, port=port, certificate=cert)


@pytest.fixture(scope="module")
def engine_routes(face: Face) -> list[tuple[str, str]]:
    """Method and path of all that the live engine serves, as it says itself on the operator's port."""
    url = f"http://127.0.0.1:{face.user.port}/openapi.json"
    told = requests.get(url, headers={"Authorization": f"Bearer {KEY}"}, timeout=30).json()
    found = [(method.upper(), path) for path, methods in told["paths"].items() for method in methods]
    assert len(found) > 60
    return [*found, ("GET", "/metrics"), ("GET", "/metrics/"), ("GET", "/docs"), ("GET", "/openapi.json")]


def test_without_a_key_nothing_but_the_gateways_own_life_is_told(
    face: Face, engine_routes: list[tuple[str, str]]
) -> None:
    for key in (None, "wrong", KEY[:-1], f"{KEY}x", KEY.upper()):
        answers = {face.ask(method, path, key=key, json={}).status_code for method, path in engine_routes}
        assert answers == {401}
    assert face.ask("GET", "/gateway/alive").text == "alive\n"


def test_with_a_key_only_the_public_routes_reach_the_engine(
    face: Face, engine_routes: list[tuple[str, str]]
) -> None:
    let_through = set()
    for method, path in engine_routes:
        route = f"{method} {path.replace('{model}', 'demo')}"
        is_public = any(re.search(pattern, route) for pattern in ROUTES)
        if is_public:
            let_through.add(route)
            continue
        answer = face.ask(method, path, key=KEY, json={})
        assert (answer.status_code, NOT_HERE in answer.text) == (404, method != "HEAD"), route
    assert {"POST /v1/chat/completions", "POST /generate", "GET /v1/models"} <= let_through
    assert len(let_through) == len(ROUTES), "routes.lst names what the engine does not serve"
    for word in (
        "metrics",
        "flush",
        "weights",
        "profile",
        "abort",
        "info",
        "lora",
        "session",
        "memory",
        "load",
    ):
        assert not [route for route in let_through if word in route]


@pytest.mark.parametrize(
    "path",
    ["/v1/../metrics", "//metrics", "/v1/models/../../metrics", "/v1/models/%2e%2e/metrics", "/v1/models/x%2f..",
     "/metrics?x=/v1/models", "/metrics;/v1/models", "/METRICS", "/v1/models/demo/../../../flush_cache"],
)  # fmt: skip
def test_no_spelling_leads_around_the_list(face: Face, path: str) -> None:
    """Sent as it is: clients tidy paths up."""
    context = ssl.create_default_context(cafile=str(face.certificate))
    with (
        socket.create_connection(("127.0.0.1", face.port), timeout=20) as raw,
        context.wrap_socket(raw, server_hostname="localhost") as wire,
    ):
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\nConnection: close\r\n\r\n"
        wire.sendall(head.encode())
        said = b"".join(iter(lambda: wire.recv(65536), b"")).decode()
    assert said.startswith("HTTP/1.1 404") and NOT_HERE in said


def test_an_openai_client_is_served_over_tls_word_by_word(
    face: Face, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(face.certificate))
    with OpenAI(base_url=f"{face.url}/v1", api_key=KEY, max_retries=0) as client:
        assert [model.id for model in client.models.list()] == ["demo"]
        parts = client.chat.completions.create(
            model="demo",
            messages=[{"role": "user", "content": "Does this stack answer?"}],
            stream=True,
            temperature=0,
        )
        words = [part.choices[0].delta.content or "" for part in parts if part.choices]
    assert "".join(words).startswith("Yes: the engine is up")
    assert len([word for word in words if word]) > 2


def test_a_key_in_the_header_of_other_clients_counts_too(face: Face) -> None:
    found = requests.get(
        f"{face.url}/v1/models", headers={"x-api-key": KEY}, verify=str(face.certificate), timeout=30
    )
    assert found.status_code == 200


def test_plain_http_and_old_tls_are_refused(face: Face) -> None:
    with pytest.raises(requests.RequestException):
        requests.get(f"http://127.0.0.1:{face.port}/gateway/alive", timeout=10)
    old = subprocess.run(
        ["openssl", "s_client", "-connect", f"127.0.0.1:{face.port}", "-tls1_1", "-cipher", "ALL:@SECLEVEL=0"],
        input="", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert old.returncode != 0 or "Cipher is (NONE)" in old.stdout


def open_ports(address: str) -> set[int]:
    """A scan of all TCP ports of ``address``."""
    with ThreadPoolExecutor(64) as pool:
        found = pool.map(partial(is_open, address=address), range(1, 65536), chunksize=256)
        return {port for port, opened in enumerate(found, 1) if opened}


def tells_of_an_engine(address: str, port: int) -> bool:
    """Whether somebody without a key reads an engine's metrics there."""
    try:
        return "sglang" in requests.get(f"http://{address}:{port}/metrics", timeout=5).text
    except requests.RequestException:
        return False


def outer_address() -> str:
    """An address of this machine that is not loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.250", 9))
        return str(probe.getsockname()[0])


def test_a_scan_from_outside_finds_the_gateways_port_and_no_engine(face: Face) -> None:
    address = outer_address()
    assert not address.startswith("127.")
    found = open_ports(address)
    assert face.port in found
    assert face.user.port not in found
    assert [port for port in found - {face.port} if tells_of_an_engine(address, port)] == []
    assert tells_of_an_engine("127.0.0.1", face.user.port), "the question finds an engine where there is one"


def test_a_container_of_somebody_else_does_not_reach_the_engine(face: Face) -> None:
    """The same question from the inner network is answered, so that it is the network that refuses it."""
    inspected = json.loads(docker("inspect", face.container("engine")))[0]
    ((inner, network),) = inspected["NetworkSettings"]["Networks"].items()
    assert not any(inspected["NetworkSettings"]["Ports"].values())
    url = f"http://{network['IPAddress']}:30000/metrics"
    code = f"import urllib.request as r; print('sglang' in r.urlopen('{url}', timeout=5).read().decode())"

    def ask_from(where: str) -> subprocess.CompletedProcess[str]:
        argv = ["docker", "run", "--rm", "--network", where, "--entrypoint", "python", inspected["Image"]]
        return subprocess.run([*argv, "-c", code], capture_output=True, text=True, check=False)

    assert ask_from(inner).stdout == "True\n"
    elsewhere = f"{face.user.name}-elsewhere"
    docker("network", "create", elsewhere)
    try:
        stranger = ask_from(elsewhere)
    finally:
        docker("network", "rm", elsewhere)
    assert (stranger.returncode, stranger.stdout, "urlopen error" in stranger.stderr) == (1, "", True)


def test_the_engine_has_no_way_out(face: Face) -> None:
    code = f"import socket; socket.create_connection(('{outer_address()}', {face.port}), 3)"
    tried = subprocess.run(
        ["docker", "exec", face.container("engine"), "python", "-c", code],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Network is unreachable" in tried.stderr


def test_the_gateway_is_locked_down_too(face: Face) -> None:
    config = json.loads(docker("inspect", face.container("gateway")))[0]
    host = config["HostConfig"]
    assert (host["ReadonlyRootfs"], host["CapDrop"], host["CapAdd"], host["Privileged"]) == (
        True,
        ["ALL"],
        None,
        False,
    )
    assert (host["SecurityOpt"], config["Config"]["User"]) == (["no-new-privileges:true"], "10002:10002")
    status = docker("top", face.container("gateway"), "-eo", "pid,uid,comm").splitlines()[1:]
    assert {line.split()[1] for line in status} == {"10002"}


def test_the_key_and_the_certificates_key_are_told_nowhere(face: Face) -> None:
    secrets = [KEY, "PRIVATE KEY"]
    run = json.loads((next((face.user.state / "runs").iterdir()) / "record.json").read_text())
    told = json.dumps(run) + "".join(
        subprocess.run(["docker", verb, name], capture_output=True, text=True, check=True).stdout
        for name in face.user.containers()
        for verb in ("inspect", "logs")
    )
    told += "".join(
        face.user.run(verb, "cpu-demo", "--name", face.user.name).stdout for verb in ("status", "logs")
    )
    assert [secret for secret in secrets if secret in told] == []
    folder = Path(run["folder"])
    assert folder.stat().st_mode & 0o077 == 0


def test_an_engine_that_was_restarted_is_found_again(face: Face) -> None:
    done = face.user.run("restart", "cpu-demo", "--name", face.user.name, timeout_s=300)
    assert done.returncode == 0, done.stderr
    assert face.ask("GET", "/v1/models", key=KEY).status_code == 200


def test_up_again_changes_nothing_and_down_leaves_nothing(face: Face) -> None:
    words = ["--add", "gateway", "--bind", "0.0.0.0", "--api-key-file", str(face.user.home / "api-key"),
             "--tls-cert", str(face.certificate), "--tls-key", str(face.user.home / "k.pem")]  # fmt: skip
    again = face.user.json(*face.user.up(*words, "--set", f"serve.ports.gateway={face.port}"))
    assert again["outcome"] == "already-up"
    assert face.user.run("down", "cpu-demo", "--name", face.user.name).returncode == 0
    assert face.user.leftovers() == []
