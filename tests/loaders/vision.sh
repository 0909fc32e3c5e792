#!/usr/bin/env bash
# Narrows vision networks in the ways that change a shape, and checks that ONNX Runtime computes
# grail's logits from what grail export writes, and that stock classes load what report.json says
# they load, with the same logits.
#
# usage: tests/loaders/vision.sh GRAIL [PYTHON [WORK_DIRECTORY]]
#   GRAIL   the grail binary
#   PYTHON  an interpreter with onnxruntime, safetensors, numpy; and for the stock classes torch,
#           torchvision, timm 0.9 (1 for directories), transformers 4 or 5, open_clip 2 or 3,
#           vit-pytorch 0.40. What is not installed is passed over by name. Default: $GRAIL_PYTHON, or python3.
# The work directory must not exist yet; without one a temporary directory is used and removed.
set -euo pipefail

if (($# < 1 || $# > 3)); then
    sed -n '6,12s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
grail=$(realpath "$1")
python=${2:-${GRAIL_PYTHON:-python3}}
here=$(cd "$(dirname "$0")" && pwd)
golden=$(realpath "$here/../golden/vision")
images=$(realpath "$here/../../demo/vision/calibration")
shared=${GRAIL_SHARED_DATA:-$here/../../../shared/data}
check=$here/check_vision.py
if (($# == 3)); then
    work=$3
    mkdir "$work"
else
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
fi
export OMP_WAIT_POLICY=passive
failed=0

has() {
    "$python" -c "import $1" 2>/dev/null
}

# compare NAME MODEL PIXELS CLASS [SETTING...]: ONNX Runtime, and the class unless it is "-"
compare() {
    local name=$1 model=$2 pixels=$3 class=$4 options=() setting
    shift 4
    for setting in "$@"; do options+=(--set "$setting"); done
    "$grail" logits "$model" --pixels "$pixels" -o "$work/$name.logits" "${options[@]}"
    "$grail" export "$model" -o "$work/$name.onnx" "${options[@]}" >/dev/null
    "$python" "$check" onnx "$work/$name.onnx" "$pixels" "$work/$name.logits" || failed=1
    [[ $class == - ]] && return
    if has "$(class_module "$class")"; then
        "$python" "$check" "$class" "$model" "$pixels" "$work/$name.logits" 2>"$work/stderr" ||
            { cat "$work/stderr" >&2; failed=1; }
    else
        echo "SKIPPED $class $name: not installed"
    fi
}

class_module() {
    case $1 in
    hf | lines) echo transformers ;;
    timm-directory) echo timm ;;
    *-call) echo "${1%-call}" ;;
    *) echo "${1//-/_}" ;;
    esac
}

# narrow NAME MODEL SPARSITY SELECTOR [OPTION...]
narrow() {
    local name=$1 model=$2 sparsity=$3 selector=$4
    shift 4
    "$grail" compress "$model" -o "$work/$name" --sparsity "$sparsity" --selector "$selector" \
        --samples 32 --quiet "$@" >/dev/null
}

# tower MODEL CLASS SETTING...
tower() {
    local model=$1 class=$2 options=() setting
    shift 2
    local pixels=$golden/$model/golden.safetensors source=$golden/$model
    for setting in "$@"; do options+=(--set "$setting"); done
    compare "$model" "$source" "$pixels" - "$@"
    narrow "$model-ffn" "$source" ffn=0.3 wanda --calib "$images" --preset imagenet \
        "${options[@]}"
    compare "$model-ffn" "$work/$model-ffn" "$pixels" "$class"
    narrow "$model-heads" "$source" ffn=0.5,heads=0.5 fold --calib "$images" --preset imagenet \
        "${options[@]}"
    if [[ $model == simple-vit ]]; then # its class takes any number of heads
        compare "$model-heads" "$work/$model-heads" "$pixels" "$class"
    else
        compare "$model-heads" "$work/$model-heads" "$pixels" -
    fi
}

for module in onnxruntime safetensors numpy; do
    has "$module" || { echo "SKIPPED: $python has no $module"; exit 77; }
done
tower timm-vit timm head_dim=16
tower torchvision-vit torchvision head_dim=16
tower hf-vit hf
tower simple-vit vit-pytorch
tower open-clip open-clip head_dim=16
compare hf-vit-lines "$work/hf-vit-ffn" "$golden/hf-vit/golden.safetensors" lines
tower hf-clip hf
tower hf-clip-vision hf
tower model-soup - head_dim=16

