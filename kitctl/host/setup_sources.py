"""Which parts does a host lack, and which offered package serves each? Pure choices over facts and recipe."""

from __future__ import annotations

from dataclasses import dataclass

from kitctl.host.setup_facts import Offer, SetupFacts, is_at_least, version_key
from kitctl.host.setup_recipe import Distribution, Need, Part, Recipe, Unpacked, Way


@dataclass(frozen=True, kw_only=True)
class Missing:
    """What the host lacks."""

    parts: frozenset[Part]
    compose: bool

    def __bool__(self) -> bool:
        return bool(self.parts) or self.compose


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """A package of a later suite in the version that is used; ``offer`` is ``None`` when it is unpacked already."""

    package: str
    part: Part
    version: str
    offer: Offer | None
    note: str | None = None

    @property
    def folder_name(self) -> str:
        """Its folder's name below the package folder."""
        return f"{self.package}_{self.version}"


def what_is_missing(facts: SetupFacts, recipe: Recipe) -> Missing:
    """The parts that the host lacks or has too old. A running engine is never judged here, only its absence."""
    parts = set()
    if facts.engine.server is None:
        parts.add(Part.ENGINE)
    if facts.engine.client is None:
        parts.add(Part.CLIENT)
    if not is_at_least(plugin_version(facts, "buildx"), recipe.minimum.buildx):
        parts.add(Part.BUILDX)
    distribution = recipe.distribution_of(facts.os.id, facts.os.version)
    if distribution and lacking(facts, recipe, distribution, frozenset({Part.BASE_IMAGE})):
        parts.add(Part.BASE_IMAGE)
    compose_is_old = not is_at_least(plugin_version(facts, "compose"), recipe.minimum.compose)
    return Missing(parts=frozenset(parts), compose=compose_is_old)


def plugin_version(facts: SetupFacts, name: str) -> str | None:
    """The version of a plugin of docker, ``None`` without it."""
    return next((plugin.version for plugin in facts.plugins if plugin.name == name), None)


def lacking(
    facts: SetupFacts, recipe: Recipe, distribution: Distribution, parts: frozenset[Part]
) -> tuple[Need, ...]:
    """The release's own packages that are needed for ``parts`` and not there."""
    needs = recipe.needs[distribution.needs]
    return tuple(need for need in needs if need.part in parts and need.provides not in facts.present)


def wanted_packages(facts: SetupFacts, recipe: Recipe, missing: Missing) -> tuple[Unpacked, ...]:
    """The packages of a later suite that serve the missing parts; an own dockerd makes the engine's needless."""
    distribution = recipe.distribution_of(facts.os.id, facts.os.version)
    if distribution is None or distribution.way is not Way.UNPACK:
        return ()
    parts = missing.parts - ({Part.ENGINE} if facts.dockerd else set())
    return tuple(one for one in recipe.unpacked if one.part in parts)


def choose_package(wanted: Unpacked, facts: SetupFacts, offers: tuple[Offer, ...]) -> Chosen | None:
    """What is unpacked already, else the tried version, else the first offer that is new enough and can run here."""
    there = unpacked_version(wanted, facts)
    if there is not None:
        return Chosen(package=wanted.package, part=wanted.part, version=there, offer=None)
    fit = [offer for offer in offers if offer.package == wanted.package and _fits(offer, wanted, facts)]
    exact = [offer for offer in fit if offer.version == wanted.tried]
    if not fit:
        return None
    offer = (exact or fit)[0]
    note = None if exact else _untried(offer, wanted)
    return Chosen(package=offer.package, part=wanted.part, version=offer.version, offer=offer, note=note)


def _untried(offer: Offer, wanted: Unpacked) -> str:
    return (
        f"{wanted.package} {wanted.tried}, which kitctl was tried with, is no longer offered; "
        f"taking {offer.version} of {offer.suite}"
    )


def _fits(offer: Offer, wanted: Unpacked, facts: SetupFacts) -> bool:
    runs_here = offer.libc is None or is_at_least(facts.libc, offer.libc)
    return runs_here and is_at_least(offer.version, wanted.at_least)


def unpacked_version(wanted: Unpacked, facts: SetupFacts) -> str | None:
    """The tried version if it is unpacked, else the newest unpacked one that will do."""
    prefix = f"{wanted.package}_"
    versions = [name.removeprefix(prefix) for name in facts.unpacked if name.startswith(prefix)]
    good = [version for version in versions if is_at_least(version, wanted.at_least)]
    return wanted.tried if wanted.tried in good else max(good, key=version_key, default=None)


def are_settled(wanted: tuple[Unpacked, ...], facts: SetupFacts, offers: tuple[Offer, ...]) -> bool:
    """Whether every wanted package has a choice, so that no further suite need be asked."""
    return all(choose_package(one, facts, offers) for one in wanted)
