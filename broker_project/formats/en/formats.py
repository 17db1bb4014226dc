"""Found by Django through FORMAT_MODULE_PATH, by the name of the language."""

DATETIME_FORMAT = "Y-m-d H:i:s"
DATE_FORMAT = "Y-m-d"
