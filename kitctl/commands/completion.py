"""``kitctl completion``: what a shell reads so that Tab completes verbs, options, stacks, overlays and models."""

from __future__ import annotations

import argparse

from kitctl.edge.completion import shell_code
from kitctl.result import Context, Result

SCHEMA = "kitctl.completion/1"
HOW = {
    "bash": 'eval "$(kitctl completion bash)" in ~/.bashrc',
    "zsh": 'eval "$(kitctl completion zsh)" in ~/.zshrc, after compinit',
    "fish": "kitctl completion fish > ~/.config/fish/completions/kitctl.fish",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``completion``."""
    parser.add_argument("shell", choices=tuple(HOW), help="the shell")
    parser.epilog = "; ".join(f"{shell}: {how}" for shell, how in HOW.items())


def run(args: argparse.Namespace, context: Context) -> Result:
    """Print the code; it asks this very kitctl at each Tab, so it never grows old."""
    del context
    code = shell_code(args.shell)
    data = {"schema": SCHEMA, "shell": args.shell, "install": HOW[args.shell], "code": code}
    return Result(data=data, lines=tuple(code.splitlines()))
