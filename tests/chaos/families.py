"""All experiments, by family. A short run takes of each family in turn."""

from collections.abc import Mapping, Sequence
from typing import Final

from tests.chaos import faults_of_lines, faults_of_processes, faults_of_servers, kill_points
from tests.chaos.experiments import Experiment

FAMILIES: Final[Mapping[str, Sequence[Experiment]]] = {
    "lines": faults_of_lines.EXPERIMENTS,
    "servers": faults_of_servers.EXPERIMENTS,
    "processes": faults_of_processes.EXPERIMENTS,
    "kill points": kill_points.EXPERIMENTS,
}
