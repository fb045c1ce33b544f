"""All-reduce of shared LoRA gradients in expert-parallel MoE."""
