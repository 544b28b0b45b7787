"""data/remote.toml has a row for each verb, and names only options that the verb has."""

import argparse

import pytest

from kitctl.cli import COMMANDS, build_parser
from kitctl.edge.package_data import package_text
from kitctl.kit.remote_verbs import Kind, read_remote_book

BOOK = read_remote_book(package_text("remote.toml"))
PATHS_OF_THE_HOST = {
    "store", "api_key_file", "ca_file", "tls_cert", "tls_key", "kit", "host", "image", "model", "stack", "stacks",
    "url", "path", "exec", "as", "python", "name",
}  # fmt: skip
"""Options that name something on the host, or nothing on a disk, for all verbs."""
BUNDLES = {"output", "since", "bundle", "base"}
"""A bundle is as large as its models: its folder lies on the host."""


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Every verb and sub-verb by its typed name. A verb that can be said without its sub-verb is one as well."""
    found: dict[str, argparse.ArgumentParser] = {}
    for name in COMMANDS:
        verbs = next(
            a for a in build_parser(name)._actions if isinstance(a, argparse._SubParsersAction)
        ).choices
        inner = [a for a in verbs[name]._actions if isinstance(a, argparse._SubParsersAction)]
        for action in inner:
            found |= {f"{name} {sub}": parser for sub, parser in action.choices.items()}
        if not inner or not inner[0].required:
            found[name] = verbs[name]
    return found


PARSERS = parsers()


def options(parser: argparse.ArgumentParser) -> set[str]:
    return {a.dest for a in parser._actions if not isinstance(a, argparse._SubParsersAction)}


def test_each_verb_has_a_row_and_no_row_is_left_over() -> None:
    assert set(BOOK.verbs) == set(PARSERS)


@pytest.mark.parametrize("verb", sorted(BOOK.verbs))
def test_a_row_names_options_that_the_verb_has(verb: str) -> None:
    row = BOOK.verbs[verb]
    assert {*row.reads, *row.writes} - options(PARSERS[verb]) == set()
    assert row.kind is not Kind.HERE or not (row.reads or row.writes or row.config or row.serves)


@pytest.mark.parametrize(
    "verb", sorted(set(PARSERS) - {v for v, row in BOOK.verbs.items() if row.kind is Kind.HERE})
)
def test_an_option_that_takes_a_file_is_carried_or_named_as_the_hosts(verb: str) -> None:
    row = BOOK.verbs[verb]
    files = {
        a.dest
        for a in PARSERS[verb]._actions
        if isinstance(a.metavar, str) and a.metavar in ("FILE", "DIR", "TEXT", "RESULT", "SET", "PATH")
    }
    known = {*row.reads, *row.writes} | PATHS_OF_THE_HOST | (BUNDLES if verb.startswith("bundle") else set())
    assert files - known == {"label", "seed"} & files


def test_the_line_outlasts_a_verb_that_only_reads() -> None:
    assert BOOK.line.abandoned_s > BOOK.line.give_up_s > BOOK.line.silent_s > BOOK.line.connect_s
