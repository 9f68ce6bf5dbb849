"""What stands before the backend: admission control of some kind, or none."""

from typing import Protocol

from tokenweir.sim.job import Job


class Front(Protocol):
    """Takes what clients ask; hands what may go to the GPU pool."""

    def ask(self, job: Job) -> None:
        """A client asks. The job goes to the backend now or later, or is refused."""

    def through(self, job: Job) -> None:
        """The backend is through with a job."""
