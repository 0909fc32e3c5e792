/* A folder of JPEG and PNG files: the files in a fixed order, each with its class from its
 * subfolder or from a CSV. */
#ifndef GRAIL_FORMAT_IMAGES_IMAGE_FOLDER_H
#define GRAIL_FORMAT_IMAGES_IMAGE_FOLDER_H

#include "base/hash.h"
#include "base/memory.h"

typedef struct image_file {
    char *name; /* relative to the folder: "class/file.jpg" or "file.jpg" */
    int64_t size;
    int64_t label; /* class index, -1 = none */
} image_file;

typedef struct image_folder {
    char *path;
    image_file *files; /* sorted by class, then by name, as bytes */
    int64_t count;
    int64_t classes;        /* that the labels are indices of; 0 without labels */
    char class_notice[256]; /* why the classes may be in another order than is meant, or "" */
    char hash[HASH_TEXT_SIZE];
} image_folder;

/**
 * Lists a folder. Subfolders are classes, indexed in the order of their names as torchvision's
 * ImageFolder does; without subfolders, `labels` is NULL or the path of a CSV "file,class index",
 * with or without a header line, in which every file must have exactly one line. Names that begin
 * with a dot and files with other endings are skipped. Images in formats that grail cannot read are
 * refused.
 */
grail_status image_folder_open(const char *path, const char *labels,
                               image_folder *out) GRAIL_MUST_CHECK;
/** Gives every class folder the index of the class that has its name, among `names` [count], of
 * which some may be NULL. No label changes where a folder has the name of no class, or of several,
 * and where there are no class folders; a notice says which folder it is if others have one. */
grail_status image_folder_name_classes(image_folder *folder, const char *const *names,
                                       int64_t count) GRAIL_MUST_CHECK;
void image_folder_close(image_folder *folder); /* works on a zeroed one */

#endif
