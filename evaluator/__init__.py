"""The judge of ParallelKernelBench: runs submissions on real ranks and decides their verdicts. Works without Django."""
