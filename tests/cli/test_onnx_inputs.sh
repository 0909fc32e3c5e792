#!/usr/bin/env bash
# Networks of ONNX with several inputs: encoders of token ids, images of other sizes or with sizes beside them, and integers
# beside images and signals.
#
# usage: test_onnx_inputs.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

inputs=$source_dir/tests/golden/inputs
bert=$inputs/bert.onnx
python=${GRAIL_PYTHON:-python3}

check "every input is told by its name"
runs "$grail" inspect "$bert"
says "input input_ids: integers 0 to 40 for each position" stdout
says "input attention_mask: mask, 0 where positions are padding" stdout
says "input token_type_ids: integers 0 to 1 for each position" stdout
runs "$grail" inspect "$inputs/siamese.onnx" --json
says '"name": "search"' stdout
runs "$grail" inspect "$inputs/siamese.onnx"
says "input search: 3 channels, 17 x 13" stdout

runs "$grail" inspect "$inputs/records.onnx"
says "input words: 5 integers 0 to 40" stdout
says "input box: 2 integers" stdout
says "input frames: 7 channels, 6 x 1" stdout
runs "$grail" inspect "$inputs/records.onnx" --json
says '"is_integer": true' stdout

check "names that are missing or unknown are refused"
calibrate() {
    "$grail" compress "$1" -o out --sparsity 0.3 --calib "$2"
}
refuses 1 "the input 'attention_mask' is not given: integers [samples, positions], a mask: 1 where positions count" \
    calibrate "$bert" input_ids=ids.npy,token_type_ids=types.npy
refuses 1 "names the input 'input_ids' twice" calibrate "$bert" input_ids=ids.npy,input_ids=ids.npy
refuses 1 "'words=ids.npy' is no input of the network" calibrate "$bert" words=ids.npy

needs_onnx "; the checks before are made"

"$python" - <<'PYTHON'
import numpy

random = numpy.random.default_rng(0)
lengths = numpy.concatenate([[9, 1, 9, 4, 12, 3], random.integers(2, 13, 58)])
mask = (numpy.arange(12) < lengths[:, None]).astype(numpy.int64)
ids = numpy.where(mask, random.integers(2, 41, mask.shape), 1)
types = random.integers(0, 2, mask.shape)
numpy.save("ids.npy", ids)
numpy.save("mask.npy", mask)
numpy.save("types.npy", types)
numpy.save("left.npy", mask[:, ::-1])
numpy.save("ones.npy", numpy.ones_like(mask))
numpy.save("few.npy", types[:9])
numpy.save("reals.npy", types.astype(numpy.float32))
for name, of, value in (("unknown.npy", ids, 41), ("negative.npy", ids, -1), ("twos.npy", mask, 2), ("none.npy", mask, 0)):
    array = of.copy()
    array[3, :4] = value
    numpy.save(name, array)
for name, shape in (("template", (3, 12, 12)), ("search", (3, 17, 13)), ("image", (3, 14, 14))):
    numpy.save(f"{name}.npy", random.normal(size=(40, *shape)).astype(numpy.float32))
numpy.save("scale.npy", random.uniform(0.5, 2, (40, 2)).astype(numpy.float32))
numpy.save("shape.npy", random.uniform(10, 20, (40, 2)).astype(numpy.float32))
numbers = {"words": random.integers(0, 41, (40, 5)), "kind": random.integers(0, 5, 40).astype(numpy.int32),
           "signal": random.normal(size=(40, 4, 11)).astype(numpy.float32),
           "frames": random.normal(size=(40, 6, 7)).astype(numpy.float32), "box": random.integers(-20, 300, (40, 2)),
           "photo": random.normal(size=(40, 3, 8, 8)).astype(numpy.float32),
           "truths": random.integers(0, 2, (40, 5)).astype(bool), "age": random.normal(size=40).astype(numpy.float32)}
numbers["truths"][:, 0] = True
wrongs = {"far": ("words", (3, 2), 41), "below": ("kind", 9, -1), "large": ("box", (5, 1), 2**24 + 1),
          "hole": ("signal", (2, 3, 4), numpy.nan), "endless": ("age", 6, numpy.inf)}
