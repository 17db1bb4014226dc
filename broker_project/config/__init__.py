"""The configuration file: read, checked as a whole, compared with what is stored, applied in one transaction."""
