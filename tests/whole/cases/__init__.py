"""Faults that were reported of comparable systems, each made over HTTP against one running Berth."""
