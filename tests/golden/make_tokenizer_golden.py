#!/usr/bin/env python3
"""Writes the tokenizers of tests/golden/tokenizers and the ids that their own libraries give.

Run with Hugging Face tokenizers (0.20 or later: ignore_merges and Metaspace's split are read) for
every family but sentencepiece, and with sentencepiece and gguf for that; a run makes what its Python can
import. Both are recorded in each ids.json. The text keeps to characters of Unicode 14.

    make_tokenizer_golden.py [--stories ../shared/data]
"""
import argparse
import copy
import hashlib
import json
import pathlib
import platform
import sys
import tempfile

try:
    import tokenizers
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
    from tokenizers import pre_tokenizers, trainers
except ImportError:
    tokenizers = None
try:
    import transformers
except ImportError:
    transformers = None
try:
    import gguf
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2
except ImportError:
    sentencepiece = None

HERE = pathlib.Path(__file__).resolve().parent / "tokenizers"

MULTILINGUAL = """\
A tokenizer cuts text into pieces, and the pieces are counted. Numbers such as 1234567 and 3.14159 too.
Der Schnee fällt leise über die Dächer; größere Flüsse fließen weiter, müde Züge hören auf.
L'été dernier, j'ai goûté à la crème brûlée près de l'hôtel où naquit l'œuvre.
El niño pequeño soñó con pingüinos. ¿Cuándo llegará? ¡Mañana!
Быстрая лисица прыгает через ленивую собаку, а собака спит у реки.
Η γρήγορη αλεπού πηδάει πάνω από το τεμπέλικο σκυλί.
今日は良い天気ですね。カタカナとひらがなと漢字を混ぜて書きます。
天气很好，我们一起去公园散步吧。数字一二三四五。
오늘은 날씨가 아주 좋습니다. 한글과 숫자를 섞어 씁니다.
الطقس جميل اليوم، والقطة نائمة تحت الشجرة.
מזג האוויר נאה היום והחתול ישן.
आज मौसम बहुत अच्छा है और बिल्ली सो रही है।
วันนี้อากาศดีมาก แมวกำลังนอนหลับ
Hôm nay trời đẹp quá, con mèo đang ngủ dưới gốc cây.
for (int i = 0; i < n; i++) { sum += x[i] * y[i]; } /* inner product */
def f(x):\n    if x is None:\n        return {"key": [1, 2, 3]}\n    return x ** 2
"""

