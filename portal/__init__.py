"""The site of ParallelKernelBench: problems, submissions, boards. It never imports torch."""
