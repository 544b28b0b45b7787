"""``kitctl lint``: what Kubernetes would accept and then never schedule, deadlock on, or serve wrongly."""

from __future__ import annotations

import argparse

import msgspec

from kitctl.edge.files import absolute, list_files
from kitctl.edge.kubernetes_data import load_kubernetes_data
from kitctl.edge.log_files import read_log_file
from kitctl.errors import Exit, KitError
from kitctl.finding import blocking, finding_lines, skipped_in_vain, without_skipped
from kitctl.kit.yaml_reader import read_yaml_documents
from kitctl.render.kubernetes_lint import lint_manifests
from kitctl.result import Context, Result

SUFFIXES = (".yaml", ".yml")
NO_OBJECTS = ("Kustomization", "Component")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``lint``."""
    parser.add_argument(
        "folder", metavar="DIR", help="a folder of manifests; - reads what 'kubectl kustomize' prints"
    )
    parser.add_argument(
        "--skip", action="append", default=[], metavar="CODE", help="do not block on this finding"
    )


def run(args: argparse.Namespace, context: Context) -> Result:
    """Exit 3 when a rule blocks. Raises KitError ``no-manifests``, ``no-objects`` or ``bad-yaml`` (exit 2)."""
    book, settings = load_kubernetes_data()
    files = ("-",) if args.folder == "-" else _files(args.folder)
    read = [tree for path in files for tree in read_yaml_documents(read_log_file(path), source=path)]
    trees = [tree for tree in read if tree.get("kind") not in NO_OBJECTS]
    if not trees:
        raise _no_objects(args.folder)
    found = lint_manifests(trees, book=book, settings=settings)
    for line in skipped_in_vain(found, args.skip):
        context.say(line)
    findings = without_skipped(found, frozenset(args.skip))
    data = {
        "schema": "kitctl.lint/1",
        "objects": [str(tree.get("kind")) for tree in trees],
        "findings": [msgspec.to_builtins(finding) for finding in findings],
    }
    counted = f"{len(trees)} objects, {len(book.records)} rules, {len(blocking(findings))} that block"
    exit_code = Exit.REFUSED if blocking(findings) else Exit.OK
    return Result(data=data, lines=(*finding_lines(findings), counted), exit=exit_code)


def _no_objects(source: str) -> KitError:
    """Nothing was read, as after a pipe whose first half failed: that is no proof of anything."""
    return KitError(
        "no-objects",
        f"{'stdin' if source == '-' else source} holds no Kubernetes object to look at",
        remedy="see that the command before the pipe worked; what kustomize puts together: "
        "kubectl kustomize DIR | kitctl lint -",
        exit_code=Exit.USAGE,
    )


def _files(folder: str) -> tuple[str, ...]:
    """The YAML files of the folder, sorted."""
    found = tuple(sorted(path for suffix in SUFFIXES for path in list_files(absolute(folder), suffix)))
    if not found:
        raise KitError(
            "no-manifests",
            f"{folder} holds no YAML files",
            remedy="kitctl render STACK --to kubernetes -o DIR writes some; 'kitctl lint -' reads stdin",
            exit_code=Exit.USAGE,
        )
    return found
