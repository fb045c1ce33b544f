"""The judge of ParallelKernelBench: runs submissions on real ranks and decides. Works alone, without Django."""
