"""What must always hold between jobs and files, as SQL. Every row a rule returns is a breach: (subject, found, expected)."""

from jobs.states import TERMINAL_SQL as TERMINAL

RULES: dict[str, str] = {
    # P3, a job that was accepted can be sent: what it refers to waits for it.
    "P3.unfinished_job_has_its_files": f"""
        SELECT 'job ' || j.id || ' file ' || f.id AS subject, 'leaving since ' || f.leaving_at AS found,
               'kept until the job has ended' AS expected
        FROM files_file f JOIN files_reference r ON r.file_id = f.id JOIN jobs_job j ON j.id = r.job_id
        WHERE f.kind = 'input' AND f.leaving_at IS NOT NULL AND j.state NOT IN {TERMINAL}
    """,
    "P11.file_is_of_the_jobs_tenant": """
        SELECT 'job ' || j.id || ' file ' || f.id AS subject, f.tenant_id AS found, j.tenant_id AS expected
        FROM files_reference r JOIN files_file f ON f.id = r.file_id JOIN jobs_job j ON j.id = r.job_id
        WHERE f.tenant_id <> j.tenant_id
    """,
}
