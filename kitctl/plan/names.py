"""What is a stack's compose project called, and which names may a user give?"""

from __future__ import annotations

import re

from kitctl.errors import Exit, KitError
from kitctl.plan.types import Request

PROJECT_PREFIX = "kitctl"
REHEARSAL = "rehearsal"
_SEPARATOR = "--"
_NAME = re.compile(r"[A-Za-z0-9]+([._-][A-Za-z0-9]+)*")
_LONGEST = 48


def project_name(request: Request) -> str:
    """The compose project: stack, ``--name`` and rehearsal, so that several run side by side.

    Two dashes stand between them, which no single name may hold: ``ep4`` named ``dflash`` is not ``ep4-dflash``.
    Raises KitError ``bad-name`` (exit 2).
    """
    words = [project_word(request.stack, what="STACK")]
    if request.name is not None:
        words.append(_own_name(request.name))
    if request.rehearse:
        words.append(REHEARSAL)
    return f"{PROJECT_PREFIX}-{_SEPARATOR.join(words)}"


def project_words(project: str) -> str:
    """How a user names the project of ``project_name``: ``cpu-demo --name fresh``, ``cpu-demo --rehearse``."""
    stack, *more = project.removeprefix(f"{PROJECT_PREFIX}-").split(_SEPARATOR)
    return " ".join([stack, *("--rehearse" if word == REHEARSAL else f"--name {word}" for word in more)])


def project_word(text: str, *, what: str) -> str:
    """``text`` as it stands in a project's name: lower case, with dashes. Raises KitError ``bad-name`` (exit 2)."""
    if not _NAME.fullmatch(text) or len(text) > _LONGEST:
        raise KitError(
            "bad-name",
            f"{what} {text!r} is no name: letters and digits, with single dashes, dots or underscores between them",
            evidence=(f"at most {_LONGEST} characters; it names containers, networks and folders",),
            remedy=f"choose another {what}",
            exit_code=Exit.USAGE,
        )
    return plain_word(text)


def plain_word(text: str) -> str:
    """Lower case, with dashes for dots and underscores: two names that differ in these alone are one project."""
    return re.sub(r"[._]", "-", text.lower())


def _own_name(text: str) -> str:
    word = project_word(text, what="--name")
    if word == REHEARSAL:
        raise KitError(
            "bad-name",
            f"--name {text} is what the rehearsal of a stack is called",
            remedy="choose another --name",
            exit_code=Exit.USAGE,
        )
    return word