# One behaviour or script per line; a line may hold anything but a line feed.
NASTY = [
    "",
    "Hello world",
    " leading space",
    "trailing space ",
    "  two  spaces   three    four ",
    "\ttab\t\ttwo tabs \t mixed \t ",
    "   ",
    "it's we're they've I'm he'll she'd IT'S WE'RE it\u2019s 'S 'Ll 'll' ''s'''t",
    "'\u017f '\u017fx \u212a\u2126 I\u2019LL",
    "1 12 123 1234 12345 1234567890123 3.14159 1,000,000 ٣٤٥٦ १२३४५ ½¾ ⅷ ²³ ①②",
    "!?!?... --- *** ((())) [x]{y}<z> a.b,c;d:e \"quoted\" `code` ~/path\\to\\file @#$%^&*+=|",
    "x=1;y=2;  if(x!=y){return -1;}//end\r",
    "line with CR inside\rand after\r",
    "Größe naïve façade œuvre Ångström ÅÅ e\u0301 \u1e9b\u0323 \u0344 \u1100\u1161\u11a8 각 \ufb01 \ufdfa Ⅷ",
    "o\u0302\u0323 o\u0323\u0302 a\u0315\u0300\u05ae\u0300\u0062 z\u0335\u0336\u0337\u0338\u0327\u0328",
    "İstanbul ISPARTA ıI ΣΑΣ ΟΔΥΣΣΕΥΣ ǅ ẞ Ꭰ",
    "Быстрая лиса. ΑΒΓ αβγ ά",
    "漢字かなカナ。一二三、四五六！（全角）ＡＢＣ１２３",
    "한국어 텍스트 각",
    "مرحبا بالعالم \u200f שלום \u200e عليكم ١٢٣",
    "हिन्दी में क्षत्रिय \u0915\u094d\u200d\u0937 ไทยไม่เว้นวรรค ខ្មែរ தமிழ் မြန်မာ",
    "😀 👩\u200d👩\u200d👧\u200d👦 🏳\ufe0f\u200d🌈 🇩🇪🇫🇷 👍🏽 ❤\ufe0f 1\ufe0f\u20e3",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟘𝟙𝟚 𐍈 𠜎𠜱 🀄",
    "\ue000\uf8ff \U000f0000\U0010fffd \ufffd \ufeff \ufffe \uffff",
    "\x00 a\x00b \x01\x02\x1b[0m\x7f \x80\x9f \x85next",
    "nb\u00a0sp em\u2003quad\u2000 thin\u2009 nnb\u202f ideo\u3000 zw\u200b wj\u2060 shy\u00ad mvs\u180e ogham\u1680 ls\u2028ps\u2029 end",
    "<s>at the start</s> and <unk> inside<s><s>",
    "<|endoftext|>text<|endoftext|><|begin_of_text|> <|im_start|>user <|im_end|>",
    " <s> spaced </s> x<mask>y <mask> z  <mask>  end NEW new newer anew NEW",
    "<0x41><0xE2> ▁ ▁▁already marked▁ <0x0A>",
    "camelCaseWord snake_case_word kebab-case-word CONSTANT_CASE v1.2.3-rc4",
    "http://example.com/a?b=c&d=%20e#f user@example.org 2001-02-03T04:05:06Z",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "the the the thethethe tttthhhheeee software Software SOFTWARE licensed licensee",
    "    indented code\t# comment",
    "a" + " " * 40 + "b" + "\t" * 9 + "c",
    "",
    "",
    "end",
    "   ",
]


def long_word():
    """50,000 lower-case letters without a space, by a linear congruential generator."""
    state, letters = 12345, []
    for _ in range(50000):
        state = (state * 1103515245 + 12345) % 2**31
        letters.append("etaoinshrdlu"[(state >> 16) % 12])
    return "".join(letters)


def digest(ids):
    return {"count": len(ids), "sha256": hashlib.sha256(" ".join(map(str, ids)).encode()).hexdigest()}


def expected(encode, library):
    """encode(text, special) -> ids"""
    whole = "\n".join(NASTY)
    return {
        "made_with": [library, "Python " + platform.python_version()],
        "whole": digest(encode(whole, False)),
        "whole_special": digest(encode(whole, True)),
        "long_word": digest(encode(long_word(), False)),
        "empty_special": encode("", True),
        "lines": [encode(line, False) for line in NASTY],
    }


def write_expected(family, content):
    lines = ",\n  ".join(json.dumps(ids, separators=(",", ":")) for ids in content.pop("lines"))
    head = json.dumps(content, indent=1)[:-2]
    (HERE / family / "ids.json").write_text(head + ',\n "lines": [\n  ' + lines + "]\n}\n")


# --- Hugging Face tokenizers ---

LICENSES = ["GPL-3", "Apache-2.0", "Artistic"]
R3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
      r"|\s*[\r\n]+|\s+(?!\S)|\s+")
RQ = R3.replace(r"\p{N}{1,3}", r"\p{N}")


def corpus():
    text = "".join(pathlib.Path("/usr/share/common-licenses", name).read_text() for name in LICENSES)
    return [line + "\n" for line in (text + MULTILINGUAL * 8).split("\n")]


def train(pre_tokenizer, special, size, initial=()):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False,
                                  min_frequency=2, initial_alphabet=list(initial))
    tokenizer.train_from_iterator(corpus(), trainer)
    return json.loads(tokenizer.to_str())


def added(identity, content, **options):
    entry = {"id": identity, "content": content, "single_word": False, "lstrip": False,
             "rstrip": False, "normalized": False, "special": True}
    entry.update(options)
    return entry


