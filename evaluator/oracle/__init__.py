"""The trusted ranks: they draw inputs, know what is right, compare, and time the reference. No submission here."""
