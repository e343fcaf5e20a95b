"""A certificate for the emulator's TLS, made anew at every start."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from lightloom.control.drivers.options import optional_import

_LIFETIME = datetime.timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Identity:
    """A server's private key and its certificate, in PEM form."""

    key: bytes = field(repr=False)
    certificate: bytes

    def context(self) -> ssl.SSLContext:
        """Return a server's TLS context."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "identity.pem"
            path.write_bytes(self.key + self.certificate)
            context.load_cert_chain(path)
        return context


def self_signed(host: str) -> Identity:
    """Return a new key and a certificate that is signed by it.

    Parameters
    ----------
    host
        Address that clients connect to.
    """
    x509 = optional_import("cryptography.x509", "the emulator's TLS")
    hashes = optional_import("cryptography.hazmat.primitives.hashes", "the emulator's TLS")
    keys = optional_import("cryptography.hazmat.primitives.asymmetric.ec", "the emulator's TLS")
    forms = optional_import("cryptography.hazmat.primitives.serialization", "the emulator's TLS")
    key = keys.generate_private_key(keys.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "emulated switch")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _LIFETIME)
        .not_valid_after(now + _LIFETIME)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(forms.Encoding.PEM)
    private = key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption())
    return Identity(private, pem)
