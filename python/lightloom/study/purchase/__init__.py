"""What to buy for a training job: every candidate in reach, the best of them, and what decides."""

from lightloom.lazy import export_on_use

TYPE_CHECKING = False

if TYPE_CHECKING:
    from lightloom.study.purchase.options import PurchaseOptions as PurchaseOptions
    from lightloom.study.purchase.results import PurchaseAdvice as PurchaseAdvice
    from lightloom.study.purchase.run import advise_purchase as advise_purchase

export_on_use()
