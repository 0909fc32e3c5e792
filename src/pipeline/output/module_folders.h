/* Folders beside the weights of a sentence encoder: modules.json names them, such as 1_Pooling, and
 * each holds the settings of a module that works on the encoder's output. */
#ifndef GRAIL_PIPELINE_OUTPUT_MODULE_FOLDERS_H
#define GRAIL_PIPELINE_OUTPUT_MODULE_FOLDERS_H

#include "base/name_list.h"
#include "base/status.h"

/**
 * The settings in these folders, as "1_Pooling/config.json", in the order of modules.json and of
 * names. Files that are not JSON, and folders within, are left out; so is a folder that is not
 * there, since a module without settings has none. Nothing where the directory has no modules.json,
 * or one that is no list of modules. GRAIL_ERROR_FORMAT for a folder that is not the name of one
 * beside the weights, and GRAIL_ERROR_ARGUMENT for a link. *out is released with name_list_fini,
 * even after a failure.
 */
grail_status module_folders_list(const char *directory, name_list *out) GRAIL_MUST_CHECK;

#endif
