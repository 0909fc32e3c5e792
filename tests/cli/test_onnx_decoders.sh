#!/usr/bin/env bash
# Decoders as exporters write them: masks that are computed from positions, biases of scores, rotary positions, heads that share keys and
# values; and patches of images whose pairs of neighbouring features turn by a table. ONNX Runtime tells what masks, biases and rotations
# are; what they only look like is left to it.
#
# usage: test_onnx_decoders.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

python=${GRAIL_PYTHON:-python3}
needs_onnx

"$python" - <<'PYTHON' || fail "cannot make the networks"
import numpy
from onnx import TensorProto, numpy_helper
from onnx_maker import Network, write_pixels

net = Network()
add, constant, linear, weight = net.add, net.constant, net.linear, net.weight
FLOAT, BOOL = TensorProto.FLOAT, TensorProto.BOOL
WORDS = {name: (TensorProto.INT64, ["N", "T"]) for name in ("input_ids", "attention_mask")}


def number(name, value, kind=numpy.float32):
    return constant(name, numpy.asarray(value, kind))


def words():
    """What all networks begin with, and numbers that they share."""
    net.nodes, net.constants = [], []
    for i in range(4):
        constant(f"i{i}", [i])
    constant("last", [-1])
    number("zero", 0, numpy.int64), number("one", 1, numpy.int64), number("low", -3e38), number("nothing", 0)
    shape = add("Shape", ["input_ids"], "shape")
    add("Slice", [shape, "i0", "i1"], "N"), add("Slice", [shape, "i1", "i2"], "T")
    places = add("Range", ["zero", add("Squeeze", ["T"], "length"), "one"], "places")
    add("Unsqueeze", [places, constant("before", [0, 1, 2])], "keys")
    add("Unsqueeze", [places, constant("around", [0, 1, 3])], "queries")
    return add("Gather", [weight("words", 40, 16), "input_ids"], "embedded")


def hide(name, seen):
    """Truths and those of the mask of padding as what is added to scores."""
    padding = add("Unsqueeze", [add("Cast", ["attention_mask"], f"{name}.p", to=BOOL), "i1"], f"{name}.p1")
    seen = add("And", [seen, add("Unsqueeze", [padding, "i1"], f"{name}.p2")], f"{name}.seen")
    return add("Where", [seen, "nothing", "low"], name)


def angles(name, pairs, frequencies=None):
    frequency = frequencies or 10000.0 ** -(numpy.arange(pairs) / pairs)
    turns = add("Mul", [add("Cast", [add("Unsqueeze", ["places", constant(f"{name}.axes", [0, 2])], f"{name}.t")], f"{name}.r", to=FLOAT),
                        number(f"{name}.f", frequency)], f"{name}.turns")
    turns = add("Concat", [turns, turns], f"{name}.both", axis=-1)
    return [add("Unsqueeze", [add(kind, [turns], f"{name}.{kind}"), "i1"], f"{name}.{kind}1") for kind in ("Cos", "Sin")]


def turn(x, name, half, table, swaps=False):
    """Rotation of [N, H, T, D]; with `swaps` the other half is turned the other way, which no rotation is."""
    constant(f"{name}.at", [half]), constant(f"{name}.end", [2**62])
    first = add("Slice", [x, "i0", f"{name}.at", "i3"], f"{name}.1")
    second = add("Slice", [x, f"{name}.at", f"{name}.end", "i3"], f"{name}.2")
    other = add("Concat", [add("Neg", [first if swaps else second], f"{name}.n"), second if swaps else first], f"{name}.o", axis=-1)
    return add("Add", [add("Mul", [x, table[0]], f"{name}.c"), add("Mul", [other, table[1]], f"{name}.s")], name)


def heads(x, name, shape):
    return add("Transpose", [add("Reshape", [x, shape], f"{name}.r")], name, perm=[0, 2, 1, 3])


def norm(x, name, width):
    squares = add("ReduceMean", [add("Pow", [x, number(f"{name}.two", 2)], f"{name}.q")], f"{name}.m", axes=[-1])
    root = add("Sqrt", [add("Add", [squares, number(f"{name}.e", 1e-6)], f"{name}.a")], f"{name}.root")
    scaled = add("Mul", [x, add("Reciprocal", [root], f"{name}.i")], f"{name}.x")
    return add("Mul", [number(f"{name}.w", 1 + 0.1 * net.random.standard_normal(width)), scaled], name)