# ResNets of Hugging Face: its class has the same width in and around the blocks of a stage.
for kind in basic bottleneck; do
    pixels=$golden/hf-resnet-$kind/golden.safetensors
    compare "hf-resnet-$kind" "$golden/hf-resnet-$kind" "$pixels" -
    narrow "hf-resnet-$kind-conv" "$golden/hf-resnet-$kind" conv=0.5 wanda --calib "$images"
    compare "hf-resnet-$kind-conv" "$work/hf-resnet-$kind-conv" "$pixels" -
    narrow "hf-resnet-$kind-both" "$golden/hf-resnet-$kind" conv=0.5,stream=0.5 magnitude-l1 --calib "$images" --repair
    compare "hf-resnet-$kind-both" "$work/hf-resnet-$kind-both" "$pixels" hf
    compare "hf-resnet-$kind-lines" "$work/hf-resnet-$kind-both" "$pixels" lines
done

# A directory with open_clip's own configuration, whose arguments the lines of the card take.
mkdir "$work/open-clip-dense"
cp "$golden/open-clip/model.safetensors" "$work/open-clip-dense/open_clip_model.safetensors"
"$python" - "$work/open-clip-dense" <<'END'
import json
import pathlib
import sys
import safetensors.numpy
directory = pathlib.Path(sys.argv[1])
state = safetensors.numpy.load_file(directory / "open_clip_model.safetensors")
width, embed = state["visual.proj"].shape
side = 8 * int((len(state["visual.positional_embedding"]) - 1) ** 0.5)
vision = {"image_size": side, "patch_size": 8, "width": width, "head_width": 16,
          "layers": sum(n.startswith("visual.") and n.endswith("ln_1.weight") for n in state)}
text = {"context_length": 6, "vocab_size": 20, "width": 16, "heads": 1, "layers": 1}
document = {"model_cfg": {"embed_dim": embed, "vision_cfg": vision, "text_cfg": text}, "preprocess_cfg": {}}
(directory / "open_clip_config.json").write_text(json.dumps(document))
END
if has open_clip; then
    narrow open-clip-lines "$work/open-clip-dense" ffn=0.3 wanda --calib "$images" --preset imagenet --set head_dim=16
    compare open-clip-lines "$work/open-clip-lines" "$golden/open-clip/golden.safetensors" lines
fi

# Directories as timm saves them, which its create_model opens again: heads of 16 that model_args
# tells, and another activation and a norm before the layers that the architecture tells.
if "$python" -c "from timm.models._hub import load_model_config_from_path, save_for_hf" 2>/dev/null; then
    "$python" - "$work" <<'END'
import pathlib
import sys
import numpy
import safetensors.numpy
import timm
import torch
work = pathlib.Path(sys.argv[1])
torch.manual_seed(1)
for name, architecture in (("timm-directory", "vit_tiny_patch16_224"),
                           ("timm-directory-clip", "vit_base_patch32_clip_quickgelu_224")):
    model = timm.create_model(architecture, img_size=32, patch_size=8, embed_dim=48, depth=2,
                              num_heads=3, num_classes=7)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    timm.models.save_for_hf(model, work / (name + "-dense"), safe_serialization=True)
for name, architecture in (("timm-resnet", "resnet26"), ("timm-resnet18", "resnet18")):
    model = timm.create_model(architecture, num_classes=7, zero_init_last=False)
    timm.models.save_for_hf(model, work / (name + "-dense"), safe_serialization=True)
