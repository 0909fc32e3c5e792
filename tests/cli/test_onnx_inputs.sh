#!/usr/bin/env bash
# Networks of ONNX with several inputs: encoders of token ids, and images of other sizes or with sizes beside them.
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

check "names that are missing or unknown are refused"
calibrate() {
    "$grail" compress "$1" -o out --sparsity 0.3 --calib "$2"
}
refuses 1 "the input 'attention_mask' is not given: integers [samples, positions], a mask: 1 where positions count" \
    calibrate "$bert" input_ids=ids.npy,token_type_ids=types.npy
refuses 1 "names the input 'input_ids' twice" calibrate "$bert" input_ids=ids.npy,input_ids=ids.npy
refuses 1 "'words=ids.npy' is no input of the network" calibrate "$bert" words=ids.npy

"$python" -c "import onnx, onnxruntime, numpy" 2>/dev/null || skip "$python lacks onnx, onnxruntime or numpy; the checks before are made"

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
wrong = numpy.load("scale.npy")
wrong[7, 1] = numpy.nan
numpy.save("nan.npy", wrong)
PYTHON
export PYTHON=$python
of_bert=input_ids=ids.npy,attention_mask=mask.npy,token_type_ids=types.npy
of_others=input_ids=ids.npy,attention_mask=mask.npy
of_siamese=template=template.npy,search=search.npy
of_detector=scale_factor=scale.npy,image=image.npy,im_shape=shape.npy

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

check "narrow networks compute in ONNX Runtime what they do in grail, also of padded samples"
narrow() { # NETWORK ARRAYS OPTION...
    rm -rf out
    runs "$grail" compress "$inputs/$1.onnx" -o out --align 1 --sparsity 0.4 --threads 1 --quiet --calib "$2" "${@:3}"
}
agree() { # NETWORK ARRAYS
    for file in "$inputs/$1.onnx" "out/$1.onnx"; do
        "$python" "$source_dir/tests/cli/compare_onnx_inputs.py" "$grail" "$file" "$2" || fail "$1: other outputs"
    done
}
for name in bert distilbert roberta mpnet siamese detector; do
    case $name in
    bert) arrays=$of_bert ;;
    siamese) arrays=$of_siamese ;;
    detector) arrays=$of_detector ;;
    *) arrays=$of_others ;;
    esac
    narrow "$name" "$arrays"
    "$python" -c "import onnx; onnx.checker.check_model(onnx.load('out/$name.onnx'), full_check=True)" || fail "no valid model"
    agree "$name" "$arrays"
    narrow "$name" "$arrays" --compensate none --selector random
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

check "a mask that integers round is not taken for ones"
"$python" - <<'PYTHON' || fail "cannot make halved.onnx"
import numpy, onnx
from onnx import TensorProto, helper, numpy_helper
random = numpy.random.default_rng(3)
reals = {"table": (20, 8), "up": (8, 12), "down": (12, 8)}
tensors = [numpy_helper.from_array(random.normal(size=s).astype(numpy.float32), n) for n, s in reals.items()]
tensors += [numpy_helper.from_array(numpy.array(2), "two"), numpy_helper.from_array(numpy.array([2]), "last")]
nodes = [helper.make_node("Gather", ["table", "input_ids"], ["x"]), helper.make_node("Div", ["attention_mask", "two"], ["half"]),
         helper.make_node("Mul", ["half", "two"], ["whole"]), helper.make_node("Cast", ["whole"], ["real"], to=TensorProto.FLOAT),
         helper.make_node("Unsqueeze", ["real", "last"], ["factor"]), helper.make_node("Mul", ["x", "factor"], ["gated"]),
         helper.make_node("MatMul", ["gated", "up"], ["h"]), helper.make_node("Relu", ["h"], ["r"]),
         helper.make_node("MatMul", ["r", "down"], ["d"]), helper.make_node("Add", ["x", "d"], ["y"])]
inputs = [helper.make_tensor_value_info(n, TensorProto.INT64, ["N", "T"]) for n in ("input_ids", "attention_mask")]
output = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", "T", 8])
onnx.save(helper.make_model(helper.make_graph(nodes, "halved", inputs, [output], tensors), opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "halved.onnx")
PYTHON
runs "$grail" inspect halved.onnx
says "region of 5 nodes, 16 channels: node of 'gated' (Mul)" stdout

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
"$python" - <<'PYTHON'
import numpy
random = numpy.random.default_rng(0)
numpy.save("words.npy", random.integers(0, 20, (16, 6)))
numpy.save("all.npy", numpy.ones((16, 6), numpy.int64))
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