def share(x, name, sizes, joined):
    """Each head of keys and values for several of queries."""
    return add("Reshape", [add("Expand", [add("Unsqueeze", [x, "i2"], f"{name}.u"), sizes], f"{name}.x"), joined], name)


def attend(q, k, v, name, mask, cap=None):
    scores = add("MatMul", [q, add("Transpose", [k], f"{name}.k", perm=[0, 1, 3, 2])], f"{name}.qk")
    scores = add("Mul", [scores, number(f"{name}.scale", 0.4)], f"{name}.scaled")
    if cap:
        scores = add("Tanh", [add("Div", [scores, number(f"{name}.cap", cap)], f"{name}.d")], f"{name}.t")
        scores = add("Mul", [scores, f"{name}.cap"], f"{name}.capped")
    scores = mask(scores) if callable(mask) else add("Add", [scores, mask], f"{name}.masked")
    mixed = add("MatMul", [add("Softmax", [scores], f"{name}.shares", axis=-1), v], f"{name}.mixed")
    mixed = add("Transpose", [mixed], f"{name}.turned", perm=[0, 2, 1, 3])
    return add("Reshape", [mixed, add("Concat", ["N", "T", "last"], f"{name}.whole", axis=0)], name)


def ffn(x, name):
    y = add("Pow", [add("Relu", [linear(x, f"{name}.f", 16, 24)], f"{name}.r"), number(f"{name}.p", 2)], f"{name}.q")
    return add("Add", [x, linear(y, f"{name}.d", 24, 16)], name)


# Two layers whose heads are counted by the same lists; the number of heads of keys is also that of their shares, and an axis.
x = words()
causal = hide("causal", add("LessOrEqual", ["keys", "queries"], "behind"))
table = angles("angle", 4)
of_queries = add("Concat", ["N", "T", constant("four", [4]), constant("eight", [8])], "of_queries", axis=0)
of_keys = add("Concat", ["N", "T", "i2", "eight"], "of_keys", axis=0)
sizes = add("Concat", ["N", "i2", "i2", "T", "eight"], "sizes", axis=0)
joined = add("Concat", ["N", "four", "T", "eight"], "joined", axis=0)
for i in range(2):
    q, k, v = (linear(x, f"{i}{n}", 16, width) for n, width in (("q", 32), ("k", 16), ("v", 16)))
    q, k, v = heads(q, f"{i}qh", of_queries), heads(k, f"{i}kh", of_keys), heads(v, f"{i}vh", of_keys)
    q, k = (turn(norm(one, f"{i}n{n}", 8), f"{i}t{n}", 4, table) for n, one in (("q", q), ("k", k)))
    a = attend(q, share(k, f"{i}ks", sizes, joined), share(v, f"{i}vs", sizes, joined), f"{i}a", causal)
    x = ffn(add("Add", [x, linear(a, f"{i}o", 32, 16)], f"{i}x"), f"{i}y")
net.save("shared", WORDS, {x: ["N", "T", 16]})

