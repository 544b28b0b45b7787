"""How is a host reached over ssh, which words are said there first, and what does its answer mean?

The first words are one POSIX shell script: it finds a Python, looks whether kitctl lies there already, and becomes
the agent that starts and follows kitctl there. What a login shell prints before is passed over.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from kitctl.errors import Exit, KitError

MARK = "kitctl-line:"
READY = "ready"
MISSING = "missing"
NO_PYTHON = "no-python"
OLDEST_PYTHON = (3, 11)
_LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
_ADDRESS = re.compile(
    r"(?P<scheme>[a-z]+)://(?:(?P<user>[^@/]*)@)?(?P<host>\[[^\]]*\]|[^:/?#]*)(?::(?P<port>[^/?#]*))?(?P<path>/[^?#]*)?"
)
_MOST_PORT = 65535
_PYTHONS = ("python3", "python3.14", "python3.13", "python3.12", "python3.11", "$HOME/.local/bin/python3")


@dataclass(frozen=True, kw_only=True)
class SshHost:
    """A host that ssh reaches by the user's own configuration. ``socket``: the engine's, when it is not the default."""

    host: str
    user: str | None = None
    port: int | None = None
    socket: str | None = None

    @property
    def destination(self) -> str:
        """What ssh is told: ``user@host``."""
        return f"{self.user}@{self.host}" if self.user else self.host

    @property
    def typed(self) -> str:
        """The ssh command that a person would type to log in."""
        return f"ssh {self.words}"

    @property
    def words(self) -> str:
        """Port and destination, as ssh's last words."""
        return f"-p {self.port} {self.destination}" if self.port else self.destination

    @property
    def address(self) -> str:
        """As ``--host`` takes it."""
        port = f":{self.port}" if self.port else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"ssh://{f'{self.user}@' if self.user else ''}{host}{port}{self.socket or ''}"


def read_address(address: str, *, api_is_enough: bool = False) -> SshHost | None:
    """The host of an ``ssh://`` address; ``None`` for an engine of this machine, or whose API is all that is needed.

    Raises KitError ``bad-address`` (exit 2) for one that ssh could not take, ``engine-without-host`` (exit 10) for
    an engine on another machine that only its API reaches.
    """
    found = _ADDRESS.match(address)
    if found is not None and found["scheme"] == "ssh":
        return _ssh_host(address)
    host = found["host"].strip("[]") if found is not None else ""
    if host and host not in _LOCAL_NAMES and not api_is_enough:
        raise KitError(
            "engine-without-host",
            f"{address} is the engine of another machine, and its API shows neither that machine's model store nor "
            "its ports, driver and kernel log",
            evidence=("kitctl works where it can read the host: on it, or on it through ssh",),
            remedy=f"name the host by ssh: --host ssh://USER@{host}",
            exit_code=Exit.UNREACHABLE,
        )
    return None


def _ssh_host(address: str) -> SshHost:
    found = _ADDRESS.fullmatch(address)
    host = found["host"].strip("[]") if found else ""
    user, port = (found["user"], found["port"] or "") if found else (None, "")
    bad_port = bool(port) and not (port.isdigit() and 0 < int(port) <= _MOST_PORT)
    if not host or host.startswith("-") or bad_port or re.search(r"^-|[:\s]", user or ""):
        raise KitError(
            "bad-address",
            f"{address} is no address that ssh could take",
            remedy="write it as ssh://USER@HOST or ssh://USER@HOST:PORT",
            exit_code=Exit.USAGE,
        )
    path = found["path"] if found and found["path"] not in (None, "/") else None
    return SshHost(host=host, user=user or None, port=int(port) if port else None, socket=path)


def ssh_argv(host: SshHost, command: str, *, connect_s: float) -> tuple[str, ...]:
    """``ssh`` with the user's own configuration and keys; it never asks, and notices a dropped line by itself."""
    quiet = ("-o", "BatchMode=yes", "-o", f"ConnectTimeout={connect_s:g}", "-T")
    alive = ("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3")
    port = ("-p", str(host.port)) if host.port else ()
    return ("ssh", *quiet, *alive, *port, "--", host.destination, command)


def agent_command(code: str, libraries: str) -> str:
    """The command that says ``ready`` and becomes the agent, or says what is ``missing`` there.

    ``code`` and ``libraries`` are the keys of kitctl and of what it imports, as they lie in the remote's cache.
    """
    return _in_login_shell(_FIND_PYTHON + _AGENT.replace("@CODE@", code).replace("@LIBRARIES@", libraries))


