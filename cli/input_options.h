/* Options of the commands that read text or images, whichever the model reads. */
#ifndef GRAIL_CLI_INPUT_OPTIONS_H
#define GRAIL_CLI_INPUT_OPTIONS_H

#include "options.h"

#include <grail/images.h>
#include <grail/text.h>

/** The rows of all options of a list of the library that say how samples are read, or measured;
 * they set fields of `owner`. */
#define TEXT_OPTIONS(owner)                                                                        \
    FIELDS_OF(GROUP_INPUT, grail_text_option_at, GRAIL_SUBJECT_READ, (owner))
#define IMAGE_OPTIONS(owner)                                                                       \
    FIELDS_OF(GROUP_INPUT, grail_image_option_at, GRAIL_SUBJECT_READ, (owner))

/** Whether any option of such a list was given. */
bool list_given(grail_option_at at);

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
