"""Read a certificate and its private key, after they proved to belong together."""

from __future__ import annotations

import ssl

from kitctl.edge.files import read_text
from kitctl.errors import Exit, KitError


def read_certificate(cert_file: str, key_file: str) -> str:
    """Both as one PEM text. Raises KitError ``bad-certificate``, ``file-unreadable`` (exit 2)."""
    cert, key = read_text(cert_file), read_text(key_file)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert_file, key_file, password=lambda: "")
    except (ssl.SSLError, OSError, ValueError) as refused:
        raise KitError(
            "bad-certificate",
            f"{cert_file} and {key_file} are no certificate with its key",
            evidence=(str(refused),),
            remedy="give PEM files that belong together, the key without a passphrase",
            exit_code=Exit.USAGE,
        ) from refused
    return f"{cert.rstrip()}\n{key.rstrip()}\n"
