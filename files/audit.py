"""What must always hold of files, as SQL. Every row a rule returns is a breach: (subject, found, expected)."""

RULES: dict[str, str] = {
    "P7.file_bytes_are_counted": """
        SELECT 'tenant ' || coalesce(u.tenant_id, f.tenant_id) AS subject,
               coalesce(u.input_bytes, 0) || ' + ' || coalesce(u.result_bytes, 0) AS found,
               coalesce(f.input_bytes, 0) || ' + ' || coalesce(f.result_bytes, 0) AS expected
        FROM files_usage u
        FULL JOIN (SELECT tenant_id, coalesce(sum(size) FILTER (WHERE kind = 'input'), 0) AS input_bytes,
                          coalesce(sum(size) FILTER (WHERE kind = 'result'), 0) AS result_bytes
                   FROM files_file WHERE gone_at IS NULL GROUP BY tenant_id) f USING (tenant_id)
        WHERE coalesce(u.input_bytes, 0) <> coalesce(f.input_bytes, 0)
           OR coalesce(u.result_bytes, 0) <> coalesce(f.result_bytes, 0)
    """,
}
