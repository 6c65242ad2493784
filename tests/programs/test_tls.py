"""Over TLS, as every source in the world is."""

import datetime as dt
import ipaddress
import signal
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.programs.hub import Hub, wait_until
from tests.programs.model import MadeUpModel
from tests.programs.running import assert_whole, environment, finish, last_words, start


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 that signs itself, with its key in the same file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "made up")])
    now = dt.datetime.now(dt.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = tmp_path_factory.mktemp("tls") / "certificate.pem"
    path.write_bytes(key.private_bytes(*plain) + signed.public_bytes(serialization.Encoding.PEM))
    return path


def test_it_fetches_stops_when_told_and_goes_on(
    model: MadeUpModel, program: Path, certificate: Path, tmp_path: Path
) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    target = tmp_path / "model"
    with Hub(model, tls=tls) as hub:
        refused = start(program, environment(hub, target, DORMOUSE_ATTEMPTS="1"))
        status, output = finish(refused)
        assert (status, hub.requests) == (1, [])
        assert "the certificate of 127.0.0.1" in output

        trusted = environment(hub, target, SSL_CERT_FILE=str(certificate), DORMOUSE_STALL_S="600")
        hub.hold_after(model.total_bytes // 2)
        process = start(program, trusted)
        wait_until(hub.gate.is_set)
        process.send_signal(signal.SIGTERM)
        status, output = finish(process)
        assert (status, last_words(target)["outcome"]) == (143, "stopped"), output
        hub.hold_after(None)
        status, output = finish(start(program, trusted))
        assert status == 0, output
        assert last_words(target)["resumed_bytes"] > 0
    assert_whole(target, model)
