"""MoE router load-balancing loss, averaged over ranks."""
