#ifndef GRAIL_IMAGES_H
#define GRAIL_IMAGES_H

#include <grail/model.h>
#include <grail/options.h>

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Images in memory that are a network's input as they are, resized and normalised. Borrowed while
 * a call, or what was opened from them, uses them; a program must not change them meanwhile. */
typedef struct grail_pixels {
    const float *values;   /* [count, side, side, channels], or [count, channels, side, side] */
    int channels_first;    /* 1: the second of these */
    int64_t count, side;   /* at least 1 each */
    const int64_t *labels; /* [count] indices of classes, or NULL */
    int64_t channels;      /* 0: 3 */
    GRAIL_ROOM(3);
} grail_pixels;

/**
 * Images for calibration or evaluation: pixels in memory, a directory of CIFAR-10 batches (binary
 * or python), one such file, a folder of JPEG and PNG files, with one subfolder per class or
 * none, or numpy's .npy files, one or a folder of them: [samples, channels, height, width],
 * [samples, channels], or one sample without the first dimension, of float32, float16, float64 or
 * uint8, which are the network's input as they are (uint8: 0 to 255); or of a network with several
 * inputs (grail_model_input) such files for each of them, "NAME=PATH,NAME=PATH". All strings are
 * borrowed for the duration of a call.
 *
 * Pixels equal those of Pillow and torchvision's ImageFolder bit by bit, so an EXIF orientation is
 * not applied. The cifar presets use images of their size unchanged; the others resize the shorter
 * side, in proportion to the size, and crop the centre.
 */
typedef struct grail_image_source {
    const char *path;
    const grail_pixels *pixels; /* in place of files, or NULL */
    const char *preset; /* a name of grail_image_preset_at; NULL = chosen by the data: cifar for
                           CIFAR batches, imagenet for folders */
    const char *split;  /* of CIFAR batches: "train" or "test" (NULL = test); NULL for other data */
    const char *labels; /* CSV "file,class index" for folders without class names, or NULL */
    int64_t size;       /* side of the network's input; 0 = that of the preset */
    grail_colour mean, deviation; /* where not given, those of the preset */
    GRAIL_ROOM(4);
} grail_image_source;

/** Sets every field to its default: all NULL and 0. */
GRAIL_API void grail_image_source_init(grail_image_source *source);

/** i-th description of the fields but the path, NULL beyond the last. */
GRAIL_API const grail_option *grail_image_option_at(int i);

/** How a model's images are prepared where the source names no preset: resize, crop the centre,
 * scale to (byte * rescale - mean) / deviation. Strings are borrowed from the model. */
typedef struct grail_preprocessing {
    const char *preset; /* a name of grail_image_preset_at; "checkpoint" when a file of the
                           checkpoint says it */
    const char *origin; /* that file, such as "preprocessor_config.json"; NULL: nothing says it, and
                           the usual preset of the family is assumed */
    const char *notice; /* what was assumed or changed, and what decides; NULL */
    const char *edges;  /* that are resized: "shorter" or "both"; NULL: none */
    int64_t resize;     /* length of these edges; 0: images must have the size of the crop */
    int64_t crop;       /* side of the network's input */
    const char *interpolation; /* such as "bicubic"; NULL without a resize */
    double rescale, mean[3], deviation[3];
    GRAIL_ROOM(4);
} grail_preprocessing;

/** The model must read images. When a file of the checkpoint says something that grail cannot
 * follow, this is its error (GRAIL_ERROR_FORMAT, GRAIL_ERROR_UNSUPPORTED); sources that name a
 * preset can still be opened. */
GRAIL_API grail_status grail_model_preprocessing(const grail_model *model,
                                                 grail_preprocessing *out) GRAIL_MUST_CHECK;

/** A list of images, and how one network reads them. It never changes: any number of threads may
 * read from it at once. */
typedef struct grail_images grail_images;

/** Lists the images of a source. What the source leaves open (preset, size) is taken from the
 * model, which must read images. Class folders are numbered in the order of their sorted names, but
 * where each has the name of a class in the model's configuration ("id2label", "label_names"), it
 * has the index of that class. CIFAR batches are mapped and hashed; no other file is read yet, so
 * a damaged image is an error only when it is used. *out is owned: grail_images_close. */
GRAIL_API grail_status grail_images_open(const grail_model *model, const grail_image_source *source,
                                         grail_images **out) GRAIL_MUST_CHECK;
GRAIL_API void grail_images_close(grail_images *images); /* NULL is allowed */
GRAIL_API int64_t grail_images_count(const grail_images *images);
/** How many of them have a class. */
GRAIL_API int64_t grail_images_labelled(const grail_images *images);

/**
 * i-th preset name, NULL beyond the last: "cifar", "cifar-imagenet" and "cifar-plain" differ in the
 * mean and deviation; "imagenet" is torchvision's (256, bilinear, 224), "vit" timm's for the augreg
 * weights (248, bicubic, 224), "vit-square" Hugging Face's ViTImageProcessor (both edges to 224,
 * bilinear), "clip" OpenAI's (224, bicubic).
 */
GRAIL_API const char *grail_image_preset_at(int i);

#ifdef __cplusplus
}
#endif
#endif
