"""The pages on which readers explore the problems beside their boards: list, problem, taxonomy, rooflines."""
