"""An attention layer under Ulysses sequence parallelism."""
