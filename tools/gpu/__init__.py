"""What runs on a machine with GPUs: references, attacks and programs, judged there."""
