"""MoE dispatch (permute by expert, all-to-all, regroup by local expert)."""