for name, (of, at, value) in wrongs.items():
    numbers[name] = numbers[of].copy()
    numbers[name][at] = value
numbers["fewer"], numbers["shorter"], numbers["flat"] = numbers["words"][:39], numbers["words"][:, :4], numbers["words"].ravel()
numbers["halves"], numbers["whole"] = numbers["words"] / 2, numbers["age"].astype(numpy.int64)
numbers["twofold"] = numbers["truths"] * 2
for name, array in numbers.items():
    numpy.save(f"{name}.npy", array)
towers = random.integers(2, 40, (40, 9))
ends = random.integers(2, 9, 40)
towers[numpy.arange(40), ends] = 40
numpy.save("towers.npy", numpy.where(numpy.arange(9) > ends[:, None], 1, towers))
numpy.save("shown.npy", (numpy.arange(9) <= ends[:, None]).astype(numpy.int64))
numpy.save("pictures.npy", random.normal(size=(40, 3, 16, 16)).astype(numpy.float32))
wrong = numpy.load("scale.npy")
wrong[7, 1] = numpy.nan
numpy.save("nan.npy", wrong)
PYTHON
export PYTHON=$python
of_bert=input_ids=ids.npy,attention_mask=mask.npy,token_type_ids=types.npy
of_others=input_ids=ids.npy,attention_mask=mask.npy
of_siamese=template=template.npy,search=search.npy
of_detector=scale_factor=scale.npy,image=image.npy,im_shape=shape.npy
of_records=image=photo.npy,words=words.npy,kind=kind.npy,signal=signal.npy,frames=frames.npy,box=box.npy
of_clip=pixel_values=pictures.npy,input_ids=towers.npy,attention_mask=shown.npy

check "arrays that do not fit are refused, with their place"
refuses 1 "the input 'im_shape' is not given: floating-point values [samples, 2]; add im_shape=FILE" \
    calibrate "$inputs/detector.onnx" image=image.npy,scale_factor=scale.npy
refuses 1 "sample 3 has 41 at position 0 of 'input_ids', expected 0 to 40" calibrate "$bert" "${of_bert/ids.npy/unknown.npy}"
refuses 1 "negative.npy" calibrate "$bert" "${of_bert/ids.npy/negative.npy}"
refuses 1 "sample 3 has 2 at position 0 of the mask 'attention_mask', expected 0 or 1" calibrate "$bert" "${of_bert/mask.npy/twos.npy}"
refuses 1 "sample 3 is masked as a whole" calibrate "$bert" "${of_bert/mask.npy/none.npy}"
refuses 1 "put the padding behind all else" calibrate "$bert" "${of_bert/mask.npy/left.npy}"
refuses 1 "few.npy: [9, 12] for the input 'token_type_ids', but ids.npy has [64, 12]" calibrate "$bert" "${of_bert/types.npy/few.npy}"
refuses 1 "reals.npy: has dtype '<f4'" calibrate "$bert" "${of_bert/types.npy/reals.npy}"
refuses 1 "cannot open 'nothing.npy'" calibrate "$bert" "${of_bert/types.npy/nothing.npy}"
refuses 1 "by which the network's file knows padding; leave padding out, or mask it" \
    calibrate "$inputs/roberta.onnx" input_ids=ids.npy,attention_mask=ones.npy
refuses 1 "its samples are [3, 12, 12], but 'search' is floating-point values [samples, 3, 17, 13]" \
    calibrate "$inputs/siamese.onnx" template=template.npy,search=template.npy
refuses 3 "nan.npy: holds NaN at element 1" calibrate "$inputs/detector.onnx" "${of_detector/scale.npy/nan.npy}"

