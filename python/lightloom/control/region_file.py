"""A region as one strict TOML file: its switches, port map, policy, and how changes are made."""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from pydantic import Field, PrivateAttr, field_validator, model_validator

from lightloom.control.change import ConflictMode
from lightloom.control.change_window import ChangeWindow, zone_of
from lightloom.control.optics import OpticalLimits, published_limits
from lightloom.control.port_map import PortMap
from lightloom.control.port_map_files import read_port_map
from lightloom.control.private_files import read_private
from lightloom.control.refusals import RegionFileError
from lightloom.control.switch import Credentials
from lightloom.errors import InputError
from lightloom.inputs.files import shown_path
from lightloom.inputs.formats import read_toml
from lightloom.inputs.strict import File, Name, Strict, Switch, Whole, check, quantity
from lightloom.schedule.circuit_rules import (
    CircuitRules,
    LinkUpTime,
    SwitchingTime,
    link_up_time_s,
    switching_times_s,
)
from lightloom.schedule.record_fields import keys_of, with_keys
from lightloom.schedule.records import Policy, Region, RelayCost, SwitchTiming
from lightloom.schedule.relay_cost import relay_default

if TYPE_CHECKING:
    from lightloom.fabric.reconfiguration import CircuitRegion

Seconds = Annotated[float, quantity("second"), Field(ge=0, le=1e6)]
_MAX_SECRET_BYTES = 4096
#: keys of a switch's URL that name a file
_PATHS_OF_URL = ("ca_file", "known_hosts")
#: tables that the file of a fabric takes the place of
RULES = ("rates", "policy", "timing", "relay")
#: a name that is part of file names: no folder, no hidden file, nothing that a shell expands
_REGION_NAME = re.compile(r"[^\W_][\w.-]*")


class Section(Strict):
    """A table of a region file."""

    error_class: ClassVar[type[InputError]] = RegionFileError


class SwitchSection(Section):
    """One circuit switch and how to log in to it."""

    url: Name = Field(description="Where it is, such as polatis+tl1://10.0.0.5:3082.")
    user: str = Field("", max_length=256, description="User name.")
    password_file: File | None = Field(None, description="File with the password, and no more.")
    password_env: Name | None = Field(None, description="Environment variable with the password.")

    @field_validator("url")
    @classmethod
    def _no_secret_in_url(cls, url: str) -> str:
        if urlsplit(url).password is not None:
            # not a ValueError, whose message would have the URL
            raise RegionFileError(
                "switches: a password in a URL would be logged; use password_file"
            )
        return url

    @model_validator(mode="after")
    def _one_password(self) -> SwitchSection:
        if self.password_file is not None and self.password_env is not None:
            raise RegionFileError("password_file and password_env: expected one of them")
        return self

    def address(self, folder: Path) -> str:
        """Return the URL with its paths, which are relative to the region's file, from here."""
        parts = urlsplit(self.url)
        query = parse_qsl(parts.query, keep_blank_values=True)
        if not any(key in _PATHS_OF_URL for key, _ in query):
            return self.url
        paths = [
            (key, str(folder / value) if key in _PATHS_OF_URL and value else value)
            for key, value in query
        ]
        return urlunsplit(parts._replace(query=urlencode(paths)))

    def files(self) -> list[Path]:
        """Return the files that this table names."""
        query = parse_qsl(urlsplit(self.url).query)
        named = [Path(value) for key, value in query if key in _PATHS_OF_URL]
        return named if self.password_file is None else [self.password_file, *named]

    def credentials(self, folder: Path) -> Credentials:
        """Return user and password.

        Raises
        ------
        RegionFileError
            If the file or variable is not there, or others may read the file.
        """
        if self.password_env is not None:
            password = os.environ.get(self.password_env)
            if password is None:
                raise RegionFileError(f"environment variable {self.password_env} is not set")
            return Credentials(self.user, password)
        if self.password_file is None:
            return Credentials(self.user)
        path = folder / self.password_file
        content = read_private(path, "password", _MAX_SECRET_BYTES)
        try:
            return Credentials(self.user, content.decode("utf-8").rstrip("\r\n"))
        except UnicodeDecodeError:
            raise RegionFileError(f"{shown_path(path)}: not UTF-8 text") from None


