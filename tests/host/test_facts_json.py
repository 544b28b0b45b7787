"""Facts survive the way to JSON and back, and a bad file is named with its field."""

import json

import pytest

from kitctl.errors import KitError
from kitctl.host.facts import ContainerEngine, Driver, Gpu, GpuProcess, HostFacts
from kitctl.host.facts_json import decode_facts, encode_facts

FACTS = HostFacts(
    os="Debian",
    gpus=(Gpu(index=0, name="NVIDIA H200", processes=(GpuProcess(pid=1),)),),
    driver=Driver(version="580.159.04", cuda="13.0"),
    engine=ContainerEngine(version="28.5.2", cdi_devices=()),
    unknown={"topology": "not asked"},
)


@pytest.mark.parametrize("wrap", [False, True], ids=["bare", "doctor"])
def test_round_trip(wrap: bool) -> None:
    tree: object = (
        {"schema": "kitctl.doctor/1", "facts": encode_facts(FACTS)} if wrap else encode_facts(FACTS)
    )
    assert decode_facts(json.dumps(tree), source="facts.json") == FACTS


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("{", "facts.json holds no facts of a host"),
        ("[]", "facts.json holds no facts of a host"),
        ('{"gpus": 3}', "facts.json: gpus: Expected `array | null`, got `int`"),
        ('{"gpus": [{"index": 0}]}', "facts.json: gpus[0]: Object missing required field `name`"),
        ('{"gpsu": []}', "facts.json: gpsu: unknown key"),
    ],
)
def test_a_bad_file_is_named_with_its_field(text: str, cause: str) -> None:
    with pytest.raises(KitError) as failed:
        decode_facts(text, source="facts.json")
    assert (failed.value.code, failed.value.cause) == ("bad-facts", cause)
