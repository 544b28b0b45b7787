"""The machine's mirrors and proxies become secrets; folders of its own disk and other suites do not."""

from kitctl.plan.machine_config import (
    AptSource,
    MachineConfig,
    apt_config,
    build_secrets,
    own_sources,
    pip_config,
    uv_config,
)

MIRROR = MachineConfig(
    index_url="https://user:pw@mirror.example/simple",
    extra_index_urls=("file:///opt/simple", "https://second.example/simple"),
    trusted_hosts=("mirror.example",),
    apt_options=(
        'Acquire::http::Proxy "http://proxy:3128";',
        'APT::Architecture "amd64";',
        'Acquire::http "";',
    ),
    apt_sources={
        "debian.sources": "Types: deb\nURIs: http://mirror/debian\nSuites: bookworm bookworm-updates\n"
        "Components: main\nSigned-By: /usr/share/keyrings/d.gpg\n",
        "other.list": "deb [signed-by=/k.gpg] https://else.example stable main\n# deb http://x bookworm main\n",
        "security.list": "deb http://mirror/security bookworm-security main contrib\n",
    },
    netrc="machine mirror.example login a password b\n",
    ca_bundle="-----BEGIN CERTIFICATE-----\n",
)


def test_network_indexes_become_pips_and_uvs_configuration() -> None:
    assert pip_config(MIRROR) == (
        "[global]\nindex-url = https://user:pw@mirror.example/simple\n"
        "extra-index-url = https://second.example/simple\ntrusted-host = mirror.example\n"
    )
    assert uv_config(MIRROR) == (
        'index-url = "https://user:pw@mirror.example/simple"\n'
        'extra-index-url = ["https://second.example/simple"]\nallow-insecure-host = ["mirror.example"]\n'
    )


def test_of_apts_options_only_those_of_the_network_are_handed_over() -> None:
    assert apt_config(MIRROR.apt_options) == 'Acquire::http::Proxy "http://proxy:3128";\n'


def test_only_sources_of_the_images_suite_are_handed_over() -> None:
    assert own_sources(MIRROR.apt_sources, suite="bookworm") == (
        AptSource(uri="http://mirror/debian", suite="bookworm", components=("main",),
                  signed_by="/usr/share/keyrings/d.gpg"),
        AptSource(uri="http://mirror/debian", suite="bookworm-updates", components=("main",),
                  signed_by="/usr/share/keyrings/d.gpg"),
        AptSource(uri="http://mirror/security", suite="bookworm-security", components=("main", "contrib")),
    )  # fmt: skip
    assert own_sources(MIRROR.apt_sources, suite="noble") == ()


def test_a_stanza_that_is_switched_off_is_no_source() -> None:
    text = "Types: deb\nEnabled: no\nURIs: http://mirror/debian\nSuites: bookworm\nComponents: main\n"
    assert own_sources({"a.sources": text}, suite="bookworm") == ()


def test_a_plain_machine_hands_over_nothing() -> None:
    assert build_secrets(MachineConfig(), suite="bookworm") == {}


def test_each_secret_is_there_once() -> None:
    assert set(build_secrets(MIRROR, suite="bookworm")) == {
        "pipconf", "uvconf", "aptconf", "aptsources", "netrc", "ca",
    }  # fmt: skip
