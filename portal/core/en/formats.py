"""How Django writes times of its own accord, as in the operators' lists: as all pages do, in UTC."""

DATE_FORMAT = SHORT_DATE_FORMAT = "Y-m-d"
DATETIME_FORMAT = SHORT_DATETIME_FORMAT = r"Y-m-d H:i \U\T\C"
TIME_FORMAT = "H:i"
