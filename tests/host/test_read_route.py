"""Which device leads to an address: iproute2's JSON, read and asked of this very host."""

import json
import subprocess

import pytest

from kitctl.commands.rank_options import read_meeting
from kitctl.edge.interfaces import interface_towards
from kitctl.errors import KitError
from kitctl.host.read_route import read_holder, read_route

ROUTE = '[{"dst":"10.0.0.1","dev":"eth7","prefsrc":"10.0.0.2","flags":[],"uid":0,"cache":[]}]'
LOCAL = (
    '[{"type":"local","dst":"10.0.0.2","dev":"lo","prefsrc":"10.0.0.2","flags":[],"uid":0,"cache":["local"]}]'
)
LINKS = '[{"ifname":"lo","addr_info":[{"local":"127.0.0.1"}]},{"ifname":"eth7","addr_info":[{"local":"10.0.0.2"}]}]'


@pytest.mark.parametrize(
    ("text", "device"), [(ROUTE, "eth7"), (LOCAL, None), ("[]", None), ("", None), ("{}", None)]
)
def test_a_route_names_its_device(text: str, device: str | None) -> None:
    assert read_route(text) == device


def test_an_address_names_its_holder() -> None:
    assert read_holder(LINKS, "10.0.0.2") == "eth7"
    assert (read_holder(LINKS, "10.0.0.9"), read_holder("", "10.0.0.2")) == (None, None)


def test_this_host_holds_its_own_address() -> None:
    links = json.loads(subprocess.run(["ip", "-j", "address"], capture_output=True, check=True).stdout)
    name, address = next(
        (link["ifname"], info["local"])
        for link in links
        for info in link["addr_info"]
        if info["family"] == "inet"
    )
    assert interface_towards(address, holds=True) == name
    with pytest.raises(KitError) as refused:
        interface_towards("192.0.2.1", holds=True)
    assert (refused.value.code, int(refused.value.exit_code)) == ("address-not-here", 3)
    with pytest.raises(KitError) as no_route:
        interface_towards("127.0.0.1", holds=False)
    assert no_route.value.code == "no-route"


@pytest.mark.parametrize(
    "text", ["gpu1:20000", "10.0.0.1", "10.0.0.1:0", "10.0.0.1:70000", "127.0.0.1:20000", "0.0.0.0:1"]
)
def test_a_meeting_point_is_an_address_and_a_port(text: str) -> None:
    with pytest.raises(KitError) as refused:
        read_meeting(text)
    assert refused.value.code == "bad-meeting"


def test_meeting_points_that_are_taken() -> None:
    assert read_meeting("10.0.0.1:20000") == ("10.0.0.1", 20000)
    assert read_meeting("[2001:db8::1]:20000") == ("2001:db8::1", 20000)