records=$inputs/records.onnx
refuses 1 "the input 'words' is not given: integers [samples, 5]; add words=FILE" calibrate "$records" "${of_records/words=words.npy,/}"
refuses 3 "far.npy: sample 3 has 41 at position 2 of 'words', expected 0 to 40" calibrate "$records" "${of_records/words.npy/far.npy}"
refuses 3 "below.npy: sample 9 has -1 at position 0 of 'kind', expected 0 to 4" calibrate "$records" "${of_records/kind.npy/below.npy}"
refuses 3 "large.npy: sample 5 has 16777217 at position 1 of 'box', expected -16777216 to 16777216" \
    calibrate "$records" "${of_records/box.npy/large.npy}"
refuses 3 "hole.npy: holds NaN at element 37" calibrate "$records" "${of_records/signal.npy/hole.npy}"
refuses 1 "fewer.npy has 39 samples, but photo.npy has 40" calibrate "$records" "${of_records/words.npy/fewer.npy}"
refuses 1 "shorter.npy: its samples are [4, 1, 1], but 'words' is integers [samples, 5]" calibrate "$records" "${of_records/words.npy/shorter.npy}"
refuses 1 "signal.npy: its samples are [11, 4, 1], but 'frames' is floating-point values [samples, 6, 7]" \
    calibrate "$records" "${of_records/frames.npy/signal.npy}"
refuses 1 "words.npy: has 2 dimensions, but 'kind' has 1, of which the first is that of the samples" \
    calibrate "$records" "${of_records/kind.npy/words.npy}"
refuses 1 "halves.npy: has dtype '<f8', expected little-endian integers" calibrate "$records" "${of_records/words.npy/halves.npy}"
refuses 1 "box.npy: has dtype '<i8', expected little-endian float32" calibrate "$records" "${of_records/photo.npy/box.npy}"

check "narrow networks compute in ONNX Runtime what they do in grail, also of padded samples"
narrow() { # NETWORK ARRAYS OPTION...
    rm -rf out
    runs "$grail" compress "$inputs/$1.onnx" -o out --align 1 --sparsity 0.4 --threads 1 --quiet --calib "$2" "${@:3}"
}
agree() { # NETWORK ARRAYS
    for file in "$inputs/$1.onnx" "out/$1.onnx"; do
        same_outputs "$file" "$2"
    done
}
same_outputs() { # FILE ARRAYS OPTION...
    "$python" "$source_dir/tests/cli/compare_onnx_inputs.py" "$grail" "$@" || fail "$1: other outputs"
}
for name in bert distilbert roberta mpnet siamese detector records clip; do
    case $name in
    bert) arrays=$of_bert ;;
    siamese) arrays=$of_siamese ;;
    detector) arrays=$of_detector ;;
    records) arrays=$of_records ;;
    clip) arrays=$of_clip ;;
    *) arrays=$of_others ;;
    esac
    narrow "$name" "$arrays"
    "$python" -c "import onnx; onnx.checker.check_model(onnx.load('out/$name.onnx'), full_check=True)" || fail "no valid model"
    agree "$name" "$arrays"
    narrow "$name" "$arrays" --compensate none --selector random
    runs "$grail" verify "$inputs/$name.onnx" "out/$name.onnx" # by numbers that choose rows of its tables
    runs "$grail" verify "$inputs/$name.onnx" "out/$name.onnx" --data "$arrays"
    says ", holds (tolerance" stdout
    agree "$name" "$arrays"
done

check "padding is no part of the statistics"
narrow bert "$of_bert"
sum=$(cksum <out/bert.onnx)
"$python" - <<'PYTHON'
import numpy

mask = numpy.load("mask.npy")
numpy.save("ids.npy", numpy.where(mask, numpy.load("ids.npy"), 7))
numpy.save("types.npy", numpy.where(mask, numpy.load("types.npy"), 1 - numpy.load("types.npy")))
PYTHON
narrow bert "$of_bert"
[[ $sum == $(cksum <out/bert.onnx) ]] || fail "what is masked has changed the result"

check "an input of masks, types and ids is healed, planned and judged as other encoders"
narrow bert "$of_bert" --heal block,model --heal-steps 4 --eval "$of_bert"
says "documents" stdout
agree bert "$of_bert"
narrow siamese "$of_siamese" --heal block,model --heal-steps 4 --eval "$of_siamese" --images 8
agree siamese "$of_siamese"
runs "$grail" plan "$bert" -o plan.json --calib "$of_bert" --target-ratio 0.8 --threads 1 --quiet

