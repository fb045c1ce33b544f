"""How often a password may be tried."""

from django.test import Client

from portal.accounts import throttle
from tests.portal.pages import scenes

ADDRESS = "/accounts/sign-in/"


def attempt(client, *, password, name="alice", address="192.0.2.1"):
    return client.post(ADDRESS, {"username": name, "password": password}, REMOTE_ADDR=address)


def test_the_seventh_wrong_password_is_not_looked_at(client, alice):
    answers = [attempt(client, password="wrong").status_code for _ in range(7)]
    assert answers == [200] * 6 + [429]
    refused = attempt(client, password=scenes.PASSWORD)
    assert refused.status_code == 429
    assert 0 < int(refused["Retry-After"]) <= 300
    assert b"Too many wrong passwords" in refused.content


def test_whoever_has_to_wait_keeps_the_name_they_typed_and_where_they_were_going(client, alice):
    for _ in range(6):
        attempt(client, password="wrong", name='a"l<ice')
    data = {"username": 'a"l<ice', "password": "never shown again", "next": "/problems/"}
    refused = client.post(ADDRESS, data, REMOTE_ADDR="192.0.2.1")
    assert refused.status_code == 429
    shown = refused.content.decode()
    assert 'name="username" value="a&quot;l&lt;ice"' in shown
    assert 'name="next" value="/problems/"' in shown
    assert "never shown" not in shown


def test_the_owner_still_signs_in_from_elsewhere(client, alice):
    for _ in range(7):
        attempt(client, password="wrong")
    assert attempt(client, password=scenes.PASSWORD, address="192.0.2.2").status_code == 302


def test_strangers_cannot_lock_the_owner_out_of_a_device_they_know(client, alice):
    assert attempt(client, password=scenes.PASSWORD).status_code == 302
    client.post("/accounts/sign-out/")
    for number in range(throttle.ACCOUNT.failures):
        attempt(Client(), password="wrong", address=f"198.51.100.{number}")
    refused = attempt(Client(), password=scenes.PASSWORD, address="203.0.113.5")
    assert refused.status_code == 429
    assert b"on a device that is new to this account" in refused.content
    forged = Client()
    forged.cookies[throttle.KNOWN_DEVICE] = client.cookies[throttle.KNOWN_DEVICE].value.replace(".", "0.", 1)
    assert attempt(forged, password=scenes.PASSWORD, address="203.0.113.6").status_code == 429
    assert attempt(client, password=scenes.PASSWORD, address="203.0.113.7").status_code == 302


def test_a_device_of_ones_own_is_no_pass_to_other_accounts(client, alice, bob):
    assert attempt(client, name="bob", password=scenes.PASSWORD).status_code == 302
    client.post("/accounts/sign-out/")
    answers = [
        attempt(client, password="wrong", address=f"198.51.100.{number}").status_code
        for number in range(throttle.ACCOUNT.failures + 1)
    ]
    assert answers == [200] * throttle.ACCOUNT.failures + [429]


def test_one_address_cannot_go_through_many_accounts(client, alice):
    answers = [attempt(client, password="wrong", name=f"name-{number}").status_code for number in range(31)]
    assert answers == [200] * 30 + [429]


def test_the_right_password_starts_the_count_anew(client, alice):
    for _ in range(5):
        attempt(client, password="wrong")
    assert attempt(client, password=scenes.PASSWORD).status_code == 302
    client.logout()
    assert attempt(client, password="wrong").status_code == 200


def test_capitals_in_the_name_and_a_claimed_address_change_nothing(client, alice):
    for name in ("alice", "Alice", "ALICE", " alice", "aLice", "alicE"):
        attempt(client, password="wrong", name=name)
    data = {"username": "alice", "password": "wrong"}
    answer = client.post(ADDRESS, data, REMOTE_ADDR="192.0.2.1", headers={"X-Forwarded-For": "203.0.113.9"})
    assert answer.status_code == 429


def test_other_writings_of_the_letters_give_no_fresh_allowance(client, alice):
    wide = "\uff41lice"
    assert attempt(client, password=scenes.PASSWORD, name=wide).status_code == 302  # it is the same account
    client.logout()
    for _ in range(6):
        attempt(client, password="wrong")
    assert attempt(client, password="wrong", name=wide).status_code == 429


def test_the_addresses_of_one_ipv6_network_count_together(client, alice):
    for number in range(6):
        attempt(client, password="wrong", address=f"2001:db8:1:2::{number}")
    assert attempt(client, password="wrong", address="2001:db8:1:2:ffff::1").status_code == 429
    assert attempt(client, password="wrong", address="2001:db8:1:3::1").status_code == 200


def test_an_address_written_as_ipv6_is_the_same_one(client, alice):
    for number in range(6):
        attempt(client, password="wrong", address=("::ffff:192.0.2.1", "192.0.2.1")[number % 2])
    assert attempt(client, password="wrong", address="::ffff:192.0.2.1").status_code == 429
    assert attempt(client, password="wrong", address="::ffff:192.0.2.2").status_code == 200


def test_operators_sign_in_under_the_same_limit(client, db):
    answer = client.get("/admin/login/")
    assert answer.status_code == 302
    assert answer["Location"].startswith(ADDRESS)
