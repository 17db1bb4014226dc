"""What can happen to a job: its states and arrows. The drawing, the database's guards and the code are made from this."""

from statemachine.machine import Arrow, Machine, State

JOB = Machine(
    name="job",
    first="pending",
    states=[
        State("pending", "accepted, priced and held; waits for its turn, its time or a back-off"),
        State("assigned", "holds a session; nothing was sent to the upstream yet"),
        State(
            "processing",
            "the upstream was, or may have been, asked; the session is occupied until it is known to be over",
        ),
        State("completed", "verified success; charged", terminal=True),
        State("failed", "ended without success; nothing is held any more", terminal=True),
        State("cancelled", "ended by request", terminal=True),
    ],
    arrows=[
        Arrow("assign", ("pending",), "assigned", "its turn, and a session was free"),
        Arrow("unassign", ("assigned",), "pending", "the worker was lost before the intent was written"),
        Arrow("dispatch", ("assigned",), "processing", "intent committed, before the upstream is called"),
        Arrow("complete", ("processing",), "completed", "the upstream verified success, whole or partial"),
        Arrow("retry", ("processing",), "pending", "attempts left and repeating is allowed"),
        Arrow("fail", ("processing",), "failed", "none left, or not to be repeated"),
        Arrow(
            "expire",
            ("pending",),
            "failed",
            "its deadline for the first start passed, or a restore lost whether it was sent",
        ),
        Arrow("cancel", ("pending", "assigned"), "cancelled", "asked for before the upstream was called"),
        Arrow("cancel_ended", ("processing",), "cancelled", "asked for, and the upstream session has ended"),
        Arrow("replay", ("failed", "cancelled"), "pending", "asked for: a new run with a new hold"),
    ],
)

TERMINAL_SQL = "(" + ", ".join(f"'{state}'" for state in JOB.terminal) + ")"

# What an attempt has come to; a phase only grows.
INTENDED, CALLING, ACCEPTED, ENDED = "intended", "calling", "accepted", "ended"
ATTEMPT_PHASES = {
    INTENDED: "opened with its lease; nothing sent",
    CALLING: "intent committed: the call may have been sent",
    ACCEPTED: "the upstream answered with a reference",
    ENDED: "the upstream session is known to be over, or was never begun",
}
PHASE_MOVES = [(INTENDED, CALLING), (INTENDED, ENDED), (CALLING, ACCEPTED), (CALLING, ENDED), (ACCEPTED, ENDED)]

# Was it executed? Empty until something is known.
SUCCEEDED, PARTIAL, FAILED, NOT_EXECUTED, UNKNOWN = "succeeded", "partial", "failed", "not_executed", "unknown"
VERDICTS = {
    SUCCEEDED: "executed, and verified",
    PARTIAL: "executed in part, and verified",
    FAILED: "executed, and the upstream says it failed",
    NOT_EXECUTED: "refused or never sent: safe to repeat",
    UNKNOWN: "may have been executed: to be found out, never repeated blindly",
}
PROVEN = (SUCCEEDED, PARTIAL)
PROVEN_SQL = f"('{SUCCEEDED}', '{PARTIAL}')"
