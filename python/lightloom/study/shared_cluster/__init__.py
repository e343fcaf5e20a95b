"""Several jobs on one cluster: how much each is slowed by the others, by placement and fabric."""

from lightloom.lazy import export_on_use

TYPE_CHECKING = False

if TYPE_CHECKING:
    from lightloom.study.shared_cluster.jobs_file import SharedCluster as SharedCluster
    from lightloom.study.shared_cluster.jobs_file import load_jobs as load_jobs
    from lightloom.study.shared_cluster.results import SharedResult as SharedResult
    from lightloom.study.shared_cluster.run import share as share

export_on_use()
