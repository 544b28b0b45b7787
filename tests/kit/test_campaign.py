"""A campaign file is checked strictly; what is measured decides its digest, what it may cost does not."""

import json
from pathlib import Path

import msgspec
import pytest

from kitctl.edge.kit_files import load_kit_texts
from kitctl.errors import KitError
from kitctl.kit.campaign import Budget, Then, campaign_digest, campaign_schema, read_campaign
from kitctl.kit.catalog import named_texts, resolve_stack, stack_names

ROOT = Path(__file__).parent.parent.parent
TEXTS = load_kit_texts(str(ROOT))
REFERENCE = named_texts(TEXTS, "campaigns")["reference"].text
SMALL = "summary: s\nstacks: [ep4, ep4-dflash]\nloads: [{concurrency: [1]}]\n"


def test_the_reference_campaign_is_the_reference_case() -> None:
    campaign = read_campaign(REFERENCE, source="reference.yaml")
    assert set(campaign.stacks) == set(stack_names(TEXTS)) - {"cpu-demo", "demo", "demo-dflash"}
    assert (campaign.loads[0].concurrency, campaign.repeats) == ((1, 32, 64, 128, 192, 256), 3)
    drafters = {name for name in campaign.stacks if resolve_stack(TEXTS, name).stack.drafter}
    assert campaign.parity is not None and set(campaign.parity.plain) == drafters
    assert campaign.accept is not None and campaign.failure.then is Then.REMEDY


@pytest.mark.parametrize(
    ("text", "cause", "evidence"),
    [
        (SMALL + "repeat: 3\n", "c.yaml: repeat: unknown key", ("did you mean 'repeats'?",)),
        (SMALL.replace("[1]", "[]"), "c.yaml: loads[0].concurrency: Expected `array` of length >= 1", ()),
        (SMALL.replace("[1]", "[1], timeout_s: 1.0e+300"),
         "c.yaml: loads[0].timeout_s: Expected `float` <= 2000000.0", ()),
        (SMALL.replace("ep4,", "ep4, ep4,"), "c.yaml: stacks: ep4 stands twice", ()),
        (SMALL + "parity: {plain: {ep4-dflash: tp8}}\n",
         "c.yaml: parity.plain: tp8 is none of the campaign's stacks", ()),
    ],
)  # fmt: skip
def test_a_bad_file_names_the_place(text: str, cause: str, evidence: tuple[str, ...]) -> None:
    with pytest.raises(KitError) as caught:
        read_campaign(text, source="c.yaml")
    assert caught.value.cause == cause
    assert caught.value.evidence == evidence or not evidence


def test_only_what_is_measured_decides_the_digest() -> None:
    campaign = read_campaign(SMALL, source="c.yaml")
    cheaper = msgspec.structs.replace(campaign, budget=Budget(time_s=1.0), summary="other words")
    more = msgspec.structs.replace(campaign, repeats=4)
    digests = [campaign_digest(one, rehearse=False) for one in (campaign, cheaper, more)]
    assert digests[0] == digests[1] != digests[2]
    assert campaign_digest(campaign, rehearse=True) != digests[0]


def test_the_schema_is_json() -> None:
    schema = campaign_schema()
    assert json.loads(json.dumps(schema))["$ref"] == "#/$defs/Campaign"