def unpack_command(folder: str) -> str:
    """The command that unpacks a tar from its input into ``folder`` of the remote's cache, whole or not at all."""
    return _in_login_shell(_BASE + _UNPACK.replace("@FOLDER@", folder))


def _in_login_shell(script: str) -> str:
    """Run by the login shell, so that PATH, HF_HOME and the like are as when the user logs in."""
    inner = 'exec sh -c "$KITCTL_BOOT"'
    outer = (
        f"case ${{SHELL##*/}} in bash|zsh|ksh|dash|sh|fish) exec \"$SHELL\" -lc '{inner}';; *) {inner};; esac"
    )
    return f"env KITCTL_BOOT={shlex.quote(script)} sh -c {shlex.quote(outer)}"


_BASE = 'unset KITCTL_BOOT; umask 077; base="${XDG_CACHE_HOME:-$HOME/.cache}/kitctl/remote"; '
_FIND_PYTHON = (
    _BASE
    + "for p in "
    + " ".join(f'"{name}"' for name in _PYTHONS)
    + '; do tag=$("$p" -I -c \'import platform as p, sys; sys.version_info >= '
    + f"{OLDEST_PYTHON!r}"
    + ' or sys.exit(1); v = sys.version_info; print("-".join((p.python_implementation().lower(), '
    + 'f"{v[0]}.{v[1]}", p.system().lower(), p.machine(), p.libc_ver()[0] or "musl")))\' 2>/dev/null) '
    + '&& break; p=; done; if [ -z "$p" ]; then echo "'
    + f'{MARK} {NO_PYTHON} $(python3 --version 2>&1)"; exit 0; fi; '
)
_AGENT = (
    'code="$base/code-@CODE@"; lib="$base/lib-@LIBRARIES@-$tag"; '
    f'if [ -d "$code" ] && [ -d "$lib" ]; then touch "$code" "$lib"; '
    'PYTHONPATH="$code:$lib" PYTHONUTF8=1 PYTHONSAFEPATH=1 exec "$p" -s -m kitctl.edge.remote_job; fi; '
    'w=; [ -d "$code" ] || w="$w code"; [ -d "$lib" ] || w="$w lib"; '
    f'echo "{MARK} {MISSING} $tag$w"'
)
_UNPACK = (
    'to="$base/@FOLDER@"; mkdir -p "$base"; if [ -d "$to" ]; then cat >/dev/null; exit 0; fi; '
    'half=$(mktemp -d "$base/.half-XXXXXX") && tar -xzf - -C "$half" && chmod 700 "$half" && '
    'find "$base" -mindepth 1 -maxdepth 1 \\( -name "code-*" -o -name "lib-*" -o -name ".half-*" \\) '
    '-mtime +30 -exec rm -rf {} + ; mv "$half" "$to" 2>/dev/null || { rm -rf "$half"; [ -d "$to" ]; }'
)


def unreachable_host(host: SshHost, said: str) -> KitError:
    """The error for a host that ssh does not reach, with what mends it."""
    if "Host key verification failed" in said:
        remedy = f"{host.typed}, once, to see and accept its key"
    elif "Permission denied" in said:
        remedy = f"{host.typed} must let you in without a question: ssh-copy-id, or ssh-add for a key with a passphrase"
    else:
        remedy = f"{host.typed} must work first; {host.typed} -v says where it stops"
    return KitError(
        "host-unreachable",
        f"ssh does not reach {host.destination}",
        evidence=(said or "ssh ended without a word",),
        remedy=remedy,
        exit_code=Exit.UNREACHABLE,
    )


def no_python(host: SshHost, said: str) -> KitError:
    """The error for a host without a Python that runs kitctl."""
    wanted = ".".join(map(str, OLDEST_PYTHON))
    return KitError(
        "remote-without-python",
        f"{host.destination} has no Python {wanted} or newer, which kitctl needs there",
        evidence=(said or "no python3 on its PATH",),
        remedy=f"install one there: apt-get install python3 on Debian 12, Ubuntu 24.04 and newer, python{wanted} "
        "on Ubuntu 22.04 and RHEL 9",
        exit_code=Exit.UNREACHABLE,
    )
