"""Lightning's Trainer, data-parallel."""

import os

import lightning
import torch
from lightning.pytorch.plugins.environments import TorchElasticEnvironment
from lightning.pytorch.strategies import DDPStrategy
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __len__(self):
        return 21

    def __getitem__(self, place):
        return torch.ones(8) * place


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))

    def training_step(self, rows, _):
        loss = (self.model(rows) - rows).square().mean()
        self.log("loss", loss, sync_dist=True)
        return loss

    def validation_step(self, rows, _):
        self.log("seen", (self.model(rows) - rows).abs().mean(), sync_dist=True)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]


torch.manual_seed(0)
spread = DDPStrategy(process_group_backend="gloo", cluster_environment=TorchElasticEnvironment())
trainer = lightning.Trainer(
    default_root_dir="there", accelerator="cpu", devices=int(os.environ["WORLD_SIZE"]),
    strategy=spread, max_epochs=2, accumulate_grad_batches=2, gradient_clip_val=1.0,
    logger=False, enable_checkpointing=False, enable_progress_bar=False,
    enable_model_summary=False, num_sanity_val_steps=1,
)  # fmt: skip
trainer.fit(Module(), DataLoader(Rows(), batch_size=2), DataLoader(Rows(), batch_size=4))
