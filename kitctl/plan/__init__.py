"""Decide: stack, kit and host facts become one plan, with the reason of each choice."""