# One matrix for all heads, in the second layer a single one of keys; a cap, two masks, one of them a window, and a part of each head that
# is turned.
x = words()
near = add("Less", [add("Sub", ["queries", "keys"], "apart"), number("window", 4, numpy.int64)], "near")
causal = hide("causal", add("LessOrEqual", ["keys", "queries"], "behind"))
table = angles("angle", 2)
of_queries = add("Concat", ["N", "T", constant("four", [4]), constant("eight", [8])], "of_queries", axis=0)
joined = add("Concat", ["N", "four", "T", "eight"], "joined", axis=0)
for i, (count, several) in enumerate([("i2", "i2"), ("i1", "four")]):
    width = 16 - 8 * i
    made = add("MatMul", [x, weight(f"{i}qkv.w", 16, 32 + 2 * width)], f"{i}made")
    qkv = add("Reshape", [made, add("Concat", ["N", "T", constant(f"{i}all", [32 + 2 * width])], f"{i}together", axis=0)], f"{i}qkv")
    of_keys = add("Concat", ["N", "T", count, "eight"], f"{i}of_keys", axis=0)
    sizes = add("Concat", ["N", count, several, "T", "eight"], f"{i}sizes", axis=0)
    bounds = [constant(f"{i}b{k}", [b]) for k, b in enumerate((0, 32, 32 + width, 32 + 2 * width))]
    q, k, v = (add("Slice", [qkv, bounds[j], bounds[j + 1], "i2"], f"{i}{n}") for j, n in enumerate("qkv"))
    q, k, v = heads(q, f"{i}qh", of_queries), heads(k, f"{i}kh", of_keys), heads(v, f"{i}vh", of_keys)
    constant(f"{i}far", [2**62])
    parts = [[add("Slice", [one, "i0", "four", "i3"], f"{i}{n}1"), add("Slice", [one, "four", f"{i}far", "i3"], f"{i}{n}2")]
             for n, one in (("q", q), ("k", k))]
    q, k = (add("Concat", [turn(part[0], f"{i}t{n}", 2, table), part[1]], f"{i}w{n}", axis=-1) for n, part in zip("qk", parts))
    a = attend(q, share(k, f"{i}ks", sizes, joined), share(v, f"{i}vs", sizes, joined), f"{i}a",
               lambda s: add("Where", [near, add("Add", [s, causal], f"{i}s"), "low"], f"{i}near"), cap=1.5)
    x = ffn(add("Add", [x, linear(a, f"{i}o", 32, 16)], f"{i}x"), f"{i}y")
add("MatMul", [norm(x, "final", 16), weight("head", 16, 40)], "scores")
net.save("fused", WORDS, {"scores": ["N", "T", 40]})


# Biases of scores: of all heads by distance, or for alternate keys; of each head by buckets of distances, in two layers the same, and by
# the key alone. What is none: a bias by the length of a sample, a mask by the words, turns of no rotation.
def layer(name, mask, turned=lambda one, _: one, layers=1, length="T", idle=False):
    x = words()
    shape = add("Concat", ["N", "T", constant("two", [2]), constant("eight", [8])], "of_heads", axis=0)
    added = mask()
    for i in range(layers):
        q, k, v = (heads(linear(x, f"{i}{n}", 16, 16), f"{i}{n}h", shape) for n in "qkv")
        a = attend(turned(q, "tq"), turned(k, "tk"), v, f"{i}a", added)
        o = linear(a, f"{i}o", 16, 16)
        if idle:  # the first head's values do nothing
            net.constants[-2] = numpy_helper.from_array(numpy.where(numpy.arange(16)[:, None] < 8, 0, numpy_helper.to_array(net.constants[-2])),
                                                        net.constants[-2].name)
        x = ffn(add("Add", [x, o], f"{i}x"), f"{i}y")
    net.save(name, {n: (kind, ["N", length]) for n, (kind, _) in WORDS.items()}, {x: ["N", length, 16]})


def distances(by=None):
    apart = add("Cast", [add("Abs", [add("Sub", ["queries", "keys"], "d")], "far")], "bias", to=FLOAT)
    return add("Add", [add("Mul", [apart, by or number("slope", -0.3)], "biases"), causal_mask()], "both")


def by_length():
    return distances(add("Div", [number("slope", -1), add("Cast", ["length"], "long", to=FLOAT)], "own"))


def buckets():
    """As T5 has them: rows of a table by distances, of which the far ones share one."""
    far = add("Min", [add("Max", [add("Sub", ["keys", "queries"], "d"), number("least", -5, numpy.int64)], "clipped"),
                      number("most", 5, numpy.int64)], "near")
    rows = add("Squeeze", [add("Add", [far, number("five", 5, numpy.int64)], "rows"), constant("outer", [0, 1])], "bucket")
    biases = add("Gather", [weight("buckets", 11, 2), "bucket"], "picked")
    biases = add("Unsqueeze", [add("Transpose", [biases], "of_each", perm=[2, 0, 1]), "i0"], "biases")
    return add("Add", [biases, causal_mask()], "both")


def by_key():
    """As BLOOM has them: a slope of each head times the position of the key."""
    biases = add("Mul", [add("Cast", ["keys"], "real", to=FLOAT), number("slopes", [[[0.5]], [[0.25]]])], "biases")
    return lambda s: add("Add", [add("Add", [s, biases], "biased"), causal_mask()], "masked")


