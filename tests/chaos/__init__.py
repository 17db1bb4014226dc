"""Every fault we can make, made while tenants' programs go on; then the referee says what was lost, doubled or leaked."""
