"""A model class for lm-evaluation-harness, which runs networks in grail:

    import lm_eval
    from grail.lm import GrailLM

    lm_eval.simple_evaluate(GrailLM("narrow"), tasks=["arc_easy", "hellaswag"])

Results that transformers opens can be measured there: lm_eval --model hf --model_args
pretrained=narrow.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from lm_eval import utils
from lm_eval.api.model import TemplateLM

from .model import Model, Path
from .runner import Runner

Request = tuple[tuple[str, str], list[int], list[int]]


class GrailLM(TemplateLM):  # type: ignore[misc]
    """`tokenizer` is one of transformers; without it that of the model's directory is taken."""

    def __init__(
        self,
        model: Model | Path,
        *,
        tokenizer: Any = None,
        tokens: int = 8192,
        add_bos_token: bool | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.runner = Runner(model, **options)
        if tokenizer is None:
            import transformers

            tokenizer = transformers.AutoTokenizer.from_pretrained(self.runner.model.path)
        self.tokenizer = tokenizer
        self.tokens = tokens  # at once
        self.add_bos_token = add_bos_token  # None: as the tokenizer does by itself
        self.max_length = self.runner.model.facts.context

    @property
    def eot_token_id(self) -> int:
        return int(self.tokenizer.eos_token_id)

    @property
    def prefix_token_id(self) -> int:
        bos = self.tokenizer.bos_token_id
        return self.eot_token_id if bos is None else int(bos)

    def tok_encode(
        self, string: str, add_special_tokens: bool | None = None, **_: Any
    ) -> list[int]:
        special = self.add_bos_token if add_special_tokens is None else add_special_tokens
        if add_special_tokens is None and string.startswith(
            self.tokenizer.decode(self.prefix_token_id)
        ):
            special = False
        chosen = {} if special is None else {"add_special_tokens": special}
        return list(self.tokenizer.encode(string, **chosen))

    def _loglikelihood_tokens(self, requests: list[Request], **_: Any) -> list[tuple[float, bool]]:
        rows = [(c + t)[-(self.max_length + 1) :] for _, c, t in requests]
        order = sorted(range(len(rows)), key=lambda i: (len(rows[i]), rows[i]))
        found: list[tuple[float, bool]] = [(0.0, True)] * len(rows)
        for batch in self._batches(order, rows):
            texts = [rows[i] for i in batch]
            losses, largest = self.runner.losses(texts, [len(text) for text in texts])
            for row, i in enumerate(batch):
                behind = len(rows[i]) - 1
                scored = slice(behind - min(len(requests[i][2]), behind), behind)
                found[i] = -float(losses[row, scored].sum()), bool(largest[row, scored].all())
        return found

    def _batches(self, order: list[int], rows: list[list[int]]) -> list[list[int]]:
        """Rows of about one length, of so many tokens together."""
        batches: list[list[int]] = []
        for i in order:
            if batches and (len(batches[-1]) + 1) * len(rows[i]) <= self.tokens:
                batches[-1].append(i)
            else:
                batches.append([i])
        return batches

    def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = False) -> list[float]:
        sums = []
        for (text,) in (request.args for request in requests):
            windows = utils.get_rolling_token_windows(
                token_list=self.tok_encode(text),
                prefix_token=self.prefix_token_id,
                max_seq_len=self.max_length,
                context_len=1,
            )
            pairs = [utils.make_disjoint_window(window) for window in windows]
            scores = self._loglikelihood_tokens([(("", ""), c, t) for c, t in pairs])
            sums.append(float(np.sum([score for score, _ in scores])))
        return sums

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
        raise NotImplementedError(
            "grail generates no texts for tasks; a result that transformers opens can be measured "
            "with lm_eval --model hf"
        )
