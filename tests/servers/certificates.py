"""An authority of the tests' own, and a certificate that it signs for loopback."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Certificates:
    """Two files in PEM: whom to believe, and with key and certificate what a server shows."""

    authority: Path
    server: Path


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _begun(subject: str, issuer: str, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    builder = x509.CertificateBuilder().subject_name(_named(subject)).issuer_name(_named(issuer))
    builder = builder.public_key(key).serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - day).not_valid_after(now + day)


def certificates(directory: Path, address: str = "127.0.0.1") -> Certificates:
    """A new authority and a server's certificate for ``address``, written to ``directory``."""
    ours, theirs = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    may_sign = x509.BasicConstraints(ca=True, path_length=0)
    authority = _begun("tests", "tests", ours.public_key()).add_extension(may_sign, critical=True)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
    server = _begun(address, "tests", theirs.public_key()).add_extension(names, critical=False)
    pem = serialization.Encoding.PEM
    made = Certificates(directory / f"authority-{address}.pem", directory / f"server-{address}.pem")
    made.authority.write_bytes(authority.sign(ours, hashes.SHA256()).public_bytes(pem))
    key = theirs.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    made.server.write_bytes(key + server.sign(ours, hashes.SHA256()).public_bytes(pem))
    return made
