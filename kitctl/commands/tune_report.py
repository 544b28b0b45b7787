"""What did a search find? The best settings against where it began, how sure, and a stack file of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from kitctl.campaign.adopt import adopted_from, adopted_text
from kitctl.campaign.arms import Arm, setting_words
from kitctl.campaign.figures import result_of
from kitctl.campaign.recommend import Recommendation, recommend, sureness
from kitctl.campaign.search import LOAD, Aim, Trial, arm_name, best_of, trial_lines
from kitctl.campaign.state import State
from kitctl.commands.campaign_adopt import own_stack, stack_exists, stack_path, write_stack
from kitctl.commands.tune_session import Search
from kitctl.edge.files import read_text_if_there, write_atomic
from kitctl.edge.kit_files import find_kit, load_kit_texts
from kitctl.errors import Exit
from kitctl.kit.yaml_reader import read_yaml
from kitctl.plan.names import project_word
from kitctl.result import Context, Result


def require_adoptable(name: str, *, stack: str, replace: bool) -> None:
    """See before the search that its best settings may become the stack ``name``: it is free, or made of this search.

    Raises KitError ``bad-name`` (exit 2), ``stack-exists`` (exit 3).
    """
    project_word(name, what="--adopt")
    there = read_text_if_there(stack_path(name))
    if there is None or replace or there.startswith(adopted_from(name, _origin(stack))):
        return
    raise stack_exists(name, option="--adopt")


def _origin(stack: str) -> str:
    """What an adopted file names as the campaign that it comes from."""
    return f"tune {stack}"


def tuned_result(
    search: Search,
    trials: Sequence[Trial],
    state: State,
    *,
    folder: str,
    adopt: str | None,
    context: Context,
) -> Result:
    """All trials, the best one, and what it gains; ``report.json`` beside the journal says the same."""
    own = dict(search.own)
    best = best_of(trials, search.target)
    lines = trial_lines(trials, search.target, own)
    chosen = _compared(search, best, state) if best is not None else None
    changed = {p: v for p, v in best.settings if own.get(p) != v} if best else {}
    data = {
        "schema": "kitctl.tune/1",
        "stack": search.stack,
        "target": msgspec.to_builtins(search.target),
        "space": msgspec.to_builtins(search.space),
        "own": own,
        "best": _trial_json(best) if best else None,
        "changed": changed,
        "lead": chosen.lead_least if chosen else None,
        "confidence": chosen.confidence if chosen else None,
        "outcome": state.ended,
        "trials": [_trial_json(trial) for trial in trials],
        "folder": folder,
    }
    if best is not None:
        lines += ["", *_best_lines(best, search, chosen, changed)]
    if adopt is not None and best is not None and chosen is not None:
        path = _adopt(search, best, chosen, state, name=adopt, context=context)
        lines.append(f"wrote {path}")
        data["adopted"] = path
    elif adopt is not None:
        lines.append(f"nothing was adopted as {adopt}: no trial was measured whole and valid")
    write_atomic(f"{folder}/report.json", msgspec.json.format(msgspec.json.encode(data)).decode() + "\n")
    return Result(data=data, lines=(*lines, f"kept in {folder}"), exit=Exit.OK if best else Exit.GATE)


def _trial_json(trial: Trial) -> dict[str, object]:
    return {
        "trial": trial.number,
        "settings": dict(trial.settings),
        "outcome": trial.outcome,
        "value": trial.value,
        "values": list(trial.values),
        "reason": msgspec.to_builtins(trial.reason) if trial.reason else None,
    }


def _compared(search: Search, best: Trial, state: State) -> Recommendation | None:
    """The best trial's throughput against where the search began (trial 0)."""
    numbers = dict.fromkeys((best.number, 0))
    arms = [Arm(id=arm_name(number), stack=search.stack) for number in numbers]
    results = [result for arm in arms if (result := result_of(state, arm, LOAD)) is not None]
    found = recommend(results)
    return found[0] if found else None


def _best_lines(
    best: Trial, search: Search, chosen: Recommendation | None, changed: Mapping[str, object]
) -> list[str]:
    words = setting_words((path, value) for path, value in best.settings if path in changed)
    lines = [
        f"best: trial {best.number}, {best.value:.1f} {search.target.unit} at C={search.target.concurrency}"
    ]
    if not words:
        return [*lines, "  where the search began is the best that was tried"]
    sets = " ".join(f"--set {word}" for word in words)
    is_ahead = chosen is not None and chosen.winner == arm_name(best.number)
    if is_ahead and search.target.aim is Aim.THROUGHPUT and chosen and chosen.lead_least is not None:
        lines.append(
            f"  {chosen.lead_least:.1%} above where the search began (trial 0); {sureness(chosen.confidence)}"
        )
    return [*lines, f"  try it:  kitctl up {search.stack} {sets}"]


def _adopt(
    search: Search, best: Trial, chosen: Recommendation, state: State, *, name: str, context: Context
) -> str:
    texts = load_kit_texts(find_kit(context.kit_dir))
    own = own_stack(texts, search.stack)
    text = adopted_text(
        read_yaml(own.text, source=own.source),
        setting_words(best.settings),
        name=name,
        chosen=chosen,
        campaign=_origin(search.stack),
        digest=search.target.aim,
        ups=state.ups.get(arm_name(best.number), ()),
    )
    return write_stack(name, text, texts, replace=True)
