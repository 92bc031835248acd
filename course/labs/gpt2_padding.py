"""A small GPT-2 of the library transformers, trained on speeches of Hamlet: what padding does to batch and loss.

    python gpt2_padding.py [--json]

needs the packages transformers and tokenizers next to PyTorch. Nothing is downloaded: the tokenizer is trained on the
play, written to a folder, and read again by AutoTokenizer; the model starts with random weights. It takes a minute.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PLAY = Path(__file__).parent.parent / "lib" / "courselib" / "texts" / "hamlet.txt"
END = "<|endoftext|>"  # GPT-2's only special token: there is none for padding
KINDS = (("input_ids", "input_ids, with padding"), ("masked", "-100 where padding stands"))
VOCABULARY, LONGEST, SPEECHES, STEPS = 512, 32, 8, 60


def speeches() -> list[str]:
    """The paragraphs of the play, in order; their lengths differ widely."""
    return [" ".join(part.split()) for part in PLAY.read_text("utf-8").split("\n\n") if part.strip()]


def made_tokenizer(folder: str) -> Any:
    """A tokenizer of GPT-2's kind (pieces of bytes), trained on the play, as AutoTokenizer finds it in a folder."""
    from tokenizers import ByteLevelBPETokenizer  # type: ignore[import-not-found,unused-ignore]
    from transformers import AutoTokenizer, GPT2TokenizerFast  # type: ignore[import-not-found,unused-ignore]

    pieces = ByteLevelBPETokenizer()
    pieces.train_from_iterator(speeches(), vocab_size=VOCABULARY, special_tokens=[END], show_progress=False)
    names = {"eos_token": END, "bos_token": END, "unk_token": END}
    GPT2TokenizerFast(tokenizer_object=pieces._tokenizer, **names).save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


def refused(tokenizer: Any) -> str:
    """What it says to padding=True as long as it has no token for padding."""
    try:
        tokenizer(speeches()[:2], padding=True)
    except ValueError as error:
        return str(error).split(". ")[0]
    return "nothing: it pads"


def batches(tokenizer: Any, held_out: bool) -> Iterator[Any]:
    """Batches of speeches with their labels, forever; where padding stands, `masked` has -100."""
    import torch

    told = [speech + END for number, speech in enumerate(speeches()) if (number % 10 == 0) == held_out]
    draw = torch.Generator().manual_seed(5)
    while True:
        for chosen in torch.randperm(len(told), generator=draw).split(SPEECHES):
            texts = [told[number] for number in chosen]
            batch = tokenizer(texts, padding=True, truncation=True, max_length=LONGEST, return_tensors="pt")
            batch["masked"] = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
            yield batch


def loss_of(model: Any, batch: Any, labels: str) -> Any:
    """The mean loss over the tokens that the labels count; the model itself shifts them by one."""
    return model(batch["input_ids"], attention_mask=batch["attention_mask"], labels=batch[labels]).loss


def trained(tokenizer: Any, labels: str) -> dict[str, float]:
    """A GPT-2 after some steps with these labels: the loss that training reports, and the one on real tokens."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(1)
    shape = {"n_positions": LONGEST, "n_embd": 64, "n_layer": 2, "n_head": 4}
    still = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "bos_token_id": 0, "eos_token_id": 0}
    model = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), **shape, **still))
    adam, stream, reported = torch.optim.AdamW(model.parameters(), lr=3e-3), batches(tokenizer, held_out=False), []
    for _, batch in zip(range(STEPS), stream, strict=False):
        adam.zero_grad()
        loss = loss_of(model, batch, labels)
        loss.backward()
        adam.step()
        reported.append(loss.item())
    with torch.no_grad():
        fresh = [batch for _, batch in zip(range(8), batches(tokenizer, held_out=True), strict=False)]
        real = sum(loss_of(model, batch, "masked").item() for batch in fresh) / len(fresh)
    return {"reported": sum(reported[-10:]) / 10, "real": real, "parameters": model.num_parameters()}


def look() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = made_tokenizer(folder)
        found: dict[str, Any] = {"tokenizer": type(tokenizer).__name__, "refused": refused(tokenizer)}
        tokenizer.pad_token = tokenizer.eos_token  # the usual remedy: nothing is added to the vocabulary
        first = next(batches(tokenizer, held_out=False))
        real, ends = first["attention_mask"].sum().item(), (first["input_ids"] == tokenizer.eos_token_id).sum().item()
        found |= {"places": first["input_ids"].numel(), "padding": first["input_ids"].numel() - real}
        found["true_ends"] = ends - found["padding"]  # masking by token instead of by mask would lose these
        for labels in ("input_ids", "masked"):
            found |= {f"{labels} {name}": round(value, 3) for name, value in trained(tokenizer, labels).items()}
    return found


def main() -> None:
    absent = [name for name in ("torch", "transformers", "tokenizers") if importlib.util.find_spec(name) is None]
    if absent:
        print(f"This lab needs {' and '.join(absent)}: pip install transformers", file=sys.stderr)
        sys.exit(2)
    os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "TRANSFORMERS_VERBOSITY": "error"}
    import torch
    import transformers

    torch.set_num_threads(1)
    found = look()
    if "--json" in sys.argv:
        versions = {"transformers": transformers.__version__, "torch": torch.__version__}
        head = ["labels", "loss that training reports", "loss on real tokens"]
        rows = [
            [words, *(f"{found[f'{labels} {which}']:.2f}" for which in ("reported", "real"))] for labels, words in KINDS
        ]
        print(json.dumps({"figures": found, "versions": versions, "head": head, "rows": rows}))
        return
    print(f"padding=True without a pad token: {found['refused']}")
    print(f"one batch: {found['places']} places, {found['padding']} of them padding; {found['true_ends']} true ends")
    print(f"{'labels':<28}{'loss that training reports':>28}{'loss on real tokens':>22}")
    for labels, words in KINDS:
        print(f"{words:<28}{found[f'{labels} reported']:>28.2f}{found[f'{labels} real']:>22.2f}")


if __name__ == "__main__":
    main()