class JobSection(Section):
    """The ranks of the region's servers, in the order of the servers."""

    ranks_per_server: Annotated[Whole, Field(le=1024)] = Field(
        8, description="Ranks of an all-to-all on each server."
    )
    gpus_per_server: Annotated[Whole, Field(le=1024)] = Field(
        8, description="GPUs of a server; the optical NICs are divided among them evenly."
    )
    gpu: Name | None = Field(
        None,
        description="Type of the GPUs, for what the file of a fabric leaves open, as --gpu of a "
        "comparison.",
    )
    spares: tuple[Name, ...] = Field(
        (),
        description="GPUs that the job does not use and that may replace others: 3/7 is GPU 7 "
        "of server 3.",
    )
    pool: Annotated[int, Field(strict=True, ge=0, le=10**6)] = Field(
        0, description="GPUs outside the region that may replace others."
    )


#: fields of a region that the port map states, and those that are part of the policy
_ELSEWHERE = ("ports", "allowed", "planes", "failed", "split", "numa_nodes")
_REGION = keys_of(
    Region.__name__, defaults={"circuit_gbps": 400.0, "eps_gbps": 800.0, "eps_nics": 2}
)


@with_keys({key: declared for key, declared in _REGION.items() if key not in _ELSEWHERE})
class RatesSection(Section):
    """Rates of the region's servers."""

    if TYPE_CHECKING:  # keys of the record that are read here
        circuit_gbps: ClassVar[float]
        eps_gbps: ClassVar[float]
        eps_nics: ClassVar[int]


#: what relaying costs is a table of its own
_POLICY = {key: declared for key, declared in keys_of(Policy.__name__).items() if key != "relaying"}


@with_keys(_POLICY | {key: _REGION[key] for key in ("split", "numa_nodes")})
class PolicySection(Section):
    """How circuits follow the demand; the defaults are those of the simulator."""

    if TYPE_CHECKING:  # keys of the record that are read here
        split: ClassVar[bool]
        numa_nodes: ClassVar[int]

    def policy(self, relaying: RelayCost | None) -> Policy:
        """Return the policy of servers that relay at this cost, if at all."""
        return Policy(**self.model_dump(include=set(_POLICY)), relaying=relaying)


_TIMING = keys_of(
    SwitchTiming.__name__,
    instead={
        "fixed_s": (
            SwitchingTime,
            Field(
                "measured",
                description="From command to settled circuits, whatever their number.",
            ),
        ),
        "per_pair_s": (
            Seconds | None,
            Field(
                None,
                description="In addition for each pair that changes; as measured by default.",
            ),
        ),
        "link_up_s": (
            LinkUpTime,
            Field("measured", description="From settled circuits until NICs carry traffic."),
        ),
    },
)


@with_keys(_TIMING)
class TimingSection(Section):
    """How long a change takes; ``measured`` is what was published of a beam-steering switch."""

    def resolved(self) -> SwitchTiming:
        """Return it in seconds."""
        times = self.model_dump()
        fixed_s, per_pair_s = switching_times_s(times["fixed_s"], times["per_pair_s"])
        link_up_s = link_up_time_s(times["link_up_s"])
        return SwitchTiming(
            **times | {"fixed_s": fixed_s, "per_pair_s": per_pair_s, "link_up_s": link_up_s}
        )


@with_keys(keys_of(RelayCost.__name__, default=relay_default))
class RelaySection(Section):
    """That servers pass bytes of others on where that is faster, and what they pay for it."""

    def cost(self) -> RelayCost:
        """Return what they pay."""
        return RelayCost(**self.model_dump())


