"""How is the kit's own base image made: which command assembles the distribution's packages?"""

from __future__ import annotations

from kitctl.kit.pins import BaseRecipe
from kitctl.plan.machine_config import AptSource

_NETRC_INSIDE = "/etc/apt/auth.conf.d/machine.conf"


def root_fs_argv(
    base: BaseRecipe,
    *,
    own_sources: tuple[AptSource, ...],
    apt_options: tuple[str, ...],
    netrc_path: str | None,
    target: str,
) -> tuple[str, ...]:
    """The mmdebstrap command that writes the root file system to ``target`` (a tar file).

    The machine's own mirrors and options are used while it runs; the image is left with the recipe's public
    sources. With SOURCE_DATE_EPOCH in the environment the same packages give the same bits.
    """
    sources = own_sources or recipe_sources(base)
    return (
        "mmdebstrap",
        f"--variant={base.variant}",
        "--format=tar",
        "--quiet",
        f"--components={','.join(base.components)}",
        f"--include={','.join(base.packages)}",
        *(f"--aptopt={option}" for option in ('APT::Install-Recommends "false";', *apt_options)),
        *(f"--dpkgopt=path-exclude={path}" for path in base.excluded_paths),
        *(f"--dpkgopt=path-include={path}" for path in base.kept_paths),
        *_netrc_hooks(netrc_path),
        f"--customize-hook={_clean_up(base)}",
        base.suite,
        target,
        *(source.line() for source in sources),
    )


def recipe_sources(base: BaseRecipe) -> tuple[AptSource, ...]:
    """The recipe's public package sources."""
    return tuple(
        AptSource(uri=repository.uri, suite=repository.suite, components=base.components)
        for repository in base.repositories
    )


def _netrc_hooks(netrc_path: str | None) -> tuple[str, ...]:
    if netrc_path is None:
        return ()
    return (
        f'--setup-hook=mkdir -p "$1"/etc/apt/auth.conf.d; cp "{netrc_path}" "$1"{_NETRC_INSIDE}',
        f'--customize-hook=rm -f "$1"{_NETRC_INSIDE}',
    )


def _clean_up(base: BaseRecipe) -> str:
    """A shell line that takes out what differs from build to build or tells of this machine."""
    lines = "\\n".join(source.line() for source in recipe_sources(base))
    gone = (
        "etc/apt/apt.conf.d/99mmdebstrap",
        "etc/resolv.conf",
        "etc/hostname",
        "var/log/*.log",
        "var/log/apt/*",
        "var/cache/ldconfig/aux-cache",
    )
    removed = " ".join(f'"$1"/{path}' for path in gone)
    return f'rm -f {removed}; printf "{lines}\\n" > "$1"/etc/apt/sources.list'
