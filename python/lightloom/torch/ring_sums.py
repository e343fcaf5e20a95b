"""Sums over all ranks: added up inside servers, then by rings over the packet NICs.

The ranks of a server each add up a part of the tensor, in the order of the ranks. Ranks of the same
number in all servers are a ring, which goes over the packet NICs next to them: there are as many
rings as ranks of a server, and a rank with several NICs divides its part among them. A ring adds up
its part in two rounds around: part ``c`` of it begins at server ``c + 1`` and ends at server ``c``,
so sums are in that order of servers, the same on all ranks to the bit. Sums are of the tensor's own
type.
"""

from __future__ import annotations

import torch

from lightloom.schedule.carrying import JobNics
from lightloom.torch.octets import as_octets
from lightloom.torch.server_memory import ServerMemory
from lightloom.torch.step_agreement import StepAgreement
from lightloom.torch.streams import RankStreams
from lightloom.torch.waiting import Watch


class RingSums:
    """The all-reduce of a job.

    Parameters
    ----------
    rank, nics
        The rank, and the NICs of its job.
    agreement, memory, streams, watch
        Of the rank and its server.
    """

    def __init__(
        self,
        rank: int,
        nics: JobNics,
        *,
        agreement: StepAgreement,
        memory: ServerMemory,
        streams: RankStreams,
        watch: Watch,
    ) -> None:
        self._rank, self._nics = rank, nics
        self._agreement, self._memory = agreement, memory
        self._streams, self._watch = streams, watch

    def sum(self, x: torch.Tensor) -> torch.Tensor:
        """Return the sum of a tensor over all ranks.

        Raises
        ------
        InputError
            On every rank, if ranks disagree.
        RankError
            If a rank does not answer.
        """
        agreement, memory, nics = self._agreement, self._memory, self._nics
        each, count = nics.ranks_per_server, x.numel()
        kind = str(x.dtype).removeprefix("torch.")
        agreement.agree(f"all_reduce of {count} {kind}", [], "")
        step, size = agreement.step, x.element_size()
        flat = x.detach().to("cpu").contiguous().reshape(-1)
        share = -(-count // each)
        part = -(-share // nics.servers)  # of a ring; all parts are as large
        whole = each * nics.servers * part
        received = memory.receive_into(step, 2 * (nics.servers - 1) * part * size)
        out = memory.sending((whole + nics.servers * part) * size)
        out[: count * size] = as_octets(flat)
        out[count * size : whole * size] = 0
        memory.sent_is_ready(step)
        local = self._rank % each
        span = slice(local * nics.servers * part * size, (local + 1) * nics.servers * part * size)
        total = torch.zeros(0, dtype=x.dtype)
        for other in range(each):
            data = memory.sent_by(other, step, whole * size)[span]
            mine = torch.from_numpy(data).view(x.dtype)
            total = mine.clone() if other == 0 else total.add_(mine)
        parts = list(total.view(nics.servers, part))
        self._around(parts, torch.from_numpy(received).view(x.dtype), step)
        out[whole * size :] = as_octets(total)
        memory.sum_is_ready(step)
        result = torch.empty(each * nics.servers * part, dtype=x.dtype)
        octets = as_octets(result)
        for other in range(each):
            begin = other * nics.servers * part * size
            sums = memory.summed_by(other, step)[whole * size :][: nics.servers * part * size]
            octets[begin : begin + len(sums)] = sums
        self._streams.flush()
        return result[:count].reshape(x.shape).to(x.device)

    def _around(self, parts: list[torch.Tensor], received: torch.Tensor, step: int) -> None:
        """Send parts around the ring: first what is to be added up, then the sums."""
        nics, servers = self._nics, self._nics.servers
        server, local = divmod(self._rank, nics.ranks_per_server)
        peer = (server + 1) % servers
        to = peer * nics.ranks_per_server + local
        hops = nics.packet_hops(server, peer) if servers > 1 else []
        own = hops[local :: nics.ranks_per_server] or hops[local % max(1, len(hops)) :][:1]
        size = parts[0].numel() * parts[0].element_size()
        for number in range(2 * (servers - 1)):
            adds = number < servers - 1
            leaving = (server - number - 1) % servers
            data = memoryview(as_octets(parts[leaving]))
            for place, hop in enumerate(own):
                begin, end = (size * cut // len(own) for cut in (place, place + 1))
                self._streams.send(
                    (hop,), to, step=step, rank=to, offset=number * size + begin,
                    data=data[begin:end],
                )  # fmt: skip
            self._agreement.expected += size
            self._watch.until(
                lambda: self._memory.received() >= self._agreement.expected,
                lambda at=number: f"part {at} of the ring of step {step} did not come",
            )
            coming = parts[(leaving - 1) % servers]
            came = received[number * coming.numel() :][: coming.numel()]
            if adds:
                coming.add_(came)
            else:
                coming.copy_(came)
            self._streams.flush()
