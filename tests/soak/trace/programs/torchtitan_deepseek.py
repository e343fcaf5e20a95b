"""torchtitan's DeepSeek-V3 with data and a tokenizer made here; options are its command's."""

import json
import os
import sys
import tempfile
from pathlib import Path

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    os.environ |= {"HF_HOME": name, "HF_HUB_OFFLINE": "1"}
    from tokenizers import Tokenizer, models, pre_tokenizers
    from torchtitan.train import main

    words = {"<s>": 0, "</s>": 1, "[UNK]": 2, "word": 3}
    tokenizer = Tokenizer(models.WordLevel(words, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    special = {"bos_token": "<s>", "eos_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(special))
    (folder / "data").mkdir()
    lines = [json.dumps({"text": "word " * 300})] * 200
    (folder / "data/data.json").write_text("\n".join(lines))
    options = {
        "--module": "deepseek_v3", "--config": "deepseek_v3_debugmodel", "--dump_folder": name,
        "--hf_assets_path": name, "--dataloader.dataset_path": str(folder / "data"),
        "--training.steps": "2", "--training.seq_len": "128", "--training.local_batch_size": "2",
    }  # fmt: skip
    sys.argv[1:1] = [*(word for pair in options.items() for word in pair)]
    sys.argv.append("--training.disable_cuda_graphs")
    main()
