"""kitctl setup: a bare host brought to engine, buildx, compose and base-image tools; says first what it will do."""

from __future__ import annotations

import argparse

from kitctl.commands.engine_stop import stop_own_engine
from kitctl.edge.ask import ask_yes
from kitctl.edge.environment import stdin_is_terminal
from kitctl.edge.package_data import package_text
from kitctl.edge.setup_actions import carry_out, setup_lock
from kitctl.edge.setup_survey import read_offers, setup_cache, survey_host
from kitctl.errors import Exit, KitError
from kitctl.host.setup_facts import Offers, SetupFacts
from kitctl.host.setup_plan import plan_setup, wants_offers
from kitctl.host.setup_recipe import Recipe, read_recipe
from kitctl.host.setup_refusals import exit_of
from kitctl.host.setup_report import plan_lines, setup_data, state_line
from kitctl.host.setup_steps import SetupPlan
from kitctl.result import Context, Result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``kitctl setup``."""
    parser.add_argument("--yes", "-y", action="store_true", help="do it without asking")
    parser.add_argument(
        "--check", action="store_true", help="only say what would be done; exit 3 if anything"
    )
    parser.add_argument("--stop", action="store_true", help="end the engine that setup itself started")


def run(args: argparse.Namespace, context: Context) -> Result:
    """Survey, plan, and unless ``--check`` carry out."""
    recipe = read_recipe(package_text("setup.toml"))
    if args.stop:
        return stop_own_engine(recipe, force=args.yes)
    facts, plan = _survey_and_plan(recipe, context)
    if not plan.steps and not plan.findings:
        line = f"nothing to do: {state_line(facts)}"
        return Result(data=setup_data(facts, recipe, plan), lines=(line,))
    if plan.findings or args.check:
        code = exit_of(plan.findings)
        return Result(data=setup_data(facts, recipe, plan), lines=plan_lines(facts, plan), exit=code)
    if args.yes or (stdin_is_terminal() and not context.as_json):
        for line in plan_lines(facts, plan):
            context.say(line)
        if args.yes or ask_yes("Do this?"):
            return _carry_out(recipe, plan, context)
    lines = () if stdin_is_terminal() else plan_lines(facts, plan)
    lines = (*lines, "nothing was done; to do it: kitctl setup --yes")
    return Result(data=setup_data(facts, recipe, plan), lines=lines, exit=Exit.REFUSED)


def _survey_and_plan(recipe: Recipe, context: Context) -> tuple[SetupFacts, SetupPlan]:
    facts, offers = survey_host(recipe), Offers()
    if wants_offers(facts, recipe):
        context.say("asking the package sources what they offer ...")
        offers = read_offers(recipe, facts)
    return facts, plan_setup(facts, recipe, offers, setup_cache())


def _carry_out(recipe: Recipe, plan: SetupPlan, context: Context) -> Result:
    with setup_lock(recipe.place.lock):
        outcomes = carry_out(plan.steps, context.say)
    after, rest = _survey_and_plan(recipe, context)
    if rest.steps or rest.findings:
        raise KitError(
            "setup-incomplete",
            "setup did all its steps, and the host still lacks something",
            evidence=tuple(plan_lines(after, rest)),
            remedy="kitctl setup --check",
            exit_code=Exit.UNREACHABLE,
        )
    return Result(data=setup_data(after, recipe, plan, outcomes), lines=(f"ready: {state_line(after)}",))
