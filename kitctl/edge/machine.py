"""Read this machine's package configuration: pip's and apt's settings, passwords, certificates, proxies."""

from __future__ import annotations

import configparser
import os
from pathlib import Path

from kitctl.edge.process import run_process
from kitctl.plan.machine_config import MachineConfig

_PROXIES = ("http_proxy", "https_proxy", "no_proxy", "all_proxy", "ftp_proxy")
_CA_VARIABLES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


def read_machine_config() -> MachineConfig:
    """What this machine's pip, apt and environment say; what is absent or unreadable is left out."""
    pip = _pip_settings()
    return MachineConfig(
        index_url=_variable("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL") or pip.get("index-url"),
        extra_index_urls=tuple(
            (_variable("PIP_EXTRA_INDEX_URL") or pip.get("extra-index-url") or "").split()
        ),
        trusted_hosts=tuple((_variable("PIP_TRUSTED_HOST") or pip.get("trusted-host") or "").split()),
        apt_options=_apt_options(),
        apt_sources=_apt_sources(),
        netrc=_text(os.environ.get("NETRC") or str(Path.home() / ".netrc")),
        ca_bundle=_text(_variable(*_CA_VARIABLES) or pip.get("cert")),
        proxies=_proxies(),
    )


def netrc_path() -> str | None:
    """The password file's path, or ``None`` without one."""
    path = Path(os.environ.get("NETRC") or Path.home() / ".netrc")
    return str(path) if path.is_file() else None


def _pip_settings() -> dict[str, str]:
    """pip's ``[global]`` and ``[install]`` settings, later files winning, in pip's own order."""
    home = Path.home()
    places = [
        Path("/etc/xdg/pip/pip.conf"),
        Path("/etc/pip.conf"),
        home / ".pip" / "pip.conf",
        Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "pip" / "pip.conf",
        *([Path(os.environ["PIP_CONFIG_FILE"])] if os.environ.get("PIP_CONFIG_FILE") else []),
    ]
    parser = configparser.RawConfigParser(strict=False)
    parser.read([str(path) for path in places if path.is_file()], encoding="utf-8")
    settings: dict[str, str] = {}
    for section in ("global", "install"):
        if parser.has_section(section):
            settings.update(parser.items(section))
    return settings


def _apt_options() -> tuple[str, ...]:
    dumped = run_process(("apt-config", "dump"), timeout_s=20)
    return tuple(dumped.stdout.splitlines()) if dumped.ok else ()


def _apt_sources() -> dict[str, str]:
    folder = Path("/etc/apt")
    parts = folder / "sources.list.d"
    files = [folder / "sources.list", *sorted(parts.glob("*.list")), *sorted(parts.glob("*.sources"))]
    return {path.name: text for path in files if (text := _text(str(path))) is not None}


def _proxies() -> dict[str, str]:
    both = [*_PROXIES, *(name.upper() for name in _PROXIES)]
    return {name: os.environ[name] for name in both if os.environ.get(name)}


def _variable(*names: str) -> str | None:
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def _text(path: str | None) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8") if path else None
    except (OSError, UnicodeDecodeError):
        return None
