"""What is read from a model's answer, and what it costs."""

import pytest

from pkb import Refused, Unreachable, UsageError
from pkb.chat import ChatModel, Message, Prices, Usage, source_in
from tests.client.model_server import KEY, ModelServer, fenced
from tests.client.programs import RIGHT

QUESTION = [Message("user", "Write it.")]


@pytest.mark.parametrize(
    ("answer", "source"),
    [
        (fenced(RIGHT), RIGHT),
        (f"First try:\n```python\ndef solution(a):\n    return a\n```\nBetter:\n{fenced(RIGHT)}", RIGHT),
        (f"```py\n{RIGHT}```\nRun it with:\n```sh\npython solution.py\n```", RIGHT),
        (f"````\n{RIGHT}````", RIGHT),
        (RIGHT, RIGHT),
        ("I cannot do that.", ""),
        ("```python\nprint('no function')\n```", ""),
        (f"Cut off:\n```python\n{RIGHT}", RIGHT),
    ],
)
def test_the_last_block_that_defines_solution_is_the_program(answer, source):
    assert source_in(answer) == source


def test_cost_counts_cached_tokens_at_their_price():
    usage = Usage(tokens_in=3_000_000, tokens_out=1_000_000, tokens_cached=1_000_000)
    assert Prices(per_million_in=2, per_million_out=10, per_million_cached=0.5).cost_usd(usage) == 14.5
    assert Prices(per_million_in=2, per_million_out=10).cost_usd(usage) == 16


def test_a_busy_endpoint_is_asked_again():
    with ModelServer(lambda _: "hello", refuse_first=2) as server:
        answer = ChatModel(server.base_url, "m", key=KEY, sampling={"temperature": 0.5}).ask(QUESTION)
        assert (answer.text, answer.usage.tokens_in, answer.usage.tokens_out) == ("hello", 1000, 100)
        [body] = server.asked
        assert (body["model"], body["temperature"]) == ("m", 0.5)
        assert body["messages"] == [{"role": "user", "content": "Write it."}]


def test_errors_of_the_endpoint_come_in_its_words():
    with ModelServer(lambda _: "hello") as server:
        with pytest.raises(Refused, match="Incorrect API key provided"):
            ChatModel(server.base_url, "m", key="wrong").ask(QUESTION)
        with pytest.raises(Refused, match="no such path"):
            ChatModel(f"{server.base_url}/else", "m", key=KEY).ask(QUESTION)
    with pytest.raises(Unreachable):
        ChatModel(server.base_url, "m", patience_s=0).ask(QUESTION)
    with pytest.raises(UsageError):
        ChatModel("localhost:8000", "m")
