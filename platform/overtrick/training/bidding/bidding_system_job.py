"""Base class of the jobs that train bidding networks: a key names the bidding system."""

from __future__ import annotations

from pydantic import Field, ValidationInfo, field_validator

from overtrick.config.job_file import GpuJob
from overtrick.config.sections import Opponent
from overtrick.games.bridge.system import loader


class BiddingSystemJob(GpuJob):
    """Base class of jobs that train bidding networks; a key names the bidding system."""

    system: Opponent = "natural"
    """Bidding system that defines the meaning of the network's calls."""

    system_version: dict[str, str] = Field(default={})
    """Fingerprints of bidding rules by the name of the system; filled in when a run starts."""

    @field_validator("system")
    @classmethod
    def _system_exists(cls, name: str) -> str:
        loader.load(name)
        return name

    @field_validator("system_version")
    @classmethod
    def _fill_in_version(cls, rules: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        if "system" not in info.data:  # the system was invalid, which has been reported
            return rules
        own = loader.load(info.data["system"])
        return {own.name: loader.fingerprint(own), **rules}