x = numpy.random.default_rng(2).standard_normal((4, 32, 32, 3)).astype("f")
safetensors.numpy.save_file({"pixels": x}, work / "pixels-timm")
x = numpy.random.default_rng(2).standard_normal((1, 224, 224, 3)).astype("f")
safetensors.numpy.save_file({"pixels": x}, work / "pixels-timm-resnet")
END
    for name in timm-directory timm-directory-clip; do
        compare "$name-dense" "$work/$name-dense" "$work/pixels-timm" timm-directory
        narrow "$name" "$work/$name-dense" ffn=0.3 wanda --calib "$images"
        compare "$name" "$work/$name" "$work/pixels-timm" timm-directory
        compare "$name-lines" "$work/$name" "$work/pixels-timm" lines
        narrow "$name-odd" "$work/$name" ffn=0.55 fold --calib "$images"
        compare "$name-odd" "$work/$name-odd" "$work/pixels-timm" timm-directory
    done
    # Bottlenecks whose width model_args tells.
    narrow timm-resnet "$work/timm-resnet-dense" conv=0.25,layer1.0.downsample.0=0 magnitude-l1 --compensate none \
        --calib "$images"
    compare timm-resnet "$work/timm-resnet" "$work/pixels-timm-resnet" timm-directory
    compare timm-resnet-lines "$work/timm-resnet" "$work/pixels-timm-resnet" lines
    # Widths that no class has, inside blocks and of residual streams: timm-widths.txt tells them.
    narrow timm-resnet18 "$work/timm-resnet18-dense" conv=0.3,stream=0.25,layer2.0.conv2=0.6,layer4.1.conv2=0.45 \
        magnitude-l1 --align 1 --calib "$images"
    compare timm-resnet18-lines "$work/timm-resnet18" "$work/pixels-timm-resnet" lines
    narrow timm-resnet18-again "$work/timm-resnet18" conv=0.2 wanda --align 1 --calib "$images"
    compare timm-resnet18-again-lines "$work/timm-resnet18-again" "$work/pixels-timm-resnet" lines
else
    echo "SKIPPED timm-directory: $python has no timm that opens directories"
fi

# A ResNet-50 whose bottlenecks are cut alike: the calls that the verdict names build it.
if has torchvision; then
    "$python" - "$work" <<'END'
import pathlib
import sys
import numpy
import safetensors.numpy
import safetensors.torch
import torch
import torchvision
work = pathlib.Path(sys.argv[1])
torch.manual_seed(1)
model = torchvision.models.resnet50(num_classes=7)
safetensors.torch.save_file(model.state_dict(), work / "resnet50.safetensors")
x = numpy.random.default_rng(2).standard_normal((1, 224, 224, 3)).astype("f")
safetensors.numpy.save_file({"pixels": x}, work / "pixels-resnet50")
END
    narrow resnet50 "$work/resnet50.safetensors" conv=0.25,layer1.0.downsample.0=0 magnitude-l1 --compensate none \
        --calib "$images"
    compare resnet50 "$work/resnet50" "$work/pixels-resnet50" torchvision-call
    compare resnet50-timm "$work/resnet50" "$work/pixels-resnet50" timm-call
    compare resnet50-lines "$work/resnet50" "$work/pixels-resnet50" lines
    if has timm; then
        narrow resnet50-uneven "$work/resnet50.safetensors" conv=0.3,layer2.1.conv3=0.5,layer3.4.conv2=0.15,layer1.0.downsample.0=0 \
            magnitude-l1 --align 1 --compensate none --calib "$images"
        compare resnet50-uneven-lines "$work/resnet50-uneven" "$work/pixels-resnet50" lines
    fi
else
    echo "SKIPPED torchvision-call: $python has no torchvision"
fi

"$python" - "$work/pixels32" <<'END'
import sys
import numpy
import safetensors.numpy
x = numpy.random.default_rng(1).standard_normal((4, 32, 32, 3)).astype("f")
safetensors.numpy.save_file({"pixels": x}, sys.argv[1])
END
for network in "$shared"/resnet-cifar/resnet20*.th "$shared"/resnet18-cifar10/*.pth; do
    [[ -r $network ]] || { echo "SKIPPED $network: not there"; continue; }
    has torch || { echo "SKIPPED $network: $python has no torch"; continue; }
    name=$(basename "$network")
    # what torch before 1.6 wrote is not read
    "$python" -c 'import sys, torch; torch.save(torch.load(sys.argv[1], "cpu", weights_only=True), sys.argv[2])' \
        "$network" "$work/$name.pth"
    network=$work/$name.pth
    compare "$name" "$network" "$work/pixels32" -
    narrow "$name-narrow" "$network" conv=0.5,stream=0.25 magnitude-l1 \
        --calib "$shared/cifar-10-batches-bin"
    compare "$name-narrow" "$work/$name-narrow" "$work/pixels32" -
    narrow "$name-folded" "$network" conv=0.5 fold --calib "$shared/cifar-10-batches-bin"
    compare "$name-folded" "$work/$name-folded" "$work/pixels32" -
done
exit "$failed"
