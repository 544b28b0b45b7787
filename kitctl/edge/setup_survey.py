"""Read what ``kitctl setup`` must know of this host. Only reads, but for setup's own apt lists in the cache."""

from __future__ import annotations

import grp
import importlib.util
import os
import shutil
import sys
from pathlib import Path

from kitctl.edge.environment import cache_dir, variable
from kitctl.edge.files import read_text_if_there, write_atomic
from kitctl.edge.process import run_process
from kitctl.host import setup_apt as apt
from kitctl.host import setup_facts as facts_of
from kitctl.host.setup_facts import EngineAnswer, Offers, SetupFacts
from kitctl.host.setup_recipe import Recipe
from kitctl.host.setup_sources import are_settled, wanted_packages, what_is_missing

_PROBE_TIMEOUT_S = 30.0
_LISTS_TIMEOUT_S = 300.0
_OWN_SOCKETS = ("unix:///var/run/docker.sock", "unix:///run/docker.sock")


def setup_cache() -> str:
    """The folder of setup's apt lists."""
    return f"{cache_dir()}/setup"


def survey_host(recipe: Recipe) -> SetupFacts:
    """The facts of this host."""
    system = facts_of.parse_os_release(read_text_if_there(facts_of.OS_RELEASE) or "")
    info = _said(facts_of.DOCKER_PLUGINS) or ""
    distribution = recipe.distribution_of(system.id, system.version)
    indexes = _said(facts_of.INDEX_ADDRESSES) or ""
    return SetupFacts(
        os=system,
        engine=ask_engine(),
        is_root=os.geteuid() == 0,
        may_administer=facts_of.parse_may_administer(read_text_if_there("/proc/self/status") or ""),
        has_systemd=Path("/run/systemd/system").is_dir(),
        has_cgroups=facts_of.parse_has_cgroups(read_text_if_there("/proc/mounts") or ""),
        architecture=facts_of.debian_architecture(os.uname().machine),
        libc=_word(facts_of.LIBC_VERSION),
        plugins=facts_of.parse_plugins(info),
        present=tuple(thing for thing in recipe.things_to_look_for() if _is_there(thing, recipe)),
        unpacked=_names_in(recipe.place.packages),
        packages_broken=bool(_word(facts_of.BROKEN_PACKAGES)),
        has_docker_group=any(group.gr_name == "docker" for group in grp.getgrall()),
        dockerd=facts_of.parse_dockerd_version(_said(facts_of.DOCKERD_VERSION) or ""),
        dockerd_path=shutil.which("dockerd"),
        search_path=os.environ.get("PATH", ""),
        daemon_pids=tuple(
            pid
            for path in (recipe.place.pidfile, recipe.place.other_pidfile)
            if (pid := running_daemon(path)) is not None
        ),
        remote=_remote(info),
        mirror=facts_of.parse_mirror(indexes, distribution.codename) if distribution else None,
        pip=_find_pip(),
    )


def ask_engine() -> EngineAnswer:
    """The answer of the engine that docker is pointed at."""
    asked = run_process(facts_of.DOCKER_VERSION, timeout_s=_PROBE_TIMEOUT_S)
    return facts_of.parse_docker_version(None if asked.exit_code is None else asked.stdout, asked.stderr)


def read_offers(recipe: Recipe, facts: SetupFacts) -> Offers:
    """What the later suites offer, asked one after the other until every wanted package has a choice."""
    wanted = wanted_packages(facts, recipe, what_is_missing(facts, recipe))
    distribution = recipe.distribution_of(facts.os.id, facts.os.version)
    offers = Offers()
    if distribution is None or distribution.keyring is None or facts.mirror is None:
        return offers
    for suite in distribution.suites:
        if are_settled(wanted, facts, offers.packages):
            break
        sources = apt.sources_text(mirror=facts.mirror, suite=suite, keyring=distribution.keyring)
        more = _offers_of(suite, sources, tuple(one.package for one in wanted))
        offers = Offers(
            packages=(*offers.packages, *more.packages), problems=(*offers.problems, *more.problems)
        )
    return offers


def _offers_of(suite: str, sources: str, packages: tuple[str, ...]) -> Offers:
    folder = apt.suite_folder(setup_cache(), suite)
    for needed in apt.folders_of(folder):
        Path(needed).mkdir(parents=True, exist_ok=True)
    write_atomic(f"{folder}/sources.list", sources, mode=0o600)
    write_atomic(apt.config_path(folder), apt.config_text(folder))
    updated = run_process(apt.update_argv(folder), timeout_s=_LISTS_TIMEOUT_S)
    if not updated.ok:
        return Offers(problems=(facts_of.problem_of(suite, updated.failure or updated.stderr),))
    shown = run_process(apt.show_argv(folder, packages), timeout_s=_PROBE_TIMEOUT_S)
    return Offers(packages=facts_of.parse_offers(shown.stdout, suite))


def running_daemon(pidfile: str, *, program: str = "dockerd") -> int | None:
    """The process that ``pidfile`` names, if it lives and is that program."""
    text = (read_text_if_there(pidfile) or "").strip()
    if not text.isdigit():
        return None
    name = (read_text_if_there(f"/proc/{text}/comm") or "").strip()
    return int(text) if name == program else None


def _said(argv: tuple[str, ...]) -> str | None:
    asked = run_process(argv, timeout_s=_PROBE_TIMEOUT_S)
    return None if asked.exit_code is None else asked.stdout


def _word(argv: tuple[str, ...]) -> str | None:
    return (_said(argv) or "").strip() or None


def _is_there(thing: str, recipe: Recipe) -> bool:
    if thing.startswith("/"):
        return Path(thing).exists()
    path = f"{os.environ.get('PATH', '')}:{recipe.daemon.system_path}"
    return shutil.which(thing, path=path) is not None


def _names_in(folder: str) -> tuple[str, ...]:
    where = Path(folder)
    names = sorted(path.name for path in where.iterdir()) if where.is_dir() else []
    return tuple(name for name in names if not name.endswith(".partial"))


def _remote(info: str) -> str | None:
    address = variable("DOCKER_HOST")
    if address is not None:
        return None if address in _OWN_SOCKETS else address
    context = facts_of.parse_context(info)
    return f"the docker context {context}" if context else None


def _find_pip() -> tuple[str, ...] | None:
    if importlib.util.find_spec("pip") is not None:
        return (sys.executable, "-m", "pip")
    if shutil.which("pip3"):
        return ("pip3",)
    return ("uv", "pip") if shutil.which("uv") else None
