/* The files that an input of a run consists of, as rank 0 lists them and tells the others. */
#ifndef GRAIL_PIPELINE_INPUTS_FILE_LIST_H
#define GRAIL_PIPELINE_INPUTS_FILE_LIST_H

#include "base/buffer.h"
#include "base/file.h"

typedef struct listed_file {
    char *name; /* below the root */
    file_identity identity;
} listed_file;

typedef struct file_list {
    char *root;  /* the directory of the files, by the path that was listed */
    char *opens; /* the file of these that the path names; NULL: the root itself */
    listed_file *files;
    size_t count;
} file_list;

/** A file, or what lies in a directory and in the directories in it, but for names that begin with
 * a dot: texts, images in a folder for each class. Links are followed. file_list_fini frees *out,
 * also after a failure. */
grail_status file_list_of_data(const char *path, file_list *out) GRAIL_MUST_CHECK;

/** The weights that opening a model at `path` reads, and the small files beside them that say how:
 * configurations, tokenizers, what it was calibrated on. Not weights in other formats. */
grail_status file_list_of_model(const char *path, file_list *out) GRAIL_MUST_CHECK;

void file_list_fini(file_list *list); /* works on a zeroed one */

/** Whether `path` shows this process the very files of the list: the same names, inodes, sizes and
 * times of change. So it does on rank 0's machine and on a disk that the machines share. */
grail_status file_list_is_seen(const file_list *list, const char *path, bool *out) GRAIL_MUST_CHECK;

/** Appends the list, without its root. */
grail_status file_list_write(const file_list *list, buffer *out) GRAIL_MUST_CHECK;
/** Reads one at *at, and moves *at behind it; what is no such list, or names a file that does not
 * lie below its root, is GRAIL_ERROR_FORMAT. file_list_fini frees *out, also after a failure. */
grail_status file_list_read(const buffer *in, size_t *at, file_list *out) GRAIL_MUST_CHECK;

#endif
