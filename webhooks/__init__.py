"""The outbox: events of tenants, written with the change they tell of."""
