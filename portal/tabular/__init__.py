"""Tables whose columns are described once, and the formats that they are written in. It knows no app."""
