"""Profiles of PyTorch made by hand: kernels at times that add up in one's head."""

import json


def event(category, name, start, duration, thread=1, **arguments):
    return {
        "ph": "X", "cat": category, "name": name, "ts": start, "dur": duration, "tid": thread,
        "pid": 0, "args": arguments,
    }  # fmt: skip


class Profile:
    """The profile of a rank; times are microseconds."""

    def __init__(self, rank=0, world_size=2, groups=None):
        self.events = []
        self.launches = 0
        self.info = {"backend": "nccl", "rank": rank, "world_size": world_size}
        if groups is not None:
            self.info["pg_config"] = [
                {"pg_name": name, "pg_desc": "", "ranks": ranks} for name, ranks in groups.items()
            ]

    def add(self, category, name, start, duration, **arguments):
        self.events.append(event(category, name, start, duration, **arguments))

    def step(self, number, start, duration):
        self.add("user_annotation", f"ProfilerStep#{number}", start, duration)

    def kernel(self, name, start, duration, stream=7, launched=None, category="kernel", **others):
        """A kernel, launched by the CPU at a time, by default when it starts."""
        self.launches += 1
        at = start if launched is None else launched
        thread = others.pop("thread", 1)
        self.events.append(
            event("cuda_runtime", "cudaLaunchKernel", at, 1, thread, correlation=self.launches)
        )
        self.add(
            category, name, start, duration, stream=stream, correlation=self.launches, **others
        )

    def wait(self, stream, other, recorded, launched):
        """A stream is let wait for an event that was recorded on another at a time of the CPU."""
        self.launches += 2
        names = ("cudaEventRecord", "cudaStreamWaitEvent")
        for place, (name, at) in enumerate(zip(names, (recorded, launched), strict=True), -1):
            correlation = self.launches + place
            self.events.append(event("cuda_runtime", name, at, 0.1, correlation=correlation))
        self.add(
            "cuda_sync", "Stream Wait Event", launched + 1, 0.1, stream=stream,
            wait_on_stream=other, wait_on_cuda_event_record_corr_id=self.launches - 1,
            correlation=self.launches,
        )  # fmt: skip

    def nccl(self, collective, start, duration, elements, stream=20, launched=None, **others):
        """A kernel of NCCL with what Kineto says of it; `elements` go in and come out."""
        put, got = elements if isinstance(elements, tuple) else (elements, elements)
        said = {
            "Collective name": collective, "In msg nelems": put, "Out msg nelems": got,
            "Group size": 2, "dtype": "BFloat16", "In split size": "[]", "Out split size": "[]",
            "Process Group Name": "0", "Process Group Description": "default_pg",
            "Process Group Ranks": "[0, 1]",
        }  # fmt: skip
        said |= {name.replace("_", " "): value for name, value in others.items()}
        name = f"ncclDevKernel_{collective}_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
        self.kernel(name, start, duration, stream, launched, **said)

    def to_json(self):
        return {"schemaVersion": 1, "distributedInfo": self.info, "traceEvents": self.events}

    def write(self, path):
        path.write_text(json.dumps(self.to_json()))
        return path
