"""MoE dispatch bookkeeping (token counts per rank and expert)."""
