"""Chat templates, which the tokenizers of transformers run."""

from __future__ import annotations

import importlib.util
import json
import os
from typing import Any

from ._native import ffi, lib
from .errors import warn

_REFUSED, _CANNOT = 1, 2


class _Renderer:
    """Writes conversations by the template of a directory, which is opened with the first one."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.tokenizer: Any = None
        self.is_open = False
        self.kept: Any = None
        self.handle = ffi.new_handle(self)

    def open(self) -> bool:
        """Whether transformers opens the tokenizer, and it has the template."""
        if not self.is_open:
            self.is_open = True
            try:
                from transformers import AutoTokenizer

                how = {"local_files_only": True, "trust_remote_code": False}
                self.tokenizer = AutoTokenizer.from_pretrained(self.directory, **how)
            except Exception as failure:  # of files that only the library reads, or of the import
                warn(f"{self.directory}: transformers opens no tokenizer: {failure}")
        return getattr(self.tokenizer, "chat_template", None) is not None

    def write(self, messages: list[dict[str, Any]], answers: bool) -> str:
        made = self.tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=answers
        )
        return str(made)


def render_chats(directory: str, source: Any, keep: list[Any]) -> None:
    """Lets transformers, where it is installed, write the conversations of a grail_text_source."""
    if os.path.isdir(directory) and importlib.util.find_spec("transformers") is not None:
        keep.append(_Renderer(directory))
        source.renderer = lib.grail_chat_rendered
        source.renderer_user = keep[-1].handle


@ffi.def_extern(error=1)  # type: ignore[untyped-decorator,unused-ignore]
def grail_chat_rendered(user: Any, messages: Any, answers: int, text: Any) -> int:
    renderer = ffi.from_handle(user)
    failed = 0
    if not renderer.open():
        return _CANNOT
    try:
        made = renderer.write(json.loads(ffi.string(messages)), answers != 0)
    except Exception as failure:  # of a template, which is code of the model
        made, failed = str(failure), _REFUSED
    renderer.kept = ffi.new("char[]", made.encode())
    text[0] = renderer.kept
    return failed
