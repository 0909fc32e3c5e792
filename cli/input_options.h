/* Options of the commands that read text or images, as the model does. */
#ifndef GRAIL_CLI_INPUT_OPTIONS_H
#define GRAIL_CLI_INPUT_OPTIONS_H

#include "options.h"

#include <grail/images.h>

typedef struct image_options {
    grail_image_source source;
    option_triple mean, deviation;
} image_options;

/** Lines of a command's table that fill the image_options `o`, a static variable; `usual` is the
 * default split as help shows it. */
#define IMAGE_OPTIONS(o, usual)                                                                    \
    {"preset", OPTION_TEXT, &(o).source.preset, "NAME", PRESET_NAMES, PRESET_HELP},                \
        {"split", OPTION_TEXT, &(o).source.split, "NAME", "train test", SPLIT_HELP(usual)},        \
        {"size", OPTION_INTEGER, &(o).source.size, "N", NULL, SIZE_HELP},                          \
        {"mean", OPTION_TRIPLE, &(o).mean, "R,G,B", NULL, MEAN_HELP},                              \
    {                                                                                              \
        "std", OPTION_TRIPLE, &(o).deviation, "R,G,B", NULL, STD_HELP                              \
    }
#define PRESET_NAMES "cifar cifar-imagenet cifar-plain imagenet clip vit"
#define PRESET_HELP "how images are resized, cropped and scaled (the model's)"
#define SPLIT_HELP(usual) "of CIFAR batches (" usual ")"
#define SIZE_HELP "side of the network's input (of the preset)"
#define MEAN_HELP "subtracted from the colours (of the preset)"
#define STD_HELP "divides the colours (of the preset)"

/** Whether one of them was given. */
bool image_options_given(const image_options *o);

/** The images in `path`, or with NULL none, read as the options say; borrowed. */
const grail_image_source *image_options_source(image_options *o, const char *path);

/** Options of one kind of input: whether any was given, and the names of all for a message. */
typedef struct kind_options {
    bool given;
    const char *names;
} kind_options;

/** EXIT_USAGE with a message where an option was given that is not for what the model at `path`
 * reads: it would be without effect. Else EXIT_OK. */
int check_kind_options(const command *c, const char *path, bool reads_images, kind_options of_text,
                       kind_options of_images);

#endif