def constants():
    """As BEiT has them: rows of a table by numbers that are constants, 11 positions."""
    index = constant("index", net.random.integers(0, 30, 121))
    biases = add("Reshape", [add("Gather", [weight("table", 30, 2), index], "picked"), constant("square", [11, 11, 2])], "square2")
    biases = add("Unsqueeze", [add("Transpose", [biases], "of_each", perm=[2, 0, 1]), "i0"], "biases")
    return lambda s: add("Add", [add("Add", [biases, s], "biased"), causal_mask()], "masked")


def by_words():
    same = add("Equal", [add("Mod", ["input_ids", number("m", 2, numpy.int64)], "odd"), "zero"], "even")
    same = add("Unsqueeze", [add("Unsqueeze", [same, "i1"], "e1"), "i1"], "e2")
    return hide("mask", add("Or", [same, add("Equal", ["keys", "queries"], "own")], "either"))


def alternate():
    odd = add("Mod", [add("Sub", ["queries", "keys"], "d"), number("m", 2, numpy.int64)], "odd")
    return hide("mask", add("And", [add("Equal", [odd, "zero"], "even"), add("LessOrEqual", ["keys", "queries"], "le")], "both"))


def causal_mask():
    return hide("causal", add("LessOrEqual", ["keys", "queries"], "behind"))


layer("distance", distances)
layer("by_length", by_length)
layer("buckets", buckets, layers=2)
layer("by_key", by_key)
layer("constants", constants, length=11, idle=True)
layer("by_words", by_words)
layer("alternate", alternate)
layer("swapped", causal_mask, lambda one, name: turn(one, name, 4, angles(name, 4), swaps=True))
layer("uneven", causal_mask, lambda one, name: turn(one, name, 4, [add("Mul", [part, number(f"{name}{i}", [1, 1, 1, 2] * 2)], f"{name}{i}x")
                                                                   for i, part in enumerate(angles(name, 4))]))
layer("both_ways", lambda: hide("mask", add("Less", [add("Abs", [add("Sub", ["queries", "keys"], "d")], "far"), number("w", 3, numpy.int64)], "near")))
# Two tokens and 16 patches, of which the patches turn, by angles of their places.
net.nodes, net.constants = [], []
for i in range(3):
    constant(f"i{i}", [i])
constant("end", [2**62]), constant("minus", [-1]), constant("parts", [2, 16]), constant("step", [2]), constant("three", [3])
angle = numpy.random.default_rng(3).uniform(-3, 3, (1, 1, 16, 4)).repeat(2, 3)
table = [constant(n, f(angle).astype(numpy.float32)) for n, f in (("cos", numpy.cos), ("sin", numpy.sin))]
x = add("Conv", ["pixels", weight("e.w", 16, 3, 4, 4), weight("e.b", 16)], "e", strides=[4, 4])
x = add("Transpose", [add("Reshape", [x, constant("flatten", [0, 16, -1])], "row")], "patches", perm=[0, 2, 1])
pixels = add("Slice", [add("Shape", ["pixels"], "shape"), "i0", "i1"], "N")
own = add("Expand", [weight("own", 1, 2, 16), add("Concat", ["N", "i2", constant("sixteen", [16])], "wide", axis=0)], "tokens")
x = add("Concat", [own, x], "x", axis=1)
of_heads = constant("of_heads", [0, 18, 2, 8])
sizes = add("Concat", ["N", constant("count", [2]), constant("patch", [16]), constant("width", [8])], "sizes", axis=0)
turned = []
for n in "qk":
    one = heads(linear(x, n, 16, 16), f"{n}h", of_heads)
    first, rest = add("Split", [one, "parts"], f"{n}1", f"{n}2", axis=2)
    odd = add("Unsqueeze", [add("Neg", [add("Slice", [rest, "i1", "end", "three", "step"], f"{n}o")], f"{n}m"), "minus"], f"{n}mo")
    even = add("Unsqueeze", [add("Slice", [rest, "i0", "end", "three", "step"], f"{n}e"), "minus"], f"{n}ev")
    other = add("Reshape", [add("Concat", [odd, even], f"{n}p", axis=-1), sizes], f"{n}r")
    rest = add("Add", [add("Mul", [rest, table[0]], f"{n}c"), add("Mul", [other, table[1]], f"{n}s")], f"{n}turned")
    turned.append(add("Concat", [first, rest], f"{n}w", axis=2))
