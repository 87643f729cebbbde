"""Private averages from Python, by a running Undertone daemon.

    from undertone_node import Daemon

    result = Daemon("alice/node.toml").average(array, plan="plan.json")
    print(result.mean, "±", result.standard_error, "at ε =", result.epsilon)

The daemon on this machine takes part in the run; what stands here only talks to its API, and
sends the array nowhere else. The package is not on PyPI: ``undertone`` there is somebody else's.
"""

from .daemon import Daemon
from .errors import (
    AlreadySpent,
    BudgetRefused,
    Conflict,
    InputRefused,
    Misconfigured,
    NoMean,
    NotThere,
    PlanRefused,
    PolicyRefused,
    Refused,
    RoundMissed,
    Unauthorized,
    Unavailable,
    UndertoneError,
    Unreachable,
)
from .rounds import Progress, Rounds
from .run import Average, Receipt, Run, TimedOut
from .statistics import Statistics, describe_run_file

__all__ = [
    "AlreadySpent",
    "Average",
    "BudgetRefused",
    "Conflict",
    "Daemon",
    "InputRefused",
    "Misconfigured",
    "NoMean",
    "NotThere",
    "PlanRefused",
    "PolicyRefused",
    "Progress",
    "Receipt",
    "Refused",
    "RoundMissed",
    "Rounds",
    "Run",
    "Statistics",
    "TimedOut",
    "Unauthorized",
    "Unavailable",
    "UndertoneError",
    "Unreachable",
    "describe_run_file",
]
