"""Load what the Kubernetes renderer and its linter rest on from the package's data."""

from __future__ import annotations

from functools import cache

from kitctl.edge.package_data import package_text
from kitctl.plan.finding_book import FindingBook, read_finding_book
from kitctl.render.kubernetes_settings import KubernetesSettings, read_settings


@cache
def load_kubernetes_data() -> tuple[FindingBook, KubernetesSettings]:
    """The linter's rules in words, and what a rendered folder needs beyond the plan."""
    book = read_finding_book(package_text("kubernetes_rules.yaml"), source="kubernetes_rules.yaml")
    return book, read_settings(package_text("kubernetes.toml"))
