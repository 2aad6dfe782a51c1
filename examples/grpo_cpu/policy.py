"""The policy: a tokenizer and a causal model, both made here, and what it knows at the start."""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

USER, ASSISTANT, END = "<|user|>", "<|assistant|>", "<|end|>"
TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
RIGHT_SHARE = 0.3
"""How many of the answers that the warm-up shows are right."""
NEAR = (-3, -2, -1, 1, 2, 3)
"""How far the others are off."""


def make_tokenizer(texts: Sequence[str]) -> PreTrainedTokenizerFast:
    """Byte-level BPE over the texts of the tasks; every digit is a token of its own."""
    tokenizer = Tokenizer(models.BPE())
    digits = pre_tokenizers.Digits(individual_digits=True)
    by_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, by_bytes])
    tokenizer.decoder = decoders.ByteLevel()
    learn = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=[USER, ASSISTANT, END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, learn)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=END,
        padding_side="left",
        chat_template=TEMPLATE,
    )


def make_model(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """About 0.4 million parameters, at random."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=128,
            intermediate_size=256,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=128,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


def warm_up(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    rows: Sequence[Mapping[str, Any]],
    *,
    steps: int,
    seed: int,
) -> None:
    """Teach the form of an answer, and no more: of the answers shown, most are wrong.

    The model learns to say a number near the right one. Which one is right, it has to find out by
    its rewards.
    """
    chance = random.Random(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model.train()
    for _ in range(steps):
        shown = [(row, _some_answer(row, chance)) for row in chance.choices(rows, k=64)]
        model(**_labelled(tokenizer, shown)).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def save(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Both, for the model server."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _some_answer(row: Mapping[str, Any], chance: random.Random) -> str:
    right = int(row["answer"])
    return str(right if chance.random() < RIGHT_SHARE else right + chance.choice(NEAR))


def _labelled(
    tokenizer: PreTrainedTokenizerFast, shown: Sequence[tuple[Mapping[str, Any], str]]
) -> dict[str, torch.Tensor]:
    """A batch whose labels are the answers and what ends them."""
    pairs = []
    for row, answer in shown:
        chat = row["responses_create_params"]["input"]
        text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        said = tokenizer(answer)["input_ids"] + [tokenizer.eos_token_id]
        pairs.append((tokenizer(text)["input_ids"], said))
    longest = max(len(prompt) + len(said) for prompt, said in pairs)
    shape = (len(pairs), longest)
    ids = torch.full(shape, tokenizer.pad_token_id)
    labels = torch.full(shape, -100)
    seen = torch.zeros(shape, dtype=torch.long)
    for index, (prompt, said) in enumerate(pairs):
        length = len(prompt) + len(said)
        ids[index, :length] = torch.tensor(prompt + said)
        labels[index, len(prompt) : length] = torch.tensor(said)
        seen[index, :length] = 1
    return {"input_ids": ids, "attention_mask": seen, "labels": labels}
