"""API keys, limits of keys and addresses, and the monthly usage."""

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from starlette.requests import Request

from dragoman.errors import SettingsError, StorageError
from dragoman.serving.access.keyed_access import KeyedAccess
from dragoman.serving.access.keys import read_keys
from dragoman.serving.access.monthly_usage import MonthlyUsage
from dragoman.serving.context import Usage
from dragoman.serving.limits import Limits
from dragoman.serving.request_error import RequestError

OFFICE, HOME = "a-key-of-the-office", "a-key-at-home-1234"
KEYS = f"""
[[keys]]
name = "office"
key = "{OFFICE}"
requests_per_minute = 2

[[keys]]
name = "home"
sha256 = "{hashlib.sha256(HOME.encode()).hexdigest()}"
quota = 50
"""


def request_from(host: str) -> Request:
    return Request({"type": "http", "headers": [], "client": (host, 1234)})


def make_access(folder: Path, keys: str | None = None, limits: Limits | None = None) -> KeyedAccess:
    path = None
    if keys is not None:
        path = folder / "keys.toml"
        path.write_text(keys)
    usage = MonthlyUsage(folder / "usage.json")
    return KeyedAccess(limits or Limits(), usage, keys=path, on_admitted=lambda _: None)


def status_of(call: Callable[[], object]) -> int:
    """Return the status of the error that a call raises; 200 if none."""
    try:
        call()
    except RequestError as error:
        return error.status
    return 200


def test_without_keys_each_address_has_a_limit(tmp_path: Path) -> None:
    access = make_access(tmp_path, limits=Limits(requests_per_minute=2))
    assert not access.keys_required
    one, other = request_from("10.0.0.1"), request_from("10.0.0.2")
    assert [status_of(lambda: access.admit(one, None, 5)) for _ in range(3)] == [200, 200, 429]
    assert status_of(lambda: access.admit(other, "a key that is not needed", 5)) == 200
    with pytest.raises(RequestError) as refused:
        access.admit(one, None, 5)
    assert refused.value.retry_after is not None
    assert 50 < refused.value.retry_after <= 60


def test_addresses_of_one_network_of_ipv6_are_one_client(tmp_path: Path) -> None:
    access = make_access(tmp_path, limits=Limits(requests_per_minute=1))
    hosts = ["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1", "::ffff:10.0.0.1", "10.0.0.1"]
    statuses = [status_of(lambda host=host: access.admit(request_from(host), None, 5)) for host in hosts]  # type: ignore[misc]
    assert statuses == [200, 429, 200, 200, 429]


def test_characters_of_a_request_and_of_a_minute(tmp_path: Path) -> None:
    access = make_access(tmp_path, limits=Limits(characters=60, characters_per_minute=100))
    client = request_from("10.0.0.1")
    assert status_of(lambda: access.admit(client, None, 61)) == 413
    assert status_of(lambda: access.admit(client, None, 60)) == 200
    assert status_of(lambda: access.admit(client, None, 60)) == 429


def test_keys_have_limits_of_their_own(tmp_path: Path) -> None:
    access = make_access(tmp_path, KEYS)
    assert access.keys_required
    client = request_from("10.0.0.1")
    assert [status_of(lambda: access.admit(client, OFFICE, 5)) for _ in range(3)] == [200, 200, 429]
    assert [status_of(lambda: access.admit(client, HOME, 20)) for _ in range(3)] == [200, 200, 456]
    assert status_of(lambda: access.admit(client, None, 5)) == 403
    assert status_of(lambda: access.admit(client, OFFICE + "x", 5)) == 403
    assert status_of(lambda: access.admit(client, "\udcff", 5)) == 403


def test_a_quota_is_reserved_and_charged_at_the_end(tmp_path: Path) -> None:
    access = make_access(tmp_path, KEYS)
    client = request_from("10.0.0.1")
    receipt = access.admit(client, HOME, 50)
    # Two requests at the same time do not both use what is left.
    assert status_of(lambda: access.admit(client, HOME, 1)) == 456
    receipt.release()
    receipt.charge()
    assert access.usage(HOME) == Usage(characters=0, quota=50)
    with access.admit_document(client, HOME, 49):
        assert access.usage(HOME) == Usage(characters=49, quota=50)
    assert access.usage(HOME) == Usage(characters=49, quota=50)
    with pytest.raises(LookupError), access.admit(client, HOME, 1):
        raise LookupError
    assert access.usage(HOME) == Usage(characters=49, quota=50)