class ChangeSection(Section):
    """How a change is made, verified, and what becomes of it if a part fails."""

    conflicts: ConflictMode = Field(
        ConflictMode.SAFE,
        description="What becomes of cross-connects on owned ports that others made: safe refuses, "
        "update replaces those in the path, overwrite deletes all.",
    )
    verify: Literal["accepted", "read-back", "light"] = Field(
        "read-back",
        description="Proof of a circuit: accepted takes the switch's word, read-back reads its "
        "cross-connects, light measures the loss as well.",
    )
    retries: Annotated[int, Field(strict=True, ge=0, le=10)] = Field(
        1, description="Further attempts at what failed."
    )
    on_failure: Literal["leave", "roll-back"] = Field(
        "leave",
        description="After the last attempt: leave what was made and report, or roll back to the "
        "circuits before.",
    )
    on_drift: Literal["report", "reapply"] = Field(
        "report", description="What to do if the switch holds other circuits than it should."
    )
    timeout_s: Annotated[float, quantity("second"), Field(gt=0, le=600)] = Field(
        5.0, description="Time after which a switch that does not settle has failed."
    )
    window: tuple[ChangeWindow, ...] = Field(
        (),
        description="When operators may change circuits; at any time by default.",
        max_length=100,
    )
    time_zone: Name = Field("UTC", description="Time zone of the windows.")
    window_binds_jobs: Switch = Field(
        False, description="Whether demands of jobs change circuits only in a window, too."
    )

    @field_validator("time_zone")
    @classmethod
    def _is_known(cls, name: str) -> str:
        zone_of(name)
        return name


class OpticsSection(Section):
    """Limits of light; by default those published of a beam-steering switch."""

    max_input_dbm: Annotated[float, Field(ge=-60, le=40)] | None = Field(
        None, description="Power above which a port is not connected."
    )
    typical_loss_db: Annotated[float, Field(ge=0, le=60)] | None = Field(
        None, description="Expected loss of a circuit."
    )
    max_loss_db: Annotated[float, Field(ge=0, le=60)] | None = Field(
        None, description="Measured loss above which a circuit is reported."
    )
    monitor_accuracy_db: Annotated[float, Field(ge=0, le=60)] | None = Field(
        None, description="Error of a power monitor."
    )
    max_loss_growth_db: Annotated[float, Field(ge=0, le=60)] | None = Field(
        None,
        description="Growth of a circuit's loss over its lowest reading above which it is "
        "reported; twice the error of a monitor by default.",
    )
    min_receive_dbm: Annotated[float, Field(ge=-60, le=40)] | None = Field(
        None, description="Power that a receiver needs; not checked by default."
    )

    def resolved(self) -> OpticalLimits:
        """Return the limits, published ones where none is given."""
        values = {
            name: value.value if getattr(self, name) is None else getattr(self, name)
            for name, value in published_limits().items()
        }
        growth_db = self.max_loss_growth_db
        if growth_db is None:
            growth_db = 2 * values["monitor_accuracy_db"]
        return OpticalLimits(
            **values, max_loss_growth_db=growth_db, min_receive_dbm=self.min_receive_dbm
        )