def template(token, identity, after=None):
    items = [{"SpecialToken": {"id": token, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    specials = {token: {"id": token, "ids": [identity], "tokens": [token]}}
    if after is not None:
        items.append({"SpecialToken": {"id": after[0], "type_id": 0}})
        specials[after[0]] = {"id": after[0], "ids": [after[1]], "tokens": [after[0]]}
    return {"type": "TemplateProcessing", "single": items, "pair": items,
            "special_tokens": specials}


def llama2():
    special = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % byte for byte in range(256)]
    spec = train(pre_tokenizers.Metaspace(prepend_scheme="always"), special, 1300)
    spec["added_tokens"] = [added(0, "<unk>"), added(1, "<s>"), added(2, "</s>")]
    spec["model"].update(byte_fallback=True, fuse_unk=True, unk_token="<unk>")
    spec["post_processor"] = template("<s>", 1)
    spec["pre_tokenizer"] = None
    spec["normalizer"] = {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "▁"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}
    modern = copy.deepcopy(spec)
    modern["normalizer"] = None
    modern["pre_tokenizer"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first",
                               "split": False}
    return {"llama2": spec, "llama2-metaspace": modern}


def byte_level(pattern, size, special):
    steps = [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)]
    if pattern is not None:
        steps.insert(0, pre_tokenizers.Split(Regex(pattern), "isolated"))
    spec = train(steps[0] if pattern is None else pre_tokenizers.Sequence(steps), [], size,
                 pre_tokenizers.ByteLevel.alphabet())
    first = len(spec["model"]["vocab"])
    spec["added_tokens"] = [added(first + i, token) for i, token in enumerate(special)]
    return spec, first


def gpt2():
    spec, first = byte_level(None, 1100, ["<|endoftext|>"])
    spec["model"]["vocab"]["<|endoftext|>"] = first
    spec["added_tokens"].append(added(first + 1, "<mask>", lstrip=True))
    spec["added_tokens"].append(added(first + 2, "NEW", single_word=True, special=False))
    spec["post_processor"] = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False,
                              "use_regex": True}
    return {"gpt2": spec}


def llama3():
    spec, first = byte_level(R3, 1000, ["<|begin_of_text|>", "<|endoftext|>", "<|im_end|>"])
    # Pieces that no merge makes: only ignore_merges finds them. Ids 5 apart leave holes.
    for i, piece in enumerate(["Ġsoftware", "Ġspaced", "CamelCase", "indented", "Ġreturn"]):
        if piece not in spec["model"]["vocab"]:
            spec["model"]["vocab"][piece] = first + 10 + 5 * i
    # The library numbers added tokens anew unless the vocabulary has them.
    spec["model"]["vocab"].update({token["content"]: token["id"] for token in spec["added_tokens"]})
    spec["model"]["ignore_merges"] = True
    spec["post_processor"] = {"type": "Sequence", "processors": [
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
        template("<|begin_of_text|>", first)]}
    return {"llama3": spec}


