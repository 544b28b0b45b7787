"""``--help`` of every verb says what each option does, and each option has its KITCTL_* variable."""

import argparse
from collections.abc import Iterator

import pytest

from kitctl.cli import COMMANDS, build_parser
from kitctl.edge.environment import apply_environment


def parsers(verb: str) -> Iterator[argparse.ArgumentParser]:
    """The verb's parser and those of its sub-commands."""
    found = [
        action for action in build_parser(verb)._actions if isinstance(action, argparse._SubParsersAction)
    ]
    todo = [found[0].choices[verb]]
    while todo:
        parser = todo.pop()
        yield parser
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                todo.extend(action.choices.values())


@pytest.mark.parametrize("verb", COMMANDS)
def test_help_is_complete(verb: str) -> None:
    for parser in parsers(verb):
        assert parser.format_help()
        assert parser.allow_abbrev is False, parser.prog
        options = [a for a in parser._actions if not isinstance(a, argparse._SubParsersAction)]
        silent = [action.dest for action in options if not action.help]
        assert silent == [], parser.prog


@pytest.mark.parametrize("verb", COMMANDS)
def test_variables_are_read_for_every_option(verb: str) -> None:
    """No variable is set here: the defaults stay, and no option breaks the reading of its variable."""
    parser = build_parser(verb)
    apply_environment(parser, verb)


@pytest.mark.parametrize("verb", COMMANDS)
def test_nothing_that_takes_a_value_takes_an_empty_one(verb: str) -> None:
    """An empty name would switch a gate off, or write no output, and the exit code would tell nobody."""
    for parser in parsers(verb):
        for action in parser._actions:
            if action.nargs == 0 or action.choices is not None:
                continue
            with pytest.raises(argparse.ArgumentError):
                parser._get_value(action, "")


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_verb_takes_the_common_options(verb: str) -> None:
    words = set(next(parsers(verb))._option_string_actions)
    assert {"--kit", "--host", "--json", "--quiet", "--help"} <= words


def test_only_the_chosen_verb_is_imported() -> None:
    (verbs,) = [a for a in build_parser("stacks")._actions if isinstance(a, argparse._SubParsersAction)]
    assert "--kit" in verbs.choices["stacks"]._option_string_actions
    assert "--kit" not in verbs.choices["up"]._option_string_actions
