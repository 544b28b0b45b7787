"""Stacks are composed from shared parts; the user's files win by name and say so; each fault has its place."""

import pytest
from planned import KIT, STACKS

from kitctl.errors import KitError
from kitctl.kit.catalog import (
    KitTexts,
    load_overlays,
    named_texts,
    pick_named_overlay,
    resolve_stack,
    stack_names,
)

KIT_FILES = {
    "compose/stacks/one.yaml": "summary: one\nuses: [big]\nengine: {context_length: 5}\n",
    "compose/stacks/two.yaml": "summary: two\nmodel: m2\n",
    "compose/parts/big.yaml": "model: m1\nengine: {context_length: 1, graphs: off}\nparallel: {tp: 8}\n",
    "compose/overlays/pcie.yaml": "x-kitctl: {summary: kit's}\n",
}


def texts(**user: str) -> KitTexts:
    return KitTexts(
        kit=KIT_FILES, user={path.replace("__", "/") + ".yaml": text for path, text in user.items()}
    )


def cause(kit: KitTexts, name: str, **more: object) -> tuple[str, str, tuple[str, ...]]:
    with pytest.raises(KitError) as refused:
        resolve_stack(kit, name, **more)  # type: ignore[arg-type]
    return refused.value.code, refused.value.cause, refused.value.evidence


def test_parts_lie_below_the_stack_and_settings_above() -> None:
    found = resolve_stack(texts(), "one", settings=[("parallel.tp", 4)])
    assert (found.stack.model, found.stack.engine.context_length, found.stack.parallel.tp) == ("m1", 5, 4)
    origin = found.merged.origin
    assert origin["model"] == origin["engine.graphs"] == "compose/parts/big.yaml"
    assert origin["engine.context_length"] == "compose/stacks/one.yaml"
    assert origin["parallel.tp"] == "--set parallel.tp"


@pytest.mark.parametrize(
    ("prompts", "problem"),
    [
        ("[1, 2]", "expect.prompts[0]: Expected `str`, got `int`"),
        ("{a: b}", "expect.prompts: Expected `array`, got `object`"),
        ('["  "]', "expect.prompts[0]: Expected `str` matching regex '\\\\S'"),
        (f'["{"x" * 4097}"]', "expect.prompts[0]: Expected `str` of length <= 4096"),
        (str(["x"] * 17), "expect.prompts: Expected `array` of length <= 16"),
    ],
)
def test_what_a_canary_cannot_ask_is_refused_in_the_file_that_says_so(prompts: str, problem: str) -> None:
    """Also where a part of the kit sets the same value below it."""
    kit = texts(
        stacks__one=f"summary: mine\nuses: [big]\nexpect: {{prompts: {prompts}}}\n",
        parts__big="model: m\nexpect: {prompts: [Hello]}\n",
    )
    code, said, _ = cause(kit, "one")
    assert (code, said) == ("bad-stack", f"~config/stacks/one.yaml: {problem}")


def test_a_users_stack_wins_by_name_and_says_so() -> None:
    found = resolve_stack(texts(stacks__one="summary: mine\nmodel: m3\n"), "one")
    assert (found.stack.model, found.is_users, found.merged.origin["model"]) == (
        "m3", True, "~config/stacks/one.yaml"
    )  # fmt: skip
    assert resolve_stack(texts(), "one").is_users is False


def test_a_users_part_and_overlay_win_too() -> None:
    kit = texts(parts__big="model: own\n", overlays__pcie="x-kitctl: {summary: mine}\n")
    assert resolve_stack(kit, "one").stack.model == "own"
    assert load_overlays(kit)["pcie"].block.summary == "mine"
    assert named_texts(kit, "overlays")["pcie"].source == "~config/overlays/pcie.yaml"


def test_numbers_in_environment_are_what_a_process_sees() -> None:
    kit = texts(stacks__x="summary: s\nmodel: m\nenvironment: {A: 1, B: 0.5, C: '1', D: off}\n")
    assert resolve_stack(kit, "x").stack.environment == {"A": "1", "B": "0.5", "C": "1", "D": "off"}


def test_faults_have_their_place() -> None:
    assert cause(texts(), "on") == (
        "unknown-stack", "there is no stack named 'on'", ("did you mean 'one'?",)
    )  # fmt: skip
    assert cause(texts(stacks__x="summary: s\nuses: [bg]\n"), "x") == (
        "unknown-part", "there is no part named 'bg'", ("did you mean 'big'?",)
    )  # fmt: skip
    assert cause(texts(stacks__x="summary: s\nuses: big\n"), "x")[:2] == (
        "bad-stack", "~config/stacks/x.yaml: uses: must be a list of part names"
    )  # fmt: skip
    assert cause(texts(parts__big="model: 3\n"), "one")[:2] == (
        "bad-stack", "~config/parts/big.yaml: model: Expected `str`, got `int`"
    )  # fmt: skip
    assert cause(texts(stacks__x="summary: s\nname: y\nmodel: m\n"), "x")[:2] == (
        "bad-stack", "~config/stacks/x.yaml: name: a stack is called as its file"
    )  # fmt: skip
    assert cause(texts(), "two", settings=[("name", "y")])[:2] == (
        "bad-stack", "--set name: name: a stack is called as its file"
    )  # fmt: skip
    assert cause(texts(), "two", settings=[("parallel.tp", None)])[:2] == (
        "bad-stack", "--set parallel.tp: parallel.tp: Expected `int`, got `null`"
    )  # fmt: skip


def test_unknown_overlay_gets_its_near_name() -> None:
    with pytest.raises(KitError) as refused:
        pick_named_overlay(KIT.overlays, "nvlnk")
    assert refused.value.evidence == ("did you mean 'nvlink'?",)


def test_the_kits_stacks() -> None:
    assert {"cpu-demo", "tp8-eager", "tp8", "pp8", "ep8", "ep4", "ep8-dflash", "ep4-dflash"} <= set(STACKS)
    assert stack_names(texts()) == ("one", "two")
    found = {name: resolve_stack(KIT.texts, name).stack for name in STACKS}
    kimi = [stack for stack in found.values() if stack.model == "moonshotai/Kimi-K2.6"]
    assert {stack.engine.mem_fraction_static for stack in kimi} == {0.85}
    assert {stack.engine.reasoning_parser for stack in kimi} == {"kimi_k2"}
    assert {stack.engine.tool_call_parser for stack in kimi} == {"kimi_k2"}
    drafting = [stack for stack in kimi if stack.drafter]
    assert {stack.engine.max_running_requests for stack in drafting} == {128}
    assert {stack.engine.max_running_requests for stack in kimi if not stack.drafter} == {256}
    assert {str(stack.engine.graphs) for stack in drafting} == {"decode"}
    assert all(stack.engine.graph_max_bs for stack in drafting)


def test_no_stack_file_is_a_copy_of_another() -> None:
    files = {path: text for path, text in KIT.texts.kit.items() if path.startswith("compose/stacks/")}
    assert all(len(text.splitlines()) <= 12 for text in files.values())
    bodies = [text.partition("\n")[2] for text in files.values()]
    assert len(set(bodies)) == len(bodies)
