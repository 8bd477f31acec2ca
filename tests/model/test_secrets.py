"""Which values are secrets, and command lines without them."""

from __future__ import annotations

import pytest

from gputui.model.machine.secrets import MASK, is_secret, mask_arguments, mask_value

SECRETS = [
    ("WANDB_API_KEY", "0123456789abcdef"),
    ("HF_TOKEN", "abc"),
    ("AWS_SECRET_ACCESS_KEY", "abc"),
    ("AWS_ACCESS_KEY_ID", "abc"),
    ("AWS_SESSION_TOKEN", "abc"),
    ("DB_PASSWORD", "1234"),
    ("PGPASSWORD", "x"),
    ("MYSQL_PWD", "x"),
    ("GOOGLE_APPLICATION_CREDENTIALS", "/home/ana/key.json"),
    ("OPENAI_APIKEY", "x"),
    ("NEPTUNE_API_TOKEN", "x"),
    ("SSH_PRIVATE_KEY", "x"),
    ("SECRET_KEY_BASE", "x"),
    ("SENTRY_DSN", "https://x"),
    ("--hf-token", "x"),
    ("wandb.api_key", "x"),
    ("apiKey", "x"),
]

NO_SECRETS = [
    ("TOKENIZERS_PARALLELISM", "false"),
    ("--tokenizer", "gpt2"),
    ("--max-tokens", "512"),
    ("--num_tokens", "1e9"),
    ("--use_auth_token", "true"),
    ("PWD", "/home/ana"),
    ("OLDPWD", "/home"),
    ("KEYBOARD_LAYOUT", "de"),
    ("--pin-memory", "yes"),
    ("PATH", "/usr/bin"),
    ("SSH_AUTH_SOCK", "/run/agent"),
    ("EMPTY_TOKEN", ""),
]


@pytest.mark.parametrize(("name", "value"), SECRETS, ids=[name for name, _ in SECRETS])
def test_the_value_of_this_name_is_a_secret(name: str, value: str) -> None:
    assert is_secret(name, value)


@pytest.mark.parametrize(("name", "value"), NO_SECRETS, ids=[name for name, _ in NO_SECRETS])
def test_the_value_of_this_name_is_no_secret(name: str, value: str) -> None:
    assert not is_secret(name, value)


@pytest.mark.parametrize(
    ("arguments", "masked"),
    [
        ("train.py --api-key=abc --lr 1", f"train.py --api-key={MASK} --lr 1"),
        ("train.py --api-key abc --lr 1", f"train.py --api-key {MASK} --lr 1"),
        ("train.py --token --lr 1", "train.py --token --lr 1"),
        ("train.py wandb.api_key=abc model=gpt", f"train.py wandb.api_key={MASK} model=gpt"),
        ("train.py --max-tokens 512", "train.py --max-tokens 512"),
        ("load postgres://ana:geheim@db/x", f"load postgres://ana:{MASK}@db/x"),
        ("--url=postgres://ana:geheim@db/x", f"--url=postgres://ana:{MASK}@db/x"),
        ("login hf_abcdefghijklmnopqrst", f"login {MASK}"),
    ],
    ids=["joined", "next argument", "a flag", "hydra", "a number", "a URL", "a URL in an option", "a known form"],
)
def test_secrets_in_arguments_are_masked(arguments: str, masked: str) -> None:
    assert " ".join(mask_arguments(arguments.split(" "))) == masked


def test_a_value_with_a_password_in_a_url_is_masked_in_part() -> None:
    assert mask_value("HTTPS_PROXY", "http://ana:geheim@proxy:8080") == f"http://ana:{MASK}@proxy:8080"