narrow records "$of_records" --compensate grail --selector wanda --heal model --heal-steps 3 --eval "$of_records"
agree records "$of_records"
narrow clip "$of_clip" --sparsity ffn=0.3,heads=0.25 --compensate grail --selector wanda --eval "$of_clip"
says "text_embeds: relative error" stdout
agree clip "$of_clip"
runs "$grail" gram "$inputs/clip.onnx" --calib "$of_clip" -o clip.gguf --quiet
runs "$grail" plan "$records" -o records.json --calib "$of_records" --target-ratio 0.8 --threads 1 --quiet

check "integers that no row reads go to regions in the types of the file, and sizes that it leaves open are asked for"
"$python" - <<'PYTHON' || fail "cannot make mixed.onnx"
from onnx import TensorProto
from onnx_maker import Network
net = Network(5)
add = net.add
net.weights(0.4, table=(41, 8), up=(8, 20), down=(20, 6), beside=(12, 4, 3), bias=(12,), last=(6, 12, 3), bias2=(6,), out=(14, 3))
one, two = net.constant("one", [1]), net.constant("two", [2])
x = add("MatMul", [add("Relu", [add("MatMul", [add("Gather", ["table", "words"], "x"), "up"], "h")], "r"), "down"], "d")
factor = add("Unsqueeze", [add("Cast", ["truths"], "seen", to=TensorProto.FLOAT), two], "factor")
pooled = add("ReduceSum", [add("Mul", [x, factor], "gated"), one], "pooled", keepdims=0)
x = add("Conv", [add("Relu", [add("Conv", ["signal", "beside", "bias"], "s")], "sr"), "last", "bias2"], "t")
mean = add("ReduceMean", [x], "m", axes=[2], keepdims=0)
years = add("Unsqueeze", ["age", one], "years")
kinds = add("Unsqueeze", [add("Cast", ["kind"], "real", to=TensorProto.FLOAT), one], "kinds")
add("MatMul", [add("Concat", [pooled, mean, years, kinds], "all", axis=1), "out"], "y")
inputs = {"words": (TensorProto.INT64, ["N", "T"]), "truths": (TensorProto.BOOL, ["N", "T"]), "signal": ["N", 4, "L"],
          "age": ["N"], "kind": (TensorProto.INT32, ["N"])}
def save(name, **changed):
    net.save(name, {**inputs, **changed}, {"y": ["N", 3]})
