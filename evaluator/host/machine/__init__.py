"""What the host reads of its machine: GPUs, links, driver faults, installed software, and whether a slot is clean."""