class ServeSection(Section):
    """Where the service listens, and its bounds."""

    socket: File | None = Field(None, description="Unix socket; the default is a file.sock.")
    host: Name | None = Field(None, description="Address for TCP instead, such as 127.0.0.1.")
    port: Annotated[int, Field(strict=True, ge=0, le=65_535)] = Field(
        0, description="Port for TCP; 0 takes a free one."
    )
    token_file: File | None = Field(
        None, description="File with the tokens of clients; made if it is not there."
    )
    tls_certificate: File | None = Field(None, description="Certificate (PEM).")
    tls_key: File | None = Field(None, description="Its key (PEM).")
    max_connections: Annotated[Whole, Field(le=65_536)] = Field(
        256, description="Connections at one time."
    )
    max_peer_connections: Annotated[Whole, Field(le=65_536)] = Field(
        64, description="Connections at one time from one address, for TCP."
    )
    request_timeout_s: Annotated[float, quantity("second"), Field(gt=0, le=600)] = Field(
        10.0,
        description="Time in which a request, once begun, must be complete, and a reply be read.",
    )
    demand_timeout_s: Annotated[float, quantity("second"), Field(gt=0, le=600)] = Field(
        5.0,
        description="Time after which a demand is told to use the EPS; a change that was begun is "
        "carried through.",
    )
    drain_timeout_s: Annotated[float, quantity("second"), Field(gt=0, le=600)] = Field(
        2.0, description="Time in which members must have drained circuits that go dark."
    )
    check_s: Annotated[float, quantity("second"), Field(gt=0, le=86_400)] = Field(
        10.0, description="Time between two readings of the switches and their ports."
    )
    max_age_s: Annotated[float, quantity("second"), Field(ge=0, le=86_400)] = Field(
        1.0,
        description="Age of a reading above which the switches are read before a demand is "
        "answered; before a change they are read in any case.",
    )
    http_port: Annotated[int, Field(strict=True, ge=1, le=65_535)] | None = Field(
        None,
        description="Loopback port of the region's page (/), of what it shows (/region.json) and "
        "of the Prometheus metrics (/metrics).",
    )