def qwen2():
    spec, _ = byte_level(RQ, 900, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    spec["normalizer"] = {"type": "NFC"}
    spec["post_processor"] = {"type": "ByteLevel", "add_prefix_space": False,
                              "trim_offsets": False, "use_regex": False}
    return {"qwen2": spec}


def components():
    """Every other component, each in a tiny tokenizer of characters with a few merges."""
    alphabet = sorted({c for line in NASTY for c in line} - {"\0"})
    base = train(pre_tokenizers.Metaspace(), ["<unk>"], 130)
    base["model"].update(unk_token="<unk>", fuse_unk=False)
    for character in alphabet[::3]:
        vocab = base["model"]["vocab"]
        vocab.setdefault(character, len(vocab))
    size = len(base["model"]["vocab"])
    base["added_tokens"] = [added(0, "<unk>"), added(size, "<mask>", lstrip=True, rstrip=True),
                            added(size + 1, "NEW", single_word=True, normalized=True, special=False),
                            added(size + 2, "the", normalized=True, special=False),
                            added(size + 3, "thethe", normalized=True, special=False)]

    def variant(normalizer, pre_tokenizer, **model):
        spec = copy.deepcopy(base)
        spec["normalizer"], spec["pre_tokenizer"] = normalizer, pre_tokenizer
        spec["model"].update(model)
        spec["post_processor"] = template("<unk>", 0, ("<mask>", size))
        return spec

    def sequence(kind, *members):
        return {"type": "Sequence", kind: list(members)}

    def split(pattern, behavior, invert=False, kind="Regex"):
        return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}

    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    replace = {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "}
    strip = {"type": "Strip", "strip_left": True, "strip_right": True}
    left = {"type": "Strip", "strip_left": True, "strip_right": False}
    return {
        "components-1": variant(
            sequence("normalizers", {"type": "NFKD"}, {"type": "Lowercase"}, replace, strip),
            sequence("pretokenizers", {"type": "Digits", "individual_digits": True},
                     {"type": "Punctuation", "behavior": "MergedWithPrevious"}, metaspace)),
        "components-2": variant(
            sequence("normalizers", {"type": "NFKC"}, left),
            sequence("pretokenizers", split(r"\w+|[^\w\s]+", "Removed", True),
                     split("e", "MergedWithNext", kind="String"),
                     {"type": "Digits", "individual_digits": False}), fuse_unk=True),
        "components-3": variant(
            None,
            sequence("pretokenizers", {"type": "WhitespaceSplit"},
                     {"type": "Punctuation", "behavior": "Contiguous"},
                     split(r"^.|\h+|(?<=s)t*|\p{Han}$", "MergedWithPrevious"),
                     {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first",
                      "split": True})),
        "components-4": variant(
            sequence("normalizers", {"type": "Replace", "pattern": {"String": "  "},
                                     "content": "[]"}, {"type": "NFD"}),
            sequence("pretokenizers", split(r"[\s\w]{0,9}?(?=\p{P})|$", "Contiguous"),
                     split("l", "Isolated", True, kind="String"),
                     {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never",
                      "split": False}), unk_token=None),
    }


SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def wordpieces(name, normalizer, processor, limit=100):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=limit))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=700, special_tokens=SPECIAL, show_progress=False,
                                        min_frequency=2, limit_alphabet=250)
    tokenizer.train_from_iterator(corpus(), trainer)
    spec = json.loads(tokenizer.to_str())
    spec["added_tokens"] = [added(i, token) for i, token in enumerate(SPECIAL)]
    spec["model"]["max_input_chars_per_word"] = limit
    spec["post_processor"] = processor
    return {name: spec}


def bert():
    """Uncased, cased with an older frame, and one whose words are short."""
    frame = {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}
    return (wordpieces("bert", normalizers.BertNormalizer(), template("[CLS]", 2, ("[SEP]", 3)))
            | wordpieces("bert-cased", normalizers.BertNormalizer(lowercase=False), frame)
            | wordpieces("bert-accents", normalizers.BertNormalizer(
                clean_text=False, handle_chinese_chars=False, strip_accents=False), frame, limit=9))


def roberta():
    spec, first = byte_level(None, 900, ["<s>", "<pad>", "</s>"])
    spec["added_tokens"].append(added(first + 3, "<mask>", lstrip=True))
    spec["post_processor"] = {"type": "RobertaProcessing", "sep": ["</s>", first + 2],
                              "cls": ["<s>", first], "trim_offsets": True,
                              "add_prefix_space": False}
    return {"roberta": spec}


def write_family(family, tokenizer, library):
    write_expected(family, expected(
        lambda t, special: tokenizer.encode(t, add_special_tokens=special).ids, library))


