"""A model provider for Inspect that asks `ModelServer` over HTTP.

Inspect's own provider for OpenAI's protocol wants an `openai` that verifiers does not go with.
"""

import asyncio
import json
import os
from typing import Any

from inspect_ai.model import ChatCompletionChoice, ChatMessageAssistant, ModelAPI, ModelOutput, ModelUsage, modelapi
from inspect_ai.tool import ToolCall

from pkb.chat import ChatModel
from tests.client.model_server import KEY


@modelapi(name="served")
class Served(ModelAPI):
    """`served/NAME` at SERVED_BASE_URL."""

    async def generate(self, input: Any, tools: Any, *_: Any, **__: Any) -> ModelOutput:  # noqa: A002
        model = ChatModel(os.environ["SERVED_BASE_URL"], self.model_name, key=KEY, patience_s=5)
        messages = [{"role": message.role, "content": message.text} for message in input]
        named = [{"type": "function", "function": {"name": tool.name}} for tool in tools]
        answer, said = await asyncio.to_thread(model.turn, messages, named)
        calls = [
            ToolCall(
                id=call["id"], function=call["function"]["name"], arguments=json.loads(call["function"]["arguments"])
            )
            for call in said.get("tool_calls", [])
        ]
        message = ChatMessageAssistant(content=said["content"], tool_calls=calls or None)
        reason = "tool_calls" if calls else "stop"
        usage = ModelUsage(input_tokens=answer.usage.tokens_in, output_tokens=answer.usage.tokens_out)
        choice = ChatCompletionChoice(message=message, stop_reason=reason)
        return ModelOutput(model=self.model_name, choices=[choice], usage=usage)