class RegionFile(Section):
    """One region: everything that its controller has to know."""

    name: Annotated[Name, Field(max_length=200)] = Field(description="Name of the region.")
    port_map: File = Field(description="Port map (.csv or .toml), relative to this file.")
    journal: File = Field(description="Journal (SQLite), relative to this file.")
    durability: Literal["process", "power"] = Field(
        "process",
        description="What a journaled intent survives: the end of the process, or a loss of power "
        "of this machine as well, at the cost of a disk write per change.",
    )
    keep_changes: Annotated[Whole, Field(ge=10)] = Field(
        100_000, description="Changes that the journal keeps."
    )
    lease_s: Annotated[float, quantity("second"), Field(ge=1, le=3600)] = Field(
        30.0, description="Time for which the lease of the region holds."
    )
    fabric: File | None = Field(
        None,
        description="File of a fabric with circuits, relative to this one; it takes the place of "
        "the tables rates, policy, timing and relay.",
    )
    switches: dict[Name, SwitchSection] = Field(
        description="Circuit switches by name.", min_length=1, max_length=4096
    )
    job: JobSection = Field(JobSection(), description="Ranks.")
    rates: RatesSection = Field(RatesSection(), description="Rates.")
    policy: PolicySection = Field(PolicySection(), description="Policy.")
    timing: TimingSection = Field(TimingSection(), description="Timing.")
    relay: RelaySection | None = Field(
        None, description="Relaying: servers pass bytes of others on where the table is there."
    )
    change: ChangeSection = Field(ChangeSection(), description="Changes.")
    optics: OpticsSection = Field(OpticsSection(), description="Light.")
    serve: ServeSection = Field(ServeSection(), description="Service.")

    _of_fabric: CircuitRegion | None = PrivateAttr(None)

    @field_validator("name")
    @classmethod
    def _fits_file_names(cls, name: str) -> str:
        if _REGION_NAME.fullmatch(name) is None:
            raise ValueError("expected letters, digits, '.', '_' and '-', such as rack7")
        return name

    @model_validator(mode="after")
    def _relaying_makes_sense(self) -> RegionFile:
        if self.relay is not None and not self.policy.split:
            raise RegionFileError(
                "relay divides the bytes of a pair: expected split = true in [policy]"
            )
        return self

    @model_validator(mode="after")
    def _says_rules_once(self) -> RegionFile:
        given = [name for name in RULES if name in self.model_fields_set]
        if self.fabric is None and "gpu" in self.job.model_fields_set:
            raise RegionFileError("job.gpu is for what the file of a fabric leaves open: no fabric")
        if self.fabric is not None and given:
            raise RegionFileError(
                f"fabric and [{given[0]}]: expected one of them; {self.fabric} says what stands in"
                f" {', '.join(f'[{name}]' for name in RULES)}"
            )
        return self

    def with_fabric(self, path: Path) -> RegionFile:
        """Return it with what the file of its fabric says; ``path`` is where it was read.

        Raises
        ------
        RegionFileError
            If that file cannot be used, or has servers of other GPUs than this one.
        """
        # fabrics take as long to import as all else
        from lightloom.control.region_fabric import read_circuit_region

        assert self.fabric is not None
        job = self.job
        given = job.gpus_per_server if "gpus_per_server" in job.model_fields_set else None
        region = read_circuit_region(path.parent / self.fabric, job.gpu, given)
        gpus = region.gpus_per_server
        if given not in (None, gpus):
            raise RegionFileError(
                f"{shown_path(path)}: job.gpus_per_server = {job.gpus_per_server}:"
                f" {self.fabric} says {gpus}; keep one"
            )
        ranks = job.ranks_per_server if "ranks_per_server" in job.model_fields_set else gpus
        found = self.model_copy(
            update={
                "job": job.model_copy(update={"gpus_per_server": gpus, "ranks_per_server": ranks})
            }
        )
        found._of_fabric = region
        return found

    @property
    def rules(self) -> CircuitRules:
        """What decides on circuits: the tables of this file, or what its fabric says."""
        if self.fabric is not None:
            assert self._of_fabric is not None, "read_region reads the file of the fabric"
            return self._of_fabric.rules
        return self._rules

    @functools.cached_property
    def _rules(self) -> CircuitRules:
        policy, rates = self.policy, self.rates
        return CircuitRules(
            **rates.model_dump(),
            split=policy.split,
            policy=policy.policy(None if self.relay is None else self.relay.cost()),
            timing=self.timing.resolved(),
            numa_nodes=policy.numa_nodes,
        )

    def files(self, folder: Path) -> list[Path]:
        """Every file that this one names, relative to its folder."""
        names: list[Path | None] = [self.port_map, self.journal, self.fabric]
        names += [name for section in self.switches.values() for name in section.files()]
        names += [self.serve.token_file, self.serve.tls_certificate, self.serve.tls_key]
        return [folder / name for name in names if name is not None]

    def read_port_map(self, folder: Path) -> PortMap:
        """Read the port map.

        Raises
        ------
        PortMapError
            If it is wrong, or is not as the file of the fabric has it.
        """
        port_map = read_port_map(folder / self.port_map, list(self.switches))
        self.check_port_map(port_map, folder)
        return port_map

    def check_port_map(self, port_map: PortMap, folder: Path) -> None:
        """Refuse a port map that is not as the fabric that was read has it.

        Raises
        ------
        PortMapError
            Naming the first thing that differs.
        """
        if self._of_fabric is not None:
            from lightloom.control.region_fabric import check_port_map

            check_port_map(port_map, self._of_fabric, shown_path(folder / str(self.fabric)))


def read_tables(path: Path) -> RegionFile:
    """Read the file of a region alone, for who asks its service and decides on nothing.

    Raises
    ------
    RegionFileError
        If it cannot be read, or a key is unknown, missing or wrong.
    """
    return check(RegionFile, read_toml(path, "region", RegionFileError), shown_path(path))


def read_region(path: Path) -> RegionFile:
    """Read the file of a region, and that of its fabric.

    Raises
    ------
    RegionFileError
        If one cannot be read, a key is unknown, missing or wrong, or the fabric has no circuits
        that a controller can decide.
    """
    file = read_tables(path)
    return file if file.fabric is None else file.with_fabric(path)
