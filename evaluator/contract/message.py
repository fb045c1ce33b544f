"""The base of all messages between site and judge: frozen, typed, JSON both ways."""

from typing import Self

import msgspec


class ContractError(ValueError):
    """A message does not match the contract; the text names the field."""


class Message(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A frozen record that can be written as JSON and read back."""

    def to_json(self) -> str:
        """This record as JSON text."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The record that `text` holds.

        Raises:
            ContractError: the text is not JSON, lacks a field, has one too many or one of the wrong type.
        """
        try:
            return msgspec.json.decode(text, type=cls)
        except (msgspec.ValidationError, msgspec.DecodeError) as error:
            raise ContractError(f"{cls.__name__}: {error}") from error
