"""What an audit of less than all asks of the sessions' history (see `credits/touched.py`); the sessions it asks whole."""

from statemachine.touched import Figure, Scope, Source, Table

TABLES = {"touched_resourcemove": Table("SELECT * FROM pool_resourcemove")}
SINCE = [Source("touched_resourcemove", "SELECT * FROM pool_resourcemove WHERE id > %(pool_resourcemove)s")]

# The last move of each session that the checkpoint knew stands for all before it, as if it were its first.
SINCE_LAST = {
    "pool_resourcemove": """
        SELECT id, subject_id, from_state, to_state FROM touched_resourcemove
        WHERE id > (SELECT figure FROM remembered WHERE name = 'pool_resourcemove')
        UNION ALL SELECT m.id, m.subject_id, '', m.to_state
        FROM remembered r JOIN pool_resourcemove m ON m.id = r.figure::bigint WHERE r.name = 'last_resourcemove'
    """
}
SCOPES: dict[str, Scope] = {
    "P8.resource_moves_lead_to_its_state": Scope(SINCE_LAST, of_tenant=False),
    "P8.resource_moves_are_legal": Scope({"pool_resourcemove": "SELECT * FROM touched_resourcemove"}, of_tenant=False),
}
# What a checkpoint remembers, as of its last final move.
FIGURES = {
    "last_resourcemove": Figure(
        "SELECT subject_id, max(id) AS figure FROM pool_resourcemove WHERE id <= {pool_resourcemove} GROUP BY subject_id",
        Scope(SINCE_LAST),
    ),
}
