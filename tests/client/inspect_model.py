"""A model provider for Inspect that asks `ModelServer` over HTTP.

Inspect's own provider for OpenAI's protocol wants an `openai` that verifiers does not go with.
"""

import asyncio
import os
from typing import Any

from inspect_ai.model import ModelAPI, ModelOutput, ModelUsage, modelapi

from pkb.chat import ChatModel, Message
from tests.client.model_server import KEY


@modelapi(name="served")
class Served(ModelAPI):
    """`served/NAME` at SERVED_BASE_URL."""

    async def generate(self, input: Any, *_: Any, **__: Any) -> ModelOutput:  # noqa: A002
        model = ChatModel(os.environ["SERVED_BASE_URL"], self.model_name, key=KEY, patience_s=5)
        answer = await asyncio.to_thread(model.ask, [Message(message.role, message.text) for message in input])
        output = ModelOutput.from_content(self.model_name, answer.text)
        output.usage = ModelUsage(input_tokens=answer.usage.tokens_in, output_tokens=answer.usage.tokens_out)
        return output