v = heads(linear(x, "v", 16, 16), "vh", of_heads)
scores = add("MatMul", [turned[0], add("Transpose", [turned[1]], "kt", perm=[0, 1, 3, 2])], "scores")
mixed = add("MatMul", [add("Softmax", [add("Mul", [scores, number("scale", 0.35)], "scaled")], "shares", axis=-1), v], "mixed")
mixed = add("Reshape", [add("Transpose", [mixed], "back", perm=[0, 2, 1, 3]), constant("whole", [0, 18, -1])], "together")
x = ffn(add("Add", [x, linear(mixed, "o", 16, 16)], "x1"), "y")
add("Gemm", [add("ReduceMean", [x], "pooled", axes=[1], keepdims=0), weight("h.w", 5, 16), weight("h.b", 5)], "classes", transB=1)
net.save("patches", {"pixels": ["N", 3, 16, 16]}, {"classes": ["N", 5]})
samples = net.random.standard_normal((24, 3, 16, 16)).astype(numpy.float32)
numpy.save("patches.npy", samples)
write_pixels("patches.safetensors", samples.transpose(0, 2, 3, 1))

mask = (numpy.arange(11) < net.random.integers(4, 12, (24, 1))).astype(numpy.int64)
mask[0] = 1
numpy.save("mask.npy", mask)
numpy.save("ones.npy", numpy.ones_like(mask))
numpy.save("ids.npy", net.random.integers(2, 40, (24, 11)) * mask)
PYTHON

given=input_ids=ids.npy,attention_mask=mask.npy
compare() {
    "$python" "$source_dir/tests/cli/compare_onnx_inputs.py" "$grail" "$1" "$given" || fail "$1: other outputs"
}

# NAME HEADS: all is read, heads and FFNs are cut, by a fit, without one and healed, and ONNX Runtime computes the same
narrow_decoder() {
    check "$1"
    runs "$grail" inspect "$1.onnx"
    grep -q region stdout && fail "a region is left"
    [[ $(grep -c "  heads  * [^ ]*  * $2 " stdout) == "$3" ]] || fail "expected $3 sites of $2 heads"
    compare "$1.onnx"
    local how
    for how in "--compensate full" "--compensate none" "--heal model --heal-steps 4 --heal-batch 4"; do
        rm -rf out
        # shellcheck disable=SC2086
        runs "$grail" compress "$1.onnx" -o out --calib "$given" --sites heads,ffn --align 1 --sparsity 0.5 --threads 1 --quiet $how
        compare "out/$1.onnx"
    done
    "$python" -c "import onnx; onnx.checker.check_model('out/$1.onnx', full_check=True)" || fail "out/$1.onnx is no valid model"
}

narrow_decoder shared 2 2
narrow_decoder fused 2 1
narrow_decoder both_ways 2 1
narrow_decoder distance 2 1
narrow_decoder alternate 2 1
narrow_decoder constants 2 1

# NAME LAYERS: the file computes biases for all heads, which stay
narrow_biased() {
    check "$1"
    runs "$grail" inspect "$1.onnx"
    grep -q "^region of " stdout && fail "a region is left"
    says "are of heads whose scores have biases that the file computes" stderr
    [[ $(grep -c "  ffn  " stdout) == "$2" ]] || fail "expected $2 FFNs"
    compare "$1.onnx"
    rm -rf out
    runs "$grail" compress "$1.onnx" -o out --calib "$given" --sites ffn --align 1 --sparsity 0.5 --threads 1 --quiet --heal model --heal-steps 4
    compare "out/$1.onnx"
}

narrow_biased buckets 2
narrow_biased by_key 1

check "the head that stays has its own biases"
rm -rf out
runs "$grail" compress constants.onnx -o out --calib "$given" --sites heads --align 1 --sparsity 0.5 --compensate none --threads 1 --quiet
"$python" - <<'PYTHON' || fail "another head, or its biases are not its own"
import numpy, onnx, onnxruntime
ids = numpy.load("ids.npy")
made = [onnxruntime.InferenceSession(f, providers=["CPUExecutionProvider"]).run(
    None, {"input_ids": ids, "attention_mask": numpy.ones_like(ids)})[0]
        for f in ("constants.onnx", "out/constants.onnx")]
