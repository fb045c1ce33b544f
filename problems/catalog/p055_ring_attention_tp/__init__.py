"""An attention layer under tensor and context parallelism."""
