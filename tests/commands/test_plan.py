"""``kitctl plan`` on the facts of real kinds of host: the memory fit, the engine's rules, and their exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest
from kitctl_process import KitUser

FACTS = Path(__file__).parents[1] / "cases" / "facts"
PRO_6000 = FACTS / "pcie-8x-rtxpro6000.json"
B200 = FACTS / "nvlink-8x-b200.json"


def plan(user: KitUser, stack: str, *words: str, facts: Path = PRO_6000) -> dict[str, Any]:
    done = user.run("plan", stack, "--facts", str(facts), "--skip", "model-unlocked", "--json", *words)
    found: dict[str, Any] = json.loads(done.stdout)
    return found | {"exit": done.returncode}


def codes(found: dict[str, Any]) -> list[str]:
    return [finding["code"] for finding in found["findings"]]


def blocking(found: dict[str, Any]) -> list[str]:
    return [finding["code"] for finding in found["findings"] if finding["severity"] == "block"]


def test_the_reference_stack_fits_8_gpus_of_96_gb(kit_user: KitUser) -> None:
    found = plan(kit_user, "ep4-dflash")
    assert (found["exit"], found["memory"]["verdict"]) == (0, "fits")
    assert found["memory"]["kv_bytes_per_token"] == {
        "target": 70272,
        "drafter": 3072,
        "budgeted_by_engine": 77184,
    }
    assert found["memory"]["max_total_tokens"] is None
    assert "--max-total-tokens" not in found["argv"]


def test_and_8_b200(kit_user: KitUser) -> None:
    assert plan(kit_user, "ep4-dflash", facts=B200)["memory"]["verdict"] == "fits"


def test_4_gpus_are_refused_with_the_numbers(kit_user: KitUser) -> None:
    found = plan(kit_user, "tp8", "--set", "parallel.tp=4")
    (refusal,) = [one for one in found["findings"] if one["severity"] == "block"]
    assert (found["exit"], refusal["code"]) == (3, "memory-does-not-fit")
    assert refusal["cause"] == "the weights take 140.95 GiB of each GPU, 93.51 GiB are free"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--set", "parallel.ep=3"), "ep-does-not-divide-tp"),
        (("--set", "parallel.tp=6", "--set", "parallel.ep=1"), "tp-does-not-divide-heads"),
        (("--set", "drafter.block_size=16"), "block-size-above-drafter"),
        (("--set", "drafter.algorithm=EAGLE3"), "drafter-kind-against-algorithm"),
        (("--set", "engine.context_length=1000000"), "context-above-model"),
        (("--set", "engine.attention_backend=fa3"), "fa3-needs-hopper"),
        (("--", "--max-prefill", "3"), "flag-abbreviated"),
        (("--", "--speculative-dflash"), "flag-removed"),
        (("--", "--moe-a2a-backend", "deepep"), "ep-rewritten-by-a2a"),
    ],
)
def test_what_the_engine_would_refuse_late_is_refused_now(
    kit_user: KitUser, words: tuple[str, ...], code: str
) -> None:
    found = plan(kit_user, "ep4-dflash", *words)
    assert found["exit"] == 3
    assert code in blocking(found)


def test_the_engine_is_given_a_cap_where_it_would_overrun(kit_user: KitUser, tmp_path: Path) -> None:
    tree = json.loads(PRO_6000.read_text())
    for gpu in tree.get("facts", tree)["gpus"]:
        gpu["memory_total_mib"] = 500_000
    roomy = tmp_path / "roomy.json"
    roomy.write_text(json.dumps(tree))
    found = plan(
        kit_user,
        "ep4-dflash",
        "--set",
        "parallel.tp=2",
        "--set",
        "parallel.ep=2",
        "--gpus",
        "0,1",
        facts=roomy,
    )
    cap = found["memory"]["max_total_tokens"]
    assert found["argv"][found["argv"].index("--max-total-tokens") + 1] == str(cap)
    assert cap == found["memory"]["kv_tokens"] < found["memory"]["kv_tokens_uncapped"]
    assert "memory-tokens-capped" in codes(found)


def test_a_plan_for_a_person_shows_what_takes_what(kit_user: KitUser) -> None:
    done = kit_user.run("plan", "ep4-dflash", "--facts", str(PRO_6000))
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert any(line.startswith("memory of each GPU: fits (") for line in lines)
    assert any(
        line.endswith("experts (computed from config.json, sharded by tp 8, ep 4, pp 1)") for line in lines
    )


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("parallel.ep", 4, "set in compose/stacks/ep4-dflash.yaml"),
        ("mem_fraction_static", 0.85, "set in compose/parts/kimi-k2.6.yaml"),
        (
            "--tp-size",
            "8",
            "spelling of parallel.tp in SGLang 0.5.16; set in compose/stacks/ep4-dflash.yaml",
        ),
        ("engine.kv_cache_dtype", None, "left out: SGLang's default"),
        ("serve.stop_grace_s", 60, "left out: the default of a stack"),
        ("environment.NCCL_P2P_LEVEL", "SYS", "environment of overlay pcie: GPUs linked by PCIe"),
        ("--disable-custom-all-reduce", True, "flags of overlay pcie: GPUs linked by PCIe"),
        ("overlay", "pcie", "no pair of 28 has NVLink (PHB SYS)"),
        ("memory.experts", None, "computed from config.json, sharded by tp 8, ep 4, pp 1"),
    ],
)
def test_why_names_file_flag_fact_or_rule(kit_user: KitUser, field: str, value: object, reason: str) -> None:
    done = kit_user.run("plan", "ep4-dflash", "--facts", str(PRO_6000), "--json", f"--why={field}")
    found = json.loads(done.stdout)
    assert (done.returncode, found["reason"]) == (0, reason)
    assert field == "memory.experts" or found["value"] == value


def test_why_of_a_set_value_names_the_option(kit_user: KitUser) -> None:
    done = kit_user.run(
        "plan", "tp8", "--facts", str(PRO_6000), "--set", "parallel.ep=2", "--why", "parallel.ep"
    )
    assert done.stdout.splitlines() == ["parallel.ep = 2", "  because: set in --set parallel.ep"]


def test_why_of_an_unknown_field_names_the_nearest(kit_user: KitUser) -> None:
    done = kit_user.run("plan", "tp8", "--facts", str(PRO_6000), "--why", "paralel.tp")
    assert done.returncode == 2
    assert done.stderr.splitlines()[:2] == [
        "kitctl: the plan has no field 'paralel.tp' (unknown-field)",
        "  seen: did you mean 'parallel.tp'?",
    ]


def test_diff_against_another_stack_names_flags_and_memory(kit_user: KitUser) -> None:
    done = kit_user.run("plan", "ep4", "--facts", str(PRO_6000), "--diff", "tp8", "--json")
    rows = {row["field"]: (row["here"], row["there"]) for row in json.loads(done.stdout)["differences"]}
    assert done.returncode == 0
    assert rows["argv.--ep-size"] == ("4", "1")
    assert "argv.--tp-size" not in rows


def test_diff_against_what_is_not_there(kit_user: KitUser) -> None:
    done = kit_user.run("plan", "ep4", "--facts", str(PRO_6000), "--diff", "tp9")
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == "kitctl: 'tp9' is neither a stack nor a recorded run (unknown-plan)"
