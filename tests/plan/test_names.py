"""Projects are named so that no two stacks, copies or rehearsals share one, and no name leaves its folder."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitctl.errors import Exit, KitError
from kitctl.plan.names import project_name, project_words
from kitctl.plan.types import Request

NAMES = st.from_regex(r"[a-z0-9]{1,4}(-[a-z0-9]{1,4}){0,2}", fullmatch=True)


@pytest.mark.parametrize(
    ("request_", "project"),
    [
        (Request(stack="ep4"), "kitctl-ep4"),
        (Request(stack="ep4", name="dflash"), "kitctl-ep4--dflash"),
        (Request(stack="ep4-dflash"), "kitctl-ep4-dflash"),
        (Request(stack="ep4", rehearse=True), "kitctl-ep4--rehearsal"),
        (Request(stack="ep4", name="b", rehearse=True), "kitctl-ep4--b--rehearsal"),
        (Request(stack="My_K2.6"), "kitctl-my-k2-6"),
    ],
)
def test_project_of_a_request(request_: Request, project: str) -> None:
    assert project_name(request_) == project


@given(NAMES, NAMES | st.none(), st.booleans())
def test_a_project_is_said_as_it_is_typed(stack: str, name: str | None, rehearse: bool) -> None:
    if name == "rehearsal":
        return
    typed = [stack, *(["--name", name] if name else []), *(["--rehearse"] if rehearse else [])]
    project = project_name(Request(stack=stack, name=name, rehearse=rehearse))
    assert project_words(project).split(" ") == typed


@given(NAMES, NAMES | st.none(), st.booleans(), NAMES, NAMES | st.none(), st.booleans())
def test_different_requests_have_different_projects(
    stack: str, name: str | None, rehearse: bool, stack2: str, name2: str | None, rehearse2: bool
) -> None:
    one, two = (stack, name, rehearse), (stack2, name2, rehearse2)
    if "rehearsal" in (name, name2):
        return
    same = project_name(Request(stack=stack, name=name, rehearse=rehearse)) == project_name(
        Request(stack=stack2, name=name2, rehearse=rehearse2)
    )
    assert same is (one == two)


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a b", "a--b", "-a", "a-", "ä", ".", "x" * 49, "a\n"])
def test_what_is_no_name_is_refused(name: str) -> None:
    for request, what in ((Request(stack=name), "STACK"), (Request(stack="ep4", name=name), "--name")):
        with pytest.raises(KitError) as refused:
            project_name(request)
        assert refused.value.cause.startswith(f"{what} {name!r} is no name: ")
        assert (refused.value.code, refused.value.exit_code) == ("bad-name", Exit.USAGE)


def test_a_copy_is_not_called_rehearsal() -> None:
    with pytest.raises(KitError) as refused:
        project_name(Request(stack="ep4", name="rehearsal"))
    assert refused.value.cause == "--name rehearsal is what the rehearsal of a stack is called"
