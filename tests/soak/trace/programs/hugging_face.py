"""Hugging Face's Trainer, or accelerate: hugging_face.py trainer|accelerate."""

import sys
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import AutoModelForCausalLM, LlamaConfig, Trainer, TrainingArguments

SIZES = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 100,
}  # fmt: skip


class Lines(Dataset):
    def __len__(self):
        return 29

    def __getitem__(self, place):
        words = (torch.arange(12) + place) % 100
        return {"input_ids": words, "labels": words}


torch.manual_seed(0)
model = AutoModelForCausalLM.from_config(LlamaConfig(**SIZES))
if sys.argv[1] == "trainer":
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, per_device_train_batch_size=2, max_steps=3, gradient_accumulation_steps=2,
            logging_steps=1, save_strategy="no", report_to=[], use_cpu=True, ddp_backend="gloo",
            eval_strategy="steps", eval_steps=2, per_device_eval_batch_size=4,
        )  # fmt: skip
        trainer = Trainer(model, arguments, train_dataset=Lines(), eval_dataset=Lines())
        trainer.train()
else:
    from accelerate import Accelerator
    from torch.utils.data import DataLoader

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer)
    model, optimizer, loader, schedule = accelerator.prepare(
        model, optimizer, DataLoader(Lines(), batch_size=2, shuffle=True), schedule
    )
    for batch in loader:
        with accelerator.accumulate(model):
            loss = model(**batch).loss
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        losses = accelerator.gather_for_metrics(loss.detach().repeat(2))
        assert losses.dim() == 1
    accelerator.wait_for_everyone()
    accelerator.end_training()
