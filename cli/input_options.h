/* Options of the commands that read text or images, whichever the model reads. */
#ifndef GRAIL_CLI_INPUT_OPTIONS_H
#define GRAIL_CLI_INPUT_OPTIONS_H

#include "options.h"

#include <grail/images.h>
#include <grail/text.h>

typedef struct image_options {
    grail_image_source source;
    option_triple mean, deviation;
} image_options;

/** Rows of a command's table that fill the image_options `o`, a static variable; `usual` is the
 * default split that the help shows. */
/* clang-format off */
#define IMAGE_OPTIONS(o, usual)                                                                    \
    {GROUP_INPUT, "preset", OPTION_TEXT, &(o).source.preset, "NAME",                               \
     WORDS("cifar", "cifar-imagenet", "cifar-plain", "imagenet", "clip", "vit", "vit-square"), .help =                      \
     "how to resize, crop and scale images: cifar, cifar-imagenet, cifar-plain, imagenet, clip, "  \
     "vit or vit-square (the model's)", .only_with = OF_SAMPLES},                                                           \
    {GROUP_INPUT, "split", OPTION_TEXT, &(o).source.split, "NAME", WORDS("train", "test"), .help =           \
     "part of a directory of CIFAR batches to read: train or test (" usual ")", \
     .only_with = OF_SAMPLES},                   \
    {GROUP_INPUT, "size", OPTION_INTEGER, &(o).source.size, "N", NULL, .help =                     \
     "side of the network's input in pixels (the network's, or the preset's)", \
     .only_with = OF_SAMPLES},                    \
    {GROUP_INPUT, "mean", OPTION_TRIPLE, &(o).mean, "R,G,B", NULL, .help =                         \
     "mean to subtract from the colours, which range from 0 to 1 (the preset's)", \
     .only_with = OF_SAMPLES},                 \
    {GROUP_INPUT, "std", OPTION_TRIPLE, &(o).deviation, "R,G,B", NULL,                             \
     .field = "deviation", .help =                                                                 \
     "standard deviation to divide the colours by (the preset's)", .only_with = OF_SAMPLES}
/* clang-format on */

/** Whether no preset was given, so that the model says how its images are prepared. */
bool image_options_follow_model(const image_options *o);

/** Whether any option of grail_text_option_at was given. */
bool text_options_given(const grail_text_source *source);

/** Whether any of these options was given. */
bool image_options_given(const image_options *o);

/** The source of the images in `path`, read as the options say; NULL for random images. Borrowed
 * from `o`. */
const grail_image_source *image_options_source(image_options *o, const char *path);

/** The options that apply to one kind of input: whether any was given, and the names of all of them
 * for a message. */
typedef struct kind_options {
    bool given;
    const char *names;
} kind_options;

/** EXIT_USAGE with a message when an option was given that has no effect because the model at
 * `path` reads the other kind of input; else EXIT_OK. */
int check_kind_options(const command *c, const char *path, bool reads_images, kind_options of_text,
                       kind_options of_images);

#endif
