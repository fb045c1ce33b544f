"""What a problem is, as data: its fields, its words, its regimes, and what of them decides a judgement. No torch."""
