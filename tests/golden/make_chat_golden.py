#!/usr/bin/env python3
"""What jinja2 makes of the templates and conversations in chat/, in the environment that transformers makes for
chat templates (utils/chat_template_utils.py of release 4.50 and later), but without the date.

Writes chat/expected.json: for each template, conversation and value of add_generation_prompt the text, or the
message of the template or of jinja2 where it refuses. The templates were written for this test, in the shapes
that published ones have.

needs: jinja2 3.1
usage: make_chat_golden.py
"""

import json
import pathlib

import jinja2
import jinja2.ext
import jinja2.sandbox

HERE = pathlib.Path(__file__).resolve().parent / "chat"
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


class Generation(jinja2.ext.Extension):
    """{% generation %}, which prints what it holds."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_print"), [], [], body).set_lineno(line)

    def _print(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    made = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    return made


def render(template, conversation, prompt):
    try:
        return {
            "text": template.render(
                messages=conversation["messages"], tools=conversation.get("tools"), documents=None,
                add_generation_prompt=prompt, **TOKENS,
            )
        }
    except (jinja2.exceptions.TemplateError, TypeError) as error:
        return {"error": str(error)}


def main():
    conversations = json.loads((HERE / "conversations.json").read_text(encoding="utf-8"))
    expected = []
    for path in sorted(HERE.glob("*.jinja")):
        template = environment().from_string(path.read_text(encoding="utf-8"))
        for i, conversation in enumerate(conversations):
            for prompt in (False, True):
                entry = {"template": path.name, "conversation": i, "prompt": prompt}
                expected.append(entry | render(template, conversation, prompt))
    (HERE / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
