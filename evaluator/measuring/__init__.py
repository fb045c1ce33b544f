"""An operator's tools: what references take alone, and what the hardware reaches. Nothing here judges."""