def make_merges(spec):
    """The pieces of "gpt2" as vocab.json and merges.txt, and what AutoTokenizer makes of them."""
    framed = {"content": "<mask>", "lstrip": True, "normalized": False, "rstrip": False,
              "single_word": False, "special": True}
    families = {
        "merges-gpt2": {
            "tokenizer_config.json": {"tokenizer_class": "GPT2Tokenizer", "add_bos_token": True,
                                      "bos_token": "</s>", "add_prefix_space": True},
            "special_tokens_map.json": {"bos_token": "<s>", "mask_token": framed,
                                        "additional_special_tokens": ["<|im_start|>"]},
        },
        "merges-roberta": {
            "tokenizer_config.json": {"tokenizer_class": "RobertaTokenizer",
                                      "added_tokens_decoder": {"1101": framed}},
        },
        "merges-qwen2": {
            "tokenizer_config.json": {"tokenizer_class": "Qwen2Tokenizer", "add_bos_token": False},
            "added_tokens.json": {"<|im_start|>": 1101, "NEW": 1102},
        },
    }
    merges = [m if isinstance(m, str) else " ".join(m) for m in spec["model"]["merges"]]
    for family, files in families.items():
        folder = HERE / family
        folder.mkdir(exist_ok=True)
        (folder / "vocab.json").write_text(json.dumps(spec["model"]["vocab"], ensure_ascii=False))
        (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
        for name, content in files.items():
            (folder / name).write_text(json.dumps(content) + "\n")
        read = transformers.AutoTokenizer.from_pretrained(folder)
        write_expected(family, expected(
            lambda text, special: read.encode(text, add_special_tokens=special),
            "transformers " + transformers.__version__))


def make_tokenizers():
    library = "tokenizers " + tokenizers.__version__
    specs = {}
    for family in (llama2, gpt2, llama3, qwen2, components, bert, roberta):
        specs.update(family())
    for family, spec in specs.items():
        text = json.dumps(spec, ensure_ascii=False, separators=(",", ":")) + "\n"
        (HERE / family).mkdir(parents=True, exist_ok=True)
        (HERE / family / "tokenizer.json").write_text(text)
        write_family(family, Tokenizer.from_str(text), library)
    if transformers is not None:
        make_merges(specs["gpt2"])


def make_stories(shared):
    tokenizer = Tokenizer.from_file(str(shared / "stories260k" / "tokenizer.json"))
    text = (shared / "text" / "tinystories.txt").read_text()
    content = {
        "made_with": ["tokenizers " + tokenizers.__version__],
        "text": "the first 20 lines of tinystories.txt, each with special tokens",
        "lines": [digest(tokenizer.encode(line).ids) for line in text.split("\n")[:20]],
    }
    (HERE / "stories260k.json").write_text(json.dumps(content, indent=1) + "\n")


# --- SentencePiece ---

def train_sentencepiece(path, **options):
    with tempfile.TemporaryDirectory() as directory:
        text = pathlib.Path(directory, "text")
        licenses = "".join(pathlib.Path("/usr/share/common-licenses", n).read_text()
                           for n in LICENSES)
        text.write_text(licenses + MULTILINGUAL * 8)
        sentencepiece.SentencePieceTrainer.train(
            input=str(text), model_prefix=str(pathlib.Path(directory, "model")), model_type="bpe",
            normalization_rule_name="identity", minloglevel=2, **options)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pathlib.Path(directory, "model.model").read_bytes())


def make_sentencepiece():
    library = "sentencepiece " + sentencepiece.__version__
    path = HERE / "sentencepiece" / "vocab.gguf"
    with tempfile.TemporaryDirectory() as directory:
        model = pathlib.Path(directory, "tokenizer.model")
        train_sentencepiece(model, vocab_size=1300, byte_fallback=True, remove_extra_whitespaces=False,
                            split_digits=True, user_defined_symbols=["<mask>", "  ", "漢字", "ing"])
        processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
        write_gguf(path, model)

    def encode(text, special):
        return ([processor.bos_id()] if special else []) + processor.encode(text)

    write_expected("sentencepiece", expected(encode, library))


def write_gguf(path, model):
    """The pieces of a tokenizer.model with their scores and types, which GGUF files number alike."""
    pieces = sentencepiece_model_pb2.ModelProto.FromString(model.read_bytes()).pieces
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("llama")
    writer.add_token_list([p.piece for p in pieces])
    writer.add_token_scores([p.score for p in pieces])
    writer.add_token_types([p.type for p in pieces])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stories", type=pathlib.Path)
    options = parser.parse_args()
    HERE.mkdir(parents=True, exist_ok=True)
    (HERE / "nasty.txt").write_bytes("\n".join(NASTY).encode())
    if tokenizers is not None:
        make_tokenizers()
        if options.stories is not None:
            make_stories(options.stories)
    if sentencepiece is not None:
        make_sentencepiece()
    if tokenizers is None and sentencepiece is None:
        sys.exit("neither tokenizers nor sentencepiece can be imported")


if __name__ == "__main__":
    main()
