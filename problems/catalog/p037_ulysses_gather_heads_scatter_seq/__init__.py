"""From a split over heads to a split over positions."""
