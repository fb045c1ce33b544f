"""What the host reads of its machine: GPUs, links, driver faults, what is installed, whether a slot is clean."""
