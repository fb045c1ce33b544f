"""Rotary embedding + sequence all-gather of Q and K."""
