"""Makes a tiny language model with random weights, for ``transformers serve``: ``python tiny_model.py FOLDER TEXTS``.

Runs in an interpreter that has transformers; ``TEXTS`` is a folder of Markdown from which its tokenizer learns.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
NAMES = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}


def main(folder: Path, texts: Path) -> None:
    torch.manual_seed(0)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=2000, special_tokens=list(NAMES.values()), initial_alphabet=alphabet
    )
    tokenizer.train_from_iterator((page.read_text() for page in sorted(texts.glob("*.md"))), trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **NAMES)
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    size = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    ends = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(fast), max_position_embeddings=65536, **size, **ends))
    model.generation_config.eos_token_id = None  # so that it goes on until it is told to stop
    model.save_pretrained(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
