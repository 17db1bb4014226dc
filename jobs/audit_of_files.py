"""What must always hold between jobs and files, as SQL. Every row a rule returns is a breach: (subject, found, expected)."""

from files.leaving import REMEMBERED_DAYS
from jobs.states import TERMINAL_SQL as TERMINAL

# A result with the members of `results.MARK` and no others; a large one is not even read.
IS_FILE = """CASE WHEN pg_column_size(j.result) < 1000 AND jsonb_typeof(j.result) = 'object' THEN
              j.result ->> 'file' IS NOT NULL AND (SELECT count(*) FROM jsonb_object_keys(j.result)) = 4
              AND (j.result - ARRAY['file', 'content_type', 'size', 'sha256']) = '{}'::jsonb END"""

RULES: dict[str, str] = {
    # P3, a job that was accepted can be sent: what it refers to waits for it.
    "P3.unfinished_job_has_its_files": f"""
        SELECT 'job ' || j.id || ' file ' || f.id AS subject, 'leaving since ' || f.leaving_at AS found,
               'kept until the job has ended' AS expected
        FROM files_file f JOIN files_reference r ON r.file_id = f.id JOIN jobs_job j ON j.id = r.job_id
        WHERE f.kind = 'input' AND f.leaving_at IS NOT NULL AND j.state NOT IN {TERMINAL}
    """,
    # So long a file is remembered after it has gone: then nothing tells a lost one from one that expired.
    "P3.completed_job_has_its_result_file": f"""
        SELECT 'job ' || j.id AS subject, coalesce(f.kind || ' of tenant ' || f.tenant_id, 'none') AS found,
               'the file ' || (j.result ->> 'file') || ' of tenant ' || j.tenant_id AS expected
        FROM jobs_job j
        LEFT JOIN files_file f ON f.id::text = j.result ->> 'file' AND f.tenant_id = j.tenant_id AND f.kind = 'result'
                              AND f.stored_at IS NOT NULL
        WHERE j.state = 'completed' AND j.finished_at > now() - interval '{REMEMBERED_DAYS} days'
          AND {IS_FILE} AND f.id IS NULL
    """,
    "P11.file_is_of_the_jobs_tenant": """
        SELECT 'job ' || j.id || ' file ' || f.id AS subject, f.tenant_id AS found, j.tenant_id AS expected
        FROM files_reference r JOIN files_file f ON f.id = r.file_id JOIN jobs_job j ON j.id = r.job_id
        WHERE f.tenant_id <> j.tenant_id
    """,
}
