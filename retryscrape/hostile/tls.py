"""Certificates: an authority made at start, and one certificate per name, made when asked for.

Everything lies in one temporary folder. ``expired.test`` and ``wrong.test`` get what they say.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = dt.timedelta(days=1)


class Authority:
    """A certificate authority of our own; ``ca_file`` is what a client must trust."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("retryscrape hostile web")
        self._contexts: dict[str, ssl.SSLContext] = {}
        self.ca_file = folder / "ca.pem"
        self.ca_file.write_bytes(_pem(self._authority()))

    def context(self, *, addresses: tuple[str, ...], fault: str | None = None) -> ssl.SSLContext:
        """The context of a listener on these addresses.

        ``fault``: None, ``expired`` or ``wrong`` (a certificate of another host).
        """
        context = self._made("address", addresses, fault)
        if fault is None:
            # OpenSSL takes no wildcard directly below a top-level name: one for each name asked.
            context.sni_callback = self._by_name
        return context

    def _by_name(self, connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        if name:
            fault = {"expired.test": "expired", "wrong.test": "wrong"}.get(name)
            connection.context = self._made(name, (name,), fault)

    def _made(self, key: str, names: tuple[str, ...], fault: str | None) -> ssl.SSLContext:
        key = f"{key}-{fault}"
        if key not in self._contexts:
            self._contexts[key] = self._make(names, fault)
        return self._contexts[key]

    def _make(self, names: tuple[str, ...], fault: str | None) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        shown = ("elsewhere.example",) if fault == "wrong" else (*names, "localhost")
        certificate = self._leaf(key, shown, age=400 if fault == "expired" else 1)
        file = self._folder / f"leaf-{len(self._contexts)}.pem"
        file.write_bytes(_private(key) + _pem(certificate))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context

    def _authority(self) -> x509.Certificate:
        builder = _builder(self._name, self._name, self._key.public_key(), age=1)
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        builder = builder.add_extension(usage, True).add_extension(self._mark(), False)
        return builder.sign(self._key, hashes.SHA256())

    def _leaf(
        self, key: ec.EllipticCurvePrivateKey, names: tuple[str, ...], age: int
    ) -> x509.Certificate:
        builder = _builder(_name(names[0]), self._name, key.public_key(), age)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(self._mark())
        builder = builder.add_extension(
            x509.SubjectAlternativeName(map(_alternative, names)), False
        )
        return builder.add_extension(issuer, False).sign(self._key, hashes.SHA256())

    def _mark(self) -> x509.SubjectKeyIdentifier:
        return x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, age: int
) -> x509.CertificateBuilder:
    """A certificate that began ``age`` days ago and holds for 300 days."""
    start = dt.datetime.now(dt.UTC) - age * _DAY
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + 300 * _DAY)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