def test_a_document_of_more_characters_than_those_of_a_minute(tmp_path: Path) -> None:
    access = make_access(tmp_path, limits=Limits(characters_per_minute=100))
    client = request_from("10.0.0.1")
    assert status_of(lambda: access.admit_document(client, None, 1000)) == 200
    assert status_of(lambda: access.admit_document(client, None, 1)) == 429


def test_guesses_of_keys_are_limited(tmp_path: Path) -> None:
    access = make_access(tmp_path, KEYS, limits=Limits(requests_per_minute=3))
    client = request_from("10.0.0.1")
    statuses = [status_of(lambda n=n: access.admit(client, f"guess {n}", 5)) for n in range(5)]  # type: ignore[misc]
    assert statuses == [403, 403, 403, 429, 429]
    assert status_of(lambda: access.admit(client, HOME, 5)) == 200


def test_keys_are_read_anew_and_stay_valid_if_that_fails(tmp_path: Path) -> None:
    access = make_access(tmp_path, KEYS)
    client = request_from("10.0.0.1")
    (tmp_path / "keys.toml").write_text("nonsense")
    with pytest.raises(SettingsError):
        access.reload()
    assert status_of(lambda: access.admit(client, OFFICE, 5)) == 200
    (tmp_path / "keys.toml").write_text(KEYS.replace(OFFICE, "another key of the office"))
    access.reload()
    assert status_of(lambda: access.admit(client, OFFICE, 5)) == 403
    assert status_of(lambda: access.admit(client, "another key of the office", 5)) == 200


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "keys"),
        ("keys = []", "contains no key"),
        ("[[keys]\n", "not valid TOML"),
        ('[[keys]]\nname = "a"\n', "must have either key or sha256"),
        ('[[keys]]\nname = "a"\nkey = "short"\n', "at least 16 characters"),
        ('[[keys]]\nname = "a"\nsha256 = "00"\n', "64 hexadecimal digits"),
        ('[[keys]]\nname = "a"\nkey = "0123456789abcdef"\nquote = 3\n', "did you mean .*quota"),
        ('[[keys]]\nname = "a"\nkey = "0123456789abcdef"\nquota = 0\n', "quota of 'a' must be at least 1"),
        (KEYS + KEYS.replace("office", "work"), "occurs twice"),
        (KEYS.replace(hashlib.sha256(HOME.encode()).hexdigest(), hashlib.sha256(OFFICE.encode()).hexdigest()), "twice"),
    ],
)
def test_a_wrong_file_of_keys_is_reported_in_one_line(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=message) as reported:
        read_keys(path)
    assert "\n" not in str(reported.value)
    assert OFFICE not in str(reported.value)
    with pytest.raises(SettingsError, match="cannot be read"):
        read_keys(tmp_path / "missing.toml")


def test_usage_is_kept_between_runs_and_begins_anew_each_month(tmp_path: Path) -> None:
    moment = datetime(2026, 1, 31, 23, 59, tzinfo=UTC)
    path = tmp_path / "usage.json"
    usage = MonthlyUsage(path, now=lambda: moment)
    usage.save()
    assert not path.exists()
    usage.add("office", 5)
    usage.add("office", 6)
    usage.save()
    usage = MonthlyUsage(path, now=lambda: moment)
    assert (usage.characters("office"), usage.characters("home")) == (11, 0)
    moment = datetime(2026, 2, 1, tzinfo=UTC)
    assert usage.characters("office") == 0
    assert MonthlyUsage(path, now=lambda: moment).characters("office") == 0
    path.write_text('{"month": "2026-02", "characters": {"office": "x"}}')
    with pytest.raises(StorageError, match="start from zero"):
        MonthlyUsage(path)


@pytest.mark.parametrize(
    "text", ["key = 1234567890123456789", "keys = 1234567890123456789", "keys = [1234567890123456789]"]
)
def test_a_key_of_another_type_is_not_repeated(text: str, tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(f'[[keys]]\nname = "a"\n{text}' if text.startswith("key ") else text)
    with pytest.raises(SettingsError, match=r"keys.toml: expected") as reported:
        read_keys(path)
    assert "1234567890" not in str(reported.value)
