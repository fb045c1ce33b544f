"""From a split over positions to a split over heads."""