shapes = [list(t.dims) for t in onnx.load("out/constants.onnx").graph.initializer]
assert [1, 1, 11, 11] in shapes, shapes
assert numpy.abs(made[0] - made[1]).max() < 1e-5 * numpy.abs(made[0]).max()
PYTHON

runs "$grail" inspect patches.onnx
grep -q region stdout && fail "a region is left in patches.onnx"
narrow_by_half patches heads,ffn 1865
rm -rf out
runs "$grail" compress patches.onnx -o out --calib patches.npy --sites heads,ffn --sparsity 0.5 --heal model --heal-steps 4 --quiet
same_outputs out/patches.onnx patches.safetensors

check "scores of the next token"
runs "$grail" inspect fused.onnx
says "B of KV cache" stdout
grep -q "gives hidden states" stdout && fail "scores of tokens are taken for hidden states"
"$python" -c "import numpy; numpy.save('full.npy', numpy.load('ids.npy')[numpy.load('mask.npy').sum(1) == 11])"
runs "$grail" eval fused.onnx --data full.npy --context 11 --threads 1 --precision f32 --json
"$python" - <<'PYTHON' || fail "another perplexity"
import json, numpy, onnxruntime
told = json.load(open("stdout"))["perplexity"]
ids = numpy.load("full.npy")
made = onnxruntime.InferenceSession("fused.onnx", providers=["CPUExecutionProvider"]).run(
    None, {"input_ids": ids, "attention_mask": numpy.ones_like(ids)})[0].astype(float)
made -= numpy.log(numpy.exp(made).sum(-1, keepdims=True))
losses = [-made[s, t, ids[s, t + 1]] for s in range(len(ids)) for t in range(10)]
assert abs(numpy.log(told) - numpy.mean(losses)) < 1e-4, (told, numpy.exp(numpy.mean(losses)))
PYTHON
rm -rf out
runs "$grail" compress fused.onnx -o out --calib full.npy --context 11 --sites ffn --sparsity 0.5 --heal model --heal-steps 4 --quiet
grep -q "relative squared error of its output" stdout && fail "healing does not go by the divergence"
runs "$grail" verify fused.onnx out --data full.npy
says "mean KL" stdout

check "layers that keep other numbers"
runs "$grail" plan shared.onnx -o plan.json --calib "$given" --sites heads,ffn --target-ratio 0.8 --budget uniform --quiet
"$python" - <<'PYTHON'
import json
plan = json.load(open("plan.json"))
of_heads = [site for site in plan["sites"] if site["kind"] == "heads"]
of_heads[0]["kept"], of_heads[1]["kept"] = 2, 1
json.dump(plan, open("plan.json", "w"))
PYTHON
rm -rf out
runs "$grail" compress shared.onnx -o out --calib "$given" --plan plan.json --quiet
compare out/shared.onnx
"$python" -c "import onnx; onnx.checker.check_model('out/shared.onnx', full_check=True)" || fail "out/shared.onnx is no valid model"

check "longer than what was tried"
"$python" -c "import numpy; numpy.save('long.npy', numpy.full((2, 2049), 5))"
rm -rf out
refuses 1 "a context of 2049 tokens is longer than the model's 2048 positions" \
    "$grail" compress shared.onnx -o long --calib long.npy --sites ffn --sparsity 0.5

check "what no mask and no rotation is"
for pair in "by_length:what differs from sample to sample, or with their length" by_words: swapped: uneven:; do
    name=${pair%%:*}
    given=input_ids=ids.npy,attention_mask=mask.npy
    [[ $name == by_length ]] && given=input_ids=ids.npy,attention_mask=ones.npy # padding would count
    runs "$grail" inspect "$name.onnx"
    grep -q "^region of " stdout || fail "$name.onnx has no region"
    says "${pair#*:}" stdout
    grep -q "  heads  " stdout && fail "heads of $name.onnx are cut"
    compare "$name.onnx"
    rm -rf out
    runs "$grail" compress "$name.onnx" -o out --calib "$given" --sites ffn --align 1 --sparsity 0.5 --threads 1 --quiet
    compare "out/$name.onnx"
done