save("mixed", signal=["N", 4, 11])
save("open", words=(TensorProto.INT64, ["N", 5]), truths=(TensorProto.BOOL, ["N", 5]))
save("turned", signal=[2, 4, 11])
save("scalar", words=(TensorProto.INT64, ["N", 5]), truths=(TensorProto.BOOL, ["N", 5]), age=[])
save("doubles", words=(TensorProto.INT64, ["N", 5]), truths=(TensorProto.BOOL, ["N", 5]), age=(TensorProto.DOUBLE, ["N"]))
PYTHON
rm -rf out
of_mixed=words=words.npy,truths=truths.npy,signal=signal.npy,age=age.npy,kind=kind.npy
refuses 1 "the input 'words' leaves sizes open, which a run of a network of several inputs needs" "$grail" inspect mixed.onnx
refuses 1 "the setting width says a size that no input leaves open" "$grail" inspect mixed.onnx --set length=5 --set width=3
refuses 1 "the setting length=5 is for positions of one of several inputs, which this network has not" "$grail" inspect "$bert" --set length=5
refuses 1 "the input 'signal' has another number of samples than the first one" "$grail" inspect turned.onnx --set length=5
refuses 1 "the input 'age' has type 1 and shape []" "$grail" inspect scalar.onnx --set length=11
refuses 1 "the input 'age' has type 11 and shape [-1]" "$grail" inspect doubles.onnx --set length=11
for length in mixed=5 open=11; do
    file=${length%=*}.onnx
    length=length=${length#*=}
    rm -rf out
    runs "$grail" compress "$file" -o out --align 1 --sparsity 0.4 --threads 1 --quiet --calib "$of_mixed" --set "$length"
    "$python" -c "import onnx; onnx.checker.check_model(onnx.load('out/$file'), full_check=True)" || fail "no valid model"
    same_outputs "$file" "$of_mixed" --set "$length"
    same_outputs "out/$file" "$of_mixed"
done
rm -rf out
mixed() { # ARRAYS
    "$grail" compress mixed.onnx -o other --sparsity 0.4 --threads 1 --quiet --calib "$1" --set length=5
}
refuses 3 "has 2 at position 0 of 'truths', expected 0 to 1" mixed "${of_mixed/truths.npy/twofold.npy}"
refuses 3 "endless.npy: holds infinity at element 0" mixed "${of_mixed/age.npy/endless.npy}"
refuses 1 "whole.npy: has dtype '<i8', expected little-endian float32" mixed "${of_mixed/age.npy/whole.npy}"
refuses 1 "flat.npy: its samples are [200, 1, 1], but 'words' is integers [samples, 5]" mixed "${of_mixed/words.npy/flat.npy}"
[[ ! -e other ]] || fail "a refused run has left an output"

check "a mask that integers round is not taken for ones"
"$python" - <<'PYTHON' || fail "cannot make halved.onnx"
from onnx import TensorProto
from onnx_maker import Network
net = Network(3)
add = net.add
net.weights(table=(20, 8), up=(8, 12), down=(12, 8))
two, last = net.constant("two", 2), net.constant("last", [2])
x = add("Gather", ["table", "input_ids"], "x")
whole = add("Mul", [add("Div", ["attention_mask", two], "half"), two], "whole")
factor = add("Unsqueeze", [add("Cast", [whole], "real", to=TensorProto.FLOAT), last], "factor")
inner = add("Relu", [add("MatMul", [add("Mul", [x, factor], "gated"), "up"], "h")], "r")
add("Add", [x, add("MatMul", [inner, "down"], "d")], "y")
for node in net.nodes:
    node.name = ""  # one without a name is told by its output
ids = (TensorProto.INT64, ["N", "T"])
net.save("halved", {"input_ids": ids, "attention_mask": ids}, {"y": ["N", "T", 8]})
PYTHON
runs "$grail" inspect halved.onnx
says "region of 5 nodes, 16 channels: node of 'gated' (Mul)" stdout

check "heads and windows of a region are no positions of a sequence, nor are all tokens but the first; ids may be laid out anew"
"$python" - <<'PYTHON' || fail "cannot make heads.onnx"
from onnx import TensorProto
from onnx_maker import Network
net = Network(4)
add, constant = net.add, net.constant
net.weights(table=(20, 8), before=(8, 8), across=(16, 8), up=(8, 12), down=(12, 8))
length = add("Gather", [add("Shape", ["input_ids"], "shape"), constant("second", [1])], "length", axis=0)
rows = add("Reshape", ["input_ids", add("Concat", [constant("any", [-1]), length], "rows", axis=0)], "laid")
x = add("Gather", ["table", rows], "x")
later = add("Slice", [x, *(constant(n, [v]) for n, v in (("first", 1), ("last", 2**62), ("axis", 1)))], "later")
moved = add("Pad", [later, constant("pads", [0, 0, 0, 0, 1, 0])], "moved")
x = add("MatMul", [add("Concat", [x, moved], "both", axis=2), "across"], "joined")
heads = add("Atan", [add("Reshape", [add("MatMul", [x, "before"], "b"), constant("parted", [-1, 6, 2, 4])], "heads")], "atan")
turned = add("Transpose", [add("Transpose", [heads], "turned", perm=[0, 2, 1, 3])], "back", perm=[0, 2, 1, 3])
x = add("Add", [x, add("Reshape", [turned, constant("whole", [0, 0, 8])], "flat")], "x1")
lines = add("Transpose", [add("Atan", [add("Reshape", [x, constant("twos", [0, -1, 2])], "windows")], "flatter")], "lines", perm=[0, 2, 1])
mean = add("ReduceMean", [lines], "mean", axes=[1, 2], keepdims=1)
rows = add("Reshape", [add("MatMul", [x, "before"], "again"), constant("two_rows", [-1, 2, 3, 8])], "two")
x = add("Add", [x, add("Reshape", [add("Atan", [rows], "bent"), constant("one_row", [-1, 6, 8])], "one")], "x3")
x = add("Add", [x, mean], "x2")
add("Add", [x, add("MatMul", [add("Relu", [add("MatMul", [x, "up"], "h")], "r"), "down"], "d")], "y")
net.save("heads", {"input_ids": (TensorProto.INT64, ["N", 6])}, {"y": ["N", 6, 8]})
PYTHON
"$python" - <<'PYTHON'
import numpy
random = numpy.random.default_rng(0)
numpy.save("words.npy", random.integers(0, 20, (16, 6)))
numpy.save("all.npy", numpy.ones((16, 6), numpy.int64))
PYTHON
runs "$grail" compress heads.onnx -o out_heads --calib words.npy --sparsity 0.3 --align 1 --threads 1 --quiet
"$python" -c "
import onnxruntime, numpy
dense, narrow = (onnxruntime.InferenceSession(f).run(None, {'input_ids': numpy.load('words.npy')})[0] for f in ('heads.onnx', 'out_heads/heads.onnx'))
assert 0 < numpy.linalg.norm(dense - narrow) < 0.3 * numpy.linalg.norm(dense)" || fail "heads.onnx is not narrowed"

check "outputs that follow from a mask are no value of the graph: they stay, and what else they follow from is compared"
"$python" - <<'PYTHON' || fail "cannot make kept.onnx"
import numpy, onnx
from onnx import TensorProto, helper, numpy_helper
model = onnx.load("halved.onnx")
two = next(one for one in model.graph.initializer if one.name == "two")
two.CopyFrom(numpy_helper.from_array(numpy.array(1), "two"))
model.graph.node.extend([helper.make_node("Identity", ["attention_mask"], ["mask_out"]),
                         helper.make_node("ArgMax", ["y"], ["words"], axis=2, keepdims=0),
                         helper.make_node("Mul", ["words", "attention_mask"], ["masked"])])
model.graph.output.extend([helper.make_tensor_value_info(n, TensorProto.INT64, ["N", "T"]) for n in ("mask_out", "masked")])
onnx.save(model, "kept.onnx")
del model.graph.output[0], model.graph.output[1]
onnx.save(model, "alone.onnx")
PYTHON
of_kept=input_ids=words.npy,attention_mask=all.npy
rm -rf out
runs "$grail" compress kept.onnx -o out --align 1 --sparsity 0.3 --threads 1 --quiet --calib "$of_kept"
"$python" -c "
import onnx, onnxruntime, numpy
onnx.checker.check_model(onnx.load('out/kept.onnx'), full_check=True)
given = {'input_ids': numpy.load('words.npy'), 'attention_mask': numpy.load('all.npy')}
y, mask, words = onnxruntime.InferenceSession('out/kept.onnx').run(None, given)
assert (mask == 1).all() and (words == y.argmax(2)).all()" || fail "kept.onnx does not give what it gave"
rm -rf out
refuses 1 "its outputs follow from ids and masks alone" "$grail" inspect alone.onnx

check "sizes that the file has names for are said by these: a decoder step with a cache of its own length"
"$python" - <<'PYTHON' || fail "cannot make cached.onnx"
import numpy
from onnx import TensorProto
from onnx_maker import Network
net = Network(5)
add, constant = net.add, net.constant
x = add("Gather", [net.weight("table", 30, 16), "input_ids"], "x")
keys = add("Transpose", [add("Reshape", [net.linear(x, "k", 16, 16), constant("heads", [0, 0, 2, 8])], "kh")], "kt", perm=[0, 2, 1, 3])
keys = add("Concat", ["past.key", keys], "present.key", axis=2)
seen = add("ReduceMean", [add("Mul", [keys, add("Unsqueeze", [add("Cast", ["attention_mask"], "shown", to=1), constant("axes", [1, 3])], "wide")],
                              "hidden")], "seen", axes=[2], keepdims=0)
x = add("Add", [x, add("Reshape", [seen, constant("flat", [0, 1, 16])], "row")], "x1")
x = add("Add", [x, net.linear(add("Relu", [net.linear(x, "f", 16, 40)], "fr"), "p", 40, 16)], "x2")
add("MatMul", [x, net.weight("head", 16, 30)], "logits")
net.save("cached", {"input_ids": (TensorProto.INT64, ["batch", "step"]), "attention_mask": (TensorProto.INT64, ["batch", "all"]),
                    "past.key": ["batch", 2, "past", 8]}, {"logits": ["batch", "step", 30], "present.key": ["batch", 2, "all", 8]})
random = net.random
for name, array in (("steps", random.integers(0, 30, (24, 4))), ("shown", random.integers(0, 2, (24, 7))),
                    ("key", random.normal(size=(24, 2, 3, 8)).astype(numpy.float32))):
    numpy.save(f"{name}.npy", array)
PYTHON
of_cached=input_ids=steps.npy,attention_mask=shown.npy,past.key=key.npy
sizes="--set step=4 --set all=7 --set past=3"
rm -rf out
refuses 1 "the input 'input_ids' leaves sizes open, which a run of a network of several inputs needs; settings NAME=N say them, by the names that the file has for them: 'step', 'all', 'past'" \
    "$grail" inspect cached.onnx
refuses 1 "a onnx network has no setting 'steps', and no input of the file has an open size of that name; known settings: preset, height, width, length, and names of open sizes: 'step', 'all', 'past'" \
    "$grail" inspect cached.onnx --set steps=4
refuses 1 "the setting step=0 is not between 1 and 65536" "$grail" inspect cached.onnx --set step=0
refuses 1 "the size 'step' is no whole number" "$grail" inspect cached.onnx --set step=four
refuses 1 "no input of the file has an open size of that name" "$grail" inspect cached.onnx --set batch=4
runs "$grail" inspect cached.onnx $sizes
says "input past.key: 2 channels, 3 x 8" stdout
says "output present.key: 2 channels, 7 x 8" stdout
runs "$grail" compress cached.onnx -o out --calib "$of_cached" --sites ffn --sparsity 0.5 --align 1 --threads 1 $sizes
says "calibration: 24 samples" stdout
says "MACs per sample" stdout
runs "$grail" inspect out/cached.onnx
says "input attention_mask: 7 integers" stdout
for wrong in '[4]' '{"step": "4"}' '{"step": -4}' '{"unknown": 4}'; do
    mkdir -p wrong
    cp out/cached.onnx wrong
    echo "{\"model_type\": \"onnx\", \"sizes\": $wrong}" >wrong/grail.json
    "$grail" inspect wrong/cached.onnx >stdout 2>stderr && fail "sizes $wrong are taken"
    says "grail.json: " stderr
done
"$python" - <<'PYTHON' || fail "cached.onnx is not narrowed as it should be"
import numpy, onnxruntime
def run(path, step, past):
    random = numpy.random.default_rng(past)
    given = {"input_ids": random.integers(0, 30, (2, step)), "attention_mask": numpy.ones((2, step + past), numpy.int64),
             "past.key": random.normal(size=(2, 2, past, 8)).astype(numpy.float32)}
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, given)
for step, past in ((4, 3), (1, 9), (6, 0)): # other sizes than those that were said, too
    (dense, keys), (narrow, same) = run("cached.onnx", step, past), run("out/cached.onnx", step, past)
    assert narrow.shape == dense.shape and (keys == same).all()
    assert 0 < numpy.linalg.norm(dense - narrow) < 0.8 * numpy.linalg.norm(dense)
PYTHON
