"""What can happen to a session (a resource): its states and arrows."""

from statemachine.machine import Arrow, Machine, State

RESOURCE = Machine(
    name="resource",
    first="available",
    states=[
        State("available", "free to be given to the next job"),
        State("reserved", "given to a job; the upstream was not called yet"),
        State("busy", "in use, from before the call until the upstream is known to have ended"),
        State("cooldown", "resting until available_at: reuse gap, Retry-After or quarantine"),
        State("offline", "disabled or banned, with a reason and by whom"),
    ],
    arrows=[
        Arrow("reserve", ("available",), "reserved", "a job's turn came"),
        Arrow("unreserve", ("reserved",), "available", "the job went back or was cancelled before the call"),
        Arrow("use", ("reserved",), "busy", "intent committed, before the upstream is called"),
        Arrow("cool", ("busy",), "cooldown", "the session ended and must rest"),
        Arrow("free", ("busy",), "available", "the session ended"),
        Arrow("release", ("cooldown",), "available", "available_at has passed, or nobody wants it to rest any more"),
        Arrow("quarantine", ("available",), "cooldown", "an operator, the upstream or the breaker wants it to rest"),
        Arrow("disable", ("available", "cooldown"), "offline", "an operator took it out, or its account was refused"),
        Arrow("enable", ("offline",), "available", "an operator put it back, or its credential changed"),
    ],
)
